//! What governs a DaemonSet of the index, and what its last plan said of the rollout.

use std::collections::BTreeSet;
use std::sync::Arc;

use everynode_core::api::{RolloutReason, WaveName};
use everynode_core::daemon_set::DaemonSetState;
use everynode_k8s::convert::{PolicyObject, PolicyReference, RawDaemonSet};
use everynode_k8s::policies::{Governing, Policies};

/// A DaemonSet of the index.
#[derive(Debug)]
pub(super) struct Entry {
    pub state: DaemonSetState,
    pub raw: Arc<RawDaemonSet>,
    /// The policy objects that select it.
    pub governing: GoverningObjects,
    /// What the last plan said of a rollout that they govern; `None` before the first plan.
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

/// What a plan said of a guarded rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatedRollout {
    pub reason: RolloutReason,
    pub message: Arc<str>,
    pub wave: Option<WaveName>,
}

impl GoverningObjects {
    fn of(governing: &Governing<'_>) -> Self {
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
    pub(super) fn record_governing(
        &mut self,
        policies: &Policies,
        changed: &mut BTreeSet<PolicyReference>,
    ) {
        let governing = match policies.is_empty() {
            true => GoverningObjects::None,
            false => GoverningObjects::of(&policies.governing(&self.raw)),
        };
        if governing != self.governing {
            let before = std::mem::replace(&mut self.governing, governing);
            changed.extend(before.references().chain(self.governing.references()).cloned());
        }
    }

    /// Records what the last plan said of a rollout that policy objects govern.
    pub(super) fn record_rollout(&mut self, changed: &mut BTreeSet<PolicyReference>) {
        if self.governing == GoverningObjects::None {
            return;
        }
        let stated = self.state.rollout_condition();
        let known = self.rollout.as_ref().map(|known| known.as_ref());
        let is_same =
            known.is_some_and(|known| known.map(|known| (known.reason, &known.message)) == stated);
        if !is_same {
            let stated = stated.map(|(reason, message)| StatedRollout {
                reason,
                message: message.clone(),
                wave: self.state.wave(),
            });
            self.rollout = Some(stated);
            changed.extend(self.governing.references().cloned());
        }
    }
}
