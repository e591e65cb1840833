//! Decides which failing requests to log. No I/O, no clock.
//!
//! An outage fails every watch, write, Event and renewal at once. It is logged as one line when it
//! begins, one per minute while it lasts, and one when it ends. Requests that a reachable server
//! refuses are logged per subject: the first, then one per minute while they fail.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Minimum interval between two lines about the same failure.
const REPEAT_AFTER: Duration = Duration::from_secs(60);
/// For this long after an outage, refusals and broken connections are part of it: a server refuses
/// some requests until its caches are warm (403).
const SETTLE_TIME: Duration = Duration::from_secs(10);

/// What a failure shows about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// It is unreachable: there was no answer, or a proxy answered in its place.
    Unreachable,
    /// It is reachable, and refuses the request.
    Refused,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LogLine {
    /// An outage began.
    Unreachable { cause: String },
    /// An outage goes on.
    StillUnreachable { after: Duration, cause: String },
    /// An outage ended.
    ReachableAgain { after: Duration },
    /// Requests with this subject fail.
    Failing { subject: String, cause: String },
    /// They still fail.
    StillFailing { subject: String, after: Duration, cause: String },
    /// They succeed again.
    Recovered { subject: String, after: Duration },
}

/// All current failures. Times are durations since a fixed moment.
#[derive(Debug, Default)]
pub(super) struct OutageState {
    outage: Option<Outage>,
    /// The end of the last outage.
    ended_at: Option<Duration>,
    /// The end of the last outage that was logged.
    end_logged_at: Option<Duration>,
    /// By subject.
    failing: BTreeMap<String, OngoingFailure>,
}

#[derive(Debug)]
struct Outage {
    since: Duration,
    /// `None` until it is logged, which waits if it began shortly after the last one.
    logged_at: Option<Duration>,
}

#[derive(Debug)]
struct OngoingFailure {
    since: Duration,
    logged_at: Duration,
}

impl OutageState {
    /// A request failed. Returns the line to log.
    pub(super) fn failed(
        &mut self,
        subject: &str,
        kind: FailureKind,
        cause: &str,
        now: Duration,
    ) -> Option<LogLine> {
        match kind {
            FailureKind::Unreachable => self.unreachable(cause, now),
            FailureKind::Refused => self.refused(subject, cause, now),
        }
    }

    /// A request succeeded.
    pub(super) fn answered(&mut self, now: Duration) -> Option<LogLine> {
        let outage = self.outage.take()?;
        self.ended_at = Some(now);
        outage.logged_at?;
        self.end_logged_at = Some(now);
        Some(LogLine::ReachableAgain { after: now.saturating_sub(outage.since) })
    }

    /// Requests with this subject succeed.
    pub(super) fn recovered(&mut self, subject: &str, now: Duration) -> Option<LogLine> {
        let failure = self.failing.remove(subject)?;
        let after = now.saturating_sub(failure.since);
        Some(LogLine::Recovered { subject: subject.to_owned(), after })
    }

    /// Removes a subject, which no longer exists.
    pub(super) fn forget(&mut self, subject: &str) {
        self.failing.remove(subject);
    }

    fn unreachable(&mut self, cause: &str, now: Duration) -> Option<LogLine> {
        let Some(outage) = &mut self.outage else {
            let is_new = !is_within(self.end_logged_at, SETTLE_TIME, now);
            self.outage = Some(Outage { since: now, logged_at: is_new.then_some(now) });
            return is_new.then(|| LogLine::Unreachable { cause: cause.to_owned() });
        };
        let after = now.saturating_sub(outage.since);
        let cause = cause.to_owned();
        match outage.logged_at {
            None if after < SETTLE_TIME => None,
            None => {
                outage.logged_at = Some(now);
                Some(LogLine::Unreachable { cause })
            }
            Some(at) if now.saturating_sub(at) < REPEAT_AFTER => None,
            Some(_) => {
                outage.logged_at = Some(now);
                Some(LogLine::StillUnreachable { after, cause })
            }
        }
    }

    fn refused(&mut self, subject: &str, cause: &str, now: Duration) -> Option<LogLine> {
        if self.outage.is_some() || is_within(self.ended_at, SETTLE_TIME, now) {
            return None;
        }
        let (subject, cause) = (subject.to_owned(), cause.to_owned());
        let Some(failure) = self.failing.get_mut(&subject) else {
            self.failing.insert(subject.clone(), OngoingFailure { since: now, logged_at: now });
            return Some(LogLine::Failing { subject, cause });
        };
        if now.saturating_sub(failure.logged_at) < REPEAT_AFTER {
            return None;
        }
        failure.logged_at = now;
        let after = now.saturating_sub(failure.since);
        Some(LogLine::StillFailing { subject, after, cause })
    }
}

fn is_within(at: Option<Duration>, limit: Duration, now: Duration) -> bool {
    at.is_some_and(|at| now.saturating_sub(at) < limit)
}

impl LogLine {
    /// Whether the line reports a failure rather than its end.
    pub(super) const fn is_warning(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::StillUnreachable { .. }
            | Self::Failing { .. }
            | Self::StillFailing { .. } => true,
            Self::ReachableAgain { .. } | Self::Recovered { .. } => false,
        }
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { cause } => write!(f, "the API server is unreachable: {cause}"),
            Self::StillUnreachable { after, cause } => {
                let after = format_duration(*after);
                write!(f, "the API server has been unreachable for {after}: {cause}")
            }
            Self::ReachableAgain { after } => {
                write!(f, "the API server is reachable again after {}", format_duration(*after))
            }
            Self::Failing { subject, cause } => write!(f, "{subject}: {cause}"),
            Self::StillFailing { subject, after, cause } => {
                write!(f, "{subject}: still failing after {}: {cause}", format_duration(*after))
            }
            Self::Recovered { subject, after } => {
                write!(f, "{subject}: works again after {}", format_duration(*after))
            }
        }
    }
}

/// A duration for people: `3.2 s`, `4 min`.
fn format_duration(duration: Duration) -> String {
    match duration.as_secs() {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        seconds => format!("{} min", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn text(line: Option<LogLine>) -> Option<String> {
        line.map(|line| line.to_string())
    }

    fn unreachable(state: &mut OutageState, now: f64) -> Option<String> {
        let subject = "list and watch of pods";
        text(state.failed(subject, FailureKind::Unreachable, "connection refused", at(now)))
    }

    fn refused(state: &mut OutageState, subject: &str, now: f64) -> Option<String> {
        text(state.failed(subject, FailureKind::Refused, "forbidden", at(now)))
    }

    fn answered(state: &mut OutageState, now: f64) -> Option<String> {
        text(state.answered(at(now)))
    }

    /// C64, C83: an outage is logged when it begins, every minute, and when it ends, however many
    /// requests fail.
    #[test]
    fn an_outage_is_logged_once_however_many_requests_fail() {
        let mut state = OutageState::default();
        assert_eq!(answered(&mut state, 0.0), None);
        let lines: Vec<String> = (10..1930)
            .filter_map(|tenth| unreachable(&mut state, f64::from(tenth) / 10.0))
            .collect();
        assert_eq!(
            lines,
            [
                "the API server is unreachable: connection refused",
                "the API server has been unreachable for 1 min: connection refused",
                "the API server has been unreachable for 2 min: connection refused",
                "the API server has been unreachable for 3 min: connection refused",
            ]
        );
        assert_eq!(refused(&mut state, "daemonset ns/a", 193.0), None);
        let end = answered(&mut state, 193.5);
        assert_eq!(end.as_deref(), Some("the API server is reachable again after 3 min"));
        assert_eq!(answered(&mut state, 194.0), None);
    }

    /// C64, C83: refusals and broken connections right after an outage belong to it; if they last,
    /// they are logged.
    #[test]
    fn failures_right_after_an_outage_belong_to_it() {
        let mut state = OutageState::default();
        assert!(unreachable(&mut state, 0.0).is_some());
        let end = answered(&mut state, 3.2);
        assert_eq!(end.as_deref(), Some("the API server is reachable again after 3.2 s"));
        assert_eq!(refused(&mut state, "daemonset ns/a", 4.0), None);
        assert_eq!(unreachable(&mut state, 5.0), None);
        assert_eq!(answered(&mut state, 5.1), None);
        assert_eq!(refused(&mut state, "daemonset ns/a", 14.0), None);
        let lasting = refused(&mut state, "daemonset ns/a", 15.2);
        assert_eq!(lasting.as_deref(), Some("daemonset ns/a: forbidden"));
        assert!(unreachable(&mut state, 15.3).is_some());
        // A second outage that does not end is logged, too.
        assert!(answered(&mut state, 16.0).is_some());
        assert_eq!(unreachable(&mut state, 17.0), None);
        assert!(unreachable(&mut state, 27.0).is_some());
    }

    /// C83: refusals are logged per subject, first at once, then every minute until they end.
    #[test]
    fn refusals_are_logged_per_subject() {
        let mut state = OutageState::default();
        assert_eq!(refused(&mut state, "events", 1.0).as_deref(), Some("events: forbidden"));
        assert_eq!(refused(&mut state, "events", 2.0), None);
        let other = refused(&mut state, "lease ns/l", 2.0);
        assert_eq!(other.as_deref(), Some("lease ns/l: forbidden"));
        let still = refused(&mut state, "events", 61.0);
        assert_eq!(still.as_deref(), Some("events: still failing after 1 min: forbidden"));
        assert_eq!(refused(&mut state, "events", 62.0), None);
        let recovered = text(state.recovered("events", at(70.0)));
        assert_eq!(recovered.as_deref(), Some("events: works again after 1 min"));
        assert_eq!(state.recovered("events", at(71.0)), None);
        state.forget("lease ns/l");
        assert_eq!(state.recovered("lease ns/l", at(71.0)), None);
    }
}
