//! The wall clock. The rest of the crate takes the time as an argument or reads it here.

use everynode_core::api::Timestamp;

/// The current time.
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// The current time in milliseconds, as decisions use it.
pub(crate) fn timestamp() -> Timestamp {
    Timestamp(now().as_millisecond())
}
