//! One DaemonSet: its state, and the plan that follows from it.
//!
//! The layers, each of which uses only those before it:
//!
//! 1. `index`: counts and sets of nodes that are updated by the difference between two
//!    assessments of a node, and the order in which nodes are tried.
//! 2. `sync`: what one sync writes, read from the index. Functions over a `SyncInput`.
//! 3. `state`: [`DaemonSetState`], which owns all of it, applies observations and results, and
//!    plans.
//!
//! They use `rollout`, and `node`: a slot for each node with its pods, and the
//! assessment of one slot at one time.
//!
//! An observation costs what it changes, and a plan costs what it writes (C80). All choices are
//! made in the order of node names, then of pod age (C55; docs/rollout-order.md).

mod index;
mod state;
mod sync;

pub use crate::config::{Clocks, Config, Mode, UnreachableNodes};
pub use crate::node::{NodeState, Outage, SetAside, Step};
pub use crate::rollout::{
    NodeStanding, RolloutStatus, StateCounts, Target, WaveStanding, WaveStatus,
};
pub use index::NodeCounts;
pub use state::{Availability, DaemonSetState, InspectedPod, Inspection};
