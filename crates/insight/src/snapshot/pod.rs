//! Pods: what decisions read, and what people want to know besides.

use std::fmt;
use std::time::Duration;

use everynode_core::api::{NodeName, Pod, PodPhase, Readiness};
use everynode_k8s::convert::Interner;
use everynode_k8s::fit::Usage;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::condition::Condition;

/// A pod of a DaemonSet, or an orphan.
#[derive(Clone, Debug)]
pub struct PodDetail {
    pub pod: Pod,
    pub state: PodState,
    /// Of all its containers.
    pub restarts: u32,
    /// From its creation until it was ready; unknown if a container has restarted since, or it is not.
    pub start_up: Option<Duration>,
    pub usage: Usage,
}

/// What a pod is doing, as one thing: what matters most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodState {
    /// No node yet. The scheduler's words, if it has said any.
    Unscheduled {
        message: String,
    },
    /// A container does not run: it is being made, or can't be.
    Waiting(Container),
    /// All containers run, and not all are ready.
    NotReady {
        containers: Vec<String>,
    },
    Ready,
    /// It is being deleted.
    Terminating,
    Failed {
        reason: String,
        message: String,
    },
    Succeeded,
    /// Its kubelet is not heard of.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container {
    pub name: String,
    /// `CrashLoopBackOff`, `ImagePullBackOff`, `ContainerCreating` …
    pub reason: String,
    pub message: String,
    /// How it ended the last time.
    pub last_exit: Option<Exit>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exit {
    /// `Error`, `OOMKilled` …
    pub reason: String,
    pub exit_code: i32,
}

impl PodState {
    /// Whether it won't get better just by waiting a moment.
    pub fn is_failing(&self) -> bool {
        match self {
            Self::Unscheduled { message } => !message.is_empty(),
            Self::Waiting(container) => !container.is_starting(),
            Self::Failed { .. } | Self::Unknown => true,
            Self::NotReady { .. } | Self::Ready | Self::Terminating | Self::Succeeded => false,
        }
    }
}

impl Container {
    fn is_starting(&self) -> bool {
        matches!(self.reason.as_str(), "ContainerCreating" | "PodInitializing" | "")
    }
}

/// Only what is asked of it is taken apart: a plan reads the pods of all namespaces.
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
    conditions: Option<Vec<Condition>>,
    init_container_statuses: Option<Vec<WireContainer>>,
    container_statuses: Option<Vec<WireContainer>>,
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
}

impl PodDetail {
    /// `json` is what `pod` was read from; a part of it that does not parse counts as not there.
    pub(super) fn new(pod: Pod, json: &[u8]) -> Self {
        let wire: WirePod = serde_json::from_slice(json).unwrap_or_default();
        let status: WireStatus = wire.status();
        let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
        let restarts = containers.flatten().map(|container| container.restart_count).sum();
        let start_up = match pod.readiness {
            Readiness::ReadySince(at) if restarts == 0 => Some(at.since(pod.creation_timestamp)),
            Readiness::ReadySince(_) | Readiness::Ready | Readiness::NotReady => None,
        };
        Self {
            state: state(&pod, status),
            restarts,
            start_up,
            usage: Usage::of_spec(&wire.spec),
            pod,
        }
    }
}

/// On which node a pod takes up how much; none if it is on none, or has ended.
pub(super) fn usage_on_node(json: &[u8], interner: &mut Interner) -> Option<(NodeName, Usage)> {
    let pod: WirePod = serde_json::from_slice(json).ok()?;
    let node = pod.spec["nodeName"].as_str().filter(|name| !name.is_empty())?;
    let status: WirePhase = pod.status();
    let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    (!has_ended).then(|| (NodeName::from(interner.text(node)), Usage::of_spec(&pod.spec)))
}

fn state(pod: &Pod, status: WireStatus) -> PodState {
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
        PodPhase::Pending | PodPhase::Running => of_containers(pod, status),
    }
}

fn of_containers(pod: &Pod, status: WireStatus) -> PodState {
    let initial = status.init_container_statuses.unwrap_or_default();
    let main = status.container_statuses.unwrap_or_default();
    let not_ready: Vec<String> =
        main.iter().filter(|container| !container.ready).map(|c| c.name.clone()).collect();
    let has_containers = !main.is_empty();
    let mut waiting: Vec<Container> =
        initial.into_iter().chain(main).filter_map(WireContainer::waiting).collect();
    // One that fails says more than those that wait for it.
    waiting.sort_by_key(Container::is_starting);
    match waiting.into_iter().next() {
        Some(container) => PodState::Waiting(container),
        None if pod.readiness.is_ready() => PodState::Ready,
        None if has_containers => PodState::NotReady { containers: not_ready },
        None => PodState::Waiting(Container {
            name: String::new(),
            reason: "ContainerCreating".to_owned(),
            message: String::new(),
            last_exit: None,
        }),
    }
}

impl WireContainer {
    /// Why it does not run, if it does not and should.
    fn waiting(self) -> Option<Container> {
        let state = self.state.unwrap_or_default();
        let last_exit = self.last_state.and_then(|last| last.terminated).map(|t| t.exit());
        let (reason, message, last_exit) = match state {
            WireState { waiting: Some(waiting), .. } => {
                let reason = waiting.reason.unwrap_or_default();
                // Of another reason to wait an earlier exit is not the cause.
                let last_exit = last_exit.filter(|_| reason == "CrashLoopBackOff");
                (reason, waiting.message, last_exit)
            }
            WireState { terminated: Some(terminated), .. } if terminated.exit_code != 0 => {
                let exit = terminated.exit();
                (exit.reason.clone(), terminated.message, Some(exit))
            }
            WireState { running: Some(_), .. } | WireState { .. } => return None,
        };
        Some(Container { name: self.name, reason, message: message.unwrap_or_default(), last_exit })
    }
}

impl WireTerminated {
    fn exit(&self) -> Exit {
        let reason = self.reason.clone().unwrap_or_else(|| "Error".to_owned());
        Exit { reason, exit_code: self.exit_code }
    }
}

impl fmt::Display for PodState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unscheduled { message } if message.is_empty() => {
                f.write_str("waits for the scheduler")
            }
            Self::Unscheduled { .. } => f.write_str("can't be scheduled"),
            Self::Waiting(container) => container.fmt(f),
            Self::NotReady { containers } => {
                write!(f, "runs, not ready ({})", containers.join(", "))
            }
            Self::Ready => f.write_str("ready"),
            Self::Terminating => f.write_str("terminating"),
            Self::Failed { reason, .. } if reason.is_empty() => f.write_str("failed"),
            Self::Failed { reason, .. } => write!(f, "failed: {reason}"),
            Self::Succeeded => f.write_str("ended"),
            Self::Unknown => f.write_str("unknown: its kubelet is not heard of"),
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.reason.is_empty() { "waiting" } else { &self.reason })?;
        if !self.is_starting() {
            write!(f, " of container {}", self.name)?;
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

impl fmt::Display for Exit {
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
            "metadata": { "name": "p", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeName": node, "containers": [] },
            "status": status,
        })
        .to_string();
        match convert::pod(json.as_bytes(), &mut Interner::default()) {
            Ok(PodObject::Pod(pod)) => PodDetail::new(*pod, json.as_bytes()),
            other => panic!("{other:?}"),
        }
    }

    fn container(name: &str, ready: bool, state: Value, last: Value) -> Value {
        json!({ "name": name, "ready": ready, "restartCount": 2, "state": state, "lastState": last })
    }

    #[test]
    fn a_pod_is_told_by_what_matters_most() {
        let creating = json!({ "waiting": { "reason": "PodInitializing" } });
        let crash =
            json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 40s" } });
        let killed = json!({ "terminated": { "reason": "OOMKilled", "exitCode": 137 } });
        let running = json!({ "running": {} });
        let done = json!({ "terminated": { "reason": "Completed", "exitCode": 0 } });
        let none = json!({});
        for (node, status, expected) in [
            (None, json!({ "phase": "Pending" }), "waits for the scheduler"),
            (
                None,
                json!({ "phase": "Pending", "conditions": [
                    { "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available" }] }),
                "can't be scheduled",
            ),
            (Some("n"), json!({ "phase": "Pending" }), "ContainerCreating"),
            (
                Some("n"),
                json!({ "phase": "Pending",
                    "initContainerStatuses": [container("init", false, crash.clone(), killed.clone())],
                    "containerStatuses": [container("c", false, creating, none.clone())] }),
                "CrashLoopBackOff of container init (OOMKilled, exit code 137)",
            ),
            (
                Some("n"),
                json!({ "phase": "Running", "containerStatuses": [container("c", false, killed, none.clone())] }),
                "OOMKilled of container c (exit code 137)",
            ),
            (
                Some("n"),
                json!({ "phase": "Running",
                    "initContainerStatuses": [container("init", true, done, none.clone())],
                    "containerStatuses": [container("c", false, running.clone(), none.clone()),
                        container("d", true, running, none)] }),
                "runs, not ready (c)",
            ),
            (Some("n"), json!({ "phase": "Failed", "reason": "Evicted" }), "failed: Evicted"),
            (Some("n"), json!({ "phase": "Mystery" }), "unknown: its kubelet is not heard of"),
        ] {
            assert_eq!(detail(node, status.clone()).state.to_string(), expected, "{status}");
        }
    }

    #[test]
    fn the_time_to_start_up_is_known_of_pods_that_never_restarted() {
        let ready = |restarts: u32| {
            json!({ "phase": "Running",
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:08Z" }],
                "containerStatuses": [{ "name": "c", "ready": true, "restartCount": restarts, "state": { "running": {} } }] })
        };
        let fresh = detail(Some("n"), ready(0));
        assert_eq!((fresh.state, fresh.start_up), (PodState::Ready, Some(Duration::from_secs(8))));
        let restarted = detail(Some("n"), ready(3));
        assert_eq!((restarted.restarts, restarted.start_up), (3, None));
    }
}
