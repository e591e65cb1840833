//! One DaemonSet: its state, and the plan that follows from it.
//!
//! The layers, each of which uses only those before it:
//!
//! 1. `node`: a slot for each node with its pods, and the assessment of one slot at one time.
//! 2. `gate`: which revision governs a node while the rollout is guarded or paused; `waves`: which
//!    nodes a guarded rollout has reached; `guard`: which record of the rollout comes next;
//!    `condition`: what is stated of it.
//! 3. `index`: counts and sets of nodes that are updated by the difference between two
//!    assessments of a node, and the order in which nodes are tried.
//! 4. `sync`: what one sync writes, read from the index. Functions over a `SyncInput`.
//! 5. `state`: [`DaemonSetState`], which owns all of it, applies observations and results, and
//!    plans.
//!
//! An observation costs what it changes, and a plan costs what it writes (C80). All choices are
//! made in the order of node names, then of pod age (C55; docs/rollout-order.md).

mod condition;
mod config;
mod gate;
mod guard;
mod index;
mod node;
mod pace;
mod state;
mod sync;
mod waves;

pub use config::{Config, Mode};
pub use index::NodeCounts;
pub use node::Step;
pub use state::{DaemonSetState, GuardState, InspectedPod, Inspection, WaveState};
