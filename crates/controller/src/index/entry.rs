//! The policy of a DaemonSet of the index, and the rollout as its last plan stated it.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{RolloutReason, WaveName};
use everynode_core::daemon_set::{DaemonSetState, StateCounts};
use everynode_k8s::convert::{PolicyObject, PolicyReference, RawDaemonSet};
use everynode_k8s::policies::{Governing, Policies};

/// A DaemonSet of the index.
#[derive(Debug)]
pub(super) struct Entry {
    pub state: DaemonSetState,
    pub raw: Arc<RawDaemonSet>,
    /// The policy objects that select it.
    pub governing: GoverningObjects,
    /// The rollout that they govern, as the last plan stated it; `None` before the first plan.
    pub rollout: Option<Option<StatedRollout>>,
}

/// The policy objects of the rank that counts for a DaemonSet and that select it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum GoverningObjects {
    #[default]
    None,
    One(PolicyReference),
    /// Several, so none of them counts.
    Conflict(Vec<PolicyReference>),
    /// This one, if the labels of the namespace say so, which are not known.
    Unknown(PolicyReference),
}

/// A guarded rollout as a plan stated it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatedRollout {
    pub reason: RolloutReason,
    pub message: Arc<str>,
    pub wave: Option<WaveName>,
    /// The numbers of nodes by their state; `None` without a valid policy.
    pub nodes: Option<StateCounts>,
}

/// How soon a change must be in the status of a policy object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing but numbers of nodes has changed.
    Counts,
    /// A phase, a wave, or whether somebody has to act.
    Transition,
}

/// The policy objects whose status may have to change.
pub type ChangedPolicies = BTreeMap<PolicyReference, Urgency>;

impl GoverningObjects {
    fn new(governing: &Governing<'_>) -> Self {
        let reference = |object: &PolicyObject| object.reference.clone();
        match governing {
            Governing::Annotation => Self::None,
            Governing::Object(object) => Self::One(reference(object)),
            Governing::Conflict(objects) => {
                Self::Conflict(objects.iter().map(|object| reference(object)).collect())
            }
            Governing::Unknown(object) => Self::Unknown(reference(object)),
        }
    }

    pub(super) fn references(&self) -> impl Iterator<Item = &PolicyReference> {
        match self {
            Self::None => &[][..],
            Self::One(reference) | Self::Unknown(reference) => std::slice::from_ref(reference),
            Self::Conflict(references) => references,
        }
        .iter()
    }

    pub(super) fn has(&self, reference: &PolicyReference) -> bool {
        self.references().any(|known| known == reference)
    }
}

impl Entry {
    pub(super) fn new(state: DaemonSetState, raw: Arc<RawDaemonSet>) -> Self {
        Self { state, raw, governing: GoverningObjects::None, rollout: None }
    }

    /// Records which policy objects select the DaemonSet; the statuses of those before and after
    /// may change.
    pub(super) fn record_governing(&mut self, policies: &Policies, changed: &mut ChangedPolicies) {
        let governing = match policies.is_empty() {
            true => GoverningObjects::None,
            false => GoverningObjects::new(&policies.governing(&self.raw)),
        };
        if governing != self.governing {
            let before = std::mem::replace(&mut self.governing, governing);
            let governing = before.references().chain(self.governing.references());
            note(changed, governing, Urgency::Transition);
        }
    }

    /// Records what the last plan said of a rollout that policy objects govern.
    pub(super) fn record_rollout(&mut self, changed: &mut ChangedPolicies) {
        if self.governing == GoverningObjects::None {
            return;
        }
        let stated = self.state.rollout_condition().map(|(reason, message)| StatedRollout {
            reason,
            message: message.clone(),
            wave: self.state.wave(),
            nodes: self.state.nodes_by_state(),
        });
        if self.rollout.as_ref() == Some(&stated) {
            return;
        }
        let urgency = match (self.rollout.iter().flatten().next(), &stated) {
            (Some(known), Some(stated)) if known.differs_in_counts_only(stated) => Urgency::Counts,
            (_, _) => Urgency::Transition,
        };
        self.rollout = Some(stated);
        note(changed, self.governing.references(), urgency);
    }
}

impl StatedRollout {
    /// True if the status of a policy would differ in numbers of nodes only. It has the message of
    /// a rollout that is stalled.
    fn differs_in_counts_only(&self, other: &Self) -> bool {
        let message = |of: &Self| of.reason.is_stalled().then(|| of.message.clone());
        self.reason == other.reason && self.wave == other.wave && message(self) == message(other)
    }
}

/// Notes that the statuses of policy objects may change.
pub(super) fn note<'a>(
    changed: &mut ChangedPolicies,
    policies: impl IntoIterator<Item = &'a PolicyReference>,
    urgency: Urgency,
) {
    for policy in policies {
        let known = changed.entry(policy.clone()).or_insert(urgency);
        *known = urgency.max(*known);
    }
}
