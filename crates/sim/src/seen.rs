//! Lines of the transcript about what a replica sees: of each object what matters for a rollout.

use everynode_controller::observation::Observation;
use everynode_controller::watch::Change;
use everynode_core::api::{DaemonSet, Node, NodeReadiness, Pod, PolicySource, Readiness, Revision};
use everynode_k8s::convert::{PodObject, RevisionObject};

/// The line for a change, after `replica N sees`.
pub(crate) fn line(observation: &Observation) -> String {
    match observation {
        Observation::Pod(change) => of_change("pod", change, |item| match item {
            PodObject::Pod(item) => pod(item),
            PodObject::Puller(item) => format!("{item:?}"),
            PodObject::Foreign { uid, .. } => format!("{uid} of another kind"),
        }),
        Observation::Node(change) => of_change("node", change, node),
        Observation::Revision(change) => of_change("revision", change, |item| match item {
            RevisionObject::Revision { revision: item, .. } => revision(item),
            RevisionObject::Foreign { uid, .. } => format!("{uid} of another kind"),
        }),
        Observation::DaemonSet(change) => {
            of_change("DaemonSet", change, |item| daemon_set(&item.daemon_set))
        }
        other => {
            let mut text = format!("{other:?}");
            text.truncate(text.floor_char_boundary(160));
            text
        }
    }
}

fn of_change<T>(kind: &str, change: &Change<T>, object: impl Fn(&T) -> String) -> String {
    match change {
        Change::Reset { items, .. } => {
            let all: Vec<String> = items.iter().map(object).collect();
            format!("all {} of kind {kind}: {}", all.len(), all.join("; "))
        }
        Change::Applied { item, .. } => format!("{kind} {}", object(item)),
        Change::Deleted { item, .. } => format!("the deletion of {kind} {}", object(item)),
        Change::Reached(version) => format!("nothing new of kind {kind} up to {}", version.0),
    }
}

fn pod(pod: &Pod) -> String {
    let name = |node: Option<_>| node.map_or_else(|| "no node".to_owned(), ToString::to_string);
    let mut text = format!("{} on {}", pod.name, name(pod.target_node_name()));
    let mut add = |part: String| {
        text.push_str(", ");
        text.push_str(&part);
    };
    if let Some(hash) = pod.revision_hash() {
        add(format!("revision {hash}"));
    }
    add(match pod.readiness {
        Readiness::NotReady => format!("{:?}, not ready", pod.phase),
        Readiness::Ready => "ready".to_owned(),
        Readiness::ReadySince(since) => format!("ready since {}", since.0),
    });
    if let Some(change) = &pod.change {
        add(format!("changed to {} since {}: {:?}", change.to.hash, change.since.0, change.state));
    }
    if pod.restarts > 0 {
        add(format!("{} restarts", pod.restarts));
    }
    if pod.unschedulable {
        add("unschedulable".to_owned());
    }
    if pod.terminating {
        add("terminating".to_owned());
    }
    text
}

fn node(node: &Node) -> String {
    let mut text = node.name.to_string();
    match node.readiness {
        NodeReadiness::Ready => {}
        NodeReadiness::NotReady { since } => text += &format!(", not ready since {}", since.0),
        NodeReadiness::Unreachable { since } => text += &format!(", unreachable since {}", since.0),
    }
    for taint in &node.taints {
        text += &format!(", taint {taint}");
    }
    for condition in &node.conditions {
        text += &format!(", condition {condition}");
    }
    text
}

fn revision(revision: &Revision) -> String {
    let copies = revision.overrides.as_ref().and_then(|overrides| overrides.copies.as_ref());
    let copies = copies.map(|copies| format!(" with copies {:?}", copies.hashes));
    let copies = copies.unwrap_or_default();
    format!("{} number {}{copies}: {:?}", revision.name, revision.number, revision.record)
}

fn daemon_set(daemon_set: &DaemonSet) -> String {
    let policy = match &daemon_set.policy {
        PolicySource::None => "no policy".to_owned(),
        PolicySource::Invalid(why) => format!("an invalid policy: {why}"),
        PolicySource::Valid(policy) => match &policy.config {
            Some(config) => format!("a policy with {config:?}"),
            None => "a policy".to_owned(),
        },
    };
    let mut text = format!(
        "{} generation {} template {:?} with {policy}",
        daemon_set.key, daemon_set.generation, daemon_set.template_generation
    );
    if daemon_set.paused {
        text += ", paused";
    }
    if let Some(order) = &daemon_set.order {
        text += &format!(", order {order:?}");
    }
    text
}
