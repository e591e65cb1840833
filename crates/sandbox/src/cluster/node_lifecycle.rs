//! The node lifecycle controller (S23): detects expired leases, marks the nodes and their pods as
//! not ready, and manages the taints that represent conditions and cordoning.

use std::collections::HashMap;
use std::sync::Arc;

use everynode_core::api::Timestamp;

use super::component_context::ComponentContext;
use super::event::{EventSubject, EventText};
use super::timer::Timer;
use crate::clock::rfc3339;
use crate::condition;
use crate::json::{Value, json};
use crate::nodes::{self, is_condition_taint};
use crate::object::Object;
use crate::value::text;

const NAME: &str = "node-controller";

#[derive(Debug, Default)]
pub(super) struct NodeLifecycle {
    /// The known nodes by name; never iterated.
    nodes: HashMap<Arc<str>, KnownNode>,
}

#[derive(Debug)]
struct KnownNode {
    uid: Arc<str>,
    ready: NodeReadiness,
}

/// The node's condition Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeReadiness {
    True,
    False,
    Unknown,
}

fn ready(node: &Value) -> NodeReadiness {
    match condition_status(node, "Ready") {
        "True" => NodeReadiness::True,
        "False" => NodeReadiness::False,
        _ => NodeReadiness::Unknown,
    }
}

fn condition_status<'a>(node: &'a Value, kind: &str) -> &'a str {
    let found = condition::find(&node["status"], kind);
    found.map_or("", |condition| text(condition, &["status"]))
}

impl NodeLifecycle {
    pub(super) fn apply_node(&mut self, context: &mut ComponentContext<'_>, node: &Arc<Object>) {
        let ready = ready(node.value());
        let before = match self.nodes.get_mut(node.name()) {
            Some(known) if *known.uid == *node.uid() => std::mem::replace(&mut known.ready, ready),
            _ => {
                let known = KnownNode { uid: node.uid().into(), ready };
                self.nodes.insert(node.name().into(), known);
                let at = Timestamp(context.now.0 + context.settings.node_monitor_grace_ms);
                context.timers.set(at, Timer::Lease { node: node.name().into() });
                let message =
                    format!("Node {0} event: Registered Node {0} in Controller", node.name());
                record(context, node, "RegisteredNode", &message);
                ready
            }
        };
        if before != ready {
            let is = if ready == NodeReadiness::True { "NodeReady" } else { "NodeNotReady" };
            let message = format!("Node {} status is now: {is}", node.name());
            record(context, node, is, &message);
            if before == NodeReadiness::True {
                mark_pods_not_ready(context, node.name());
            }
        }
        set_taints(context, node, ready);
    }

    pub(super) fn delete_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Checks whether a node's lease has expired.
    ///
    /// The lease is compared with the time for which this check was scheduled, not with the current
    /// time: all heartbeats that were due by then have been sent. So a lease never expires because
    /// the process is slow.
    pub(super) fn fire(
        &mut self,
        context: &mut ComponentContext<'_>,
        at: Timestamp,
        name: &Arc<str>,
    ) {
        let Some(known) = self.nodes.get(name) else { return };
        if !context.has_node(name, &known.uid) {
            return;
        }
        let grace = context.settings.node_monitor_grace_ms;
        let renewed = context.lease_renewed_at(name);
        let alive_until = renewed.map_or(i64::MIN, |renewed| renewed.0 + grace);
        let next = if alive_until > at.0 {
            alive_until
        } else {
            if known.ready != NodeReadiness::Unknown
                && let Some(node) = context.node(name)
            {
                mark_unknown(context, &node);
            }
            // The kubelet reports the recovery; if the lease expires again, it is noticed within
            // the grace period.
            context.now.0 + grace
        };
        context.timers.set(Timestamp(next), Timer::Lease { node: name.clone() });
    }
}

fn record(context: &mut ComponentContext<'_>, node: &Arc<Object>, reason: &str, message: &str) {
    context.record(EventSubject::node(node), EventText::normal(NAME, reason, message));
}

/// Sets the conditions to Unknown, because the kubelet no longer reports.
fn mark_unknown(context: &mut ComponentContext<'_>, node: &Arc<Object>) {
    let now = rfc3339(context.now);
    let mut updated = node.value().clone();
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"] {
        let old = condition::find(&updated["status"], kind);
        let heartbeat = old.map(|old| &old["lastHeartbeatTime"]);
        let condition = json!({
            "type": kind,
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastHeartbeatTime": heartbeat.cloned().unwrap_or_else(|| json!(now)),
            "lastTransitionTime": now,
        });
        condition::set(&mut updated["status"], condition);
    }
    context.update_node_status(node, updated);
}

/// Sets the pods of a node that is not ready to not ready.
fn mark_pods_not_ready(context: &mut ComponentContext<'_>, node: &str) {
    for pod in context.pods_on(node).collect::<Vec<_>>() {
        let ready = condition::find(&pod.value()["status"], "Ready");
        let Some(ready) = ready.filter(|ready| ready["status"] == "True") else { continue };
        let mut condition = ready.clone();
        condition["status"] = json!("False");
        condition["lastTransitionTime"] = json!(rfc3339(context.now));
        let mut status = pod.value()["status"].clone();
        condition::set(&mut status, condition);
        context.set_pod_status(&pod, status);
        let text = EventText::warning(NAME, "NodeNotReady", "Node is not ready");
        context.record(EventSubject::pod(&pod), text);
    }
}

/// Sets the taints that represent the node's state, and removes outdated ones.
fn set_taints(context: &mut ComponentContext<'_>, node: &Arc<Object>, ready: NodeReadiness) {
    let value = node.value();
    let wanted = wanted_taints(value, ready);
    let old: Vec<&Value> = value["spec"]["taints"].as_array().into_iter().flatten().collect();
    let same = |a: &Value, b: &(&str, &str)| a["key"] == b.0 && a["effect"] == b.1;
    let stays = |taint: &&Value| {
        !is_condition_taint(text(taint, &["key"])) || wanted.iter().any(|w| same(taint, w))
    };
    let mut taints: Vec<Value> = old.iter().copied().filter(stays).cloned().collect();
    let kept = taints.len();
    for wanted in &wanted {
        if !taints.iter().any(|taint| same(taint, wanted)) {
            let added = rfc3339(context.now);
            taints.push(json!({"key": wanted.0, "effect": wanted.1, "timeAdded": added}));
        }
    }
    if kept == old.len() && taints.len() == kept {
        return;
    }
    let mut updated = value.clone();
    nodes::set_taints(&mut updated, taints);
    context.update_node(node, updated);
}

fn wanted_taints(node: &Value, ready: NodeReadiness) -> Vec<(&'static str, &'static str)> {
    let mut wanted = match ready {
        NodeReadiness::True => Vec::new(),
        NodeReadiness::False => vec![
            ("node.kubernetes.io/not-ready", "NoSchedule"),
            ("node.kubernetes.io/not-ready", "NoExecute"),
        ],
        NodeReadiness::Unknown => vec![
            ("node.kubernetes.io/unreachable", "NoSchedule"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
        ],
    };
    for (kind, key) in [
        ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
        ("DiskPressure", "node.kubernetes.io/disk-pressure"),
        ("PIDPressure", "node.kubernetes.io/pid-pressure"),
        ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
    ] {
        if condition_status(node, kind) == "True" {
            wanted.push((key, "NoSchedule"));
        }
    }
    if node["spec"]["unschedulable"] == Value::Bool(true) {
        wanted.push(("node.kubernetes.io/unschedulable", "NoSchedule"));
    }
    wanted
}
