//! Guarded rollouts in fixed scenarios: where they end.

use everynode_sandbox::json::Value;
use everynode_sandbox::kind::{CONTROLLER_REVISION, POD};
use everynode_sim::scenario::{SCENARIOS, Scenario};
use everynode_sim::world::World;

pub(crate) fn scenario(name: &str) -> &'static Scenario {
    SCENARIOS.iter().find(|scenario| scenario.name == name).expect("the scenario exists")
}

/// The record of the newest revision.
pub(crate) fn record(world: &World) -> Value {
    let revisions = world.cluster.store().iter(&CONTROLLER_REVISION, None);
    let newest = revisions.max_by_key(|revision| revision.value()["revision"].as_i64());
    let record = newest.and_then(|newest| newest.annotation("everynode.dev/rollout"));
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
    let sorted: std::collections::BTreeSet<_> = pods.collect();
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
        ("guarded rollout with a node that fails later", "Complete", &["image:2"; 3][..]),
    ];
    for (name, phase, expected) in ends {
        let world = scenario(name).play(None, None);
        assert_eq!(world.violation, None, "{name}");
        assert_eq!(record(&world)["phase"], phase, "{name}");
        assert_eq!(images(&world), expected, "{name}");
    }
}
