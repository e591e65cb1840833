//! The progress of a DaemonSet's rollout, and the pods that hold it up.
//!
//! The counts are those that the controller (everynode or upstream's) wrote to `status`. The causes
//! of a delay come from pods, revisions and nodes, as far as these could be read.

mod cause;
mod completion;
mod evidence;
mod guard;
mod held_up;
pub(crate) mod progress;
mod revision;
mod strategy;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use everynode_core::api::{
    DaemonSet, DaemonSetKey, NodeName, Pod, RolloutReason, Timestamp, UpdateStrategy,
};
use serde::Serialize;

use crate::snapshot::{Deletion, Snapshot};

pub use cause::{Cause, Warning};
pub use completion::Completion;
pub(crate) use evidence::Evidence;
pub use guard::{Guard, GuardedWave};
pub use held_up::{CauseGroup, HeldUpNodes, HeldUpPod};
pub(crate) use revision::current_hashes;
pub use strategy::strategy_text;

/// How long a pod may make no progress until it counts as stuck: the default of a Deployment's
/// `progressDeadlineSeconds`.
pub const PROGRESS_DEADLINE: Duration = Duration::from_mins(10);

/// The progress of one DaemonSet's rollout. Its JSON form is what `top` and `status` print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The DaemonSet's namespace.
    pub namespace: String,
    /// The DaemonSet's name.
    pub name: String,
    /// The state of the rollout.
    pub phase: Phase,
    /// The number of nodes that should run a pod.
    pub desired: u32,
    /// The number of nodes whose pod is of the current revision.
    pub updated: u32,
    /// The number of nodes with a ready pod.
    pub ready: u32,
    /// The number of nodes with an available pod.
    pub available: u32,
    /// The number of nodes that should have a pod and have none.
    pub missing: u32,
    /// Whether the rollout is paused, so that no pod is replaced (G6).
    pub pause: Pause,
    /// What the controller states of a rollout that a policy guards (G21).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// The update strategy; its text form in JSON.
    #[serde(serialize_with = "strategy::serialize")]
    pub update_strategy: UpdateStrategy,
    /// The deletion of the DaemonSet, if somebody has deleted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<PendingDeletion>,
    /// The pods that hold up the rollout, the worst cause first.
    pub held_up: Vec<HeldUpPod>,
}

/// The deletion of a DaemonSet that still exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingDeletion {
    /// The finalizers without which the DaemonSet would be gone.
    pub finalizers: Vec<String>,
    /// Whether that has lasted longer than [`PROGRESS_DEADLINE`].
    pub stuck: bool,
}

impl PendingDeletion {
    pub(crate) fn of(deletion: &Deletion, now: Timestamp) -> Self {
        let stuck = deletion.due_at.is_some_and(|at| now.since(at) > PROGRESS_DEADLINE);
        Self { finalizers: deletion.finalizers.clone(), stuck }
    }
}

impl fmt::Display for PendingDeletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duration = if self.stuck { " (for more than 10 min)" } else { "" };
        write!(f, "being deleted{duration}")?;
        if self.finalizers.is_empty() {
            return Ok(());
        }
        write!(f, "; finalizers: {}", self.finalizers.join(", "))
    }
}

/// The state of a rollout, in the order in which operators should look at DaemonSets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Pods or nodes fail and do not recover without intervention, or have made no progress for
    /// [`PROGRESS_DEADLINE`].
    Failing,
    /// The DaemonSet is being deleted.
    Deleting,
    /// No controller has observed the latest spec yet.
    Unobserved,
    /// The rollout is under way.
    Progressing,
    /// The rollout is paused, and pods of older revisions are left (G6).
    Paused,
    /// The rollout goes on when a person approves a wave, mends the policy, or ends a failure.
    AwaitsPerson,
    /// With `OnDelete`: only pods that somebody has to delete are left.
    AwaitsDeletion,
    /// Every pod is available and of the current revision.
    Done,
}

/// Whether a rollout is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Pause {
    /// It is not.
    No,
    /// The annotation says so, but no controller has stated in the status that it acts on it. The
    /// built-in controller ignores the annotation.
    Requested,
    /// It is, and the controller has stated so.
    Yes,
}

impl Pause {
    /// Whether the rollout of this DaemonSet is paused.
    pub fn of(daemon_set: &DaemonSet) -> Self {
        let stated = daemon_set.status.rollout.as_ref().map(|rollout| rollout.reason);
        match (daemon_set.is_paused(), stated == Some(RolloutReason::Paused)) {
            (false, _) => Self::No,
            (true, false) => Self::Requested,
            (true, true) => Self::Yes,
        }
    }
}

impl Rollout {
    /// The rollout of a DaemonSet of the snapshot at `now`; `None` if the snapshot lacks it.
    pub fn of(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Option<Self> {
        let daemon_set = &snapshot.daemon_sets.get(key)?.daemon_set;
        let status = &daemon_set.status;
        let desired = status.desired_number_scheduled;
        let missing = desired.saturating_sub(status.current_number_scheduled);
        let held_up = held_up(snapshot, daemon_set, missing, now);
        let guard = Guard::of(snapshot, daemon_set, now);
        let deletion = snapshot.deletions.get(key).map(|it| PendingDeletion::of(it, now));
        Some(Self {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            phase: match &deletion {
                Some(_) => Phase::Deleting,
                None => phase(daemon_set, guard.as_ref(), &held_up),
            },
            desired,
            updated: status.updated_number_scheduled,
            ready: status.number_ready,
            available: status.number_available,
            missing,
            pause: Pause::of(daemon_set),
            guard,
            update_strategy: daemon_set.update_strategy,
            deletion,
            held_up,
        })
    }

    /// The held-up pods by cause, the worst first. Causes with the same text form one group, even
    /// if details that the text omits differ.
    pub fn groups(&self) -> Vec<CauseGroup> {
        groups(&self.held_up)
    }

    /// Whether the rollout does not end without intervention, whatever waiting brings.
    pub const fn is_stuck(&self) -> bool {
        matches!(self.phase, Phase::Failing | Phase::Deleting)
    }

    /// Whether events may tell more about a cause. It is worth reading them only then.
    pub fn events_may_tell_more(&self) -> bool {
        self.held_up.iter().any(|held_up| !held_up.cause.is_turn())
    }

    /// Whether a pod of the current revision is stuck, or can't be created.
    pub fn has_stuck_new_pods(&self) -> bool {
        self.held_up.iter().any(|held_up| held_up.stuck && !held_up.outdated)
    }

    /// Whether the rollout does not go on before a person approves a wave, corrects the policy, or
    /// ends a failure, whatever pods do.
    pub fn awaits_person(&self) -> bool {
        match self.phase {
            Phase::AwaitsPerson => true,
            Phase::Failing => {
                self.guard.as_ref().is_some_and(Guard::awaits_person) && self.updated < self.desired
            }
            Phase::Deleting
            | Phase::Unobserved
            | Phase::Progressing
            | Phase::Paused
            | Phase::AwaitsDeletion
            | Phase::Done => false,
        }
    }

    /// The progress in one line.
    pub fn headline(&self) -> String {
        let Self { desired, updated, available, .. } = self;
        match self.phase {
            Phase::Unobserved => "no controller has observed the latest spec yet".to_owned(),
            Phase::Done if *desired == 0 => "rolled out: no node should run a pod".to_owned(),
            Phase::Done => {
                format!("rolled out: {available} of {desired} pods updated and available")
            }
            Phase::Deleting => self.deletion_text(),
            Phase::Failing
            | Phase::Progressing
            | Phase::Paused
            | Phase::AwaitsPerson
            | Phase::AwaitsDeletion => {
                let paused = match (self.pause, &self.guard) {
                    (Pause::Requested, _) => "pause not acknowledged by a controller: ".to_owned(),
                    (Pause::Yes, _) => "paused: ".to_owned(),
                    (Pause::No, Some(guard)) if guard.reason != RolloutReason::Complete => {
                        format!("{}: ", guard.message)
                    }
                    (Pause::No, _) => String::new(),
                };
                let missing = match self.missing {
                    0 => String::new(),
                    1 => ", 1 not created".to_owned(),
                    missing => format!(", {missing} not created"),
                };
                format!(
                    "{paused}{updated} of {desired} pods updated, {available} available{missing}"
                )
            }
        }
    }

    fn deletion_text(&self) -> String {
        self.deletion.as_ref().map(PendingDeletion::to_string).unwrap_or_default()
    }

    fn is_baking(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.reason == RolloutReason::Baking)
    }

    fn wave_name(&self) -> Option<&str> {
        self.guard.as_ref()?.wave.as_ref()?.name.as_deref()
    }

    /// What the rollout waits for, as a phrase: the worst cause, with its nodes. Empty if it is
    /// done.
    pub fn waits_for(&self) -> String {
        match (self.phase, self.groups().first()) {
            (Phase::Done, _) if self.desired == 0 => {
                format!(
                    "no node should run a pod: everynode explain -n {} {}",
                    self.namespace, self.name
                )
            }
            (Phase::Done, _) => String::new(),
            (Phase::Deleting, _) => self.deletion_text(),
            (Phase::Unobserved, _) => "no controller has observed the latest spec".to_owned(),
            (Phase::AwaitsPerson, _) => match &self.guard {
                Some(guard) => guard.message.clone(),
                None => self.headline(),
            },
            (Phase::Progressing, _) if self.is_baking() => match self.wave_name() {
                Some(wave) => format!("waiting for the end of the bake time of wave {wave}"),
                None => "waiting for the end of a bake time".to_owned(),
            },
            (_, Some(group)) => group.to_string(),
            (Phase::AwaitsDeletion, None) => {
                let old = self.desired.saturating_sub(self.updated);
                format!("{}: {old} pods", Cause::AwaitsDeletion)
            }
            (Phase::Failing | Phase::Progressing | Phase::Paused, None) => self.headline(),
        }
    }
}

/// `missing` is the number of nodes without a pod in the DaemonSet's status.
fn held_up(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    missing: u32,
    now: Timestamp,
) -> Vec<HeldUpPod> {
    let evidence = Evidence::new(snapshot, daemon_set, now);
    let is_replaced = evidence.replaces_old_pods();
    let held_up = |node: Option<&NodeName>, pod: Option<&Pod>, cause: Cause| {
        let outdated = pod.is_some_and(|pod| evidence.is_outdated(pod));
        let desired = evidence.is_desired(node);
        HeldUpPod {
            node: node.cloned(),
            pod: pod.map(|pod| pod.name.to_string()),
            desired,
            outdated,
            stuck: cause.is_stuck() && desired && !(outdated && is_replaced),
            message: cause.message().map(str::to_owned),
            cause,
        }
    };
    let pods = snapshot.pods_of(&daemon_set.key).filter_map(|detail| {
        let cause = evidence.cause_of(detail, evidence.is_outdated(&detail.pod))?;
        Some(held_up(detail.pod.target_node_name(), Some(&detail.pod), cause))
    });
    let mut all: Vec<HeldUpPod> = pods.collect();
    if missing > 0 && !daemon_set.terminating {
        let cause = || evidence.cause_of_missing_pod();
        match evidence.nodes_without_pod() {
            Some(nodes) => {
                all.extend(nodes.into_iter().map(|node| held_up(Some(node), None, cause())));
            }
            None => all.extend((0..missing).map(|_| held_up(None, None, cause()))),
        }
    }
    sorted(all)
}

/// Sorted by the rank of their causes, then by node and pod.
fn sorted(mut held_up: Vec<HeldUpPod>) -> Vec<HeldUpPod> {
    held_up.sort_by(|a, b| (&a.node, &a.pod).cmp(&(&b.node, &b.pod)));
    let groups = groups(&held_up);
    let place: BTreeMap<String, usize> =
        groups.iter().enumerate().map(|(place, group)| (group.cause.to_string(), place)).collect();
    held_up.sort_by_cached_key(|held_up| place.get(&held_up.cause.to_string()).copied());
    held_up
}

fn groups(held_up: &[HeldUpPod]) -> Vec<CauseGroup> {
    let mut groups: Vec<CauseGroup> = Vec::new();
    let mut index_of: BTreeMap<String, usize> = BTreeMap::new();
    for held_up in held_up {
        let index = *index_of.entry(held_up.cause.to_string()).or_insert(groups.len());
        if index == groups.len() {
            let cause = held_up.cause.clone();
            groups.push(CauseGroup { cause, nodes: Vec::new(), pods: 0, desired: 0, stuck: false });
        }
        let group = &mut groups[index];
        group.nodes.extend(held_up.node.clone());
        group.pods += 1;
        group.desired += usize::from(held_up.desired);
        group.stuck |= held_up.stuck;
    }
    groups.sort_by_cached_key(CauseGroup::rank);
    groups
}

fn phase(daemon_set: &DaemonSet, guard: Option<&Guard>, held_up: &[HeldUpPod]) -> Phase {
    let status = &daemon_set.status;
    let all_there = status.current_number_scheduled >= status.desired_number_scheduled;
    let only_deletions = || held_up.iter().all(|held_up| held_up.cause == Cause::AwaitsDeletion);
    let is_on_delete = daemon_set.strategy() == UpdateStrategy::OnDelete;
    let is_outdated = status.updated_number_scheduled < status.desired_number_scheduled;
    let awaits_person = guard.is_some_and(Guard::awaits_person);
    match Completion::of(daemon_set.generation, status) {
        Completion::Unobserved => Phase::Unobserved,
        Completion::Complete => match guard.filter(|guard| guard.is_under_way()) {
            Some(_) if awaits_person => Phase::AwaitsPerson,
            Some(_) => Phase::Progressing,
            None => Phase::Done,
        },
        Completion::Unavailable | Completion::Outdated
            if held_up.iter().any(|held_up| held_up.stuck) =>
        {
            Phase::Failing
        }
        // A person is needed even if pods are still unavailable.
        Completion::Unavailable | Completion::Outdated
            if is_outdated && Pause::of(daemon_set) == Pause::Yes =>
        {
            Phase::Paused
        }
        Completion::Unavailable | Completion::Outdated if is_outdated && awaits_person => {
            Phase::AwaitsPerson
        }
        Completion::Outdated if is_on_delete && all_there && only_deletions() => {
            Phase::AwaitsDeletion
        }
        Completion::Unavailable | Completion::Outdated => Phase::Progressing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::ObjectKind;
    use everynode_k8s::revision_data::data_of_template;
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    /// 2026-01-01T01:00:00Z
    const NOW: Timestamp = Timestamp::from_seconds(1_767_229_200);

    /// A DaemonSet with these spec fields and status counts (desired, updated, ready, available).
    fn daemon_set(spec: Value, status: [u32; 4]) -> Value {
        let [desired, updated, ready, available] = status;
        let mut spec = spec;
        spec["selector"] = json!({ "matchLabels": { "app": "a" } });
        spec["template"] = template();
        json!({
            "metadata": { "name": "a", "namespace": "n", "uid": "u", "generation": 2,
                "resourceVersion": "1" },
            "spec": spec,
            "status": { "observedGeneration": 2, "desiredNumberScheduled": desired,
                "currentNumberScheduled": desired, "updatedNumberScheduled": updated,
                "numberReady": ready, "numberAvailable": available, "numberMisscheduled": 0 },
        })
    }

    fn template() -> Value {
        json!({ "metadata": { "labels": { "app": "a" } },
            "spec": { "containers": [{ "name": "c" }] } })
    }

    fn pod(number: u32, hash: &str, status: Value) -> Value {
        json!({
            "metadata": { "name": format!("a-{number}"), "namespace": "n",
                "uid": format!("p{number}"),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "app": "a", "controller-revision-hash": hash },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "uid": "u",
                    "controller": true }] },
            "spec": { "nodeName": format!("node-{number}"), "containers": [] },
            "status": status,
        })
    }

    fn ready(since: &str) -> Value {
        json!({ "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": since }],
            "containerStatuses": [{ "name": "c", "ready": true, "restartCount": 0,
                "state": { "running": {} } }] })
    }

    fn waiting(reason: &str) -> Value {
        json!({ "phase": "Running", "containerStatuses": [{ "name": "c", "ready": false,
            "restartCount": 3, "state": { "waiting": { "reason": reason } } }] })
    }

    const LONG_AGO: &str = "2026-01-01T00:10:00Z";

    fn rollout(daemon_set: Value, pods: &[Value]) -> Rollout {
        let mut snapshot = Snapshot::default();
        let mut add = |kind, object: &Value| snapshot.add(kind, object.to_string().as_bytes());
        add(ObjectKind::DaemonSet, &daemon_set);
        let data: Value = serde_json::from_str(&data_of_template(&template())).unwrap();
        add(
            ObjectKind::ControllerRevision,
            &json!({ "metadata": { "name": "a-new", "namespace": "n", "uid": "r",
                "labels": { "app": "a", "controller-revision-hash": "new" },
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "uid": "u",
                    "controller": true }] },
                "revision": 2, "data": data }),
        );
        for pod in pods {
            add(ObjectKind::Pod, pod);
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
    fn causes_are_listed_worst_first_with_their_nodes() {
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
                  ContainerCreating for more than 10 min: node-6
                  older revision, waiting to be replaced: node-7
            "#]],
        );
    }

    #[test]
    fn pods_that_await_manual_deletion_are_no_failure() {
        let spec = json!({ "updateStrategy": { "type": "OnDelete" } });
        let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
        check(
            &rollout(daemon_set(spec, [2, 1, 2, 2]), &pods),
            expect![[r#"
            AwaitsDeletion: 1 of 2 pods updated, 2 available
              older revision, to be deleted manually (OnDelete): node-2
        "#]],
        );
    }

    /// G21, G22: a pause counts once the controller has stated in the status that it acts on it.
    #[test]
    fn a_pause_counts_once_the_controller_has_acknowledged_it() {
        let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
        let mut paused = daemon_set(json!({}), [2, 1, 2, 2]);
        paused["metadata"]["annotations"] = json!({ "everynode.dev/paused": "true" });
        check(
            &rollout(paused.clone(), &pods),
            expect![[r#"
                Progressing: pause not acknowledged by a controller: 1 of 2 pods updated, 2 available
                  older revision, waiting to be replaced: node-2
            "#]],
        );
        paused["status"]["conditions"] = json!([{ "type": "Progressing", "status": "Unknown",
            "reason": "Paused", "lastTransitionTime": LONG_AGO }]);
        check(
            &rollout(paused, &pods),
            expect![[r#"
                Paused: paused: 1 of 2 pods updated, 2 available
                  older revision, kept while the rollout is paused: node-2
            "#]],
        );
    }

    /// G21, G22: a failed rollout waits for a person, also while its canary is not available
    #[test]
    fn a_failed_rollout_waits_for_a_person() {
        let not_ready = json!({ "phase": "Running" });
        let mut pods = [pod(1, "new", not_ready), pod(2, "old", ready(LONG_AGO))];
        pods[0]["metadata"]["creationTimestamp"] = "2026-01-01T00:59:00Z".into();
        let mut failed = daemon_set(json!({}), [2, 1, 1, 1]);
        failed["status"]["conditions"] = json!([{ "type": "Progressing", "status": "False",
            "reason": "Failed", "message": "the rollout has failed",
            "lastTransitionTime": LONG_AGO }]);
        let rollout = rollout(failed, &pods);
        assert!(rollout.awaits_person());
        check(
            &rollout,
            expect![[r#"
            AwaitsPerson: the rollout has failed: 1 of 2 pods updated, 1 available
              ContainerCreating: node-1
              older revision, its wave is not open: node-2
        "#]],
        );
    }

    /// G21, G22: a rollout whose last wave bakes or must be approved is not over
    #[test]
    fn a_guarded_rollout_is_done_with_its_last_wave() {
        let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "new", ready(LONG_AGO))];
        for (reason, phase) in [
            ("Baking", Phase::Progressing),
            ("AwaitingApproval", Phase::AwaitsPerson),
            ("Complete", Phase::Done),
            ("Failed", Phase::Done),
        ] {
            let mut stated = daemon_set(json!({}), [2, 2, 2, 2]);
            stated["status"]["conditions"] = json!([{ "type": "Progressing", "status": "True",
                "reason": reason, "lastTransitionTime": LONG_AGO }]);
            assert_eq!(rollout(stated, &pods).phase, phase, "{reason}");
        }
    }

    #[test]
    fn a_pod_that_has_not_been_ready_for_min_ready_seconds_holds_up_the_rollout() {
        let spec = json!({ "minReadySeconds": 60 });
        let pods = [pod(1, "new", ready("2026-01-01T00:59:30Z")), pod(2, "new", ready(LONG_AGO))];
        check(
            &rollout(daemon_set(spec, [2, 2, 2, 1]), &pods),
            expect![[r#"
            Progressing: 2 of 2 pods updated, 1 available
              ready for less than 60 s (minReadySeconds): node-1
        "#]],
        );
    }

    #[test]
    fn a_status_of_an_older_generation_is_ignored() {
        let mut daemon_set = daemon_set(json!({}), [2, 2, 2, 2]);
        daemon_set["metadata"]["generation"] = json!(3);
        check(
            &rollout(daemon_set, &[]),
            expect![[r#"
            Unobserved: no controller has observed the latest spec yet
        "#]],
        );
    }
}
