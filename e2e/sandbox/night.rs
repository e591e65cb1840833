//! Tests of large clusters, and those that wait for a minute and longer (`make night`).

mod guarded;
mod many;
mod takeover;
