//! Which override counts on a node, and which of its pods were made by another one (G57).

mod running;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{DaemonSet, Node, NodeOverride, Overrides, Timestamp};
use crate::node::{NodePods, PodFlags, PodView};
use crate::node_table::NodeId;
use crate::pod_changes::PodChanges;
use crate::revisions::{RevisionHistory, RevisionLabels};
use crate::rollout::RolloutState;

use running::RunningOverrides;

/// The overrides that count on nodes.
#[derive(Debug, Default)]
pub(super) struct NodeOverrides {
    /// The nodes whose labels say that another override counts there.
    settling: BTreeMap<NodeId, Settling>,
    /// True if any pod had an override, or should have had one.
    had_any: bool,
    /// The overrides of pods that another controller makes.
    pub running: RunningOverrides,
}

/// The parts of a DaemonSet's state that say which overrides there are.
pub(super) struct OverrideInput<'a> {
    pub daemon_set: &'a DaemonSet,
    pub history: &'a RevisionHistory,
    pub labels: &'a RevisionLabels,
    pub rollout: &'a RolloutState,
    pub changes: &'a PodChanges,
}

/// A node whose labels say since a while that another override counts there.
#[derive(Clone, Debug)]
pub(super) struct Settling {
    /// The tag of that override; `None` for the template.
    tag: Option<Arc<str>>,
    /// When its pod is replaced, by the steady clock.
    until: Timestamp,
}

/// The tag of the override that counts on a node.
fn tag_of(overrides: Option<&Arc<Overrides>>, node: &Node) -> Option<Arc<str>> {
    Some(overrides?.of_node(node)?.tag.clone())
}

impl OverrideInput<'_> {
    /// True if any pod has an override, or should have one.
    fn has_any(&self) -> bool {
        self.labels.has_overrides()
            || self.rollout.gate.base_overrides().is_some()
            || self.daemon_set.overrides_of_running().is_some()
            // A pod may be half changed to one that is gone.
            || self.labels.are_overrides_of_running() && !self.changes.is_idle()
    }

    /// For a pod of the current template that its revision would make otherwise on its node today:
    /// how long the override that made it settles. The labels of the node have changed since.
    fn relabelled_from(&self, pod: &PodView, node: &Node) -> Option<Duration> {
        if !self.labels.are_of_template(pod.labels) {
            return None;
        }
        let hash = self.labels.hash(pod.labels);
        let overrides = match hash.filter(|hash| self.labels.is_variant(hash)) {
            None => self.labels.overrides(),
            Some(hash) => self.history.overrides(hash),
        };
        let tag = self.labels.tag(pod.labels);
        let with_tag = |of: Option<&Arc<Overrides>>| Some(of?.with_tag(tag?)?.settle);
        let own = with_tag(self.labels.overrides()).or_else(|| with_tag(overrides));
        (tag_of(overrides, node).as_ref() != tag).then_some(own.unwrap_or_default())
    }
}

impl NodeOverrides {
    /// True if any pod has an override, or had, or should have.
    pub(super) fn has_any(&self, input: &OverrideInput<'_>) -> bool {
        self.had_any || input.has_any()
    }

    /// Forgets a node that was deleted.
    pub(super) fn forget(&mut self, id: NodeId) {
        self.settling.remove(&id);
        self.running.forget(id);
    }

    /// Determines which pods of a node were made by another override than the one that counts
    /// there. Without overrides it does nothing. Returns when that may change by itself.
    pub(super) fn refresh(
        &mut self,
        id: NodeId,
        node: Option<&Node>,
        pods: &mut NodePods,
        input: &OverrideInput<'_>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if !self.has_any(input) {
            return None;
        }
        // Later passes also clear the flags.
        self.had_any = true;
        let node = node?;
        if input.labels.are_overrides_of_running() {
            return self.running.refresh(id, node, pods, input, now);
        }
        let settled_at = self.settle(id, node, pods, input, now);
        let (labels, gate) = (input.labels, &input.rollout.gate);
        let (target, base) = (labels.overrides(), gate.base_overrides());
        let (of_target, of_base) = (tag_of(target, node), tag_of(base, node));
        let settles = self.settling.get(&id).is_some_and(|settling| settling.until > now);
        let is_known = |of: Option<&Arc<Overrides>>, tag: Option<&Arc<str>>| {
            tag.is_none_or(|tag| of.is_some_and(|of| of.with_tag(tag).is_some()))
        };
        pods.record_overrides(|pod| {
            let tag = labels.tag(pod.labels);
            let hash = labels.hash(pod.labels);
            let has_base = hash.zip(gate.of_base()).is_some_and(|(hash, of)| of.contains(hash));
            let may_stay = |of| settles && is_known(of, tag);
            let mut flags = PodFlags::empty();
            let is_other = tag != of_target.as_ref() && !may_stay(target);
            flags.set(PodFlags::NOT_OF_TARGET, is_other);
            let is_other = tag != of_base.as_ref() && !may_stay(base);
            flags.set(PodFlags::NOT_OF_BASE, is_other);
            flags.set(PodFlags::OF_BASE, has_base && !is_other);
            flags
        });
        settled_at
    }

    /// Records since when the labels of a node say that another override counts there than the one
    /// that made its pod. A rollout of other overrides does not count. Returns when that one
    /// counts, if that is new.
    fn settle(
        &mut self,
        id: NodeId,
        node: &Node,
        pods: &NodePods,
        input: &OverrideInput<'_>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let wanted = input.labels.overrides().and_then(|target| target.of_node(node));
        let tag = wanted.map(|wanted| &wanted.tag);
        let pods = pods.as_slice().iter();
        let mut active = pods.filter(|pod| !pod.is_orphan() && !pod.is_terminating());
        let relabelled = active.find_map(|pod| {
            let own = input.relabelled_from(pod, node)?;
            (input.labels.tag(pod.labels) != tag).then_some(own)
        });
        let Some(own) = relabelled else {
            self.settling.remove(&id);
            return None;
        };
        if self.settling.get(&id).is_some_and(|known| known.tag.as_ref() == tag) {
            return None;
        }
        let time = |it: Option<&Arc<NodeOverride>>| it.map_or(Duration::ZERO, |it| it.settle);
        let until = now + time(wanted).max(own);
        self.settling.insert(id, Settling { tag: tag.cloned(), until });
        Some(until)
    }
}
