//! The simulated cluster.

pub mod lifecycle;
