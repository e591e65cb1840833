//! Pods and nodes that hold up a rollout.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use everynode_core::api::{Budget, DaemonSet, NodeName};
use everynode_core::daemon_set::SetAside;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::cause::{Cause, CauseKind};
use super::evidence::{Evidence, is_stated_guarded};
use super::set_aside::{Awaited, SET_ASIDE};
use crate::names;
use crate::situation::Situation;
use crate::snapshot::PodDetail;

/// The maximum width of the node names of a group, in characters.
const NAMES_WIDTH_MAX: usize = 40;
/// The maximum length of what an event says.
const MESSAGE_CHARACTERS_MAX: usize = 400;

/// A pod that holds up the rollout, or a node that has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldUpPod {
    /// The pod's node; `null` if no node is set or requested.
    #[serde(serialize_with = "serialize_node_name")]
    #[schemars(with = "Option<String>")]
    pub node: Option<NodeName>,
    /// The pod's name; `null` if it has not been created.
    pub pod: Option<String>,
    /// Whether the node should run a pod.
    pub desired: bool,
    /// Whether the pod is of an older revision, so that the rollout replaces it in any case.
    pub outdated: bool,
    /// Whether the rollout can't end without intervention, because of this pod.
    pub stuck: bool,
    /// Why the end of the rollout does not wait for the node: `held`, `down`, `leaving`, `joined`
    /// or `notAgreed`; absent if it does.
    #[serde(serialize_with = "serialize_set_aside", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub set_aside: Option<SetAside>,
    /// The sign by which the node is `leaving`, such as `DiskPressure` or the key of a taint;
    /// absent unless it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaving_by: Option<String>,
    /// Why the pod holds up the rollout.
    #[serde(flatten)]
    pub cause: Cause,
}

/// The pods that are held up by one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseGroup {
    /// The cause, with the details of the first pod.
    pub cause: Cause,
    /// The nodes of the pods, in the order of their names.
    pub nodes: Vec<NodeName>,
    /// The number of pods, or of nodes that have none.
    pub pods: usize,
    /// The number of these on nodes that should run a pod, or for which others wait.
    pub desired: usize,
    /// The rollout can't end without intervention, because of these pods.
    pub stuck: bool,
    /// The end of the rollout waits for none of the nodes.
    pub set_aside: bool,
}

impl CauseGroup {
    /// The order in which operators should look at causes: first those that need them, then those
    /// of the most nodes that should run a pod. Nodes that wait for their turn come last.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        let is_nowhere_desired = self.desired == 0;
        let severity = self.cause.situation();
        let is_behind = self.cause.kind == CauseKind::WaveNotOpen;
        let is_last = (self.set_aside, self.cause.awaits_turn(), is_behind);
        (!self.stuck, is_nowhere_desired, is_last, Reverse(self.desired), severity)
    }
}

/// The nodes that hold up the rollout for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUpNodes {
    /// The state of the nodes.
    pub situation: Situation,
    /// The reason in one line.
    pub why: String,
    /// The message of a component about the first of the nodes.
    pub detail: Option<String>,
    /// The next step of the controller, or of the operator; absent if there is nothing to say.
    pub next: Option<String>,
    /// The names of the nodes, in order. Empty if the nodes of the pods are unknown.
    pub nodes: Vec<String>,
    /// The number of nodes, or of pods if their nodes are unknown.
    pub count: usize,
}

impl fmt::Display for CauseGroup {
    /// `CrashLoopBackOff of container a on 10 nodes: node-1..5, node-7 and 4 more`, and what a
    /// component says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set_aside = if self.set_aside { SET_ASIDE } else { "" };
        let cause = format!("{}{set_aside}", self.cause.text);
        match (self.nodes.len(), self.pods) {
            (0, 1) => write!(f, "{cause}: 1 pod")?,
            (0, pods) => write!(f, "{cause}: {pods} pods")?,
            (count, _) => {
                let unit = if count == 1 { "node" } else { "nodes" };
                let names = self.nodes.iter().map(NodeName::as_str);
                let names = names::shortened(names, NAMES_WIDTH_MAX);
                write!(f, "{cause} on {count} {unit}: {names}")?;
            }
        }
        match &self.cause.message {
            Some(message) => write!(f, ": {}", shortened(message)),
            None => Ok(()),
        }
    }
}

/// `missing` is the number of nodes without a pod in the DaemonSet's status.
pub(super) fn held_up(evidence: &Evidence<'_>, missing: u32, awaited: Awaited) -> Vec<HeldUpPod> {
    let (snapshot, daemon_set) = (evidence.snapshot(), evidence.daemon_set());
    let is_replaced = evidence.replaces_old_pods();
    let held_up = |node: Option<&NodeName>, detail: Option<&PodDetail>, cause: Cause| {
        let pod = detail.map(|detail| &detail.pod);
        let outdated = pod.is_some_and(|pod| evidence.is_outdated(pod));
        let desired = evidence.is_desired(node);
        let is_late = cause.survives_replacement();
        let sets_aside = desired && awaited == Awaited::OfRollout;
        let set_aside = evidence.set_aside(node, detail, &cause).filter(|_| sets_aside);
        let is_leaving = set_aside == Some(SetAside::Leaving);
        let leaving = node.filter(|_| is_leaving).and_then(|name| snapshot.nodes.get(name));
        let can_end = outdated && is_replaced && !is_late || set_aside.is_some();
        HeldUpPod {
            node: node.cloned(),
            pod: pod.map(|pod| pod.name.to_string()),
            desired,
            outdated,
            stuck: cause.is_stuck() && desired && !can_end,
            set_aside,
            leaving_by: leaving.and_then(|node| evidence.sign_of_leaving(node)),
            cause,
        }
    };
    let replaced = evidence.nodes_with_new_pod();
    let pods = snapshot.pods_of(&daemon_set.key).filter_map(|detail| {
        let cause = evidence.cause_of(detail, evidence.is_outdated(&detail.pod))?;
        let node = detail.pod.target_node_name();
        if cause.awaits_turn() && node.is_some_and(|node| replaced.contains(node)) {
            return None;
        }
        Some(held_up(detail.pod.target_node_name(), Some(detail), cause))
    });
    let mut all: Vec<HeldUpPod> = pods.collect();
    if missing > 0 && !daemon_set.terminating {
        let none =
            |node: Option<&NodeName>| held_up(node, None, evidence.cause_of_missing_pod(node));
        match evidence.nodes_without_pod() {
            Some(nodes) => all.extend(nodes.into_iter().map(|node| none(Some(node)))),
            None => all.extend((0..missing).map(|_| none(None))),
        }
    }
    mark_budget(daemon_set, &mut all);
    mark_all_down(evidence, &mut all);
    sorted(all)
}

/// Without a policy, nodes that are down may use up maxUnavailable, so that all others wait for
/// them. Then these are stuck, although the end of the rollout would not wait for them.
fn mark_budget(daemon_set: &DaemonSet, held_up: &mut [HeldUpPod]) {
    let desired = daemon_set.status.desired_number_scheduled as usize;
    let Some(Budget::Unavailable(budget)) = daemon_set.budget(desired) else { return };
    let is_down = |it: &HeldUpPod| it.set_aside == Some(SetAside::Down) || went_down_in_rollout(it);
    let down: BTreeSet<_> = held_up.iter().filter(|it| is_down(it)).map(|it| &it.node).collect();
    let waits = |it: &HeldUpPod| it.cause.kind == CauseKind::AwaitsReplacement;
    if is_stated_guarded(daemon_set) || down.len() < budget || !held_up.iter().any(waits) {
        return;
    }
    for held_up in held_up.iter_mut().filter(|it| is_down(it)) {
        held_up.stuck = held_up.cause.is_stuck();
    }
}

/// True of a node whose pod was deleted, or is new, and cannot report. The rollout may wait for it
/// although no pod is desired there: a node that is down has a taint.
fn went_down_in_rollout(held_up: &HeldUpPod) -> bool {
    let kind = held_up.cause.kind;
    let is_new = kind == CauseKind::NodeNotReady && !held_up.outdated;
    !held_up.desired && (is_new || kind == CauseKind::CannotStop)
}

/// Marks nodes that are down as stuck if there are no others that could try the template.
fn mark_all_down(evidence: &Evidence<'_>, held_up: &mut [HeldUpPod]) {
    let mut desired = held_up.iter().filter(|it| it.desired);
    if desired.all(|it| it.set_aside == Some(SetAside::Down)) && !evidence.is_available_somewhere()
    {
        for held_up in held_up.iter_mut().filter(|it| it.desired) {
            held_up.stuck = held_up.cause.is_stuck();
        }
    }
}

/// Sorted by the rank of their causes, then by node and pod.
fn sorted(mut held_up: Vec<HeldUpPod>) -> Vec<HeldUpPod> {
    held_up.sort_by(|a, b| (&a.node, &a.pod).cmp(&(&b.node, &b.pod)));
    let groups = groups(&held_up);
    let place: BTreeMap<&str, usize> =
        groups.iter().enumerate().map(|(place, group)| (&*group.cause.text, place)).collect();
    held_up.sort_by_key(|held_up| place.get(&*held_up.cause.text).copied());
    held_up
}

/// The pods by cause, the worst cause first.
pub(super) fn groups(held_up: &[HeldUpPod]) -> Vec<CauseGroup> {
    let mut groups: Vec<CauseGroup> = Vec::new();
    let mut index_of: BTreeMap<&str, usize> = BTreeMap::new();
    let others_wait = held_up.iter().any(|it| it.cause.kind == CauseKind::AwaitsReplacement);
    for held_up in held_up {
        let index = *index_of.entry(&held_up.cause.text).or_insert(groups.len());
        if index == groups.len() {
            groups.push(CauseGroup {
                cause: held_up.cause.clone(),
                nodes: Vec::new(),
                pods: 0,
                desired: 0,
                stuck: false,
                set_aside: true,
            });
        }
        let group = &mut groups[index];
        group.nodes.extend(held_up.node.clone());
        group.pods += 1;
        group.desired +=
            usize::from(held_up.desired || (others_wait && went_down_in_rollout(held_up)));
        group.stuck |= held_up.stuck;
        group.set_aside &= held_up.set_aside.is_some() && !held_up.stuck;
    }
    groups.sort_by_cached_key(CauseGroup::rank);
    groups
}

/// The message without a full stop, cut if it is longer than anybody reads.
fn shortened(message: &str) -> Cow<'_, str> {
    let message = message.trim_end_matches(['.', ' ']);
    match message.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &message[..end])),
        None => Cow::Borrowed(message),
    }
}

fn serialize_node_name<S: Serializer>(
    name: &Option<NodeName>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match name {
        Some(name) => serializer.serialize_str(name.as_str()),
        None => serializer.serialize_none(),
    }
}

fn serialize_set_aside<S: Serializer>(
    why: &Option<SetAside>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    why.map(SetAside::as_str).serialize(serializer)
}
