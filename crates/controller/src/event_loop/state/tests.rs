//! The loop's state in virtual time: retries during an outage and after it.

use std::time::Duration;

use everynode_core::api::{Problem, ResourceVersion};
use everynode_k8s::convert::{self, DaemonSetObject, Interner, RevisionObject};
use everynode_k8s::revision_data::data_of_template;
use serde_json::json;

use super::*;
use crate::metrics::TextFormat;

/// A loop with one node and one DaemonSet, with all lists complete.
fn state() -> LoopState {
    let mut state = LoopState {
        index: Index::default(),
        recorder: Recorder::channel().0,
        metrics: Arc::new(Metrics::new()),
        outages: OutageLog::default(),
        pending_lists: [
            WatchedResource::Node,
            WatchedResource::DaemonSet,
            WatchedResource::Revision,
            WatchedResource::Pod,
        ]
        .into(),
        synced: watch::channel(false).0,
        queue: Queue::default(),
        policy_queue: Queue::default(),
        watched: BTreeSet::new(),
        tasks: Vec::new(),
        wall_ahead_ms: 0,
        namespaces_awaited_until: None,
    };
    let node = json!({ "metadata": { "name": "n", "resourceVersion": "1" } });
    let node = convert::node(node.to_string().as_bytes(), &mut Interner::default()).unwrap();
    let lists = [
        Observation::Node(reset([node])),
        Observation::DaemonSet(reset([daemon_set()])),
        Observation::Revision(reset([])),
        Observation::Pod(reset([])),
    ];
    for list in lists {
        state.handle(Event::Observed(list), Timestamp(0));
    }
    state
}

fn reset<T>(items: impl IntoIterator<Item = T>) -> Change<T> {
    Change::Reset { items: items.into_iter().collect(), version: ResourceVersion(5) }
}

fn daemon_set() -> DaemonSetObject {
    let json = json!({
        "metadata": {
            "name": "d", "namespace": "ns", "uid": "ds-uid", "resourceVersion": "5",
            "generation": 1,
        },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } } },
        },
    });
    convert::daemon_set(json.to_string().as_bytes(), None).unwrap()
}

/// Fails all writes until `end`. Returns when the next step is due.
fn fail_until(
    state: &mut LoopState,
    mut events: Vec<Event>,
    mut now: Timestamp,
    end: Timestamp,
) -> Timestamp {
    loop {
        for task in state.process(events.drain(..), now) {
            let Task::Execute { plan, raw } = task else { continue };
            let (key, uid) = (raw.key.clone(), raw.uid.clone());
            events.extend(plan.writes.into_iter().map(|write| Event::Written {
                key: key.clone(),
                uid: uid.clone(),
                result: WriteResult {
                    write,
                    outcome: Outcome::Failed { message: "forbidden".to_owned() },
                },
            }));
            events.push(Event::Executed { key, was_waiting: false });
        }
        if events.is_empty() {
            let due = state.next_deadline().expect("a failed write is retried");
            if due >= end {
                return due;
            }
            now = now.max(due);
        }
    }
}

/// C64, C72: when the server is reachable again after 21 s or 3 minutes, writes go on at once.
#[test]
fn writes_go_on_when_the_server_is_reachable_again() {
    for outage in [21, 180] {
        let mut state = state();
        let reachable_at = Timestamp(outage * 1000);
        let due = fail_until(&mut state, Vec::new(), Timestamp(0), reachable_at);
        assert!(
            due.since(reachable_at) > Duration::from_secs(5),
            "after {outage} s: due at {due:?} anyway"
        );
        let tasks = state.process([Event::Connected], reachable_at);
        assert!(matches!(tasks[..], [Task::Execute { .. }]), "after {outage} s: {tasks:?}");
    }
}

/// C64, C72: writes go on within 5 s of the server's first success, even if it refuses them for
/// a while after an outage (403).
#[test]
fn writes_go_on_soon_after_a_server_stops_refusing() {
    for (outage, refuses) in [(21, 8), (180, 40)] {
        let mut state = state();
        let reachable_at = Timestamp(outage * 1000);
        let accepts_at = reachable_at + Duration::from_secs(refuses);
        fail_until(&mut state, Vec::new(), Timestamp(0), reachable_at);
        let due = fail_until(&mut state, vec![Event::Connected], reachable_at, accepts_at);
        assert!(
            due.since(accepts_at) <= Duration::from_secs(5),
            "{outage} s, {refuses} s: {due:?}"
        );
        let tasks = state.process([], due);
        assert!(matches!(tasks[..], [Task::Execute { .. }]), "{tasks:?}");
    }
}

/// C64: a new connection wakes only DaemonSets with a failure.
#[test]
fn a_connection_wakes_only_daemon_sets_with_a_failure() {
    let mut state = state();
    let [Task::Watch(WatchedResource::Pod), Task::Execute { .. }] =
        &state.process([], Timestamp(0))[..]
    else {
        panic!("a plan is due")
    };
    let before = state.next_deadline();
    assert!(state.process([Event::Connected], Timestamp(0)).is_empty());
    assert_eq!(state.next_deadline(), before);
}

/// G4: once a policy selects namespaces by their labels, they are watched, and nothing is planned
/// before they are listed.
#[test]
fn namespaces_are_awaited_once_a_policy_needs_them() {
    let mut state = state();
    let selector = json!({ "matchLabels": { "team": "a" } });
    let applied = |spec: serde_json::Value| {
        let policy = json!({ "metadata": { "name": "p", "uid": "p" }, "spec": spec });
        let item = convert::policy_object(policy.to_string().as_bytes()).unwrap();
        let change = Change::Applied { item, version: ResourceVersion(6) };
        Event::Observed(Observation::ClusterRolloutPolicy(change))
    };
    let needs = applied(json!({ "daemonSets": { "selector": {} }, "namespaces": selector }));
    let tasks = state.process([needs], Timestamp(0));
    assert!(
        matches!(
            tasks[..],
            [Task::Watch(WatchedResource::Pod), Task::Watch(WatchedResource::Namespace)]
        ),
        "{tasks:?}"
    );
    assert_eq!(state.next_deadline(), Some(Timestamp(5_000)));
    assert!(state.process([], Timestamp(4_999)).is_empty());
    let listed = Event::Observed(Observation::Namespace(reset([])));
    let tasks = state.process([listed], Timestamp(0));
    assert!(matches!(tasks[..], [Task::Execute { .. }]), "{tasks:?}");
}

/// C29, G4: a list of namespaces that does not come holds all others for 5 seconds only.
#[test]
fn namespaces_are_not_awaited_for_long() {
    let mut state = state();
    let spec = json!({ "daemonSets": { "selector": { "matchLabels": { "a": "other" } } },
        "namespaces": { "matchLabels": { "team": "a" } } });
    let policy = json!({ "metadata": { "name": "p", "uid": "p" }, "spec": spec });
    let item = convert::policy_object(policy.to_string().as_bytes()).unwrap();
    let change = Change::Applied { item, version: ResourceVersion(6) };
    let applied = Event::Observed(Observation::ClusterRolloutPolicy(change));
    let tasks = state.process([applied], Timestamp(0));
    assert!(!tasks.iter().any(|task| matches!(task, Task::Execute { .. })), "{tasks:?}");
    let tasks = state.process([], Timestamp(5_000));
    assert!(tasks.iter().any(|task| matches!(task, Task::Execute { .. })), "{tasks:?}");
}

/// C1: pods are watched once, although namespaces are awaited while pods are listed.
#[test]
fn pods_are_watched_once() {
    let mut state = state();
    state.pending_lists.extend([WatchedResource::Namespace, WatchedResource::Pod]);
    let lists = [Observation::Namespace(reset([])), Observation::Pod(reset([]))];
    let tasks = state.process(lists.map(Event::Observed), Timestamp(0));
    assert!(state.pending_lists.is_empty());
    let watched = tasks.iter().filter(|task| matches!(task, Task::Watch(WatchedResource::Pod)));
    assert_eq!(watched.count(), 1, "{tasks:?}");
}

/// G21: the status of a policy is written a second after it has changed, and again after a failure.
#[test]
fn the_status_of_a_policy_is_written_soon_and_again_after_a_failure() {
    let mut state = state();
    let spec = json!({ "daemonSets": { "name": "none" } });
    let policy =
        json!({ "metadata": { "name": "p", "namespace": "ns", "uid": "p" }, "spec": spec });
    let item = convert::policy_object(policy.to_string().as_bytes()).unwrap();
    let change = Change::Applied { item, version: ResourceVersion(6) };
    let observed = Event::Observed(Observation::RolloutPolicy(change));
    let writes = |tasks: Vec<Task>| {
        let write = |task| match task {
            Task::WritePolicyStatus(write) => Some(write),
            Task::Execute { .. }
            | Task::ListOrphans(_)
            | Task::Watch(_)
            | Task::WatchConfigMaps(_)
            | Task::AskCheck(_) => None,
        };
        tasks.into_iter().filter_map(write).collect::<Vec<_>>()
    };
    assert!(writes(state.process([observed], Timestamp(0))).is_empty());
    let [write] = &writes(state.process([], Timestamp(1000)))[..] else { panic!("one write") };
    let written =
        |result| Event::PolicyStatusWritten { reference: write.reference.clone(), result };
    let failed = written(Err("refused".to_owned()));
    assert!(writes(state.process([failed], Timestamp(1000))).is_empty());
    let due = state.next_deadline().expect("it is tried again");
    assert_eq!(writes(state.process([], due)), std::slice::from_ref(write));
    assert!(writes(state.process([written(Ok(()))], due)).is_empty());
    assert!(writes(state.process([], due + Duration::from_secs(60))).is_empty());
}

/// Fails the next sync's writes with `outcome`. Returns when the DaemonSet is retried.
fn fail_next_sync(state: &mut LoopState, outcome: &Outcome, now: Timestamp) -> Timestamp {
    let key = DaemonSetKey::new("ns", "d");
    let tasks = state.process([], now);
    let plan = tasks.into_iter().find_map(|task| match task {
        Task::Execute { plan, .. } => Some(plan),
        Task::ListOrphans(_)
        | Task::Watch(_)
        | Task::WatchConfigMaps(_)
        | Task::AskCheck(_)
        | Task::WritePolicyStatus(_) => None,
    });
    let plan = plan.expect("the plan has writes");
    let written = plan.writes.into_iter().map(|write| Event::Written {
        key: key.clone(),
        uid: Uid::new("ds-uid"),
        result: WriteResult { write, outcome: outcome.clone() },
    });
    let executed = Event::Executed { key: key.clone(), was_waiting: plan.waiting.is_some() };
    let tasks = state.process(written.chain([executed]), now);
    assert!(tasks.is_empty(), "{tasks:?}");
    state.next_deadline().expect("it is retried")
}

fn retry_delays(outcome: &Outcome) -> Vec<u64> {
    let mut state = state();
    let mut now = Timestamp(0);
    let mut retry_delays = Vec::new();
    for _ in 0..15 {
        let due = fail_next_sync(&mut state, outcome, now);
        retry_delays.push(u64::try_from(due.since(now).as_millis()).unwrap());
        now = due;
    }
    retry_delays
}

/// C35, C72: a failed write is retried with a growing back-off, one of unknown outcome within 4 s.
#[test]
fn a_write_of_unknown_outcome_is_sent_again_within_seconds() {
    let failed = retry_delays(&Outcome::Failed { message: "no".to_owned() });
    assert_eq!((failed[0], failed[1], failed[14]), (5, 10, 5 << 14));
    let unknown = retry_delays(&Outcome::Unknown { message: "no answer".to_owned() });
    assert_eq!(unknown[..3], [5, 10, 20]);
    assert_eq!(unknown[10..], [4_000; 5]);
}

/// The revision that stores the template of [`daemon_set`].
fn stored_revision() -> RevisionObject {
    let template = json!({ "metadata": { "labels": { "a": "b" } } });
    let data: serde_json::Value = serde_json::from_str(&data_of_template(&template)).unwrap();
    let json = json!({
        "metadata": {
            "name": "d-1", "namespace": "ns", "uid": "r", "resourceVersion": "5",
            "labels": { "a": "b", "controller-revision-hash": "1" },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "ds-uid",
                "controller": true,
            }],
        },
        "data": data,
        "revision": 1,
    });
    convert::revision(json.to_string().as_bytes(), &mut Interner::default()).unwrap()
}

/// C72: pods that the server refuses are tried again after at most a minute, however long it does.
#[test]
fn a_refused_pod_is_tried_again_within_a_minute() {
    let mut state = state();
    state.handle(Event::Observed(Observation::Revision(reset([stored_revision()]))), Timestamp(0));
    let mut now = Timestamp(0);
    let mut waits = Vec::new();
    for _ in 0..30 {
        let execution = state.process([], now).into_iter().find_map(|task| match task {
            Task::Execute { plan, raw } => Some((plan, raw)),
            Task::ListOrphans(_)
            | Task::Watch(_)
            | Task::WatchConfigMaps(_)
            | Task::AskCheck(_)
            | Task::WritePolicyStatus(_) => None,
        });
        let (plan, raw) = execution.expect("the plan has writes");
        let events = plan.writes.iter().map(|write| Event::Written {
            key: raw.key.clone(),
            uid: raw.uid.clone(),
            result: WriteResult {
                write: write.clone(),
                outcome: match write {
                    Write::CreatePod(_) => Outcome::Failed { message: "quota".to_owned() },
                    _ => Outcome::Written {
                        uid: "written".into(),
                        resource_version: ResourceVersion(0),
                    },
                },
            },
        });
        let was_waiting = plan.waiting.is_some();
        let executed = Event::Executed { key: raw.key.clone(), was_waiting };
        let events: Vec<Event> = events.chain([executed]).collect();
        assert!(state.process(events, now).is_empty());
        let due = state.next_deadline().expect("it is retried");
        waits.push(due.since(now));
        now = due;
    }
    assert_eq!(waits.iter().max(), Some(&Duration::from_secs(60)), "{waits:?}");
    assert_eq!(waits.last(), Some(&Duration::from_secs(60)));
}

/// The results of the next plan's writes, which all succeed at this version.
fn written(tasks: Vec<Task>, resource_version: ResourceVersion) -> Vec<Event> {
    let mut events = Vec::new();
    for task in tasks {
        let Task::Execute { plan, raw } = task else { continue };
        let (key, uid) = (raw.key.clone(), raw.uid.clone());
        events.extend(plan.writes.into_iter().map(|write| Event::Written {
            key: key.clone(),
            uid: uid.clone(),
            result: WriteResult {
                write,
                outcome: Outcome::Written { uid: "written".into(), resource_version },
            },
        }));
        events.push(Event::Executed { key, was_waiting: plan.waiting.is_some() });
    }
    events
}

/// C60: the metrics count the syncs that wait for the watches, and once the writes that the watches
/// have not shown within five minutes.
#[test]
fn writes_that_are_never_seen_are_counted() {
    let mut state = state();
    let mut events = Vec::new();
    loop {
        let tasks = state.process(events, Timestamp(0));
        events = written(tasks, ResourceVersion(9));
        if events.is_empty() {
            break;
        }
    }
    let skipped = state.metrics.stale_syncs_skipped.get();
    assert!(skipped > 0);
    assert_eq!(state.metrics.expectations_lapsed.get(), 0);
    let lapses_at = state.next_deadline().expect("the wait ends");
    assert_eq!(lapses_at, Timestamp::from_seconds(300));
    assert!(!state.process([], lapses_at).is_empty(), "the sync continues");
    assert_eq!(state.metrics.expectations_lapsed.get(), 1);
    assert_eq!(state.metrics.stale_syncs_skipped.get(), skipped);
    let text = state.metrics.text(TextFormat::OpenMetrics).unwrap();
    assert!(text.contains("everynode_expectations_lapsed_total 1\n"), "{text}");
}

/// C4: of a plan's many problems, the first are logged and recorded; all are counted.
#[test]
fn many_problems_of_a_plan_are_only_counted() {
    let mut state = state();
    let (recorder, mut occurrences) = Recorder::channel();
    state.recorder = recorder;
    let problem = |number: usize| {
        let field = format!("spec.template.spec.tolerations[{number}]").into();
        Notice::Problem(Problem::Toleration { field, message: "it is malformed".into() })
    };
    let notices = (0..1000).map(problem).chain([Notice::SelectingAll]).collect();
    let plan = Plan { notices, ..Plan::default() };
    state.report_notices(&DaemonSetKey::new("ns", "d"), &Uid::new("ds-uid"), &plan);
    let recorded = std::iter::from_fn(|| occurrences.try_recv().ok());
    let reasons: Vec<&str> = recorded.map(|occurrence| occurrence.reason).collect();
    assert_eq!(reasons.len(), PROBLEMS_MAX + 1);
    assert_eq!(reasons.last(), Some(&"SelectingAll"));
    let labels = ReasonLabels { reason: reasons[0] };
    assert_eq!(state.metrics.problems.get_or_create(&labels).get(), 1000);
}
