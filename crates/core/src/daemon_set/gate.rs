//! Which revision governs a node: the one that decides whether a pod may run there, and from which
//! a missing pod is created (G1).
//!
//! While the rollout is not paused, that is the current revision, the *target*, on every node, and
//! nothing here is read. While it is paused, nodes that have a pod of the target keep it, nodes
//! with an older pod keep that, and nodes without a pod get the *base*.

use std::collections::BTreeMap;

use crate::api::{Labels, Node, Revision, RevisionHash, Template};
use crate::placement::{self, Eligibility};
use crate::revisions::{RevisionLabels, RevisionSet};

use super::node::PodView;

/// Whether nodes without a pod of the target may get one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Gate {
    /// The target governs all nodes.
    #[default]
    Open,
    /// The target governs the nodes that have a pod of it.
    Closed(OldRevisions),
}

/// The stored revisions of other templates than the target's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OldRevisions {
    templates: BTreeMap<RevisionHash, Template>,
    /// The revision of nodes without a pod. `None` if that is the target.
    base: Option<RevisionHash>,
    /// Whether the target is stored. If not, labels still tell which pods were updated before.
    is_target_stored: bool,
}

/// The revision that governs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Governing<'a> {
    Target,
    Old { hash: &'a RevisionHash, template: &'a Template },
}

impl<'a> Governing<'a> {
    /// The template of the revision; `target` is the DaemonSet's.
    pub(super) const fn template(self, target: &'a Template) -> &'a Template {
        match self {
            Self::Target => target,
            Self::Old { template, .. } => template,
        }
    }
}

impl Gate {
    /// The gate of a paused rollout. The base is the newest old revision that a pod has. If no pod
    /// has one, the target is rolled out already, unless it has no pods either: then the base
    /// remains what it was, or what was the target. `labels` may be those of the previous target.
    pub(super) fn closed(
        &self,
        revisions: &RevisionSet<'_>,
        labels: &RevisionLabels,
        is_target_stored: bool,
    ) -> Self {
        let stored = |old: &&Revision| Some((old.hash()?, old.template.clone().ok()?));
        let templates: BTreeMap<_, _> = revisions.old.iter().filter_map(stored).collect();
        let is_stored = |hash: &RevisionHash| templates.contains_key(hash);
        let newest_first = revisions.old.iter().rev().filter_map(|old| old.hash());
        let used = newest_first.filter(is_stored).find(|hash| labels.is_live(hash));
        let is_rolled_out = || revisions.current_hashes().iter().any(|hash| labels.is_live(hash));
        let before = || self.base().into_iter().chain(labels.current_hashes()).cloned();
        let base = match used {
            Some(hash) => Some(hash),
            None if is_rolled_out() => None,
            None => before().find(is_stored),
        };
        Self::Closed(OldRevisions { templates, base, is_target_stored })
    }

    /// The hash of the base, unless that is the target. History keeps it (G16).
    pub(super) const fn base(&self) -> Option<&RevisionHash> {
        match self {
            Self::Open => None,
            Self::Closed(old) => old.base.as_ref(),
        }
    }

    /// Whether pods of older revisions may be replaced.
    pub(super) const fn is_open(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Closed(_) => false,
        }
    }

    /// The revision that governs a node with these pods.
    pub(super) fn governing(&self, pods: &[PodView], labels: &RevisionLabels) -> Governing<'_> {
        match self {
            Self::Open => Governing::Target,
            Self::Closed(old) => old.governing(pods, labels),
        }
    }

    /// Whether a node with these pods is eligible by the revision that governs it.
    pub(super) fn eligibility(
        &self,
        target: &Template,
        namespace_node_selector: &Labels,
        node: &Node,
        pods: &[PodView],
        labels: &RevisionLabels,
    ) -> Eligibility {
        let template = self.governing(pods, labels).template(target);
        let found = placement::eligibility(&template.placement, namespace_node_selector, node);
        match self {
            Self::Open => found,
            // Nothing states where a pod may run whose revision is not stored, so it stays.
            Self::Closed(old) if !found.should_continue_running() => {
                let is_known = |pod: &PodView| {
                    old.is_target(pod, labels) || old.revision_of(pod, labels).is_some()
                };
                if pods.iter().all(is_known) { found } else { Eligibility::ContinueRunning }
            }
            Self::Closed(_) => found,
        }
    }
}

impl OldRevisions {
    /// The target if a pod has it, else the revision of the oldest pod, else the base.
    fn governing(&self, pods: &[PodView], labels: &RevisionLabels) -> Governing<'_> {
        if pods.iter().any(|pod| self.is_target(pod, labels)) {
            return Governing::Target;
        }
        let carried = pods.iter().find_map(|pod| self.revision_of(pod, labels));
        let base = || self.templates.get_key_value(self.base.as_ref()?);
        match carried.or_else(base) {
            None => Governing::Target,
            Some((hash, template)) => Governing::Old { hash, template },
        }
    }

    fn is_target(&self, pod: &PodView, labels: &RevisionLabels) -> bool {
        self.is_target_stored
            && labels.is_updated(pod.labels)
            && self.revision_of(pod, labels).is_none()
    }

    fn revision_of(
        &self,
        pod: &PodView,
        labels: &RevisionLabels,
    ) -> Option<(&RevisionHash, &Template)> {
        self.templates.get_key_value(labels.hash(pod.labels)?)
    }
}
