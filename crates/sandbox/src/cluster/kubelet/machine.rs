//! The machines of the simulated nodes: registration, heartbeats and addresses (S23).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use everynode_core::api::Timestamp;
use rand_pcg::Pcg64Mcg;

use super::container::Runtime;
use super::machine_state::{MachineChange, MachineState, WantedState};
use crate::cluster::component_context::ComponentContext;
use crate::cluster::event::EventSubject;
use crate::cluster::lifecycle::{LIFECYCLE_ANNOTATION, Lifecycle, Lifecycles};
use crate::cluster::node_annotation::{DOWN_ANNOTATION, SHUTDOWN_ANNOTATION, TimedAnnotation};
use crate::cluster::placement;
use crate::cluster::timer::Timer;
use crate::json::Value;
use crate::nodes;
use crate::object::Object;
use crate::value::text;
use everynode_k8s::fit::Room;

/// Number of moments in a period at which heartbeats happen; the nodes of a slot share a timer.
const HEARTBEAT_SLOTS: u32 = 100;

/// Number of heartbeats after which a kubelet also reports the node's conditions, changed or not:
/// every five minutes.
const HEARTBEATS_PER_REPORT: u32 = 30;

#[derive(Debug)]
pub(super) struct Machine {
    pub name: Arc<str>,
    uid: Arc<str>,
    pub state: MachineState,
    down: TimedAnnotation,
    shutdown: TimedAnnotation,
    /// The annotation that selects the lifecycle of all containers that start on the node.
    lifecycle_annotation: Option<Box<str>>,
    pub lifecycle: Option<Arc<Lifecycle>>,
    /// True if a condition of the node is Unknown, because its lease expired.
    reported_unknown: bool,
    pub room: Room,
    /// True if deferred resizes may succeed that did not when they were tried last.
    pub has_more_room: bool,
    /// The UIDs of the pods whose resize waits for room.
    pub deferred: BTreeSet<Arc<str>>,
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
        self.has_more_room |= self.room.update(placement::node(node.value()), node.value());
    }

    /// Reads the annotations that ask for a state, and changes to that state.
    fn follow(
        &mut self,
        context: &mut ComponentContext<'_>,
        node: &Object,
    ) -> Option<MachineChange> {
        self.down.follow(context, node);
        self.shutdown.follow(context, node);
        let wanted = match (self.shutdown.applies(), self.down.applies()) {
            (true, _) => WantedState::Off,
            (false, true) => WantedState::Down,
            (false, false) => WantedState::Up,
        };
        self.state.follow(wanted, context.now)
    }

    /// Reads the annotation that selects a lifecycle. A machine on which pulls fail has lost its
    /// images, so that they fail for every template.
    fn follow_lifecycle(
        &mut self,
        context: &mut ComponentContext<'_>,
        lifecycles: &mut Lifecycles,
        node: &Object,
    ) {
        let annotation = node.annotation(LIFECYCLE_ANNOTATION);
        if self.lifecycle_annotation.as_deref() == annotation {
            return;
        }
        self.lifecycle_annotation = annotation.map(Into::into);
        self.has_more_room = true;
        self.lifecycle = annotation.and_then(|text| {
            let read = lifecycles.named_or_inline(text);
            let warn = |error: &String| {
                context.warn_of_annotation(node, LIFECYCLE_ANNOTATION, error);
            };
            read.inspect_err(warn).ok()
        });
        if self.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.pull.failure.is_some()) {
            self.images.clear();
        }
    }

    /// Ends what is over: the shutdown, and annotations with a time.
    pub(super) fn fire(&mut self, context: &mut ComponentContext<'_>) {
        self.state.finish_shutdown(context.now);
        for annotation in [&self.down, &self.shutdown] {
            if annotation.is_over(context.now) {
                context.annotate_node(&self.name, annotation.key, None);
            }
        }
    }

    pub(super) fn runtime<'a>(&'a mut self, rng: &'a mut Pcg64Mcg) -> Runtime<'a> {
        Runtime { images: &mut self.images, lifecycle: self.lifecycle.as_ref(), rng }
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

    /// True if the node has an image.
    pub(super) fn has_image(&self, name: &str, image: &str) -> bool {
        self.machines.get(name).is_some_and(|machine| machine.images.contains(image))
    }

    /// True if all containers that start on the node have its lifecycle.
    pub(super) fn has_lifecycle(&self, name: &str) -> bool {
        self.machines.get(name).is_some_and(|machine| machine.lifecycle.is_some())
    }

    /// True if a known node has this name and another UID.
    pub(super) fn is_recreated(&self, node: &Object) -> bool {
        self.machines.get(node.name()).is_some_and(|machine| *machine.uid != *node.uid())
    }

    /// Stores the current state of a node. Returns the change that concerns its pods.
    pub(super) fn apply(
        &mut self,
        context: &mut ComponentContext<'_>,
        lifecycles: &mut Lifecycles,
        node: &Arc<Object>,
    ) -> Option<MachineChange> {
        if self.machines.get(node.name()).is_none_or(|machine| *machine.uid != *node.uid()) {
            self.add(context, node);
        }
        let machine = self.machines.get_mut(node.name())?;
        machine.update_node(node);
        machine.follow_lifecycle(context, lifecycles, node);
        let change = machine.follow(context, node);
        match change {
            Some(MachineChange::KubeletStarts) => self.register(context, node, None),
            Some(MachineChange::Boots) => {
                let boot_id = context.registry.store_mut().uid();
                self.register(context, node, Some(boot_id));
            }
            Some(MachineChange::ShutsDown { .. }) => report_shutdown(context, node),
            None => {}
        }
        change
    }

    fn register(
        &mut self,
        context: &mut ComponentContext<'_>,
        node: &Arc<Object>,
        boot_id: Option<String>,
    ) {
        register(context, node, self.registered, boot_id);
        if let (Some(machine), Some(node)) =
            (self.machines.get_mut(node.name()), context.node(node.name()))
        {
            machine.update_node(&node);
        }
    }

    /// Adds a machine whose kubelet has not started yet.
    fn add(&mut self, context: &mut ComponentContext<'_>, node: &Arc<Object>) {
        self.registered += 1;
        let slot = self.registered % HEARTBEAT_SLOTS;
        let value = node.value();
        let machine = Machine {
            name: node.name().into(),
            uid: node.uid().into(),
            state: MachineState::Down,
            down: TimedAnnotation::new(DOWN_ANNOTATION),
            shutdown: TimedAnnotation::new(SHUTDOWN_ANNOTATION),
            lifecycle_annotation: None,
            lifecycle: None,
            reported_unknown: false,
            room: Room::new(placement::node(value), value),
            has_more_room: false,
            deferred: BTreeSet::new(),
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
            if let Some(machine) = self.machines.get_mut(name).filter(|m| m.state.has_kubelet()) {
                context.renew_lease(name, &machine.uid);
                machine.heartbeats += 1;
                if machine.reported_unknown && machine.state == MachineState::Up {
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
                self.register(context, &node, None);
            }
        }
        reported_unknown
    }
}

/// Starts a kubelet: renews the lease, completes the node object, and reports that the node is
/// ready. `boot_id` is that of a machine that has rebooted.
fn register(
    context: &mut ComponentContext<'_>,
    node: &Arc<Object>,
    index: u32,
    boot_id: Option<String>,
) {
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
    if let Some(boot_id) = boot_id {
        let message = format!("Node {} has been rebooted, boot id: {boot_id}", node.name());
        context.event(EventSubject::node(node), node.name(), true, "Rebooted", &message);
        complete["status"]["nodeInfo"]["bootID"] = Value::from(boot_id);
    }
    if complete["status"] != current.value()["status"] {
        let mut updated = current.value().clone();
        updated["status"] = complete["status"].take();
        context.update_node_status(&current, updated);
    }
}

/// Reports that the node is not ready, because it shuts down.
fn report_shutdown(context: &mut ComponentContext<'_>, node: &Arc<Object>) {
    let message = "Shutdown manager detected shutdown event";
    context.event(EventSubject::node(node), node.name(), false, "Shutdown", message);
    let mut updated = node.value().clone();
    nodes::set_shutting_down(&mut updated, context.now);
    context.update_node_status(node, updated);
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
