//! Guarded rollouts in fixed scenarios: where they end, and what that costs.

use everynode_sandbox::json::Value;
use everynode_sandbox::kind::{CONTROLLER_REVISION, POD};
use everynode_sim::scenario::{KILLER, SCENARIOS, Scenario, WAVES};
use everynode_sim::world::{InjectedFault, World};

/// Maximum number of writes of records for each wave, and for all other nodes.
const RECORDS_MAX: u64 = 4;

fn scenario(name: &str) -> &'static Scenario {
    SCENARIOS.iter().find(|scenario| scenario.name == name).expect("the scenario exists")
}

/// The record of the newest revision.
fn record(world: &World) -> Value {
    let revisions = world.cluster.store().iter(&CONTROLLER_REVISION, None);
    let newest = revisions.max_by_key(|revision| revision.value()["revision"].as_i64());
    let record = newest.and_then(|newest| newest.annotation("everynode.dev/rollout"));
    serde_json::from_str(record.unwrap_or("null")).expect("a record is JSON")
}

/// Whether the first template has been rolled out.
fn is_first_complete(world: &World) -> bool {
    let mut revisions = world.cluster.store().iter(&CONTROLLER_REVISION, None);
    revisions.any(|revision| {
        let record = revision.annotation("everynode.dev/rollout").unwrap_or_default();
        revision.value()["revision"] == 1 && record.contains("\"Complete\"")
    })
}

/// The images of all pods, in the order of their nodes.
fn images(world: &World) -> Vec<String> {
    let image = |pod: &Value| {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        (node, image.to_owned())
    };
    let pods = world.cluster.store().iter(&POD, None).map(|pod| image(pod.value()));
    let sorted: std::collections::BTreeSet<_> = pods.collect();
    sorted.into_iter().map(|(_, image)| image).collect()
}

/// G11, G15, G16: where the rollouts of the scenarios end.
#[test]
fn rollouts_end_as_their_records_say() {
    let ends = [
        ("guarded rollout", "Complete", ["image:2"; 3]),
        ("guarded rollout with surge", "Complete", ["image:2"; 3]),
        ("guarded rollout in windows", "Complete", ["image:2"; 3]),
        ("guarded rollout with a pace", "Complete", ["image:2"; 3]),
        ("guarded rollout that is aborted and retried", "Complete", ["image:2"; 3]),
        ("guarded rollout whose policy is removed", "Complete", ["image:2"; 3]),
        // Its pods come back while it is down, too: it is the last one to be replaced.
        ("guarded rollout with a node that is down", "Complete", ["image:2"; 3]),
    ];
    for (name, phase, expected) in ends {
        let world = scenario(name).play(None, None);
        assert_eq!(world.violation, None, "{name}");
        assert_eq!(record(&world)["phase"], phase, "{name}");
        assert_eq!(images(&world), expected, "{name}");
    }
}

/// G13 to G15: a template that stops the nodes on which it runs reaches as many as may be
/// unavailable and as may fail, wherever the leader crashes.
#[test]
fn a_template_that_stops_its_nodes_reaches_few() {
    let scenario = scenario(KILLER);
    let writes = scenario.play(None, None).writes;
    let mut judged = 0;
    for write in 0..=writes {
        let world = scenario.play(Some((write, InjectedFault::CrashLeader)), None);
        assert_eq!(world.violation, None, "after write {write}");
        if !is_first_complete(&world) {
            // The next template came first. Missing pods are created on all nodes.
            continue;
        }
        judged += 1;
        let reached = images(&world).iter().filter(|image| *image == "image:2").count();
        assert!(reached <= 2, "after write {write}: {:?}", images(&world));
        assert_eq!(record(&world)["phase"], "Failed", "after write {write}");
    }
    assert!(judged * 2 > writes, "{judged} of {writes}");
}

/// G9: a leader that crashes after any write of a guarded rollout repeats no wave: the records of
/// all leaders together are at most four for each wave.
#[test]
fn a_crash_repeats_no_wave() {
    let scenario = scenario("guarded rollout");
    let writes = scenario.play(None, None).writes;
    for write in 0..=writes {
        let world = scenario.play(Some((write, InjectedFault::CrashLeader)), None);
        assert_eq!(world.violation, None, "after write {write}");
        let records: u64 = world.checks.coverage.records.values().sum();
        assert!(records <= RECORDS_MAX * (WAVES + 1), "after write {write}: {records} records");
    }
}
