//! Deterministic simulation: the real controller against the real sandbox, in one thread, with virtual
//! time and faults in between. One seed is one schedule; see docs/simulation.md.

#![forbid(unsafe_code)]

pub mod checker;
mod cluster_state;
pub mod failure;
pub mod fault;
mod leader_run;
mod list_watch;
pub mod mutation;
mod network;
pub mod runner;
pub mod scenario;
pub mod schedule;
mod serve;
pub mod shrink;
mod watch_fault;
mod wire;
pub mod workload;
pub mod world;
