//! Overviews of DaemonSets.

use std::time::Duration;

use crate::support::{
    Fixture, NOW, daemon_set, key, name_of_node, node, ready_pod, revision, waiting_pod, with,
};
use everynode_core::api::Timestamp;
use everynode_insight::overview::{Estimate, EstimateBasis, Overview, Progress};
use everynode_insight::rollout::Phase;
use everynode_insight::situation::Situation;
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use serde_json::{Value, json};

fn overview(fixture: &Fixture) -> Overview {
    Overview::of(&fixture.snapshot, &key(), NOW).expect("there is a DaemonSet")
}

fn status(desired: u32, updated: u32, available: u32) -> Value {
    json!({ "observedGeneration": 1,
        "desiredNumberScheduled": desired, "currentNumberScheduled": desired,
        "updatedNumberScheduled": updated, "numberReady": available,
        "numberAvailable": available, "numberMisscheduled": 0 })
}

/// Ten nodes in two zones; the first `updated` of them have the new revision, one every ten seconds
/// up to now.
fn rollout(updated: usize, strategy: &Value) -> Fixture {
    let mut fixture = Fixture { snapshot: Snapshot::default() };
    for number in 1..=10 {
        let zone = if number <= 4 { "a" } else { "b" };
        let node = with(node(&name_of_node(number)), |node| {
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone.into();
        });
        fixture.add(ObjectKind::Node, &node);
    }
    let old = daemon_set("agent:1");
    fixture.run(&old, updated + 1..=10);
    let new = with(daemon_set("agent:2"), |ds| {
        ds["spec"]["updateStrategy"] = strategy.clone();
        ds["status"] = status(10, updated as u32, 10);
    });
    fixture.add(ObjectKind::DaemonSet, &new);
    fixture.add(ObjectKind::ControllerRevision, &revision(&new, "new", 2));
    for number in 1..=updated {
        let ready_at = NOW - Duration::from_secs(10 * (updated - number) as u64);
        fixture.add(ObjectKind::Pod, &updated_pod(number, ready_at));
    }
    fixture
}

fn updated_pod(number: usize, ready_at: Timestamp) -> Value {
    // Within the hour before NOW.
    let seconds = 3600 - NOW.since(ready_at).as_secs();
    let time = |seconds: u64| format!("2026-01-01T00:{:02}:{:02}Z", seconds / 60, seconds % 60);
    let text = if seconds == 3600 { "2026-01-01T01:00:00Z".to_owned() } else { time(seconds) };
    with(ready_pod(&name_of_node(number), "new"), |pod| {
        pod["metadata"]["creationTimestamp"] = time(seconds - 8).into();
        pod["status"]["conditions"][0]["lastTransitionTime"] = text.into();
    })
}

fn one_at_a_time() -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } })
}

#[test]
fn nodes_are_grouped_by_zone_and_pods_counted_by_revision() {
    let overview = overview(&rollout(6, &one_at_a_time()));
    let zones: Vec<_> =
        overview.zones.iter().map(|zone| (zone.name.as_deref(), zone.nodes.clone())).collect();
    use Situation::{Outdated, UpToDate};
    assert_eq!(
        zones,
        [
            (Some("a"), vec![UpToDate; 4]),
            (Some("b"), [vec![UpToDate; 2], vec![Outdated; 4]].concat())
        ]
    );
    let revisions: Vec<_> = overview
        .revisions
        .iter()
        .map(|it| (it.number, it.hash.as_str(), it.is_current, it.pods, it.available))
        .collect();
    assert_eq!(revisions, [(Some(2), "new", true, 6, 6), (Some(1), "old", false, 4, 4)]);
    let expected = Progress { desired: 10, updated: 6, ready: 10, available: 10, done: 6 };
    assert_eq!((overview.phase, overview.progress), (Phase::Progressing, expected));
}

#[test]
fn the_end_is_estimated_from_the_recent_pace() {
    let pace = Estimate::In { seconds: 40, basis: EstimateBasis::Pace { nodes: 5, seconds: 50 } };
    assert_eq!(overview(&rollout(6, &one_at_a_time())).estimate, pace);
}

#[test]
fn without_a_pace_the_end_is_estimated_from_start_up_times() {
    let start_up = EstimateBasis::StartUp { seconds: 8 };
    for (max_unavailable, seconds) in [(json!(1), 80), (json!("50%"), 16), (json!(3), 32)] {
        let rolling_update = json!({ "maxUnavailable": max_unavailable });
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": rolling_update });
        let estimate = overview(&rollout(0, &strategy)).estimate;
        assert_eq!(estimate, Estimate::In { seconds, basis: start_up }, "{max_unavailable}");
    }
}

#[test]
fn a_failing_pod_that_uses_up_the_budget_blocks_the_rollout() {
    let mut fixture = rollout(6, &one_at_a_time());
    let failing = waiting_pod(&name_of_node(7), "new", "CrashLoopBackOff", "back-off 40s");
    fixture.add(ObjectKind::Pod, &failing);
    let seen = overview(&fixture);
    assert_eq!((seen.phase, seen.estimate), (Phase::Failing, Estimate::Blocked));
    let first = &seen.held_up[0];
    assert_eq!((first.situation, first.count), (Situation::Failing, 1));
    assert_eq!(first.nodes, ["node-07"]);
    assert!(first.why.starts_with("CrashLoopBackOff of container agent"), "{}", first.why);
}

#[test]
fn with_on_delete_the_rollout_awaits_deletion() {
    let overview = overview(&rollout(6, &json!({ "type": "OnDelete" })));
    assert_eq!(overview.estimate, Estimate::AwaitsDeletion);
    assert_eq!((overview.held_up.len(), overview.held_up[0].count), (1, 4));
}

#[test]
fn a_rollout_that_is_done_has_nothing_left() {
    let mut fixture = rollout(10, &one_at_a_time());
    let seen = overview(&fixture);
    assert_eq!((seen.phase, seen.estimate), (Phase::Done, Estimate::Done));
    assert_eq!((seen.held_up.len(), seen.progress.done), (0, 10));
    fixture.snapshot.remove(ObjectKind::DaemonSet, "infra", "agent");
    assert_eq!(Overview::of(&fixture.snapshot, &key(), NOW), None);
}

/// A user who may read the DaemonSet and its pods, but not nodes, still gets progress and causes.
#[test]
fn without_nodes_the_status_and_the_pods_are_reported() {
    let mut fixture = rollout(6, &one_at_a_time());
    let failing = waiting_pod(&name_of_node(7), "new", "CrashLoopBackOff", "back-off 40s");
    fixture.add(ObjectKind::Pod, &failing);
    fixture.snapshot.nodes.clear();
    let seen = overview(&fixture);
    assert_eq!((seen.progress.desired, seen.progress.updated), (10, 6));
    assert_eq!(seen.zones, []);
    let held_up: Vec<_> = seen.held_up.iter().map(|it| (it.situation, it.count)).collect();
    assert_eq!(held_up, [(Situation::Failing, 1), (Situation::Outdated, 3)]);
}
