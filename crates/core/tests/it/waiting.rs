//! Waits: of a rollout for the watches (C56), of a creation for the end of its delay (C40).

use everynode_core::api::{Labels, Pod, Template};
use everynode_core::plan::Write;

use crate::support::{Kind, World, daemon_set, node};

const NODES: [&str; 3] = ["a", "b", "c"];

fn set_template(world: &mut World, text: &str) {
    world.change(|ds| ds.template = Template::new(text, (*ds.template.placement).clone()));
}

/// Syncs until the plan waits for a watch.
fn sync_until_waiting(world: &mut World) {
    for _ in 0..10 {
        if world.sync().waiting.is_some() {
            return;
        }
        world.kubelets();
    }
    panic!("nothing is waited for");
}

/// A world in which a rollout has deleted a pod that the watch of pods has yet to show as deleted,
/// and the pod as it was before.
fn delete_unseen() -> (World, Pod) {
    let mut world = World::new(daemon_set());
    NODES.into_iter().for_each(|name| world.apply_node(node(name)));
    world.settle();
    let pods = world.server.pods.clone();
    set_template(&mut world, "B");
    world.delay(Kind::Pods);
    let deleted = (0..10).flat_map(|_| world.sync().writes).find_map(|write| match write {
        Write::DeletePod(pod) => Some(pod.name),
        _ => None,
    });
    let pod = pods[&deleted.expect("one")].clone();
    (world, pod)
}

/// C56, C60: while the watch of any kind has yet to show a write, a rollout writes neither pods nor
/// revisions, and observedGeneration is not raised, even for a newer template. Then it continues.
#[test]
fn a_rollout_waits_for_the_watch_of_each_kind() {
    for kind in [Kind::DaemonSets, Kind::Pods, Kind::Revisions] {
        let mut world = World::new(daemon_set());
        NODES.into_iter().for_each(|name| world.apply_node(node(name)));
        world.settle();
        set_template(&mut world, "B");
        world.delay(kind);
        sync_until_waiting(&mut world);
        let observed = world.server.daemon_set.status.observed_generation;
        set_template(&mut world, "C");
        for _ in 0..10 {
            let plan = world.sync();
            let is_status = |write: &Write| matches!(write, Write::UpdateStatus { .. });
            assert!(plan.waiting.is_some(), "{kind:?}: {plan}");
            assert!(plan.writes.iter().all(is_status), "{kind:?}: {plan}");
            world.kubelets();
        }
        assert_eq!(world.server.daemon_set.status.observed_generation, observed, "{kind:?}");
        world.deliver_delayed();
        assert!(!world.settle().is_empty(), "{kind:?}: it continues");
        assert_eq!(world.state.counts().updated, NODES.len(), "{kind:?}");
        let daemon_set = &world.server.daemon_set;
        assert_eq!(daemon_set.status.observed_generation, daemon_set.generation, "{kind:?}");
    }
}

/// C40: a revision that somebody deletes right after its creation is created again, in whichever
/// order older ones are deleted.
#[test]
fn a_deleted_revision_is_created_again() {
    for newest_first in [false, true] {
        let mut world = World::new(daemon_set());
        world.settle();
        set_template(&mut world, "B");
        world.sync();
        let mut revisions: Vec<_> = world.server.revisions.values().cloned().collect();
        revisions
            .sort_by_key(|revision| if newest_first { -revision.number } else { revision.number });
        assert_eq!(revisions.len(), 2);
        for revision in revisions {
            world.remove_revision(&revision.name);
        }
        world.settle_all_deadlines();
        let template = &world.server.daemon_set.template;
        let mut stored = world.server.revisions.values();
        assert!(stored.any(|revision| revision.stores(template)), "newest first: {newest_first}");
    }
}

/// C60: a wait for a deletion also ends with a pod that lost its labels meanwhile: the version that
/// is terminating differs in nothing else, but a plan is due.
#[test]
fn a_wait_for_a_pod_that_lost_its_labels_ends() {
    let (mut world, pod) = delete_unseen();
    let relabelled = Pod { labels: Labels::default(), ..pod };
    assert!(world.state.apply_pod(&relabelled, &mut world.nodes));
    assert!(world.sync().waiting.is_some());
    let terminating = Pod { terminating: true, ..relabelled };
    assert!(world.state.apply_pod(&terminating, &mut world.nodes), "a plan is due");
    assert!(!world.state.apply_pod(&terminating, &mut world.nodes), "not twice");
}

/// C60: a pod that was deleted is seen as it was before, owned by another controller and then again
/// by this one. It is not taken for a running pod: its deletion is still awaited.
#[test]
fn a_wait_for_a_deletion_does_not_end_with_an_earlier_owner() {
    let (mut world, pod) = delete_unseen();
    let of_another = Pod { controller: Some("other".into()), ..pod.clone() };
    world.state.apply_pod(&of_another, &mut world.nodes);
    world.state.apply_pod(&pod, &mut world.nodes);
    let plan = world.sync();
    assert!(plan.waiting.is_some() && plan.writes.is_empty(), "{plan}");
    world.deliver_delayed();
    world.settle();
    assert_eq!(world.state.counts().updated, NODES.len());
}
