//! Changes of a running pod's spec: other images and resources of its containers (S22).

use everynode_core::api::Timestamp;
use everynode_k8s::fit::Usage;

use super::container::{Container, ContainerEvent, ContainerRole};
use super::event::report_event;
use super::machine::Machine;
use super::resize_state::{PendingReason, PendingResize, ResizeProgress, message, restarts};
use super::run::{PodEvent, PodRun};
use super::{Kubelet, PodRecord, PodStage, admission};
use crate::cluster::event::EventSubject;
use crate::cluster::lifecycle::{JitteredDelay, Resize};
use crate::cluster::requests::{larger, with_requests, with_resources};
use crate::json::Value;
use crate::object::Object;

/// Why a resize is not granted.
struct Refusal {
    reason: PendingReason,
    /// The reason in the event.
    event_reason: String,
    message: String,
}

impl Kubelet<'_, '_> {
    /// Restarts the containers whose image was changed in the pod's spec. Returns whether there are
    /// any.
    pub(super) fn change_images(&mut self, pod: &mut PodRecord, object: &Object) -> bool {
        let annotation = pod.annotation.as_deref();
        let PodStage::Running(run) = &mut pod.stage else { return false };
        let mut changed = false;
        for index in 0..run.containers.len() {
            let container = &mut run.containers[index];
            let Some(image) = spec_of(object, container).and_then(|c| c["image"].as_str()) else {
                continue;
            };
            if image == &*container.image {
                continue;
            }
            changed = true;
            if container.role == ContainerRole::Init {
                // It has completed already.
                container.image = image.into();
                continue;
            }
            let labels = &self.machine.room.node.labels;
            let lifecycle = self.lifecycles.choose(annotation, image, labels);
            let lifecycle = lifecycle.unwrap_or_else(|_| container.lifecycle.clone());
            container.change_image(image.into(), lifecycle);
            self.restart(run, index, object, ContainerEvent::ImageChanged);
        }
        changed
    }

    /// Grants and carries out a resize. Returns whether the state of the resize has changed.
    pub(super) fn resize(&mut self, pod: &mut PodRecord, object: &Object) -> bool {
        let PodStage::Running(run) = &mut pod.stage else { return false };
        let before = run.resize.clone();
        self.decide(run, &mut pod.usage, object);
        self.actuate(run, object);
        run.resize != before
    }

    /// Ends a resize that all containers have. Returns whether one has ended.
    pub(super) fn finish_resize(&mut self, pod: &mut PodRecord, object: &Object) -> bool {
        let PodStage::Running(run) = &mut pod.stage else { return false };
        let Some(generation) = run.finish_resize() else { return false };
        use_room(self.machine, run, &mut pod.usage, object);
        let spec = with_resources(&object.value()["spec"], |_, container| {
            granted_to(run, container).map(|container| container.allocated.clone())
        });
        let text = message("completed", &spec, generation, "");
        self.pod_event(object, false, "ResizeCompleted", &text);
        true
    }

    fn decide(&mut self, run: &mut PodRun, usage: &mut Usage, object: &Object) {
        let changed: Vec<(usize, Value)> = changes(run, object);
        if changed.is_empty() {
            run.resize.pending = None;
            return;
        }
        let generation = generation_of(object);
        let is_decided = |pending: &PendingResize| {
            pending.reason == PendingReason::Infeasible && pending.generation == generation
        };
        if run.resize.pending.as_ref().is_some_and(is_decided) {
            return;
        }
        let spec = &object.value()["spec"];
        match self.check_resize(run, &changed, usage, object) {
            Err(refusal) => self.refuse_resize(run, refusal, object),
            Ok(takes_ms) => {
                for (index, resources) in changed {
                    run.containers[index].allocated = resources;
                }
                use_room(self.machine, run, usage, object);
                let now = self.context.now;
                let actuate_at = Some(Timestamp(now.0 + takes_ms));
                run.resize.pending = None;
                run.resize.progress = Some(ResizeProgress { generation, since: now, actuate_at });
                let text = message("started", spec, generation, "");
                self.pod_event(object, false, "ResizeStarted", &text);
            }
        }
    }

    /// The time that the resize takes, or why it is not granted.
    fn check_resize(
        &mut self,
        run: &PodRun,
        changed: &[(usize, Value)],
        usage: &Usage,
        object: &Object,
    ) -> Result<i64, Refusal> {
        let mut delays: Vec<JitteredDelay> = Vec::new();
        for container in changed.iter().map(|(index, _)| &run.containers[*index]) {
            let refuse = |reason: PendingReason, message: &str| {
                let event_reason = reason.name().to_owned();
                Err(Refusal { reason, event_reason, message: message.to_owned() })
            };
            // That of the node holds for running containers, too: it is the kubelet's answer.
            let of_node =
                self.machine.lifecycle.as_ref().filter(|_| container.role != ContainerRole::Init);
            match &of_node.unwrap_or(&container.lifecycle).resize {
                Resize::After(delay) if container.running().is_some() => delays.push(*delay),
                Resize::After(_) => {}
                Resize::Infeasible(text) => return refuse(PendingReason::Infeasible, text),
                Resize::Deferred(text) => return refuse(PendingReason::Deferred, text),
            }
        }
        self.machine.room.remove(usage);
        let wanted = Usage::of_pod(object.value());
        let admitted = admission::check(self.machine, object.value(), &wanted);
        self.machine.room.add(usage);
        if let Err((event_reason, message)) = admitted {
            return Err(Refusal { reason: PendingReason::Deferred, event_reason, message });
        }
        let takes = delays.into_iter().map(|delay| delay.draw(self.context.rng));
        Ok(takes.max().unwrap_or(0))
    }

    fn refuse_resize(&mut self, run: &mut PodRun, refusal: Refusal, object: &Object) {
        let Refusal { reason, event_reason, message: cause } = refusal;
        let spec = &object.value()["spec"];
        let generation = generation_of(object);
        let before = run.resize.pending.take();
        let same = before.as_ref().filter(|before| before.reason == reason);
        let since = same.map_or(self.context.now, |before| before.since);
        let is_new = same.is_none_or(|before| before.generation != generation);
        let priority = spec["priority"].as_i64().unwrap_or(0);
        let text = message(&event_reason, spec, generation, &cause);
        run.resize.pending =
            Some(PendingResize { reason, message: cause, generation, since, priority });
        if is_new {
            self.pod_event(object, true, &format!("Resize{}", reason.name()), &text);
        }
    }

    /// Gives the running containers what was granted, once that is due.
    fn actuate(&mut self, run: &mut PodRun, object: &Object) {
        let now = self.context.now;
        let due = run
            .resize
            .progress
            .as_mut()
            .is_some_and(|progress| progress.actuate_at.take_if(|at| *at <= now).is_some());
        if !due {
            return;
        }
        for index in 0..run.containers.len() {
            let container = &mut run.containers[index];
            let Some(spec) = spec_of(object, container) else { continue };
            if restarts(spec, &container.actual, &container.allocated) {
                self.restart(run, index, object, ContainerEvent::ResizeRequiresRestart);
            } else {
                container.actual = container.allocated.clone();
            }
        }
    }

    /// Restarts a container that runs.
    fn restart(&mut self, run: &mut PodRun, index: usize, object: &Object, why: ContainerEvent) {
        let seconds = object.value()["spec"]["terminationGracePeriodSeconds"].as_i64();
        let grace_ms = seconds.unwrap_or(30).saturating_mul(1000);
        let (now, rng) = (self.context.now, &mut *self.context.rng);
        if run.containers[index].begin_restart(now, grace_ms, rng) {
            let event = PodEvent { container: index, event: why };
            report_event(self.context, &self.machine.name, object, run, &event);
        }
    }

    fn pod_event(&mut self, object: &Object, is_warning: bool, reason: &str, text: &str) {
        let node = &self.machine.name;
        self.context.event(EventSubject::pod(object), node, is_warning, reason, text);
    }
}

/// The containers of which the spec has other resources than those that were granted, with them.
fn changes(run: &PodRun, object: &Object) -> Vec<(usize, Value)> {
    let wanted = |container: &Container| spec_of(object, container).map(|c| &c["resources"]);
    let containers = run.containers.iter().enumerate();
    containers
        .filter_map(|(index, container)| {
            let resources = wanted(container).filter(|it| **it != container.allocated)?;
            Some((index, resources.clone()))
        })
        .collect()
}

/// Counts the pod with the larger of what its containers were granted and what they have.
fn use_room(machine: &mut Machine, run: &PodRun, usage: &mut Usage, object: &Object) {
    let spec = with_resources(&object.value()["spec"], |_, container| {
        let Container { allocated, actual, .. } = granted_to(run, container)?;
        let requests = larger(&allocated["requests"], &actual["requests"]);
        Some(with_requests(allocated, requests))
    });
    machine.room.remove(usage);
    *usage = Usage::of_spec(&spec);
    machine.room.add(usage);
    machine.has_more_room = true;
}

/// The container of a pod that has the name of one in a spec.
fn granted_to<'a>(run: &'a PodRun, container: &Value) -> Option<&'a Container> {
    run.containers.iter().find(|granted| container["name"] == *granted.name)
}

fn spec_of<'a>(pod: &'a Object, container: &Container) -> Option<&'a Value> {
    let field = if container.role == ContainerRole::Main { "containers" } else { "initContainers" };
    let listed = pod.value()["spec"][field].as_array().into_iter().flatten();
    listed.into_iter().find(|c| c["name"] == *container.name)
}

fn generation_of(object: &Object) -> i64 {
    object.value()["metadata"]["generation"].as_i64().unwrap_or(1)
}
