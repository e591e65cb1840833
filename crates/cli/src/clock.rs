//! The wall clock.

use everynode_core::api::Timestamp;

/// The current time.
pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}
