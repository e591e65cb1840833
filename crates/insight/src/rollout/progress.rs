//! The progress of a rollout in one sentence, as `explain` prints it.

use everynode_core::api::{Budget, NodeName, RolloutReason, UpdateStrategy};
use everynode_core::daemon_set::Step;
use everynode_core::plan::Write;

use crate::controller_view::ControllerView;
use crate::names;

use super::revision::CurrentContent;

/// The maximum width of a list of node names, in characters.
const NAMES_WIDTH_MAX: usize = 60;

/// A node of the snapshot, and the reason for its situation.
pub(crate) type NodeReason<'a> = (&'a NodeName, &'a str);

/// The progress of the rollout and what it waits for. `nodes` lists every node of the snapshot.
pub(crate) fn summary(view: &ControllerView<'_>, nodes: &[NodeReason<'_>]) -> String {
    let tally = view.tally();
    if !view.is_applied() {
        return "not applied yet".to_owned();
    }
    if view.daemon_set().terminating {
        return "nothing is rolled out while it is being deleted".to_owned();
    }
    if !view.knows_revisions_of_pods() {
        return "rollout progress is unknown: pods or revisions were not read".to_owned();
    }
    let outdated = tally.current - tally.updated;
    let stated = view.daemon_set().status.rollout.as_ref();
    // A failed rollout is not over, even if all pods are updated and available.
    let goes_on =
        |reason: RolloutReason| reason.class().is_under_way() || reason == RolloutReason::Failed;
    if outdated == 0 && !stated.is_some_and(|stated| goes_on(stated.reason)) {
        return match tally.desired - tally.available {
            _ if tally.desired == 0 => "nothing to roll out: no node should run a pod".to_owned(),
            0 => "nothing to roll out: every desired node has an available pod of the current \
                  revision"
                .to_owned(),
            missing if tally.current == 0 => {
                format!("{missing} of {} {} no pod", tally.desired, have(missing))
            }
            missing => format!(
                "every pod is of the current revision; {missing} of {} {} no available pod",
                tally.desired,
                have(missing)
            ),
        };
    }
    let (updated, desired) = (tally.updated, tally.desired);
    let progress = format!("{updated} of {desired} {} the current revision", have(updated));
    let daemon_set = view.daemon_set();
    let awaits_person = stated.is_some_and(|stated| stated.reason.class().awaits_person());
    if daemon_set.is_paused() && !awaits_person {
        return format!("{progress}; the rollout is paused: the {outdated} other pods stay");
    }
    // Without a budget the policy is not known here.
    let budget = daemon_set.budget(tally.desired);
    let says_all = |reason| reason != RolloutReason::Updating || budget.is_none();
    if let Some(stated) = stated.filter(|stated| says_all(stated.reason)) {
        return format!("{progress}; {}", stated.message);
    }
    let (option, budget) = match (daemon_set.strategy(), budget) {
        (_, Some(Budget::Surge(nodes))) => ("maxSurge", nodes),
        (_, Some(Budget::Unavailable(nodes))) => ("maxUnavailable", nodes),
        (UpdateStrategy::OnDelete, None) => {
            return format!(
                "{progress}; with OnDelete the {outdated} other pods stay until someone deletes \
                 them"
            );
        }
        (UpdateStrategy::Malformed | UpdateStrategy::RollingUpdate { .. }, None) => {
            return format!("{progress}; updateStrategy is malformed");
        }
    };
    format!("{progress}; {}", next_step(view, nodes, option, budget))
}

const fn have(nodes: usize) -> &'static str {
    if nodes == 1 { "nodes has" } else { "nodes have" }
}

/// The nodes on which the controller acts next, or the node that uses up the budget.
fn next_step(
    view: &ControllerView<'_>,
    nodes: &[NodeReason<'_>],
    option: &str,
    budget: usize,
) -> String {
    if view.plan.writes.iter().any(|write| matches!(write, Write::CreateRevision(_))) {
        return "the controller is about to store the new revision".to_owned();
    }
    let is_next = |(node, _): &&NodeReason<'_>| {
        let is_on_node = |write: &Write| match write {
            Write::CreatePod(new) => new.node == **node,
            Write::DeletePod(pod) => pod.node.as_ref() == Some(*node),
            _ => false,
        };
        view.inspect(node).step != Step::None && view.plan.writes.iter().any(is_on_node)
    };
    let next: Vec<&str> = nodes.iter().filter(is_next).map(|(node, _)| node.as_str()).collect();
    if !next.is_empty() {
        return format!("next: {}", names::shortened(next.iter().copied(), NAMES_WIDTH_MAX));
    }
    let used = view.budget_used();
    let users: Vec<&NodeReason<'_>> =
        nodes.iter().filter(|(node, _)| view.inspect(node).uses_budget).collect();
    match users.first() {
        None => "the rollout continues".to_owned(),
        Some((node, reason)) => {
            let others = match users.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            // With some of the budget left, a guarded rollout waits for the nodes of its wave.
            if used < budget {
                return format!("waits for {node} ({reason}){others}");
            }
            let new = if has_joined(view, node) { NEW_NODE } else { "" };
            format!(
                "held up: {used} of {option} {budget} used up by {node} ({reason}){new}{others}"
            )
        }
    }
}

/// The words about a node that has joined during the rollout and uses its budget (C52).
const NEW_NODE: &str = ", a new node, which counts until its first pod is available";

/// True if the node has joined since the rollout began: it has no available pod to lose.
fn has_joined(view: &ControllerView<'_>, node: &NodeName) -> bool {
    let current = CurrentContent::new(view.snapshot, view.daemon_set());
    let pods = view.snapshot.pods_of(&view.daemon_set().key);
    let new = pods.filter(|detail| !current.is_outdated(&detail.pod));
    let began_at = new.map(|detail| detail.pod.creation_timestamp).min();
    began_at.is_some_and(|began_at| began_at < view.snapshot.nodes[node].node.created)
}
