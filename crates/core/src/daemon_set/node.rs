//! One node: its pods, and what they count for.

mod assess;
mod pods;
mod slot;

pub(super) use assess::{
    Assessor, Guidance, NodeDelays, RolloutParameters, ended_pods, surplus_pods,
};
pub(super) use pods::PodView;
pub(super) use slot::{NodeAssessment, Slot, Wanted, Wave};

pub use slot::Step;
