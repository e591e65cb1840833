//! Why a pod does not fit its node, in numbers and names: what it asks for, what the node has, who
//! holds a port.

use std::collections::BTreeSet;

use everynode_core::api::{DaemonSetKey, NodeName, Uid};
use everynode_k8s::fit::{HostPort, Room, Usage};

use super::evidence::Evidence;
use crate::snapshot::{PodDetail, PodState, Snapshot};

/// The scheduler's words about a port that another pod of the node holds.
pub(super) const PORTS_TAKEN: &str = "node(s) didn't have free ports for the requested pod ports";

/// Why a pod does not fit its node.
pub(crate) struct Shortage {
    /// The amounts that it asks for and that the node has, or the pod that holds the port.
    pub(crate) text: String,
    /// The operator's next step.
    pub(crate) next: Option<String>,
}

/// The rule that a surge with host ports can't be rolled out.
pub(crate) fn surge_with_host_ports(ports: &[HostPort]) -> String {
    let ports: Vec<String> =
        ports.iter().map(|port| format!("{}/{}", port.port, port.protocol)).collect();
    format!(
        "host port {} with maxSurge: the old and the new pod can't run on the same node; use \
         maxUnavailable",
        ports.join(", ")
    )
}

/// A pod that holds a port.
struct Holder {
    namespace: String,
    name: String,
    /// It is a pod of the same DaemonSet.
    is_sibling: bool,
}

impl Evidence<'_> {
    /// Why an unschedulable pod does not fit its node; `None` if that is not known.
    pub(crate) fn shortage(&self, detail: &PodDetail) -> Option<Shortage> {
        let PodState::Unscheduled { message } = &detail.state else { return None };
        let node = detail.pod.target_node_name()?;
        let reason = scheduler_reason(message);
        if reason.contains("free ports") {
            return self.taken_port(detail, node);
        }
        let snapshot = self.snapshot();
        let (room, is_complete) = room(snapshot, node, &detail.pod.uid)?;
        let resources = reason.split(", ").filter_map(|reason| match reason {
            "Too many pods" => Some("pods"),
            other => other.strip_prefix("Insufficient "),
        });
        // The scheduler may have judged by an older version of the node.
        let is_asked = |it: &&str| *it == "pods" || detail.usage.requests.amount(it) > 0;
        let texts: Vec<String> = resources
            .filter(is_asked)
            .map(|it| amounts(it, &detail.usage, &room, is_complete, node))
            .collect();
        (!texts.is_empty()).then(|| Shortage {
            text: texts.join("; "),
            next: Some(format!("kubectl describe node {node}")),
        })
    }

    fn taken_port(&self, detail: &PodDetail, node: &NodeName) -> Option<Shortage> {
        let wanted = &detail.usage.host_ports;
        let (port, holder) = wanted.iter().find_map(|port| {
            let holder = holder(self.snapshot(), &self.daemon_set().key, node, port)?;
            Some((port, holder))
        })?;
        let DaemonSetKey { namespace, name } = &self.daemon_set().key;
        if holder.is_sibling && self.daemon_set().strategy().surges() {
            return Some(Shortage {
                text: surge_with_host_ports(wanted),
                next: Some(format!(
                    "kubectl -n {namespace} patch ds {name} --type=merge -p \
                     '{{\"spec\":{{\"updateStrategy\":{{\"rollingUpdate\":{{\"maxSurge\":0,\
                     \"maxUnavailable\":1}}}}}}}}'"
                )),
            });
        }
        let Holder { namespace, name, .. } = &holder;
        let text = format!(
            "host port {}/{} of {node} is held by pod {namespace}/{name}",
            port.port, port.protocol
        );
        Some(Shortage { text, next: Some(format!("kubectl -n {namespace} describe pod {name}")) })
    }
}

/// The node with what its pods use, without the pod in question, and whether all of them are known.
fn room(snapshot: &Snapshot, node: &NodeName, without: &Uid) -> Option<(Room, bool)> {
    let detail = snapshot.nodes.get(node).filter(|detail| detail.reports_allocatable)?;
    let mut room = detail.room.clone();
    let mut seen: BTreeSet<&Uid> = BTreeSet::from([without]);
    let is_complete = snapshot.node_pods.values().any(|pod| pod.node == *node)
        || snapshot.other_pods.values().any(|(on, _)| on == node);
    let read = snapshot.node_pods.values().map(|pod| (&pod.uid, &pod.node, &pod.usage));
    let others = snapshot.other_pods.iter().map(|(uid, (on, usage))| (uid, on, usage));
    let own = snapshot.pods.values().filter_map(|detail| {
        let pod = &detail.pod;
        let on = pod.node_name.as_ref().filter(|_| !pod.phase.is_terminal())?;
        Some((&pod.uid, on, &detail.usage))
    });
    for (uid, on, usage) in read.chain(others).chain(own) {
        if on == node && seen.insert(uid) {
            room.add(usage);
        }
    }
    Some((room, is_complete))
}

/// `it asks for 64 cpu; node-1 has 8, of which 1.5 are free`
fn amounts(
    resource: &str,
    usage: &Usage,
    room: &Room,
    is_complete: bool,
    node: &NodeName,
) -> String {
    let (capacity, used) = (room.capacity(resource), room.used(resource));
    let shown = |amount: i64| amount_text(resource, amount);
    if resource == "pods" {
        let pods = if capacity == 1 { "pod" } else { "pods" };
        return match is_complete {
            true => format!("{node} may run {capacity} {pods}, and has {used}"),
            false => format!("{node} may run {capacity} {pods}"),
        };
    }
    let asked = shown(usage.requests.amount(resource));
    let total = shown(capacity);
    match is_complete {
        true => {
            let free = shown((capacity - used).max(0));
            format!("it asks for {asked} {resource}; {node} has {total}, of which {free} are free")
        }
        false => format!("it asks for {asked} {resource}; {node} has {total} in all"),
    }
}

/// An amount as people write it: CPU in cores, memory in the largest unit that is not too coarse.
fn amount_text(resource: &str, amount: i64) -> String {
    const UNITS: [(i64, &str); 4] =
        [(1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    let is_bytes =
        matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    let tenths = |amount: i64, unit: i64| {
        let tenths = i128::from(amount) * 10 / i128::from(unit);
        match tenths % 10 {
            0 => (tenths / 10).to_string(),
            rest => format!("{}.{rest}", tenths / 10),
        }
    };
    if resource == "cpu" {
        return match amount {
            0 => "0".to_owned(),
            1..100 => format!("{amount}m"),
            _ => tenths(amount, 1000),
        };
    }
    match UNITS.iter().find(|(unit, _)| is_bytes && amount >= *unit) {
        Some((unit, name)) => format!("{}{name}", tenths(amount, *unit)),
        None => amount.to_string(),
    }
}

/// The pod that holds a port of the node; `None` if it was not read.
fn holder(
    snapshot: &Snapshot,
    key: &DaemonSetKey,
    node: &NodeName,
    port: &HostPort,
) -> Option<Holder> {
    let holds = |usage: &Usage| usage.host_ports.iter().any(|held| held.conflicts(port));
    let sibling = snapshot.pods_of(key).find(|detail| {
        let pod = &detail.pod;
        pod.node_name.as_ref() == Some(node) && !pod.phase.is_terminal() && holds(&detail.usage)
    });
    if let Some(detail) = sibling {
        let (namespace, name) = (detail.pod.namespace.to_string(), detail.pod.name.to_string());
        return Some(Holder { namespace, name, is_sibling: true });
    }
    let others = snapshot.node_pods.iter();
    let other = others.clone().find(|(_, pod)| pod.node == *node && holds(&pod.usage));
    let ((namespace, name), _) = other?;
    let (namespace, name) = (namespace.to_string(), name.to_string());
    Some(Holder { namespace, name, is_sibling: false })
}

/// The part of the scheduler's message that concerns the one node that the pod may run on: of `0/3
/// nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. …`
/// it is `Insufficient cpu`.
pub(super) fn scheduler_reason(message: &str) -> String {
    let Some((_, clauses)) = message.split_once(": ") else { return message.to_owned() };
    // The rest is about preemption, which an operator can do nothing with.
    let clauses = clauses.split_once(". ").map_or(clauses, |(clauses, _)| clauses);
    let clauses = clauses.trim_end_matches('.');
    let reasons: Vec<&str> = clauses
        .split(", ")
        .map(|clause| clause.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '))
        .filter(|clause| !clause.contains("node affinity") && !clause.contains("[NodeAffinity]"))
        .collect();
    if reasons.is_empty() { clauses.to_owned() } else { reasons.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_people_write_them() {
        for (resource, amount, expected) in [
            ("cpu", 0, "0"),
            ("cpu", 50, "50m"),
            ("cpu", 1500, "1.5"),
            ("cpu", 64_000, "64"),
            ("memory", 0, "0"),
            ("memory", 900, "900"),
            ("memory", 8 << 30, "8Gi"),
            ("memory", 1536 << 20, "1.5Gi"),
            ("ephemeral-storage", 100 << 20, "100Mi"),
            ("nvidia.com/gpu", 4096, "4096"),
        ] {
            assert_eq!(amount_text(resource, amount), expected, "{resource}");
        }
    }

    #[test]
    fn the_schedulers_message_is_reduced_to_the_pods_own_node() {
        for (message, expected) in [
            (
                "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) \
                 [NodeAffinity]. preemption: 0/3 nodes are available: 1 No preemption \
                 victims found.",
                "Insufficient cpu",
            ),
            (
                "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) \
                 [NodeAffinity]. no new claims to deallocate, preemption: 0/3 nodes are \
                 available: 3 Preemption is not helpful for scheduling.",
                "Insufficient cpu",
            ),
            (
                "0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod \
                 ports, 1 node(s) didn't match Pod's node affinity/selector.",
                "node(s) didn't have free ports for the requested pod ports",
            ),
            (
                "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no \
                 new claims to deallocate, preemption: no victims.",
                "1 node(s) didn't match Pod's node affinity/selector",
            ),
            ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ] {
            assert_eq!(scheduler_reason(message), expected);
        }
    }
}
