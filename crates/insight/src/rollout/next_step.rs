//! What an operator does about a cause, for all commands: a command that can be pasted where one
//! helps.

use std::fmt::Write;

use everynode_core::api::{DaemonSetKey, NodeName};

use super::PROGRESS_DEADLINE;
use super::cause::Cause;
use super::evidence::Evidence;
use crate::snapshot::{PodDetail, PodState};

/// When each controller has last renewed its lease.
const LEASES: &str = "kubectl -n kube-system get lease -o \
                      custom-columns=NAME:.metadata.name,RENEWED:.spec.renewTime";
const WEBHOOKS: &str = "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations";

/// A next step with the word before it: `try: ` before a command, `next: ` before what happens.
pub fn announced(next: &str) -> String {
    let is_command = ["kubectl ", "everynode "].iter().any(|start| next.starts_with(start));
    format!("{}: {next}", if is_command { "try" } else { "next" })
}

/// What an operator does if the controller does nothing.
pub(super) fn see_controller() -> String {
    format!("see whether a DaemonSet controller runs: {LEASES}")
}

/// What an operator does about finalizers that hold a DaemonSet or a pod: nobody but their owner
/// should remove them.
pub(super) fn without_finalizers(kind: &str, namespace: &str, name: &str) -> String {
    format!(
        "whoever set the finalizers has to remove them; without its clean-up: kubectl -n \
         {namespace} patch {kind} {name} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"
    )
}

impl Evidence<'_> {
    /// What happens next to a held-up node, or what the operator should do. `detail` is its pod.
    pub(crate) fn next_step(
        &self,
        cause: &Cause,
        node: Option<&NodeName>,
        detail: Option<&PodDetail>,
    ) -> Option<String> {
        match detail {
            None => self.next_step_without_pod(cause),
            Some(detail) => self.next_step_of_pod(cause, node, detail),
        }
    }

    fn next_step_without_pod(&self, cause: &Cause) -> Option<String> {
        match cause {
            _ if self.daemon_set().terminating => {
                Some("none is created: the DaemonSet is being deleted".to_owned())
            }
            Cause::CreationFails { message, .. } => {
                Some(after_refusal(message, &self.daemon_set().key))
            }
            Cause::NotCreated { stuck: true } => Some(see_controller()),
            Cause::NotCreated { stuck: false } => {
                Some("the controller creates it when its turn comes".to_owned())
            }
            Cause::Failing(_)
            | Cause::Unschedulable { .. }
            | Cause::AwaitsScheduler { .. }
            | Cause::Starting { .. }
            | Cause::Terminating { .. }
            | Cause::NodeNotReady { .. }
            | Cause::NotYetAvailable { .. }
            | Cause::AwaitsReplacement { .. }
            | Cause::Paused
            | Cause::WaveNotOpen
            | Cause::Held
            | Cause::OutsideWindow { .. }
            | Cause::AwaitsDeletion => None,
        }
    }

    fn next_step_of_pod(
        &self,
        cause: &Cause,
        node: Option<&NodeName>,
        detail: &PodDetail,
    ) -> Option<String> {
        let key = &self.daemon_set().key;
        match cause {
            Cause::Failing(state) => Some(of_failing(state, node, detail)),
            Cause::Unschedulable { .. } => {
                let next = self.shortage(detail).and_then(|shortage| shortage.next);
                Some(next.unwrap_or_else(|| describe(detail)))
            }
            Cause::AwaitsScheduler { scheduler: Some(name), stuck: true } => Some(format!(
                "start the scheduler {name}, or correct schedulerName: kubectl -n {} edit ds {}",
                key.namespace, key.name
            )),
            Cause::AwaitsScheduler { scheduler: None, stuck: true } => {
                Some(format!("see whether kube-scheduler runs: {LEASES}"))
            }
            Cause::Starting { stuck, warning, .. } => {
                (*stuck || warning.is_some()).then(|| describe(detail))
            }
            // As long as containers run, the pod does not wait for its finalizers.
            Cause::Terminating { finalizers, .. } if !finalizers.is_empty() && detail.has_ended => {
                Some(without_finalizers("pod", key.namespace.as_str(), detail.pod.name.as_str()))
            }
            Cause::Terminating { stuck: true, .. } => Some(describe(detail)),
            Cause::Terminating { stuck: false, .. } if self.daemon_set().terminating => None,
            Cause::Terminating { stuck: false, .. } => {
                Some("a new one is created when it is gone".to_owned())
            }
            Cause::NodeNotReady { terminating: false, .. } => {
                Some(format!("kubectl describe node {}", node?))
            }
            Cause::NodeNotReady { terminating: true, .. } => Some(format!(
                "repair the node; if it is gone for good: kubectl delete node {}",
                node?
            )),
            Cause::NotYetAvailable { min_ready_seconds } => {
                let now = self.now();
                let at = detail.pod.readiness.available_at(Some(now), *min_ready_seconds)?;
                let is_far = at.since(now) > PROGRESS_DEADLINE;
                is_far.then(|| shorter_min_ready_seconds(key))
            }
            Cause::AwaitsReplacement { stuck: true } => Some(see_controller()),
            Cause::AwaitsDeletion => {
                Some(format!("kubectl -n {} delete pod {}", key.namespace, detail.pod.name))
            }
            Cause::Paused => {
                Some(format!("everynode rollout resume ds/{} -n {}", key.name, key.namespace))
            }
            Cause::Held => Some(format!(
                "it keeps its pod until it is no longer held: kubectl get node {} --show-labels",
                node?
            )),
            Cause::WaveNotOpen | Cause::OutsideWindow { .. } => {
                Some(format!("everynode rollout get ds/{} -n {}", key.name, key.namespace))
            }
            Cause::AwaitsScheduler { stuck: false, .. }
            | Cause::AwaitsReplacement { stuck: false }
            | Cause::CreationFails { .. }
            | Cause::NotCreated { .. } => None,
        }
    }
}

fn of_failing(state: &PodState, node: Option<&NodeName>, detail: &PodDetail) -> String {
    let describe_node = || node.map(|node| format!("kubectl describe node {node}"));
    let look = || describe_node().unwrap_or_else(|| describe(detail));
    match state {
        PodState::Waiting(container) => {
            logs(detail, &container.name, container.last_exit.is_some())
        }
        PodState::Failed { .. } => format!(
            "the controller replaces it, after a back-off of at most 15 min; if it fails again: {}",
            look()
        ),
        PodState::Unknown => look(),
        PodState::Unscheduled { .. }
        | PodState::NotReady { .. }
        | PodState::Ready
        | PodState::Terminating
        | PodState::Succeeded => describe(detail),
    }
}

fn shorter_min_ready_seconds(key: &DaemonSetKey) -> String {
    format!(
        "it waits; to wait for less: kubectl -n {} patch ds {} --type=merge -p \
         '{{\"spec\":{{\"minReadySeconds\":30}}}}'",
        key.namespace, key.name
    )
}

/// What an operator does about a pod that the API server refuses, by its words.
fn after_refusal(message: &str, key: &DaemonSetKey) -> String {
    let DaemonSetKey { namespace, name } = key;
    let quoted = |before: &str| {
        let (name, _) = message.split_once(before)?.1.split_once('"')?;
        Some(name)
    };
    let is_name = |name: &&str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
    };
    if let Some(account) = quoted("serviceaccount \"").filter(is_name) {
        return format!("kubectl -n {namespace} create serviceaccount {account}");
    }
    if message.contains("no PriorityClass with name") {
        return "kubectl get priorityclasses".to_owned();
    }
    if let Some((_, rest)) = message.split_once("exceeded quota: ") {
        let quota = rest.split(',').next().unwrap_or_default();
        if is_name(&quota) {
            return format!("kubectl -n {namespace} describe quota {quota}");
        }
    }
    if message.contains("violates PodSecurity") {
        return format!("kubectl get namespace {namespace} --show-labels");
    }
    if message.contains("webhook \"") || message.contains("admission changed pod") {
        return WEBHOOKS.to_owned();
    }
    if message.starts_with("other clients delete the pods") {
        return format!("kubectl -n {namespace} get events --sort-by=.lastTimestamp");
    }
    if message.contains("because it is being terminated") {
        return format!("kubectl get namespace {namespace} -o yaml");
    }
    let mut next = String::from("the controller tries again; ");
    let _ = write!(next, "see its events: kubectl -n {namespace} describe ds {name}");
    next
}

/// The logs of a container that has run, else what the kubelet says about its pod.
fn logs(detail: &PodDetail, container: &str, has_run: bool) -> String {
    let (namespace, pod) = (&detail.pod.namespace, &detail.pod.name);
    if has_run {
        format!("kubectl -n {namespace} logs {pod} -c {container} --previous")
    } else {
        describe(detail)
    }
}

fn describe(detail: &PodDetail) -> String {
    format!("kubectl -n {} describe pod {}", detail.pod.namespace, detail.pod.name)
}
