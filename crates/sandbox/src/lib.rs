//! A fake Kubernetes with simulated nodes: a store, actors that step over it, and an HTTP front.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod api;
mod authorization;
mod clock;
pub mod cluster;
mod condition;
pub mod defaults;
mod duration;
pub mod fault;
pub mod kind;
pub mod nodes;
pub mod object;
pub mod patch;
pub mod printer;
pub mod registry;
mod run;
mod schema;
pub mod selector;
pub mod status;
pub mod store;
pub mod validation;
mod value;
pub mod yaml;

pub use api::faults::OWN_USER_AGENT;
pub use api::serve::Limits;
pub use run::{
    AppliedObject, ApplyError, ApplyOutcome, Error, NodeSource, Options, Sandbox, start,
};
