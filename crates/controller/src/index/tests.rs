//! The index without a server: which DaemonSets an observation affects.

use everynode_core::api::{
    Labels, NamespaceNodeSelector, Placement, RecordState, ResourceVersion, Revision, Template,
};
use everynode_core::plan::{Notice, Outcome, Write};
use everynode_k8s::convert::{self, Interner};
use serde_json::{Value, json};

use super::*;

mod policies;
mod pullers;

fn version(number: u64) -> ResourceVersion {
    ResourceVersion(number)
}

fn node(name: &str) -> Node {
    let json = json!({ "metadata": { "name": name } }).to_string();
    convert::node(json.as_bytes(), &mut Interner::default()).unwrap()
}

fn daemon_set(name: &str, app: &str) -> DaemonSetObject {
    let json = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "resourceVersion": "1", "generation": 1,
        },
        "spec": {
            "selector": { "matchLabels": { "app": app } },
            "template": {
                "metadata": { "labels": { "app": app } },
                "spec": { "containers": [{ "name": "c" }] },
            },
        },
    });
    convert::daemon_set(json.to_string().as_bytes(), None).unwrap()
}

fn pod_object(name: &str, app: &str, owner: Option<(&str, &str)>) -> PodObject {
    let owners: Vec<Value> = owner
        .iter()
        .map(|(kind, uid)| {
            json!({
                "apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": uid, "controller": true,
            })
        })
        .collect();
    let json = json!({
        "metadata": { "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "labels": { "app": app }, "ownerReferences": owners,
            "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "nodeName": "n1" },
        "status": { "phase": "Running" },
    });
    convert::pod(json.to_string().as_bytes(), &mut Interner::default()).unwrap()
}

fn applied<T>(item: T, number: u64) -> Change<T> {
    Change::Applied { item, version: version(number) }
}

fn reset<T>(items: Vec<T>, number: u64) -> Change<T> {
    Change::Reset { items, version: version(number) }
}

/// An index with all lists complete: node n1, DaemonSets `a` (app=a) and `b` (app=b), these pods.
fn index(pods: Vec<PodObject>) -> Index {
    let mut index = Index::new(Config::default());
    index.observe(Observation::Node(reset(vec![node("n1")], 1)));
    let daemon_sets = vec![daemon_set("a", "a"), daemon_set("b", "b")];
    index.observe(Observation::DaemonSet(reset(daemon_sets, 1)));
    index.observe(Observation::Revision(reset(vec![], 1)));
    index.observe(Observation::Pod(reset(pods, 1)));
    index.wake();
    index
}

fn changed(effects: &Effects) -> Vec<&str> {
    effects.changed.iter().map(|key| key.name.as_str()).collect()
}

fn pods(index: &Index) -> Vec<&str> {
    let pods = index.namespaces.values().flat_map(|namespace_index| namespace_index.pods());
    pods.map(|pod| pod.name.as_str()).collect()
}

/// C16, C80: a node affects every DaemonSet, its heartbeat none.
#[test]
fn a_node_affects_all_and_its_heartbeat_none() {
    let mut index = index(vec![]);
    let effects = index.observe(Observation::Node(applied(node("n2"), 2)));
    assert_eq!(changed(&effects), ["a", "b"]);
    let effects = index.observe(Observation::Node(applied(node("n2"), 3)));
    assert_eq!(effects, Effects::default());
    let gone = Change::Deleted { item: node("n2"), version: version(4) };
    assert_eq!(changed(&index.observe(Observation::Node(gone))), ["a", "b"]);
}

/// C81: a change of a node costs one assessment for each DaemonSet; its heartbeat costs none.
#[test]
fn a_node_costs_one_pass_over_the_daemon_sets() {
    const DAEMON_SETS: u64 = 20;
    let mut index = Index::new(Config::default());
    let nodes: Vec<Node> = (0..50).map(|number| node(&format!("n{number}"))).collect();
    index.observe(Observation::Node(reset(nodes, 1)));
    let daemon_sets = (0..DAEMON_SETS).map(|number| daemon_set(&format!("d{number}"), "a"));
    index.observe(Observation::DaemonSet(reset(daemon_sets.collect(), 1)));
    index.observe(Observation::Revision(reset(vec![], 1)));
    index.observe(Observation::Pod(reset(vec![], 1)));
    let keys: Vec<DaemonSetKey> = index.keys().collect();
    let mut assessed = |observation: Option<Observation>| {
        observation.into_iter().for_each(|observation| drop(index.observe(observation)));
        keys.iter().for_each(|key| drop(index.plan(key, Timestamp(0))));
        keys.iter().map(|key| index.state(key).unwrap().slots_assessed()).sum::<u64>()
    };
    let before = assessed(None);
    let added = Observation::Node(applied(node("new"), 2));
    assert_eq!(assessed(Some(added)) - before, DAEMON_SETS);
    let heartbeat = Observation::Node(applied(node("new"), 3));
    assert_eq!(assessed(Some(heartbeat)) - before, DAEMON_SETS);
}

/// C21: a pod affects the DaemonSet that owns it, an orphan the one whose selector matches.
#[test]
fn a_pod_affects_its_owner_or_the_daemon_set_that_selects_it() {
    let mut index = index(vec![]);
    let owned = pod_object("p", "whatever", Some(("DaemonSet", "uid-a")));
    assert_eq!(changed(&index.observe(Observation::Pod(applied(owned.clone(), 2)))), ["a"]);
    assert_eq!(index.observe(Observation::Pod(applied(owned, 3))), Effects::default());
    let orphan = pod_object("q", "b", None);
    assert_eq!(changed(&index.observe(Observation::Pod(applied(orphan, 4)))), ["b"]);
    assert_eq!(pods(&index), ["p", "q"]);
}

/// C21: of several DaemonSets that select an orphan the first by name adopts it, unless it is being
/// deleted. In each history `p` is the orphan, `on` the same pod while `n` owns it, `+m` the
/// creation of a DaemonSet, `~m` its deletion while pods remain, `-m` its end.
#[test]
fn the_first_daemon_set_that_selects_an_orphan_adopts_it() {
    for (history, adopter) in [
        ("p +m +n", "m"),
        ("p +n +m", "m"),
        ("+n +m p", "m"),
        ("+n p +m", "m"),
        ("+m +n p ~m", "n"),
        ("+m ~m +n p", "n"),
        ("p +m +n -m", "n"),
        ("p +m +n +l -l", "m"),
        ("p +m ~m -m +n", "n"),
        ("+m +n on p", "m"),
        ("+m +n om p", "m"),
    ] {
        let mut index = index(vec![]);
        let mut orphans = Vec::new();
        for (step, number) in history.split(' ').zip(2..) {
            let (act, name) = step.split_at(1);
            let effects = index.observe(match act {
                "p" => {
                    let PodObject::Pod(pod) = pod_object("p", "x", None) else { unreachable!() };
                    orphans.push(*pod.clone());
                    Observation::Pod(applied(PodObject::Pod(pod), number))
                }
                "o" => {
                    let owner = format!("uid-{name}");
                    let owned = pod_object("p", "x", Some(("DaemonSet", &owner)));
                    Observation::Pod(applied(owned, number))
                }
                "-" => {
                    let (item, version) = (daemon_set(name, "x"), version(number));
                    Observation::DaemonSet(Change::Deleted { item, version })
                }
                _ => {
                    let mut object = daemon_set(name, "x");
                    object.daemon_set.terminating = act == "~";
                    Observation::DaemonSet(applied(object, number))
                }
            });
            for OrphanListRequest { key, .. } in effects.orphan_lists {
                let (version, pods) = (version(1), orphans.clone());
                index.observe_orphans(OrphanPods { key, version, pods });
            }
        }
        let keys: Vec<DaemonSetKey> = index.keys().collect();
        let adopting = keys.iter().filter(|key| {
            let writes = index.plan(key, Timestamp(0)).into_iter().flat_map(|it| it.plan.writes);
            writes.into_iter().any(|write| matches!(write, Write::AdoptPod(_)))
        });
        let adopting: Vec<&str> = adopting.map(|key| key.name.as_str()).collect();
        assert_eq!(adopting, [adopter], "{history}");
    }
}

/// C36: a pod of a former DaemonSet affects the one that has its name and selects it, however it
/// became known.
#[test]
fn a_pod_of_a_former_daemon_set_affects_the_next_one() {
    let former = |name: &str, of: &str| {
        let object = pod_object("p", "a", Some(("DaemonSet", "uid-old")));
        let PodObject::Pod(pod) = object else { panic!("foreign") };
        let (name, controller_name) = (name.into(), Some(of.into()));
        PodObject::Pod(Box::new(Pod { name, controller_name, ..*pod }))
    };
    let mut listed = index(vec![former("p", "a")]);
    let gone = Change::Deleted { item: former("p", "a"), version: version(2) };
    assert_eq!(changed(&listed.observe(Observation::Pod(gone))), ["a"]);
    let mut watched = index(vec![]);
    let seen = watched.observe(Observation::Pod(applied(former("p", "a"), 2)));
    assert_eq!(changed(&seen), ["a"]);
    let other = watched.observe(Observation::Pod(applied(former("p", "b"), 3)));
    assert_eq!(changed(&other), ["a"], "it no longer occupies a node of a, and b selects others");
    let recreated = index(vec![former("p", "c")]);
    assert_eq!(pods(&recreated), ["p"]);
}

/// C3: orphans that no DaemonSet selects and pods of other controllers are not kept.
#[test]
fn unselected_orphans_and_foreign_pods_are_dropped() {
    let stray = pod_object("s", "nobody", None);
    let foreign = pod_object("f", "a", Some(("ReplicaSet", "uid-a")));
    let mut index = index(vec![stray.clone(), foreign.clone()]);
    assert!(pods(&index).is_empty());
    for pod in [stray, foreign] {
        assert_eq!(index.observe(Observation::Pod(applied(pod, 2))), Effects::default());
    }
    assert!(pods(&index).is_empty());
}

/// C21: a pod that changes its labels or its owner affects the old and the new DaemonSet.
#[test]
fn a_pod_that_changes_owner_affects_both() {
    let mut index = index(vec![pod_object("p", "a", None)]);
    let moved = pod_object("p", "b", None);
    assert_eq!(changed(&index.observe(Observation::Pod(applied(moved, 2)))), ["a", "b"]);
    let taken = pod_object("p", "b", Some(("ReplicaSet", "rs")));
    assert_eq!(changed(&index.observe(Observation::Pod(applied(taken, 3)))), ["b"]);
    assert!(pods(&index).is_empty());
}

/// C1: a complete list replaces the known state; objects that it lacks are gone.
#[test]
fn a_list_replaces_the_known_state() {
    let owned = |name: &str, uid: &str| pod_object(name, "x", Some(("DaemonSet", uid)));
    let mut index = index(vec![owned("p", "uid-a"), owned("q", "uid-b")]);
    let effects = index.observe(Observation::Pod(reset(vec![owned("q", "uid-b")], 9)));
    assert_eq!(changed(&effects), ["a"]);
    assert_eq!(pods(&index), ["q"]);
    let effects = index.observe(Observation::DaemonSet(reset(vec![daemon_set("b", "b")], 9)));
    assert_eq!(effects.deleted.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(index.plan(&DaemonSetKey::new("ns", "a"), Timestamp(0)).is_none());
}

/// C3, C21: for a new DaemonSet the orphans are listed that were dropped before. Pods that were
/// deleted meanwhile, or are known by now, are not taken from the list.
#[test]
fn dropped_orphans_are_listed_for_a_new_daemon_set() {
    let mut index = index(vec![pod_object("early", "c", None)]);
    assert!(pods(&index).is_empty());
    let effects = index.observe(Observation::DaemonSet(applied(daemon_set("c", "c"), 2)));
    assert_eq!(effects.orphan_lists.len(), 1);
    let went = Change::Deleted { item: pod_object("went", "c", None), version: version(3) };
    index.observe(Observation::Pod(went));
    index.observe(Observation::Pod(applied(pod_object("seen", "c", None), 4)));
    let listed = ["early", "went", "seen"].map(|name| match pod_object(name, "c", None) {
        PodObject::Pod(pod) => *pod,
        PodObject::Puller(_) | PodObject::Foreign { .. } => unreachable!(),
    });
    let key = DaemonSetKey::new("ns", "c");
    let orphans = OrphanPods { key, pods: listed.to_vec(), version: version(4) };
    let effects = index.observe_orphans(orphans);
    assert_eq!(changed(&effects), ["c"]);
    assert_eq!(pods(&index), ["early", "seen"]);
}

/// C1, C21: a complete list has all orphans. Those of an earlier live list are not added to it.
#[test]
fn a_complete_list_replaces_a_pending_list_of_orphans() {
    let orphan = pod_object("went", "c", None);
    let mut index = index(vec![orphan.clone()]);
    index.observe(Observation::DaemonSet(applied(daemon_set("c", "c"), 2)));
    index.observe(Observation::Pod(reset(vec![], 9)));
    let key = DaemonSetKey::new("ns", "c");
    assert!(index.plan(&key, Timestamp(0)).is_none(), "not listed");
    let PodObject::Pod(orphan) = orphan else { unreachable!() };
    let orphans = OrphanPods { key: key.clone(), pods: vec![*orphan], version: version(1) };
    assert_eq!(changed(&index.observe_orphans(orphans)), ["c"]);
    assert!(pods(&index).is_empty());
    assert!(index.plan(&key, Timestamp(0)).is_some());
}

/// C21, C3: a list for a DaemonSet that was deleted meanwhile does not replace newer state.
#[test]
fn a_list_for_a_deleted_daemon_set_replaces_nothing_newer() {
    let owned = pod_object("p", "c", Some(("DaemonSet", "uid-a")));
    let mut index = index(vec![owned.clone()]);
    let c = daemon_set("c", "c");
    let effects = index.observe(Observation::DaemonSet(applied(c.clone(), 2)));
    assert_eq!(effects.orphan_lists.len(), 1);
    index.observe(Observation::Pod(applied(pod_object("p", "c", None), 3)));
    index.observe(Observation::DaemonSet(Change::Deleted { item: c, version: version(4) }));
    let PodObject::Pod(owned) = owned else { unreachable!() };
    let key = DaemonSetKey::new("ns", "c");
    let orphans = OrphanPods { key, pods: vec![*owned], version: version(1) };
    assert_eq!(index.observe_orphans(orphans), Effects::default());
    assert!(pods(&index).is_empty());
}

/// C21, C34: nothing is planned before the orphans are known that may be adopted, since the watch
/// of pods may be behind that of DaemonSets.
#[test]
fn a_new_daemon_set_waits_for_its_orphans() {
    let mut index = index(vec![pod_object("p", "c", Some(("DaemonSet", "before")))]);
    index.observe(Observation::DaemonSet(applied(daemon_set("c", "c"), 5)));
    let key = DaemonSetKey::new("ns", "c");
    assert!(index.plan(&key, Timestamp(0)).is_none(), "not listed");
    let PodObject::Pod(orphan) = pod_object("p", "c", None) else { unreachable!() };
    let orphans = OrphanPods { key: key.clone(), pods: vec![*orphan.clone()], version: version(4) };
    assert_eq!(index.observe_orphans(orphans), Effects::default());
    assert!(index.plan(&key, Timestamp(0)).is_none(), "listed, but the watch is behind the list");
    let effects = index.observe(Observation::Pod(applied(PodObject::Pod(orphan), 4)));
    assert_eq!(changed(&effects), ["c"]);
    let writes = index.plan(&key, Timestamp(0)).unwrap().plan.writes;
    assert!(writes.iter().any(|write| matches!(write, Write::AdoptPod(_))), "{writes:?}");
}

/// C1: a watch that restarts repeats changes, even those of a predecessor of the same name.
#[test]
fn repeated_changes_of_a_predecessor_are_ignored() {
    let mut index = index(vec![]);
    let (predecessor, mut successor) = (daemon_set("a", "a"), daemon_set("a", "a"));
    successor.daemon_set.uid = "uid-successor".into();
    successor.raw =
        Arc::new(RawDaemonSet { uid: "uid-successor".into(), ..(*successor.raw).clone() });
    successor.daemon_set.resource_version = version(9);
    index.observe(Observation::DaemonSet(applied(successor, 9)));
    let repeated = applied(predecessor.clone(), 1);
    assert_eq!(index.observe(Observation::DaemonSet(repeated)), Effects::default());
    let repeated = Change::Deleted { item: predecessor, version: version(8) };
    assert_eq!(index.observe(Observation::DaemonSet(repeated)), Effects::default());
    let uid = index.state(&DaemonSetKey::new("ns", "a")).map(|state| state.uid().clone());
    assert_eq!(uid, Some(Uid::new("uid-successor")));
}

/// C1, C16: the repeated deletion of a node whose name another node has by now is ignored. A list
/// of an older version, as after a restore of etcd, starts anew.
#[test]
fn a_repeated_deletion_of_a_node_is_ignored() {
    let mut index = index(vec![]);
    let deletion = |number| Change::Deleted { item: node("n2"), version: version(number) };
    index.observe(Observation::Node(applied(node("n2"), 12)));
    index.observe(Observation::Node(deletion(13)));
    index.observe(Observation::Node(applied(node("n2"), 14)));
    assert_eq!(index.observe(Observation::Node(deletion(13))), Effects::default());
    assert_eq!(index.nodes().len(), 2);
    index.observe(Observation::Node(reset(vec![node("n2")], 5)));
    assert_eq!(changed(&index.observe(Observation::Node(deletion(13)))), ["a", "b"]);
}

/// C1: a change that follows a bookmark of a later version is not ignored.
#[test]
fn a_change_after_an_early_bookmark_counts() {
    let mut index = index(vec![]);
    index.observe(Observation::Node(Change::Reached(version(20))));
    let effects = index.observe(Observation::Node(applied(node("n2"), 12)));
    assert_eq!(changed(&effects), ["a", "b"]);
}

/// C60: a DaemonSet that waits for a watch is planned for again when the watch has advanced.
#[test]
fn a_waiting_daemon_set_is_woken_when_a_watch_advances() {
    let mut index = index(vec![]);
    let key = DaemonSetKey::new("ns", "a");
    let planned = index.plan(&key, Timestamp(0)).unwrap();
    assert!(matches!(planned.plan.writes[..], [Write::CreateRevision(_), ..]));
    assert!(index.plan(&key, Timestamp(1)).unwrap().plan.waiting.is_some());
    index.written(&key, &Uid::new("uid-a"), created_revision(planned, 40), Timestamp(2));
    assert!(index.plan(&key, Timestamp(3)).unwrap().plan.waiting.is_some());
    assert!(index.wake().is_empty());
    index.observe(Observation::Pod(Change::Reached(version(50))));
    assert_eq!(index.wake(), [key.clone()].into());
    assert!(index.wake().is_empty());
    assert!(index.plan(&key, Timestamp(4)).unwrap().plan.waiting.is_some());
    index.observe(Observation::Revision(Change::Reached(version(40))));
    assert_eq!(index.wake(), [key.clone()].into());
    let waiting = index.plan(&key, Timestamp(5)).unwrap().plan.waiting;
    assert!(waiting.is_none_or(|waiting| waiting.stale_kinds == 0), "{waiting:?}");
}

/// The result of creating the plan's revision with this resourceVersion.
fn created_revision(planned: Planned, number: u64) -> WriteResult {
    let write = planned.plan.writes.into_iter().next().unwrap();
    let (uid, resource_version) = (Uid::new("uid-revision"), version(number));
    WriteResult { write, outcome: Outcome::Written { uid, resource_version } }
}

/// C1: a list replaces everything, even with older state, as after a restore of etcd, which also
/// undoes changes and deletions.
#[test]
fn a_list_of_older_state_replaces_the_known_state() {
    let at = |number: u64, template: &str| {
        let mut object = daemon_set("a", "a");
        object.daemon_set.resource_version = version(number);
        object.daemon_set.template.canonical = template.into();
        object
    };
    let revision = |number: u64, template: &str| RevisionObject::Revision {
        namespace: "ns".into(),
        revision: Revision {
            name: "r".into(),
            uid: "uid-r".into(),
            resource_version: version(number),
            labels: Labels::from_iter([("app", "a"), ("controller-revision-hash", "r")]),
            controller: Some("uid-a".into()),
            terminating: false,
            number: 1,
            template_generation: None,
            template: Ok(Template::new(template, Placement::default())),
            overrides: None,
            record: RecordState::None,
        },
    };
    let key = DaemonSetKey::new("ns", "a");
    let mut index = index(vec![]);
    index.observe(Observation::DaemonSet(applied(at(90, "new"), 90)));
    index.observe(Observation::Revision(applied(revision(91, "new"), 91)));
    index.observe(Observation::DaemonSet(applied(at(5, "stale"), 5)));
    let template =
        |index: &Index| index.state(&key).unwrap().daemon_set().template.canonical.to_string();
    assert_eq!(template(&index), "new", "a repeated older change is ignored");
    let effects = index.observe(Observation::DaemonSet(reset(vec![at(40, "old")], 60)));
    assert_eq!(
        (changed(&effects), effects.restored),
        (vec!["a"], Some(WatchedResource::DaemonSet))
    );
    assert_eq!(template(&index), "old");
    let effects = index.observe(Observation::Revision(reset(vec![revision(41, "old")], 60)));
    assert_eq!((changed(&effects), effects.restored), (vec!["a"], Some(WatchedResource::Revision)));
    let writes = index.plan(&key, Timestamp(0)).unwrap().plan.writes;
    let creates = |write: &Write| matches!(write, Write::CreateRevision(_));
    assert!(!writes.iter().any(creates), "the revision is the restored one: {writes:?}");
    index.observe(Observation::DaemonSet(applied(at(61, "later"), 61)));
    assert_eq!(template(&index), "later", "the watch goes on from there");
}

/// C1, C60: a write from before a restore of etcd is never seen. The controller waits for it only
/// as long as a write that came after the restored list may take to be seen.
#[test]
fn a_write_from_before_a_restore_is_not_waited_for_long() {
    let key = DaemonSetKey::new("ns", "a");
    let mut index = index(vec![]);
    index.observe(Observation::Revision(Change::Reached(version(90))));
    let planned = index.plan(&key, Timestamp(0)).unwrap();
    let rest: Vec<Write> = planned.plan.writes.iter().skip(1).cloned().collect();
    index.written(&key, &Uid::new("uid-a"), created_revision(planned, 95), Timestamp(1_000));
    let fail = |index: &mut Index, write: Write| {
        let outcome = Outcome::Failed { message: "restarting".to_owned() };
        index.written(&key, &Uid::new("uid-a"), WriteResult { write, outcome }, Timestamp(1_000));
    };
    rest.into_iter().for_each(|write| fail(&mut index, write));
    let plan_at = |index: &mut Index, seconds: i64| {
        let plan = index.plan(&key, Timestamp::from_seconds(seconds)).unwrap().plan;
        plan.writes.iter().for_each(|write| fail(index, write.clone()));
        plan
    };
    assert!(plan_at(&mut index, 2).waiting.is_some());
    let effects = index.observe(Observation::Revision(reset(vec![], 60)));
    assert!(effects.changed.contains(&key), "the wait starts");
    let plan = plan_at(&mut index, 10);
    assert!(plan.waiting.is_some(), "the write may have come after the list");
    assert_eq!(plan.requeue_at, Some(Timestamp::from_seconds(40)));
    let plan = plan_at(&mut index, 40);
    assert!(plan.waiting.is_none());
    assert!(plan.writes.iter().any(|write| matches!(write, Write::CreateRevision(_))));
    let is_lapse = |notice: &Notice| matches!(notice, Notice::ExpectationLapsed { .. });
    assert!(plan.notices.iter().any(is_lapse), "{:?}", plan.notices);
}

/// C1, C60: a write after a restore is seen only when the watch has reached its new version.
#[test]
fn a_write_from_after_a_restore_is_waited_for() {
    let key = DaemonSetKey::new("ns", "a");
    let mut index = index(vec![]);
    index.observe(Observation::Revision(Change::Reached(version(90))));
    index.observe(Observation::Revision(reset(vec![], 60)));
    let planned = index.plan(&key, Timestamp(0)).unwrap();
    index.written(&key, &Uid::new("uid-a"), created_revision(planned, 62), Timestamp(1_000));
    let is_waiting = |index: &mut Index| {
        let waiting = index.plan(&key, Timestamp::from_seconds(2)).unwrap().plan.waiting;
        waiting.is_some_and(|waiting| waiting.stale_kinds > 0)
    };
    assert!(is_waiting(&mut index), "62 is less than the earlier 90, but not seen yet");
    index.observe(Observation::Revision(Change::Reached(version(62))));
    assert!(!is_waiting(&mut index));
}

/// C1, C21: after a restore, no DaemonSet waits for a live list whose version the restored server
/// has not reached; its list of pods has all orphans.
#[test]
fn a_new_daemon_set_does_not_wait_for_orphans_from_before_a_restore() {
    let mut index = index(vec![]);
    let key = DaemonSetKey::new("ns", "c");
    index.observe(Observation::Pod(Change::Reached(version(90))));
    index.observe(Observation::DaemonSet(applied(daemon_set("c", "c"), 91)));
    index.observe_orphans(OrphanPods { key: key.clone(), pods: vec![], version: version(95) });
    assert!(index.plan(&key, Timestamp(0)).is_none());
    let effects = index.observe(Observation::Pod(reset(vec![pod_object("p", "c", None)], 60)));
    assert!(changed(&effects).contains(&"c"));
    assert_eq!(pods(&index), ["p"]);
    let writes = index.plan(&key, Timestamp(0)).unwrap().plan.writes;
    assert!(writes.iter().any(|write| matches!(write, Write::AdoptPod(_))), "{writes:?}");
}

/// C15: a namespace's node selector applies to its DaemonSets, including later ones.
#[test]
fn a_namespaces_node_selector_applies_to_its_daemon_sets() {
    let mut index = index(vec![]);
    let namespace = NamespaceObject {
        name: "ns".into(),
        labels: Labels::default(),
        node_selector: Labels::from_iter([("pool", "x")]).into(),
    };
    assert_eq!(changed(&index.observe(Observation::Namespace(applied(namespace, 2)))), ["a", "b"]);
    index.observe(Observation::DaemonSet(applied(daemon_set("c", "c"), 3)));
    for name in ["a", "c"] {
        let state = index.state(&DaemonSetKey::new("ns", name)).unwrap();
        let node = index.nodes().id(&"n1".into()).unwrap();
        assert_eq!(state.reasons_against(node, index.nodes()).len(), 1);
    }
}

/// C15: the node selector of a deleted namespace does not apply to the next one of its name,
/// whether the deletion is seen or missing from a list.
#[test]
fn the_node_selector_of_a_deleted_namespace_is_forgotten() {
    let namespace = || NamespaceObject {
        name: "ns".into(),
        labels: Labels::default(),
        node_selector: Labels::from_iter([("pool", "x")]).into(),
    };
    let deletions = [Change::Deleted { item: namespace(), version: version(3) }, reset(vec![], 3)];
    for deletion in deletions {
        let mut index = index(vec![]);
        index.observe(Observation::Namespace(applied(namespace(), 2)));
        assert_eq!(changed(&index.observe(Observation::Namespace(deletion))), ["a", "b"]);
        let node = index.nodes().id(&"n1".into()).unwrap();
        let state = index.state(&DaemonSetKey::new("ns", "a")).unwrap();
        assert_eq!(state.reasons_against(node, index.nodes()), []);
    }
}

/// C4, C15: a malformed node selector of a namespace is reported once on each of its DaemonSets,
/// and restricts nothing.
#[test]
fn a_namespaces_malformed_node_selector_is_reported_on_its_daemon_sets() {
    let mut index = index(vec![]);
    let malformed = Some("\"==\" is not of the form key=value".to_owned());
    let node_selector = NamespaceNodeSelector { malformed, ..Default::default() };
    let namespace = NamespaceObject { name: "ns".into(), labels: Labels::default(), node_selector };
    let mut reported = Vec::new();
    for version in [2, 3] {
        index.observe(Observation::Namespace(applied(namespace.clone(), version)));
        for name in ["a", "b"] {
            let planned = index.plan(&DaemonSetKey::new("ns", name), Timestamp(0)).unwrap();
            reported.extend(
                planned.plan.notices.iter().map(|notice| format!("{name} {}", notice.reason())),
            );
        }
    }
    assert_eq!(reported, ["a InvalidNamespaceNodeSelector", "b InvalidNamespaceNodeSelector"]);
}
