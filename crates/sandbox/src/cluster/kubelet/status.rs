//! The `status` of a pod as its kubelet writes it (S22). Pure.

use everynode_core::api::Timestamp;

use super::container::{Container, ContainerRole, ContainerState, Exit, VisibleState};
use super::resize_state;
use super::run::{PodPhase, PodRun};
use crate::clock::rfc3339;
use crate::condition;
use crate::json::{Map, Value, json};
use crate::value::text;

/// The status of an admitted pod. Keeps the fields of others in the old status: their conditions
/// and the qosClass.
pub(super) fn of_run(run: &PodRun, pod: &Value, host_ip: &str, now: Timestamp) -> Value {
    let old = &pod["status"];
    let phase = run.phase();
    let mut status = Map::new();
    for field in ["qosClass", "nominatedNodeName", "resize"] {
        if let Some(value) = old.get(field) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    status.insert("phase", json!(phase.name()));
    status.insert("startTime", json!(rfc3339(run.started_at)));
    status.insert("observedGeneration", generation(pod));
    status.insert("conditions", conditions(run, phase, pod, now).into());
    status.insert("hostIP", json!(host_ip));
    status.insert("hostIPs", json!([{"ip": host_ip}]));
    if let Some(ip) = &run.pod_ip {
        status.insert("podIP", json!(**ip));
        status.insert("podIPs", json!([{"ip": **ip}]));
    }
    let list = |main: bool| -> Vec<Value> {
        run.containers
            .iter()
            .filter(|container| (container.role == ContainerRole::Main) == main)
            .map(|container| container_status(container, run.initialized()))
            .collect()
    };
    let initial = list(false);
    if !initial.is_empty() {
        status.insert("initContainerStatuses", initial.into());
    }
    status.insert("containerStatuses", list(true).into());
    Value::Object(status)
}

/// The last status of a pod that the kubelet ended because its node shuts down.
pub(super) fn shut_down(mut status: Value, pod: &Value, now: Timestamp) -> Value {
    let message = "Pod was terminated in response to imminent node shutdown.";
    status["phase"] = json!("Failed");
    status["reason"] = json!("Terminated");
    status["message"] = json!(message);
    let disruption = condition::disruption(pod, "TerminationByKubelet", message, now);
    condition::set(&mut status, disruption);
    status
}

/// The status of a pod that the kubelet rejected.
pub(super) fn rejected(pod: &Value, reason: &str, message: &str, now: Timestamp) -> Value {
    let old = &pod["status"];
    let mut status = json!({
        "phase": "Failed",
        "reason": reason,
        "message": format!("Pod was rejected: {message}"),
        "startTime": rfc3339(now),
        "observedGeneration": generation(pod),
    });
    if let Some(class) = old.get("qosClass") {
        status["qosClass"] = class.clone();
    }
    status["conditions"] = condition::find(old, "PodScheduled").into_iter().cloned().collect();
    status
}

fn generation(pod: &Value) -> Value {
    pod["metadata"].get("generation").cloned().unwrap_or(json!(1))
}

const KUBELET_CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

fn conditions(run: &PodRun, phase: PodPhase, pod: &Value, now: Timestamp) -> Vec<Value> {
    let mut conditions: Vec<Value> = Vec::with_capacity(KUBELET_CONDITIONS.len());
    if !phase.is_terminal() {
        conditions.extend(run.resize.conditions());
    }
    for (kind, state) in KUBELET_CONDITIONS.into_iter().zip(condition_states(run, phase, pod)) {
        conditions.push(condition(kind, &state, pod, now));
    }
    let others = pod["status"]["conditions"].as_array().into_iter().flatten();
    let is_other = |kind: &str| {
        !KUBELET_CONDITIONS.contains(&kind) && !resize_state::CONDITIONS.contains(&kind)
    };
    conditions.extend(others.filter(|c| is_other(text(c, &["type"]))).cloned());
    conditions
}

/// The status of a condition; a true one can have a reason as well.
struct ConditionState {
    is_true: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl ConditionState {
    const TRUE: Self = Self { is_true: true, reason: None, message: None };

    fn not(reason: &'static str, message: Option<String>) -> Self {
        Self { is_true: false, reason: Some(reason), message }
    }
}

/// In the order of [`KUBELET_CONDITIONS`].
fn condition_states(run: &PodRun, phase: PodPhase, pod: &Value) -> [ConditionState; 5] {
    let sandbox = ConditionState {
        is_true: run.pod_ip.is_some() && !phase.is_terminal(),
        reason: None,
        message: None,
    };
    let initialized = match (run.initialized(), phase) {
        (true, PodPhase::Succeeded) => {
            ConditionState { is_true: true, reason: Some("PodCompleted"), message: None }
        }
        (true, _) => ConditionState::TRUE,
        (false, _) => {
            let incomplete =
                names(run, |c| c.role != ContainerRole::Main && !c.allows_next_to_start());
            let message = format!("containers with incomplete status: [{incomplete}]");
            ConditionState::not("ContainersNotInitialized", Some(message))
        }
    };
    let containers_ready = ready(run, phase);
    let ready = match (containers_ready.is_true, unmet_gates(pod)) {
        (true, Some(message)) => ConditionState::not("ReadinessGatesNotReady", Some(message)),
        (true | false, _) => ready(run, phase),
    };
    [sandbox, initialized, ready, containers_ready, ConditionState::TRUE]
}

fn ready(run: &PodRun, phase: PodPhase) -> ConditionState {
    match phase {
        PodPhase::Succeeded => ConditionState::not("PodCompleted", None),
        PodPhase::Failed => ConditionState::not("PodFailed", None),
        PodPhase::Pending | PodPhase::Running => {
            let unready = names(run, |c| c.role != ContainerRole::Init && !c.is_ready());
            if unready.is_empty() {
                ConditionState::TRUE
            } else {
                let message = format!("containers with unready status: [{unready}]");
                ConditionState::not("ContainersNotReady", Some(message))
            }
        }
    }
}

/// The readiness gates of a pod whose conditions are not true; `None` if there are none. Upstream:
/// `GeneratePodReadyCondition`.
fn unmet_gates(pod: &Value) -> Option<String> {
    let gates = pod["spec"]["readinessGates"].as_array().into_iter().flatten();
    let unmet = gates.map(|gate| text(gate, &["conditionType"])).filter_map(|gate| {
        let Some(condition) = condition::find(&pod["status"], gate) else {
            return Some(format!(
                "corresponding condition of pod readiness gate \"{gate}\" does not exist."
            ));
        };
        let status = text(condition, &["status"]);
        (status != "True").then(|| {
            format!("the status of pod readiness gate \"{gate}\" is not \"True\", but {status}")
        })
    });
    let unmet: Vec<String> = unmet.collect();
    (!unmet.is_empty()).then(|| unmet.join(", "))
}

/// True if the spec of a pod has changed since the status was written, or the condition `Ready` of
/// a pod with readiness gates disagrees with the conditions that they name, because somebody else
/// has changed these.
pub(super) fn is_outdated(pod: &Value) -> bool {
    let observed = pod["status"]["observedGeneration"].as_i64();
    let generation = pod["metadata"]["generation"].as_i64();
    if observed.is_some_and(|observed| generation.is_some_and(|it| it > observed)) {
        return true;
    }
    pod["spec"]["readinessGates"].is_array()
        && condition::is_true(&pod["status"], "ContainersReady")
        && condition::is_true(&pod["status"], "Ready") != unmet_gates(pod).is_none()
}

/// The restart count of a container whose pod was started by an earlier kubelet.
pub(super) fn earlier_restarts(pod: &Value, name: &str, role: ContainerRole) -> u32 {
    let field =
        if role == ContainerRole::Main { "containerStatuses" } else { "initContainerStatuses" };
    let statuses = pod["status"][field].as_array().into_iter().flatten();
    let found = statuses.into_iter().find(|status| status["name"] == name);
    let restarts = found.map_or(0, |status| {
        let ran = !status["state"]["running"].is_null();
        status["restartCount"].as_u64().unwrap_or(0) + u64::from(ran)
    });
    u32::try_from(restarts).unwrap_or(u32::MAX)
}

fn names(run: &PodRun, which: impl Fn(&Container) -> bool) -> String {
    let names: Vec<&str> = run.containers.iter().filter(|c| which(c)).map(|c| &*c.name).collect();
    names.join(" ")
}

fn condition(kind: &str, state: &ConditionState, pod: &Value, now: Timestamp) -> Value {
    let old = condition::find(&pod["status"], kind);
    let status = if state.is_true { "True" } else { "False" };
    let mut condition = Map::new();
    condition.insert("type", json!(kind));
    condition.insert("status", json!(status));
    condition.insert("observedGeneration", generation(pod));
    condition.insert("lastProbeTime", Value::Null);
    condition.insert("lastTransitionTime", condition::since(old, status, now));
    if let Some(reason) = state.reason {
        condition.insert("reason", json!(reason));
    }
    if let Some(message) = &state.message {
        condition.insert("message", json!(message));
    }
    Value::Object(condition)
}

fn container_status(container: &Container, initialized: bool) -> Value {
    let id = container_id(container);
    let runs = container.running().is_some();
    let image = if id.is_empty() { &container.image } else { &container.run_image };
    let mut status = json!({
        "name": &*container.name,
        "image": full_image(image),
        "imageID": if id.is_empty() { String::new() } else { image_id(image) },
        "ready": container.is_ready(),
        "started": runs,
        "restartCount": container.restarts,
        "state": state(container, initialized),
        "lastState": container.last_exit.as_ref().map_or_else(|| json!({}), terminated),
    });
    if !id.is_empty() {
        status["containerID"] = json!(id);
        let resources = if runs { &container.actual } else { &container.allocated };
        status["resources"] = resources.clone();
        if let Some(requests) = container.allocated.get("requests") {
            status["allocatedResources"] = requests.clone();
        }
    }
    status
}

fn container_id(container: &Container) -> String {
    let id = match &container.state {
        ContainerState::Running(running) => Some(running.id),
        ContainerState::Exited(exit) => Some(exit.id),
        _ => container.last_exit.as_ref().map(|exit| exit.id),
    };
    id.map(hash_id).unwrap_or_default()
}

fn hash_id(id: u64) -> String {
    let spread = |n: u64| id.wrapping_add(n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    format!("containerd://{:016x}{:016x}{:016x}{:016x}", spread(1), spread(2), spread(3), spread(4))
}

fn state(container: &Container, initialized: bool) -> Value {
    let image = &container.image;
    match container.visible_state() {
        VisibleState::Creating => {
            let held_up = match container.role {
                ContainerRole::Main => !initialized,
                ContainerRole::Init | ContainerRole::Sidecar => {
                    container.state == ContainerState::Waiting
                }
            };
            waiting(if held_up { "PodInitializing" } else { "ContainerCreating" }, "")
        }
        VisibleState::PullError => waiting("ErrImagePull", container.error()),
        VisibleState::PullBackOff => {
            let error = container.error();
            let text = format!("Back-off pulling image \"{image}\": ErrImagePull: {error}");
            waiting("ImagePullBackOff", &text)
        }
        VisibleState::StartError => waiting("RunContainerError", container.error()),
        VisibleState::Running { .. } => {
            let since = container.running().map(|running| rfc3339(running.since));
            json!({"running": {"startedAt": since}})
        }
        VisibleState::Ended | VisibleState::Exited => {
            container.exit().map_or_else(|| json!({}), terminated)
        }
        VisibleState::BackOff => {
            let back_off = go_seconds(container.back_off_ms() / 1000);
            let name = &container.name;
            let text = format!("back-off {back_off} restarting failed container={name}");
            waiting("CrashLoopBackOff", &text)
        }
    }
}

fn waiting(reason: &str, message: &str) -> Value {
    match message {
        "" => json!({"waiting": {"reason": reason}}),
        message => json!({"waiting": {"reason": reason, "message": message}}),
    }
}

/// A duration in Go's format: `10s`, `1m20s`, `5m0s`.
fn go_seconds(seconds: i64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        _ => format!("{}m{}s", seconds / 60, seconds % 60),
    }
}

fn terminated(exit: &Exit) -> Value {
    json!({"terminated": {
        "exitCode": exit.code,
        "reason": exit.reason,
        "startedAt": rfc3339(exit.started),
        "finishedAt": rfc3339(exit.finished),
        "containerID": hash_id(exit.id),
    }})
}

/// The full name of an image as containerd reports it: `nginx` is `docker.io/library/nginx:latest`.
fn full_image(image: &str) -> String {
    let (registry, rest) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => ("docker.io", image),
    };
    let library = if registry == "docker.io" && !rest.contains('/') { "library/" } else { "" };
    let last = rest.rsplit('/').next().unwrap_or(rest);
    let tag = if last.contains([':', '@']) { "" } else { ":latest" };
    format!("{registry}/{library}{rest}{tag}")
}

fn image_id(image: &str) -> String {
    let full = full_image(image);
    let name = full.split('@').next().unwrap_or(&full);
    let repository = match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    };
    let digest = full.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let part = |n: u64| digest.wrapping_add(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{repository}@sha256:{:016x}{:016x}{:016x}{:016x}", part(1), part(2), part(3), part(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S22: images are reported with containerd's full names.
    #[test]
    fn images_are_reported_in_full() {
        for (image, expected) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("fluent/fluentd:v1", "docker.io/fluent/fluentd:v1"),
            ("quay.io/a/b:v5", "quay.io/a/b:v5"),
            ("localhost:5000/x", "localhost:5000/x:latest"),
        ] {
            assert_eq!(full_image(image), expected);
        }
        assert!(image_id("localhost:5000/x").starts_with("localhost:5000/x@sha256:"));
    }

    /// S22: back-offs are printed in Go's format.
    #[test]
    fn back_offs_are_printed_as_in_go() {
        assert_eq!(go_seconds(10), "10s");
        assert_eq!(go_seconds(80), "1m20s");
        assert_eq!(go_seconds(300), "5m0s");
    }
}
