//! Resizes of running pods, and other changes of their containers.

use std::fmt::Write as _;

use expect_test::expect;

use super::{Sim, pod};
use crate::json::{Value, json};
use crate::kinds::POD;
use crate::patch::PatchType;
use crate::registry::{Endpoint, Patch};
use crate::status::Status;

/// A pod whose container `c` requests this much CPU, and has this lifecycle.
fn pod_with(name: &str, cpu: &str, lifecycle: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    if !lifecycle.is_empty() {
        pod["metadata"]["annotations"]["sandbox.everynode.dev/lifecycle"] = json!(lifecycle);
    }
    pod
}

impl Sim {
    fn resize(&mut self, name: &str, list: &str, resources: Value) -> Result<(), Status> {
        let container = if list == "containers" { "c" } else { "s" };
        let body = json!({"spec": {list: [{"name": container, "resources": resources}]}});
        let patch_type = PatchType::StrategicMerge;
        let patch = Patch { patch_type, body, endpoint: Endpoint::Resize, strict: None };
        let options = self.at();
        self.cluster.registry_mut().patch(&POD, "default", name, &patch, &options)?;
        self.cluster.settle(self.now);
        Ok(())
    }

    fn resize_cpu(&mut self, name: &str, cpu: &str) {
        self.resize(name, "containers", json!({"requests": {"cpu": cpu}})).unwrap();
    }

    /// The history of a pod's resize: a line for each change of its status.
    fn resizes(&mut self, name: &str, ms: i64) -> String {
        let (start, mut last, mut lines) = (self.now.0, String::new(), String::new());
        self.run_for_and(ms, |sim| {
            let line = sim.pod(name).map(|pod| resize_of(&pod)).unwrap_or_default();
            if line != last {
                writeln!(lines, "{} ms {line}", sim.now.0 - start).unwrap();
                last = line;
            }
        });
        lines
    }
}

fn resize_of(pod: &Value) -> String {
    let status = &pod["status"];
    let mut line = format!("generation {}", status["observedGeneration"]);
    for field in ["initContainerStatuses", "containerStatuses"] {
        for container in status[field].as_array().into_iter().flatten() {
            write!(
                line,
                " {}[{} of {}, {} restarts]",
                container["name"].as_str().unwrap(),
                container["resources"]["requests"]["cpu"],
                container["allocatedResources"]["cpu"],
                container["restartCount"]
            )
            .unwrap();
        }
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let kind = condition["type"].as_str().unwrap();
        if kind.starts_with("PodResize") {
            let (reason, of) = (&condition["reason"], &condition["observedGeneration"]);
            write!(line, " {kind} {reason} of {of}").unwrap();
        }
    }
    line
}

/// S22: a resize is granted, in progress, and done; nothing restarts.
#[test]
fn a_resize_is_in_progress_until_the_container_has_it() {
    let mut sim = Sim::new(1);
    sim.create_pod(pod_with("p", "100m", "[{stage: resize, delay: 2s}]"));
    sim.run_for(1_000);
    let before = sim.pod("p").unwrap()["status"].clone();
    sim.resize_cpu("p", "200m");
    expect![[r#"
        0 ms generation 2 c["100m" of "200m", 0 restarts] PodResizeInProgress null of 2
        2000 ms generation 2 c["200m" of "200m", 0 restarts]
    "#]]
    .assert_eq(&sim.resizes("p", 10_000));
    let after = sim.pod("p").unwrap()["status"].clone();
    for field in ["podIP", "startTime"] {
        assert_eq!(before[field], after[field]);
    }
    let id = |status: &Value| status["containerStatuses"][0]["containerID"].clone();
    assert_eq!(id(&before), id(&after));
    expect![[r#"
        Normal ResizeStarted: Pod resize started: {"containers":[{"name":"c","resources":{"requests":{"cpu":"200m"}}}],"generation":2}
        Normal ResizeCompleted: Pod resize completed: {"containers":[{"name":"c","resources":{"requests":{"cpu":"200m"}}}],"generation":2}"#]]
    .assert_eq(&sim.events("p")[5..].join("\n"));
}

/// S22: a container whose resizePolicy says so restarts with its new resources, and no other; a
/// sidecar as well.
#[test]
fn a_resize_restarts_containers_whose_policy_requires_it() {
    for (list, name) in [("containers", "c"), ("initContainers", "s")] {
        let mut sim = Sim::new(1);
        let mut pod =
            pod_with("p", "100m", "[{stage: stop, delay: 3s}, {stage: resize, delay: 1s}]");
        let image = "nginx:1.27";
        let resources = json!({"requests": {"cpu": "100m"}});
        pod["spec"]["initContainers"] = json!([
            {"name": "s", "image": image, "restartPolicy": "Always", "resources": resources},
        ]);
        let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
        pod["spec"][list][0]["resizePolicy"] = policy;
        sim.create_pod(pod);
        sim.run_for(1_000);
        sim.resize("p", list, json!({"requests": {"cpu": "200m"}})).unwrap();
        sim.run_for(3_999);
        let in_progress = resize_of(&sim.pod("p").unwrap());
        assert!(in_progress.contains(&format!("{name}[\"100m\" of \"200m\", 0")), "{in_progress}");
        assert!(in_progress.contains("PodResizeInProgress"), "{in_progress}");
        sim.run_for(1_000);
        let done = resize_of(&sim.pod("p").unwrap());
        assert!(done.contains(&format!("{name}[\"200m\" of \"200m\", 1 restarts]")), "{done}");
        assert!(done.contains("[\"100m\" of \"100m\", 0 restarts]"), "{done}");
        assert!(!done.contains("PodResize"), "{done}");
        let killing = format!("Normal Killing: Container {name} resize requires restart");
        assert!(sim.events("p").contains(&killing), "{:?}", sim.events("p"));
        let conditions = sim.pod("p").unwrap()["status"]["conditions"].clone();
        let all = conditions.as_array().unwrap();
        assert!(all.iter().all(|condition| condition["status"] == "True"), "{conditions}");
    }
}

/// S21, S22: a resize waits until the node has room beside the other pods; the scheduler counts it
/// meanwhile.
#[test]
fn a_resize_is_deferred_while_there_is_no_room() {
    let mut sim = Sim::new(1);
    let most = cpu_of_node(&sim);
    sim.create_pod(pod_with("p", "500m", ""));
    sim.create_pod(pod_with("other", &format!("{}m", most - 1000), ""));
    sim.run_for(1_000);
    sim.resize_cpu("p", &format!("{}m", most - 500));
    let deferred = "c[\"500m\" of \"500m\", 0 restarts] PodResizePending \"Deferred\" of 2";
    assert_eq!(resize_of(&sim.pod("p").unwrap()), format!("generation 2 {deferred}"));
    let warning = sim.events("p").into_iter().find(|event| event.contains("ResizeDeferred"));
    let error = format!(
        "\"error\":\"Node didn't have enough resource: cpu, requested: {}, used: {}, capacity: \
         {most}\"}}",
        most - 500,
        most - 1000
    );
    let warning = warning.unwrap();
    assert!(warning.contains("Pod resize OutOfcpu: {") && warning.ends_with(&error), "{warning}");
    sim.create_pod(pod_with("third", "600m", ""));
    assert_eq!(sim.pod("third").unwrap()["spec"].get("nodeName"), None);
    sim.resize_cpu("p", "400m");
    sim.run_for(1_000);
    assert!(sim.pod("third").unwrap()["spec"].get("nodeName").is_some());
}

/// S22: a deferred resize is granted as soon as another pod leaves.
#[test]
fn a_deferred_resize_is_tried_when_a_pod_leaves() {
    let mut sim = Sim::new(1);
    let most = cpu_of_node(&sim);
    sim.create_pod(pod_with("p", "500m", ""));
    sim.create_pod(pod_with("other", &format!("{}m", most - 1000), ""));
    sim.run_for(1_000);
    sim.resize_cpu("p", "1500m");
    sim.delete_pod("other");
    sim.run_for(1_000);
    assert_eq!(
        resize_of(&sim.pod("p").unwrap()),
        "generation 2 c[\"1500m\" of \"1500m\", 0 restarts]"
    );

    sim.create_pod(pod_with("other", &format!("{}m", most - 2000), ""));
    sim.run_for(1_000);
    sim.resize_cpu("p", "2500m");
    assert!(resize_of(&sim.pod("p").unwrap()).contains("Deferred"));
    sim.resize_cpu("other", "100m");
    sim.run_for(1_000);
    assert_eq!(
        resize_of(&sim.pod("p").unwrap()),
        "generation 3 c[\"2500m\" of \"2500m\", 0 restarts]"
    );
}

/// S22: a kubelet that lost power keeps what it has granted.
#[test]
fn a_pod_keeps_what_was_granted_when_its_node_is_created_again() {
    let mut sim = Sim::new(1);
    sim.create_pod(pod_with("p", "500m", "resize-deferred"));
    sim.run_for(1_000);
    sim.resize_cpu("p", "1");
    let node = sim.node("node-0001");
    let mut anew = json!({"metadata": {"name": "node-0001"}, "status": node["status"]});
    anew["metadata"]["labels"] = node["metadata"]["labels"].clone();
    sim.delete_node("node-0001");
    sim.create_node(anew);
    sim.run_for(200);
    let line = resize_of(&sim.pod("p").unwrap());
    assert!(line.contains("c[\"500m\" of \"500m\", 1 restarts]"), "{line}");
    assert!(line.contains("PodResizePending \"Deferred\" of 2"), "{line}");
}

/// S22: a lifecycle makes resizes infeasible or deferred, by the annotation of the pod or node.
#[test]
fn a_lifecycle_refuses_resizes() {
    let mut sim = Sim::new(1);
    sim.create_pod(pod_with("p", "1", "[{stage: resize, outcome: infeasible, message: pinned}]"));
    sim.create_pod(pod_with("q", "1", ""));
    sim.run_for(1_000);
    sim.resize_cpu("p", "2");
    let pending = |sim: &Sim, name: &str| {
        let conditions = sim.pod(name).unwrap()["status"]["conditions"].clone();
        let found =
            conditions.as_array().unwrap().iter().find(|it| it["type"] == "PodResizePending");
        found.map(|it| format!("{} {} {}", it["reason"], it["message"], it["observedGeneration"]))
    };
    assert_eq!(pending(&sim, "p").unwrap(), "\"Infeasible\" \"pinned\" 2");
    sim.resize_cpu("p", "1");
    assert_eq!(pending(&sim, "p"), None, "the spec asks for what was granted");

    let key = "sandbox.everynode.dev/lifecycle";
    sim.annotate_node("node-0001", key, Some("resize-deferred"));
    sim.resize_cpu("q", "2");
    assert!(pending(&sim, "q").unwrap().starts_with("\"Deferred\""));
    sim.annotate_node("node-0001", key, None);
    sim.run_for(1_000);
    assert_eq!(resize_of(&sim.pod("q").unwrap()), "generation 2 c[\"2\" of \"2\", 0 restarts]");
}

/// S4: a resize that the node could never grant is refused by admission, as in Kubernetes 1.36.
#[test]
fn a_resize_beyond_the_node_is_forbidden() {
    let mut sim = Sim::new(1);
    let most = cpu_of_node(&sim);
    sim.create_pod(pod_with("p", "1", ""));
    let requests = json!({"requests": {"cpu": format!("{}m", most + 1)}});
    let status = sim.resize("p", "containers", requests).unwrap_err();
    let cause = &status.details.as_ref().unwrap().causes[0];
    assert_eq!((status.code(), &*cause.reason), (403, "NodeCapacity"));
    assert_eq!(
        status.message,
        format!(
            "pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, \
             requested: {}, allocatable: {most}",
            most + 1
        )
    );
    assert_eq!(sim.pod("p").unwrap()["metadata"]["generation"], 1);
}

/// S22: a changed image restarts just that container, sidecar or not: it stops, then its image is
/// pulled, and until it runs its status is that of the old one.
#[test]
fn a_changed_image_restarts_just_that_container() {
    let (main, init) = ("containerStatuses", "initContainerStatuses");
    for (list, statuses, others) in [("containers", main, init), ("initContainers", init, main)] {
        let mut sim = Sim::new(1);
        let stages = "[{stage: stop, delay: 3s}, {stage: pull, delay: 2s}]";
        let mut pod = pod_with("p", "100m", stages);
        pod["spec"]["containers"][0]["name"] = json!("a");
        let sidecar = json!({"name": "b", "image": "nginx:1.27", "restartPolicy": "Always"});
        pod["spec"]["initContainers"] = json!([sidecar]);
        sim.create_pod(pod);
        sim.run_for(10_000);
        let before = sim.pod("p").unwrap()["status"].clone();
        sim.edit_pod("p", |pod| pod["spec"][list][0]["image"] = json!("nginx:1.28"));
        sim.run_for(4_000);
        let stopped = sim.pod("p").unwrap()["status"].clone();
        sim.run_for(6_000);
        let after = sim.pod("p").unwrap()["status"].clone();
        assert_eq!((&stopped["observedGeneration"], ready(&stopped)), (&json!(2), "False"));
        assert_eq!((&after["phase"], ready(&after)), (&json!("Running"), "True"));
        for field in ["image", "imageID", "containerID"] {
            assert_eq!(stopped[statuses][0][field], before[statuses][0][field]);
            assert_ne!(after[statuses][0][field], before[statuses][0][field]);
        }
        assert_eq!(after[statuses][0]["restartCount"], 1);
        for field in ["podIP", "startTime", others] {
            assert_eq!(after[field], before[field]);
        }
    }
}

/// S22: a container that has ended stays so, whatever its image.
#[test]
fn a_changed_image_does_not_start_a_container_that_has_ended() {
    let mut sim = Sim::new(1);
    let mut pod = pod_with("p", "100m", "");
    pod["spec"]["restartPolicy"] = json!("Never");
    let ends = json!({"name": "d", "image": "nginx:1.27", "command": ["/dev/null/x"]});
    pod["spec"]["containers"].as_array_mut().unwrap().push(ends);
    sim.create_pod(pod);
    sim.run_for(1_000);
    sim.edit_pod("p", |pod| pod["spec"]["containers"][1]["image"] = json!("nginx:1.28"));
    sim.run_for(1_000);
    assert_eq!(sim.line("p"), "Running c[running ready] d[exited 128]");
}

fn ready(status: &Value) -> &str {
    let conditions = status["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    ready["status"].as_str().unwrap()
}

fn cpu_of_node(sim: &Sim) -> i64 {
    let allocatable = sim.node("node-0001")["status"]["allocatable"]["cpu"].clone();
    let cpu: everynode_k8s::quantity::Quantity = allocatable.as_str().unwrap().parse().unwrap();
    cpu.milli_value()
}
