//! Drives a cluster: watches in, decisions of the core, writes out.
//!
//! One task owns all state and matches one closed [`event::Event`]; what it knows is an [`index`], what
//! it looks at next a [`queue`], both sans-IO. Writes run beside it and report back.

#![forbid(unsafe_code)]

pub mod api;
mod backoff;
pub mod client;
pub mod decode;
pub mod event;
pub mod event_loop;
pub mod executor;
pub mod index;
pub mod lease;
pub mod metrics;
pub mod observation;
pub mod orphans;
pub mod outage_log;
pub mod queue;
mod rate_limit;
pub mod recorder;
mod run;
pub mod serve;
mod supervisor;
mod wall_clock;
pub mod watch;

pub use everynode_core::plan::ScheduleBy;
pub use run::{Error, LeaderElection, Options, run};
