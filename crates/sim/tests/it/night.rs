//! Tests that play every scenario again and again: `make night` runs them, `make test` leaves them
//! out.

mod bytes;
mod crash;
mod guarded;
mod mutations;
mod regressions;
mod watch_faults;
