//! Answers to operators' questions about DaemonSets.
//!
//! Every answer is computed from a [`Snapshot`](snapshot::Snapshot), which holds the objects of a
//! cluster at one moment:
//!
//! - [`explain`] states for each node why it runs a pod of a DaemonSet or not, and what the
//!   controller does next there.
//! - [`forecast`] predicts what applying a changed DaemonSet does: the order of replacements, their
//!   duration, and the risks.
//! - [`rollout`] reports the progress of a rollout and the pods that hold it up; [`overview`] adds
//!   counts by zone and revision, and an estimate of the end.
//! - [`history`] lists the revisions of a DaemonSet, [`revision_diff`] compares two; [`guarded`]
//!   states where a guarded rollout is, with its nodes by their state ([`rollout_nodes`]).
//! - [`suggestion`] is a rollout policy made for a DaemonSet in its cluster.
//! - [`course`] is the course of a rollout so far, and [`events`] lists what events say about it.
//! - [`program`] is the name of the program in the commands that answers tell.
//! - [`document`] is the versioned JSON form of the answers, and its schema.
//!
//! Nothing here performs I/O or reads a clock: callers pass the time. Where an answer depends on a
//! decision of the controller, the crate runs `everynode-core` on the snapshot instead of repeating
//! its rules.
#![forbid(unsafe_code)]

pub mod age;
mod controller_state;
mod controller_view;
pub mod copies;
pub mod course;
pub mod document;
pub mod escape;
pub mod events;
mod eviction;
pub mod explain;
pub mod forecast;
pub mod guarded;
pub mod history;
mod json_type;
pub mod names;
mod no_node;
pub mod overridden;
pub mod overview;
pub mod program;
mod reasons;
pub mod revision_diff;
pub mod rollout;
pub mod rollout_nodes;
pub mod situation;
pub mod snapshot;
mod states;
pub mod suggestion;
