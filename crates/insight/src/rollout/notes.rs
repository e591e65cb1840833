//! Notes about a DaemonSet that an operator should know although they hold nothing up: another
//! DaemonSet with its selector, another controller.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{DaemonSetKey, Labels, NodeName, RolloutReason, Timestamp};
use everynode_k8s::convert::DaemonSetObject;

use super::PROGRESS_DEADLINE;
use super::next_step::without_finalizers;
use crate::names;
use crate::snapshot::{EventDetail, PodDetail, Snapshot};

/// The maximum width of the names of nodes, in characters.
const NAMES_WIDTH_MAX: usize = 40;

/// The reasons of the events with which controllers report what they do to pods.
const CREATED: &str = "SuccessfulCreate";
const ACTIONS: [&str; 2] = [CREATED, "SuccessfulDelete"];
/// The reasons of the events with which they report that they replace a pod that has ended.
const ENDED: [&str; 2] = ["FailedDaemonPod", "SucceededDaemonPod"];

/// The notes about a DaemonSet, each in one sentence.
pub(crate) fn notes(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Vec<String> {
    let Some(object) = snapshot.daemon_sets.get(key) else { return Vec::new() };
    let notes = [
        not_guarded(object),
        two_controllers(snapshot, object),
        same_pods(snapshot, object),
        ended_pods(snapshot, key),
        restarts(snapshot, key, now),
        replacements(snapshot, object, now),
        namespace(snapshot, key),
    ];
    notes.into_iter().flatten().collect()
}

/// That a policy or a pause has no effect beside the built-in controller (G18).
fn not_guarded(object: &DaemonSetObject) -> Option<String> {
    let stated = object.daemon_set.status.rollout.as_ref()?;
    (stated.reason == RolloutReason::NotGuarded)
        .then(|| format!("its rollout policy or pause has no effect: {}", stated.message))
}

/// That no pod can be created, because the namespace goes.
fn namespace(snapshot: &Snapshot, key: &DaemonSetKey) -> Option<String> {
    let namespace = snapshot.terminating_namespaces.get(&key.namespace)?;
    Some(format!("namespace {namespace} is being deleted: no pod can be created in it"))
}

/// The pods that have ended, so that they hold nothing up, and stay because of finalizers.
fn ended_pods(snapshot: &Snapshot, key: &DaemonSetKey) -> Option<String> {
    let is_held = |detail: &&PodDetail| {
        let has_finalizers = detail.deletion.as_ref().is_some_and(|it| !it.finalizers.is_empty());
        detail.pod.phase.is_terminal() && has_finalizers
    };
    let mut held = snapshot.pods_of(key).filter(is_held);
    let first = held.next()?;
    let name = first.pod.name.as_str();
    let others = match held.count() {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let finalizers = first.deletion.as_ref()?.finalizers.join(", ");
    let next = without_finalizers("pod", key.namespace.as_str(), name);
    Some(format!(
        "pod {name}{others} has ended, and stays because of finalizers: {finalizers}; {next}"
    ))
}

/// The containers that were restarted within [`PROGRESS_DEADLINE`], while no pod fails: between two
/// crashes of a container all looks well.
fn restarts(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Option<String> {
    if snapshot.pods_of(key).any(|detail| detail.state.is_failing()) {
        return None;
    }
    // Those that a change in place has caused do not count.
    let counts = |pod: &everynode_core::api::Pod| !pod.terminating && pod.restarts > 0;
    let restarted = snapshot.pods_of(key).filter(|detail| counts(&detail.pod));
    let restarted = restarted.filter_map(|detail| {
        let (name, exit) = detail.last_restart.as_ref()?;
        is_recent(exit.finished_at, now).then_some((&detail.pod, name, exit))
    });
    let restarted: Vec<_> = restarted.collect();
    let (first, name, exit) = restarted.first()?;
    let pod = &first.name;
    let nodes = restarted.iter().filter_map(|(pod, ..)| pod.target_node_name());
    let nodes = on_nodes(nodes);
    let namespace = &key.namespace;
    Some(format!(
        "restarted within the last 10 min{nodes}: container {name} ({exit}); \
         try: kubectl -n {namespace} logs {pod} -c {name} --previous"
    ))
}

/// The pods that ended within [`PROGRESS_DEADLINE`], such as evicted ones, while no pod fails: they
/// are gone, and between two evictions all looks well. Events of the built-in controller name the
/// node only in their message.
fn replacements(snapshot: &Snapshot, object: &DaemonSetObject, now: Timestamp) -> Option<String> {
    let DaemonSetKey { namespace, .. } = &object.daemon_set.key;
    if snapshot.pods_of(&object.daemon_set.key).any(|detail| detail.state.is_failing()) {
        return None;
    }
    let is_report = |event: &&EventDetail| {
        event.about == object.daemon_set.uid
            && ENDED.contains(&event.reason.as_str())
            && is_recent(event.at, now)
    };
    let mut reports = snapshot.events.values().filter(is_report).peekable();
    reports.peek()?;
    let nodes = on_nodes(reports.filter_map(|event| Some(&event.backoff.as_ref()?.0)));
    Some(format!(
        "pods that had ended were replaced within the last 10 min{nodes}; \
         try: kubectl -n {namespace} get events --field-selector involvedObject.kind=Pod"
    ))
}

fn is_recent(at: Option<Timestamp>, now: Timestamp) -> bool {
    at.is_some_and(|at| now.since(at) <= PROGRESS_DEADLINE)
}

/// " on 2 nodes: node-1, node-2"; empty without nodes.
fn on_nodes<'a>(nodes: impl Iterator<Item = &'a NodeName>) -> String {
    let nodes: BTreeSet<&str> = nodes.map(NodeName::as_str).collect();
    match nodes.len() {
        0 => String::new(),
        1 => format!(" on 1 node: {}", names::shortened(nodes, NAMES_WIDTH_MAX)),
        count => format!(" on {count} nodes: {}", names::shortened(nodes, NAMES_WIDTH_MAX)),
    }
}

/// Two controllers that act in turns: one that has replaced another has begun after its end. One
/// that only deletes pods guards the rollout beside the other (G18).
fn two_controllers(snapshot: &Snapshot, object: &DaemonSetObject) -> Option<String> {
    let mut periods: BTreeMap<&str, (Timestamp, Timestamp)> = BTreeMap::new();
    let is_action = |event: &&EventDetail| {
        event.about == object.daemon_set.uid
            && ACTIONS.contains(&event.reason.as_str())
            && !event.reporter.is_empty()
    };
    for event in snapshot.events.values().filter(is_action) {
        let (Some(since), Some(at)) = (event.since, event.at) else { continue };
        let period = periods.entry(&event.reporter).or_insert((since, at));
        *period = (period.0.min(since), period.1.max(at));
    }
    let creators = snapshot.events.values().filter(is_action).filter(|e| e.reason == CREATED);
    let creators: BTreeSet<&str> = creators.map(|event| event.reporter.as_str()).collect();
    periods.retain(|reporter, _| creators.contains(reporter));
    let mut periods: Vec<_> = periods.into_iter().collect();
    periods.sort_by_key(|(_, (since, _))| *since);
    let both = periods.windows(2).find(|pair| pair[1].1.0 < pair[0].1.1)?;
    let [(one, _), (other, _)] = both else { return None };
    Some(format!(
        "two controllers have acted on its pods in turns, {one} and {other}: disable one of them"
    ))
}

/// Another DaemonSet of the namespace whose selector matches these pods.
pub(crate) fn same_pods(snapshot: &Snapshot, object: &DaemonSetObject) -> Option<String> {
    let key = &object.daemon_set.key;
    let is_other = |other: &DaemonSetKey| other.namespace == key.namespace && other != key;
    let mut others = snapshot.daemon_sets.iter().filter(|(other, _)| is_other(other)).peekable();
    others.peek()?;
    let labels = template_labels(object);
    let selects = |other: &DaemonSetObject| {
        other.daemon_set.selector.as_ref().is_some_and(|selector| selector.matches(&labels))
    };
    let (other, _) = others.find(|(_, other)| selects(other))?;
    Some(format!(
        "daemonset {other} selects its pods as well: give each its own labels and selector"
    ))
}

fn template_labels(object: &DaemonSetObject) -> Labels {
    let template = object.raw.template();
    let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}
