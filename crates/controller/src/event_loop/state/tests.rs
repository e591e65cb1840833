//! The loop's state in virtual time: what it does with failures while the server is away, and when it is back.

use std::time::Duration;

use everynode_core::api::ResourceVersion;
use everynode_core::plan::WriteResult;
use everynode_k8s::convert::{self, DaemonSetObject, Interner};
use serde_json::json;

use super::*;

/// A loop with one node and one DaemonSet, all listed.
fn control() -> LoopState {
    let mut control = LoopState {
        index: Index::default(),
        recorder: Recorder::channel().0,
        metrics: Arc::new(Metrics::new()),
        outages: OutageLog::default(),
        unlisted: [
            ListedResource::Node,
            ListedResource::DaemonSet,
            ListedResource::Revision,
            ListedResource::Pod,
        ]
        .into(),
        synced: watch::channel(false).0,
        queue: Queue::default(),
        tasks: Vec::new(),
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
        control.take(Event::Observed(list), Timestamp(0));
    }
    control
}

fn reset<T>(items: impl IntoIterator<Item = T>) -> Change<T> {
    Change::Reset { items: items.into_iter().collect(), version: ResourceVersion(5) }
}

fn daemon_set() -> DaemonSetObject {
    let json = json!({
        "metadata": { "name": "d", "namespace": "ns", "uid": "ds-uid", "resourceVersion": "5", "generation": 1 },
        "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": { "metadata": { "labels": { "a": "b" } } } },
    });
    convert::daemon_set(json.to_string().as_bytes(), None).unwrap()
}

/// Takes turns until `end`, and lets all writes fail. Returns when the next turn is due.
fn fail_until(
    control: &mut LoopState,
    mut events: Vec<Event>,
    mut now: Timestamp,
    end: Timestamp,
) -> Timestamp {
    loop {
        for task in control.turn(events.drain(..), now) {
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
            let due = control.due_at().expect("what has failed is to be tried again");
            if due >= end {
                return due;
            }
            now = now.max(due);
        }
    }
}

/// C64, C72: when the server is back, work goes on at once, after 21 s and after 3 minutes of absence.
#[test]
fn work_goes_on_when_the_server_is_back() {
    for away in [21, 180] {
        let mut control = control();
        let back = Timestamp(away * 1000);
        let due = fail_until(&mut control, Vec::new(), Timestamp(0), back);
        assert!(due.since(back) > Duration::from_secs(5), "{away} s away: due at {due:?} anyway");
        let tasks = control.turn([Event::Connected], back);
        assert!(matches!(tasks[..], [Task::Execute { .. }]), "{away} s away: {tasks:?}");
    }
}

/// C64, C72: work goes on within 5 s of the server's first good answer, also if it refuses writes for a while (403).
#[test]
fn work_goes_on_soon_after_a_server_stops_refusing() {
    for (away, refuses) in [(21, 8), (180, 40)] {
        let mut control = control();
        let back = Timestamp(away * 1000);
        let good = back + Duration::from_secs(refuses);
        fail_until(&mut control, Vec::new(), Timestamp(0), back);
        let due = fail_until(&mut control, vec![Event::Connected], back, good);
        assert!(due.since(good) <= Duration::from_secs(5), "{away} s, {refuses} s: {due:?}");
        let tasks = control.turn([], due);
        assert!(matches!(tasks[..], [Task::Execute { .. }]), "{tasks:?}");
    }
}

/// C64: a connection that is made for the first time, or again, wakes nobody for whom nothing has failed.
#[test]
fn a_connection_wakes_only_what_has_failed() {
    let mut control = control();
    let [Task::WatchPods, Task::Execute { .. }] = &control.turn([], Timestamp(0))[..] else {
        panic!("a plan is due")
    };
    let before = control.due_at();
    assert!(control.turn([Event::Connected], Timestamp(0)).is_empty());
    assert_eq!(control.due_at(), before);
}

/// Fails the next sync's writes in this way, and returns when the DaemonSet is looked at again.
fn fail(control: &mut LoopState, outcome: &Outcome, now: Timestamp) -> Timestamp {
    let key = DaemonSetKey::new("ns", "d");
    let tasks = control.turn([], now);
    let plan = tasks.into_iter().find_map(|task| match task {
        Task::Execute { plan, .. } => Some(plan),
        Task::ListOrphans(_) | Task::WatchPods => None,
    });
    let plan = plan.expect("there is something to write");
    let written = plan.writes.into_iter().map(|write| Event::Written {
        key: key.clone(),
        uid: Uid::new("ds-uid"),
        result: WriteResult { write, outcome: outcome.clone() },
    });
    let over = Event::Executed { key: key.clone(), was_waiting: plan.waiting.is_some() };
    let tasks = control.turn(written.chain([over]), now);
    assert!(tasks.is_empty(), "{tasks:?}");
    control.due_at().expect("it is tried again")
}

fn pauses(outcome: &Outcome) -> Vec<u64> {
    let mut control = control();
    let mut now = Timestamp(0);
    let mut pauses = Vec::new();
    for _ in 0..15 {
        let due = fail(&mut control, outcome, now);
        pauses.push(u64::try_from(due.since(now).as_millis()).unwrap());
        now = due;
    }
    pauses
}

/// C35, C72: what failed is tried again ever later; what may have been done soon, and every four seconds in the end.
#[test]
fn a_write_of_unknown_outcome_is_sent_again_within_seconds() {
    let failed = pauses(&Outcome::Failed { message: "no".to_owned() });
    assert_eq!((failed[0], failed[1], failed[14]), (5, 10, 5 << 14));
    let unknown = pauses(&Outcome::Unknown { message: "no answer".to_owned() });
    assert_eq!(unknown[..3], [5, 10, 20]);
    assert_eq!(unknown[10..], [4_000; 5]);
}
