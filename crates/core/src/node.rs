//! One node: its pods, and what they count for.

mod assess;
mod pods;
mod slot;
mod state;

pub(crate) use assess::{
    Assessor, NodeDelays, RolloutParameters, RolloutRules, changing_pods, ended_pods, surplus_pods,
};
pub(crate) use pods::{NodePods, PodFlags, PodView};
pub(crate) use slot::{
    BudgetUse, Health, NodeAssessment, NodeProgress, Scheduling, Slot, SlotFlags, Wanted, Wave,
    Work,
};
pub(crate) use state::Direction;

pub use slot::Step;
pub use state::{NodeState, Outage, SetAside};
