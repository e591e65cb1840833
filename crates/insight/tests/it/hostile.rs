//! Objects in which some values are not those that any component would write. Whoever may write the
//! status of a pod or a node can send them.

use everynode_core::api::{DaemonSetKey, Timestamp};
use everynode_insight::course::Course;
use everynode_insight::events::own_events;
use everynode_insight::explain::{explain, explain_node};
use everynode_insight::forecast::{Proposal, forecast};
use everynode_insight::overview::Overview;
use everynode_insight::rollout::Rollout;
use everynode_insight::rollout_nodes::RolloutNodes;
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use everynode_insight::suggestion::Suggestion;
use everynode_k8s::convert;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use crate::support::{NOW, daemon_set, key, node, pod, ready_pod, revision, waiting_pod, with};

const TIMES: [&str; 8] = [
    "0001-01-01T00:00:00Z",
    "1677-09-21T00:12:43Z",
    "1970-01-01T00:00:00Z",
    "2026-01-01T00:59:59.999999999Z",
    "2026-01-01T01:00:01Z",
    "2262-04-11T23:47:17Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
];
const NUMBERS: [i64; 9] = [
    0,
    1,
    -1,
    i32::MAX as i64,
    i32::MIN as i64,
    u32::MAX as i64,
    i64::MAX,
    i64::MIN,
    i64::MAX / 1000,
];
const TEXTS: [&str; 12] = [
    "",
    "True",
    "Unknown",
    "node-01",
    "9223372036854775807",
    "8Ei",
    "100%",
    "2562047h47m16s",
    "\u{1b}[31m\u{202e}\n",
    "{\"a\":",
    "old",
    "🦀",
];

const TIME: &str = "2026-01-01T00:30:00Z";

/// A rollout of three nodes in a wave, with each optional field that an answer reads.
fn objects() -> Vec<(ObjectKind, Value)> {
    let mut objects = daemon_set_with_revisions();
    objects.extend(pods().map(|pod| (ObjectKind::Pod, pod)));
    objects.extend(nodes().map(|node| (ObjectKind::Node, node)));
    objects.push((ObjectKind::Event, event("DaemonSet", "agent")));
    objects.push((ObjectKind::PodWarning, event("Pod", "agent-node-01")));
    objects
}

fn daemon_set_with_revisions() -> Vec<(ObjectKind, Value)> {
    let policy = json!({
        "steps": [{ "name": "canary", "upTo": [1], "bake": "2h" }, { "name": "rest" }],
        "maxUnavailable": 2, "failure": { "maxNodes": 2, "readyWithin": "5m", "maxRestarts": 1 },
    });
    let new = with(daemon_set("agent:2"), |ds| {
        ds["metadata"]["annotations"] = json!({
            "everynode.dev/rollout-policy": policy.to_string(), "everynode.dev/hold": "",
            "everynode.dev/order": "zone", "everynode.dev/paused": "false" });
        ds["spec"]["minReadySeconds"] = 10.into();
        let spec = &mut ds["spec"]["template"]["spec"];
        spec["terminationGracePeriodSeconds"] = 30.into();
        spec["containers"][0]["resources"] =
            json!({ "requests": { "cpu": "100m", "memory": "64Mi" } });
        ds["status"] = json!({ "observedGeneration": 1, "desiredNumberScheduled": 3,
            "currentNumberScheduled": 3, "updatedNumberScheduled": 1, "numberReady": 2,
            "numberAvailable": 2, "numberUnavailable": 1, "numberMisscheduled": 0,
            "collisionCount": 1,
            "conditions": [{ "type": "Progressing", "status": "True", "reason": "Updating",
                "message": "", "lastTransitionTime": TIME }] });
    });
    let recorded = |of: &Value, hash: &str, number: i64, phase: &str, wave: Value| {
        let record = json!({ "revision": format!("agent-{hash}"), "phase": phase, "wave": wave,
            "began": TIME, "since": TIME, "steps": "x" });
        let annotations = json!({ "everynode.dev/rollout": record.to_string() });
        let revision = revision(of, hash, number);
        (
            ObjectKind::ControllerRevision,
            with(revision, |it| {
                it["metadata"]["annotations"] = annotations;
            }),
        )
    };
    let wave = json!({ "step": 0, "group": "", "size": 0 });
    let old = recorded(&daemon_set("agent:1"), "old", 1, "Complete", Value::Null);
    let current = recorded(&new, "new", 2, "Updating", wave);
    vec![(ObjectKind::DaemonSet, new), old, current]
}

/// A pod that crashes, one that ends, and one that preempts others.
fn pods() -> [Value; 3] {
    let crashes = with(waiting_pod("node-01", "new", "CrashLoopBackOff", "b"), |pod| {
        let ended = json!({ "reason": "Error", "exitCode": 1, "signal": 9, "startedAt": TIME,
            "finishedAt": TIME });
        let status = &mut pod["status"];
        status["containerStatuses"][0]["lastState"]["terminated"] = ended.clone();
        status["initContainerStatuses"] = json!([{ "name": "init", "restartCount": 1,
            "ready": false, "state": { "terminated": ended } }]);
        status["startTime"] = TIME.into();
        status["conditions"] = json!([
            { "type": "Ready", "status": "False", "lastTransitionTime": TIME },
            { "type": "PodScheduled", "status": "True", "lastTransitionTime": TIME },
        ]);
    });
    let ends = with(ready_pod("node-02", "old"), |pod| {
        pod["metadata"]["deletionTimestamp"] = TIME.into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    });
    let status = json!({ "phase": "Pending", "nominatedNodeName": "node-03", "conditions": [
        { "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes: 1 too full", "lastTransitionTime": TIME }] });
    let preempts = with(pod("node-03", "old", status), |pod| {
        pod["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "1" } });
    });
    [crashes, ends, preempts]
}

fn nodes() -> [Value; 3] {
    [("node-01", "True"), ("node-02", "Unknown"), ("node-03", "False")].map(|(name, status)| {
        with(node(name), |node| {
            node["metadata"]["creationTimestamp"] = TIME.into();
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "a".into();
            node["spec"] =
                json!({ "taints": [{ "key": "a", "effect": "NoSchedule", "timeAdded": TIME }] });
            node["status"]["conditions"][0] = json!({ "type": "Ready", "status": status,
                "lastTransitionTime": TIME, "lastHeartbeatTime": TIME });
        })
    })
}

fn event(kind: &str, name: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "infra" },
        "involvedObject": { "kind": kind, "name": name, "namespace": "infra", "uid": "ds" },
        "type": "Warning", "reason": "FailedCreate", "message": "exceeded quota", "count": 3,
        "firstTimestamp": TIME, "lastTimestamp": TIME, "eventTime": TIME,
        "series": { "count": 2, "lastObservedTime": TIME } })
}

/// The values of an object that are neither lists nor objects.
fn leaves<'a>(value: &'a mut Value, found: &mut Vec<&'a mut Value>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| leaves(item, found)),
        Value::Object(fields) => fields.values_mut().for_each(|field| leaves(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => found.push(value),
    }
}

fn hostile() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => select(&TIMES[..]).prop_map(Value::from),
        4 => select(&NUMBERS[..]).prop_map(Value::from),
        2 => select(&TEXTS[..]).prop_map(Value::from),
        1 => select(vec![json!(null), json!(1e300), json!(true), json!([]), json!({}),
            json!(u64::MAX)]),
    ]
}

/// Asks for every answer, in every form.
fn ask_everything(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) {
    let text = |it: &dyn std::fmt::Debug| drop(format!("{it:?}"));
    let rollout = Rollout::of(snapshot, key, now);
    rollout.iter().for_each(|rollout| text(&rollout.groups()));
    text(&rollout);
    text(&Overview::of(snapshot, key, now));
    text(&explain(snapshot, key, now));
    snapshot.nodes.keys().for_each(|node| text(&explain_node(snapshot, key, node, now)));
    text(&RolloutNodes::of(snapshot, key, now, true));
    text(&Course::of(snapshot, key, now));
    own_events(snapshot, key, now, 9).iter().for_each(|event| text(event));
    let Some(object) = snapshot.daemon_sets.get(key) else { return };
    if let Ok(suggestion) = Suggestion::new(snapshot, object, Vec::new(), now) {
        text(&suggestion.manifest());
    }
    let object = convert::daemon_set(daemon_set("agent:3").to_string().as_bytes(), None);
    let proposal = Proposal {
        object: object.expect("it is a DaemonSet"),
        changes: Some(Vec::new()),
        knows_room: true,
        start_up: None,
    };
    text(&forecast(snapshot, &proposal, now));
}

proptest! {
    /// C46: no value of an object keeps answers from being given.
    #[test]
    fn hostile_values_end_no_answer(
        changes in prop::collection::vec((any::<Index>(), any::<Index>(), hostile()), 1..6),
        late in any::<bool>(),
    ) {
        let mut objects = objects();
        for (object, leaf, value) in changes {
            let chosen = object.index(objects.len());
            let (_, object) = &mut objects[chosen];
            let mut found = Vec::new();
            leaves(object, &mut found);
            let chosen = leaf.index(found.len());
            *found[chosen] = value;
        }
        let mut snapshot = Snapshot::default();
        for (kind, object) in &objects {
            snapshot.add(*kind, object.to_string().as_bytes());
        }
        let now = if late { Timestamp(i64::MAX / 2) } else { NOW };
        ask_everything(&snapshot, &key(), now);
    }
}
