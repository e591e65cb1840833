//! The words of `top`, `status`, `explain` and `watch` about a rollout that does not end, compared
//! with the transcripts in `causes/`. All of them say the same.

use std::fmt::Write;

use crate::support::{
    Fixture, NOW, daemon_set, key, name_of_node, node, pod, ready_pod, revision, waiting_pod, with,
};
use everynode_core::plan::BACKOFF_ANNOTATION;
use everynode_insight::explain::explain;
use everynode_insight::overview::{Estimate, EstimateBasis, Overview};
use everynode_insight::rollout::{Phase, Rollout};
use everynode_insight::snapshot::ObjectKind;
use expect_test::{ExpectFile, expect_file};
use serde_json::{Value, json};

fn check(fixture: &Fixture, expected: &ExpectFile) {
    expected.assert_eq(&answers(fixture));
}

/// The answers of all commands.
fn answers(fixture: &Fixture) -> String {
    let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
    let mut text = format!("top: {:?}, {}\n", rollout.phase, rollout.waits_for());
    let _ = writeln!(text, "status: {}; stuck: {}", rollout.headline(), rollout.is_stuck());
    for group in rollout.groups() {
        let _ = writeln!(text, "  {}{group}", if group.stuck { "! " } else { "" });
    }
    let explanation = explain(&fixture.snapshot, &key(), NOW).expect("it is there");
    let _ = writeln!(text, "explain: {}", explanation.rollout);
    for problem in &explanation.problems {
        let _ = writeln!(text, "  problem: {problem}");
    }
    for group in &explanation.groups {
        let attention = if group.situation.needs_attention() { "! " } else { "" };
        let names = group.nodes.join(", ");
        let _ = writeln!(text, "  {attention}{:?}: {} [{names}]", group.situation, group.why);
        for (what, line) in [("detail", &group.detail), ("next", &group.next)] {
            if let Some(line) = line {
                let _ = writeln!(text, "    {what}: {line}");
            }
        }
    }
    let overview = Overview::of(&fixture.snapshot, &key(), NOW).expect("it is there");
    let _ = writeln!(text, "watch: {:?}, {}", overview.estimate, overview.waits_for);
    for group in &overview.held_up {
        let _ = writeln!(text, "  {:?}: {} [{}]", group.situation, group.why, group.count);
    }
    text
}

fn status(desired: u32, current: u32, updated: u32, available: u32) -> Value {
    json!({ "observedGeneration": 1, "desiredNumberScheduled": desired,
        "currentNumberScheduled": current, "updatedNumberScheduled": updated,
        "numberReady": available, "numberAvailable": available, "numberMisscheduled": 0 })
}

fn with_status(status: Value) -> Value {
    with(daemon_set("v1"), |ds| ds["status"] = status)
}

fn event(about: &str, reason: &str, message: &str, first: &str, last: &str) -> Value {
    json!({ "metadata": { "name": format!("{about}.{reason}"), "namespace": "infra" },
        "involvedObject": { "uid": about }, "type": "Warning", "reason": reason,
        "message": message, "count": 15, "firstTimestamp": first, "lastTimestamp": last })
}

const REFUSAL: &str = "Error creating: pods \"agent-\" is forbidden: error looking up service \
                       account infra/not-there: serviceaccount \"not-there\" not found";

/// Three nodes whose pods the API server has refused between two times.
fn refused(first: &str, last: &str) -> Fixture {
    let mut fixture = Fixture::with_nodes(3);
    fixture.run(&with_status(status(3, 0, 0, 0)), []);
    fixture.add(ObjectKind::Event, &event("ds", "FailedCreate", REFUSAL, first, last));
    fixture
}

/// A pod that is not created is stuck with the API server's words.
#[test]
fn a_pod_that_cant_be_created() {
    let fixture = refused("2026-01-01T00:50:00Z", "2026-01-01T00:58:00Z");
    check(&fixture, &expect_file!["causes/a_pod_that_cant_be_created.txt"]);
    let mut without_nodes = fixture;
    without_nodes.snapshot.nodes.clear();
    let rollout = Rollout::of(&without_nodes.snapshot, &key(), NOW).expect("it is there");
    assert_eq!(
        rollout.waits_for(),
        "can't be created: 3 pods: error looking up service account infra/not-there: \
         serviceaccount \"not-there\" not found"
    );
}

/// A ServiceAccount may be created shortly after the pod that needs it, and the next attempt may
/// have succeeded.
#[test]
fn a_failure_to_create_a_pod_may_pass() {
    let phase = |fixture: &Fixture| {
        let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
        (rollout.phase, rollout.waits_for())
    };
    let fixture = refused("2026-01-01T00:59:55Z", "2026-01-01T00:59:58Z");
    let (is, waits_for) = phase(&fixture);
    assert_eq!(is, Phase::Progressing);
    assert!(
        waits_for.starts_with("can't be created on 3 nodes: node-01..03: error"),
        "{waits_for}"
    );
    let mut passed = refused("2026-01-01T00:50:00Z", "2026-01-01T00:58:00Z");
    passed.add(
        ObjectKind::Pod,
        &with(ready_pod("node-01", "old"), |pod| {
            pod["metadata"]["creationTimestamp"] = "2026-01-01T00:59:00Z".into();
        }),
    );
    assert_eq!(
        phase(&passed),
        (Phase::Progressing, "not created on 2 nodes: node-02, node-03".to_owned())
    );
}

/// A pod that has crashed seven times, the last time at 00:59.
fn crashing(terminated: &Value) -> Value {
    with(waiting_pod("node-01", "old", "CrashLoopBackOff", "back-off 5m0s"), |pod| {
        let last = &mut pod["status"]["containerStatuses"][0]["lastState"]["terminated"];
        *last =
            json!({ "startedAt": "2026-01-01T00:58:30Z", "finishedAt": "2026-01-01T00:59:00Z" });
        for (field, value) in terminated.as_object().expect("fields") {
            last[field] = value.clone();
        }
    })
}

/// The cause of a pod with these warnings.
fn cause_of(pod: &Value, warnings: &[(&str, &str, &str)]) -> (String, String, String) {
    let mut fixture = Fixture::with_nodes(1);
    fixture.run(&with_status(status(1, 1, 1, 0)), []);
    fixture.add(ObjectKind::Pod, pod);
    for (reason, message, at) in warnings {
        fixture.add(ObjectKind::PodWarning, &event("agent-node-01", reason, message, at, at));
    }
    let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
    let cause = rollout.groups().remove(0).cause;
    (cause.text, cause.message.unwrap_or_default(), cause.next.unwrap_or_default())
}

/// Why the kubelet ends a container is the cause, not how it ends; and a program that can't be
/// started has no logs.
#[test]
fn the_cause_of_a_crash_is_what_the_kubelet_knows() {
    let describe = "kubectl -n infra describe pod agent-node-01";
    let logs = "kubectl -n infra logs agent-node-01 -c agent --previous";
    let completed = crashing(&json!({ "reason": "Completed", "exitCode": 0 }));
    let probe = "Liveness probe failed: HTTP probe failed with statuscode: 404";
    let back_off = ("BackOff", "Back-off restarting failed container", "2026-01-01T00:59:30Z");
    let failed = ("Unhealthy", probe, "2026-01-01T00:58:59Z");
    let (text, message, next) = cause_of(&completed, &[failed, back_off]);
    assert_eq!(text, "CrashLoopBackOff of container agent (Completed, exit code 0)");
    assert_eq!((&*message, &*next), (probe, describe));

    // Before the last start, or of a probe for which no container is ended.
    let readiness = ("Unhealthy", "Readiness probe failed: 404", "2026-01-01T00:58:59Z");
    let earlier = ("Unhealthy", probe, "2026-01-01T00:10:00Z");
    for warning in [readiness, earlier] {
        let (_, message, next) = cause_of(&completed, &[warning]);
        assert_eq!((&*message, &*next), ("", logs));
    }

    let why = "exec: \"/no/such/program\": no such file or directory";
    let never = crashing(&json!({ "reason": "StartError", "exitCode": 128, "message": why }));
    let (_, message, next) = cause_of(&never, &[back_off]);
    assert_eq!((&*message, &*next), (why, describe));
}

/// Between two crashes all looks well: the commands say that a container was restarted of late.
#[test]
fn a_restart_of_late_is_noted() {
    let notes = |finished_at: &str| {
        let mut fixture = Fixture::with_nodes(2);
        fixture.run(&with_status(status(2, 2, 2, 2)), [1]);
        let restarted = with(ready_pod("node-02", "old"), |pod| {
            let container = &mut pod["status"]["containerStatuses"][0];
            container["restartCount"] = 3.into();
            container["lastState"]["terminated"] =
                json!({ "reason": "OOMKilled", "exitCode": 137, "finishedAt": finished_at });
        });
        fixture.add(ObjectKind::Pod, &restarted);
        let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
        assert_eq!(rollout.phase, Phase::Done);
        rollout.notes
    };
    let note = "restarted within the last 10 min on 1 node: node-02: container agent (OOMKilled, \
                exit code 137); try: kubectl -n infra logs agent-node-02 -c agent --previous";
    assert_eq!(notes("2026-01-01T00:55:00Z"), [note]);
    assert_eq!(notes("2026-01-01T00:45:00Z"), [""; 0]);
}

/// Between two evictions all looks well: the commands say that a pod was replaced of late.
#[test]
fn a_replaced_pod_of_late_is_noted() {
    let noted = |at: &str, reason: &str, from_everynode: bool| {
        let mut fixture = Fixture::with_nodes(2);
        fixture.run(&with_status(status(2, 2, 2, 2)), [1, 2]);
        let report = event("ds", reason, "it is replaced", at, at);
        fixture.add(
            ObjectKind::Event,
            &with(report, |it| {
                if from_everynode {
                    it["related"] = json!({ "kind": "Node", "name": "node-02" });
                    it["metadata"]["annotations"] = json!({ BACKOFF_ANNOTATION: "2" });
                }
            }),
        );
        let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
        assert_eq!(rollout.phase, Phase::Done);
        rollout.notes.join("")
    };
    let step = "; try: kubectl -n infra get events --field-selector involvedObject.kind=Pod";
    let replaced = "pods that had ended were replaced within the last 10 min";
    let (recent, old) = ("2026-01-01T00:55:00Z", "2026-01-01T00:45:00Z");
    assert_eq!(
        noted(recent, "FailedDaemonPod", true),
        format!("{replaced} on 1 node: node-02{step}")
    );
    assert_eq!(noted(recent, "SucceededDaemonPod", false), format!("{replaced}{step}"));
    assert_eq!(noted(recent, "SuccessfulCreate", false), "");
    assert_eq!(noted(old, "FailedDaemonPod", true), "");
}

/// A probe that failed when the pod started does not say why it does not end.
#[test]
fn a_failed_probe_does_not_explain_an_end() {
    let ending = with(ready_pod("node-01", "old"), |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:40:00Z".into();
    });
    let failed = ("Unhealthy", "Readiness probe failed: 404", "2026-01-01T00:00:05Z");
    let (text, message, _) = cause_of(&ending, &[failed]);
    assert_eq!((&*text, &*message), ("terminating for more than 10 min", ""));
    let stuck = ("FailedKillPod", "error killing pod", "2026-01-01T00:50:00Z");
    assert_eq!(cause_of(&ending, &[stuck]).1, "error killing pod");
}

/// A warning from before the pod was ready, or was deleted, does not explain its present state.
#[test]
fn an_old_warning_does_not_explain_the_present_state() {
    let ending = with(ready_pod("node-01", "old"), |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:40:00Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    });
    let mount = |at| ("FailedMount", "secret \"a\" not found", at);
    assert_eq!(cause_of(&ending, &[mount("2026-01-01T00:39:29Z")]).1, "");
    assert_eq!(cause_of(&ending, &[mount("2026-01-01T00:39:30Z")]).1, "secret \"a\" not found");
    let lost = with(ready_pod("node-01", "old"), |pod| {
        pod["status"] = json!({ "phase": "Running", "conditions": [{ "type": "Ready",
            "status": "False", "lastTransitionTime": "2026-01-01T00:40:00Z" }],
            "containerStatuses": [
                { "name": "main", "ready": false, "state": { "running": {} } }] });
    });
    assert_eq!(cause_of(&lost, &[mount("2026-01-01T00:39:49Z")]).1, "");
    assert_eq!(cause_of(&lost, &[mount("2026-01-01T00:39:50Z")]).1, "secret \"a\" not found");
}

fn next_step(fixture: &Fixture) -> String {
    let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
    rollout.groups()[0].cause.next.clone().unwrap_or_default()
}

/// C72: while everynode is refused pods, the commands say by when it tries again, and how to make
/// it try at once. Nothing is known of the attempts of another controller.
#[test]
fn the_next_attempt_to_create_a_pod_is_stated() {
    let refused_by = |controller: &str, last: &str| {
        let mut fixture = Fixture::with_nodes(3);
        fixture.run(&with_status(status(3, 0, 0, 0)), []);
        let refusal = event("ds", "FailedCreate", REFUSAL, "2026-01-01T00:50:00Z", last);
        let refusal = with(refusal, |it| it["reportingComponent"] = controller.into());
        fixture.add(ObjectKind::Event, &refusal);
        next_step(&fixture)
    };
    let step = "kubectl -n infra create serviceaccount not-there";
    assert_eq!(
        refused_by("everynode", "2026-01-01T00:59:40Z"),
        format!(
            "{step}; next attempt by 01:00:40 UTC, or at once after: kubectl -n infra annotate ds \
             agent --overwrite everynode.dev/retry=\"$(date)\""
        )
    );
    // It is late: nobody seems to try.
    assert_eq!(refused_by("everynode", "2026-01-01T00:59:00Z"), step);
    assert_eq!(refused_by("daemonset-controller", "2026-01-01T00:59:40Z"), step);
}

/// C24: the commands say when a pod that has ended is replaced: as the event of the last one says,
/// or else after the longest back-off.
#[test]
fn the_next_attempt_after_a_failure_is_stated() {
    let ended = |phase: &str, event: Option<Value>| {
        let mut fixture = Fixture::with_nodes(1);
        fixture.run(&with_status(status(1, 1, 1, 0)), []);
        let failed = with(pod("node-01", "old", json!({ "phase": phase })), |pod| {
            pod["metadata"]["creationTimestamp"] = "2026-01-01T00:59:00Z".into();
        });
        fixture.add(ObjectKind::Pod, &failed);
        event.iter().for_each(|event| fixture.add(ObjectKind::Event, event));
        next_step(&fixture)
    };
    let event_at = |time: &str, count: u32| {
        let event = event("ds", "FailedDaemonPod", "for people", time, time);
        Some(with(event, |it| {
            it["count"] = count.into();
            it["metadata"]["annotations"] = json!({ BACKOFF_ANNOTATION: "128" });
            it["related"] = json!({ "kind": "Node", "name": "node-01" });
        }))
    };
    for phase in ["Failed", "Succeeded"] {
        let next = |when: &str| {
            format!(
                "the controller replaces it{when}; if it fails again: kubectl describe node node-01"
            )
        };
        let or_at_once = ", or at once after: kubectl -n infra delete pod agent-node-01";
        let exactly = next(&format!(" at 01:01:07 UTC{or_at_once}"));
        let at_the_latest = next(&format!(" by 01:14:00 UTC{or_at_once}"));
        let last = "2026-01-01T00:58:59Z";
        assert_eq!(ended(phase, event_at(last, 1)), exactly);
        // Events of earlier pods, and those that stand for several, do not tell.
        assert_eq!(ended(phase, event_at("2026-01-01T00:56:00Z", 1)), at_the_latest);
        assert_eq!(ended(phase, event_at(last, 2)), at_the_latest);
        assert_eq!(ended(phase, None), at_the_latest);
        // It is due.
        let due = ", after a back-off of at most 15 min";
        assert_eq!(ended(phase, event_at("2026-01-01T00:57:30Z", 1)), next(due));
    }
}

/// A pod that makes no progress is stuck after ten minutes, and its last warning is told at once.
#[test]
fn pods_that_never_start() {
    let mut fixture = Fixture::with_nodes(5);
    fixture.run(&with_status(status(5, 5, 5, 1)), [5]);
    let creating = json!({ "phase": "Pending" });
    let running = json!({ "phase": "Running", "containerStatuses": [
        { "name": "agent", "ready": false, "state": { "running": {} } }] });
    for (number, status) in [(1, &creating), (2, &creating), (3, &running), (4, &running)] {
        fixture.add(ObjectKind::Pod, &pod(&name_of_node(number), "old", status.clone()));
    }
    fixture.add(
        ObjectKind::Pod,
        &with(pod("node-04", "old", running), |pod| {
            pod["metadata"]["creationTimestamp"] = "2026-01-01T00:59:00Z".into();
        }),
    );
    let missing = "MountVolume.SetUp failed for volume \"cfg\" : configmap \"agent-cfg\" not found";
    let late = "2026-01-01T00:59:30Z";
    for (about, reason, message) in [
        ("agent-node-01", "FailedMount", missing),
        ("agent-node-02", "FailedMount", missing),
        ("agent-node-04", "Unhealthy", "Readiness probe failed: connection refused"),
        // Of another pod.
        ("other", "FailedMount", "secret \"x\" not found"),
    ] {
        fixture.add(ObjectKind::PodWarning, &event(about, reason, message, late, late));
    }
    check(&fixture, &expect_file!["causes/pods_that_never_start.txt"]);
}

/// A condition that is not met is named.
#[test]
fn a_readiness_gate_that_is_not_met() {
    let mut fixture = Fixture::with_nodes(1);
    fixture.run(&with_status(status(1, 1, 1, 0)), []);
    let message = "the status of pod readiness gate \"example.com/lb\" is not \"True\", but False";
    let gated = json!({ "phase": "Running",
        "conditions": [{ "type": "Ready", "status": "False", "message": message,
            "lastTransitionTime": "2026-01-01T00:55:00Z" }],
        "containerStatuses": [{ "name": "agent", "ready": true, "state": { "running": {} } }] });
    fixture.add(ObjectKind::Pod, &pod("node-01", "old", gated));
    check(&fixture, &expect_file!["causes/a_readiness_gate_that_is_not_met.txt"]);
}

/// A DaemonSet and its pods that finalizers hold are being deleted, not rolled out.
#[test]
fn finalizers_that_hold_a_daemon_set_and_a_pod() {
    let mut fixture = Fixture::with_nodes(2);
    let deleted = |at: &'static str, finalizer: &'static str| {
        move |object: &mut Value| {
            object["metadata"]["deletionTimestamp"] = at.into();
            object["metadata"]["finalizers"] = json!([finalizer]);
        }
    };
    fixture.run(&with_status(status(2, 2, 2, 1)), [2]);
    let held = deleted("2026-01-01T00:30:00Z", "example.com/drain");
    fixture.add(ObjectKind::Pod, &with(ready_pod("node-01", "old"), held));
    check(&fixture, &expect_file!["causes/a_finalizer_that_holds_a_pod.txt"]);
    // Its containers have ended, so that the controller creates another pod.
    let ended = with(ready_pod("node-01", "old"), |pod| {
        deleted("2026-01-01T00:30:00Z", "example.com/drain")(pod);
        pod["status"]["phase"] = "Succeeded".into();
    });
    let mut other = Fixture::with_nodes(2);
    other.run(&with_status(status(2, 1, 1, 1)), [2]);
    other.add(ObjectKind::Pod, &ended);
    let rollout = Rollout::of(&other.snapshot, &key(), NOW).expect("it is there");
    assert_eq!(rollout.waits_for(), "not created on 1 node: node-01");
    assert!(rollout.notes[0].contains("has ended, and stays because of finalizers"));
    let changed = with(daemon_set("v2"), |ds| {
        ds["metadata"]["generation"] = 2.into();
        ds["status"] = status(2, 2, 2, 1);
    });
    let held = with(changed, deleted("2026-01-01T00:30:00Z", "example.com/cleanup"));
    fixture.add(ObjectKind::DaemonSet, &held);
    fixture.add(ObjectKind::ControllerRevision, &revision(&held, "new", 2));
    check(&fixture, &expect_file!["causes/a_finalizer_that_holds_a_daemon_set.txt"]);
}

/// A cause of many nodes that should run a pod comes before that of a node that need not.
#[test]
fn causes_are_ranked_by_the_nodes_that_should_run_a_pod() {
    let mut fixture = Fixture::with_nodes(4);
    fixture.run(&with_status(status(4, 4, 4, 0)), []);
    let running = json!({ "phase": "Running", "containerStatuses": [
        { "name": "agent", "ready": false, "state": { "running": {} } }] });
    let down = with(node("node-05"), |node| {
        node["status"]["conditions"] = json!([{ "type": "Ready", "status": "Unknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": "2026-01-01T00:20:00Z" }]);
        node["spec"]["taints"] =
            json!([{ "key": "node.kubernetes.io/unreachable", "effect": "NoSchedule" }]);
    });
    fixture.add(ObjectKind::Node, &down);
    for number in 1..=5 {
        fixture.add(ObjectKind::Pod, &pod(&name_of_node(number), "old", running.clone()));
    }
    check(
        &fixture,
        &expect_file!["causes/causes_are_ranked_by_the_nodes_that_should_run_a_pod.txt"],
    );
    let crashing = waiting_pod("node-02", "old", "CrashLoopBackOff", "back-off 5m0s");
    fixture.add(ObjectKind::Pod, &crashing);
    let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
    let ranks: Vec<_> = rollout.groups().iter().map(|group| (group.desired, group.stuck)).collect();
    assert_eq!(ranks, [(3, true), (1, true), (0, false)]);
}

/// A node that is down may come back within ten minutes.
#[test]
fn a_node_that_is_down_is_stuck_after_ten_minutes() {
    for (since, phase) in
        [("2026-01-01T00:55:00Z", Phase::Progressing), ("2026-01-01T00:45:00Z", Phase::Failing)]
    {
        let mut fixture = Fixture::with_nodes(0);
        fixture.run(&with_status(status(1, 1, 1, 0)), []);
        let down = with(node("node-01"), |node| {
            node["status"]["conditions"] = json!([{ "type": "Ready", "status": "Unknown",
                "message": "Kubelet stopped posting node status.", "lastTransitionTime": since }]);
        });
        fixture.add(ObjectKind::Node, &down);
        fixture.add(ObjectKind::Pod, &pod("node-01", "old", json!({ "phase": "Running" })));
        let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
        assert_eq!(rollout.phase, phase, "{since}");
    }
}

/// The end is at least as far away as the oldest pod has waited, and there is none in sight if a
/// pod that is stuck uses up the budget.
#[test]
fn the_estimate_follows_the_pod_that_waits() {
    let estimate = |created: &str| {
        let mut fixture = Fixture::with_nodes(3);
        fixture.run(&daemon_set("v1"), [2, 3]);
        fixture.add(
            ObjectKind::DaemonSet,
            &with(daemon_set("v2"), |ds| ds["status"] = status(3, 3, 1, 2)),
        );
        fixture.add(ObjectKind::ControllerRevision, &revision(&daemon_set("v2"), "new", 2));
        let waiting = with(pod("node-01", "new", json!({ "phase": "Pending" })), |pod| {
            pod["metadata"]["creationTimestamp"] = created.into();
        });
        fixture.add(ObjectKind::Pod, &waiting);
        Overview::of(&fixture.snapshot, &key(), NOW).expect("it is there").estimate
    };
    let basis = EstimateBasis::StartUp { seconds: 8 };
    assert_eq!(estimate("2026-01-01T00:59:58Z"), Estimate::In { seconds: 24, basis });
    assert_eq!(estimate("2026-01-01T00:59:10Z"), Estimate::In { seconds: 150, basis });
    assert_eq!(estimate("2026-01-01T00:40:00Z"), Estimate::Blocked);
}

/// A DaemonSet whose status a controller wrote at that time.
fn with_status_of(status: Value, at: &str) -> Value {
    with(with_status(status), |ds| {
        ds["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        ds["metadata"]["managedFields"] =
            json!([{ "manager": "kube-controller-manager", "subresource": "status", "time": at }]);
    })
}

/// A pod that no controller creates is stuck ten minutes after the status has counted it, and after
/// its node has joined. What is not known to have lasted is not stuck: the node has joined since
/// the rollout, which does not wait for it.
#[test]
fn a_pod_that_no_controller_creates_is_stuck_after_ten_minutes() {
    let (missing, complete) = (status(2, 1, 1, 1), status(2, 2, 2, 1));
    let (long_ago, just_now) = ("2026-01-01T00:40:00Z", "2026-01-01T00:55:00Z");
    for (what, daemon_set, joined, phase) in [
        ("long", with_status_of(missing.clone(), long_ago), long_ago, Phase::Failing),
        ("a new status", with_status_of(missing.clone(), just_now), long_ago, Phase::Done),
        ("a new node", with_status_of(missing.clone(), long_ago), just_now, Phase::Done),
        ("no managers", with_status(missing), long_ago, Phase::Done),
        ("not counted", with_status_of(complete, long_ago), long_ago, Phase::Progressing),
    ] {
        let mut fixture = Fixture::with_nodes(1);
        fixture.run(&daemon_set, [1]);
        fixture.add(
            ObjectKind::Node,
            &with(node("node-02"), |node| node["metadata"]["creationTimestamp"] = joined.into()),
        );
        let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
        assert_eq!(rollout.phase, phase, "{what}: {}", rollout.remarks().join("; "));
        let explanation = explain(&fixture.snapshot, &key(), NOW).expect("it is there");
        let is_stuck = explanation.groups.iter().any(|group| group.situation.is_stuck());
        assert_eq!(is_stuck, phase == Phase::Failing, "{what}: {:?}", explanation.groups);
    }
}

/// An old pod that the controller could replace is stuck if nothing has changed for ten minutes,
/// but not while a new pod has yet to become available.
#[test]
fn an_old_pod_that_nothing_keeps_is_stuck_after_ten_minutes() {
    for (min_ready_seconds, status_at, phase) in [
        (0, "2026-01-01T00:40:00Z", Phase::Failing),
        (0, "2026-01-01T00:55:00Z", Phase::Progressing),
        // The last pod became available three minutes ago.
        (57 * 60 - 8, "2026-01-01T00:40:00Z", Phase::Progressing),
    ] {
        let mut fixture = Fixture::with_nodes(2);
        fixture.run(&daemon_set("v1"), [1, 2]);
        let changed = with(daemon_set("v2"), |ds| {
            ds["metadata"] = with_status_of(json!({}), status_at)["metadata"].clone();
            ds["spec"]["minReadySeconds"] = min_ready_seconds.into();
            ds["status"] = status(2, 2, 0, 2);
        });
        fixture.add(ObjectKind::DaemonSet, &changed);
        fixture.add(ObjectKind::ControllerRevision, &revision(&changed, "new", 2));
        let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
        assert_eq!(
            rollout.phase,
            phase,
            "{min_ready_seconds} {status_at}: {}",
            rollout.remarks().join("; ")
        );
    }
}
