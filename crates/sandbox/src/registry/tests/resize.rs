//! Resizes of pods through `pods/resize`.

use super::*;

fn sized() -> Value {
    let mut pod = pod("a");
    let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}});
    pod["spec"]["containers"][0]["resources"] = resources.clone();
    pod["spec"]["initContainers"] = json!([
        {"name": "i", "image": "i:1", "resources": resources.clone()},
        {"name": "s", "image": "i:1", "resources": resources, "restartPolicy": "Always"},
    ]);
    pod
}

fn resize(edit: impl FnOnce(&mut Value)) -> Result<Arc<Object>, Status> {
    resize_of(sized(), edit)
}

/// Creates a pod and resizes it to what it is after an edit.
fn resize_of(pod: Value, edit: impl FnOnce(&mut Value)) -> Result<Arc<Object>, Status> {
    let mut registry = registry();
    let created = create(&mut registry, &POD, pod);
    let mut object = created.value().clone();
    edit(&mut object);
    registry.update_part(&POD, Endpoint::Resize, "default", "a", object, &options())
}

/// S4, S10: a resize changes CPU and memory of all containers, and nothing else; it counts as a
/// change of the spec if it is one.
#[test]
fn a_resize_changes_only_cpu_and_memory() {
    let resized = resize(|pod| {
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array_mut().expect("a list") {
                container["resources"]["requests"]["cpu"] = json!("2000m");
                container["image"] = json!("other");
            }
        }
        pod["spec"]["activeDeadlineSeconds"] = json!(5);
        pod["metadata"]["labels"] = json!({"x": "y"});
        pod["status"]["phase"] = json!("Running");
    });
    let resized = resized.expect("it is valid");
    let mut expected = create(&mut registry(), &POD, sized()).value().clone();
    expected["metadata"]["generation"] = json!(2);
    expected["metadata"]["resourceVersion"] =
        resized.value()["metadata"]["resourceVersion"].clone();
    for (list, index) in [("containers", 0), ("initContainers", 0), ("initContainers", 1)] {
        expected["spec"][list][index]["resources"]["requests"]["cpu"] = json!("2");
    }
    assert_eq!(*resized.value(), expected);

    let unchanged = resize(|pod| {
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1000m");
        pod["metadata"]["annotations"] = json!({"x": "y"});
    });
    assert_eq!(unchanged.expect("it is valid").value()["metadata"]["generation"], 1);
}

type Edit = fn(&mut Value);

/// S8, S10: what a resize may not change is refused with upstream's causes.
#[test]
fn other_resizes_are_refused() {
    let cases: [(Edit, &str); 5] = [
        (
            |pod| pod["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "2Gi"}}),
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        ),
        (
            |pod| pod["spec"]["containers"][0]["resources"]["limits"] = json!({}),
            "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
        ),
        (
            |pod| {
                let all = json!({"cpu": "1", "memory": "1Gi"});
                let all = json!({"requests": all.clone(), "limits": all});
                for list in ["containers", "initContainers"] {
                    for container in pod["spec"][list].as_array_mut().expect("a list") {
                        container["resources"] = all.clone();
                    }
                }
            },
            "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of \
             resizing",
        ),
        (
            |pod| {
                let requests = &mut pod["spec"]["containers"][0]["resources"]["requests"];
                requests["ephemeral-storage"] = json!("1Gi");
            },
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        (
            |pod| {
                let requests = &mut pod["spec"]["initContainers"][1]["resources"]["requests"];
                requests["ephemeral-storage"] = json!("1Gi");
            },
            "spec.initContainers[1]: Forbidden: only cpu and memory resources for init or sidecar \
             containers are mutable",
        ),
    ];
    for (edit, expected) in cases {
        refused(edit, 422, expected);
    }
}

/// S8, S10: a resize adds, removes and moves no containers, and keeps to the rules of pods.
#[test]
fn containers_and_policies_stay_in_a_resize() {
    let cases: [(Edit, &str); 5] = [
        (
            |pod| {
                let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
                pod["spec"]["containers"][0]["resizePolicy"] = policy;
            },
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        (
            |pod| {
                let more = json!({"name": "d", "image": "i:1"});
                pod["spec"]["containers"].as_array_mut().expect("a list").push(more);
            },
            "spec.containers: Forbidden: containers may not be added or removed on resize",
        ),
        (
            |pod| pod["spec"]["initContainers"].as_array_mut().expect("a list").reverse(),
            "spec.initContainers[0].name: Forbidden: initContainers may not be renamed or \
             reordered on resize",
        ),
        (
            |pod| pod["spec"]["resources"] = json!({"requests": {"cpu": "9"}}),
            "spec.resources: Forbidden: the sandbox does not resize pod-level resources",
        ),
        (
            |pod| pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("3Gi"),
            "spec.containers[0].resources.requests: Invalid value: \"3Gi\": must be less than or \
             equal to memory limit of 2Gi",
        ),
    ];
    for (edit, expected) in cases {
        refused(edit, 422, expected);
    }
}

fn refused(edit: impl FnOnce(&mut Value), code: u16, expected: &str) {
    let status = resize(edit).expect_err(expected);
    assert_eq!(status.code(), code, "{expected}");
    assert!(status.message.contains(expected), "{expected}: {}", status.message);
}

/// S8: a resize of another pod or of an older version is a conflict.
#[test]
fn a_resize_of_another_pod_is_a_conflict() {
    refused(|pod| pod["metadata"]["uid"] = json!("x"), 409, "Precondition failed: UID");
    let stale = |pod: &mut Value| pod["metadata"]["resourceVersion"] = json!("1");
    refused(stale, 409, "the object has been modified");
}

/// S10: static pods, and pods of kubelets that state no resources, can't be resized.
#[test]
fn some_pods_can_not_be_resized() {
    let grow = |pod: &mut Value| {
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    };
    let mut mirror = sized();
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["spec"]["nodeName"] = json!("n");
    let status = resize_of(mirror, grow).expect_err("it is static");
    let expected = "Pod \"a\" is invalid: Forbidden: static pods cannot be resized";
    assert_eq!(status.message, expected);

    let mut registry = registry();
    let mut object = create(&mut registry, &POD, sized()).value().clone();
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let status = json!([{"name": "c", "image": "i:1", "imageID": "", "ready": true,
                         "restartCount": 0, "state": running}]);
    object["status"]["containerStatuses"] = status;
    let written = registry.update_status(&POD, "default", "a", object, &options());
    let mut object = written.expect("it is valid").value().clone();
    grow(&mut object);
    let refused = registry.update_part(&POD, Endpoint::Resize, "default", "a", object, &options());
    let expected = "Pod \"a\" is invalid: spec: Forbidden: Pod running on node without support for \
                    resize";
    assert_eq!(refused.expect_err("its node is too old").message, expected);
}
