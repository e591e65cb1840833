//! The simulated machines that the kubelets run on: registration, heartbeats, addresses (S23).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everynode_core::time::Timestamp;
use serde_json::Value;

use crate::cluster::component_context::ComponentContext;
use crate::cluster::placement;
use crate::cluster::timer::Timer;
use crate::nodes;
use crate::object::Object;
use crate::value::text;
use everynode_k8s::fit::Room;

/// A node with this annotation set to `true` is dead until it is removed.
pub const DOWN_ANNOTATION: &str = "sandbox.everynode.dev/down";

/// Heartbeats are dealt out to so many moments of the period: many nodes share one wake-up.
const HEARTBEAT_SLOTS: u32 = 100;

/// Every so many heartbeats a kubelet reports the node's conditions as well, changed or not: every five minutes.
const HEARTBEATS_PER_REPORT: u32 = 30;

#[derive(Debug)]
pub(super) struct Machine {
    pub name: Arc<str>,
    uid: Arc<str>,
    pub down: bool,
    /// The cluster takes it for silent: some condition of its node is Unknown.
    reported_unknown: bool,
    pub room: Room,
    pub images: BTreeSet<Arc<str>>,
    pub host_ip: Arc<str>,
    /// `10.64.0.`: the network of the node's pods.
    pod_network: String,
    pod_hosts: BTreeSet<u8>,
    slot: u32,
    heartbeats: u32,
}

impl Machine {
    /// Takes its node as it is now.
    fn update_node(&mut self, node: &Arc<Object>) {
        self.reported_unknown = nodes::has_unknown_condition(node.value());
        self.room.update(placement::node(node.value()), node.value());
    }

    /// The next free address for a pod; `None` if there is none left.
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
    machines: BTreeMap<Arc<str>, Machine>,
    slots: BTreeMap<u32, BTreeSet<Arc<str>>>,
    registered: u32,
}

impl Machines {
    pub(super) fn on(&mut self, name: &str) -> Option<&mut Machine> {
        self.machines.get_mut(name)
    }

    /// Whether a node of this name is known that is not this one.
    pub(super) fn is_recreated(&self, node: &Object) -> bool {
        self.machines.get(node.name()).is_some_and(|machine| *machine.uid != *node.uid())
    }

    /// Takes a node as it is now. Returns whether its kubelet has just started.
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

    /// Renews the leases of one slot's nodes. Returns those whose kubelets had to register again, because the cluster
    /// took them for silent.
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

/// A kubelet starts: it fills in what its node does not say, says that it is ready, and takes its lease.
fn register(context: &mut ComponentContext<'_>, node: &Arc<Object>, index: u32) {
    context.renew_lease(node.name(), node.uid());
    let mut complete = node.value().clone();
    nodes::complete(&mut complete, index);
    let mut current = node.clone();
    if complete["metadata"] != node.value()["metadata"] || complete["spec"] != node.value()["spec"]
    {
        let mut main = complete.clone();
        main["status"] = node.value()["status"].clone();
        match context.update_node(main) {
            Some(updated) => current = updated,
            None => return,
        }
    }
    nodes::set_healthy(&mut complete, context.now);
    if complete["status"] != current.value()["status"] {
        let mut updated = current.value().clone();
        updated["status"] = complete["status"].take();
        context.update_node_status(updated);
    }
}

/// The kubelet's conditions as they were, with the time of this heartbeat.
fn report(context: &mut ComponentContext<'_>, node: &str) {
    let Some(node) = context.node(node) else { return };
    let mut updated = node.value().clone();
    nodes::set_heartbeat(&mut updated, context.now);
    context.update_node_status(updated);
}

fn host_ip(node: &Value, index: u32) -> String {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let internal = addresses.into_iter().find(|address| address["type"] == "InternalIP");
    internal.map_or_else(
        || nodes::default_address(index),
        |address| text(address, &["address"]).to_owned(),
    )
}

/// `10.64.3.` of `10.64.3.0/24`; a network of our own where the node has none that is IPv4.
fn pod_network(node: &Value, index: u32) -> String {
    let cidr = text(node, &["spec", "podCIDR"]);
    match cidr.split_once('/').and_then(|(base, _)| base.rsplit_once('.')) {
        Some((network, _)) => format!("{network}."),
        None => nodes::default_pod_network(index),
    }
}
