//! The cost of a sync, in assessed slots: it is proportional to the number of changes (C80, C81).

use std::time::Duration;

use crate::support::{World, daemon_set, node, with_label};
use everynode_core::api::{IntOrPercent, Labels, PodPhase, Readiness, Template, UpdateStrategy};
use everynode_core::daemon_set::Config;

const NODES: u64 = 2_000;

fn world_of_nodes() -> World {
    let mut world = World::new(daemon_set());
    world.recounts = false;
    for number in 0..NODES {
        world.apply_node(node(&format!("node-{number:05}")));
    }
    world
}

fn settled_world() -> World {
    let mut world = world_of_nodes();
    world.settle();
    assert_eq!(world.state.counts().available, 2_000);
    world
}

fn cost_of(world: &mut World, change: impl FnOnce(&mut World)) -> u64 {
    let before = world.state.slots_assessed();
    change(world);
    world.settle();
    world.state.slots_assessed() - before
}

/// C80: a change of a pod or a node costs one assessment, a heartbeat none.
#[test]
fn an_event_costs_the_slot_that_it_changes() {
    let mut world = settled_world();
    let cost = cost_of(&mut world, |world| {
        let mut pod = world.server.pods.values().next().expect("a pod").clone();
        pod.readiness = Readiness::NotReady;
        world.put_pod(pod);
    });
    assert_eq!(cost, 1);
    assert_eq!(cost_of(&mut world, |world| world.apply_node(node("node-00000"))), 0, "a heartbeat");
    let mut labelled = node("node-00001");
    labelled.labels = with_label(&Labels::default(), "seen", "yes");
    assert_eq!(
        cost_of(&mut world, |world| world.apply_node(labelled)),
        0,
        "a label that placement does not read"
    );
    assert_eq!(cost_of(&mut world, |world| world.delete_node("node-00002")), 1);
}

/// C54: a wall clock that is set makes pods available that are available by the new time, and
/// others unavailable; a pod that was seen ready before is available no later for it.
#[test]
fn a_wall_clock_that_is_set_changes_which_pods_are_available() {
    let mut world = World::new(daemon_set());
    world.apply_node(node("node"));
    world.change(|ds| ds.min_ready_seconds = 60);
    world.settle();
    let mut pod = world.server.pods.values().next().expect("a pod").clone();
    pod.readiness = Readiness::ReadySince(world.now);
    world.put_pod(pod);
    let available_after = |world: &mut World, seconds: u64, wall_ahead_seconds: i64| {
        world.now = world.now + Duration::from_secs(seconds);
        world.wall_ahead_ms = wall_ahead_seconds * 1000;
        world.settle();
        world.state.counts().available
    };
    assert_eq!(available_after(&mut world, 0, 60), 1, "ahead by a minute");
    assert_eq!(available_after(&mut world, 1, 0), 0, "59 s are left");
    assert_eq!(available_after(&mut world, 58, -3600), 0, "1 s is left since the pod was seen");
    assert_eq!(available_after(&mut world, 1, -3600), 1);
    let mut pod = world.server.pods.values().next().expect("a pod").clone();
    pod.readiness = Readiness::ReadySince(world.now);
    world.put_pod(pod);
    assert_eq!(available_after(&mut world, 0, -3600), 0, "seen while the clock is behind");
    assert_eq!(available_after(&mut world, 59, 0), 0, "1 s is left");
    assert_eq!(available_after(&mut world, 1, 0), 1);
}

/// C80, C81: a rollout of one node at a time costs one pass at its start, and then a few slots per
/// pod.
#[test]
fn a_rollout_costs_in_proportion_to_the_nodes() {
    let mut world = settled_world();
    let cost = cost_of(&mut world, |world| {
        world.change(|ds| ds.template = Template::new("B", (*ds.template.placement).clone()));
    });
    assert_eq!(world.state.counts().updated, 2_000);
    // Four events for each node (terminating, deleted, created, ready), and the pass.
    assert!(cost <= 5 * NODES, "{cost} assessments");
}

/// C81: a change of the template or of its placement costs one pass over the nodes, if no pod is
/// replaced; one of the strategy, too.
#[test]
fn a_template_change_costs_one_pass() {
    let mut world = settled_world();
    let cost = cost_of(&mut world, |world| {
        world.change(|ds| ds.update_strategy = UpdateStrategy::OnDelete);
    });
    assert_eq!(cost, NODES, "the strategy");
    let cost = cost_of(&mut world, |world| {
        world.change(|ds| ds.template = Template::new("B", (*ds.template.placement).clone()));
    });
    assert_eq!(cost, NODES, "the template");
    assert_eq!(world.state.counts().updated, 0);
    let cost = cost_of(&mut world, |world| {
        world.change(|ds| {
            let mut placement = (*ds.template.placement).clone();
            placement.host_network = !placement.host_network;
            ds.template = Template::new("B", placement);
        });
    });
    assert_eq!(cost, NODES, "the placement");
}

/// C54, C80: a pod is assessed once more when minReadySeconds have passed.
#[test]
fn an_expired_timer_costs_one_slot() {
    let mut world = world_of_nodes();
    world.change(|ds| ds.min_ready_seconds = 30);
    world.settle();
    let before = world.state.slots_assessed();
    world.settle_all_deadlines();
    assert_eq!(world.state.counts().available, 2_000);
    assert_eq!(world.state.slots_assessed() - before, NODES);
}

/// C70, C80: changing counts are written at most once per interval, and finally with their last
/// values; a new observed generation and the end of a rollout are written at once.
#[test]
fn changing_counts_are_written_once_per_interval() {
    let status_interval = Duration::from_millis(100);
    let mut world =
        World::with_config(Config { status_interval, ..Config::default() }, daemon_set());
    for number in 0..50 {
        world.apply_node(node(&format!("node-{number:05}")));
    }
    world.settle_all_deadlines();
    assert_eq!(world.server.daemon_set.status.number_available, 50);
    world.advance(status_interval);
    world.change(|ds| ds.template = Template::new("B", (*ds.template.placement).clone()));
    let plans = world.settle();
    let statuses = plans.iter().filter_map(|plan| plan.summary().get("update status").copied());
    // One for the new generation, one for the first change, and one when all pods are replaced,
    // which is within the interval.
    assert!(statuses.sum::<usize>() <= 3, "{plans:?}");
    let status = &world.server.daemon_set.status;
    assert_eq!(status.observed_generation, world.server.daemon_set.generation);
    assert_eq!(world.server.daemon_set.status.updated_number_scheduled, 50);
    assert_eq!(world.server.daemon_set.status.number_available, 50);
    let pod = world.server.pods.keys().next().expect("a pod").clone();
    world.remove_pod(&pod);
    assert_eq!(world.sync().summary().get("update status"), None);
    world.advance(status_interval);
    assert_eq!(world.sync().summary().get("update status"), Some(&1));
    assert_eq!(world.server.daemon_set.status.number_available, 49);
    world.settle_all_deadlines();
    assert_eq!(world.server.daemon_set.status.number_available, 50);
}

/// C28, C80: each plan creates as many pods as the limit allows.
#[test]
fn a_plan_costs_what_it_writes() {
    let mut world = world_of_nodes();
    world.sync();
    for _ in 0..8 {
        assert_eq!(world.sync().summary().get("create pod"), Some(&250));
    }
    assert_eq!(world.sync().summary().get("create pod"), None);
}

/// C52, C80: maxUnavailable is never exceeded in a large cluster.
#[test]
fn a_rollout_by_percentage_keeps_its_budget() {
    let mut world = settled_world();
    world.change(|ds| {
        ds.template = Template::new("B", (*ds.template.placement).clone());
        ds.update_strategy = UpdateStrategy::RollingUpdate {
            max_unavailable: IntOrPercent::Percent(1),
            max_surge: IntOrPercent::Int(0),
        };
    });
    loop {
        let plan = world.sync();
        let running = world.server.pods.values().filter(|pod| {
            pod.phase == PodPhase::Running && !pod.terminating && pod.readiness.is_ready()
        });
        assert!(running.count() >= 1_980, "{plan}");
        if plan.writes.is_empty() && !world.kubelets() {
            break;
        }
    }
    assert_eq!(world.state.counts().updated, 2_000);
}
