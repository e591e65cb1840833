//! Pods that are changed in place.

use everynode_core::api::CHANGING_ANNOTATION;
use everynode_insight::rollout::Rollout;
use everynode_insight::snapshot::ObjectKind;
use serde_json::json;

use crate::support::{Fixture, NOW, daemon_set, key, ready_pod, revision, with};

/// G56: a pod that is being changed in place is the cause, with what its kubelet says of the
/// resources; after ten minutes it is stuck.
#[test]
fn a_pod_that_is_changed_in_place_is_stuck_after_ten_minutes() {
    let describe = Some("kubectl -n infra describe pod agent-node-01");
    let no_room = "being changed in place, its node has no room for the new resources";
    let never = "its node can never have the new resources for it";
    let (recent, early) = ("2026-01-01T00:55:00Z", "2026-01-01T00:45:00Z");
    for (since, pending, text, next) in [
        (recent, None, "being changed in place", None),
        (early, None, "being changed in place for more than 10 min", describe),
        (recent, Some("Deferred"), no_room, None),
        (early, Some("Deferred"), no_room, describe),
        (recent, Some("Infeasible"), never, None),
        (early, Some("Infeasible"), never, describe),
    ] {
        let mut fixture = Fixture::with_nodes(1);
        fixture.run(&daemon_set("v1"), []);
        let changed = daemon_set("v2");
        fixture.add(ObjectKind::DaemonSet, &changed);
        fixture.add(ObjectKind::ControllerRevision, &revision(&changed, "new", 2));
        let stated = json!({ "to": "new", "since": since, "resizes": true }).to_string();
        let pod = with(ready_pod("node-01", "old"), |pod| {
            pod["metadata"]["annotations"] = json!({ CHANGING_ANNOTATION: stated });
            pod["metadata"]["generation"] = 2.into();
            pod["status"]["observedGeneration"] = 2.into();
            let condition =
                |reason| json!({ "type": "PodResizePending", "status": "True", "reason": reason });
            let conditions = pod["status"]["conditions"].as_array_mut().expect("a list");
            conditions.extend(pending.map(condition));
        });
        fixture.add(ObjectKind::Pod, &pod);
        let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
        let group = rollout.groups().remove(0);
        let expected = (text, next, next.is_some());
        let cause = &group.cause;
        assert_eq!((&*cause.text, cause.next.as_deref(), group.stuck), expected, "{since}");
    }
}
