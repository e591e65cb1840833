//! One node: its pods, and what they count for.

mod assess;
mod pods;
mod slot;

pub(crate) use assess::{
    Assessor, Guidance, NodeDelays, RolloutParameters, ended_pods, surplus_pods,
};
pub(crate) use pods::PodView;
pub(crate) use slot::{
    BudgetUse, Health, NodeAssessment, NodeProgress, Scheduling, Slot, Wanted, Wave, Work,
};

pub use slot::Step;
