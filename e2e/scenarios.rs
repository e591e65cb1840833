//! Whole stories from outside: what operators, charts and bad days do to DaemonSets.

mod conformance;
mod delete;
mod fencing;
mod handover;
pub mod leader;
mod many;
mod nodes;
mod options;
mod outage;
mod ownership;
mod placement;
mod rolling;
mod takeover;
