//! A Kubernetes API server with simulated nodes, in one process.
//!
//! The sandbox serves the parts of the Kubernetes API that a DaemonSet controller and `kubectl`
//! use, over HTTPS and with the semantics and error messages of a real API server. Its nodes are
//! simulated: kubelets, scheduler, node lifecycle controller and garbage collector act on the
//! objects as in a real cluster, but no container runs. Objects are in memory only.
//!
//! # Layout
//!
//! From the wire to the stored object:
//!
//! * [`start`] runs everything and applies manifests: its module is the only part besides [`http`]
//!   that uses the clock and does I/O.
//! * [`http`] authenticates and authorizes requests and negotiates the form of the response.
//!   [`fault`] describes the errors that it can inject.
//! * `authorization` says what the stored roles and bindings allow to whom.
//! * [`registry`] has the rules of every write: metadata, [`defaults`], [`validation`] and
//!   [`patch`]es; admission and allocation as plugins; and the subresources that are no part of an
//!   object.
//! * [`store`] has the objects, a resourceVersion, and the log of changes that watches read.
//! * [`cluster`] is the simulation: the components read the log and write through the registry, as
//!   clients do.
//!
//! [`kind`] says what a kind is, and [`kinds`] has a file for each, or for two that are alike: its
//! names, columns, defaults, rules and strategy; those that are only kept and need no code are rows
//! of `kinds::kept`. [`defaults`], [`validation`] and [`printer`] apply what the kind of an object
//! says; [`json`], [`object`] and [`status`] have the types that all layers use. What knows no kind
//! is the crate `everynode-apiserver`, whose modules this one re-exports. Everything except for
//! [`start`] and [`http`] is sans-IO: time and randomness are arguments, so that a run can be
//! repeated exactly.
//!
//! [`http`]: everynode_apiserver::http
//!
//! # Example
//!
//! ```
//! use everynode_sandbox::Sandbox;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), everynode_sandbox::Error> {
//! let sandbox = Sandbox::start().await?;
//! println!("export KUBECONFIG={}", sandbox.kubeconfig_path().display());
//! # Ok(())
//! # }
//! ```
//!
//! Dropping a sandbox stops it. docs/ci.md has a test with a client of kube-rs.

#![forbid(unsafe_code)]

mod authorization;
pub mod cluster;
mod condition;
pub mod kinds;
pub mod nodes;
pub mod registry;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use everynode_apiserver::{clock, duration, format, schema, value};
pub use everynode_apiserver::{
    custom, defaults, fault, json, kind, managed_fields, object, patch, printer, selector, status,
    store, validation, yaml,
};

pub use everynode_apiserver::http::{Limits, OWN_USER_AGENT, Share, panics_end_only_a_request};
pub use run::{
    AppliedObject, ApplyError, ApplyOutcome, Error, NodeSource, Options, Sandbox, start,
};
