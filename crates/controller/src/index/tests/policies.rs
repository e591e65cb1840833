//! Which DaemonSets a policy object concerns, and what its status says.

use everynode_core::api::{Now, PolicySource};
use everynode_k8s::convert::PolicyObject;
use everynode_k8s::policy_status::{PolicyCondition, PolicyStatus};

use super::*;

fn policy(namespace: Option<&str>, name: &str, spec: Value) -> PolicyObject {
    let uid = format!("uid-{name}");
    let metadata = json!({ "name": name, "namespace": namespace, "uid": uid, "generation": 4 });
    convert::policy_object(json!({ "metadata": metadata, "spec": spec }).to_string().as_bytes())
        .unwrap()
}

fn named(name: &str) -> Value {
    json!({ "daemonSets": { "name": name }, "maxUnavailable": 1 })
}

fn all(namespaces: Value) -> Value {
    json!({ "daemonSets": { "selector": {} }, "namespaces": namespaces, "maxUnavailable": 2 })
}

fn key(name: &str) -> DaemonSetKey {
    DaemonSetKey::new("ns", name)
}

fn source<'a>(index: &'a Index, name: &str) -> &'a PolicySource {
    &index.state(&key(name)).unwrap().daemon_set().policy
}

fn guards(index: &Index, name: &str) -> Option<String> {
    source(index, name).valid().and_then(|policy| Some(policy.max_unavailable?.to_string()))
}

/// G4: a change of a policy object concerns the DaemonSets that it selects or selected, and no
/// other; a change of its status concerns none.
#[test]
fn a_policy_concerns_the_daemon_sets_that_it_selects() {
    let mut index = index(vec![]);
    let of_a = policy(Some("ns"), "p", named("a"));
    let apply = |index: &mut Index, object: &PolicyObject, at| {
        changed(&index.observe(Observation::RolloutPolicy(applied(object.clone(), at))))
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(apply(&mut index, &of_a, 2), ["a"]);
    assert_eq!((guards(&index, "a").as_deref(), guards(&index, "b")), (Some("1"), None));
    let mut stated = of_a.clone();
    stated.status.observed_generation = 4;
    assert!(apply(&mut index, &stated, 3).is_empty());
    assert_eq!(apply(&mut index, &policy(Some("ns"), "p", named("b")), 4), ["a", "b"]);
    assert_eq!((guards(&index, "a"), guards(&index, "b").as_deref()), (None, Some("1")));
    let elsewhere = policy(Some("other"), "p", named("a"));
    assert!(apply(&mut index, &elsewhere, 5).is_empty());
    let of_cluster = policy(None, "p", all(Value::Null));
    let change = Observation::ClusterRolloutPolicy(applied(of_cluster, 6));
    assert_eq!(changed(&index.observe(change)), ["a"], "b follows the one of its namespace");
    let gone = Change::Deleted { item: policy(Some("ns"), "p", named("b")), version: version(7) };
    assert_eq!(changed(&index.observe(Observation::RolloutPolicy(gone))), ["b"]);
    assert_eq!(guards(&index, "b").as_deref(), Some("2"));
    assert_eq!(
        changed(&index.observe(Observation::ClusterRolloutPolicy(reset(vec![], 8)))).len(),
        2
    );
    assert_eq!(
        (source(&index, "a"), source(&index, "b")),
        (&PolicySource::None, &PolicySource::None)
    );
}

/// G4: a DaemonSet that comes later, or has new labels, follows the policies that are there.
#[test]
fn a_later_daemon_set_follows_the_policies() {
    let mut index = index(vec![]);
    let labelled = json!({ "daemonSets": { "selector": { "matchLabels": { "tier": "x" } } },
        "maxUnavailable": 3 });
    let object = policy(Some("ns"), "p", labelled);
    index.observe(Observation::RolloutPolicy(applied(object, 2)));
    let mut a = daemon_set("a", "a");
    a.raw =
        Arc::new(RawDaemonSet { labels: Labels::from_iter([("tier", "x")]), ..(*a.raw).clone() });
    a.daemon_set.resource_version = version(3);
    assert_eq!(changed(&index.observe(Observation::DaemonSet(applied(a, 3)))), ["a"]);
    assert_eq!(guards(&index, "a").as_deref(), Some("3"));
    let mut plain = daemon_set("a", "a");
    plain.daemon_set.resource_version = version(4);
    index.observe(Observation::DaemonSet(applied(plain, 4)));
    assert_eq!(source(&index, "a"), &PolicySource::None);
}

/// G4, G7: what a policy with a selector of namespaces selects depends on their labels; while those
/// are not known, it holds what it may select.
#[test]
fn labels_of_namespaces_decide_what_a_policy_selects() {
    let mut index = index(vec![]);
    assert!(!index.needs_namespaces());
    let spec = all(json!({ "matchLabels": { "team": "x" } }));
    index.observe(Observation::ClusterRolloutPolicy(applied(policy(None, "p", spec), 2)));
    assert!(index.needs_namespaces());
    assert!(matches!(source(&index, "a"), PolicySource::Invalid(_)));
    let namespace = |team: &str| NamespaceObject {
        name: "ns".into(),
        labels: Labels::from_iter([("team", team)]),
        node_selector: NamespaceNodeSelector::default(),
    };
    let observe = |index: &mut Index, team, at| {
        index.observe(Observation::Namespace(applied(namespace(team), at))).changed.len()
    };
    assert_eq!(observe(&mut index, "x", 3), 2);
    assert_eq!(guards(&index, "a").as_deref(), Some("2"));
    let planned = index.plan(&key("a"), Timestamp(0)).unwrap().plan;
    let problems = planned.notices.iter().filter(|n| matches!(n, Notice::Problem(_)));
    assert_eq!(problems.count(), 0, "no plan was made while labels were not known");
    assert_eq!(observe(&mut index, "x", 4), 0);
    assert_eq!(observe(&mut index, "y", 5), 2);
    assert_eq!(source(&index, "a"), &PolicySource::None);
}

/// The status to write, as it is stored then.
fn status(index: &mut Index, object: &mut PolicyObject, at: i64) -> Option<PolicyStatus> {
    let now = Now { steady: Timestamp::from_seconds(at), wall_ahead_ms: 0 };
    for name in ["a", "b"] {
        index.plan(&key(name), now);
    }
    let write = index.policy_status(&object.reference, now)?;
    assert_eq!(write.uid, object.uid);
    object.status = write.status.clone();
    index.observe(Observation::RolloutPolicy(applied(object.clone(), 100 + at as u64)));
    Some(write.status)
}

fn stated(status: &PolicyStatus) -> Vec<String> {
    let condition =
        |c: &PolicyCondition| format!("{} {} {}: {}", c.r#type, c.status, c.reason, c.message);
    let line =
        |d: &everynode_k8s::policy_status::GovernedDaemonSet| format!("{} {}", d.name, d.phase);
    let conditions = status.conditions.iter().map(condition);
    conditions.chain(status.daemon_sets.iter().map(line)).collect()
}

/// G21: the status of a policy states whether it counts and where each rollout is, and is written
/// when one of these changes.
#[test]
fn the_status_of_a_policy_is_written_at_transitions() {
    let mut index = index(vec![]);
    let mut object = policy(Some("ns"), "p", named("a"));
    index.observe(Observation::RolloutPolicy(applied(object.clone(), 2)));
    assert_eq!(index.take_changed_policies().len(), 1);
    let early = Now { steady: Timestamp(0), wall_ahead_ms: 0 };
    assert_eq!(index.policy_status(&object.reference, early), None, "before the first plan");
    let first = status(&mut index, &mut object, 60).expect("a status");
    assert_eq!(
        stated(&first),
        [
            "Ready True Valid: it governs 1 DaemonSet",
            "Stalled False Progressing: no rollout has failed or is held",
            "a Updating"
        ]
    );
    assert_eq!((first.observed_generation, first.daemon_set_count), (4, 1));
    assert_eq!(first.conditions[0].last_transition_time, "1970-01-01T00:01:00Z");
    index.take_changed_policies();
    assert_eq!(status(&mut index, &mut object, 61), None);
    let mut other = policy(Some("ns"), "q", named("a"));
    index.observe(Observation::RolloutPolicy(applied(other.clone(), 200)));
    assert_eq!(index.take_changed_policies().len(), 2, "both are in conflict");
    let second = status(&mut index, &mut object, 120).expect("a status");
    assert_eq!(
        stated(&second),
        [
            "Ready False Conflict: RolloutPolicy ns/q selects daemonset ns/a as well",
            "Stalled True Conflict: RolloutPolicy ns/q selects daemonset ns/a as well",
            "a InvalidPolicy"
        ]
    );
    assert_eq!(second.conditions[0].last_transition_time, "1970-01-01T00:02:00Z");
    assert!(status(&mut index, &mut other, 121).is_some());
    let gone = Change::Deleted { item: other, version: version(400) };
    index.observe(Observation::RolloutPolicy(gone));
    assert_eq!(stated(&status(&mut index, &mut object, 180).expect("a status")), stated(&first));
    let deleted = Change::Deleted { item: daemon_set("a", "a"), version: version(9) };
    index.observe(Observation::DaemonSet(deleted));
    let last = status(&mut index, &mut object, 240).expect("a status");
    assert_eq!(stated(&last)[0], "Ready True Valid: no DaemonSet is selected");
}

/// G7, G21: an invalid policy holds what it selects, and says why.
#[test]
fn an_invalid_policy_says_why() {
    let mut index = index(vec![]);
    let mut spec = named("a");
    spec["steps"] = json!([{ "name": "canary", "aproval": true }]);
    let mut object = policy(Some("ns"), "p", spec);
    index.observe(Observation::RolloutPolicy(applied(object.clone(), 2)));
    let PolicySource::Invalid(why) = source(&index, "a").clone() else { panic!("it is valid") };
    assert_eq!(&*why, "RolloutPolicy ns/p: spec.steps[0].aproval: unknown field");
    let status = status(&mut index, &mut object, 60).expect("a status");
    assert_eq!(
        stated(&status),
        [
            "Ready False Invalid: spec.steps[0].aproval: unknown field",
            "Stalled True Invalid: spec.steps[0].aproval: unknown field",
            "a InvalidPolicy"
        ]
    );
    let planned = index.plan(&key("a"), Timestamp(70_000)).unwrap().plan;
    assert!(planned.notices.is_empty(), "it was reported by the first plan");
}

/// G32: the status has the nodes by their state. A change of nothing but these is no transition, so
/// that not every replaced pod costs a write, and neither does the sight of a status that was
/// written.
#[test]
fn numbers_of_nodes_alone_are_no_transition() {
    let mut index = index(vec![]);
    let mut object = policy(Some("ns"), "p", named("a"));
    index.observe(Observation::RolloutPolicy(applied(object.clone(), 2)));
    let urgencies =
        |index: &mut Index| index.take_changed_policies().into_values().collect::<Vec<_>>();
    let nodes = |status: PolicyStatus| status.daemon_sets[0].nodes.clone().expect("its nodes");
    let first = status(&mut index, &mut object, 60).map(nodes).expect("a status");
    assert_eq!(first.waiting + first.updating + first.done, 1);
    urgencies(&mut index);
    let status_seen = Observation::RolloutPolicy(applied(object.clone(), 201));
    index.observe(status_seen);
    assert_eq!(urgencies(&mut index), [Urgency::Counts]);
    index.observe(Observation::Node(applied(node("n2"), 202)));
    let second = status(&mut index, &mut object, 61).map(nodes).expect("a status");
    assert_eq!(second.waiting + second.updating + second.done, 2);
    assert_eq!(urgencies(&mut index), [Urgency::Counts]);
}
