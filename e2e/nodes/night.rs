//! The stories (`make e2e-nodes`, `make night`), by what is done.

mod containers;
mod faults;
mod guarded;
mod rollout;
