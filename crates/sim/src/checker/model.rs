//! The parts of objects that the checkers read, parsed from JSON by the text of the rules.
//!
//! Nothing here calls the controller's own functions: a mistake in one of them must not be made a
//! second time by the checker that looks for it.

mod config_map;
mod created_pod;
mod daemon_set;
mod in_place;
mod metadata;
mod namespace;
mod node;
mod percent;
mod placement;
mod pod;
mod policy;
mod record;
mod revision;
mod rollout;
mod selector;
mod template;
mod window;

pub(super) use config_map::{ConfigMap, Snapshots, copy_name, named, take_tag};
pub(super) use created_pod::{BoundBy, expected_pod};
pub(super) use daemon_set::DaemonSet;
pub(super) use in_place::{can_change, containers, has_amounts};
pub(super) use metadata::Metadata;
pub(super) use namespace::Namespace;
pub(super) use node::Node;
pub(super) use placement::Eligibility;
pub(super) use pod::{Change, Pod, PodStatus};
pub(super) use policy::{Failure, Group, Policy, PolicySource, Position, Step, Update, Wait};
pub(super) use record::{Order, Phase, Record, Verb};
pub(super) use revision::Revision;
pub(super) use rollout::Budget;
pub(super) use template::{is_same, reduced};
