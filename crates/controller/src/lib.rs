//! Drives a cluster: watches in, decisions of the core, writes out.

#![forbid(unsafe_code)]

pub mod lease;
pub mod metrics;
pub mod recorder;
pub mod serve;
pub mod watch;
