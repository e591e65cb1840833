//! Transcripts of pods' lifecycles.

use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::{Sim, pinned, pod, pod_that};
use crate::json::{Value, json};

fn check(pod: Value, ms: i64, expected: &Expect) -> Sim {
    let mut sim = Sim::new(1);
    sim.create_pod(pod);
    expected.assert_eq(&sim.transcript("p", ms));
    sim
}

/// S22: with the default lifecycle a pod is ready at once.
#[test]
fn by_default_a_pod_is_ready_at_once() {
    let sim = check(
        pod("p"),
        60_000,
        &expect![[r#"
            0 ms      Pending c[ContainerCreating]
            75 ms     Running c[running ready] Ready
        "#]],
    );
    expect![[r#"
        Normal Scheduled: Successfully assigned default/p to node-0001
        Normal Pulling: Pulling image "nginx:1.27"
        Normal Pulled: Successfully pulled image "nginx:1.27" in 40ms (40ms including waiting). Image size: 52428800 bytes.
        Normal Created: Container created
        Normal Started: Container started"#]].assert_eq(&sim.events("p").join("\n"));
}

/// S22: a container whose command cannot exist ends after its image was pulled, as on a real
/// kubelet; the pod has failed if it must not restart.
#[test]
fn a_command_that_cannot_exist_ends_the_container_after_the_pull() {
    let mut only_pulls = pod("p");
    only_pulls["spec"]["restartPolicy"] = json!("Never");
    only_pulls["spec"]["containers"][0]["command"] = json!(["/dev/null/none"]);
    let sim = check(
        only_pulls,
        60_000,
        &expect![[r#"
        0 ms      Pending c[ContainerCreating]
        75 ms     Failed c[exited 128]
    "#]],
    );
    let status = &sim.pod("p").unwrap()["status"]["containerStatuses"][0];
    assert!(status["imageID"].as_str().unwrap().contains("@sha256:"), "{status}");
    assert_eq!(status["state"]["terminated"]["reason"], "StartError", "{status}");
}

/// S22: a pod with a readiness gate is ready when the gate's condition is true.
#[test]
fn a_readiness_gate_holds_a_pod_up() {
    let mut sim = Sim::new(1);
    sim.create_pod(pod_that_has_gate("p", "example.com/lb"));
    sim.run_for(1_000);
    let ready = |sim: &Sim| {
        let status = sim.pod("p").unwrap()["status"].clone();
        let conditions = status["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        ["status", "reason", "message"].map(|field| ready[field].as_str().unwrap().to_owned())
    };
    let unmet = "corresponding condition of pod readiness gate \"example.com/lb\" does not exist.";
    assert_eq!(ready(&sim), ["False", "ReadinessGatesNotReady", unmet]);
}

fn pod_that_has_gate(name: &str, gate: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["readinessGates"] = json!([{"conditionType": gate}]);
    pod
}

/// S22: every field of the status that a kubelet reports.
#[test]
fn a_running_pods_status_matches_a_real_kubelets() {
    let mut sim = Sim::new(1);
    sim.create_pod(pod("p"));
    sim.run_for(1_000);
    let mut status = sim.pod("p").unwrap()["status"].clone();
    status["containerStatuses"][0]["containerID"] = json!("…");
    let mut lines = String::new();
    for (field, value) in status.as_object().unwrap() {
        match value.as_array() {
            Some(items) => {
                items.iter().for_each(|item| writeln!(lines, "{field}: {item}").unwrap())
            }
            None => writeln!(lines, "{field}: {value}").unwrap(),
        }
    }
    expect![[r#"
        conditions: {"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1,"status":"True","type":"PodReadyToStartContainers"}
        conditions: {"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1,"status":"True","type":"Initialized"}
        conditions: {"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1,"status":"True","type":"Ready"}
        conditions: {"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1,"status":"True","type":"ContainersReady"}
        conditions: {"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1,"status":"True","type":"PodScheduled"}
        containerStatuses: {"containerID":"…","image":"docker.io/library/nginx:1.27","imageID":"docker.io/library/nginx@sha256:191f006a0f8ea4e1b7567a238ed920f6558df3dd0e239d0bf3c56d968d6e1920","lastState":{},"name":"c","ready":true,"resources":{},"restartCount":0,"started":true,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}
        hostIP: "172.16.0.2"
        hostIPs: {"ip":"172.16.0.2"}
        observedGeneration: 1
        phase: "Running"
        podIP: "10.64.0.2"
        podIPs: {"ip":"10.64.0.2"}
        qosClass: "BestEffort"
        startTime: "2026-01-01T00:00:00Z"
    "#]].assert_eq(&lines);
}

/// S22: a pod can stay not ready forever.
#[test]
fn a_pod_may_never_become_ready() {
    check(
        pod_that("never-ready"),
        600_000,
        &expect![[r#"
            0 ms      Pending c[ContainerCreating]
            75 ms     Running c[running unready]
        "#]],
    );
}

/// S22: a pod becomes ready after the time in the annotation.
#[test]
fn a_pod_becomes_ready_as_its_annotation_specifies() {
    check(
        pod_that("[{stage: ready, delay: 12s}]"),
        60_000,
        &expect![[r#"
            0 ms      Pending c[ContainerCreating]
            75 ms     Running c[running unready]
            12075 ms  Running c[running ready] Ready
        "#]],
    );
}

/// S22: a crash loop backs off for 10 s, doubling.
#[test]
fn a_crash_loop_backs_off() {
    let sim = check(
        pod_that("crash-loop"),
        120_000,
        &expect![[r#"
            0 ms      Pending c[ContainerCreating]
            75 ms     Running c[running ready] Ready
            1427 ms   Running c[exited 1, 1 restarts]
            1441 ms   Running c[running ready, 1 restarts] Ready
            2836 ms   Running c[CrashLoopBackOff, 1 restarts]
            12854 ms  Running c[running ready, 2 restarts] Ready
            13868 ms  Running c[CrashLoopBackOff, 2 restarts]
            33890 ms  Running c[running ready, 3 restarts] Ready
            35451 ms  Running c[CrashLoopBackOff, 3 restarts]
            75483 ms  Running c[running ready, 4 restarts] Ready
            77354 ms  Running c[CrashLoopBackOff, 4 restarts]
        "#]],
    );
    expect![[r#"
        Normal Scheduled: Successfully assigned default/p to node-0001
        Normal Pulling: Pulling image "nginx:1.27"
        Normal Pulled: Successfully pulled image "nginx:1.27" in 40ms (40ms including waiting). Image size: 52428800 bytes.
        Normal Created: Container created
        Normal Started: Container started
        Normal Pulled: Container image "nginx:1.27" already present on machine and can be accessed by the pod
        Warning BackOff: Back-off restarting failed container c in pod p_default(8da9d646-0d14-43e4-824d-1641a7beb562)"#]].assert_eq(&sim.events("p").join("\n"));
}

/// S22: an image that can't be pulled.
#[test]
fn an_image_that_can_not_be_pulled() {
    let sim = check(
        pod_that("pull-failure"),
        60_000,
        &expect![[r#"
            0 ms      Pending c[ContainerCreating]
            200 ms    Pending c[ErrImagePull]
            1200 ms   Pending c[ImagePullBackOff]
            11400 ms  Pending c[ErrImagePull]
            12400 ms  Pending c[ImagePullBackOff]
            32600 ms  Pending c[ErrImagePull]
            33600 ms  Pending c[ImagePullBackOff]
        "#]],
    );
    expect![[r#"
        Normal Scheduled: Successfully assigned default/p to node-0001
        Normal Pulling: Pulling image "nginx:1.27"
        Warning Failed: Failed to pull image "nginx:1.27": rpc error: code = NotFound desc = failed to pull and unpack image "nginx:1.27": failed to resolve reference "nginx:1.27": nginx:1.27: not found
        Warning Failed: Error: ErrImagePull
        Normal BackOff: Back-off pulling image "nginx:1.27"
        Warning Failed: Error: ImagePullBackOff"#]].assert_eq(&sim.events("p").join("\n"));
}

/// S22: a pod that the kubelet rejects.
#[test]
fn a_pod_rejected_by_the_kubelet() {
    let sim = check(
        pod_that("admission-failure"),
        60_000,
        &expect![[r#"
            0 ms      Failed (OutOfcpu)
        "#]],
    );
    expect![[r#"
        Normal Scheduled: Successfully assigned default/p to node-0001
        Warning OutOfcpu: Node didn't have enough resource: cpu, requested: 1000, used: 4000, capacity: 4000"#]].assert_eq(&sim.events("p").join("\n"));
}

/// S22: a container that completes is restarted, unless the restart policy prevents it.
#[test]
fn a_completed_container_restarts_if_the_policy_requires_it() {
    check(
        pod_that("completes"),
        30_000,
        &expect![[r#"
            0 ms      Pending c[ContainerCreating]
            75 ms     Running c[running ready] Ready
            2427 ms   Running c[exited 0, 1 restarts]
            2441 ms   Running c[running ready, 1 restarts] Ready
            4836 ms   Running c[CrashLoopBackOff, 1 restarts]
            14854 ms  Running c[running ready, 2 restarts] Ready
            16868 ms  Running c[CrashLoopBackOff, 2 restarts]
        "#]],
    );
    for (policy, exit, expected) in [
        ("Never", "completes", "Succeeded"),
        ("OnFailure", "completes", "Succeeded"),
        ("Never", "crash-loop", "Failed"),
        ("OnFailure", "crash-loop", "Running"),
    ] {
        let mut sim = Sim::new(1);
        let mut pod = pod_that(exit);
        pod["spec"]["restartPolicy"] = json!(policy);
        sim.create_pod(pod);
        sim.run_for(5_000);
        assert_eq!(sim.pod("p").unwrap()["status"]["phase"], expected, "{policy} {exit}");
    }
}

/// S22: init containers run one after the other, sidecars keep running.
#[test]
fn init_containers_run_in_sequence() {
    let mut pod = pod("p");
    pod["spec"]["initContainers"] = json!([
        {"name": "first", "image": "a"},
        {"name": "sidecar", "image": "b", "restartPolicy": "Always"},
        {"name": "last", "image": "a"},
    ]);
    check(
        pod,
        10_000,
        &expect![[r#"
            0 ms      Pending first[ContainerCreating] sidecar[PodInitializing] last[PodInitializing] c[PodInitializing]
            75 ms     Pending first[running unready] sidecar[PodInitializing] last[PodInitializing] c[PodInitializing]
            85 ms     Pending first[exited 0] sidecar[ContainerCreating] last[PodInitializing] c[PodInitializing]
            160 ms    Pending first[exited 0] sidecar[running ready] last[ContainerCreating] c[PodInitializing]
            171 ms    Pending first[exited 0] sidecar[running ready] last[running unready] c[PodInitializing]
            181 ms    Pending first[exited 0] sidecar[running ready] last[exited 0] c[ContainerCreating]
            223 ms    Running first[exited 0] sidecar[running ready] last[exited 0] c[running ready] Ready
        "#]],
    );
}

/// S22: a pod stops soon, or uses its whole grace period if it ignores SIGTERM.
#[test]
fn termination_lasts_as_long_as_the_lifecycle_specifies() {
    for (lifecycle, expected) in [
        (
            "default",
            expect![[r#"
                0 ms      Running c[running ready] Ready Terminating
                118 ms    gone
            "#]],
        ),
        (
            "ignores-sigterm",
            expect![[r#"
                0 ms      Running c[running ready] Ready Terminating
                30000 ms  gone
            "#]],
        ),
        (
            "[{stage: stop, delay: 3s}]",
            expect![[r#"
                0 ms      Running c[running ready] Ready Terminating
                3000 ms   gone
            "#]],
        ),
        (
            "[{stage: stop, delay: 45s}]",
            expect![[r#"
                0 ms      Running c[running ready] Ready Terminating
                30000 ms  gone
            "#]],
        ),
        (
            "pull-failure",
            expect![[r#"
                0 ms      gone
            "#]],
        ),
    ] {
        let mut sim = Sim::new(1);
        sim.create_pod(pod_that(lifecycle));
        sim.run_for(1_000);
        sim.delete_pod("p");
        expected.assert_eq(&sim.transcript("p", 60_000));
    }
}

/// S12, S22: the longest grace period that Kubernetes allows ends with the containers.
#[test]
fn a_grace_period_of_any_length_can_be_asked_for() {
    let mut sim = Sim::new(1);
    for (lifecycle, expected) in [
        ("default", "0 ms      Running c[running ready] Ready Terminating\n118 ms    gone\n"),
        ("ignores-sigterm", "0 ms      Running c[running ready] Ready Terminating\n"),
    ] {
        let mut pod = pod_that(lifecycle);
        pod["spec"]["terminationGracePeriodSeconds"] = json!(i64::MAX);
        sim.create_pod(pod);
        sim.run_for(1_000);
        sim.delete_pod("p");
        assert_eq!(sim.transcript("p", 60_000), expected);
    }
}

/// S22: a pod that is bound to a full node without the scheduler fails there.
#[test]
fn a_pod_that_does_not_fit_its_node_fails() {
    let bound = |edit: fn(&mut Value)| {
        let mut pod = pod("p");
        pod["spec"]["nodeName"] = json!("node-0001");
        edit(&mut pod);
        pod
    };
    for (pod, expected) in [
        (
            bound(|pod| {
                pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "3"}})
            }),
            "OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, \
             used: 2000, capacity: 4000",
        ),
        (
            bound(|pod| pod["spec"]["nodeSelector"] = json!({"disk": "ssd"})),
            "NodeAffinity: Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match \
             Pod's node affinity/selector",
        ),
        (
            bound(|pod| {
                let ports = json!([{"containerPort": 80, "hostPort": 80}]);
                pod["spec"]["containers"][0]["ports"] = ports;
            }),
            "NodePorts: Pod was rejected: Predicate NodePorts failed: node(s) didn't have free \
             ports for the requested pod ports",
        ),
    ] {
        let mut sim = Sim::new(1);
        let mut first = pinned("first", "node-0001");
        first["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "2"}});
        first["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        sim.create_pod(first);
        sim.create_pod(pod);
        let status = sim.pod("p").unwrap()["status"].clone();
        assert_eq!(status["phase"], "Failed");
        let found = format!(
            "{}: {}",
            status["reason"].as_str().unwrap(),
            status["message"].as_str().unwrap()
        );
        assert_eq!(found, expected);
    }
}

/// S22: another annotation changes the lifecycle of a running pod.
#[test]
fn a_changed_annotation_changes_the_lifecycle() {
    let mut sim = Sim::new(1);
    sim.create_pod(pod("p"));
    sim.run_for(1_000);
    let annotate = |lifecycle: &'static str| {
        move |pod: &mut Value| {
            pod["metadata"]["annotations"]["sandbox.everynode.dev/lifecycle"] = json!(lifecycle);
        }
    };
    sim.edit_pod("p", annotate("never-ready"));
    assert_eq!(sim.line("p"), "Running c[running unready]");
    sim.edit_pod("p", annotate("default"));
    assert_eq!(sim.line("p"), "Running c[running ready] Ready");
}

/// S22: a pod whose image is changed in place runs the new image.
#[test]
fn a_changed_image_restarts_the_container() {
    let mut sim = Sim::new(1);
    sim.create_pod(pod("p"));
    sim.run_for(1_000);
    sim.edit_pod("p", |pod| pod["spec"]["containers"][0]["image"] = json!("nginx:1.28"));
    expect![[r#"
        0 ms      Running c[running ready] Ready
        118 ms    Running c[exited 0, 1 restarts]
        169 ms    Running c[running ready, 1 restarts] Ready
    "#]]
    .assert_eq(&sim.transcript("p", 10_000));
    let status = sim.pod("p").unwrap()["status"]["containerStatuses"][0].clone();
    assert_eq!(status["image"], "docker.io/library/nginx:1.28");
    let killing = "Normal Killing: Container c definition changed, will be restarted";
    assert!(sim.events("p").iter().any(|event| event == killing));
}
