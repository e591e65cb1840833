//! Random clusters of one DaemonSet.

use everynode_core::api::{
    HASH_LABEL, IntOrPercent, NodeReadiness, Placement, Pod, PodPhase, Readiness, Revision,
    TEMPLATE_GENERATION_LABEL, Taint, TaintEffect, Timestamp, UpdateStrategy,
};
use everynode_core::daemon_set::UnreachableNodes;
use everynode_core::plan::ScheduleBy;
use proptest::prelude::*;
use proptest::sample::select;

use super::placement::{any_placement, any_taint, taint};
use crate::support::{DS_UID, pod, revision, with_label};

pub(super) const GENERATION: i64 = 7;

/// The inputs of one case.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub daemon_set: AnyDaemonSet,
    pub burst_replicas: usize,
    pub schedule_by: ScheduleBy,
    pub unreachable_nodes: UnreachableNodes,
    /// The node selector of the namespace.
    pub namespace_zone: Option<&'static str>,
    pub nodes: Vec<AnyNode>,
    /// Pods that are on no node of the cluster.
    pub lost_pods: Vec<Pod>,
    pub revisions: Vec<Revision>,
}

/// The fields of a DaemonSet that differ.
#[derive(Clone, Debug)]
pub(super) struct AnyDaemonSet {
    pub terminating: bool,
    pub is_template_malformed: bool,
    pub selector: SelectorKind,
    pub strategy: UpdateStrategy,
    pub min_ready_seconds: u32,
    pub template_generation: Option<i64>,
    pub revision_history_limit: u32,
    pub placement: Placement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectorKind {
    App,
    Everything,
    Malformed,
}

#[derive(Clone, Debug)]
pub(super) struct AnyNode {
    pub zone: &'static str,
    pub taints: Vec<Taint>,
    pub readiness: NodeReadiness,
    pub pods: Vec<Pod>,
}

pub(super) fn any_case() -> impl Strategy<Value = Case> {
    let nodes = prop::collection::vec(any_node(), 0..16);
    let is_maintained = prop::bool::weighted(0.25);
    let burst_replicas = prop_oneof![4 => Just(250usize), 1 => 0usize..5];
    let namespace_zone = prop_oneof![5 => Just(None), 1 => Just(Some("a"))];
    let lost_pods = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(any_pod(), 1..3)];
    let schedule_by = prop_oneof![Just(ScheduleBy::Scheduler), Just(ScheduleBy::Controller)];
    let unreachable_nodes =
        prop_oneof![3 => Just(UnreachableNodes::Skip), 1 => Just(UnreachableNodes::Wait)];
    let rest = (lost_pods, any_history(), any_daemon_set(), schedule_by, unreachable_nodes);
    (nodes, is_maintained, burst_replicas, namespace_zone, rest).prop_map(
        |(mut nodes, is_maintained, burst_replicas, namespace_zone, rest)| {
            // No node is desired, and the pods keep running (C51).
            for node in nodes.iter_mut().filter(|_| is_maintained) {
                node.taints.push(taint("maintenance", "", TaintEffect::NoSchedule));
            }
            let (lost_pods, revisions, daemon_set, schedule_by, unreachable_nodes) = rest;
            Case {
                daemon_set,
                burst_replicas,
                schedule_by,
                unreachable_nodes,
                namespace_zone,
                nodes,
                lost_pods,
                revisions,
            }
        },
    )
}

fn any_daemon_set() -> impl Strategy<Value = AnyDaemonSet> {
    let selector = prop_oneof![
        40 => Just(SelectorKind::App),
        1 => Just(SelectorKind::Everything),
        1 => Just(SelectorKind::Malformed),
    ];
    let generation = prop_oneof![3 => Just(None), 1 => Just(Some(GENERATION))];
    let rare = || prop::bool::weighted(0.02);
    let seconds = select(vec![0, 50]);
    let rest = (seconds, generation, 0u32..4, any_placement());
    (rare(), rare(), selector, any_strategy(), rest).prop_map(
        |(terminating, is_template_malformed, selector, strategy, rest)| {
            let (seconds, generation, limit, placement) = rest;
            AnyDaemonSet {
                terminating,
                is_template_malformed,
                selector,
                strategy,
                min_ready_seconds: seconds,
                template_generation: generation,
                revision_history_limit: limit,
                placement,
            }
        },
    )
}

/// Mostly one revision of the template `A`; else up to five, of which some store it.
fn any_history() -> impl Strategy<Value = Vec<Revision>> {
    let ordinary = prop::collection::vec(select(vec!["B", "C"]), 0..3).prop_map(|older| {
        let older = older.into_iter().enumerate();
        let older = older.map(|(at, template)| stored(at, template, at as i64 + 1));
        older.chain([stored(3, "A", 9)]).collect()
    });
    let odd = prop::collection::vec(any_revision(), 0..6).prop_map(|mut revisions| {
        for (at, revision) in revisions.iter_mut().enumerate() {
            let hash = revision.labels.get(HASH_LABEL).is_some();
            let named = stored(at, "", 0);
            (revision.name, revision.uid) = (named.name, named.uid);
            if hash {
                revision.labels = with_label(&revision.labels, HASH_LABEL, HASHES[at]);
            }
        }
        revisions
    });
    prop_oneof![3 => ordinary, 1 => odd]
}

/// The hashes of revisions, and of pods.
pub(super) const HASHES: [&str; 6] = ["h0", "h1", "h2", "h3", "h4", "h5"];

pub(super) fn stored(at: usize, template: &str, number: i64) -> Revision {
    // No pod has the name as its hash: the core takes pods with the hash that a duplicate without a
    // label is about to get for old ones.
    let name = format!("ds-{}", HASHES[at]);
    let stored = revision(&name, template, number);
    Revision { labels: with_label(&stored.labels, HASH_LABEL, HASHES[at]), ..stored }
}

fn any_revision() -> impl Strategy<Value = Revision> {
    let template = prop_oneof![3 => Just(Some("A")), 2 => Just(Some("B")), 1 => Just(None)];
    let labels = (prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    let generation = select(vec![None, Some(GENERATION - 1), Some(GENERATION)]);
    let rest = (any_controller(), prop::bool::weighted(0.1), -1i64..6, generation);
    (template, labels, rest).prop_map(
        |(
            template,
            (is_other_app, is_unlabelled),
            (controller, terminating, number, generation),
        )| {
            let mut revision = revision("", template.unwrap_or_default(), number);
            if template.is_none() {
                revision.template = Err("no template".into());
            }
            let app = if is_other_app { "other" } else { "ds" };
            let hash = (!is_unlabelled).then_some((HASH_LABEL, ""));
            revision.labels = [("app", app)].into_iter().chain(hash).collect();
            revision.controller = controller.map(Into::into);
            revision.terminating = terminating;
            revision.template_generation = generation;
            revision
        },
    )
}

/// The DaemonSet, nobody, or another owner.
fn any_controller() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![24 => Just(Some(DS_UID)), 1 => Just(None), 1 => Just(Some("other"))]
}

/// Numbers and percentages, zero and others, in every combination, even those that the API refuses.
pub(super) fn any_strategy() -> impl Strategy<Value = UpdateStrategy> {
    let amount = || {
        prop_oneof![
            2 => Just(IntOrPercent::Int(0)),
            1 => Just(IntOrPercent::Percent(0)),
            2 => (1u32..4).prop_map(IntOrPercent::Int),
            4 => (1u32..=100).prop_map(IntOrPercent::Percent)
        ]
    };
    prop_oneof![
        2 => Just(UpdateStrategy::OnDelete),
        1 => Just(UpdateStrategy::Malformed),
        18 => (amount(), amount()).prop_map(|(max_unavailable, max_surge)| {
            UpdateStrategy::RollingUpdate { max_unavailable, max_surge }
        }),
    ]
}

fn any_node() -> impl Strategy<Value = AnyNode> {
    let taints = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec(any_taint(), 1..3),
    ];
    let pods = prop_oneof![
        1 => Just(Vec::new()),
        4 => prop::collection::vec(any_pod(), 1..2),
        2 => prop::collection::vec(any_pod(), 2..4),
    ];
    let readiness = prop_oneof![4 => Just(NodeReadiness::Ready), 1 => any_unreachable()];
    (any_zone(), taints, readiness, pods).prop_map(|(zone, taints, readiness, pods)| AnyNode {
        zone,
        taints,
        readiness,
        pods,
    })
}

/// Before or after a pod was created, or its deletion requested.
pub(super) fn any_unreachable() -> impl Strategy<Value = NodeReadiness> {
    let since = (988i64..1004).prop_map(Timestamp::from_seconds);
    since.prop_map(|since| NodeReadiness::Unreachable { since })
}

pub(super) fn any_zone() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b", "3"])
}

pub(super) fn any_pod() -> impl Strategy<Value = Pod> {
    let phase = prop_oneof![
        12 => Just(PodPhase::Running),
        1 => Just(PodPhase::Pending),
        1 => Just(PodPhase::Failed),
        1 => Just(PodPhase::Succeeded),
        1 => Just(PodPhase::Unknown),
    ];
    let since = |seconds| Readiness::ReadySince(Timestamp::from_seconds(seconds));
    let readiness = prop_oneof![
        4 => Just(Readiness::NotReady),
        2 => Just(Readiness::Ready),
        5 => prop_oneof![900i64..950, 951i64..1000].prop_map(since),
        1 => (1000i64..1100).prop_map(since),
    ];
    let hash = prop_oneof![
        6 => Just(Some("h3")),
        5 => select(&HASHES[..]).prop_map(Some),
        1 => Just(None),
    ];
    let labels = (hash, prop::bool::weighted(0.2), prop::bool::weighted(0.04));
    let rest = (
        any_controller(),
        prop::bool::weighted(0.1),
        (990i64..994, 990i64..1004),
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.97),
    );
    (phase, readiness, labels, rest).prop_map(
        |(phase, readiness, (hash, is_of_generation, is_other_app), rest)| {
            let (controller, terminating, (created, deleted), scheduled, is_pinned) = rest;
            let mut pod = pod("", "");
            if let Some(hash) = hash {
                pod.labels = with_label(&pod.labels, HASH_LABEL, hash);
            }
            let generation = if is_of_generation { GENERATION } else { GENERATION - 1 };
            pod.labels =
                with_label(&pod.labels, TEMPLATE_GENERATION_LABEL, &generation.to_string());
            if is_other_app {
                pod.labels = with_label(&pod.labels, "app", "other");
            }
            (pod.phase, pod.readiness, pod.terminating) = (phase, readiness, terminating);
            pod.deleted_at = terminating.then(|| Timestamp::from_seconds(deleted));
            pod.controller = controller.map(Into::into);
            pod.controller_name = (controller == Some("other")).then(|| "ds".into());
            pod.creation_timestamp = Timestamp::from_seconds(created);
            pod.node_name = scheduled.then(|| "".into());
            pod.affinity_node_name = is_pinned.then(|| "".into());
            pod
        },
    )
}

/// The pod under this name on this node.
pub(super) fn placed(pod: &Pod, name: &str, node: &str) -> Pod {
    Pod {
        name: name.into(),
        uid: name.into(),
        node_name: pod.node_name.as_ref().map(|_| node.into()),
        affinity_node_name: pod.affinity_node_name.as_ref().map(|_| node.into()),
        ..pod.clone()
    }
}
