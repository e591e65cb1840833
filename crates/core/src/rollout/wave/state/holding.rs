//! The pods that a node has, and with that whether it is a member of its groups.

use crate::api::Node;
use crate::node::{PodView, Slot, SlotFlags, Wanted};
use crate::placement;

use super::RolloutInput;

/// The pods that a node has, compared with those that it should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::rollout::wave) enum Holding {
    /// It has no pod, and should run none.
    #[default]
    Nothing,
    /// It has no pod, and neither the target nor the base may run there.
    Barred,
    /// It has no pod, and should run none of the target, but one of the revision that governs it.
    NothingOfTarget,
    /// It has a pod of another revision.
    Outdated,
    /// It has no pod, and should run one of the target.
    Missing,
    /// Only the target's placement removes its pod of another revision, or has beside the built-in
    /// controller (G42).
    Removed,
    /// It has a pod of the target.
    Target,
    /// It has a pod of another revision with the same template, which the overrides of the target
    /// do not change: the rollout has nothing to do with it (G57).
    Unaffected,
}

impl Holding {
    /// `had_pod` is whether the node had a pod before, as far as that is known.
    pub(in crate::rollout::wave) fn new(
        node: &Node,
        slot: &Slot,
        had_pod: bool,
        input: &RolloutInput<'_>,
    ) -> Self {
        let pods = || slot.pods.as_slice().iter().filter(|pod| pod.counts());
        let is_target = |pod: &PodView| match slot.wanted {
            Wanted::Base => pod.is_to_go_back(input.labels),
            Wanted::Target | Wanted::Kept => pod.is_updated(input.labels),
        };
        let has_target = || pods().any(is_target);
        let is_unaffected = |pod: &PodView| {
            pod.is_updated(input.labels) && !pod.is_of_target_revision(input.labels)
        };
        if input.labels.has_variants() && pods().any(is_unaffected) {
            return Self::Unaffected;
        }
        let should_run_target = || match slot.wanted {
            Wanted::Target => slot.eligibility.should_run(),
            Wanted::Kept | Wanted::Base => {
                let placement = &input.daemon_set.template.placement;
                let selector = input.namespace_node_selector;
                placement::eligibility(placement, selector, node).should_run()
            }
        };
        match slot.wanted {
            Wanted::Target | Wanted::Base if has_target() => Self::Target,
            // Going back, a node that is held keeps it.
            Wanted::Kept if slot.wave.is_held() && has_target() => Self::Target,
            _ if slot.flags.contains(SlotFlags::LOSES_POD)
                && (had_pod || pods().next().is_some()) =>
            {
                Self::Removed
            }
            _ if pods().next().is_some() => Self::Outdated,
            _ if should_run_target() => Self::Missing,
            _ if slot.eligibility.should_run() => Self::NothingOfTarget,
            _ if slot.flags.contains(SlotFlags::BARRED) => Self::Barred,
            Wanted::Target | Wanted::Kept | Wanted::Base => Self::Nothing,
        }
    }

    /// True if the node is a member of its groups.
    pub(in crate::rollout::wave) const fn is_member(self) -> bool {
        match self {
            Self::Nothing | Self::Barred | Self::Unaffected => false,
            Self::NothingOfTarget
            | Self::Outdated
            | Self::Missing
            | Self::Removed
            | Self::Target => true,
        }
    }
}
