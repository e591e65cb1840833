//! The simulated cluster.

pub mod garbage_collector;
pub mod lifecycle;
