//! Limits the log lines about objects that can't be read, so that a server that sends nothing
//! readable does not fill the log.

use std::time::Duration;

use tokio::time::Instant;

/// The interval to which the maximum number of lines applies.
const INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of lines in an interval.
const LINES_MAX: u32 = 20;

/// The line to log about a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogAction {
    /// The problem.
    Problem,
    /// That the problems until the end of the interval are only counted.
    Limit,
    /// Nothing.
    Nothing,
}

/// The problems of one watch in the current interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProblemLog {
    since: Option<Instant>,
    problems: u32,
}

impl ProblemLog {
    /// The line to log about a problem at `now`.
    pub(super) fn action(&mut self, now: Instant) -> LogAction {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= INTERVAL) {
            *self = Self { since: Some(now), problems: 0 };
        }
        self.problems = self.problems.saturating_add(1);
        match self.problems {
            ..=LINES_MAX => LogAction::Problem,
            problems if problems == LINES_MAX + 1 => LogAction::Limit,
            _ => LogAction::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C4: of many problems, the first ones of each minute are logged.
    #[test]
    fn the_first_problems_of_each_minute_are_logged() {
        let mut log = ProblemLog::default();
        let start = Instant::now();
        for minute in 0..3 {
            let now = start + minute * INTERVAL;
            let actions: Vec<LogAction> = (0..1000).map(|_| log.action(now)).collect();
            let of = |action| actions.iter().filter(|found| **found == action).count();
            assert_eq!(actions[0], LogAction::Problem);
            assert_eq!((of(LogAction::Problem), of(LogAction::Limit)), (LINES_MAX as usize, 1));
        }
    }
}
