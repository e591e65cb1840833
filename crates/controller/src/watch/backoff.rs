//! The pauses between the requests of a watch. No clock; the caller provides the randomness.
//!
//! Refused requests and lists have separate back-offs, since their costs differ.
//!
//! - A request that the server refuses at once (403, 429, 5xx, no connection) costs it little, and
//!   may succeed the next moment. It is repeated after at most 2.4 s. So work goes on within 5 s of
//!   the first success, however long the outage was (C64).
//! - A list costs the server much. A list that breaks off, or that must be repeated because no
//!   watch can follow it, is repeated with a back-off of up to half a minute.
//!
//! A complete list resets the first back-off; only a watch that succeeds resets both. An open
//! stream alone resets nothing, since it may bring only an error.

use std::time::Duration;

use crate::backoff::ExponentialBackoff;

const FIRST: Duration = Duration::from_millis(200);
/// Longest pause after a refused request; with jitter 2.4 s.
const REFUSED_MAX: Duration = Duration::from_millis(1600);
/// Longest pause before a list; with jitter 45 s.
const LIST_MAX: Duration = Duration::from_secs(30);

/// The back-offs of one watch, which double with each consecutive failure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    /// The number of lists that no successful watch has followed.
    lists: u32,
    /// True if the server has sent part of a list since the last pause.
    was_partly_sent: bool,
}

impl Backoff {
    /// The server has sent part of a list.
    pub(super) fn list_began(&mut self) {
        self.was_partly_sent = true;
    }

    /// A list is complete. It resets the back-off of refusals, not that of lists.
    pub(super) fn list_completed(&mut self) {
        self.failures = 0;
        self.was_partly_sent = true;
    }

    /// A watch has sent an event or was open for long. It resets both back-offs.
    pub(super) fn watch_succeeded(&mut self) {
        *self = Self::default();
    }

    /// The pause after one more failure. `jitter` in 0..1 lengthens it by up to its half.
    pub(super) fn failed(&mut self, is_list_next: bool, jitter: f64) -> Duration {
        let (failures, max) = if is_list_next && self.was_partly_sent {
            self.was_partly_sent = false;
            (&mut self.lists, LIST_MAX)
        } else {
            (&mut self.failures, REFUSED_MAX)
        };
        let pause = ExponentialBackoff { first: FIRST, max }.delay(*failures);
        *failures = failures.saturating_add(1);
        pause.mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C64: a refused request is repeated within 2.4 s, after outages of 20 s and of 3 minutes
    /// alike.
    #[test]
    fn a_refused_request_is_soon_repeated() {
        for is_list_next in [false, true] {
            let mut backoff = Backoff::default();
            let first: Vec<u128> =
                (0..5).map(|_| backoff.failed(is_list_next, 0.0).as_millis()).collect();
            assert_eq!(first, [200, 400, 800, 1600, 1600]);
            let mut outage = Duration::ZERO;
            while outage < Duration::from_secs(180) {
                let pause = backoff.failed(is_list_next, 1.0);
                assert!(pause < Duration::from_secs(3), "{pause:?} after {outage:?}");
                outage += pause;
            }
        }
    }

    /// C1, C64: a list that breaks off is repeated with a growing back-off; refusals in between
    /// don't increase it.
    #[test]
    fn a_list_that_breaks_off_is_repeated_with_a_back_off() {
        let mut backoff = Backoff::default();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            backoff.list_began();
            pauses.push(backoff.failed(true, 0.0).as_millis());
            assert!(backoff.failed(true, 1.0) < Duration::from_secs(3));
        }
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000]);
        backoff.list_began();
        assert_eq!(backoff.failed(true, 1.0), Duration::from_secs(45));
    }

    /// C1: a complete list resets the back-off of refusals, a successful watch both back-offs.
    #[test]
    fn successes_reset_the_back_offs() {
        let mut backoff = Backoff::default();
        for pause in [200, 400, 800] {
            backoff.list_completed();
            assert_eq!(backoff.failed(false, 0.0), FIRST);
            assert_eq!(backoff.failed(false, 0.0), 2 * FIRST);
            assert_eq!(backoff.failed(true, 0.0).as_millis(), pause);
        }
        backoff.list_completed();
        backoff.watch_succeeded();
        assert_eq!(backoff.failed(false, 0.0), FIRST);
        backoff.list_completed();
        assert_eq!(backoff.failed(true, 0.0), FIRST);
    }
}
