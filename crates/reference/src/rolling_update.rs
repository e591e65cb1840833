//! Which pods are replaced for their revision (C50–C55).

use std::collections::BTreeSet;

use everynode_core::api::{
    IntOrPercent, Node, NodeName, Pod, Readiness, Timestamp, UpdateStrategy,
};

use crate::{Objects, pods, revisions};

/// The nodes on which a rolling update may work at a time (C51).
enum Budget {
    Unavailable(usize),
    Surge(usize),
}

/// One step of a rolling update.
pub(crate) enum Step<'a> {
    /// A new pod is created on the node.
    Create(&'a NodeName),
    /// An old pod is deleted.
    Delete(&'a Pod),
}

/// The pods of a node that nobody deletes, by revision (C45).
struct ByRevision<'a> {
    new: Vec<&'a Pod>,
    old: Vec<&'a Pod>,
}

impl Step<'_> {
    fn node(&self) -> &NodeName {
        match self {
            Self::Create(node) => node,
            Self::Delete(pod) => pods::node_of(pod).expect("pods are found by their node"),
        }
    }
}

/// The budget for as many nodes as should run a pod; `None` if nothing is replaced (C50, C51).
fn budget(objects: &Objects) -> Option<Budget> {
    let (max_unavailable, max_surge) = match objects.daemon_set.update_strategy {
        UpdateStrategy::OnDelete | UpdateStrategy::Malformed => return None,
        UpdateStrategy::RollingUpdate { max_unavailable, max_surge } => {
            (max_unavailable, max_surge)
        }
    };
    let desired = desired(objects);
    let count = |max| match max {
        IntOrPercent::Int(number) => number as usize,
        IntOrPercent::Percent(percent) => {
            let hundredths = desired * percent as usize;
            hundredths / 100 + usize::from(!hundredths.is_multiple_of(100))
        }
    };
    Some(match (count(max_unavailable), count(max_surge)) {
        (0, 0) => Budget::Unavailable(usize::from(desired > 0)),
        (max_unavailable, 0) => Budget::Unavailable(max_unavailable),
        (_, max_surge) => Budget::Surge(max_surge),
    })
}

/// The number of nodes that should run a pod.
fn desired(objects: &Objects) -> usize {
    objects.nodes.iter().filter(|node| pods::answer(objects, node).create).count()
}

/// The pods of a node by revision. If the node must not keep them, they are all deleted anyway.
fn by_revision<'a>(objects: &'a Objects, node: &Node) -> ByRevision<'a> {
    let mut staying = pods::staying(objects, &node.name);
    if !pods::answer(objects, node).keep {
        staying.clear();
    }
    let (new, old) = staying.into_iter().partition(|pod| revisions::is_current(objects, pod));
    ByRevision { new, old }
}

/// The nodes that take part: those that should run a pod or have one, by name (C55), and are not
/// left alone.
fn nodes(objects: &Objects) -> impl Iterator<Item = &Node> {
    pods::nodes(objects).into_iter().filter(|node| {
        let has_pods = !pods::on_node(objects, &node.name).is_empty();
        (pods::answer(objects, node).create || has_pods) && !is_left_alone(objects, node)
    })
}

/// True if the kubelet of the node does not answer, and the rolling update has not begun there
/// before: the node has only an old pod, or all that could be its work is of a later time (C58).
fn is_left_alone(objects: &Objects, node: &Node) -> bool {
    let Some(since) = node.unreachable_since() else { return false };
    let is_later = |pod: &Pod| pod.deleted_at.unwrap_or(pod.creation_timestamp) >= since;
    let pods = by_revision(objects, node);
    match (&pods.new[..], &pods.old[..]) {
        ([], []) => {
            let all = pods::on_node(objects, &node.name);
            !all.is_empty() && all.into_iter().all(is_later)
        }
        ([], [_]) => true,
        ([new], [] | [_]) => is_later(new),
        _ => false,
    }
}

/// The steps of the rolling update, but on the nodes on which pods are deleted anyway (C50–C53).
pub(crate) fn steps<'a>(
    objects: &'a Objects,
    others: &BTreeSet<&NodeName>,
    now: Timestamp,
) -> Vec<Step<'a>> {
    let mut steps = match budget(objects) {
        None => Vec::new(),
        Some(Budget::Unavailable(max)) => without_surge(objects, max, now),
        Some(Budget::Surge(max)) => with_surge(objects, max, now),
    };
    steps.retain(|step| !others.contains(step.node()));
    steps
}

/// True if the budget must allow to replace this old pod: it is available, or is ready and will be
/// (C52, C53).
fn needs_budget(objects: &Objects, old: &Pod, now: Timestamp) -> bool {
    pods::is_available(objects, old, now) || matches!(old.readiness, Readiness::ReadySince(_))
}

/// Replacements that leave a node without a pod for a while: old pods that are not ready at once,
/// others as far as the budget allows (C52). A node that gets no new pod keeps the old one (C57).
fn without_surge(objects: &Objects, max_unavailable: usize, now: Timestamp) -> Vec<Step<'_>> {
    let mut unavailable = 0;
    let (mut at_once, mut candidates) = (Vec::new(), Vec::new());
    for node in nodes(objects) {
        let pods = by_revision(objects, node);
        match (&pods.new[..], &pods.old[..]) {
            ([new], []) if pods::is_available(objects, new, now) => {}
            ([], [_]) if !pods::answer(objects, node).create => {}
            ([], [old]) => {
                unavailable += usize::from(!pods::is_available(objects, old, now));
                let needs_budget = needs_budget(objects, old, now);
                let steps = if needs_budget { &mut candidates } else { &mut at_once };
                steps.push(Step::Delete(old));
            }
            _ => unavailable += 1,
        }
    }
    at_once.extend(candidates.into_iter().take(max_unavailable.saturating_sub(unavailable)));
    at_once
}

/// Creations of new pods beside old ones: beside those that are not ready at once, beside others as
/// far as the budget allows. An old pod is deleted once the new one is available (C53). A node that
/// gets no new pod keeps the old one (C57).
fn with_surge(objects: &Objects, max_surge: usize, now: Timestamp) -> Vec<Step<'_>> {
    let mut surging = 0;
    let (mut replaced, mut at_once, mut candidates) = (Vec::new(), Vec::new(), Vec::new());
    for node in nodes(objects) {
        let pods = by_revision(objects, node);
        if pods.new.len() > 1 || pods.old.len() > 1 {
            surging += 1;
            continue;
        }
        match (&pods.new[..], &pods.old[..]) {
            ([new], [old]) if pods::is_available(objects, new, now) => {
                replaced.push(Step::Delete(old))
            }
            ([_], [_]) => surging += 1,
            ([], [old])
                if pods::answer(objects, node).create
                    && pods::may_create(objects, &node.name, now) =>
            {
                let needs_budget = needs_budget(objects, old, now);
                let steps = if needs_budget { &mut candidates } else { &mut at_once };
                steps.push(Step::Create(&node.name));
            }
            _ => {}
        }
    }
    candidates.truncate(max_surge.saturating_sub(surging));
    replaced.into_iter().chain(at_once).chain(candidates).collect()
}
