//! The kubelets of all simulated nodes (S22, S23): they register their nodes, renew leases, admit
//! the pods that are bound to the nodes, simulate their lifecycles and report their status.
//!
//! The work is proportional to the changes: a running pod costs nothing until its next deadline. A
//! kubelet whose node has the down annotation does nothing, and catches up when the annotation is
//! removed. A node with the shutdown annotation shuts down gracefully, and is off until then.

mod admission;
mod back_off;
mod config;
pub(super) mod container;
mod event;
mod machine;
mod machine_state;
mod resize_state;
pub(super) mod run;
mod spec_change;
mod status;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use everynode_core::api::Timestamp;

use self::container::{Container, ContainerEvent, ContainerRole, RestartPolicy};
use self::event::report_event;
use self::machine::{Machine, Machines};
use self::machine_state::{MachineChange, MachineState};
use self::resize_state::ResizeState;
use self::run::{PodEvent, PodRun};
use super::PodKey;
use super::component_context::ComponentContext;
use super::event::EventSubject;
use super::lifecycle::{Admission, LIFECYCLE_ANNOTATION, Lifecycles};
use super::requests;
use super::timer::Timer;
use crate::json::Value;
use crate::kinds::POD;
use crate::object::Object;
use crate::value::text;
use everynode_k8s::fit::Usage;

/// The time until a kubelet continues with a pod for which it keeps the pod's last version.
const WRITTEN_KEPT_MS: i64 = 10_000;

/// Maximum number of pods of which kubelets keep the last version.
const WRITTEN_MAX: usize = 4_000;

/// All kubelets.
#[derive(Debug)]
pub(super) struct Kubelets {
    machines: Machines,
    /// The pods that are bound to any node, by UID.
    pods: HashMap<Arc<str>, PodRecord>,
    /// The number of pods of which the last version is kept.
    written: usize,
    lifecycles: Lifecycles,
}

#[derive(Debug)]
struct PodRecord {
    key: PodKey,
    node: Arc<str>,
    usage: Usage,
    /// The annotation that selected the lifecycle.
    annotation: Option<Box<str>>,
    /// The lifecycle that a ConfigMap selected when the pod was bound.
    of_config: Option<Box<str>>,
    stage: PodStage,
    /// The version that the kubelet wrote or read last, if it continues with the pod soon. So it
    /// need not be parsed again.
    written: Option<Arc<Object>>,
    /// The time of the only valid timer.
    timer: Option<Timestamp>,
}

/// The stage of a pod in its kubelet.
#[derive(Debug)]
enum PodStage {
    /// Not processed yet.
    Bound,
    Running(PodRun),
    Stopping {
        run: PodRun,
        until: Timestamp,
    },
    /// Rejected, or all containers have exited.
    Finished,
}

impl Kubelets {
    pub(super) fn new(lifecycles: Lifecycles) -> Self {
        Self { machines: Machines::default(), pods: HashMap::new(), written: 0, lifecycles }
    }

    /// True if a node has an image.
    pub(super) fn has_image(&self, node: &str, image: &str) -> bool {
        self.machines.has_image(node, image)
    }

    /// Processes a node that was added or changed.
    pub(super) fn apply_node(&mut self, context: &mut ComponentContext<'_>, node: &Arc<Object>) {
        if self.machines.is_recreated(node) {
            // A node was deleted and created again, and the deletion was not observed.
            self.delete_node(context, node.name());
        }
        let had_lifecycle = self.machines.has_lifecycle(node.name());
        let change = self.machines.apply(context, &mut self.lifecycles, node);
        self.retry_resizes(context, node.name());
        if had_lifecycle && !self.machines.has_lifecycle(node.name()) {
            self.continue_as_chosen(context, node.name());
        }
        match change {
            None => {}
            Some(MachineChange::KubeletStarts) => self.sync_node(context, node.name()),
            Some(MachineChange::Boots) => {
                self.forget_containers(context, node.name());
                self.sync_node(context, node.name());
            }
            Some(MachineChange::ShutsDown { off_at }) => {
                self.sync_node(context, node.name());
                // Set after the timers of the pods, which end by then.
                context.timers.set(off_at, Timer::Node { node: node.name().into() });
            }
        }
    }

    /// Removes the node's kubelet. Its pods stay until pod garbage collection removes them.
    pub(super) fn delete_node(&mut self, context: &ComponentContext<'_>, name: &str) {
        self.machines.remove(name);
        self.forget_containers(context, name);
    }

    /// No container of the node runs any more. What its pods were is in their status.
    fn forget_containers(&mut self, context: &ComponentContext<'_>, node: &str) {
        for uid in self.uids_on(context, node) {
            let Some(pod) = self.pods.get_mut(&uid) else { continue };
            if let Some(machine) = self.machines.on(node) {
                release(machine, pod);
            }
            pod.stage = PodStage::Bound;
        }
    }

    /// The node has no lifecycle any more: its containers continue with their own.
    fn continue_as_chosen(&mut self, context: &mut ComponentContext<'_>, node: &str) {
        for uid in self.uids_on(context, node) {
            if let Some(pod) = self.pods.get_mut(&uid)
                && let PodStage::Running(run) = &mut pod.stage
                && let Some(machine) = self.machines.on(node)
            {
                let mut runtime = machine.runtime(context.rng);
                for container in run.containers.iter_mut().filter(|c| !c.is_as_chosen()) {
                    container.continue_as_chosen(context.now, &mut runtime);
                }
            }
            self.sync_pod(context, &uid, true);
        }
    }

    /// Processes every pod of a node whose kubelet starts.
    fn sync_node(&mut self, context: &mut ComponentContext<'_>, node: &str) {
        for uid in self.uids_on(context, node) {
            self.sync_pod(context, &uid, true);
        }
    }

    fn uids_on(&self, context: &ComponentContext<'_>, node: &str) -> Vec<Arc<str>> {
        context.pods_on(node).map(|pod| Arc::from(pod.uid())).collect()
    }

    /// Processes a pod that was added or changed.
    pub(super) fn apply_pod(&mut self, context: &mut ComponentContext<'_>, pod: &Arc<Object>) {
        if pod.node_name().is_empty() {
            return;
        }
        let annotation = pod.annotation(LIFECYCLE_ANNOTATION);
        if let Some(known) = self.pods.get_mut(pod.uid()) {
            if known.annotation.as_deref() != annotation {
                known.annotation = annotation.map(Into::into);
                self.change_lifecycle(context, pod);
            } else if pod.is_terminating() {
                self.sync_pod(context, pod.uid(), false);
            } else if status::is_outdated(pod.value()) {
                self.sync_pod(context, pod.uid(), true);
            }
            return;
        }
        let known = PodRecord {
            key: PodKey::of(pod),
            node: pod.node_name().into(),
            usage: Usage::of_pod(pod.value()),
            annotation: annotation.map(Into::into),
            of_config: config::lifecycle(context, pod),
            stage: PodStage::Bound,
            written: None,
            timer: None,
        };
        self.pods.insert(pod.uid().into(), known);
        self.sync_pod(context, pod.uid(), false);
    }

    /// Processes a pod that was removed from the API server.
    pub(super) fn delete_pod(&mut self, context: &mut ComponentContext<'_>, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        self.written -= usize::from(pod.written.is_some());
        if let Some(machine) = self.machines.on(&pod.node) {
            release(machine, &pod);
            machine.deferred.remove(uid);
        }
        self.retry_resizes(context, &pod.node);
    }

    /// Forgets all pods except these.
    pub(super) fn retain(&mut self, context: &mut ComponentContext<'_>, uids: &BTreeSet<&str>) {
        let gone = self.pods.keys().filter(|uid| !uids.contains(&***uid));
        let gone: BTreeSet<Arc<str>> = gone.cloned().collect();
        gone.iter().for_each(|uid| self.delete_pod(context, uid));
    }

    pub(super) fn fire_pod(
        &mut self,
        context: &mut ComponentContext<'_>,
        at: Timestamp,
        uid: &str,
    ) {
        if let Some(pod) = self.pods.get_mut(uid)
            && pod.timer == Some(at)
        {
            pod.timer = None;
            self.sync_pod(context, uid, false);
        }
    }

    pub(super) fn fire_heartbeat(&mut self, context: &mut ComponentContext<'_>, slot: u32) {
        for node in self.machines.heartbeat(context, slot) {
            self.sync_node(context, &node);
        }
    }

    pub(super) fn fire_node(&mut self, context: &mut ComponentContext<'_>, node: &str) {
        if let Some(machine) = self.machines.on(node) {
            machine.fire(context);
        }
    }

    /// Does the due work for one pod. `report` writes the status even if nothing has changed.
    fn sync_pod(&mut self, context: &mut ComponentContext<'_>, uid: &str, report: bool) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(machine) = self.machines.on(&pod.node).filter(|m| m.state.has_kubelet()) else {
            return;
        };
        let written = pod.written.take();
        self.written -= usize::from(written.is_some());
        let object = written
            .filter(|written| context.registry.store().is_newest(&POD, written))
            .or_else(|| context.pod(&pod.key));
        let Some(object) = object.filter(|object| object.uid() == uid) else { return };
        let mut kubelet = Kubelet { machine, context, lifecycles: &mut self.lifecycles };
        kubelet.sync_pod(pod, &object, report);
        let deadline = match &pod.stage {
            PodStage::Bound | PodStage::Finished => None,
            PodStage::Running(run) => run.deadline(),
            PodStage::Stopping { until, .. } => Some(*until),
        };
        let continues_soon = deadline.is_some_and(|at| at.0 - context.now.0 <= WRITTEN_KEPT_MS);
        let newest = pod.written.take().unwrap_or(object);
        pod.written = (continues_soon && self.written < WRITTEN_MAX).then_some(newest);
        self.written += usize::from(pod.written.is_some());
        if let Some(deadline) = deadline
            && pod.timer.is_none_or(|timer| deadline < timer)
        {
            pod.timer = Some(deadline);
            context.timers.set(deadline, Timer::Pod { uid: uid.into() });
        }
        if pod.deferred_order().is_some() {
            machine.deferred.insert(uid.into());
        } else {
            machine.deferred.remove(uid);
        }
        let node = pod.node.clone();
        self.retry_resizes(context, &node);
    }

    /// Tries the deferred resizes of a node again if it may have more room.
    fn retry_resizes(&mut self, context: &mut ComponentContext<'_>, node: &str) {
        let Some(machine) = self.machines.on(node) else { return };
        if !std::mem::take(&mut machine.has_more_room) || machine.deferred.is_empty() {
            return;
        }
        let order = |uid: &Arc<str>| self.pods.get(uid).and_then(PodRecord::deferred_order);
        let mut deferred: Vec<_> = machine.deferred.iter().map(|uid| (order(uid), uid)).collect();
        deferred.sort();
        for (_, uid) in deferred {
            if let Some(pod) = self.pods.get_mut(uid) {
                pod.timer = Some(context.now);
                context.timers.set(context.now, Timer::Pod { uid: uid.clone() });
            }
        }
    }

    fn change_lifecycle(&mut self, context: &mut ComponentContext<'_>, object: &Arc<Object>) {
        let uid = object.uid();
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if let PodStage::Running(run) = &mut pod.stage
            && let Some(machine) = self.machines.on(&pod.node)
        {
            let labels = machine.room.node.labels.clone();
            let mut runtime = machine.runtime(context.rng);
            for container in run.containers.iter_mut().filter(|c| c.role != ContainerRole::Init) {
                let named = pod.annotation.as_deref().or(pod.of_config.as_deref());
                if let Ok(to) = self.lifecycles.choose(named, &container.image, &labels) {
                    container.change_lifecycle(&to, context.now, &mut runtime);
                }
            }
        }
        self.sync_pod(context, uid, true);
    }
}

impl PodRecord {
    /// The order in which deferred resizes are tried; `None` if that of this pod is not deferred.
    fn deferred_order(&self) -> Option<(Reverse<i64>, Timestamp)> {
        match &self.stage {
            PodStage::Running(run) => run.resize.deferred_order(),
            PodStage::Bound | PodStage::Stopping { .. } | PodStage::Finished => None,
        }
    }
}

fn release(machine: &mut Machine, pod: &PodRecord) {
    match &pod.stage {
        PodStage::Running(run) | PodStage::Stopping { run, .. } => {
            machine.room.remove(&pod.usage);
            machine.has_more_room = true;
            if let Some(ip) = &run.pod_ip {
                machine.free_address(ip);
            }
        }
        PodStage::Bound | PodStage::Finished => {}
    }
}

/// The kubelet of one node, for one call.
struct Kubelet<'a, 'w> {
    machine: &'a mut Machine,
    context: &'a mut ComponentContext<'w>,
    lifecycles: &'a mut Lifecycles,
}

impl Kubelet<'_, '_> {
    fn sync_pod(&mut self, pod: &mut PodRecord, object: &Arc<Object>, report: bool) {
        match &mut pod.stage {
            PodStage::Bound => self.start_pod(pod, object),
            PodStage::Running(_) if object.is_terminating() || self.shuts_down() => {
                self.begin_stop(pod, object);
            }
            PodStage::Running(_) => {
                let changed = self.change_images(pod, object) | self.resize(pod, object);
                self.advance(pod, object, report || changed);
            }
            PodStage::Stopping { until, .. } => {
                *until = (*until).min(self.grace_end(object));
                if *until <= self.context.now {
                    self.finish_stop(pod, object);
                }
            }
            PodStage::Finished if object.is_terminating() => self.context.remove_pod(object),
            PodStage::Finished => {}
        }
    }

    /// Processes a pod for the first time.
    fn start_pod(&mut self, pod: &mut PodRecord, object: &Arc<Object>) {
        if matches!(object.text(&["status", "phase"]), "Succeeded" | "Failed") {
            pod.stage = PodStage::Finished;
            return self.sync_pod(pod, object, false);
        }
        if object.is_terminating() {
            pod.stage = PodStage::Finished;
            return self.context.remove_pod(object);
        }
        let granted = requests::granted_spec(object.value());
        pod.usage = Usage::of_spec(&granted);
        match self.admit(pod, object, &granted) {
            Err((reason, message)) => self.reject(pod, object, &reason, &message),
            Ok(run) => {
                self.machine.room.add(&pod.usage);
                pod.stage = PodStage::Running(run);
                self.resize(pod, object);
                self.advance(pod, object, true);
            }
        }
    }

    /// The containers of an admitted pod, or the reason and the message of its rejection.
    fn admit(
        &mut self,
        pod: &PodRecord,
        object: &Object,
        granted: &Value,
    ) -> Result<PodRun, (String, String)> {
        admission::check(self.machine, object.value(), &pod.usage)?;
        let run = self.new_run(pod, object, granted)?;
        for container in &run.containers {
            if let Admission::Reject { reason, message } = &container.lifecycle.admit {
                return Err((reason.clone(), message.clone()));
            }
        }
        Ok(run)
    }

    fn new_run(
        &mut self,
        pod: &PodRecord,
        object: &Object,
        spec: &Value,
    ) -> Result<PodRun, (String, String)> {
        let policy = match text(spec, &["restartPolicy"]) {
            "Never" => RestartPolicy::Never,
            "OnFailure" => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        };
        let mut containers = Vec::new();
        for (field, initial) in [("initContainers", true), ("containers", false)] {
            for container in spec[field].as_array().into_iter().flatten() {
                let role = if !initial {
                    ContainerRole::Main
                } else if container["restartPolicy"] == "Always" {
                    ContainerRole::Sidecar
                } else {
                    ContainerRole::Init
                };
                let mut container = self.container(pod, container, role, policy)?;
                container.restarts =
                    status::earlier_restarts(object.value(), &container.name, role);
                containers.push(container);
            }
        }
        let resize = ResizeState::default();
        Ok(PodRun { containers, started_at: self.context.now, pod_ip: None, resize })
    }

    fn container(
        &mut self,
        pod: &PodRecord,
        container: &Value,
        role: ContainerRole,
        policy: RestartPolicy,
    ) -> Result<Container, (String, String)> {
        let image = text(container, &["image"]);
        // The annotation applies to regular and sidecar containers: init containers must complete,
        // or none of the others would start.
        let lifecycle = pod.lifecycle().filter(|_| role != ContainerRole::Init);
        let chosen = self.lifecycles.choose(lifecycle, image, &self.machine.room.node.labels);
        let lifecycle = chosen.map_err(|error| {
            let message = format!("annotation {LIFECYCLE_ANNOTATION}: {error}");
            ("UnexpectedAdmissionError".to_owned(), message)
        })?;
        let name = text(container, &["name"]);
        let mut made = Container::new(name.into(), image.into(), role, policy, lifecycle);
        made.take_lifecycle(self.machine.lifecycle.as_ref());
        made.allocated = container["resources"].clone();
        made.always_pull = text(container, &["imagePullPolicy"]) == "Always";
        let command = container["command"][0].as_str().unwrap_or_default();
        made.has_command = !command.starts_with("/dev/null/");
        Ok(made)
    }

    fn reject(&mut self, pod: &mut PodRecord, object: &Arc<Object>, reason: &str, message: &str) {
        pod.stage = PodStage::Finished;
        let status = status::rejected(object.value(), reason, message, self.context.now);
        let node = &self.machine.name;
        self.context.event(EventSubject::pod(object), node, true, reason, message);
        self.context.set_pod_status(object, status);
    }

    fn advance(&mut self, pod: &mut PodRecord, object: &Arc<Object>, report: bool) {
        let PodStage::Running(run) = &mut pod.stage else { return };
        let before = run.visible_states();
        let mut pod_events = Vec::new();
        let mut runtime = self.machine.runtime(self.context.rng);
        run.advance(self.context.now, &mut runtime, &mut pod_events);
        let has_sandbox = run.containers.iter().any(|c| c.running().is_some());
        if run.pod_ip.is_none() && has_sandbox {
            let host_network = object.value()["spec"]["hostNetwork"] == Value::Bool(true);
            run.pod_ip = self.machine.address(host_network);
        }
        for event in &pod_events {
            report_event(self.context, &self.machine.name, object, run, event);
        }
        let report = report | (run.visible_states() != before) | self.finish_resize(pod, object);
        let PodStage::Running(run) = &pod.stage else { return };
        if report {
            let host_ip = &self.machine.host_ip;
            let status = status::of_run(run, object.value(), host_ip, self.context.now);
            pod.written = self.context.set_pod_status(object, status);
        }
        if run.phase().is_terminal() {
            release(self.machine, pod);
            pod.stage = PodStage::Finished;
        }
    }

    fn shuts_down(&self) -> bool {
        matches!(self.machine.state, MachineState::ShuttingDown { .. })
    }

    /// The time at which the containers of a pod are killed that is deleted, or whose node shuts
    /// down.
    fn grace_end(&self, object: &Object) -> Timestamp {
        let value = object.value();
        let seconds = if object.is_terminating() {
            &value["metadata"]["deletionGracePeriodSeconds"]
        } else {
            &value["spec"]["terminationGracePeriodSeconds"]
        };
        let grace_ms = seconds.as_i64().unwrap_or(0).saturating_mul(1000);
        let end = Timestamp(self.context.now.0.saturating_add(grace_ms));
        match self.machine.state {
            MachineState::ShuttingDown { off_at } => end.min(off_at),
            MachineState::Up | MachineState::Down | MachineState::Off => end,
        }
    }

    fn begin_stop(&mut self, pod: &mut PodRecord, object: &Arc<Object>) {
        let grace_ms = self.grace_end(object).0 - self.context.now.0;
        let PodStage::Running(mut run) = std::mem::replace(&mut pod.stage, PodStage::Finished)
        else {
            return;
        };
        for container in (0..run.containers.len()).rev() {
            if run.containers[container].running().is_some() {
                let event = PodEvent { container, event: ContainerEvent::Killing };
                report_event(self.context, &self.machine.name, object, &run, &event);
            }
        }
        let mut runtime = self.machine.runtime(self.context.rng);
        let takes = run.stop_time(grace_ms, &mut runtime);
        for container in &mut run.containers {
            container.cancel_deadlines();
        }
        pod.stage = PodStage::Stopping { run, until: Timestamp(self.context.now.0 + takes) };
        if takes == 0 {
            self.finish_stop(pod, object);
        }
    }

    /// Reports the exit of the containers, then removes the pod if it was deleted.
    fn finish_stop(&mut self, pod: &mut PodRecord, object: &Arc<Object>) {
        release(self.machine, pod);
        let PodStage::Stopping { mut run, .. } =
            std::mem::replace(&mut pod.stage, PodStage::Finished)
        else {
            return;
        };
        run.stop(self.context.now);
        run.pod_ip = None;
        let host_ip = &self.machine.host_ip;
        let mut status = status::of_run(&run, object.value(), host_ip, self.context.now);
        if status["phase"] == "Pending" {
            status["phase"] = Value::from("Failed");
        }
        if !object.is_terminating() {
            status = status::shut_down(status, object.value(), self.context.now);
        }
        if let Some(object) = self.context.set_pod_status(object, status)
            && object.is_terminating()
        {
            self.context.remove_pod(&object);
        }
    }
}
