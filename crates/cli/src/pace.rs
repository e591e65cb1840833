//! How often the controller's thread wakes up: what happens meanwhile is taken together.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two wake-ups. It is nothing to a pod that is started or stopped, and one after a pause is not
/// held up at all.
const WAKE_INTERVAL: Duration = Duration::from_millis(2);

/// To be called when the thread wakes up. A wake-up for a single event costs a multiple of deciding on it, so when much
/// happens on a cluster the kernel gathers it while the thread sleeps on (docs/performance.md).
pub fn gather() -> impl Fn() + Send + Sync {
    let woken_at = Mutex::new(Instant::now());
    move || {
        let mut woken_at = woken_at.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::sleep(WAKE_INTERVAL.saturating_sub(woken_at.elapsed()));
        *woken_at = Instant::now();
    }
}
