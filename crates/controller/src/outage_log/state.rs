//! What the log says of failing requests: which failures are news, and which repeat what it has said already.
//!
//! A server that is away fails every watch, write, event and renewal at once. That is one line when it goes, one a minute
//! while it is away, and one when it is back. What a server refuses that is there is one line for each subject, and one a
//! minute while that lasts. Nothing is decided here but what is logged.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Between two lines about the same trouble.
const REPEAT_AFTER: Duration = Duration::from_secs(60);
/// A server that is back refuses some requests until its caches are warm (403), and some connections still break. For
/// this long that is part of the outage.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);

/// What a failure says of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No answer, or one of a proxy on its behalf: it is away.
    Unreachable,
    /// It is there, and does not do what it was asked for.
    Refused,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Gone { cause: String },
    StillGone { after: Duration, cause: String },
    Back { after: Duration },
    Fails { subject: String, cause: String },
    StillFails { subject: String, after: Duration, cause: String },
    Works { subject: String, after: Duration },
}

/// All that is failing.
#[derive(Debug, Default)]
pub struct State {
    away: Option<Outage>,
    back_at: Option<Duration>,
    back_reported_at: Option<Duration>,
    refused: BTreeMap<String, Refusal>,
}

#[derive(Debug)]
struct Outage {
    since: Duration,
    /// `None`: it began so soon after the last one that it has not been reported.
    reported_at: Option<Duration>,
}

#[derive(Debug)]
struct Refusal {
    since: Duration,
    reported_at: Duration,
}

impl State {
    /// A request failed. `now` counts from any fixed moment. Returns what is news about it.
    pub fn failed(
        &mut self,
        subject: &str,
        sign: FailureKind,
        cause: &str,
        now: Duration,
    ) -> Option<Report> {
        match sign {
            FailureKind::Unreachable => self.away(cause, now),
            FailureKind::Refused => self.refused(subject, cause, now),
        }
    }

    /// The server did what it was asked for.
    pub fn answered(&mut self, now: Duration) -> Option<Report> {
        let outage = self.away.take()?;
        self.back_at = Some(now);
        outage.reported_at?;
        self.back_reported_at = Some(now);
        Some(Report::Back { after: now.saturating_sub(outage.since) })
    }

    /// What failed for this subject works.
    pub fn works(&mut self, subject: &str, now: Duration) -> Option<Report> {
        let trouble = self.refused.remove(subject)?;
        let after = now.saturating_sub(trouble.since);
        Some(Report::Works { subject: subject.to_owned(), after })
    }

    /// The subject is no more.
    pub fn forget(&mut self, subject: &str) {
        self.refused.remove(subject);
    }

    fn away(&mut self, cause: &str, now: Duration) -> Option<Report> {
        let Some(outage) = &mut self.away else {
            let is_news = !is_within(self.back_reported_at, SETTLES_WITHIN, now);
            self.away = Some(Outage { since: now, reported_at: is_news.then_some(now) });
            return is_news.then(|| Report::Gone { cause: cause.to_owned() });
        };
        let after = now.saturating_sub(outage.since);
        let cause = cause.to_owned();
        match outage.reported_at {
            None if after < SETTLES_WITHIN => None,
            None => {
                outage.reported_at = Some(now);
                Some(Report::Gone { cause })
            }
            Some(at) if now.saturating_sub(at) < REPEAT_AFTER => None,
            Some(_) => {
                outage.reported_at = Some(now);
                Some(Report::StillGone { after, cause })
            }
        }
    }

    fn refused(&mut self, subject: &str, cause: &str, now: Duration) -> Option<Report> {
        if self.away.is_some() || is_within(self.back_at, SETTLES_WITHIN, now) {
            return None;
        }
        let (subject, cause) = (subject.to_owned(), cause.to_owned());
        let Some(trouble) = self.refused.get_mut(&subject) else {
            self.refused.insert(subject.clone(), Refusal { since: now, reported_at: now });
            return Some(Report::Fails { subject, cause });
        };
        if now.saturating_sub(trouble.reported_at) < REPEAT_AFTER {
            return None;
        }
        trouble.reported_at = now;
        let after = now.saturating_sub(trouble.since);
        Some(Report::StillFails { subject, after, cause })
    }
}

fn is_within(at: Option<Duration>, limit: Duration, now: Duration) -> bool {
    at.is_some_and(|at| now.saturating_sub(at) < limit)
}

impl Report {
    /// Whether something is wrong, rather than right again.
    pub const fn is_warning(&self) -> bool {
        match self {
            Self::Gone { .. }
            | Self::StillGone { .. }
            | Self::Fails { .. }
            | Self::StillFails { .. } => true,
            Self::Back { .. } | Self::Works { .. } => false,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { cause } => write!(f, "the API server is away: {cause}"),
            Self::StillGone { after, cause } => {
                write!(f, "the API server has been away for {}: {cause}", spelt(*after))
            }
            Self::Back { after } => write!(f, "the API server is back after {}", spelt(*after)),
            Self::Fails { subject, cause } => write!(f, "{subject}: {cause}"),
            Self::StillFails { subject, after, cause } => {
                write!(f, "{subject}: still failing after {}: {cause}", spelt(*after))
            }
            Self::Works { subject, after } => {
                write!(f, "{subject}: works again after {}", spelt(*after))
            }
        }
    }
}

/// As people say it: `3.2 s`, `4 min`.
fn spelt(duration: Duration) -> String {
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

    fn line(report: Option<Report>) -> Option<String> {
        report.map(|report| report.to_string())
    }

    fn away(state: &mut State, now: f64) -> Option<String> {
        line(state.failed(
            "list and watch of pods",
            FailureKind::Unreachable,
            "connection refused",
            at(now),
        ))
    }

    fn refused(state: &mut State, subject: &str, now: f64) -> Option<String> {
        line(state.failed(subject, FailureKind::Refused, "forbidden", at(now)))
    }

    fn answered(state: &mut State, now: f64) -> Option<String> {
        line(state.answered(at(now)))
    }

    /// C64, C83: an outage is reported when it begins, each minute, and when it is over, however many requests fail.
    #[test]
    fn an_outage_is_reported_once_however_many_requests_fail() {
        let mut state = State::default();
        assert_eq!(answered(&mut state, 0.0), None);
        let lines: Vec<String> =
            (10..1930).filter_map(|tenth| away(&mut state, f64::from(tenth) / 10.0)).collect();
        assert_eq!(
            lines,
            [
                "the API server is away: connection refused",
                "the API server has been away for 1 min: connection refused",
                "the API server has been away for 2 min: connection refused",
                "the API server has been away for 3 min: connection refused",
            ]
        );
        assert_eq!(refused(&mut state, "daemonset ns/a", 193.0), None);
        let back = answered(&mut state, 193.5);
        assert_eq!(back.as_deref(), Some("the API server is back after 3 min"));
        assert_eq!(answered(&mut state, 194.0), None);
    }

    /// C64, C83: what a server refuses, and which connections break, right after it is back belongs to the outage; what
    /// lasts is reported.
    #[test]
    fn a_server_that_is_back_is_given_time_to_settle() {
        let mut state = State::default();
        assert!(away(&mut state, 0.0).is_some());
        let back = answered(&mut state, 3.2);
        assert_eq!(back.as_deref(), Some("the API server is back after 3.2 s"));
        assert_eq!(refused(&mut state, "daemonset ns/a", 4.0), None);
        assert_eq!(away(&mut state, 5.0), None);
        assert_eq!(answered(&mut state, 5.1), None);
        assert_eq!(refused(&mut state, "daemonset ns/a", 14.0), None);
        let lasting = refused(&mut state, "daemonset ns/a", 15.2);
        assert_eq!(lasting.as_deref(), Some("daemonset ns/a: forbidden"));
        assert!(away(&mut state, 15.3).is_some());
        // A second outage that does not end is reported, too.
        assert!(answered(&mut state, 16.0).is_some());
        assert_eq!(away(&mut state, 17.0), None);
        assert!(away(&mut state, 27.0).is_some());
    }

    /// C83: what is refused is reported for each subject, once and then each minute, until it works.
    #[test]
    fn a_refusal_is_reported_for_each_subject() {
        let mut state = State::default();
        assert_eq!(refused(&mut state, "events", 1.0).as_deref(), Some("events: forbidden"));
        assert_eq!(refused(&mut state, "events", 2.0), None);
        let other = refused(&mut state, "lease ns/l", 2.0);
        assert_eq!(other.as_deref(), Some("lease ns/l: forbidden"));
        let still = refused(&mut state, "events", 61.0);
        assert_eq!(still.as_deref(), Some("events: still failing after 1 min: forbidden"));
        assert_eq!(refused(&mut state, "events", 62.0), None);
        let works = line(state.works("events", at(70.0)));
        assert_eq!(works.as_deref(), Some("events: works again after 1 min"));
        assert_eq!(state.works("events", at(71.0)), None);
        state.forget("lease ns/l");
        assert_eq!(state.works("lease ns/l", at(71.0)), None);
    }
}
