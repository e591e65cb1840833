//! Compares plans with a slow implementation that scans all nodes, written after upstream's
//! `manage`, `rollingUpdate` and `updateDaemonSetStatus` (`upstream/`).

use std::sync::Arc;

use everynode_core::api::{
    DaemonSet, HASH_LABEL, IntOrPercent, Labels, Node, NodeSelectorOperator,
    NodeSelectorRequirement, NodeSelectorTerm, Placement, Pod, PodPhase, Readiness, Status,
    TEMPLATE_GENERATION_LABEL, Taint, TaintEffect, Template, Term, Timestamp, Toleration,
    TolerationOperator, UpdateStrategy,
};
use everynode_core::plan::{Plan, Write};
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::{World, daemon_set, node, pod, revision, with_label};
use crate::upstream::{Upstream, Verdict};

const CURRENT: &str = "current";
const GENERATION: i64 = 7;

/// The inputs of one case.
#[derive(Clone, Debug)]
struct Case {
    strategy: UpdateStrategy,
    min_ready_seconds: u32,
    template_generation: Option<i64>,
    placement: Placement,
    nodes: Vec<AnyNode>,
}

#[derive(Clone, Debug)]
struct AnyNode {
    zone: &'static str,
    taints: Vec<Taint>,
    pods: Vec<Pod>,
}

fn any_case() -> impl Strategy<Value = Case> {
    let nodes = prop::collection::vec(any_node(), 0..9);
    let is_maintained = prop::bool::weighted(0.25);
    let rest = (any_strategy(), select(vec![0, 50]), any_generation(), any_placement());
    (nodes, is_maintained, rest).prop_map(
        |(mut nodes, is_maintained, (strategy, min_ready_seconds, generation, placement))| {
            // No node is desired, and the pods keep running (C51).
            for node in nodes.iter_mut().filter(|_| is_maintained) {
                node.taints.push(taint("maintenance", "", TaintEffect::NoSchedule));
            }
            Case { strategy, min_ready_seconds, template_generation: generation, placement, nodes }
        },
    )
}

fn any_generation() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![3 => Just(None), 1 => Just(Some(GENERATION))]
}

/// Numbers and percentages, zero and others, in every combination, even those that the API refuses.
fn any_strategy() -> impl Strategy<Value = UpdateStrategy> {
    let amount = || {
        prop_oneof![
            2 => Just(IntOrPercent::Int(0)),
            1 => Just(IntOrPercent::Percent(0)),
            2 => (1u32..4).prop_map(IntOrPercent::Int),
            4 => (1u32..=100).prop_map(IntOrPercent::Percent)
        ]
    };
    prop_oneof![
        1 => Just(UpdateStrategy::OnDelete),
        9 => (amount(), amount()).prop_map(|(max_unavailable, max_surge)| {
            UpdateStrategy::RollingUpdate { max_unavailable, max_surge }
        }),
    ]
}

fn any_placement() -> impl Strategy<Value = Placement> {
    let selector = prop_oneof![6 => Just(None), 1 => select(vec!["a", "b"]).prop_map(Some)];
    let affinity = prop_oneof![4 => Just(None), 1 => any_affinity().prop_map(Some)];
    let tolerations = prop::collection::vec(any_toleration(), 0..3);
    (selector, affinity, tolerations, any::<bool>()).prop_map(
        |(zone, required_node_affinity, tolerations, host_network)| Placement {
            node_name: None,
            node_selector: zone.map(|zone| ("zone", zone)).into_iter().collect(),
            required_node_affinity,
            tolerations,
            host_network,
        },
    )
}

fn any_affinity() -> impl Strategy<Value = Vec<NodeSelectorTerm>> {
    let value = || select(vec!["a", "b", "3", "c"]);
    let values = move || value().prop_map(|value| vec![Arc::from(value)]);
    let operator = prop_oneof![
        2 => values().prop_map(NodeSelectorOperator::In),
        2 => values().prop_map(NodeSelectorOperator::NotIn),
        1 => Just(NodeSelectorOperator::Exists),
        1 => Just(NodeSelectorOperator::DoesNotExist),
        1 => Just(NodeSelectorOperator::Gt(2)),
        1 => Just(NodeSelectorOperator::Lt(2)),
    ];
    let term = prop::collection::vec(operator, 0..3).prop_map(|operators| {
        let requirement = |operator| NodeSelectorRequirement { key: "zone".into(), operator };
        NodeSelectorTerm::Parsed(Term {
            match_expressions: operators.into_iter().map(requirement).collect(),
            match_fields: Vec::new(),
        })
    });
    prop::collection::vec(
        prop_oneof![6 => term, 1 => Just(NodeSelectorTerm::Malformed("bad".into()))],
        0..3,
    )
}

const TAINT_KEYS: [&str; 5] = [
    "t",
    "u",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/network-unavailable",
];

fn any_toleration() -> impl Strategy<Value = Toleration> {
    let operator = select(vec![
        TolerationOperator::Equal,
        TolerationOperator::Exists,
        TolerationOperator::Lt,
        TolerationOperator::Gt,
    ]);
    let effect = prop_oneof![1 => Just(None), 2 => any_effect().prop_map(Some)];
    (select(vec!["", "t", "u"]), operator, select(vec!["", "1", "2"]), effect).prop_map(
        |(key, operator, value, effect)| Toleration {
            key: key.into(),
            operator,
            value: value.into(),
            effect,
        },
    )
}

fn any_effect() -> impl Strategy<Value = TaintEffect> {
    prop_oneof![
        4 => Just(TaintEffect::NoSchedule),
        2 => Just(TaintEffect::NoExecute),
        1 => Just(TaintEffect::PreferNoSchedule),
    ]
}

fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint { key: key.into(), value: value.into(), effect }
}

fn any_node() -> impl Strategy<Value = AnyNode> {
    let any_taint = (select(TAINT_KEYS.to_vec()), select(vec!["", "1", "2"]), any_effect())
        .prop_map(|(key, value, effect)| taint(key, value, effect));
    let taints = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec(any_taint, 1..3),
    ];
    let pods = prop_oneof![
        1 => Just(Vec::new()),
        4 => prop::collection::vec(any_pod(), 1..2),
        2 => prop::collection::vec(any_pod(), 2..4),
    ];
    (select(vec!["a", "b", "3"]), taints, pods).prop_map(|(zone, taints, pods)| AnyNode {
        zone,
        taints,
        pods,
    })
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let phase = prop_oneof![
        12 => Just(PodPhase::Running),
        1 => Just(PodPhase::Pending),
        1 => Just(PodPhase::Failed),
        1 => Just(PodPhase::Succeeded),
    ];
    let since = |seconds| Readiness::ReadySince(Timestamp::from_seconds(seconds));
    let readiness = prop_oneof![
        2 => Just(Readiness::NotReady),
        1 => Just(Readiness::Ready),
        3 => prop_oneof![900i64..950, 951i64..1000].prop_map(since),
    ];
    let labels = (prop::bool::weighted(0.4), prop::bool::weighted(0.2));
    let rest = (prop::bool::weighted(0.1), 990i64..994, prop::bool::weighted(0.8));
    (phase, readiness, labels, rest).prop_map(
        |(phase, readiness, (is_new, is_of_generation), (terminating, created, scheduled))| {
            let mut pod = pod("", "");
            let hash = if is_new { CURRENT } else { "older" };
            pod.labels = with_label(&pod.labels, HASH_LABEL, hash);
            let generation = if is_of_generation { GENERATION } else { GENERATION - 1 };
            pod.labels =
                with_label(&pod.labels, TEMPLATE_GENERATION_LABEL, &generation.to_string());
            (pod.phase, pod.readiness, pod.terminating) = (phase, readiness, terminating);
            pod.creation_timestamp = Timestamp::from_seconds(created);
            pod.node_name = scheduled.then(|| "".into());
            pod
        },
    )
}

fn world_of(case: &Case) -> World {
    let mut world = World::new(DaemonSet {
        update_strategy: case.strategy,
        min_ready_seconds: case.min_ready_seconds,
        template_generation: case.template_generation,
        template: Template::new("A", case.placement.clone()),
        ..daemon_set()
    });
    world.put_revision(revision(CURRENT, "A", 1));
    for (number, any) in case.nodes.iter().enumerate() {
        let name = format!("n{number}");
        let labels = Labels::from_iter([("zone", any.zone)]);
        world.apply_node(Node { labels, taints: any.taints.clone(), ..node(&name) });
        for (number, mut pod) in any.pods.iter().cloned().enumerate() {
            pod.name = format!("{name}-p{number}").into();
            pod.uid = pod.name.as_str().into();
            pod.affinity_node_name = Some(name.as_str().into());
            pod.node_name = pod.node_name.map(|_| name.as_str().into());
            world.put_pod(pod);
        }
    }
    world
}

fn verdict_of(plan: &Plan) -> Verdict {
    let mut verdict = Verdict::default();
    for write in &plan.writes {
        match write {
            Write::CreatePod(pod) => assert!(verdict.create.insert(pod.node.clone()), "{plan}"),
            Write::DeletePod(pod) => assert!(verdict.delete.insert(pod.name.clone()), "{plan}"),
            Write::UpdateStatus { .. } => {}
            other => panic!("{other} in\n{plan}"),
        }
    }
    verdict
}

fn status_of(plan: &Plan, known: &Status) -> Status {
    let written = plan.writes.iter().find_map(|write| match write {
        Write::UpdateStatus { status, .. } => Some(status.clone()),
        _ => None,
    });
    written.unwrap_or_else(|| known.clone())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// C10, C12, C13, C22, C23, C25, C26, C51, C52, C53, C70: the incremental plan equals the
    /// result of a scan of all nodes.
    #[test]
    fn a_plan_equals_the_result_of_a_scan(case in any_case()) {
        let mut world = world_of(&case);
        let plan = world.plan();
        // Without default tolerations: `upstream` adds its own.
        let placement = case.placement.into();
        let template = Template { placement, ..Template::new("A", Placement::default()) };
        let daemon_set = DaemonSet { template, ..world.server.daemon_set.clone() };
        let upstream = Upstream {
            daemon_set: &daemon_set,
            hash: CURRENT,
            nodes: world.nodes.iter().map(|(_, node)| node).collect(),
            pods: world.server.pods.values().collect(),
            now: world.now,
        };
        prop_assert_eq!(status_of(&plan, &world.server.daemon_set.status), upstream.status());
        prop_assert_eq!(verdict_of(&plan), upstream.sync());
    }
}
