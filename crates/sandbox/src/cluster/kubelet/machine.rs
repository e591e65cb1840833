//! The machines of the simulated nodes: registration, heartbeats and addresses (S23).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use everynode_core::api::Timestamp;

use crate::cluster::component_context::ComponentContext;
use crate::cluster::placement;
use crate::cluster::timer::Timer;
use crate::json::Value;
use crate::nodes;
use crate::object::Object;
use crate::value::text;
use everynode_k8s::fit::Room;

/// The annotation that simulates a failed node while its value is `true`.
pub const DOWN_ANNOTATION: &str = "sandbox.everynode.dev/down";

/// Number of moments in a period at which heartbeats happen; the nodes of a slot share a timer.
const HEARTBEAT_SLOTS: u32 = 100;

/// Number of heartbeats after which a kubelet also reports the node's conditions, changed or not:
/// every five minutes.
const HEARTBEATS_PER_REPORT: u32 = 30;

#[derive(Debug)]
pub(super) struct Machine {
    pub name: Arc<str>,
    uid: Arc<str>,
    pub down: bool,
    /// Whether a condition of the node is Unknown, because its lease expired.
    reported_unknown: bool,
    pub room: Room,
    pub images: BTreeSet<Arc<str>>,
    pub host_ip: Arc<str>,
    /// The prefix of the addresses of the node's pods: `10.64.0.`.
    pod_network: String,
    pod_hosts: BTreeSet<u8>,
    slot: u32,
    heartbeats: u32,
}

impl Machine {
    /// Stores the current state of the node.
    fn update_node(&mut self, node: &Arc<Object>) {
        self.reported_unknown = nodes::has_unknown_condition(node.value());
        self.room.update(placement::node(node.value()), node.value());
    }

    /// Allocates an address for a pod; `None` if there is none left.
    pub(super) fn address(&mut self, host_network: bool) -> Option<Arc<str>> {
        if host_network {
            return Some(self.host_ip.clone());
        }
        let host = (2..=254).find(|host| !self.pod_hosts.contains(host))?;
        self.pod_hosts.insert(host);
        Some(format!("{}{host}", self.pod_network).into())
    }

    pub(super) fn free_address(&mut self, ip: &str) {
        if let Some(host) = ip.strip_prefix(&self.pod_network).and_then(|host| host.parse().ok()) {
            self.pod_hosts.remove(&host);
        }
    }
}

/// All machines, by node name.
#[derive(Debug, Default)]
pub(super) struct Machines {
    /// Never iterated.
    machines: HashMap<Arc<str>, Machine>,
    slots: BTreeMap<u32, BTreeSet<Arc<str>>>,
    registered: u32,
}

impl Machines {
    pub(super) fn on(&mut self, name: &str) -> Option<&mut Machine> {
        self.machines.get_mut(name)
    }

    /// Whether a known node has this name and another UID.
    pub(super) fn is_recreated(&self, node: &Object) -> bool {
        self.machines.get(node.name()).is_some_and(|machine| *machine.uid != *node.uid())
    }

    /// Stores the current state of a node. Returns whether its kubelet has just started.
    pub(super) fn apply(&mut self, context: &mut ComponentContext<'_>, node: &Arc<Object>) -> bool {
        let down = node.annotation(DOWN_ANNOTATION) == Some("true");
        let starts = match self.machines.get_mut(node.name()) {
            Some(machine) if *machine.uid == *node.uid() => {
                let started = machine.down && !down;
                machine.down = down;
                machine.update_node(node);
                started
            }
            _ => {
                self.add(context, node, down);
                !down
            }
        };
        if starts {
            self.register(context, node);
        }
        starts
    }

    fn register(&mut self, context: &mut ComponentContext<'_>, node: &Arc<Object>) {
        register(context, node, self.registered);
        if let (Some(machine), Some(node)) =
            (self.machines.get_mut(node.name()), context.node(node.name()))
        {
            machine.update_node(&node);
        }
    }

    fn add(&mut self, context: &mut ComponentContext<'_>, node: &Arc<Object>, down: bool) {
        self.registered += 1;
        let slot = self.registered % HEARTBEAT_SLOTS;
        let value = node.value();
        let machine = Machine {
            name: node.name().into(),
            uid: node.uid().into(),
            down,
            reported_unknown: false,
            room: Room::new(placement::node(value), value),
            images: BTreeSet::new(),
            host_ip: host_ip(value, self.registered).into(),
            pod_network: pod_network(value, self.registered),
            pod_hosts: BTreeSet::new(),
            slot,
            heartbeats: 0,
        };
        let members = self.slots.entry(slot).or_default();
        if members.is_empty() {
            let period = context.settings.lease_renew_ms;
            let offset = i64::from(slot) * period / i64::from(HEARTBEAT_SLOTS);
            let next = context.now.0 - context.now.0.rem_euclid(period) + offset;
            let next = if next <= context.now.0 { next + period } else { next };
            context.timers.set(Timestamp(next), Timer::Heartbeat { slot });
        }
        members.insert(machine.name.clone());
        self.machines.insert(machine.name.clone(), machine);
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(machine) = self.machines.remove(name)
            && let Some(slot) = self.slots.get_mut(&machine.slot)
        {
            slot.remove(name);
        }
    }

    /// Renews the leases of the nodes in a slot. Returns the nodes that had Unknown conditions,
    /// whose kubelets have registered again.
    pub(super) fn heartbeat(
        &mut self,
        context: &mut ComponentContext<'_>,
        slot: u32,
    ) -> Vec<Arc<str>> {
        let Some(members) = self.slots.get(&slot).filter(|members| !members.is_empty()) else {
            self.slots.remove(&slot);
            return Vec::new();
        };
        let mut reported_unknown = Vec::new();
        for name in members {
            if let Some(machine) = self.machines.get_mut(name).filter(|machine| !machine.down) {
                context.renew_lease(name, &machine.uid);
                machine.heartbeats += 1;
                if machine.reported_unknown {
                    reported_unknown.push(name.clone());
                } else if machine.heartbeats.is_multiple_of(HEARTBEATS_PER_REPORT) {
                    report(context, name);
                }
            }
        }
        let next = context.now.0 + context.settings.lease_renew_ms;
        context.timers.set(Timestamp(next), Timer::Heartbeat { slot });
        for name in &reported_unknown {
            if let Some(node) = context.node(name) {
                self.register(context, &node);
            }
        }
        reported_unknown
    }
}

/// Starts a kubelet: renews the lease, completes the node object, and reports that the node is
/// ready.
fn register(context: &mut ComponentContext<'_>, node: &Arc<Object>, index: u32) {
    context.renew_lease(node.name(), node.uid());
    let mut complete = node.value().clone();
    nodes::complete(&mut complete, index);
    let mut current = node.clone();
    if complete["metadata"] != node.value()["metadata"] || complete["spec"] != node.value()["spec"]
    {
        let mut main = complete.clone();
        main["status"] = node.value()["status"].clone();
        match context.update_node(node, main) {
            Some(updated) => current = updated,
            None => return,
        }
    }
    nodes::set_healthy(&mut complete, context.now);
    if complete["status"] != current.value()["status"] {
        let mut updated = current.value().clone();
        updated["status"] = complete["status"].take();
        context.update_node_status(&current, updated);
    }
}

/// Reports the unchanged conditions with the current heartbeat time.
fn report(context: &mut ComponentContext<'_>, node: &str) {
    let Some(node) = context.node(node) else { return };
    let mut updated = node.value().clone();
    nodes::set_heartbeat(&mut updated, context.now);
    context.update_node_status(&node, updated);
}

fn host_ip(node: &Value, index: u32) -> String {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let internal = addresses.into_iter().find(|address| address["type"] == "InternalIP");
    internal.map_or_else(
        || nodes::default_address(index),
        |address| text(address, &["address"]).to_owned(),
    )
}

/// `10.64.3.` for the podCIDR `10.64.3.0/24`; a default network if the node has no IPv4 podCIDR.
fn pod_network(node: &Value, index: u32) -> String {
    let cidr = text(node, &["spec", "podCIDR"]);
    match cidr.split_once('/').and_then(|(base, _)| base.rsplit_once('.')) {
        Some((network, _)) => format!("{network}."),
        None => nodes::default_pod_network(index),
    }
}
