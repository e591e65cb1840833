//! Guarded and paused rollouts of one DaemonSet. Without a policy, a pause and a record nothing
//! here runs.
//!
//! "Which node is next, and why not this one" is answered in this folder, from what
//! [`api`](crate::api) has: the policy, and the record that is stored of a rollout.
//!
//! | | |
//! |---|---|
//! | `stage` | where the rollout is, by its record, its policy and the time |
//! | `transition` | which record comes next |
//! | `wave` | which nodes a position of the rollout opens |
//! | `gate` | which revision governs a node |
//! | `pace` | on how many nodes it has begun within a minute |
//! | `condition` | what is stated of it |
//!
//! Nothing here has I/O or a clock; only `Waves` and `Pace` keep state.
//! [`DaemonSetState`](crate::daemon_set::DaemonSetState) observes nodes and pods for them, and does
//! what they say.

mod condition;
mod gate;
mod pace;
mod stage;
mod transition;
mod wave;

pub(crate) use condition::{RollbackProgress, Situation, condition};
pub(crate) use gate::{Gate, GoverningRevision};
pub(crate) use pace::{MINUTE, Pace};
pub(crate) use stage::Stage;
pub(crate) use transition::{ChecksVerdict, TransitionInput, wave_blocker};
pub(crate) use wave::{Holding, NodeStatus, Rank, Waves};
