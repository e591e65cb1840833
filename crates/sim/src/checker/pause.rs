//! Which revision governs a node while a rollout is paused (G1, G6), by the text of the rules.

use super::model::{Eligibility, Namespace, Node, Pod, Revision};
use super::situation::{OnNode, Situation};

/// The revision that governs a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Governing<'a> {
    Target,
    Old(&'a Revision),
    /// The base, which nothing shows: no pod of any stored revision is there, so it is what it was.
    Unknown,
}

impl<'a> Situation<'a> {
    /// The revision that governs the node with this name.
    pub(super) fn governing(&self, node: &str) -> Governing<'a> {
        match self.nodes.get(node) {
            Some(on_node) if self.ds.paused => self.governing_of(on_node, self.base()),
            Some(_) | None => Governing::Target,
        }
    }

    /// Whether some node may be governed by a base that nothing shows.
    pub(super) fn is_base_unknown(&self) -> bool {
        self.ds.paused && matches!(self.base(), Governing::Unknown)
    }

    /// Replaces the eligibility of each node by that for the revision that governs it.
    pub(super) fn apply_pause(&mut self, namespace: Option<&Namespace>) {
        if !self.ds.paused {
            return;
        }
        let base = self.base();
        let eligibility = |on_node: &OnNode<'a>| {
            on_node.node.map(|node| self.paused_eligibility(on_node, node, base, namespace))
        };
        let found: Vec<_> = self.nodes.values().map(eligibility).collect();
        for (on_node, found) in self.nodes.values_mut().zip(found) {
            on_node.eligibility = found.unwrap_or(on_node.eligibility);
        }
    }

    fn paused_eligibility(
        &self,
        on_node: &OnNode<'a>,
        node: &Node,
        base: Governing<'a>,
        namespace: Option<&Namespace>,
    ) -> Eligibility {
        let placement = match self.governing_of(on_node, base) {
            Governing::Old(revision) => &revision.placement,
            Governing::Target => &self.ds.placement,
            // Any revision may be the base.
            Governing::Unknown => return Eligibility::ShouldRun,
        };
        let found = placement.eligibility(node);
        let is_restricted = namespace.is_some_and(|namespace| !namespace.allows(node));
        if found == Eligibility::ShouldRun && is_restricted {
            return Eligibility::MayKeep;
        }
        let is_known = |pod: &Pod| self.is_updated(pod) || self.old_revision_of(pod).is_some();
        if on_node.pods.iter().all(|our| is_known(our.pod)) {
            found
        } else {
            found.max(Eligibility::MayKeep)
        }
    }

    fn governing_of(&self, on_node: &OnNode<'a>, base: Governing<'a>) -> Governing<'a> {
        let pods = || on_node.pods.iter().map(|our| our.pod);
        if pods().any(|pod| self.is_updated(pod) && self.old_revision_of(pod).is_none()) {
            return Governing::Target;
        }
        pods().find_map(|pod| self.old_revision_of(pod)).map_or(base, Governing::Old)
    }

    /// The revision of nodes without a pod: the newest old one that a pod has, or the target if
    /// none has one.
    fn base(&self) -> Governing<'a> {
        let is_used =
            |revision: &&Revision| revision.metadata.hash().is_some_and(|hash| self.is_used(hash));
        let mut stored = self.revisions.old.iter().rev().copied().filter(|old| is_stored(old));
        let current = &self.revisions.current;
        match stored.clone().find(|old| is_used(old)) {
            Some(old) => Governing::Old(old),
            None if current.iter().any(is_used) => Governing::Target,
            None if stored.next().is_none() => Governing::Target,
            None => Governing::Unknown,
        }
    }

    fn old_revision_of(&self, pod: &Pod) -> Option<&'a Revision> {
        let hash = pod.metadata.hash()?;
        let mut old = self.revisions.old.iter().copied().filter(|old| is_stored(old));
        old.find(|old| old.metadata.hash() == Some(hash))
    }
}

/// Whether pods can be made from the revision.
fn is_stored(revision: &Revision) -> bool {
    revision.template.is_object() && revision.metadata.hash().is_some()
}
