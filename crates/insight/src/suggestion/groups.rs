//! Nodes by the values of a label: kinds of machines, and zones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{IntOrPercent, Labels};

use crate::snapshot::ZONE_LABEL;

/// Labels that tell kinds of machines apart: as device plugins, clouds and Kubernetes set them. Of
/// two that divide nodes into as many kinds, the first counts.
const KIND_LABELS: [&str; 10] = [
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "kubernetes.azure.com/accelerator",
    "accelerator",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/arch",
    "kubernetes.io/os",
];

/// The maximum number of zones that a step takes one after the other, each with a bake time of its
/// own, and of kinds of machines in a canary.
pub(super) const GROUPS_MAX: usize = 6;

/// The percentages of nodes after which a rollout pauses to bake.
const PERCENTAGES: [u32; 2] = [10, 50];

/// The kinds of machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kinds {
    /// No label tells kinds apart.
    Alike,
    /// A label divides the nodes into a few kinds.
    Few {
        label: &'static str,
        /// The number of nodes by value of the label, first those without it.
        kinds: BTreeMap<Option<String>, usize>,
    },
    /// A label divides the nodes into more than [`GROUPS_MAX`] kinds, as any other does.
    Many {
        label: &'static str,
        kinds: usize,
        /// The values that most nodes have.
        most: BTreeSet<String>,
        /// The number of nodes with one of these values.
        nodes: usize,
    },
}

/// The sizes of the waves after the canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shares {
    /// All other nodes, if there are any, in one wave: there are too few for more.
    Rest,
    /// Percentages of all nodes.
    OfAll(Vec<u32>),
    /// Percentages of each zone; the largest has so many nodes.
    OfZone(Vec<u32>, usize),
}

impl Kinds {
    /// The kinds by the label that divides the nodes into the most of at most [`GROUPS_MAX`]; if
    /// each makes more, by the one that makes the fewest.
    pub(super) fn of(nodes: &[&Labels]) -> Self {
        let divisions = KIND_LABELS.map(|label| (label, groups(nodes, label)));
        let divisions: Vec<_> =
            divisions.into_iter().filter(|(_, kinds)| kinds.len() > 1).collect();
        let few = divisions.iter().filter(|(_, kinds)| kinds.len() <= GROUPS_MAX);
        // Of equals, the first is the minimum.
        if let Some((label, kinds)) = few.min_by_key(|(_, kinds)| Reverse(kinds.len())) {
            return Self::Few { label, kinds: kinds.clone() };
        }
        match divisions.into_iter().min_by_key(|(_, kinds)| kinds.len()) {
            None => Self::Alike,
            Some((label, kinds)) => Self::many(label, kinds),
        }
    }

    fn many(label: &'static str, groups: BTreeMap<Option<String>, usize>) -> Self {
        let kinds = groups.len();
        let named = groups.into_iter().filter_map(|(value, nodes)| Some((value?, nodes)));
        let mut named: Vec<(String, usize)> = named.collect();
        named.sort_by_key(|(_, nodes)| Reverse(*nodes));
        named.truncate(GROUPS_MAX);
        let nodes = named.iter().map(|(_, nodes)| nodes).sum();
        let most = named.into_iter().map(|(value, _)| value).collect();
        Self::Many { label, kinds, most, nodes }
    }

    /// The number of nodes that try a template first.
    pub(super) fn canaries(&self) -> usize {
        match self {
            Self::Alike => 1,
            Self::Few { kinds, .. } => kinds.len(),
            Self::Many { most, .. } => most.len(),
        }
    }
}

impl Shares {
    /// A percentage that means no more nodes than have the template already is left out.
    pub(super) fn of(nodes: &[&Labels], zones: usize, canaries: usize) -> Self {
        if canaries >= nodes.len() {
            return Self::Rest;
        }
        if (2..=GROUPS_MAX).contains(&zones) {
            let largest = groups(nodes, ZONE_LABEL).into_values().max().unwrap_or(0);
            let mut percentages = growing(largest, 1);
            percentages.push(100);
            return Self::OfZone(percentages, largest);
        }
        match growing(nodes.len(), canaries) {
            none if none.is_empty() => Self::Rest,
            percentages => Self::OfAll(percentages),
        }
    }
}

/// The number of zones; 0 if nodes have no label of one.
pub(super) fn zones(nodes: &[&Labels]) -> usize {
    groups(nodes, ZONE_LABEL).keys().flatten().count()
}

/// The percentages of `nodes` that are more than `before`, and fewer than all of them.
fn growing(nodes: usize, before: usize) -> Vec<u32> {
    let is_useful = |percent: &u32| {
        let size = IntOrPercent::Percent(*percent).resolve(nodes);
        size > before && size < nodes
    };
    PERCENTAGES.into_iter().filter(is_useful).collect()
}

/// The number of nodes by value of a label.
fn groups(nodes: &[&Labels], label: &str) -> BTreeMap<Option<String>, usize> {
    let mut groups = BTreeMap::new();
    for labels in nodes {
        *groups.entry(labels.get(label).map(ToString::to_string)).or_default() += 1;
    }
    groups
}
