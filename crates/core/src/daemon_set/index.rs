//! Counts and sets over all nodes, updated by the difference between two assessments of a node.

mod counts;
mod groups;
mod pending_names;
mod retry_order;
mod work_sets;

pub use counts::NodeCounts;
pub(super) use counts::Room;
pub(super) use groups::{AdmissionOrder, Admitted, Groups};
pub(super) use pending_names::{PendingNames, PodPresence};
pub(super) use retry_order::RetryOrder;
pub(super) use work_sets::{NodeSet, WorkSets};
