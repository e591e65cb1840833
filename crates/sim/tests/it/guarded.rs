//! Guarded rollouts in fixed scenarios: where they end.

use everynode_core::api::RECORD_ANNOTATION;
use std::collections::BTreeSet;

use crate::scenario::{SCENARIOS, SPOILED_CONFIG_MAP, Scenario};
use everynode_sandbox::json::Value;
use everynode_sandbox::kinds::{CONFIG_MAP, CONTROLLER_REVISION, POD};
use everynode_sim::workload::NAMESPACE;
use everynode_sim::world::World;

pub(crate) fn scenario(name: &str) -> &'static Scenario {
    SCENARIOS.iter().find(|scenario| scenario.name == name).expect("the scenario exists")
}

/// The record of the newest revision.
pub(crate) fn record(world: &World) -> Value {
    let revisions = world.cluster.store().iter(&CONTROLLER_REVISION, None);
    let newest = revisions.max_by_key(|revision| revision.value()["revision"].as_i64());
    let record = newest.and_then(|newest| newest.annotation(RECORD_ANNOTATION));
    serde_json::from_str(record.unwrap_or("null")).expect("a record is JSON")
}

/// The images of all pods, in the order of their nodes.
pub(crate) fn images(world: &World) -> Vec<String> {
    let image = |pod: &Value| {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        (node, image.to_owned())
    };
    let pods = world.cluster.store().iter(&POD, None).map(|pod| image(pod.value()));
    let sorted: BTreeSet<_> = pods.collect();
    sorted.into_iter().map(|(_, image)| image).collect()
}

/// G11, G14, G15, G16, G33, G39–G42, G45: where the rollouts of the scenarios end.
#[test]
fn rollouts_end_as_their_records_say() {
    let ends = [
        ("guarded rollout", "Complete", &["image:2"; 3][..]),
        ("guarded rollout with surge", "Complete", &["image:2"; 3][..]),
        ("guarded rollout in windows", "Complete", &["image:2"; 3][..]),
        ("guarded rollout with a pace", "Complete", &["image:2"; 3][..]),
        ("guarded rollout that is aborted and retried", "Complete", &["image:2"; 3][..]),
        ("guarded rollout whose policy is removed", "Complete", &["image:2"; 3][..]),
        // Its pods come back while it is down, too: it is the last one to be replaced.
        ("guarded rollout with a node that is down", "Complete", &["image:2"; 3][..]),
        ("guarded rollout whose canary is drained", "Complete", &["image:2"; 3][..]),
        ("guarded rollout that loses its canary", "Complete", &["image:2"; 3][..]),
        ("guarded rollout with an outage", "Complete", &["image:2"; 3][..]),
        ("guarded rollout that goes back on all nodes", "Failed", &["image:1"; 3][..]),
        ("guarded rollout that goes back from unready pods", "Failed", &["image:1"; 3][..]),
        ("guarded rollout whose end is approved", "Complete", &["image:2"; 3][..]),
        ("guarded rollout that removes pods", "Complete", &["image:1"][..]),
        ("guarded rollout whose canary becomes unready", "Complete", &["image:2"; 3][..]),
        (SPOILED_CONFIG_MAP, "Failed", &["image:1"; 3][..]),
        ("guarded rollout of a corrected ConfigMap", "Complete", &["image:1"; 3][..]),
        ("guarded rollout with a node that fails later", "Complete", &["image:2"; 3][..]),
    ];
    for (name, phase, expected) in ends {
        let world = scenario(name).play(None, None);
        assert_eq!(world.violation, None, "{name}");
        assert_eq!(record(&world)["phase"], phase, "{name}");
        assert_eq!(images(&world), expected, "{name}");
    }
}

/// The content of the ConfigMap that a pod mounts.
pub(crate) fn content(world: &World, pod: &Value) -> String {
    let name = pod["spec"]["volumes"][0]["configMap"]["name"].as_str().unwrap_or_default();
    let map = world.cluster.store().find(&CONFIG_MAP, NAMESPACE, name);
    let number = map.map(|map| map.value()["data"]["n"].clone()).unwrap_or_default();
    number.as_str().unwrap_or_default().to_owned()
}

/// The contents of the ConfigMaps that all pods mount.
pub(crate) fn contents(world: &World) -> Vec<String> {
    let pods = world.cluster.store().iter(&POD, None);
    pods.map(|pod| content(world, pod.value())).collect()
}

/// G58: a bad content of a ConfigMap gets no further than to the canary, and going back restores
/// the content before; a correction is rolled out.
#[test]
fn a_bad_content_is_gone_back_from() {
    let world = scenario(SPOILED_CONFIG_MAP).play(None, None);
    assert_eq!(contents(&world), ["1"; 3]);
    assert_eq!(reached_by(&world, "2"), 1);
    let world = scenario("guarded rollout of a corrected ConfigMap").play(None, None);
    assert_eq!(contents(&world), ["3"; 3]);
}

/// The number of nodes that have ever had a pod with this content of its ConfigMap.
pub(crate) fn reached_by(world: &World, number: &str) -> usize {
    let changes = world.cluster.store().changes_since(&POD, 0, usize::MAX).expect("no compaction");
    let pods = changes.iter().map(|change| change.object.read());
    let reached = pods.filter(|pod| content(world, pod) == number);
    let nodes: BTreeSet<String> =
        reached.filter_map(|pod| pod["spec"]["nodeName"].as_str().map(ToOwned::to_owned)).collect();
    nodes.len()
}
