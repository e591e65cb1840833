//! Properties that hold for all events in any order: counts equal a recount, budgets are kept, and
//! finally there is one pod of the current revision on each eligible node and none elsewhere.

use std::collections::BTreeSet;
use std::time::Duration;

use everynode_core::api::{
    HASH_LABEL, IntOrPercent, Labels, Node, Placement, Pod, PodPhase, Readiness, Revision, Taint,
    TaintEffect, Template, UpdateStrategy,
};
use everynode_core::plan::{Outcome, Write};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{Fault, Kind, World, daemon_set, node, pod, revision, with_label};

#[derive(Clone, Debug)]
enum Step {
    AddNode(u8),
    TaintNode(u8, TaintEffect),
    DeleteNode(u8),
    Template(u8),
    Strategy(Update),
    Pause(bool),
    MinReadySeconds(u8),
    Pod(Index, PodChange),
    Stray {
        node: u8,
        number: u8,
        orphan: bool,
        hash: u8,
    },
    DeleteRevision(Index),
    DuplicateRevision(u8),
    Fault(&'static str),
    /// There is no response to the next such write; `true` if it takes effect.
    NoResponse(&'static str, bool),
    Delay(Kind),
    Deliver,
    Restart,
    Advance(u16),
    Kubelets,
    Sync,
}

#[derive(Clone, Debug)]
enum PodChange {
    Unready,
    Ready,
    Fails,
    Succeeds,
    Terminates,
    IsDeleted,
    LeavesSelector,
    Rejoins,
    LosesHash,
}

#[derive(Clone, Copy, Debug)]
enum Update {
    OnDelete,
    Unavailable(IntOrPercent),
    Surge(IntOrPercent),
}

const NODES: u8 = 6;

fn int_or_percent() -> impl Strategy<Value = IntOrPercent> {
    prop_oneof![(0u32..4).prop_map(IntOrPercent::Int), (1u32..=100).prop_map(IntOrPercent::Percent)]
}

fn strategy() -> impl Strategy<Value = Update> {
    prop_oneof![
        Just(Update::OnDelete),
        int_or_percent().prop_map(Update::Unavailable),
        int_or_percent().prop_map(Update::Surge),
    ]
}

fn pod_change() -> impl Strategy<Value = PodChange> {
    prop_oneof![
        Just(PodChange::Unready),
        Just(PodChange::Ready),
        Just(PodChange::Fails),
        Just(PodChange::Succeeds),
        Just(PodChange::Terminates),
        Just(PodChange::IsDeleted),
        Just(PodChange::LeavesSelector),
        Just(PodChange::Rejoins),
        Just(PodChange::LosesHash),
    ]
}

fn effect() -> impl Strategy<Value = TaintEffect> {
    prop_oneof![
        Just(TaintEffect::NoSchedule),
        Just(TaintEffect::NoExecute),
        Just(TaintEffect::PreferNoSchedule)
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::DaemonSets), Just(Kind::Pods), Just(Kind::Revisions)]
}

fn verb() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "create pod",
        "delete pod",
        "create revision",
        "delete revision",
        "update status",
        "adopt pod",
        "relabel pod",
    ])
}

fn no_response() -> impl Strategy<Value = Step> {
    let verb = prop::sample::select(vec!["create pod", "delete pod"]);
    (verb, any::<bool>()).prop_map(|(verb, takes_effect)| Step::NoResponse(verb, takes_effect))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..NODES).prop_map(Step::AddNode),
        1 => ((0..NODES), effect()).prop_map(|(node, effect)| Step::TaintNode(node, effect)),
        1 => (0..NODES).prop_map(Step::DeleteNode),
        2 => (0u8..4).prop_map(Step::Template),
        1 => strategy().prop_map(Step::Strategy),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => (0u8..20).prop_map(Step::MinReadySeconds),
        3 => (any::<Index>(), pod_change()).prop_map(|(pod, change)| Step::Pod(pod, change)),
        1 => ((0..NODES), 0u8..3, any::<bool>(), 0u8..4)
            .prop_map(|(node, number, orphan, hash)| Step::Stray { node, number, orphan, hash }),
        1 => any::<Index>().prop_map(Step::DeleteRevision),
        1 => (0u8..4).prop_map(Step::DuplicateRevision),
        1 => verb().prop_map(Step::Fault),
        1 => no_response(),
        1 => kind().prop_map(Step::Delay),
        2 => Just(Step::Deliver),
        1 => Just(Step::Restart),
        2 => (0u16..400).prop_map(Step::Advance),
        6 => Just(Step::Kubelets),
        12 => Just(Step::Sync),
    ]
}

fn node_name(number: u8) -> String {
    format!("n{number}")
}

fn apply(world: &mut World, step: Step) {
    match step {
        Step::AddNode(number) => world.apply_node(labelled_node(number)),
        Step::TaintNode(number, effect) => {
            let taint = Taint { key: "t".into(), value: "".into(), effect };
            let mut tainted = labelled_node(number);
            tainted.taints.push(taint);
            world.apply_node(tainted);
        }
        Step::DeleteNode(number) => delete_node(world, &node_name(number)),
        Step::Template(letter) => set_template(world, letter),
        Step::Strategy(strategy) => {
            world.change(|ds| ds.update_strategy = update_strategy(strategy))
        }
        Step::Pause(paused) => world.change(|ds| ds.paused = paused),
        Step::MinReadySeconds(seconds) => {
            world.change(|ds| ds.min_ready_seconds = seconds.into());
        }
        Step::Pod(index, change) => change_pod(world, index, &change),
        Step::Stray { node, number, orphan, hash } => add_stray(world, node, number, orphan, hash),
        Step::DeleteRevision(index) => {
            let names: Vec<_> = world.server.revisions.keys().cloned().collect();
            if !names.is_empty() {
                world.remove_revision(index.get(&names));
            }
        }
        Step::DuplicateRevision(letter) => {
            let name = format!("dup-{letter}");
            let duplicate = revision(&name, "", letter.into());
            world.put_revision(Revision { template: Ok(template(letter)), ..duplicate });
        }
        Step::Fault(verb) => {
            let outcome = Outcome::Failed { message: "refused".to_owned() };
            let write = verb.to_owned();
            world.faults.push_back(Fault { write, outcome, takes_effect: false });
        }
        Step::NoResponse(verb, takes_effect) => {
            let outcome = Outcome::Unknown { message: "no answer".to_owned() };
            let write = verb.to_owned();
            world.faults.push_back(Fault { write, outcome, takes_effect });
        }
        Step::Delay(kind) => world.delay(kind),
        Step::Deliver => world.deliver_delayed(),
        Step::Restart => world.restart(world.server.daemon_set.clone()),
        Step::Advance(seconds) => world.advance(Duration::from_secs(seconds.into())),
        Step::Kubelets => {
            world.kubelets();
        }
        Step::Sync => {
            world.sync();
        }
    }
}

fn set_template(world: &mut World, letter: u8) {
    world.change(|ds| ds.template = template(letter));
}

/// The template with this letter. The fourth may run on half of the nodes.
fn template(letter: u8) -> Template {
    let mut placement = Placement::default();
    if letter == 3 {
        placement.node_selector = Labels::from_iter([("half", "yes")]);
    }
    Template::new(letter.to_string(), placement)
}

fn labelled_node(number: u8) -> Node {
    let mut node = node(&node_name(number));
    node.labels =
        Labels::from_iter([("half", if number.is_multiple_of(2) { "yes" } else { "no" })]);
    node
}

const fn update_strategy(strategy: Update) -> UpdateStrategy {
    let zero = IntOrPercent::Int(0);
    match strategy {
        Update::OnDelete => UpdateStrategy::OnDelete,
        Update::Unavailable(max_unavailable) => {
            UpdateStrategy::RollingUpdate { max_unavailable, max_surge: zero }
        }
        Update::Surge(max_surge) => {
            UpdateStrategy::RollingUpdate { max_unavailable: zero, max_surge }
        }
    }
}

/// Deletes a node; the pod garbage collector deletes its pods.
fn delete_node(world: &mut World, name: &str) {
    world.delete_node(name);
    let pods = world.server.pods.values();
    let there = pods.filter(|pod| pod.node_name.as_ref().is_some_and(|node| node.as_str() == name));
    let names: Vec<_> = there.map(|pod| pod.name.clone()).collect();
    for name in names {
        world.remove_pod(&name);
    }
}

fn change_pod(world: &mut World, index: Index, change: &PodChange) {
    let names: Vec<_> = world.server.pods.keys().cloned().collect();
    if names.is_empty() {
        return;
    }
    let name = index.get(&names);
    let mut pod = world.server.pods[name].clone();
    match change {
        PodChange::Unready => pod.readiness = Readiness::NotReady,
        PodChange::Ready => pod.readiness = Readiness::ReadySince(world.now),
        PodChange::Fails => (pod.phase, pod.readiness) = (PodPhase::Failed, Readiness::NotReady),
        PodChange::Succeeds => {
            (pod.phase, pod.readiness) = (PodPhase::Succeeded, Readiness::NotReady)
        }
        PodChange::Terminates => pod.terminating = true,
        PodChange::IsDeleted => return world.remove_pod(name),
        PodChange::LeavesSelector => pod.labels = with_label(&pod.labels, "app", "other"),
        PodChange::Rejoins => pod.labels = with_label(&pod.labels, "app", "ds"),
        PodChange::LosesHash => pod.labels = with_label(&pod.labels, HASH_LABEL, "lost"),
    }
    world.put_pod(pod);
}

fn add_stray(world: &mut World, node: u8, number: u8, orphan: bool, hash: u8) {
    let name = format!("stray-{node}-{number}");
    let mut stray = pod(&name, &node_name(node));
    stray.uid = format!("{name}-{}", world.server.version).as_str().into();
    stray.labels = with_label(&stray.labels, HASH_LABEL, &format!("dup-{hash}"));
    stray.controller = stray.controller.filter(|_| !orphan);
    if !world.server.pods.contains_key(&stray.name) {
        world.put_pod(stray);
    }
}

/// Ends all faults, delays and a pause, makes all running pods ready, and waits until nothing
/// changes.
fn converge(world: &mut World) {
    world.faults.clear();
    world.change(|ds| ds.paused = false);
    world.deliver_delayed();
    for _ in 0..50 {
        world.settle_all_deadlines();
        let unready: Vec<_> = world
            .server
            .pods
            .values()
            .filter(|pod| pod.phase == PodPhase::Running && !pod.readiness.is_ready())
            .cloned()
            .collect();
        if unready.is_empty() {
            return;
        }
        for mut pod in unready {
            pod.readiness = Readiness::ReadySince(world.now);
            world.put_pod(pod);
        }
    }
    panic!("the cluster does not converge");
}

fn assert_converged(world: &World) {
    let placement = &world.server.daemon_set.template.placement;
    let pods = world.pods_by_node();
    let is_rolling = world.server.daemon_set.update_strategy != UpdateStrategy::OnDelete;
    let hash = current_hash(world);
    let mut eligible = BTreeSet::new();
    for (_, node) in world.nodes.iter() {
        let there = pods.get(&node.name).map_or(&[][..], Vec::as_slice);
        if everynode_core::placement::should_run(placement, node) {
            assert_eq!(there.len(), 1, "pods on {}", node.name);
            assert!(!is_rolling || there[0].revision_hash() == hash, "{} is old", there[0].name);
            eligible.insert(&node.name);
        } else if everynode_core::placement::should_continue_running(placement, node) {
            assert!(there.len() <= 1, "pods on {}", node.name);
        } else {
            assert!(there.is_empty(), "pods on {}", node.name);
        }
    }
    let status = &world.server.daemon_set.status;
    assert_eq!(status.desired_number_scheduled as usize, eligible.len());
    assert_eq!(status.number_available as usize, eligible.len());
    assert_eq!(status.number_unavailable, 0);
    assert_eq!(status.observed_generation, world.server.daemon_set.generation);
    let storing = world.server.revisions.values().filter(|revision| {
        revision.controller.is_some() && revision.stores(&world.server.daemon_set.template)
    });
    assert_eq!(storing.count(), 1, "one revision stores the template");
}

fn current_hash(world: &World) -> Option<everynode_core::api::RevisionHash> {
    let template = &world.server.daemon_set.template;
    let current = world.server.revisions.values().find(|revision| revision.stores(template));
    current.and_then(|revision| revision.hash())
}

/// The number of nodes without a ready pod.
fn unavailable(world: &World) -> usize {
    let pods = world.pods_by_node();
    let has_ready_pod = |name| {
        let there = pods.get(name).map_or(&[][..], Vec::as_slice);
        there.iter().any(|pod| pod.readiness.is_ready())
    };
    world.nodes.iter().filter(|(_, node)| !has_ready_pod(&node.name)).count()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// C23, C25, C34, C35, C60, C62: after events, faults, delays and restarts in any order there
    /// is one pod on each eligible node.
    #[test]
    fn any_history_ends_with_one_pod_on_each_eligible_node(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(daemon_set());
        for step in steps {
            apply(&mut world, step);
        }
        converge(&mut world);
        assert_converged(&world);
    }

    /// C34, C35, C51, C52, C53: a rollout that is interrupted in any way keeps its budget and never
    /// creates two new pods on a node.
    #[test]
    fn a_rollout_never_exceeds_its_budget(
        budget in 1u32..4,
        surges in any::<bool>(),
        steps in prop::collection::vec(
            prop_oneof![
                1 => (0u8..3).prop_map(Step::Template),
                1 => Just(Step::Restart),
                2 => Just(Step::Deliver),
                1 => kind().prop_map(Step::Delay),
                1 => verb().prop_map(Step::Fault),
                2 => no_response(),
                4 => Just(Step::Kubelets),
                8 => Just(Step::Sync),
            ],
            1..100,
        ),
    ) {
        let mut world = World::new(daemon_set());
        let strategy = if surges { Update::Surge } else { Update::Unavailable };
        let strategy = update_strategy(strategy(IntOrPercent::Int(budget)));
        world.change(|ds| ds.update_strategy = strategy);
        for number in 0..NODES {
            world.apply_node(node(&node_name(number)));
        }
        converge(&mut world);
        let budget = budget as usize;
        for step in steps {
            // If an old pod is not deleted, its node has two pods without a surge.
            let fails_to_delete =
                matches!(step, Step::Fault("delete pod") | Step::NoResponse("delete pod", false));
            if surges && fails_to_delete {
                continue;
            }
            apply(&mut world, step);
            let pods = world.pods_by_node();
            if surges {
                let is_surging = |pods: &&Vec<&Pod>| {
                    pods.len() == 2 && pods.iter().any(|pod| !pod.readiness.is_ready())
                };
                assert_eq!(unavailable(&world), 0);
                assert!(pods.values().all(|pods| pods.len() <= 2));
                assert!(pods.values().filter(is_surging).count() <= budget);
            } else {
                assert!(unavailable(&world) <= budget);
                assert!(pods.values().all(|pods| pods.len() <= 1));
            }
        }
        converge(&mut world);
        assert_converged(&world);
    }

    /// G1, G6: while a rollout is paused, no pod is replaced whatever the templates say, and a node
    /// without a pod gets no template that came after the pause.
    #[test]
    fn a_paused_rollout_replaces_nothing(
        before in prop::collection::vec(
            prop_oneof![
                2 => (0u8..4).prop_map(Step::Template),
                2 => (0..NODES).prop_map(Step::AddNode),
                1 => strategy().prop_map(Step::Strategy),
                4 => Just(Step::Kubelets),
                8 => Just(Step::Sync),
            ],
            1..60,
        ),
        while_paused in prop::collection::vec(
            prop_oneof![
                2 => (4u8..6).prop_map(Step::Template),
                1 => (0..NODES).prop_map(Step::AddNode),
                1 => strategy().prop_map(Step::Strategy),
                1 => any::<Index>().prop_map(|pod| Step::Pod(pod, PodChange::IsDeleted)),
                1 => any::<Index>().prop_map(|pod| Step::Pod(pod, PodChange::Unready)),
                1 => Just(Step::Restart),
                4 => Just(Step::Kubelets),
                8 => Just(Step::Sync),
            ],
            1..60,
        ),
    ) {
        let mut world = World::new(daemon_set());
        for step in before {
            apply(&mut world, step);
        }
        world.settle();
        // Only a rollout with one pod on each node: a second one is surplus, paused or not.
        converge(&mut world);
        world.change(|ds| ds.paused = true);
        world.sync();
        let known: BTreeSet<_> = world.server.pods.values().map(Pod::revision_hash).collect();
        for step in while_paused {
            let is_deletion = matches!(step, Step::Pod(_, PodChange::IsDeleted));
            // Nothing states what nodes without pods had: a restarted controller takes the target.
            if matches!(step, Step::Restart) && world.server.pods.is_empty() {
                break;
            }
            let is_restart = matches!(step, Step::Restart);
            let pods: BTreeSet<_> = world.server.pods.keys().cloned().collect();
            apply(&mut world, step);
            if is_restart {
                world.sync();
            }
            let lost = pods.iter().filter(|name| !world.server.pods.contains_key(*name)).count();
            prop_assert!(lost <= usize::from(is_deletion), "{lost} pods were replaced");
            prop_assert!(world.server.pods.values().all(|pod| !pod.terminating));
            let hashes = world.server.pods.values().map(Pod::revision_hash);
            for hash in hashes {
                prop_assert!(known.is_empty() || known.contains(&hash), "{hash:?} is new");
            }
        }
        converge(&mut world);
        assert_converged(&world);
    }

    /// C55: the same observations give the same plan.
    #[test]
    fn the_same_history_gives_the_same_plans(steps in prop::collection::vec(step(), 1..60)) {
        let run = || {
            let mut world = World::new(daemon_set());
            let mut plans = Vec::new();
            for step in steps.clone() {
                apply(&mut world, step);
                let plan = world.plan();
                let writes = plan.writes.iter().map(Write::to_string);
                plans.push(writes.collect::<Vec<_>>());
                world.perform(&plan);
            }
            plans
        };
        prop_assert_eq!(run(), run());
    }
}
