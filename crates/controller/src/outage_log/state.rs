//! Decides which failing requests to log. No I/O, no clock.
//!
//! An outage fails every watch, write, Event and renewal at once. It is logged as one line when it
//! begins, one per minute while it lasts, and one when the server answers again, be it with a
//! refusal. Requests that fail although the server answers others are logged per subject: the
//! first, then one per minute while they fail.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Minimum interval between two lines about the same failure.
const REPEAT_AFTER: Duration = Duration::from_secs(60);
/// For this long after an outage, refusals and broken connections are part of it: a server refuses
/// some requests until its caches are warm (403).
const SETTLE_TIME: Duration = Duration::from_secs(10);

/// The kind of a failure, by what it shows about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// It is unreachable: there was no answer, or a proxy answered in its place.
    Unreachable,
    /// It is reachable, and refuses the request.
    Refused,
    /// Nothing: the sender of the request has reported whether there was an answer.
    Unknown,
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
    /// By subject, from its first failure until its requests succeed.
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
    /// The kind of the last failure.
    kind: FailureKind,
    since: Duration,
    /// `None` as long as it is part of an outage.
    logged_at: Option<Duration>,
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
        let new = OngoingFailure { kind, since: now, logged_at: None };
        let failure = self.failing.entry(subject.to_owned()).or_insert(new);
        let before = std::mem::replace(&mut failure.kind, kind);
        match (kind, &self.outage) {
            // The server has answered others since it did not answer this one.
            (FailureKind::Unreachable, None) if before == kind && failure.since < now => {
                self.of_subject(subject, cause, now)
            }
            (FailureKind::Unreachable, _) => self.unreachable(cause, now),
            (FailureKind::Refused, Some(_)) => self.answered(now),
            (FailureKind::Unknown, Some(_)) => None,
            (FailureKind::Refused | FailureKind::Unknown, None) => {
                self.of_subject(subject, cause, now)
            }
        }
    }

    /// The server answered a request.
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
        failure.logged_at?;
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

    /// A failure that is not, or no longer, part of an outage.
    fn of_subject(&mut self, subject: &str, cause: &str, now: Duration) -> Option<LogLine> {
        if is_within(self.ended_at, SETTLE_TIME, now) {
            return None;
        }
        let failure = self.failing.get_mut(subject)?;
        if is_within(failure.logged_at, REPEAT_AFTER, now) {
            return None;
        }
        let (subject, cause) = (subject.to_owned(), cause.to_owned());
        Some(match failure.logged_at.replace(now) {
            None => LogLine::Failing { subject, cause },
            Some(_) => {
                let after = now.saturating_sub(failure.since);
                LogLine::StillFailing { subject, after, cause }
            }
        })
    }
}

fn is_within(at: Option<Duration>, limit: Duration, now: Duration) -> bool {
    at.is_some_and(|at| now.saturating_sub(at) < limit)
}

impl LogLine {
    /// True if the line reports a failure rather than its end.
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

    const PODS: &str = "list and watch of pods";

    fn unreachable(state: &mut OutageState, now: f64) -> Option<String> {
        text(state.failed(PODS, FailureKind::Unreachable, "connection refused", at(now)))
    }

    fn refused(state: &mut OutageState, subject: &str, now: f64) -> Option<String> {
        text(state.failed(subject, FailureKind::Refused, "forbidden", at(now)))
    }

    fn answered(state: &mut OutageState, now: f64) -> Option<String> {
        let line = text(state.answered(at(now)));
        assert_eq!(state.recovered(PODS, at(now)), None);
        line
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
        let write = state.failed("daemonset ns/a", FailureKind::Unknown, "not written", at(193.0));
        assert_eq!(write, None);
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

    /// A failure of the lease's requests, tried every two seconds, beside a watch that gets events.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Failing {
        /// Nothing answers.
        Server,
        /// The server refuses the lease.
        Lease(FailureKind),
        Nothing,
    }

    /// The lines of the failures, one after the other for 100 s each, with the second of each.
    fn lines_of(failures: &[Failing]) -> Vec<String> {
        let mut state = OutageState::default();
        let mut lines = Vec::new();
        for (second, failing) in (0_u16..).step_by(2).zip(failures.iter().flat_map(|it| [it; 50])) {
            let now = at(f64::from(second));
            let lease = match failing {
                Failing::Server => Some((FailureKind::Unreachable, "connection refused")),
                Failing::Lease(kind) => Some((*kind, "no")),
                Failing::Nothing => None,
            };
            let mut log =
                |line: Option<LogLine>| lines.extend(line.map(|it| format!("{second} {it}")));
            match lease {
                Some((kind, cause)) => log(state.failed("lease", kind, cause, now)),
                None => {
                    log(state.answered(now));
                    log(state.recovered("lease", now));
                }
            }
            match failing {
                Failing::Server => {
                    log(state.failed("watch", FailureKind::Unreachable, "connection refused", now));
                }
                Failing::Lease(FailureKind::Refused) => {}
                Failing::Lease(_) | Failing::Nothing => {
                    log(state.answered(now));
                    log(state.recovered("watch", now));
                }
            }
        }
        lines
    }

    /// C83: of two failures, one after the other, the second is logged as if there had been no
    /// first one, and the end of each once.
    #[test]
    fn each_pair_of_failures_is_logged() {
        use Failing::{Lease, Nothing, Server};
        let refused = Lease(FailureKind::Refused);
        let unanswered = Lease(FailureKind::Unreachable);
        let pairs = [
            [refused, Server, refused, Nothing],
            [Server, refused, Server, Nothing],
            [unanswered, Server, unanswered, Nothing],
            [refused, unanswered, refused, Nothing],
        ];
        let lines = pairs.map(|failures| lines_of(&failures).join("\n")).join("\n\n");
        assert_eq!(lines, LINES_OF_PAIRS);
    }

    const LINES_OF_PAIRS: &str = "\
0 lease: no
60 lease: still failing after 1 min: no
100 the API server is unreachable: connection refused
160 the API server has been unreachable for 1 min: connection refused
200 the API server is reachable again after 1 min
210 lease: still failing after 3 min: no
270 lease: still failing after 4 min: no
300 lease: works again after 5 min

0 the API server is unreachable: connection refused
60 the API server has been unreachable for 1 min: connection refused
100 the API server is reachable again after 1 min
110 lease: no
170 lease: still failing after 2 min: no
200 the API server is unreachable: connection refused
260 the API server has been unreachable for 1 min: connection refused
300 the API server is reachable again after 1 min
300 lease: works again after 5 min

0 the API server is unreachable: no
0 the API server is reachable again after 0.0 s
10 lease: no
70 lease: still failing after 1 min: no
100 the API server is unreachable: connection refused
160 the API server has been unreachable for 1 min: connection refused
200 the API server is reachable again after 1 min
210 lease: still failing after 3 min: no
270 lease: still failing after 4 min: no
300 lease: works again after 5 min

0 lease: no
60 lease: still failing after 1 min: no
100 the API server is unreachable: no
100 the API server is reachable again after 0.0 s
120 lease: still failing after 2 min: no
180 lease: still failing after 3 min: no
240 lease: still failing after 4 min: no
300 lease: works again after 5 min";
}
