//! Requests that panic. A panic is a bug, and ends one request rather than the sandbox.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Reason, Status};

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// True if a panic of this thread ends only a request, which is answered with 500. A program that
/// reports panics should leave out their messages then: they may quote the request.
pub fn is_request() -> bool {
    IS_CAUGHT.get()
}

/// Does a part of a request.
///
/// # Errors
/// 500 if it panics. What it has changed stays, and no lock stays locked.
pub(crate) fn catching<T>(part: impl FnOnce() -> T) -> Result<T, Status> {
    let outer = IS_CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(part));
    IS_CAUGHT.set(outer);
    done.map_err(|_| {
        Status::new(Reason::InternalError, "the request failed because of a bug of the sandbox")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S12: a request that panics is answered with 500, and the next one is served.
    #[test]
    fn a_panic_ends_one_request() {
        let failed = catching(|| {
            assert!(is_request());
            if is_request() {
                panic!("a bug");
            }
        });
        assert_eq!(failed.map_err(|status| status.code()), Err(500));
        assert!(!is_request());
        assert_eq!(catching(|| 1).ok(), Some(1));
    }
}
