//! Deterministic simulation of the controller against the sandbox, in one thread and in virtual
//! time, with injected faults.
//!
//! A [`schedule::Schedule`] contains all inputs of a run. It is drawn from a seed or read from a
//! file. [`world::World`] plays it: it contains the sandbox's cluster and the replicas of the
//! controller, and a queue of scheduled events such as the delivery of a watch's changes or the
//! arrival of a request. [`workload`] changes the cluster, [`fault`] draws faults of the
//! connections, and [`checker`] compares each write of the controller, and at the end the cluster
//! at rest, with the properties that must hold.
//!
//! - [`runner`] plays the schedule of a seed, and [`shrink`] reduces a schedule that violates a
//!   property.
//! - [`mutation`] has deliberate bugs, with which tests verify that the checkers find violations.
//!
//! The same seed always gives the same run: all random numbers come from the seed, in a fixed
//! order. docs/simulation.md describes the faults, the checks and the results.

#![forbid(unsafe_code)]

// The allocator of the program that is simulated, which is also faster than the C library's.
use everynode_allocator as _;

mod admission;
mod api_servers;
pub mod check_answers;
pub mod checker;
mod decisions;
mod event_ledger;
pub mod failure;
pub mod fault;
mod feeds;
pub mod injected_fault;
mod journal;
mod machine;
pub mod mutation;
mod network;
mod open_watch;
mod replica;
mod response;
pub mod role;
pub mod runner;
pub mod schedule;
mod seen;
mod serve;
pub mod setting;
pub mod shrink;
mod statement;
mod view;
mod watch_fault;
mod wire;
pub mod workload;
pub mod world;
pub mod write_rate;
