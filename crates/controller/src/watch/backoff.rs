//! How long to wait before asking again. No clock, and the randomness is the caller's.
//!
//! There are two pauses, because there are two costs. What a server refuses at once (403, 429, 5xx, no connection) costs
//! it next to nothing, and it may answer the next moment: such requests are repeated after 2.4 s at most, so that work
//! goes on within 5 s of the first good answer, however long the outage was (C64). A list costs the server much: one
//! that breaks off midway, or that has to be repeated because no watch can follow it, is repeated ever later, up to half
//! a minute.
//!
//! A pause starts over when something has been of use: a complete list for the first kind, and only what a watch
//! brings for the second. That a stream opens means nothing: it may bring an error and no more.

use std::time::Duration;

use crate::backoff::ExponentialBackoff;

const FIRST: Duration = Duration::from_millis(200);
/// Longest pause after a request that was refused at once; with jitter 2.4 s.
const REFUSED_MAX: Duration = Duration::from_millis(1600);
/// Longest pause before a list is repeated; with jitter 45 s.
const LIST_MAX: Duration = Duration::from_secs(30);

/// Doubles with each failure in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
    /// Lists that the server was asked for in vain.
    lists: u32,
    /// Whether part of a list has been sent since the last pause.
    has_cost: bool,
}

impl Backoff {
    /// Part of a list came.
    pub fn list_began(&mut self) {
        self.has_cost = true;
    }

    /// A list is complete. It has been of use; but if no watch can follow it, the next one is no sooner for that.
    pub fn list_completed(&mut self) {
        self.failures = 0;
        self.has_cost = true;
    }

    /// A watch brought something, or was open for long.
    pub fn watch_was_of_use(&mut self) {
        *self = Self::default();
    }

    /// The pause after one more failure, before a list or before a watch. `jitter` in 0..1 stretches it by up to its half.
    pub fn failed(&mut self, is_list_next: bool, jitter: f64) -> Duration {
        let (failures, max) = if is_list_next && self.has_cost {
            self.has_cost = false;
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

    /// C64: what is refused at once is asked for again within 2.4 s, after 20 s and after 3 minutes of absence alike.
    #[test]
    fn a_request_that_is_refused_at_once_is_soon_repeated() {
        for is_list_next in [false, true] {
            let mut backoff = Backoff::default();
            let first: Vec<u128> =
                (0..5).map(|_| backoff.failed(is_list_next, 0.0).as_millis()).collect();
            assert_eq!(first, [200, 400, 800, 1600, 1600]);
            let mut away = Duration::ZERO;
            while away < Duration::from_secs(180) {
                let pause = backoff.failed(is_list_next, 1.0);
                assert!(pause < Duration::from_secs(3), "{pause:?} after {away:?}");
                away += pause;
            }
        }
    }

    /// C1, C64: a list that breaks off midway is repeated ever later; refusals in between are not held against it.
    #[test]
    fn a_list_that_breaks_off_is_repeated_ever_later() {
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

    /// C1: what has been of use starts the pauses over: a complete list those of refusals, a watch those of lists, too.
    #[test]
    fn what_has_been_of_use_starts_the_pauses_over() {
        let mut backoff = Backoff::default();
        for pause in [200, 400, 800] {
            backoff.list_completed();
            assert_eq!(backoff.failed(false, 0.0), FIRST);
            assert_eq!(backoff.failed(false, 0.0), 2 * FIRST);
            assert_eq!(backoff.failed(true, 0.0).as_millis(), pause);
        }
        backoff.list_completed();
        backoff.watch_was_of_use();
        assert_eq!(backoff.failed(false, 0.0), FIRST);
        backoff.list_completed();
        assert_eq!(backoff.failed(true, 0.0), FIRST);
    }
}
