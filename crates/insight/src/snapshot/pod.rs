//! Pods: the fields that decisions read, and those that answers report.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use everynode_core::api::{DaemonSet, NodeName, Pod, PodPhase, Readiness, Timestamp};
use everynode_k8s::convert::{Interner, timestamp};
use everynode_k8s::fit::Usage;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::condition::Condition;
use super::deletion::Deletion;

/// `spec.schedulerName` of pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A pod of a DaemonSet, or one without a controller.
#[derive(Clone, Debug)]
pub struct PodDetail {
    /// The fields that the core reads.
    pub pod: Pod,
    /// The pod's state.
    pub state: PodState,
    /// The number of restarts of all containers.
    pub restarts: u32,
    /// The container that was restarted last, and how it had ended.
    pub last_restart: Option<(String, ContainerExit)>,
    /// The time from the pod's creation until it was ready. `None` if the pod is not ready, or a
    /// container has restarted since.
    pub start_up: Option<Duration>,
    /// Since when the pod is not ready: since its creation, or since it ceased to be. Of a pod that
    /// is ready, it is its creation.
    pub not_ready_since: Timestamp,
    /// When its last init container was done; `None` if it has none, or none is yet.
    pub initialized_at: Option<Timestamp>,
    /// The deletion, if somebody has deleted it.
    pub deletion: Option<Deletion>,
    /// All containers have ended.
    pub has_ended: bool,
    /// `spec.schedulerName`, unless it is the default scheduler.
    pub scheduler: Option<String>,
    /// The attempts of the scheduler.
    pub scheduling: Scheduling,
    /// The resources and host ports that the pod requests.
    pub usage: Usage,
}

/// The state of a pod as a whole: of several states that its containers are in, the most important.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodState {
    /// The pod has no node yet.
    Unscheduled {
        /// The scheduler's message; empty if it has not tried yet.
        message: String,
    },
    /// A container does not run: it is starting, or it can't start.
    Waiting(WaitingContainer),
    /// All containers run, but some are not ready.
    NotReady {
        /// The names of the containers that are not ready.
        containers: Vec<String>,
        /// If all containers are ready: the message of the pod's condition `Ready`, which names the
        /// readiness gates that are not met.
        message: String,
    },
    /// The pod is ready.
    Ready,
    /// The pod is being deleted.
    Terminating,
    /// The pod's phase is `Failed`.
    Failed {
        /// `status.reason`, such as `Evicted`.
        reason: String,
        /// `status.message`.
        message: String,
    },
    /// The pod's phase is `Succeeded`.
    Succeeded,
    /// The pod's phase is `Unknown`: its kubelet does not report.
    Unknown,
}

/// The attempts of the scheduler for a pod without a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// Since when no node is found: `lastTransitionTime` of the condition `PodScheduled`.
    pub refused_since: Option<Timestamp>,
    /// `status.nominatedNodeName`: the node on which pods are preempted for this one.
    pub nominated_node: Option<NodeName>,
}

/// A container that does not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitingContainer {
    /// The container's name.
    pub name: String,
    /// `CrashLoopBackOff`, `ImagePullBackOff`, `ContainerCreating` …
    pub reason: String,
    /// The kubelet's message.
    pub message: String,
    /// How the container ended the last time.
    pub last_exit: Option<ContainerExit>,
    /// How often it was started again.
    pub restarts: u32,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerExit {
    /// `Error`, `OOMKilled` …
    pub reason: String,
    /// The exit code of the container's process.
    pub exit_code: i32,
    /// When the container had been started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why, in the words of the kubelet or of the container; empty if they say nothing.
    pub message: String,
}

impl PodDetail {
    /// True if the pod counts as available at `now` under the DaemonSet's `minReadySeconds`.
    pub fn is_available(&self, daemon_set: &DaemonSet, now: Timestamp) -> bool {
        self.pod.readiness.is_available(Some(now), daemon_set.min_ready_seconds, now)
    }
}

impl PodState {
    /// True if the pod does not recover without intervention.
    pub fn is_failing(&self) -> bool {
        match self {
            Self::Unscheduled { message } => !message.is_empty(),
            Self::Waiting(container) => !container.is_starting(),
            // No pod of a DaemonSet ends by itself.
            Self::Failed { .. } | Self::Succeeded | Self::Unknown => true,
            Self::NotReady { .. } | Self::Ready | Self::Terminating => false,
        }
    }

    /// The message of the scheduler, the kubelet or the container; empty if there is none.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Unscheduled { message } | Self::Failed { message, .. } => message,
            Self::Waiting(container) => match &container.last_exit {
                Some(exit) if !exit.message.is_empty() => &exit.message,
                Some(_) | None => &container.message,
            },
            Self::NotReady { .. }
            | Self::Ready
            | Self::Terminating
            | Self::Succeeded
            | Self::Unknown => "",
        }
    }

    /// The kubelet's message about a pod that fails: the cause, not that it waits to try again.
    pub(crate) fn error(&self) -> Option<&str> {
        let message = match self {
            Self::Waiting(container) => match &container.last_exit {
                Some(exit) => &exit.message,
                None => container.error(),
            },
            Self::Failed { message, .. } => message,
            _ => "",
        };
        Some(message).filter(|message| !message.is_empty())
    }

    /// True if the state of its node no longer matters: the pod is ready, or it has ended.
    pub(crate) const fn is_settled(&self) -> bool {
        matches!(self, Self::Ready | Self::Failed { .. } | Self::Succeeded)
    }
}

impl WaitingContainer {
    /// The kubelet's message without what the reason says already, and what changes while it waits
    /// to try again: of `Back-off pulling image "a": ErrImagePull: rpc error: code = NotFound desc
    /// = a: not found` it is `a: not found`.
    fn error(&self) -> &str {
        let is_pull = matches!(self.reason.as_str(), "ErrImagePull" | "ImagePullBackOff");
        let error = self.message.split_once("desc = ").filter(|_| is_pull);
        error.map_or(&self.message, |(_, error)| error)
    }

    /// True if the container was started before, and so may have logs.
    pub(crate) fn has_run(&self) -> bool {
        self.last_exit.as_ref().is_some_and(|exit| exit.reason != "StartError")
    }

    fn is_starting(&self) -> bool {
        matches!(self.reason.as_str(), "ContainerCreating" | "PodInitializing" | "")
    }
}

/// `status` is parsed on demand: `plan` reads the pods of all namespaces, and needs the phase only
/// of most of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WirePod<'a> {
    spec: Value,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

impl WirePod<'_> {
    fn status<T: DeserializeOwned + Default>(&self) -> T {
        let status = self.status.map(|status| serde_json::from_str(status.get()));
        status.and_then(Result::ok).unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WirePhase {
    phase: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    reason: Option<String>,
    message: Option<String>,
    nominated_node_name: Option<String>,
    conditions: Option<Vec<Condition>>,
    init_container_statuses: Option<Vec<WireContainer>>,
    container_statuses: Option<Vec<WireContainer>>,
}

impl WireStatus {
    /// The condition `Ready`.
    fn ready(&self) -> Option<&Condition> {
        self.condition("Ready")
    }

    fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().flatten().find(|condition| condition.kind == kind)
    }

    fn scheduling(&self) -> Scheduling {
        let nominated = self.nominated_node_name.as_deref().filter(|name| !name.is_empty());
        Scheduling {
            refused_since: self.condition("PodScheduled").and_then(Condition::since),
            nominated_node: nominated.map(NodeName::from),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireContainer {
    name: String,
    ready: bool,
    restart_count: u32,
    state: Option<WireState>,
    last_state: Option<WireState>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireState {
    waiting: Option<WireWaiting>,
    running: Option<Value>,
    terminated: Option<WireTerminated>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireWaiting {
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireTerminated {
    reason: Option<String>,
    exit_code: i32,
    message: Option<String>,
    started_at: Option<String>,
    finished_at: Option<String>,
}

impl PodDetail {
    /// `json` is the source of `pod`. A part of it that can't be parsed counts as absent.
    pub(super) fn new(pod: Pod, json: &[u8]) -> Self {
        let wire: WirePod = serde_json::from_slice(json).unwrap_or_default();
        let status: WireStatus = wire.status();
        let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
        let containers = containers.flatten();
        let restarts = containers.clone().map(|container| container.restart_count);
        let restarts = restarts.fold(0, u32::saturating_add);
        let restarted = containers.filter_map(WireContainer::restarted);
        let last_restart = restarted.max_by_key(|(_, exit)| exit.finished_at);
        let start_up = match pod.readiness {
            Readiness::ReadySince(at) if restarts == 0 => Some(at.since(pod.creation_timestamp)),
            Readiness::ReadySince(_) | Readiness::Ready | Readiness::NotReady => None,
        };
        let initial = status.init_container_statuses.iter().flatten();
        let initialized_at = initial.filter_map(WireContainer::done_at).max();
        let lost_at = status.ready().filter(|ready| ready.status != "True");
        let lost_at = lost_at.and_then(Condition::since);
        let created = pod.creation_timestamp;
        let main = status.container_statuses.as_deref().unwrap_or_default();
        let has_ended = pod.phase.is_terminal()
            || (!main.is_empty() && main.iter().all(WireContainer::has_ended));
        Self {
            has_ended,
            not_ready_since: lost_at.map_or(created, |at| at.max(created)),
            initialized_at,
            deletion: if pod.terminating { Deletion::of(json) } else { None },
            scheduling: status.scheduling(),
            state: state(&pod, status, &sidecars(&wire.spec)),
            restarts,
            last_restart,
            start_up,
            scheduler: wire.spec["schedulerName"]
                .as_str()
                .filter(|name| !name.is_empty() && *name != DEFAULT_SCHEDULER)
                .map(str::to_owned),
            usage: Usage::of_spec(&wire.spec),
            pod,
        }
    }
}

/// The node and the resource usage of a pod; `None` if it has no node, or has ended.
pub(super) fn usage_on_node(json: &[u8], interner: &mut Interner) -> Option<(NodeName, Usage)> {
    let pod: WirePod = serde_json::from_slice(json).ok()?;
    let node = pod.spec["nodeName"].as_str().filter(|name| !name.is_empty())?;
    let status: WirePhase = pod.status();
    let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    (!has_ended).then(|| (NodeName::from(interner.text(node)), Usage::of_spec(&pod.spec)))
}

/// The names of the init containers that run until the pod is deleted.
fn sidecars(spec: &Value) -> BTreeSet<&str> {
    let initial = spec["initContainers"].as_array().into_iter().flatten();
    let sidecars = initial.filter(|container| container["restartPolicy"] == "Always");
    sidecars.filter_map(|container| container["name"].as_str()).collect()
}

fn state(pod: &Pod, status: WireStatus, sidecars: &BTreeSet<&str>) -> PodState {
    if pod.terminating {
        return PodState::Terminating;
    }
    match pod.phase {
        PodPhase::Succeeded => PodState::Succeeded,
        PodPhase::Failed => PodState::Failed {
            reason: status.reason.unwrap_or_default(),
            message: status.message.unwrap_or_default(),
        },
        PodPhase::Unknown => PodState::Unknown,
        PodPhase::Pending if pod.node_name.is_none() => {
            let conditions = status.conditions.unwrap_or_default();
            let refused =
                conditions.into_iter().find(|c| c.kind == "PodScheduled" && c.status == "False");
            PodState::Unscheduled { message: refused.and_then(|c| c.message).unwrap_or_default() }
        }
        PodPhase::Pending | PodPhase::Running => of_containers(pod, status, sidecars),
    }
}

fn of_containers(pod: &Pod, status: WireStatus, sidecars: &BTreeSet<&str>) -> PodState {
    let ready = status.ready().and_then(|ready| ready.message.clone());
    let initial = status.init_container_statuses.unwrap_or_default();
    let main = status.container_statuses.unwrap_or_default();
    let is_sidecar = |container: &&WireContainer| sidecars.contains(container.name.as_str());
    let stay = initial.iter().filter(is_sidecar).chain(&main);
    let not_ready: Vec<String> =
        stay.filter(|container| !container.ready).map(|c| c.name.clone()).collect();
    let has_containers = !main.is_empty();
    let initializing = initial.iter().find(|it| it.is_running() && !it.ready);
    let initializing = initializing.map(|container| container.name.clone());
    let initial = initial.into_iter().filter_map(|container| {
        let role = if is_sidecar(&&container) { Role::Main } else { Role::Initial };
        container.waiting(role)
    });
    let main = main.into_iter().filter_map(|container| container.waiting(Role::Main));
    let mut waiting: Vec<WaitingContainer> = initial.chain(main).collect();
    // A container that fails is the cause for those that wait for it.
    waiting.sort_by_key(WaitingContainer::is_starting);
    match waiting.into_iter().next() {
        Some(container) if container.reason == "PodInitializing" => {
            let name = initializing.unwrap_or_default();
            PodState::Waiting(WaitingContainer { name, ..container })
        }
        Some(container) => PodState::Waiting(container),
        None if pod.readiness.is_ready() => PodState::Ready,
        None if has_containers => {
            let message = ready.filter(|_| not_ready.is_empty()).unwrap_or_default();
            PodState::NotReady { containers: not_ready, message }
        }
        None => PodState::Waiting(WaitingContainer {
            name: String::new(),
            reason: "ContainerCreating".to_owned(),
            message: String::new(),
            last_exit: None,
            restarts: 0,
        }),
    }
}

impl WireContainer {
    fn has_ended(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.terminated.is_some())
    }

    /// When it was done, if it is an init container that is.
    fn done_at(&self) -> Option<Timestamp> {
        let ended = self.state.as_ref()?.terminated.as_ref()?;
        timestamp(ended.finished_at.as_deref().filter(|_| ended.exit_code == 0)?)
    }

    /// Its name and how it had ended, if it was restarted.
    fn restarted(&self) -> Option<(String, ContainerExit)> {
        let last = self.last_state.as_ref()?.terminated.as_ref()?;
        (self.restart_count > 0).then(|| (self.name.clone(), last.exit()))
    }

    fn is_running(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.running.is_some())
    }

    /// Why the container does not run; `None` if it runs, or has completed as it should.
    fn waiting(self, role: Role) -> Option<WaitingContainer> {
        let state = self.state.unwrap_or_default();
        let last_exit = self.last_state.and_then(|last| last.terminated).map(|t| t.exit());
        let (reason, message, last_exit) = match state {
            WireState { waiting: Some(waiting), .. } => {
                let reason = waiting.reason.unwrap_or_default();
                // For other reasons the earlier exit is not the cause.
                let last_exit = last_exit.filter(|_| reason == "CrashLoopBackOff");
                (reason, waiting.message, last_exit)
            }
            WireState { terminated: Some(terminated), .. }
                if terminated.exit_code != 0 || role == Role::Main =>
            {
                let exit = terminated.exit();
                (exit.reason.clone(), None, Some(exit))
            }
            WireState { running: Some(_), .. } | WireState { .. } => return None,
        };
        Some(WaitingContainer {
            name: self.name,
            reason,
            message: message.unwrap_or_default(),
            last_exit,
            restarts: self.restart_count,
        })
    }
}

/// The role of a container in its pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It runs before the others.
    Initial,
    /// It runs until the pod is deleted.
    Main,
}

impl WireTerminated {
    fn exit(&self) -> ContainerExit {
        let reason = self.reason.clone().unwrap_or_else(|| "Error".to_owned());
        let time = |text: &Option<String>| timestamp(text.as_deref()?);
        ContainerExit {
            reason,
            exit_code: self.exit_code,
            started_at: time(&self.started_at),
            finished_at: time(&self.finished_at),
            message: self.message.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for PodState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unscheduled { message } if message.is_empty() => {
                f.write_str("waiting for the scheduler")
            }
            Self::Unscheduled { .. } => f.write_str("can't be scheduled"),
            Self::Waiting(container) => container.fmt(f),
            Self::NotReady { containers, message } if containers.is_empty() => {
                f.write_str("containers ready, pod not ready")?;
                let message = message.trim_end_matches('.');
                if message.is_empty() { Ok(()) } else { write!(f, " ({message})") }
            }
            Self::NotReady { containers, .. } => {
                write!(f, "running, not ready ({})", containers.join(", "))
            }
            Self::Ready => f.write_str("ready"),
            Self::Terminating => f.write_str("terminating"),
            Self::Failed { reason, .. } if reason.is_empty() => f.write_str("failed"),
            Self::Failed { reason, .. } => write!(f, "failed: {reason}"),
            Self::Succeeded => f.write_str("succeeded"),
            Self::Unknown => f.write_str("unknown: its kubelet does not report"),
        }
    }
}

impl fmt::Display for WaitingContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.reason.is_empty() { "waiting" } else { &self.reason })?;
        match self.reason.as_str() {
            "PodInitializing" if !self.name.is_empty() => {
                write!(f, ": init container {} runs", self.name)?;
            }
            _ if self.is_starting() => {}
            _ => write!(f, " of container {}", self.name)?,
        }
        match &self.last_exit {
            Some(exit) if exit.reason == self.reason => {
                write!(f, " (exit code {})", exit.exit_code)
            }
            Some(exit) => write!(f, " ({exit})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ContainerExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, exit code {}", self.reason, self.exit_code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_k8s::convert::{self, PodObject};
    use serde_json::json;

    fn detail(node: Option<&str>, status: Value) -> PodDetail {
        let json = json!({
            "metadata": { "name": "p", "namespace": "ns",
                "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeName": node, "containers": [], "initContainers": [
                { "name": "init" }, { "name": "proxy", "restartPolicy": "Always" }] },
            "status": status,
        })
        .to_string();
        match convert::pod(json.as_bytes(), &mut Interner::default()) {
            Ok(PodObject::Pod(pod)) => PodDetail::new(*pod, json.as_bytes()),
            other => panic!("{other:?}"),
        }
    }

    fn container(name: &str, ready: bool, state: Value, last: Value) -> Value {
        json!({ "name": name, "ready": ready, "restartCount": 2, "state": state,
            "lastState": last })
    }

    #[test]
    fn a_pod_has_its_most_important_state() {
        let creating = json!({ "waiting": { "reason": "PodInitializing" } });
        let crash =
            json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 40s" } });
        let killed = json!({ "terminated": { "reason": "OOMKilled", "exitCode": 137 } });
        let running = json!({ "running": {} });
        let done = json!({ "terminated": { "reason": "Completed", "exitCode": 0 } });
        let none = json!({});
        for (node, status, expected) in [
            (None, json!({ "phase": "Pending" }), "waiting for the scheduler"),
            (
                None,
                json!({ "phase": "Pending", "conditions": [
                    { "type": "PodScheduled", "status": "False",
                        "message": "0/3 nodes are available" }] }),
                "can't be scheduled",
            ),
            (Some("n"), json!({ "phase": "Pending" }), "ContainerCreating"),
            (
                Some("n"),
                json!({ "phase": "Pending",
                    "initContainerStatuses": [
                        container("init", false, crash.clone(), killed.clone())],
                    "containerStatuses": [container("c", false, creating.clone(), none.clone())] }),
                "CrashLoopBackOff of container init (OOMKilled, exit code 137)",
            ),
            (
                Some("n"),
                json!({ "phase": "Running",
                    "containerStatuses": [container("c", false, killed, none.clone())] }),
                "OOMKilled of container c (exit code 137)",
            ),
            // Only those of init containers are meant to end.
            (
                Some("n"),
                json!({ "phase": "Running",
                    "containerStatuses": [container("c", false, done.clone(), none.clone())] }),
                "Completed of container c (exit code 0)",
            ),
            (
                Some("n"),
                json!({ "phase": "Running",
                    "initContainerStatuses": [container("init", true, done, none.clone())],
                    "containerStatuses": [container("c", false, running.clone(), none.clone()),
                        container("d", true, running, none)] }),
                "running, not ready (c)",
            ),
            (
                Some("n"),
                json!({ "phase": "Running",
                    "conditions": [{ "type": "Ready", "status": "False",
                        "message": "the status of pod readiness gate \"lb\" is not \"True\"" }],
                    "containerStatuses": [container("c", true, json!({ "running": {} }),
                        json!({}))] }),
                "containers ready, pod not ready (the status of pod readiness gate \"lb\" is not \
                 \"True\")",
            ),
            (Some("n"), json!({ "phase": "Failed", "reason": "Evicted" }), "failed: Evicted"),
            (Some("n"), json!({ "phase": "Mystery" }), "unknown: its kubelet does not report"),
        ] {
            assert_eq!(detail(node, status.clone()).state.to_string(), expected, "{status}");
        }
    }

    #[test]
    fn a_sidecar_must_run_and_be_ready() {
        let done = json!({ "terminated": { "reason": "Completed", "exitCode": 0 } });
        for (state, expected) in [
            (done, "Completed of container proxy (exit code 0)"),
            (json!({ "running": {} }), "running, not ready (proxy)"),
        ] {
            let running = json!({ "running": {} });
            let status = json!({ "phase": "Running",
                "initContainerStatuses": [container("proxy", false, state, json!({}))],
                "containerStatuses": [container("c", true, running, json!({}))] });
            assert_eq!(detail(Some("n"), status).state.to_string(), expected);
        }
    }

    #[test]
    fn the_init_container_that_runs_is_named() {
        let creating = json!({ "waiting": { "reason": "PodInitializing" } });
        let done = json!({ "terminated": { "reason": "Completed", "exitCode": 0 } });
        for (ready, state, expected) in [
            (false, json!({ "running": {} }), "PodInitializing: init container init runs"),
            (true, done, "PodInitializing"),
        ] {
            let status = json!({ "phase": "Running",
                "initContainerStatuses": [container("init", ready, state, json!({}))],
                "containerStatuses": [container("c", false, creating.clone(), json!({}))] });
            assert_eq!(detail(Some("n"), status).state.to_string(), expected);
        }
    }

    #[test]
    fn the_start_up_time_is_known_for_pods_that_never_restarted() {
        let ready = |restarts: u32| {
            json!({ "phase": "Running",
                "conditions": [{ "type": "Ready", "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:08Z" }],
                "containerStatuses": [{ "name": "c", "ready": true, "restartCount": restarts,
                    "state": { "running": {} } }] })
        };
        let fresh = detail(Some("n"), ready(0));
        assert_eq!((fresh.state, fresh.start_up), (PodState::Ready, Some(Duration::from_secs(8))));
        let restarted = detail(Some("n"), ready(3));
        assert_eq!((restarted.restarts, restarted.start_up), (3, None));
    }

    #[test]
    fn restarts_of_several_containers_saturate() {
        let container = json!({ "name": "c", "restartCount": i32::MAX, "state": {} });
        let containers = [&container, &container, &container];
        let status = json!({ "phase": "Running", "containerStatuses": containers });
        assert_eq!(detail(Some("n"), status).restarts, u32::MAX);
    }
}
