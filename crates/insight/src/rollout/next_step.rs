//! The operator's next step for each cause, for all commands: a command that can be pasted where
//! one helps.

use everynode_core::api::{
    DaemonSet, DaemonSetKey, NodeName, PolicySource, RETRY_ANNOTATION, RolloutReason,
    UpdateStrategy,
};
use everynode_core::plan::{ADMISSION_CHANGED, ENDED_POD_DELAY_MAX, OTHERS_DELETE};

use super::evidence::{Evidence, Refusal};
use crate::program::command;
use crate::snapshot::{PodDetail, PodState};

/// When each controller has last renewed its lease.
pub(super) const LEASES: &str = "kubectl -n kube-system get lease -o \
                                 custom-columns=NAME:.metadata.name,RENEWED:.spec.renewTime";
const WEBHOOKS: &str = "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations";

/// A next step with the word before it: `try: ` before a command, `next: ` before what happens.
pub fn announced(next: &str) -> String {
    let is_command = ["kubectl ", "everynode "].iter().any(|start| next.starts_with(start));
    format!("{}: {next}", if is_command { "try" } else { "next" })
}

/// The next step if the controller does nothing.
pub(super) fn see_controller() -> String {
    format!("see whether a DaemonSet controller runs: {LEASES}")
}

/// The next step of a rollout whose policy is invalid or gone. It goes on without one only where
/// something replaces its pods, and something is left to do for the current template.
fn of_invalid_policy(daemon_set: &DaemonSet, promote: &str) -> String {
    let status = &daemon_set.status;
    let is_on_delete = daemon_set.strategy() == UpdateStrategy::OnDelete;
    let is_updated = status.updated_number_scheduled >= status.desired_number_scheduled;
    match daemon_set.policy {
        PolicySource::None if is_on_delete => "apply a policy again".to_owned(),
        PolicySource::None => format!("apply a policy again, or go on without one: {promote}"),
        PolicySource::Valid(_) | PolicySource::Invalid(_) if is_on_delete || is_updated => {
            "correct the policy".to_owned()
        }
        PolicySource::Valid(_) | PolicySource::Invalid(_) => {
            format!("correct the policy, or go on without it: {promote}")
        }
    }
}

/// The order or the rolling back by which a person answers what the controller states of a guarded
/// rollout; `None` if there is nothing to do. `wave` is the one that the rollout is at.
pub(crate) fn of_reason(
    reason: RolloutReason,
    wave: Option<&str>,
    daemon_set: &DaemonSet,
) -> Option<String> {
    let DaemonSetKey { namespace, name } = &daemon_set.key;
    let line = |verb: &str| command(format_args!("{verb} ds/{name} -n {namespace}"));
    Some(match reason {
        RolloutReason::AwaitingApproval => match wave {
            Some(wave) => format!("{} --wave {}", line("rollout approve"), quoted(wave)),
            None => line("rollout approve"),
        },
        RolloutReason::RemovesNodes => format!(
            "correct the template, or if these pods are to go: {}",
            line("rollout promote --full")
        ),
        RolloutReason::MutableConfig => format!(
            "name the object by its content, or if it may stay changed: {}",
            line("rollout promote --full")
        ),
        RolloutReason::ConfigNotReady => format!(
            "make the ConfigMaps ready, or go on without: {}",
            line("rollout promote --full")
        ),
        RolloutReason::NotInPlace => format!(
            "set update: InPlaceIfPossible in the policy, or if pods may be replaced: {}",
            line("rollout promote --full")
        ),
        RolloutReason::Failed if daemon_set.policy.valid().is_some() => {
            format!("{}, or once more: {}", line("undo"), line("rollout retry"))
        }
        // A retry goes by a policy.
        RolloutReason::Failed => {
            format!("{}, or with a policy once more: {}", line("undo"), line("rollout retry"))
        }
        RolloutReason::LateNodesFail => {
            format!("repair the nodes, or take the template back: {}", line("undo"))
        }
        RolloutReason::InvalidPolicy => {
            of_invalid_policy(daemon_set, &line("rollout promote --full"))
        }
        RolloutReason::InvalidRecord => line("rollout retry"),
        RolloutReason::WaveNotTried if asks(daemon_set) => format!(
            "bring a node of the wave back, or agree for one ({} --node NODE), or skip it: {}",
            line("rollout agree"),
            line("rollout promote")
        ),
        RolloutReason::WaveNotTried => {
            format!("bring a node of the wave back, or skip it: {}", line("rollout promote"))
        }
        RolloutReason::ProgressDeadlineExceeded => {
            format!("it goes on when it can; to go back: {}", line("rollout abort"))
        }
        RolloutReason::AwaitingChecks => {
            format!("it goes on when they pass; without them: {}", line("rollout promote"))
        }
        RolloutReason::Paused if daemon_set.paused => line("rollout resume"),
        RolloutReason::Paused => "set paused to false in the rollout policy".to_owned(),
        RolloutReason::NotGuarded
        | RolloutReason::Updating
        | RolloutReason::Baking
        | RolloutReason::OutsideWindow
        | RolloutReason::RollingBack
        | RolloutReason::Complete => return None,
    })
}

/// True if somebody must agree before an old pod goes (G54).
fn asks(daemon_set: &DaemonSet) -> bool {
    daemon_set.policy.valid().is_some_and(|policy| policy.agree_within().is_some())
}

/// The name of a wave as one word of a shell.
fn quoted(wave: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:%".contains(c);
    if wave.chars().all(is_plain) { wave.to_owned() } else { format!("'{wave}'") }
}

/// The next step about finalizers that hold a DaemonSet or a pod: nobody but their owner should
/// remove them.
pub(super) fn without_finalizers(kind: &str, namespace: &str, name: &str) -> String {
    format!(
        "whoever set the finalizers has to remove them; without its clean-up: kubectl -n \
         {namespace} patch {kind} {name} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"
    )
}

/// The next step about a pod that fails.
pub(super) fn after_failure(
    evidence: &Evidence<'_>,
    detail: &PodDetail,
    node: Option<&NodeName>,
) -> String {
    let describe_node = || node.map(|node| format!("kubectl describe node {node}"));
    let look = || describe_node().unwrap_or_else(|| describe(detail));
    match &detail.state {
        // Its logs don't tell that the kubelet has ended it, and without a start there are none.
        PodState::Waiting(_) if evidence.kill(detail).is_some() => describe(detail),
        PodState::Waiting(container) if container.has_run() => {
            let (namespace, pod) = (&detail.pod.namespace, &detail.pod.name);
            format!("kubectl -n {namespace} logs {pod} -c {} --previous", container.name)
        }
        PodState::Failed { .. } | PodState::Succeeded => {
            let (namespace, pod) = (&detail.pod.namespace, &detail.pod.name);
            let max = ENDED_POD_DELAY_MAX.as_secs() / 60;
            let when = evidence.next_replacement(detail).map_or_else(
                || format!(", after a back-off of at most {max} min"),
                |at| format!(" {at}, or at once after: kubectl -n {namespace} delete pod {pod}"),
            );
            format!("the controller replaces it{when}; if it fails again: {}", look())
        }
        PodState::Unknown => look(),
        PodState::Waiting(_)
        | PodState::Unscheduled { .. }
        | PodState::NotReady { .. }
        | PodState::Ready
        | PodState::Terminating => describe(detail),
    }
}

/// The next step about a pod that the API server refuses, and when the controller tries again.
pub(super) fn after_refusal(refusal: &Refusal, key: &DaemonSetKey) -> String {
    let step = after_message(&refusal.message, key);
    let DaemonSetKey { namespace, name } = key;
    match refusal.next_attempt {
        None => step,
        Some(at) => format!(
            "{step}; next attempt {at}, or at once after: kubectl -n {namespace} annotate ds \
             {name} --overwrite {RETRY_ANNOTATION}=\"$(date)\""
        ),
    }
}

/// The next step about a pod that the API server refuses, by its words.
fn after_message(message: &str, key: &DaemonSetKey) -> String {
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
    if message.contains("webhook \"") || message.contains(ADMISSION_CHANGED) {
        return WEBHOOKS.to_owned();
    }
    if message.starts_with(OTHERS_DELETE) {
        return format!("kubectl -n {namespace} get events --sort-by=.lastTimestamp");
    }
    if message.contains("because it is being terminated") {
        return format!("kubectl get namespace {namespace} -o yaml");
    }
    format!("the controller tries again; see its events: kubectl -n {namespace} describe ds {name}")
}

pub(super) fn describe(detail: &PodDetail) -> String {
    format!("kubectl -n {} describe pod {}", detail.pod.namespace, detail.pod.name)
}
