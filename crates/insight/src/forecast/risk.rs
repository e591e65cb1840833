//! The risks of applying a DaemonSet, besides those that the simulation shows.

mod configuration;
mod without_effect;

use std::sync::Arc;

use everynode_core::api::{
    Budget, ConfigObject, ConfigRule, DaemonSet, PolicySource, RolloutPolicy, RolloutReason,
    TaintEffect, Template, Timestamp, Toleration, UpdateStrategy, Wait, WindowState,
    default_tolerations,
};
use everynode_k8s::fit::Usage;
use everynode_k8s::record::time_text;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::simulation::Simulation;
use super::{NodeChanges, Proposal, UnfinishedNodes, Wave};
use crate::controller_view::ControllerView;
use crate::eviction;
use crate::no_node;
use crate::rollout;
use crate::snapshot::{NodeHealth, PodState, Snapshot};

/// Something that can go wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Risk {
    /// The kind of risk.
    pub kind: RiskKind,
    /// The risk in one sentence.
    pub message: String,
    /// The names of the nodes concerned; absent if the risk concerns all nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// The kinds of risks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RiskKind {
    /// A part of the object can't be parsed.
    Malformed,
    /// The API server refuses its pods: a quota, Pod Security, a missing service account or
    /// priority class, a webhook.
    PodRefused,
    /// Another DaemonSet selects its pods as well.
    SharedSelector,
    /// No node gets a pod.
    NoNode,
    /// With `maxSurge`, two pods with the same host port have to run on one node.
    HostPortWithSurge,
    /// With `maxSurge`, two pods share the network of one node.
    HostNetworkWithSurge,
    /// All pods are replaced at the same time.
    AllAtOnce,
    /// Pods that are not ready are replaced at the same time, whatever the budget.
    NotReadyAtOnce,
    /// Nodes keep an old pod, because they would get no new one.
    KeepsOldPods,
    /// Some nodes concerned are not ready.
    NodeNotReady,
    /// Pods fail before the change already.
    AlreadyFailing,
    /// The rollout policy is invalid: no pod is replaced.
    InvalidPolicy,
    /// Beside the built-in controller, the rollout policy counts only with `OnDelete`.
    NotGuarded,
    /// The guarded rollout fails, or stops without a policy.
    RolloutFails,
    /// The rollout is paused: no pod is replaced.
    Paused,
    /// The rollout policy has windows: outside of them no pod is replaced.
    Windows,
    /// The rollout policy requires approvals.
    Approvals,
    /// The rollout policy has checks.
    Checks,
    /// Somebody must agree before each old pod goes.
    Agreement,
    /// Nodes pull the images of the new template before their old pods go.
    ImagePulls,
    /// Pods are changed in place, and their kubelets stop a container before they pull its image.
    ColdChanges,
    /// Nodes lose their pod, because the new template may not run there.
    LosesPods,
    /// Beside the built-in controller, a pod that is missing before the wave of its node gets the
    /// new template.
    NewTemplateEarly,
    /// With `OnDelete`, pods are not replaced automatically.
    OnDelete,
    /// Neither `readinessProbe` nor `minReadySeconds` is set.
    NoReadinessProbe,
    /// `priorityClassName` is not set.
    NoPriorityClass,
    /// `tolerationSeconds` for nodes that are down has no effect.
    TolerationSeconds,
    /// A toleration matches no taint of any node.
    TolerationMatchesNothing,
    /// The template has the same meaning as before, so no pod is replaced.
    SameTemplate,
    /// A step of the rollout policy has no node.
    StepWithoutNodes,
    /// The rollout policy groups nodes by a label that none of them has.
    UnknownLabel,
    /// An annotation of everynode's domain that nothing reads.
    UnknownAnnotation,
    /// A limit of the rollout policy is larger than what the DaemonSet allows.
    LimitWithoutEffect,
    /// The template names ConfigMaps or Secrets, which are no part of its revision.
    ConfigurationOutside,
    /// The content of ConfigMaps or Secrets changes by a checksum, and going back does not restore
    /// it.
    ConfigurationChanges,
}

/// All risks of applying the proposal.
pub(super) fn risks(
    snapshot: &Snapshot,
    proposal: &Proposal,
    nodes: &NodeChanges,
    waves: &[Wave],
    simulation: &Simulation,
    now: Timestamp,
) -> Vec<Risk> {
    let daemon_set = &proposal.object.daemon_set;
    let template = proposal.object.raw.template();
    let spec = &template["spec"];
    let waits = &simulation.waits();
    let mut risks = malformed(daemon_set);
    if simulation.desired() == 0 {
        let view = ControllerView::new(snapshot, daemon_set.clone(), now);
        risks.extend(no_node::sentence(&view).map(|why| everywhere(RiskKind::NoNode, why)));
    }
    risks.extend(without_effect::unknown_annotations(&proposal.object));
    risks.extend(without_effect::of_policy(snapshot, daemon_set, simulation));
    risks.extend(shared_selector(snapshot, proposal));
    risks.extend(conflict_with_surge(daemon_set, simulation.usage(), spec));
    let at_once = all_at_once(waves, nodes);
    risks.extend(at_once.or_else(|| not_ready_at_once(daemon_set, waves, simulation)));
    risks.extend(keeps_old_pods(simulation));
    risks.extend(node_not_ready(snapshot, nodes));
    risks.extend(already_failing(snapshot, daemon_set));
    risks.extend(rollout_stops(snapshot, daemon_set, simulation));
    if !risks.iter().any(|risk| risk.kind == RiskKind::LosesPods) {
        risks.extend(loses_pods(simulation, nodes));
    }
    risks.extend(strategy_and_template(snapshot, proposal, nodes, waits));
    risks.extend(windows(snapshot, proposal, nodes, now));
    risks.extend(agreement(snapshot, daemon_set, nodes));
    risks.extend(image_pulls(snapshot, daemon_set, nodes));
    risks.extend(cold_changes(daemon_set, nodes));
    risks.extend(new_template_early(snapshot, proposal));
    if !waves.is_empty() && daemon_set.min_ready_seconds == 0 && !has_readiness_probe(spec) {
        risks.push(everywhere(
            RiskKind::NoReadinessProbe,
            "without readinessProbe and minReadySeconds a pod counts as available as soon as it \
             runs: a version that breaks later reaches all nodes",
        ));
    }
    risks.extend(no_priority_class(spec));
    risks.extend(no_eviction(spec));
    risks.extend(unused_tolerations(snapshot, daemon_set));
    let stated = simulation.rollout_status().map(|state| state.reason);
    if stated != Some(RolloutReason::MutableConfig) {
        risks.extend(configuration(snapshot, daemon_set));
    }
    risks
}

fn configuration(snapshot: &Snapshot, daemon_set: &DaemonSet) -> Option<Risk> {
    let live = snapshot.daemon_sets.get(&daemon_set.key);
    let rule = daemon_set.policy.valid().and_then(|policy| policy.snapshots());
    let not_copied = |template: &Template| match rule {
        Some(rule) => without_copied(template, rule),
        None => template.clone(),
    };
    let live = live.map(|live| not_copied(&live.daemon_set.template));
    configuration::outside_of_revision(&not_copied(&daemon_set.template), live.as_ref())
}

/// The template without the ConfigMaps of which its pods get copies.
fn without_copied(template: &Template, rule: &ConfigRule) -> Template {
    let mut config = template.config.as_deref().cloned().unwrap_or_default();
    let is_copied = |object: &ConfigObject| match object {
        ConfigObject::ConfigMap(name) => {
            rule.copied(&template.config).any(|(copied, _)| copied == name)
        }
        ConfigObject::Secret(_) => false,
    };
    config.objects.retain(|object| !is_copied(object));
    template.clone().with_config(Some(Arc::new(config)))
}

/// The risks that do not depend on nodes.
pub(super) fn without_nodes(snapshot: &Snapshot, proposal: &Proposal) -> Vec<Risk> {
    let daemon_set = &proposal.object.daemon_set;
    let template = proposal.object.raw.template();
    let spec = &template["spec"];
    let mut risks = malformed(daemon_set);
    risks.extend(without_effect::unknown_annotations(&proposal.object));
    risks.extend(shared_selector(snapshot, proposal));
    risks.extend(conflict_with_surge(daemon_set, &Usage::of_spec(spec), spec));
    risks.extend(already_failing(snapshot, daemon_set));
    risks.extend(invalid_policy(daemon_set));
    let policy = daemon_set.policy.valid();
    let waits: Vec<Wait> = policy.iter().flat_map(|policy| waits(policy)).cloned().collect();
    let unknown = NodeChanges::default();
    risks.extend(strategy_and_template(snapshot, proposal, &unknown, &waits));
    risks.extend(new_template_early(snapshot, proposal));
    risks.extend(no_priority_class(spec));
    risks.extend(no_eviction(spec));
    risks.extend(configuration(snapshot, daemon_set));
    risks
}

fn malformed(daemon_set: &DaemonSet) -> Vec<Risk> {
    let problems = daemon_set.problems.iter();
    problems.map(|problem| everywhere(RiskKind::Malformed, problem.to_string())).collect()
}

fn shared_selector(snapshot: &Snapshot, proposal: &Proposal) -> Option<Risk> {
    let note = rollout::same_pods(snapshot, &proposal.object)?;
    Some(everywhere(RiskKind::SharedSelector, note))
}

fn no_priority_class(spec: &Value) -> Option<Risk> {
    text(spec, "priorityClassName").is_empty().then(|| {
        everywhere(
            RiskKind::NoPriorityClass,
            "no priorityClassName: on a full node its pods stay pending, and are among the first \
             to be evicted",
        )
    })
}

fn no_eviction(spec: &Value) -> Option<Risk> {
    eviction::asks_for_eviction(spec)
        .then(|| everywhere(RiskKind::TolerationSeconds, eviction::NOT_EVICTED))
}

fn everywhere(kind: RiskKind, message: impl Into<String>) -> Risk {
    Risk { kind, message: message.into(), nodes: Vec::new() }
}

fn conflict_with_surge(daemon_set: &DaemonSet, usage: &Usage, spec: &Value) -> Option<Risk> {
    let ports = &usage.host_ports;
    if !daemon_set.update_strategy.surges() {
        return None;
    }
    if !ports.is_empty() {
        let message = rollout::surge_with_host_ports(ports);
        return Some(everywhere(RiskKind::HostPortWithSurge, message));
    }
    (spec["hostNetwork"] == true).then(|| {
        everywhere(
            RiskKind::HostNetworkWithSurge,
            "hostNetwork with maxSurge: the old and the new pod share the network of the node, and \
             a port on which both listen is free for one of them only; use maxUnavailable",
        )
    })
}

/// Nodes that have a pod before the change and none after it.
fn loses_pods(simulation: &Simulation, nodes: &NodeChanges) -> Vec<Risk> {
    let groups = super::grouped(simulation.why_lost(nodes)).into_iter();
    groups
        .map(|UnfinishedNodes { why, nodes }| Risk {
            kind: RiskKind::LosesPods,
            message: format!("{} nodes lose their pod: {why}", nodes.len()),
            nodes,
        })
        .collect()
}

fn all_at_once(waves: &[Wave], nodes: &NodeChanges) -> Option<Risk> {
    let replaced = nodes.updated().count();
    let at_once = waves.iter().any(|wave| wave.nodes.len() == replaced);
    (replaced > 1 && at_once && nodes.keep.is_empty()).then(|| {
        let message =
            format!("all {replaced} pods are replaced at once: for a while none may be running");
        everywhere(RiskKind::AllAtOnce, message)
    })
}

/// Without a policy, pods that are not ready are replaced whatever the budget says (C52).
fn not_ready_at_once(
    daemon_set: &DaemonSet,
    waves: &[Wave],
    simulation: &Simulation,
) -> Option<Risk> {
    let Budget::Unavailable(max) = daemon_set.budget(simulation.desired())? else { return None };
    let first = waves.first()?.nodes.clone();
    (!daemon_set.is_guarded() && first.len() > max.max(1)).then(|| Risk {
        kind: RiskKind::NotReadyAtOnce,
        message: format!(
            "{} pods are replaced at once, whatever maxUnavailable says: pods that are not ready \
             do not wait",
            first.len()
        ),
        nodes: first,
    })
}

/// Nodes that would lose their pod for good keep it (C57, G33).
fn keeps_old_pods(simulation: &Simulation) -> Vec<Risk> {
    let groups = super::grouped(simulation.keeping_old_pods()).into_iter();
    groups
        .map(|UnfinishedNodes { why, nodes }| Risk {
            kind: RiskKind::KeepsOldPods,
            message: format!(
                "nodes would lose their pod, so they keep the old one until they may get a new \
                 one: {why}"
            ),
            nodes,
        })
        .collect()
}

fn node_not_ready(snapshot: &Snapshot, nodes: &NodeChanges) -> Option<Risk> {
    let concerned = nodes.gain.iter().chain(nodes.updated()).chain(&nodes.lose);
    let is_not_ready = |name: &&String| {
        let detail = snapshot.nodes.get(name.as_str());
        detail.is_some_and(|detail| matches!(detail.health, NodeHealth::NotReady { .. }))
    };
    let mut found: Vec<String> = concerned.filter(is_not_ready).cloned().collect();
    found.sort();
    (!found.is_empty()).then(|| Risk {
        kind: RiskKind::NodeNotReady,
        message:
            "nodes that are not ready: pods there neither start nor stop, and use the rollout's \
                  budget"
                .to_owned(),
        nodes: found,
    })
}

fn already_failing(snapshot: &Snapshot, daemon_set: &DaemonSet) -> Option<Risk> {
    let failing = snapshot.pods_of(&daemon_set.key).filter(|detail| {
        let state = &detail.state;
        state.is_failing() && *state != PodState::Unknown
    });
    let mut nodes: Vec<String> = failing
        .filter_map(|detail| detail.pod.target_node_name())
        .map(ToString::to_string)
        .collect();
    nodes.sort();
    (!nodes.is_empty()).then(|| Risk {
        kind: RiskKind::AlreadyFailing,
        message: "pods that already fail: the forecast assumes that their replacements start"
            .to_owned(),
        nodes,
    })
}

fn rollout_stops(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    simulation: &Simulation,
) -> Option<Risk> {
    if snapshot.is_not_guarded(daemon_set) {
        return Some(everywhere(
            RiskKind::NotGuarded,
            "the built-in controller rolls it out by itself: beside it, a rollout policy or pause \
             has an effect only with updateStrategy OnDelete",
        ));
    }
    if let Some(risk) = invalid_policy(daemon_set) {
        return Some(risk);
    }
    let state = simulation.rollout_status().filter(|state| state.reason.is_stalled())?;
    // There these pods are gone before the rollout begins (G42).
    if state.reason == RolloutReason::RemovesNodes && snapshot.runs_beside {
        return Some(everywhere(
            RiskKind::LosesPods,
            "nodes lose their pod at once: the new template may not run there, and the built-in \
             controller removes such pods, whatever the rollout policy says",
        ));
    }
    Some(everywhere(RiskKind::RolloutFails, state.message.to_string()))
}

/// Beside the built-in controller, that one creates all pods from the DaemonSet's template (G17).
fn new_template_early(snapshot: &Snapshot, proposal: &Proposal) -> Option<Risk> {
    let daemon_set = &proposal.object.daemon_set;
    let live = &snapshot.daemon_sets.get(&daemon_set.key)?.daemon_set;
    let is_changed = live.template.canonical != daemon_set.template.canonical;
    let has_waves = daemon_set.policy.valid().is_some_and(|policy| !policy.steps.is_empty());
    let is_guarded_beside = snapshot.runs_beside && !snapshot.is_not_guarded(daemon_set);
    (is_changed && has_waves && is_guarded_beside).then(|| {
        everywhere(
            RiskKind::NewTemplateEarly,
            "beside the built-in controller, a node that is new or loses its pod gets the new \
             template, also before its wave",
        )
    })
}

fn invalid_policy(daemon_set: &DaemonSet) -> Option<Risk> {
    let PolicySource::Invalid(why) = &daemon_set.policy else { return None };
    let message = format!("no pod is replaced until the rollout policy is valid: {why}");
    Some(everywhere(RiskKind::InvalidPolicy, message))
}

fn strategy_and_template(
    snapshot: &Snapshot,
    proposal: &Proposal,
    nodes: &NodeChanges,
    waits: &[Wait],
) -> Option<Risk> {
    let daemon_set = &proposal.object.daemon_set;
    let has_checks = waits.iter().any(|wait| !wait.checks.is_empty());
    let live = &snapshot.daemon_sets.get(&daemon_set.key)?.daemon_set;
    let is_same = live.template.canonical == daemon_set.template.canonical;
    let is_changed = proposal.changes.as_ref().is_some_and(|changes| !changes.is_empty());
    match (is_same, daemon_set.strategy()) {
        (true, _) if is_changed && !nodes.updates_pods() => Some(everywhere(
            RiskKind::SameTemplate,
            "the pod template has the same meaning as before: no pod is replaced",
        )),
        (_, _) if snapshot.is_not_guarded(daemon_set) => None,
        (false, _) if daemon_set.is_paused() => Some(everywhere(
            RiskKind::Paused,
            "the rollout is paused: pods keep the old template until someone resumes it",
        )),
        (false, _) if waits.iter().any(|wait| wait.approval) => Some(everywhere(
            RiskKind::Approvals,
            match has_checks {
                false => {
                    "the rollout policy requires approvals: the forecast assumes that they are \
                     given at once"
                }
                true => {
                    "the rollout policy requires approvals and has checks: the forecast assumes \
                     that they are given and pass at once"
                }
            },
        )),
        (false, _) if has_checks => Some(everywhere(
            RiskKind::Checks,
            "the rollout policy has checks: the forecast assumes that they pass at once",
        )),
        (false, UpdateStrategy::OnDelete) => Some(everywhere(
            RiskKind::OnDelete,
            "updateStrategy is OnDelete: pods keep the old template until someone deletes them",
        )),
        (true | false, _) => None,
    }
}

/// The risk that the windows of the policy delay a rollout that would begin now.
fn windows(
    snapshot: &Snapshot,
    proposal: &Proposal,
    nodes: &NodeChanges,
    now: Timestamp,
) -> Option<Risk> {
    let daemon_set = &proposal.object.daemon_set;
    let is_held = daemon_set.is_paused() || snapshot.is_not_guarded(daemon_set);
    let policy = daemon_set.policy.valid().filter(|_| !is_held && nodes.updates_pods())?;
    let message = match policy.windows.at(now)? {
        WindowState::Open { until } => format!(
            "the window of the rollout policy that is open closes at {}; outside of windows no pod \
             is replaced",
            time_text(until)
        ),
        WindowState::Closed(opening) => format!(
            "no window of the rollout policy is open: the rollout begins in the next one, at \
             {opening}"
        ),
    };
    Some(everywhere(RiskKind::Windows, message))
}

/// The risk that nobody agrees that old pods go.
fn agreement(snapshot: &Snapshot, daemon_set: &DaemonSet, nodes: &NodeChanges) -> Option<Risk> {
    let is_guarded = nodes.updates_pods() && !snapshot.is_not_guarded(daemon_set);
    let policy = daemon_set.policy.valid().filter(|_| is_guarded)?;
    policy.agree_within()?;
    let message = "the rollout policy asks before each old pod goes: the forecast assumes that \
                   somebody agrees at once";
    Some(everywhere(RiskKind::Agreement, message))
}

/// The risk that nodes take long to pull the images.
fn image_pulls(snapshot: &Snapshot, daemon_set: &DaemonSet, nodes: &NodeChanges) -> Option<Risk> {
    let is_guarded = nodes.updates_pods() && !snapshot.is_not_guarded(daemon_set);
    let rule = daemon_set.policy.valid().filter(|_| is_guarded)?.images()?;
    let message = match rule.required {
        true => format!(
            "each node pulls the images before its old pod goes, at most {} at the same time: the \
             forecast assumes that this takes no time",
            rule.parallel
        ),
        false => format!(
            "nodes pull the images ahead, at most {} at the same time; no old pod waits for that",
            rule.parallel
        ),
    };
    Some(everywhere(RiskKind::ImagePulls, message))
}

/// The risk that containers wait for their images while they are stopped.
fn cold_changes(daemon_set: &DaemonSet, nodes: &NodeChanges) -> Option<Risk> {
    let policy = daemon_set.policy.valid().filter(|_| !nodes.change_in_place.is_empty())?;
    let is_warm = policy.images().is_some_and(|rule| rule.required);
    let message = "pods are changed in place: without prepare.images in the policy, a kubelet \
                   stops a container before it pulls its new image";
    (!is_warm).then(|| everywhere(RiskKind::ColdChanges, message))
}

fn waits(policy: &RolloutPolicy) -> impl Iterator<Item = &Wait> {
    policy.steps.iter().map(|step| &step.wait).chain(&policy.finally)
}

fn has_readiness_probe(spec: &Value) -> bool {
    let containers = spec["containers"].as_array().into_iter().flatten();
    containers.into_iter().any(|container| !container["readinessProbe"].is_null())
}

/// A risk for each toleration of the template that matches no taint of any node. Tolerations of the
/// taints that Kubernetes sets and removes are left out.
fn unused_tolerations(snapshot: &Snapshot, daemon_set: &DaemonSet) -> Vec<Risk> {
    let placement = &daemon_set.template.placement;
    let defaults: Vec<Toleration> = default_tolerations(placement.host_network).collect();
    let matches_some = |toleration: &Toleration| {
        let taints = snapshot.nodes.values().flat_map(|detail| &detail.node.taints);
        taints.into_iter().any(|taint| toleration.tolerates(taint))
    };
    placement
        .tolerations
        .iter()
        .filter(|toleration| !toleration.key.is_empty())
        .filter(|toleration| !toleration.key.starts_with("node.kubernetes.io/"))
        .filter(|toleration| !defaults.contains(toleration) && !matches_some(toleration))
        .map(|toleration| {
            let message =
                format!("toleration {} matches no taint of any node", toleration_text(toleration));
            everywhere(RiskKind::TolerationMatchesNothing, message)
        })
        .collect()
}

fn toleration_text(toleration: &Toleration) -> String {
    use everynode_core::api::TolerationOperator as Operator;
    let (key, value) = (&toleration.key, &toleration.value);
    let effect =
        toleration.effect.map(|effect: TaintEffect| format!(":{effect}")).unwrap_or_default();
    match toleration.operator {
        Operator::Exists => format!("{key}{effect}"),
        Operator::Equal => format!("{key}={value}{effect}"),
        Operator::Lt => format!("{key}<{value}{effect}"),
        Operator::Gt => format!("{key}>{value}{effect}"),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
