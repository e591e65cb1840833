//! The DaemonSet controller: it watches a cluster, asks the core for decisions, and writes them.
//!
//! [`run()`] starts everything from [`Options`] and returns when the controller has stopped.
//!
//! # Flow of events
//!
//! ```text
//! watch ───▶ decode ───▶ Event ───▶ event_loop ───▶ index ───▶ Plan ───▶ executor ───▶ api
//!                          ▲         │      ▲                              │
//!                          │         ▼      │                              │
//!                          │       queue ───┘                              │
//!                          └────────────── results of writes ◀─────────────┘
//! ```
//!
//! A [`watch`] follows each resource and sends every change as an [`event::Event`]. One task, the
//! [`event_loop`], owns all state and needs no locks: the [`index`] keeps the state of each
//! DaemonSet and returns the keys of those that an event changes; the [`queue`] decides when each
//! key is planned for. The core turns the state of one DaemonSet into a plan. The [`executor`] runs
//! the plan beside the loop, and reports the outcome of each write as another event.
//!
//! # Modules
//!
//! | module | task |
//! |---|---|
//! | [`watch`], [`decode`] | list and watch a resource; decode what decisions read of an object |
//! | [`observation`] | the table of watched resources, and what their watches report |
//! | [`event`] | the inputs of the event loop |
//! | [`event_loop`], [`index`], [`queue`] | the state, and what to do next |
//! | [`executor`], [`orphans`] | the writes of a plan, and the live list of orphan pods |
//! | [`checks`] | what the checks of guarded rollouts ask, and what the answers mean |
//! | [`api`], [`client`] | requests to the API server; connections, credentials and proxies |
//! | [`lease`] | leader election, and the fence that stops writes when the lease may expire |
//! | [`recorder`], [`metrics`], [`outage_log`] | Kubernetes Events, Prometheus metrics, the log |
//! | [`serve`] | `/livez`, `/readyz` and `/metrics` |
//!
//! `index`, `queue`, `event_loop::state` and the modules that ARCHITECTURE.md lists as sans-IO read
//! no clock and do no I/O. The simulation runs the same code in virtual time.

#![forbid(unsafe_code)]

pub mod api;
mod backoff;
pub mod checks;
pub mod client;
mod config_maps;
pub mod decode;
pub mod environment;
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
pub mod replica;
mod run;
pub mod serve;
pub mod supervisor;
pub mod watch;

pub use everynode_core::daemon_set::{Mode, UnreachableNodes};
pub use everynode_core::plan::ScheduleBy;
pub use run::{Error, LeaderElection, Options, lease_name, run};
