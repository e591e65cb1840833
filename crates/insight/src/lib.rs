//! Answers to operators' questions about DaemonSets, from a [`Snapshot`](snapshot::Snapshot) of a cluster.
//!
//! Pure: no I/O, no clock. Where a question is what the controller decides or will decide, the core itself
//! answers; nothing here knows its rules a second time.
#![forbid(unsafe_code)]

pub mod explain;
pub mod forecast;
pub mod history;
mod known;
pub mod names;
pub mod overview;
pub mod rollout;
pub mod snapshot;
