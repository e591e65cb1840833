//! The course of a rollout, and its events.

use crate::support::{Fixture, NOW, daemon_set, key, ready_pod, revision, waiting_pod, with};
use everynode_core::api::Timestamp;
use everynode_insight::course::Course;
use everynode_insight::events::events;
use everynode_insight::snapshot::ObjectKind;
use serde_json::json;

/// The time in the hour before [`NOW`].
fn at(seconds: i64) -> Timestamp {
    Timestamp(NOW.0 - 3_600_000 + seconds * 1000)
}

#[test]
fn the_course_is_read_from_the_pods_of_the_current_revision() {
    let mut fixture = Fixture::with_nodes(3);
    fixture.run(&daemon_set("agent:1"), 1..=3);
    let course = Course::of(&fixture.snapshot, &key(), NOW).expect("it has pods");
    assert_eq!(course, Course { began_at: at(0), now: NOW, available_at: vec![at(8); 3] });

    let new = daemon_set("agent:2");
    fixture.add(ObjectKind::DaemonSet, &new);
    fixture.add(ObjectKind::ControllerRevision, &revision(&new, "new", 2));
    assert_eq!(Course::of(&fixture.snapshot, &key(), NOW), None, "no pod is current");
    fixture.add(ObjectKind::Pod, &waiting_pod("node-01", "new", "CrashLoopBackOff", ""));
    fixture.add(ObjectKind::Pod, &ready_pod("node-02", "new"));
    let course = Course::of(&fixture.snapshot, &key(), NOW).expect("it has pods");
    assert_eq!(course.available_at, [at(8)], "the pod that fails is not available");
}

#[test]
fn events_are_those_of_the_daemon_set_then_the_warnings_about_its_pods() {
    let mut fixture = Fixture::with_nodes(2);
    fixture.run(&daemon_set("agent:1"), [1, 2]);
    let event = |name: &str, about: &str, seconds: i64, kind: &str| {
        json!({ "metadata": { "name": name, "namespace": "infra" }, "type": kind,
            "reason": name.split('.').next(), "message": format!("m of {about}"), "count": 2,
            "involvedObject": { "uid": about },
            "lastTimestamp": format!("2026-01-01T00:00:{seconds:02}Z") })
    };
    fixture.add(ObjectKind::Event, &event("Created", "ds", 1, "Normal"));
    let of_pod = |name: &str, message: &str| {
        with(event(name, "ds", 0, "Normal"), |event| event["message"] = message.into())
    };
    fixture.add(ObjectKind::Event, &of_pod("Deleted.1", "Deleted pod: agent-x"));
    let combined = "(combined from similar events): Deleted pod: agent-y";
    fixture.add(ObjectKind::Event, &of_pod("Deleted.2", combined));
    fixture.add(ObjectKind::PodWarning, &event("Unhealthy.1", "agent-node-01", 9, "Warning"));
    fixture.add(ObjectKind::PodWarning, &event("Unhealthy.2", "agent-node-02", 8, "Warning"));
    fixture.add(ObjectKind::PodWarning, &event("Foreign", "other", 5, "Warning"));
    let lines = events(&fixture.snapshot, &key(), NOW, 10);
    let found: Vec<_> = lines.iter().map(|it| (it.reason.as_str(), it.about.as_str())).collect();
    let expected = [
        ("Created", "daemonset infra/agent"),
        ("Deleted", "daemonset infra/agent"),
        ("Unhealthy", "pod agent-node-01 on node-01 and 1 other"),
    ];
    assert_eq!(found, expected);
    assert!(lines[1].count == 4 && lines[1].message.starts_with("Deleted pod: agent-"));
    assert!(lines[2].is_warning && lines[2].count == 4 && lines[2].age_seconds == 3591);
    assert_eq!(events(&fixture.snapshot, &key(), NOW, 1).len(), 1);
}
