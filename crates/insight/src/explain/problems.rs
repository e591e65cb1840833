//! Problems of a DaemonSet itself, and of the objects that were read.

use everynode_core::api::NAMESPACE_NODE_SELECTOR_ANNOTATION;
use everynode_core::plan::Notice;

use crate::controller_view::ControllerView;
use crate::rollout::{PendingDeletion, is_long_unobserved, notes, unobserved};

/// The problems that an operator should know of, each in one sentence.
pub(super) fn problems(view: &ControllerView<'_>) -> Vec<String> {
    let daemon_set = view.daemon_set();
    let notices = view.plan.notices.iter().filter(|notice| is_problem(notice));
    let mut problems: Vec<String> = notices.map(Notice::to_string).collect();
    let deletion = view.snapshot.deletions.get(&daemon_set.key);
    if let Some(deletion) = deletion.map(|it| PendingDeletion::of(it, view.now)) {
        problems.push(format!("the controller no longer acts on it: it is {deletion}"));
    }
    problems.extend(ignored_namespace_node_selector(view));
    let (observed, generation) = (daemon_set.status.observed_generation, daemon_set.generation);
    if observed < generation && view.is_applied() && !daemon_set.terminating {
        let text = unobserved(is_long_unobserved(view.snapshot, daemon_set, view.now));
        problems.push(format!("{text} (generation {generation}, observed {observed})"));
    }
    problems.extend(notes(view.snapshot, &daemon_set.key, view.now));
    problems.extend(view.snapshot.problems.iter().cloned());
    problems
}

/// A warning about the namespace's node selector annotation if the answer ignores it (C15).
fn ignored_namespace_node_selector(view: &ControllerView<'_>) -> Option<String> {
    let namespace = &view.daemon_set().key.namespace;
    let selector = view.snapshot.namespace_node_selectors.get(namespace)?;
    if view.snapshot.honors_namespace_node_selectors {
        return None;
    }
    let labels: Vec<String> =
        selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Some(format!(
        "namespace {namespace} has the annotation {NAMESPACE_NODE_SELECTOR_ANNOTATION}: {}, which \
         is not taken into account: everynode honors it with --namespace-node-selectors only",
        labels.join(",")
    ))
}

/// True if the notice concerns the DaemonSet itself; the others announce what a plan does to pods.
const fn is_problem(notice: &Notice) -> bool {
    matches!(notice, Notice::SelectingAll | Notice::Problem(_))
}
