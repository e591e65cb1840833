//! How far the rollout of a DaemonSet is, and what holds it up.
//!
//! How far it is, is what the controller wrote to `status`: everynode's or upstream's. Why it is no further is told
//! from pods, their revisions and nodes, as far as these could be read.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{
    DaemonSet, DaemonSetKey, NodeName, Pod, PodName, RevisionHash, Status, Timestamp,
    UpdateStrategy,
};
use serde::{Serialize, Serializer};

use crate::names;
use crate::snapshot::{NodeHealth, PodDetail, PodState, Snapshot};

/// The names of a group's nodes take up so many characters.
const NODES_WIDTH: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    pub namespace: String,
    pub name: String,
    pub phase: Phase,
    pub desired: u32,
    pub updated: u32,
    pub ready: u32,
    pub available: u32,
    /// Nodes that should have a pod, and have none.
    pub missing: u32,
    #[serde(serialize_with = "as_text")]
    pub update_strategy: UpdateStrategy,
    /// Pods that are not as they should be, the worst first.
    pub held_up: Vec<HeldUp>,
}

/// Where the rollout stands. The order is that in which people want to see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Pods are in trouble that waiting alone won't end.
    Failing,
    /// No controller has looked at the newest spec yet.
    Unobserved,
    Progressing,
    /// `OnDelete`: all that is left is pods for somebody to delete.
    AwaitsDeletion,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldUp {
    #[serde(serialize_with = "as_name")]
    pub node: Option<NodeName>,
    pub pod: String,
    /// Of an older revision: it is to go anyway.
    pub outdated: bool,
    #[serde(serialize_with = "as_text")]
    pub cause: Cause,
}

/// Why a pod holds up the rollout. The worst comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// What its kubelet or the scheduler says is wrong.
    Failing(PodState),
    NodeNotReady,
    /// On its way: being made, or not ready yet.
    Starting(PodState),
    /// Ready, but not yet for `minReadySeconds`.
    Settling {
        min_ready_seconds: u32,
    },
    Terminating,
    /// Of an older revision, under a strategy that will replace it.
    AwaitsTurn,
    /// Of an older revision, for somebody to delete.
    AwaitsDeletion,
}

/// Pods that are held up by the same cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub cause: Cause,
    pub nodes: Vec<NodeName>,
    pub pods: usize,
}

impl Rollout {
    /// `None` if there is no such DaemonSet.
    pub fn of(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Option<Self> {
        let daemon_set = &snapshot.daemon_sets.get(key)?.daemon_set;
        let status = &daemon_set.status;
        let current = current_hashes(snapshot, daemon_set);
        let pods = snapshot.pods_of(key);
        let causes = pods.filter_map(|detail| {
            let outdated = is_outdated(&detail.pod, &current);
            let cause = cause(snapshot, daemon_set, detail, outdated, now)?;
            let node = detail.pod.target_node_name().cloned();
            Some((cause, node, detail.pod.name.clone(), outdated))
        });
        // Sorted by cause, node and pod.
        let causes: BTreeSet<(Cause, Option<NodeName>, PodName, bool)> = causes.collect();
        let held_up: Vec<HeldUp> = causes
            .into_iter()
            .map(|(cause, node, pod, outdated)| HeldUp {
                node,
                pod: pod.to_string(),
                outdated,
                cause,
            })
            .collect();
        let desired = status.desired_number_scheduled;
        Some(Self {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            phase: phase(daemon_set, &held_up),
            desired,
            updated: status.updated_number_scheduled,
            ready: status.number_ready,
            available: status.number_available,
            missing: desired.saturating_sub(status.current_number_scheduled),
            update_strategy: daemon_set.update_strategy,
            held_up,
        })
    }

    /// What holds it up, the worst first. Causes that read the same are one: details that differ from pod to pod are not told.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for held_up in &self.held_up {
            let index = *known.entry(held_up.cause.to_string()).or_insert(groups.len());
            if index == groups.len() {
                groups.push(Group { cause: held_up.cause.clone(), nodes: Vec::new(), pods: 0 });
            }
            groups[index].nodes.extend(held_up.node.clone());
            groups[index].pods += 1;
        }
        groups
    }

    /// Whether a pod that is to stay fails: waiting alone won't end that.
    pub fn has_failing_pods(&self) -> bool {
        let mut staying = self.held_up.iter().filter(|held_up| !held_up.outdated);
        staying.any(|held_up| matches!(held_up.cause, Cause::Failing(_)))
    }

    /// One line: how far it is.
    pub fn headline(&self) -> String {
        let Self { desired, updated, available, .. } = self;
        match self.phase {
            Phase::Unobserved => "no controller has looked at its newest spec yet".to_owned(),
            Phase::Done => {
                format!("rolled out: {available} of {desired} pods updated and available")
            }
            Phase::Failing | Phase::Progressing | Phase::AwaitsDeletion => {
                let missing = match self.missing {
                    0 => String::new(),
                    1 => ", 1 not created".to_owned(),
                    missing => format!(", {missing} not created"),
                };
                format!("{updated} of {desired} pods updated, {available} available{missing}")
            }
        }
    }

    /// What it waits for, in a phrase: the worst cause of all.
    pub fn waits_for(&self) -> String {
        match (self.phase, self.groups().first()) {
            (Phase::Done, _) => String::new(),
            (Phase::Unobserved, _) => "no controller has looked at its newest spec".to_owned(),
            (_, Some(group)) => group.to_string(),
            (Phase::AwaitsDeletion, None) => {
                let old = self.desired.saturating_sub(self.updated);
                format!("{old} pods {}", Cause::AwaitsDeletion)
            }
            (Phase::Failing | Phase::Progressing, None) => self.headline(),
        }
    }
}

impl Cause {
    pub const fn is_failing(&self) -> bool {
        match self {
            Self::Failing(_) | Self::NodeNotReady => true,
            Self::Starting(_)
            | Self::Settling { .. }
            | Self::Terminating
            | Self::AwaitsTurn
            | Self::AwaitsDeletion => false,
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failing(PodState::Unscheduled { message }) => {
                // What follows is about evicting others, which is of no help to anybody here.
                let message = message.split(" preemption: ").next().unwrap_or_default();
                write!(f, "can't be scheduled: {}", message.trim_end_matches('.'))
            }
            Self::Failing(state) | Self::Starting(state) => state.fmt(f),
            Self::NodeNotReady => f.write_str("its node is not ready"),
            Self::Settling { min_ready_seconds } => {
                write!(f, "ready, but not yet for {min_ready_seconds} s (minReadySeconds)")
            }
            Self::Terminating => f.write_str("terminating"),
            Self::AwaitsTurn => f.write_str("of an older revision, awaits its turn"),
            Self::AwaitsDeletion => {
                f.write_str("of an older revision, to be deleted by hand (OnDelete)")
            }
        }
    }
}

impl std::fmt::Display for Group {
    /// `CrashLoopBackOff of container a: node-1..5, node-7 and 4 more`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nodes.is_empty() {
            return write!(f, "{}: {} pods", self.cause, self.pods);
        }
        let names = self.nodes.iter().map(NodeName::as_str);
        write!(f, "{}: {}", self.cause, names::shortened(names, NODES_WIDTH))
    }
}

/// Those of the revisions that store the current template (C41); none if no revision could be read, and then no pod is
/// said to be old.
pub(crate) fn current_hashes(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
) -> BTreeSet<RevisionHash> {
    let revisions = snapshot.revisions_of(&daemon_set.key);
    let current = revisions.iter().filter(|revision| revision.stores(&daemon_set.template));
    current.filter_map(|revision| revision.hash()).collect()
}

fn is_outdated(pod: &Pod, current: &BTreeSet<RevisionHash>) -> bool {
    !current.is_empty() && pod.revision_hash().is_none_or(|hash| !current.contains(&hash))
}

fn cause(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    detail: &PodDetail,
    outdated: bool,
    now: Timestamp,
) -> Option<Cause> {
    let node = detail.pod.target_node_name().and_then(|name| snapshot.nodes.get(name));
    let node_is_down = node.is_some_and(|node| matches!(node.health, NodeHealth::NotReady { .. }));
    let state = &detail.state;
    match state {
        PodState::Terminating if node_is_down => Some(Cause::NodeNotReady),
        PodState::Terminating => Some(Cause::Terminating),
        _ if node_is_down => Some(Cause::NodeNotReady),
        _ if state.is_failing() => Some(Cause::Failing(state.clone())),
        _ if outdated => Some(match daemon_set.update_strategy {
            UpdateStrategy::OnDelete => Cause::AwaitsDeletion,
            UpdateStrategy::RollingUpdate { .. } | UpdateStrategy::Malformed => Cause::AwaitsTurn,
        }),
        PodState::Ready if !is_available(daemon_set, detail, now) => {
            Some(Cause::Settling { min_ready_seconds: daemon_set.min_ready_seconds })
        }
        PodState::Ready => None,
        PodState::Unscheduled { .. }
        | PodState::Waiting(_)
        | PodState::NotReady { .. }
        | PodState::Failed { .. }
        | PodState::Succeeded
        | PodState::Unknown => Some(Cause::Starting(state.clone())),
    }
}

pub(crate) fn is_available(daemon_set: &DaemonSet, detail: &PodDetail, now: Timestamp) -> bool {
    detail.pod.readiness.is_available(Some(now), daemon_set.min_ready_seconds, now)
}

fn phase(daemon_set: &DaemonSet, held_up: &[HeldUp]) -> Phase {
    let status = &daemon_set.status;
    let all_there = status.current_number_scheduled >= status.desired_number_scheduled;
    let only_deletions = || held_up.iter().all(|held_up| held_up.cause == Cause::AwaitsDeletion);
    let is_on_delete = daemon_set.update_strategy == UpdateStrategy::OnDelete;
    match Completion::of(daemon_set.generation, status) {
        Completion::Unobserved => Phase::Unobserved,
        Completion::Complete => Phase::Done,
        Completion::Unavailable | Completion::Outdated
            if held_up.iter().any(|held_up| held_up.cause.is_failing()) =>
        {
            Phase::Failing
        }
        Completion::Outdated if is_on_delete && all_there && only_deletions() => {
            Phase::AwaitsDeletion
        }
        Completion::Unavailable | Completion::Outdated => Phase::Progressing,
    }
}

/// Whether a DaemonSet's status reports a finished rollout, and if not, what is missing first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// No controller has observed the latest spec yet.
    Unobserved,
    /// Fewer pods are available than desired.
    Unavailable,
    /// Enough pods are available, but some of them are of an older revision.
    Outdated,
    /// Every desired pod is available and of the current revision.
    Complete,
}

impl Completion {
    /// Judges the status of a DaemonSet whose `metadata.generation` is `generation`.
    pub fn of(generation: i64, status: &Status) -> Self {
        let desired = status.desired_number_scheduled;
        if status.observed_generation < generation {
            Self::Unobserved
        } else if status.number_available < desired {
            Self::Unavailable
        } else if status.updated_number_scheduled < desired {
            Self::Outdated
        } else {
            Self::Complete
        }
    }
}

/// `OnDelete`, `RollingUpdate, maxUnavailable 1`
pub fn strategy_text(strategy: UpdateStrategy) -> String {
    match strategy {
        UpdateStrategy::OnDelete => "OnDelete".to_owned(),
        UpdateStrategy::Malformed => "malformed".to_owned(),
        UpdateStrategy::RollingUpdate { max_surge, .. } if strategy.surges() => {
            format!("RollingUpdate, maxSurge {max_surge}")
        }
        UpdateStrategy::RollingUpdate { max_unavailable, .. } => {
            format!("RollingUpdate, maxUnavailable {max_unavailable}")
        }
    }
}

trait Text {
    fn text(&self) -> String;
}

impl Text for Cause {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Text for UpdateStrategy {
    fn text(&self) -> String {
        strategy_text(*self)
    }
}

fn as_text<S: Serializer>(value: &impl Text, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.text())
}

fn as_name<S: Serializer>(name: &Option<NodeName>, serializer: S) -> Result<S::Ok, S::Error> {
    match name {
        Some(name) => serializer.serialize_str(name.as_str()),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Kind;
    use everynode_k8s::revision_data::data_of_template;
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    /// 2026-01-01T01:00:00Z
    const NOW: Timestamp = Timestamp::from_seconds(1_767_229_200);

    /// A DaemonSet with this spec beside its template, and this status beside its generation.
    fn daemon_set(spec: Value, status: [u32; 4]) -> Value {
        let [desired, updated, ready, available] = status;
        let mut spec = spec;
        spec["selector"] = json!({ "matchLabels": { "app": "a" } });
        spec["template"] = template();
        json!({
            "metadata": { "name": "a", "namespace": "n", "uid": "u", "generation": 2, "resourceVersion": "1" },
            "spec": spec,
            "status": { "observedGeneration": 2, "desiredNumberScheduled": desired, "currentNumberScheduled": desired,
                "updatedNumberScheduled": updated, "numberReady": ready, "numberAvailable": available,
                "numberMisscheduled": 0 },
        })
    }

    fn template() -> Value {
        json!({ "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "c" }] } })
    }

    fn pod(number: u32, hash: &str, status: Value) -> Value {
        json!({
            "metadata": { "name": format!("a-{number}"), "namespace": "n", "uid": format!("p{number}"),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "app": "a", "controller-revision-hash": hash },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "uid": "u", "controller": true }] },
            "spec": { "nodeName": format!("node-{number}"), "containers": [] },
            "status": status,
        })
    }

    fn ready(since: &str) -> Value {
        json!({ "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": since }],
            "containerStatuses": [{ "name": "c", "ready": true, "restartCount": 0, "state": { "running": {} } }] })
    }

    fn waiting(reason: &str) -> Value {
        json!({ "phase": "Running", "containerStatuses": [{ "name": "c", "ready": false, "restartCount": 3,
            "state": { "waiting": { "reason": reason } } }] })
    }

    const LONG_AGO: &str = "2026-01-01T00:10:00Z";

    fn rollout(daemon_set: Value, pods: &[Value]) -> Rollout {
        let mut snapshot = Snapshot::default();
        let mut add = |kind, object: &Value| snapshot.add(kind, object.to_string().as_bytes());
        add(Kind::DaemonSet, &daemon_set);
        let data: Value = serde_json::from_str(&data_of_template(&template())).unwrap();
        add(
            Kind::ControllerRevision,
            &json!({ "metadata": { "name": "a-new", "namespace": "n", "uid": "r",
                "labels": { "app": "a", "controller-revision-hash": "new" },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "uid": "u", "controller": true }] },
                "revision": 2, "data": data }),
        );
        for pod in pods {
            add(Kind::Pod, pod);
        }
        assert_eq!(snapshot.problems, Vec::<String>::new());
        Rollout::of(&snapshot, &DaemonSetKey::new("n", "a"), NOW).unwrap()
    }

    fn check(rollout: &Rollout, expected: Expect) {
        let groups: Vec<String> =
            rollout.groups().iter().map(|group| format!("  {group}\n")).collect();
        expected.assert_eq(&format!(
            "{:?}: {}\n{}",
            rollout.phase,
            rollout.headline(),
            groups.concat()
        ));
    }

    #[test]
    fn a_rollout_is_done_when_all_pods_are_updated_and_available() {
        let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "new", ready(LONG_AGO))];
        check(
            &rollout(daemon_set(json!({}), [2, 2, 2, 2]), &pods),
            expect![[r#"
            Done: rolled out: 2 of 2 pods updated and available
        "#]],
        );
    }

    #[test]
    fn what_holds_it_up_is_told_worst_first_with_its_nodes() {
        let mut pods: Vec<Value> =
            (1..=5).map(|number| pod(number, "new", waiting("CrashLoopBackOff"))).collect();
        pods.push(pod(6, "new", waiting("ContainerCreating")));
        pods.push(pod(7, "old", ready(LONG_AGO)));
        pods.push(pod(8, "new", ready(LONG_AGO)));
        check(
            &rollout(daemon_set(json!({}), [8, 7, 2, 2]), &pods),
            expect![[r#"
                Failing: 7 of 8 pods updated, 2 available
                  CrashLoopBackOff of container c: node-1..5
                  ContainerCreating: node-6
                  of an older revision, awaits its turn: node-7
            "#]],
        );
    }

    #[test]
    fn pods_that_are_to_be_deleted_by_hand_are_no_failure() {
        let spec = json!({ "updateStrategy": { "type": "OnDelete" } });
        let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
        check(
            &rollout(daemon_set(spec, [2, 1, 2, 2]), &pods),
            expect![[r#"
            AwaitsDeletion: 1 of 2 pods updated, 2 available
              of an older revision, to be deleted by hand (OnDelete): node-2
        "#]],
        );
    }

    #[test]
    fn a_pod_that_is_ready_for_too_short_a_time_is_waited_for() {
        let spec = json!({ "minReadySeconds": 60 });
        let pods = [pod(1, "new", ready("2026-01-01T00:59:30Z")), pod(2, "new", ready(LONG_AGO))];
        check(
            &rollout(daemon_set(spec, [2, 2, 2, 1]), &pods),
            expect![[r#"
            Progressing: 2 of 2 pods updated, 1 available
              ready, but not yet for 60 s (minReadySeconds): node-1
        "#]],
        );
    }

    #[test]
    fn a_status_of_an_older_spec_says_nothing() {
        let mut daemon_set = daemon_set(json!({}), [2, 2, 2, 2]);
        daemon_set["metadata"]["generation"] = json!(3);
        check(
            &rollout(daemon_set, &[]),
            expect![[r#"
            Unobserved: no controller has looked at its newest spec yet
        "#]],
        );
    }
}
