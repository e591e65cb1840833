//! Tables of Pods.

use everynode_core::api::Timestamp;

use crate::condition;
use crate::json::{Value, json};
use crate::kind::columns::{AGE, Cell, Column, NAME, duration, of, text_or};
use crate::value::{array, boolean, integer, is_set, string};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    of("Ready", |pod| {
        let summary = Summary::of(pod);
        format!("{}/{}", summary.ready, summary.total).into()
    })
    .about("The number of ready containers out of all"),
    of("Status", |pod| Summary::of(pod).reason.into())
        .about("The state of the pod and of its containers in one word"),
    Column::new("Restarts", Cell::At(|pod, now| Summary::of(pod).restarts.text(now).into()))
        .about("The number of container restarts, and the time since the last"),
    AGE,
    text_or("IP", "/status/podIPs/0/ip", "<none>").about("The first address of the pod").wide(),
    text_or("Node", "/spec/nodeName", "<none>").about("The node that the pod is bound to").wide(),
    text_or("Nominated Node", "/status/nominatedNodeName", "<none>")
        .about("The node on which pods are preempted for the pod")
        .wide(),
    of("Readiness Gates", readiness_gates)
        .about("The number of true readiness gates out of all")
        .wide(),
];

/// The row of a finished pod is marked `Completed`.
pub(super) fn row_conditions(pod: &Value) -> Vec<Value> {
    let (reason, message) = match string(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

/// A summary of a pod's containers.
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: Restarts,
}

/// The restarts of several containers, and the end of the latest run.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last_milliseconds: Option<i64>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += integer(status, "/restartCount");
        let finished = duration::milliseconds(string(status, "/lastState/terminated/finishedAt"));
        self.last_milliseconds = self.last_milliseconds.max(finished);
    }

    fn text(&self, now: Timestamp) -> String {
        match self.last_milliseconds {
            Some(last) if self.count != 0 => {
                let ago = duration::human_duration(now.as_millis().saturating_sub(last));
                format!("{} ({ago} ago)", self.count)
            }
            _ => self.count.to_string(),
        }
    }
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let sidecars = array(pod, "/spec/initContainers")
            .iter()
            .filter(|container| is_sidecar(container))
            .count();
        let mut summary = Self {
            reason: phase_reason(pod),
            ready: 0,
            total: array(pod, "/spec/containers").len() + sidecars,
            restarts: Restarts::default(),
        };
        let (initializing, sidecar_restarts) = summary.add_init_containers(pod);
        if !initializing || condition::is_true(&pod["status"], "Initialized") {
            summary.restarts = sidecar_restarts;
            summary.add_containers(pod);
        }
        if is_set(pod, "/metadata/deletionTimestamp") {
            match (string(pod, "/status/reason"), string(pod, "/status/phase")) {
                ("NodeLost", _) => summary.reason = "Unknown".to_owned(),
                (_, "Succeeded" | "Failed") => {}
                _ => summary.reason = "Terminating".to_owned(),
            }
        }
        summary
    }

    /// Processes the init containers up to the first one that is not done. Returns whether there is
    /// such a container, and the restarts of sidecars (init containers that keep running).
    fn add_init_containers(&mut self, pod: &Value) -> (bool, Restarts) {
        let specs = array(pod, "/spec/initContainers");
        let mut sidecar_restarts = Restarts::default();
        for (index, status) in array(pod, "/status/initContainerStatuses").iter().enumerate() {
            let spec = specs.iter().find(|spec| string(spec, "/name") == string(status, "/name"));
            let sidecar = spec.is_some_and(is_sidecar);
            self.restarts.add(status);
            if sidecar {
                sidecar_restarts.add(status);
            }
            if is_set(status, "/state/terminated")
                && integer(status, "/state/terminated/exitCode") == 0
            {
                continue;
            }
            if sidecar && boolean(status, "/started") {
                self.ready += usize::from(boolean(status, "/ready"));
                continue;
            }
            self.reason = init_reason(status, index, specs.len());
            return (true, sidecar_restarts);
        }
        (false, sidecar_restarts)
    }

    /// The first container that is waiting or terminated determines the reason, so they are
    /// processed in reverse.
    fn add_containers(&mut self, pod: &Value) {
        let mut has_running = false;
        for status in array(pod, "/status/containerStatuses").iter().rev() {
            self.restarts.add(status);
            if !string(status, "/state/waiting/reason").is_empty() {
                self.reason = string(status, "/state/waiting/reason").to_owned();
            } else if is_set(status, "/state/terminated") {
                self.reason = terminated_reason(status);
            } else if boolean(status, "/ready") && is_set(status, "/state/running") {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && has_running {
            let ready = condition::is_true(&pod["status"], "Ready");
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
}

fn phase_reason(pod: &Value) -> String {
    let scheduled = condition::find(&pod["status"], "PodScheduled");
    let gated = scheduled.is_some_and(|condition| condition["reason"] == "SchedulingGated");
    match string(pod, "/status/reason") {
        _ if gated => "SchedulingGated",
        "" => string(pod, "/status/phase"),
        reason => reason,
    }
    .to_owned()
}

fn init_reason(status: &Value, index: usize, total: usize) -> String {
    if is_set(status, "/state/terminated") {
        return format!("Init:{}", terminated_reason(status));
    }
    match string(status, "/state/waiting/reason") {
        "" | "PodInitializing" => format!("Init:{index}/{total}"),
        reason => format!("Init:{reason}"),
    }
}

fn terminated_reason(status: &Value) -> String {
    match (string(status, "/state/terminated/reason"), integer(status, "/state/terminated/signal"))
    {
        ("", 0) => format!("ExitCode:{}", integer(status, "/state/terminated/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_sidecar(container: &Value) -> bool {
    string(container, "/restartPolicy") == "Always"
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = array(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let is_open =
        |gate: &&Value| condition::is_true(&pod["status"], string(gate, "/conditionType"));
    format!("{}/{}", gates.iter().filter(is_open).count(), gates.len()).into()
}
