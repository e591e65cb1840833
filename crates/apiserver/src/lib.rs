//! A Kubernetes API server that knows no kind but CustomResourceDefinitions.
//!
//! * [`json`] has values whose copies share memory, and [`object`] the objects that are made of
//!   them.
//! * [`kind`] says what a kind is: its names, columns, defaults, rules and strategy. It also has
//!   what all kinds share: the rules of metadata, names, label selectors and percentages, and paths
//!   of fields. The kinds themselves are what a server brings along.
//! * [`schema`] has the types of the built-in kinds, compiled from one table, [`custom`] those that
//!   CustomResourceDefinitions define.
//! * [`defaults`], [`validation`], [`printer`], [`patch`], [`managed_fields`] and [`selector`]
//!   apply what the kind of an object says.
//! * [`kinds`] has the kinds that are served, with those of definitions, and [`store`] their
//!   objects, a resourceVersion, and the log of changes that watches read.
//! * [`registry`] has what happens to each write on its way to the store. Its
//!   [`Plugins`](registry::Plugins) are the rules that depend on other objects.
//! * [`authorization`] has users and the rules of RBAC, [`status`] the refusals, and [`fault`] the
//!   errors that a server can inject.
//! * [`http`] serves a [`Cluster`](http::Cluster) over HTTPS, which is what the server knows of the
//!   cluster behind it, and carries out the faults.
//!
//! Everything but [`http`] is sans-IO: time and randomness are arguments, so that a run can be
//! repeated exactly.

#![forbid(unsafe_code)]

pub mod authorization;
pub mod clock;
pub mod condition;
pub mod custom;
pub mod defaults;
pub mod duration;
mod excerpt;
pub mod fault;
pub mod format;
pub mod http;
pub mod json;
pub mod kind;
pub mod kinds;
pub mod managed_fields;
mod merge_schema;
pub mod object;
pub mod patch;
pub mod printer;
pub mod registry;
pub mod schema;
pub mod selector;
pub mod status;
pub mod store;
pub mod validation;
pub mod value;
pub mod yaml;
