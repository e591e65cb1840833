//! Checks which templates differ in what can change, and the patches of pods.

use everynode_core::api::{TEMPLATE_GENERATION_LABEL, Timestamp, Uid};
use everynode_core::plan::PodReference;

use super::*;

mod overrides;

/// The value with these members; null removes one. Lists of containers are merged by index.
fn with(mut value: Value, change: Value) -> Value {
    match change {
        Value::Object(members) => {
            if !value.is_object() {
                value = json!({});
            }
            for (key, member) in members {
                if member.is_null() {
                    value.as_object_mut().unwrap().remove(&key);
                } else {
                    value[&key] = with(value[&key].take(), member);
                }
            }
            value
        }
        Value::Array(items) if value.is_array() => {
            let old = value.as_array_mut().unwrap();
            for (index, item) in items.into_iter().enumerate() {
                match old.get_mut(index) {
                    Some(slot) => *slot = with(slot.take(), item),
                    None => old.push(item),
                }
            }
            value
        }
        other => other,
    }
}

/// A template with a container `a`, a sidecar `s` and an init container `i`.
fn template() -> Value {
    let resources = json!({
        "requests": { "cpu": "100m", "memory": "64Mi", "example.com/gpu": "1" },
        "limits": { "memory": "128Mi", "example.com/gpu": "1" },
    });
    json!({
        "metadata": { "labels": { "app": "f" }, "annotations": { "note": "x" } },
        "spec": {
            "containers": [{ "name": "a", "image": "a:1", "resources": resources, "args": ["x"] }],
            "initContainers": [
                { "name": "s", "image": "s:1", "restartPolicy": "Always", "resources": resources },
                { "name": "i", "image": "i:1", "resources": resources },
            ],
        },
    })
}

fn container(change: &Value) -> Value {
    json!({ "spec": { "containers": [change] } })
}

/// A change of the sidecar and the init container.
fn init(sidecar: &Value, init: &Value) -> Value {
    json!({ "spec": { "initContainers": [sidecar, init] } })
}

fn requests(requests: &Value) -> Value {
    json!({ "resources": { "requests": requests } })
}

fn annotation(key: &str) -> Value {
    json!({ "metadata": { "annotations": { key: "1" } } })
}

fn labels() -> Value {
    json!({ "metadata": { "labels": { "app": "g", "new": "1" } } })
}

/// A container that reads a field of its pod in an environment variable.
fn env(field: &str) -> Value {
    let source = json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": field } });
    container(&json!({ "env": [{ "name": "E", "valueFrom": source }] }))
}

/// A volume with a field of the pod.
fn volume(field: &str, is_projected: bool) -> Value {
    let files = json!({ "items": [{ "path": "f", "fieldRef": { "fieldPath": field } }] });
    let volume = match is_projected {
        true => json!({ "name": "v", "projected": { "sources": [{ "downwardAPI": files }] } }),
        false => json!({ "name": "v", "downwardAPI": files }),
    };
    json!({ "spec": { "volumes": [volume] } })
}

/// True if a pod of one template can be changed to the other.
fn is_same(one: &Value, other: &Value) -> bool {
    fixed_parts(one) == fixed_parts(other)
}

/// G56: images of containers and sidecars, the amounts of their CPU and memory, labels and
/// annotations can change in a running pod.
#[test]
fn images_amounts_labels_and_annotations_can_change() {
    for change in [
        json!({}),
        json!({ "$patch": "replace" }),
        container(&json!({ "image": "a:2" })),
        init(&json!({ "image": "s:2" }), &json!({})),
        container(&requests(&json!({ "cpu": "200m", "memory": "96Mi" }))),
        container(&json!({ "resources": { "limits": { "memory": "1Gi" } } })),
        init(&requests(&json!({ "cpu": "1" })), &json!({})),
        labels(),
        json!({ "metadata": { "labels": { "kubernetes.io/x": "1", "checksum": "1" } } }),
        json!({ "metadata": { "labels": null, "annotations": null } }),
        json!({ "metadata": { "creationTimestamp": null, "annotations": { "note": null } } }),
        annotation("note"),
        annotation("prometheus.io/scrape"),
        annotation("example.com/sum"),
        annotation("notkubernetes.io/x"),
        annotation("kubernetes.io.example.com/x"),
    ] {
        assert!(is_same(&template(), &with(template(), change.clone())), "{change}");
    }
}

/// G56: everything else cannot.
#[test]
fn everything_else_cannot_change() {
    let gpu =
        json!({ "requests": { "example.com/gpu": "2" }, "limits": { "example.com/gpu": "2" } });
    for change in [
        init(&json!({}), &json!({ "image": "i:2" })),
        init(&json!({}), &requests(&json!({ "cpu": "200m" }))),
        container(&json!({ "image": null })),
        container(&json!({ "name": "b" })),
        container(&json!({ "args": ["y"] })),
        container(&json!({ "env": [{ "name": "E", "value": "x" }] })),
        container(&json!({ "imagePullPolicy": "Always" })),
        json!({ "spec": { "containers": [{}, { "name": "b", "image": "b:1" }] } }),
        json!({ "spec": { "initContainers": [{}, { "restartPolicy": "Always" }] } }),
        json!({ "spec": { "initContainers": null } }),
        json!({ "spec": { "volumes": [{ "name": "v", "emptyDir": {} }] } }),
        json!({ "spec": { "resources": { "requests": { "cpu": "1" } } } }),
        json!({ "spec": { "nodeSelector": { "a": "b" } } }),
        // Amounts that are added or removed, and other resources.
        container(&requests(&json!({ "cpu": null }))),
        container(&json!({ "resources": { "limits": { "cpu": "1" } } })),
        container(&json!({ "resources": { "limits": { "memory": null } } })),
        container(&json!({ "resources": gpu })),
        container(&requests(&json!({ "ephemeral-storage": "1Gi" }))),
        container(&requests(&json!({ "hugepages-2Mi": "2Mi" }))),
        container(&json!({ "resizePolicy": [
            { "resourceName": "cpu", "restartPolicy": "RestartContainer" },
        ] })),
        // Annotations that mean a restart, or that are read as the pod starts.
        annotation("checksum/config"),
        annotation("example.com/config-Checksum"),
        annotation("kubectl.kubernetes.io/restartedAt"),
        annotation("kubernetes.io/x"),
        annotation("container.apparmor.security.beta.kubernetes.io/a"),
        annotation("k8s.io/x"),
        annotation("k8s.v1.cni.cncf.io/networks"),
    ] {
        assert!(!is_same(&template(), &with(template(), change.clone())), "{change}");
    }
}

/// G56: an annotation that means a restart, or that is read when a pod starts, counts as another
/// difference.
#[test]
fn an_annotation_that_means_a_restart_cannot_change() {
    for key in [
        "checksum/config",
        "example.com/configHash",
        "redeployed-at",
        "example.com/Reloader",
        "restarted",
        "rollme",
        "deploy-timestamp",
        "cncf.io/x",
        "k8s.v1.cni.cncf.io/networks",
        "sidecar.istio.io/inject",
        "node.k8s.io/x",
        "kubectl.kubernetes.io/x",
        "config.linkerd.io/x",
        "vault.hashicorp.com/agent-inject",
    ] {
        assert!(!is_same(&template(), &with(template(), annotation(key))), "{key}");
    }
    for key in ["example.com/check", "rolled", "linkerd.example.com/x", "istio.io.example.com/x"] {
        assert!(is_same(&template(), &with(template(), annotation(key))), "{key}");
    }
}

/// G56: everything of a container that is not always restarted counts as another difference.
#[test]
fn a_container_that_is_not_always_restarted_cannot_change() {
    let policy = |policy: &str| match policy {
        "" => json!({}),
        policy => json!({ "restartPolicy": policy }),
    };
    let changes = [json!({ "image": "a:2" }), requests(&json!({ "cpu": "200m" }))];
    for (restart_policy, of_container, of_init_container) in [
        ("", true, false),
        ("Always", true, true),
        ("OnFailure", false, false),
        ("Never", false, false),
    ] {
        let policy = policy(restart_policy);
        for change in &changes {
            let both = with(policy.clone(), change.clone());
            let is_one =
                |old: Value, new: Value| is_same(&with(template(), old), &with(template(), new));
            let (old, new) = (container(&policy), container(&both));
            assert_eq!(is_one(old, new), of_container, "container: {both}");
            let (old, new) = (init(&json!({}), &policy), init(&json!({}), &both));
            assert_eq!(is_one(old, new), of_init_container, "init container: {both}");
        }
    }
}

/// G56: a label, an annotation or resources that a container reads count as another difference.
#[test]
fn what_a_container_reads_cannot_change() {
    let image = container(&json!({ "image": "a:2" }));
    let note = json!({ "metadata": { "annotations": { "note": "y" } } });
    let cpu = container(&requests(&json!({ "cpu": "200m" })));
    let sidecars_cpu = init(&requests(&json!({ "cpu": "200m" })), &json!({}));
    let resource = json!({ "resourceFieldRef": { "resource": "limits.memory" } });
    let resource_env = container(&json!({ "env": [{ "name": "E", "valueFrom": resource }] }));
    let of_sidecar = json!({ "env": [{ "name": "E", "valueFrom": resource }] });
    let file = with(json!({ "path": "f", "containerName": "a" }), resource);
    let resource_file = json!({ "name": "v", "downwardAPI": { "items": [file] } });
    let resource_volume = json!({ "spec": { "volumes": [resource_file] } });
    for (reads, change, expected) in [
        (env("metadata.labels['app']"), labels(), false),
        (env("metadata.labels['new']"), labels(), false),
        (env("metadata.labels['other']"), labels(), true),
        (env("metadata.annotations['app']"), labels(), true),
        (volume("metadata.labels", false), labels(), false),
        (volume("metadata.labels", true), labels(), false),
        (volume("metadata.labels['app']", true), labels(), false),
        (volume("metadata.labels", false), note.clone(), true),
        (volume("metadata.labels", false), image.clone(), true),
        (env("metadata.annotations['note']"), note.clone(), false),
        (env("metadata.annotations['other']"), note.clone(), true),
        (volume("metadata.annotations", false), note.clone(), false),
        (env("metadata.name"), with(labels(), note.clone()), true),
        (resource_env.clone(), cpu.clone(), false),
        (resource_env.clone(), sidecars_cpu, false),
        (init(&of_sidecar, &json!({})), cpu.clone(), false),
        (init(&json!({}), &of_sidecar), cpu.clone(), false),
        (resource_volume, cpu, false),
        (resource_env, with(image.clone(), note), true),
        // These labels are another revision's after every change.
        (env("metadata.labels['controller-revision-hash']"), image.clone(), false),
        (env("metadata.labels['pod-template-generation']"), image.clone(), false),
        (env("metadata.labels['controller-revision-hash']"), json!({}), true),
    ] {
        let from = with(template(), reads.clone());
        let to = with(from.clone(), change.clone());
        assert_eq!(is_same(&from, &to), expected, "{reads} {change}");
    }
}

/// G56: the class of quality of service cannot change; it is that of the API server.
#[test]
fn the_class_of_quality_of_service_cannot_change() {
    let of = |requests: Value, limits: Value| {
        let resources = json!({ "requests": requests, "limits": limits });
        container(&json!({ "name": "a", "image": "a:1", "resources": resources }))
    };
    let both = |cpu: &str, memory: &str| json!({ "cpu": cpu, "memory": memory });
    let guaranteed = of(both("1", "1Gi"), both("1", "1Gi"));
    let of_pod = |mut template: Value, requests: Value| {
        template["spec"]["resources"] = json!({ "requests": requests, "limits": both("1", "1Gi") });
        template
    };
    for (template, class) in [
        (guaranteed.clone(), "Guaranteed"),
        (of(both("1000m", "1024Mi"), both("1", "1Gi")), "Guaranteed"),
        (of(json!({}), both("1", "1Gi")), "Guaranteed"),
        (of(both("1", "1Gi"), both("2", "1Gi")), "Burstable"),
        (of(both("0", "1Gi"), both("1", "1Gi")), "Burstable"),
        (of(both("1", "1Gi"), json!({ "cpu": "1" })), "Burstable"),
        (of(json!({ "cpu": "1" }), json!({})), "Burstable"),
        (of(both("0", "0"), json!({})), "BestEffort"),
        (of(json!({ "example.com/gpu": "1" }), json!({})), "BestEffort"),
        (json!({ "spec": { "containers": [{ "name": "a" }] } }), "BestEffort"),
        (with(guaranteed.clone(), init(&json!({ "name": "i" }), &json!({}))), "Burstable"),
        (of_pod(of(json!({}), json!({})), both("1", "1Gi")), "Guaranteed"),
        (of_pod(of(both("1", "1Gi"), json!({})), both("1", "1Gi")), "Guaranteed"),
        (of_pod(guaranteed.clone(), json!({ "cpu": "500m" })), "Burstable"),
    ] {
        assert_eq!(qos_class(&template), class, "{template}");
    }
    let larger = of(both("2", "2Gi"), both("2", "2Gi"));
    assert!(is_same(&guaranteed, &larger));
    assert!(!is_same(&guaranteed, &of(both("1", "1Gi"), both("2", "1Gi"))));
    assert!(!is_same(&of(both("0", "1Gi"), both("1", "1Gi")), &guaranteed));
}

/// The change of pods of [`template`].
fn change(difference: Value) -> NewChange {
    new_change(&template(), &with(template(), difference))
}

fn new_change(from: &Value, to: &Value) -> NewChange {
    NewChange {
        pod: PodReference { name: "p".into(), uid: Uid::new("u"), node: None },
        tag: None,
        r#override: None,
        hash: "h2".into(),
        from: canonical(from).into(),
        to: canonical(to).into(),
        since: Timestamp::from_seconds(60),
    }
}

/// A running pod of a template.
fn pod_of(template: Value) -> Value {
    let status = |name: &str, restarts: u32| {
        let id = format!("{name}-1");
        json!({ "name": name, "containerID": id, "restartCount": restarts })
    };
    with(
        template,
        json!({
            "metadata": { "uid": "u" },
            "status": {
                "phase": "Running", "observedGeneration": 1,
                "containerStatuses": [status("a", 3)],
                "initContainerStatuses": [status("s", 0), status("i", 1)],
            },
        }),
    )
}

fn parsed(patch: &Value, annotation: &str) -> Value {
    serde_json::from_str(patch["metadata"]["annotations"][annotation].as_str().unwrap()).unwrap()
}

/// G56: only what differs is changed, and the pod states its change: the containers that start
/// anew, and the restarts that do not count.
#[test]
fn a_patch_changes_images_and_states_the_change() {
    let (image, cpu) = (json!({ "image": "a:2" }), requests(&json!({ "cpu": "1" })));
    let sidecar = json!({ "image": "s:2" });
    let old = json!({ "a": 3, "s": 0, "i": 1 });
    for (difference, spec, containers, resizes, restarts) in [
        (
            container(&image),
            json!({ "containers": [{ "name": "a", "image": "a:2" }] }),
            json!({ "a": "a-1" }),
            false,
            json!({ "a": 4, "s": 0, "i": 1 }),
        ),
        (
            with(container(&with(image, cpu.clone())), init(&sidecar, &json!({}))),
            json!({
                "containers": [{ "name": "a", "image": "a:2" }],
                "initContainers": [{ "name": "s", "image": "s:2" }],
            }),
            json!({ "a": "a-1", "s": "s-1" }),
            true,
            json!({ "a": 4, "s": 1, "i": 1 }),
        ),
        (container(&cpu), Value::Null, json!({}), true, old.clone()),
        (labels(), Value::Null, json!({}), false, old),
    ] {
        let new = change(difference.clone());
        let patch = Change::new(&new, None).unwrap().patch(&pod_of(template())).unwrap();
        assert_eq!(patch["spec"], spec, "{difference}");
        assert_eq!(patch["metadata"]["uid"], "u", "{difference}");
        let since = "1970-01-01T00:01:00Z";
        let stated =
            json!({ "to": "h2", "since": since, "containers": containers, "resizes": resizes });
        assert_eq!(parsed(&patch, CHANGING_ANNOTATION), stated, "{difference}");
        assert_eq!(parsed(&patch, CHANGED_ANNOTATION)["restarts"], restarts, "{difference}");
    }
}

/// G56: the first start of a container, such as one whose image could not be pulled, is no restart.
#[test]
fn a_container_that_never_ran_is_not_restarted() {
    let new = change(container(&json!({ "image": "a:2" })));
    let status = json!([{ "containerID": "", "restartCount": 0 }]);
    let pod = with(pod_of(template()), json!({ "status": { "containerStatuses": status } }));
    let patch = Change::new(&new, None).unwrap().patch(&pod).unwrap();
    assert_eq!(parsed(&patch, CHANGED_ANNOTATION)["restarts"]["a"], 0);
    assert_eq!(parsed(&patch, CHANGING_ANNOTATION)["containers"], json!({ "a": "" }));
}

/// G56: labels and annotations are set and removed as the templates differ; the label with the hash
/// of the revision comes last.
#[test]
fn a_patch_changes_the_labels_and_annotations_that_differ() {
    let entries =
        |entries: Value| json!({ "metadata": { "labels": entries, "annotations": entries } });
    let from = entries(json!({ "same": "1", "new": "1", "gone": "1", HASH_LABEL: "x" }));
    let to = entries(json!({ "same": "1", "new": "2", "added": "1", HASH_LABEL: "y" }));
    let new = new_change(&with(template(), from.clone()), &with(template(), to));
    let patch = Change::new(&new, None).unwrap().patch(&pod_of(with(template(), from))).unwrap();
    let expected = json!({ "new": "2", "added": "1", "gone": null });
    assert_eq!(patch["metadata"]["labels"], expected);
    let mut annotations = patch["metadata"]["annotations"].clone();
    for own in [CHANGING_ANNOTATION, CHANGED_ANNOTATION, HASH_LABEL] {
        annotations.as_object_mut().unwrap().remove(own);
    }
    assert_eq!(annotations, expected);
    for label in [HASH_LABEL, TEMPLATE_GENERATION_LABEL] {
        let new = change(json!({ "metadata": { "labels": { label: "2" } } }));
        let patch = Change::new(&new, None).unwrap().patch(&pod_of(template())).unwrap();
        assert_eq!(patch["metadata"]["labels"], json!({}), "{label}");
    }
}

/// G56: only the amounts that differ are sent. A limit without a request is the request, too, as
/// the API server has it.
#[test]
fn a_resize_changes_the_amounts_that_differ() {
    let of = |resources: Value| {
        json!({ "spec": { "containers": [
        { "name": "a", "image": "a:1", "resources": resources },
        { "name": "b", "image": "b:1", "resources": { "requests": { "cpu": "1" } } },
    ] } })
    };
    let both = |cpu: &str, memory: &str| json!({ "cpu": cpu, "memory": memory });
    let limits = |limits: Value| of(json!({ "limits": limits }));
    let all =
        |requests: Value, limits: Value| of(json!({ "requests": requests, "limits": limits }));
    for (from, to, resources) in [
        (limits(both("1", "1Gi")), limits(both("1000m", "1024Mi")), None),
        (
            limits(both("1", "1Gi")),
            limits(both("2", "1Gi")),
            Some(json!({ "limits": { "cpu": "2" }, "requests": { "cpu": "2" } })),
        ),
        (
            all(both("1", "1Gi"), both("2", "2Gi")),
            all(both("1", "1Gi"), both("3", "2Gi")),
            Some(json!({ "limits": { "cpu": "3" } })),
        ),
        (
            all(both("1", "1Gi"), json!({})),
            all(both("500m", "2Gi"), json!({})),
            Some(json!({ "requests": both("500m", "2Gi") })),
        ),
    ] {
        let new = new_change(&from, &to);
        let expected = resources.map(|resources| {
            json!({
                "metadata": { "uid": "u" },
                "spec": { "containers": [{ "name": "a", "resources": resources }] },
            })
        });
        assert_eq!(Change::new(&new, None).unwrap().resize_patch(), expected, "{from} {to}");
    }
    let new = change(init(&requests(&json!({ "memory": "1Gi" })), &json!({ "image": "i:2" })));
    let patch = Change::new(&new, None).unwrap().resize_patch().unwrap();
    let resources = json!({ "requests": { "memory": "1Gi" } });
    let expected = json!({ "initContainers": [{ "name": "s", "resources": resources }] });
    assert_eq!(patch["spec"], expected);
    assert_eq!(Change::new(&change(labels()), None).unwrap().resize_patch(), None);
}

/// G56: a container that a kubelet restarts to resize it is restarted by the change.
#[test]
fn a_resize_that_restarts_a_container_counts_as_a_restart() {
    let policy =
        |resource: &str, policy: &str| json!({ "resourceName": resource, "restartPolicy": policy });
    for (policies, amounts, restarts) in [
        (json!([policy("memory", "RestartContainer")]), json!({ "memory": "1Gi" }), 4),
        (json!([policy("memory", "RestartContainer")]), json!({ "cpu": "1" }), 3),
        (json!([policy("cpu", "NotRequired")]), json!({ "cpu": "1" }), 3),
        (
            json!([policy("cpu", "RestartContainer"), policy("memory", "NotRequired")]),
            json!({ "cpu": "1", "memory": "1Gi" }),
            4,
        ),
        (json!([policy("cpu", "RestartContainer")]), json!({ "cpu": "0.1" }), 3),
    ] {
        let from = with(template(), container(&json!({ "resizePolicy": policies })));
        let new = new_change(&from, &with(from.clone(), container(&requests(&amounts))));
        let patch = Change::new(&new, None).unwrap().patch(&pod_of(from)).unwrap();
        let expected = json!({ "a": restarts, "s": 0, "i": 1 });
        assert_eq!(
            parsed(&patch, CHANGED_ANNOTATION)["restarts"],
            expected,
            "{policies} {amounts}"
        );
    }
}

/// The annotation that a change of the pod to a revision is under way.
fn states(to: &str) -> Value {
    let statement = json!({ "to": to, "since": "1970-01-01T00:01:00Z" }).to_string();
    json!({ "metadata": { "annotations": { CHANGING_ANNOTATION: statement } } })
}

/// G56: a pod whose state does not allow the change is not changed.
#[test]
fn a_pod_that_cannot_be_changed_says_why() {
    let image = container(&json!({ "image": "theirs" }));
    let replaced = container(&json!({ "name": "b" }));
    let sidecar = init(&json!({ "image": "theirs" }), &json!({}));
    let status = |field: &str, value: Value| json!({ "status": { field: value } });
    let malformed = json!({ "metadata": { "annotations": { CHANGING_ANNOTATION: "{" } } });
    for (difference, why) in [
        (json!({}), None),
        (malformed, None),
        (annotation("other"), None),
        (init(&json!({}), &json!({ "image": "theirs" })), None),
        (status("phase", "Pending".into()), Some("it does not run")),
        (status("phase", "Failed".into()), Some("it does not run")),
        (status("phase", Value::Null), Some("it does not run")),
        (status("observedGeneration", Value::Null), Some("its kubelet does not state")),
        (status("observedGeneration", 0.into()), Some("its kubelet does not state")),
        (image, Some("the image of container a is not that of its template")),
        (sidecar, Some("the image of container s is not that of its template")),
        (replaced, Some("it has no container a")),
        (states("h3"), Some("another change of it is under way")),
    ] {
        let images = with(
            container(&json!({ "image": "a:2" })),
            init(&json!({ "image": "s:2" }), &json!({})),
        );
        let new = change(images);
        let patch =
            Change::new(&new, None).unwrap().patch(&with(pod_of(template()), difference.clone()));
        match why {
            Some(why) => assert!(patch.as_ref().is_err_and(|it| it.starts_with(why)), "{patch:?}"),
            None => assert!(patch.is_ok(), "{difference} {patch:?}"),
        }
    }
}

/// G56: a pod states which change has begun.
#[test]
fn a_change_has_begun_if_the_pod_states_it() {
    let new = change(container(&json!({ "image": "a:2" })));
    for (difference, expected) in [
        (json!({}), false),
        (states("h2"), true),
        (states("h3"), false),
        (json!({ "metadata": { "annotations": { CHANGING_ANNOTATION: "h2" } } }), false),
    ] {
        let pod = with(pod_of(template()), difference.clone());
        assert_eq!(Change::new(&new, None).unwrap().has_begun(&pod), expected, "{difference}");
    }
}
