//! Which override counts on a node, and which of its pods were made by another one (G57).

use std::sync::Arc;
use std::time::Duration;

use crate::api::{Node, NodeOverride, Overrides, Timestamp};
use crate::node::{PodFlags, PodView};
use crate::node_table::{NodeId, NodeTable};

use super::DaemonSetState;

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

impl DaemonSetState {
    /// True if any pod has an override, or had, or should have.
    pub(super) fn has_overrides(&self) -> bool {
        self.had_overrides
            || self.labels.has_overrides()
            || self.rollout.gate.base_overrides().is_some()
            || self.daemon_set.overrides_of_running().is_some()
            // A pod may be half changed to one that is gone.
            || self.labels.are_overrides_of_running() && !self.changes.is_idle()
    }

    /// Determines which pods of a node were made by another override than the one that counts
    /// there. Without overrides it does nothing.
    pub(super) fn refresh_overrides(&mut self, id: NodeId, now: Timestamp, nodes: &NodeTable) {
        if !self.has_overrides() {
            return;
        }
        // What pods are marked with is taken back by the same means.
        self.had_overrides = true;
        let Some(node) = nodes.node(id) else { return };
        if self.labels.are_overrides_of_running() {
            self.refresh_running(id, node, now);
            return;
        }
        self.settle(id, node, now);
        let target = self.labels.overrides();
        let (of_target, of_base) =
            (tag_of(target, node), tag_of(self.rollout.gate.base_overrides(), node));
        let settles = self.settling.get(&id).is_some_and(|settling| settling.until > now);
        let labels = &self.labels;
        let gate = &self.rollout.gate;
        let (base, with_base_template) = (gate.base_overrides(), gate.of_base());
        let is_known = |of: Option<&Arc<Overrides>>, tag: Option<&Arc<str>>| {
            tag.is_none_or(|tag| of.is_some_and(|of| of.with_tag(tag).is_some()))
        };
        self.slots[id.index()].pods.record_overrides(|pod| {
            let tag = labels.tag(pod.labels);
            let hash = labels.hash(pod.labels);
            let has_base = hash.zip(with_base_template).is_some_and(|(hash, of)| of.contains(hash));
            let may_stay = |of| settles && is_known(of, tag);
            let mut flags = PodFlags::empty();
            let is_other = tag != of_target.as_ref() && !may_stay(target);
            flags.set(PodFlags::NOT_OF_TARGET, is_other);
            let is_other = tag != of_base.as_ref() && !may_stay(base);
            flags.set(PodFlags::NOT_OF_BASE, is_other);
            flags.set(PodFlags::OF_BASE, has_base && !is_other);
            flags
        });
    }

    /// Records since when the labels of a node say that another override counts there than the one
    /// that made its pod. A rollout of other overrides is none of that.
    fn settle(&mut self, id: NodeId, node: &Node, now: Timestamp) {
        let target = self.labels.overrides();
        let wanted = target.and_then(|target| target.of_node(node));
        let tag = wanted.map(|wanted| &wanted.tag);
        let pods = self.slots[id.index()].pods.as_slice();
        let mut active = pods.iter().filter(|pod| !pod.is_orphan() && !pod.is_terminating());
        let relabelled = active.find_map(|pod| {
            let own = self.relabelled_from(pod, node)?;
            (self.labels.tag(pod.labels) != tag).then_some(own)
        });
        let Some(own) = relabelled else {
            self.settling.remove(&id);
            return;
        };
        if self.settling.get(&id).is_some_and(|known| known.tag.as_ref() == tag) {
            return;
        }
        let time = |it: Option<&Arc<NodeOverride>>| it.map_or(Duration::ZERO, |it| it.settle);
        let until = now + time(wanted).max(own);
        self.assessing.timers.insert((until, id));
        self.settling.insert(id, Settling { tag: tag.cloned(), until });
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
