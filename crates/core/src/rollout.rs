//! Guarded and paused rollouts of one DaemonSet. Without a policy, a pause and a record nothing
//! here runs.
//!
//! "Where is the rollout, which node is next, and why not this one" is answered in this folder,
//! from what [`api`](crate::api) has: the policy, and the record that is stored of a rollout.
//!
//! | | |
//! |---|---|
//! | `state` | `RolloutState`, which owns what follows; here the others meet |
//! | `input` | the parts of its DaemonSet's state that a rollout reads |
//! | `stage` | where the rollout is, by its record, its policy and the time |
//! | `facts` | what follows from the stage until anything else changes |
//! | `transition` | which record comes next |
//! | `order` | which record an order of a person makes |
//! | `hindrance` | why it waits between two waves |
//! | `course` | which event of its course a change of the record is |
//! | `record_writes` | records whose write has failed, or has an unknown outcome |
//! | `wave` | which nodes a position of the rollout opens |
//! | `gate` | which revision governs a node |
//! | `pace` | on how many nodes it has begun within a minute |
//! | `bake` | when the bake time of a wave is over |
//! | `checks` | which checks of a wave are due, and what their answers say together |
//! | `progress` | whether it has been without progress for too long |
//! | `images` | which nodes have the images of the target, and which pull them |
//! | `agreement` | who must agree that an old pod goes |
//! | `in_place` | whether a pod can be changed instead of being replaced |
//! | `beside` | whether the built-in controller beside it has seen the target |
//! | `rollback` | how nodes go back to the base |
//! | `condition` | reason and message of its condition |
//! | `details` | the parts of the message that change with nodes |
//! | `status` | where it is, for reports |
//!
//! Nothing here has I/O or a clock. [`DaemonSetState`](crate::daemon_set::DaemonSetState) observes
//! nodes and pods, and does what is said here.

mod agreement;
mod bake;
mod beside;
mod checks;
mod condition;
mod course;
mod details;
mod facts;
mod gate;
mod hindrance;
mod images;
mod in_place;
mod input;
mod order;
mod pace;
mod progress;
mod record_writes;
mod rollback;
mod stage;
mod state;
mod status;
mod transition;
mod wave;

pub(crate) use beside::revision_beside;
pub(crate) use condition::Stated;
pub(crate) use gate::{Verdict, base_without_policy};
pub(crate) use in_place::{InPlace, OldPod};
pub(crate) use input::RolloutInput;
pub(crate) use pace::Pace;
pub(crate) use state::RolloutState;
pub use status::{RolloutStatus, WaveStatus};
pub use wave::{NodeStanding, StateCounts, Target, WaveStanding};
pub(crate) use wave::{Of, Shown};
