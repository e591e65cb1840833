//! Changing pods in place instead of replacing them (G56).

use std::sync::Arc;

use crate::api::{
    ChangeGoal, ChangeState, DaemonSet, NodeName, NodeOverride, RevisionHash, Template,
    UpdateMethod, override_of_tag,
};
use crate::node::{Direction, PodFlags, PodView, changing_pods};
use crate::node_table::NodeId;
use crate::plan::{NewChange, Write};
use crate::pod_changes::Changing;
use crate::revisions::{RevisionHistory, RevisionLabels};
use crate::rollout::{InPlace, OldPod};

use super::SyncInput;
use super::draft::Draft;

/// How a node gets the revision that governs it.
pub(super) enum ReplaceMethod {
    /// Its old pod is changed.
    Change(NewChange),
    /// Its old pod is deleted.
    Delete,
    /// Its old pod stays: it cannot be changed, and the policy allows nothing else.
    None,
}

/// Sends the requests of changes that this controller has not sent, and gives pods whose containers
/// run as their revision states it the labels of that revision.
pub(in crate::daemon_set) fn finish_changes(input: &SyncInput<'_>, draft: &mut Draft) {
    for (name, id) in input.retry_order.sorted(&input.work_sets.changes) {
        if draft.touched.contains(&id) {
            continue;
        }
        for pod in changing_pods(&input.slots[id.index()]) {
            let Some(known) = input.changes.get(&pod.uid) else { continue };
            // Its override is to be another one by now.
            if pod.flags.contains(PodFlags::GETS_OVERRIDE) {
                continue;
            }
            let ChangeGoal { hash, tag } = &known.change.to;
            if !input.changes.is_sent(&pod.uid, &known.change.to) {
                let again = input.unsent_change(name, pod, known);
                again.into_iter().for_each(|change| draft.patch(Write::ChangePod(change)));
            } else if known.change.state == ChangeState::Done {
                let is_target = input.labels.current_hashes().any(|current| current == hash);
                let generation = input.daemon_set.template_generation.filter(|_| is_target);
                draft.patch(Write::FinishChange {
                    pod: pod.reference(Some(name)),
                    resource_version: known.change.version,
                    hash: hash.clone(),
                    template_generation: match known.keeps_revision() {
                        true => input.labels.template_generation(pod.labels),
                        false => generation,
                    },
                    // No change in place concerns the copies of ConfigMaps that a pod mounts.
                    tag: tag.as_ref().and_then(override_of_tag),
                });
            }
        }
    }
}

/// The override with this tag that a pod of the revision with this hash may have (G57).
pub(in crate::daemon_set) fn override_with_tag<'a>(
    tag: &str,
    hash: &RevisionHash,
    daemon_set: &'a DaemonSet,
    (labels, history): (&'a RevisionLabels, &'a RevisionHistory),
) -> Option<&'a Arc<NodeOverride>> {
    let is_target = labels.current_hashes().any(|current| current == hash);
    let of_target = labels.overrides().filter(|_| is_target);
    let of_revision = of_target.or_else(|| history.overrides(hash));
    // The tag of an override says what it changes.
    let of_policy = || daemon_set.policy.valid()?.stated_overrides()?.with_tag(tag);
    of_revision.and_then(|overrides| overrides.with_tag(tag)).or_else(of_policy)
}

impl SyncInput<'_> {
    fn override_with_tag(&self, tag: &str, hash: &RevisionHash) -> Option<Arc<NodeOverride>> {
        let revisions = (self.labels, self.history);
        override_with_tag(tag, hash, self.daemon_set, revisions).cloned()
    }

    /// The override that made a pod, which it keeps as a pod of the revision with this hash (G57).
    pub(super) fn override_of_pod(
        &self,
        pod: &PodView,
        hash: &RevisionHash,
    ) -> Option<Arc<NodeOverride>> {
        self.override_with_tag(self.labels.tag(pod.labels)?, hash)
    }

    pub(super) fn in_place(&self) -> InPlace<'_> {
        InPlace {
            daemon_set: self.daemon_set,
            history: self.history,
            labels: self.labels,
            changes: self.changes,
        }
    }

    /// How the node gets the revision that governs it, although it has this old pod. `target` is
    /// the hash of the current revision.
    pub(super) fn replace_method(
        &self,
        node: &NodeName,
        id: NodeId,
        pod: &PodView,
        target: &RevisionHash,
    ) -> ReplaceMethod {
        let method = self.rollout.update_method();
        if method == UpdateMethod::Replace {
            return ReplaceMethod::Delete;
        }
        let slot = &self.slots[id.index()];
        let governing = self.rollout.gate.governing(slot.pods.as_slice(), slot.wave, self.labels);
        let to = governing.old.map_or(target, |(hash, _)| hash);
        match self.in_place().old_pod(slot, pod, to) {
            OldPod::Changes { from, to: template } => {
                let own = self.override_of_pod(pod, to);
                let of_running = self.daemon_set.overrides_of_running();
                let has_any = || self.labels.tag(pod.labels).is_some();
                // The policy may have other overrides by now.
                let of_node =
                    own.or_else(|| self.override_of_node(id, of_running).filter(|_| has_any()));
                ReplaceMethod::Change(self.new_change(node, pod, to, (from, template), of_node))
            }
            OldPod::CannotChange(_)
                if method == UpdateMethod::InPlaceOnly
                    && self.rules.guarded == Some(Direction::Forward) =>
            {
                ReplaceMethod::None
            }
            OldPod::CannotChange(_) | OldPod::IsReplaced => ReplaceMethod::Delete,
        }
    }

    /// The change that a pod states to be under way; `None` if it is not known what it changes.
    fn unsent_change(&self, node: &NodeName, pod: &PodView, known: &Changing) -> Option<NewChange> {
        let ChangeGoal { hash, tag } = &known.change.to;
        let template = |hash| match known.keeps_revision() {
            true => self.history.template(hash),
            false => self.in_place().template(hash),
        };
        let templates = (template(known.from.as_ref()?)?, template(hash)?);
        let of_node = match tag {
            Some(tag) => Some(self.override_with_tag(tag, hash)?),
            None => None,
        };
        Some(self.new_change(node, pod, hash, templates, of_node))
    }

    fn new_change(
        &self,
        node: &NodeName,
        pod: &PodView,
        to: &RevisionHash,
        (from, template): (&Template, &Template),
        of_node: Option<Arc<NodeOverride>>,
    ) -> NewChange {
        NewChange {
            pod: pod.reference(Some(node)),
            hash: to.clone(),
            from: from.canonical.clone(),
            to: template.canonical.clone(),
            tag: self.labels.tag(pod.labels).cloned(),
            r#override: of_node,
            since: self.now.wall_seconds(),
        }
    }
}
