//! The rules and results of writes.

use super::*;
use crate::kinds::ROLE;

/// S8: the server's fields of a new object, and the errors for a second one, for an absent one and
/// for a stale one.
#[test]
fn an_object_is_created_once_and_updated_at_its_resource_version() {
    let mut registry = registry();
    let created = create(&mut registry, &CONFIG_MAP, config_map("a"));
    assert_eq!(created.value()["apiVersion"], "v1");
    assert_eq!(created.value()["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(created.uid().len(), 36);
    assert_eq!(created.resource_version(), registry.store().resource_version());
    assert_eq!(
        message(registry.create(&CONFIG_MAP, "default", config_map("a"), &options())),
        (409, r#"configmaps "a" already exists"#.to_string())
    );
    assert_eq!(
        message(registry.store().get(&DAEMON_SET, "default", "a")),
        (404, r#"daemonsets.apps "a" not found"#.to_string())
    );
    let mut changed = created.value().clone();
    changed["data"]["k"] = json!("w");
    registry.update(&CONFIG_MAP, "default", "a", changed.clone(), &options()).expect("it is fresh");
    changed["data"]["k"] = json!("x");
    assert_eq!(
        message(registry.update(&CONFIG_MAP, "default", "a", changed, &options())),
        (
            409,
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; \
             please apply your changes to the latest version and try again"
                .to_string()
        )
    );
}

/// S8: a write that changes nothing keeps the resourceVersion and causes no watch event.
#[test]
fn an_unchanged_object_is_not_written() {
    let mut registry = registry();
    let created = create(&mut registry, &DAEMON_SET, daemon_set("a"));
    let before = registry.store().resource_version();
    let updated = registry.update(&DAEMON_SET, "default", "a", created.value().clone(), &options());
    assert_eq!(updated.expect("it is valid").resource_version(), created.resource_version());
    let patch = merge(json!({"metadata": {"labels": {}}}));
    registry.patch(&DAEMON_SET, "default", "a", &patch, &options()).expect("it is valid");
    assert_eq!(registry.store().resource_version(), before);
}

/// S4, S8: a dry run has the same result as the write, and writes nothing.
#[test]
fn a_dry_run_writes_nothing() {
    let mut registry = registry();
    let dry = WriteOptions { now: START, dry_run: true };
    let before = registry.store().resource_version();
    registry.create(&POD, "default", pod("a"), &dry).expect("it is valid");
    assert_eq!(message(registry.store().get(&POD, "default", "a")).0, 404);
    create(&mut registry, &POD, pod("a"));
    let patch = merge(json!({"metadata": {"labels": {"x": "y"}}}));
    let patched = registry.patch(&POD, "default", "a", &patch, &dry).expect("it is valid");
    assert_eq!(patched.label("x"), Some("y"));
    registry.delete(&POD, "default", "a", &DeleteOptions::now(), &dry).expect("it is there");
    let mut status = patched.value().clone();
    status["status"]["phase"] = json!("Running");
    registry.update_status(&POD, "default", "a", status, &dry).expect("it is valid");
    let binding = json!({"target": {"kind": "Node", "name": "n"}});
    registry.bind("default", "a", &binding, &dry).expect("it is free");
    let now = json!({"deleteOptions": {"gracePeriodSeconds": 0}});
    registry.evict("default", "a", &now, &dry).expect("no budget refuses");
    let everything = ListOptions::default();
    let deleted = registry.delete_collection(&POD, &everything, &DeleteOptions::now(), &dry);
    assert_eq!(deleted.expect("they are there").items.len(), 1);
    let stored = registry.store().get(&POD, "default", "a").expect("it is there");
    assert_eq!(stored.label("x"), None);
    assert_eq!(registry.store().resource_version(), before + 1);
}

/// S4, S24: generateName adds five characters of Kubernetes' alphabet; the same seed gives the same
/// names.
#[test]
fn a_name_is_generated_from_the_seed() {
    let named = || {
        let mut object = pod("");
        object["metadata"]["generateName"] = json!("a-");
        object["metadata"].as_object_mut().expect("it is one").remove("name");
        create(&mut registry(), &POD, object).name().to_string()
    };
    let name = named();
    assert_eq!(name.len(), 7);
    assert!(name[2..].chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{name}");
    assert_eq!(name, named());
}

/// S9: the generation counts changes of the spec, the deprecated annotation counts changes of the
/// template; metadata and status count for neither.
#[test]
fn generation_grows_with_the_spec_alone() {
    let mut registry = registry();
    create(&mut registry, &DAEMON_SET, daemon_set("a"));
    let mut patch = |body: Value, endpoint: Endpoint| {
        let patch = Patch { patch_type: PatchType::Merge, body, endpoint, strict: None };
        let object = registry.patch(&DAEMON_SET, "default", "a", &patch, &options());
        let object = object.expect("it is valid");
        let generation = object.value()["metadata"]["generation"].as_i64();
        let template = object.annotation("deprecated.daemonset.template.generation");
        (generation.expect("it is set"), template.expect("it is set").to_string())
    };
    let expected = |generation, template: &str| (generation, template.to_string());
    assert_eq!(
        patch(json!({"metadata": {"labels": {"x": "y"}}}), Endpoint::Main),
        expected(1, "1")
    );
    assert_eq!(patch(json!({"spec": {"minReadySeconds": 5}}), Endpoint::Main), expected(2, "1"));
    let labels = json!({"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}});
    assert_eq!(patch(labels, Endpoint::Main), expected(3, "2"));
    assert_eq!(patch(json!({"status": {"numberReady": 1}}), Endpoint::Status), expected(3, "2"));
}

/// S9: a pod's generation counts changes of its spec only.
#[test]
fn a_pods_generation_grows_with_its_spec() {
    let mut registry = registry();
    create(&mut registry, &POD, pod("a"));
    let mut patch = |body| {
        let pod =
            registry.patch(&POD, "default", "a", &merge(body), &options()).expect("it is valid");
        pod.value()["metadata"]["generation"].as_i64()
    };
    assert_eq!(patch(json!({"metadata": {"labels": {"x": "y"}}})), Some(1));
    assert_eq!(patch(json!({"spec": {"activeDeadlineSeconds": 5}})), Some(2));
}

/// S9: each of the main and the status endpoint keeps the other's part unchanged.
#[test]
fn each_endpoint_changes_its_own_part() {
    let mut registry = registry();
    let node = json!({"metadata": {"name": "a"}});
    for (kind, object, (in_spec, wanted), (in_status, first, second)) in [
        (&DAEMON_SET, daemon_set("a"), ("minReadySeconds", json!(5)), ("numberReady", 3, 4)),
        (&POD, pod("a"), ("activeDeadlineSeconds", json!(5)), ("observedGeneration", 3, 4)),
        (&NODE, node, ("unschedulable", json!(true)), ("unknown", 3, 4)),
    ] {
        let namespace = create(&mut registry, kind, object).namespace().to_string();
        let mut patched = |endpoint: Endpoint, sent: i64| {
            let body = json!({"spec": {in_spec: wanted}, "status": {in_status: sent}});
            let patch = Patch { endpoint, ..merge(body) };
            let object = registry.patch(kind, &namespace, "a", &patch, &options());
            let object = object.expect("it is valid");
            let value = object.value();
            (value["spec"][in_spec].clone(), value["status"][in_status].as_i64())
        };
        assert_eq!(patched(Endpoint::Status, first), (Value::Null, Some(first)), "{}", kind.kind);
        assert_eq!(patched(Endpoint::Main, second), (wanted.clone(), Some(first)), "{}", kind.kind);
    }
}

/// S10: a pod's quality of service depends on its requests and limits, its priority on one of the
/// two built-in classes.
#[test]
fn a_pods_qos_class_and_priority_follow_from_its_spec() {
    let mut registry = registry();
    let whole = json!({"cpu": "1", "memory": "1Gi"});
    let half = json!({"cpu": "500m", "memory": "1Gi"});
    for (name, resources, class, quality, priority) in [
        ("a", json!({}), "", "BestEffort", 0),
        ("b", json!({"requests": half}), "system-node-critical", "Burstable", 2_000_001_000),
        ("c", json!({"requests": half, "limits": whole}), "", "Burstable", 0),
        ("d", json!({"limits": {"cpu": "1"}}), "", "Burstable", 0),
        ("e", json!({"limits": whole}), "system-cluster-critical", "Guaranteed", 2_000_000_000),
    ] {
        let mut object = pod(name);
        object["spec"]["containers"][0]["resources"] = resources;
        object["spec"]["priorityClassName"] = json!(class);
        let made = create(&mut registry, &POD, object);
        assert_eq!(made.text(&["status", "qosClass"]), quality, "{name}");
        assert_eq!(made.value()["spec"]["priority"], priority, "{name}");
    }
}

/// S10: a new pod is Pending and has a quality of service, a priority, a service account and
/// default tolerations.
#[test]
fn a_new_pod_is_admitted_as_a_real_cluster_does() {
    let mut registry = registry();
    let mut object = pod("a");
    object["spec"]["priorityClassName"] = json!("system-node-critical");
    object["status"] = json!({"phase": "Running"});
    let created = create(&mut registry, &POD, object);
    let value = created.value();
    assert_eq!(value["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(value["spec"]["priority"], 2_000_001_000);
    assert_eq!(value["spec"]["serviceAccountName"], "default");
    let seconds = |index: usize| value["spec"]["tolerations"][index]["tolerationSeconds"].as_i64();
    assert_eq!((seconds(0), seconds(1), seconds(2)), (Some(300), Some(300), None));
    let mut unknown = pod("b");
    unknown["spec"]["priorityClassName"] = json!("fast");
    assert_eq!(
        message(registry.create(&POD, "default", unknown, &options())),
        (403, r#"pods "b" is forbidden: no PriorityClass with name fast was found"#.to_string())
    );
}

/// S10: an unbound pod is deleted at once; a bound one has a grace period, which can only be
/// shortened.
#[test]
fn a_bound_pod_is_deleted_gracefully() {
    let mut registry = registry();
    create(&mut registry, &POD, pod("a"));
    let deleted = registry.delete(&POD, "default", "a", &DeleteOptions::default(), &options());
    assert!(matches!(deleted, Ok(Deleted::Gone(_))));

    create(&mut registry, &POD, pod("b"));
    let binding = json!({"target": {"kind": "Node", "name": "node-1"}});
    registry.bind("default", "b", &binding, &options()).expect("it is free");
    assert_eq!(
        message(registry.bind("default", "b", &binding, &options())),
        (
            409,
            "Operation cannot be fulfilled on pods/binding \"b\": pod b is already assigned to \
             node \"node-1\""
                .to_string()
        )
    );
    assert_eq!(registry.store().on_node(&POD, "node-1").count(), 1);
    let mut seconds = |grace: Option<i64>| {
        let delete = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
        let deleted =
            registry.delete(&POD, "default", "b", &delete, &options()).expect("it is there");
        deleted.object().value()["metadata"]["deletionGracePeriodSeconds"].as_i64()
    };
    assert_eq!(seconds(None), Some(30));
    assert_eq!(seconds(Some(60)), Some(30));
    assert_eq!(seconds(Some(5)), Some(5));
    let deleted = registry.delete(&POD, "default", "b", &DeleteOptions::now(), &options());
    assert!(matches!(deleted, Ok(Deleted::Gone(_))));
    assert_eq!(registry.store().on_node(&POD, "node-1").count(), 0);
}

/// S8: a deletion can have preconditions.
#[test]
fn a_deletion_can_have_preconditions() {
    let mut registry = registry();
    let created = create(&mut registry, &POD, pod("a"));
    let other = DeleteOptions::now().with_uid("other");
    let (code, text) = message(registry.delete(&POD, "default", "a", &other, &options()));
    assert_eq!(code, 409);
    assert!(text.contains("the UID in the precondition (other) does not match"), "{text}");
    let mut same = DeleteOptions::now().with_uid(created.uid());
    same.preconditions.resource_version = Some("1".to_string());
    let (code, text) = message(registry.delete(&POD, "default", "a", &same, &options()));
    assert_eq!(code, 409);
    assert!(text.contains("the ResourceVersion in the precondition (1) does not match"), "{text}");
    same.preconditions.resource_version = Some(created.resource_version().to_string());
    assert!(registry.delete(&POD, "default", "a", &same, &options()).is_ok());
}

/// S11: an object with finalizers is marked, and removed with the last finalizer.
#[test]
fn finalizers_keep_an_object() {
    let mut registry = registry();
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["example.dev/wait"]);
    create(&mut registry, &CONFIG_MAP, object);
    let deleted =
        registry.delete(&CONFIG_MAP, "default", "a", &DeleteOptions::default(), &options());
    assert!(matches!(deleted, Ok(Deleted::Pending(_))));
    let patch = merge(json!({"metadata": {"finalizers": null}}));
    registry.patch(&CONFIG_MAP, "default", "a", &patch, &options()).expect("it is valid");
    assert_eq!(message(registry.store().get(&CONFIG_MAP, "default", "a")).0, 404);
}

/// S11: a namespace that is being deleted refuses new content, and is removed once it is finalized.
#[test]
fn a_finalized_namespace_is_removed() {
    let mut registry = registry();
    create(&mut registry, &NAMESPACE, json!({"metadata": {"name": "team"}}));
    assert_eq!(
        message(registry.delete(&NAMESPACE, "", "default", &DeleteOptions::default(), &options())),
        (
            403,
            r#"namespaces "default" is forbidden: this namespace may not be deleted"#.to_string()
        )
    );
    assert_eq!(
        message(registry.create(&POD, "nowhere", pod("a"), &options())),
        (404, r#"namespaces "nowhere" not found"#.to_string())
    );
    registry
        .delete(&NAMESPACE, "", "team", &DeleteOptions::default(), &options())
        .expect("it is there");
    let refused = registry.create(&POD, "team", pod("a"), &options()).expect_err("it is refused");
    assert_eq!(refused.code(), 403);
    let details = refused.details.as_ref().expect("it has details");
    assert_eq!(details.causes[0].reason, "NamespaceTerminating");
    let namespace = registry.store().get(&NAMESPACE, "", "team").expect("it is there");
    assert_eq!(namespace.text(&["status", "phase"]), "Terminating");
    let mut finalized = namespace.value().clone();
    finalized["spec"] = json!({});
    registry.finalize(&NAMESPACE, "team", &finalized, &options()).expect("it is fresh");
    assert_eq!(message(registry.store().get(&NAMESPACE, "", "team")).0, 404);
}

/// S9: all validation errors are in one Status, with upstream's messages and causes.
#[test]
fn an_invalid_object_is_refused_with_its_causes() {
    let mut registry = registry();
    let mut object = daemon_set("a");
    object["spec"]["selector"]["matchLabels"]["app"] = json!("b");
    let status =
        registry.create(&DAEMON_SET, "default", object, &options()).expect_err("it is invalid");
    assert_eq!(status.code(), 422);
    assert!(status.message.starts_with("DaemonSet.apps \"a\" is invalid: "), "{status}");
    let details = status.details.as_ref().expect("it has details");
    assert_eq!((details.group.as_str(), details.kind.as_str()), ("apps", "DaemonSet"));
    assert_eq!(details.causes[0].reason, "FieldValueInvalid");
}

/// S8: an update of a Lease needs the current resourceVersion; a PUT can also create a Lease.
#[test]
fn a_lease_is_locked_by_its_resource_version() {
    let mut registry = registry();
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    registry.update(&LEASE, "default", "l", lease.clone(), &options()).expect("PUT makes it");
    let (code, text) = message(registry.update(&LEASE, "default", "l", lease, &options()));
    assert_eq!(code, 422);
    assert!(text.contains("metadata.resourceVersion"), "{text}");
}

/// S4: a PUT of an absent object creates it for the same kinds as upstream, and for no other.
#[test]
fn an_update_creates_objects_of_some_kinds() {
    let mut registry = registry();
    let role = json!({"metadata": {"name": "r"}, "rules": []});
    registry.update(&ROLE, "default", "r", role, &options()).expect("PUT makes it");
    let map = json!({"metadata": {"name": "c"}});
    assert_eq!(message(registry.update(&CONFIG_MAP, "default", "c", map, &options())).0, 404);
}

/// S9: a node's pod range can't be changed through podCIDR or podCIDRs, and each sets the other.
#[test]
fn pod_cidr_and_pod_cidrs_set_each_other() {
    let mut registry = registry();
    create(
        &mut registry,
        &NODE,
        json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}}),
    );
    let node = registry.store().get(&NODE, "", "n").expect("it is there");
    assert_eq!(node.value()["spec"]["podCIDRs"], json!(["10.0.0.0/24"]));
    let patch = |body| Patch {
        patch_type: PatchType::StrategicMerge,
        body,
        endpoint: Endpoint::Main,
        strict: None,
    };
    let other = patch(json!({"spec": {"podCIDR": "10.0.1.0/24"}}));
    let (code, text) = message(registry.patch(&NODE, "", "n", &other, &options()));
    assert_eq!(code, 422);
    assert!(text.contains("node updates may not change podCIDR"), "{text}");
    let none = patch(json!({"spec": {"podCIDR": null}}));
    let node = registry.patch(&NODE, "", "n", &none, &options()).expect("the list has it still");
    assert_eq!(node.text(&["spec", "podCIDR"]), "10.0.0.0/24");
}

/// S4: an eviction deletes the pod and sets a condition; another name in the body is refused.
#[test]
fn eviction_deletes_a_pod() {
    let mut registry = registry();
    create(&mut registry, &POD, pod("a"));
    let binding = json!({"target": {"kind": "Node", "name": "node-1"}});
    registry.bind("default", "a", &binding, &options()).expect("it is free");
    let mut running =
        registry.store().get(&POD, "default", "a").expect("it is there").value().clone();
    running["status"]["phase"] = json!("Running");
    registry.update_status(&POD, "default", "a", running, &options()).expect("it is valid");
    let wrong = json!({"metadata": {"name": "b"}});
    assert_eq!(message(registry.evict("default", "a", &wrong, &options())).0, 400);
    let version = |version: &str| {
        let options = json!({"preconditions": {"resourceVersion": version}});
        json!({"metadata": {"name": "a"}, "deleteOptions": options})
    };
    let stale = registry.evict("default", "a", &version("1"), &options());
    assert_eq!(message(stale).0, 409);
    let current =
        registry.store().get(&POD, "default", "a").expect("it is there").resource_version();
    let eviction = version(&current.to_string());
    registry.evict("default", "a", &eviction, &options()).expect("no budget refuses");
    let evicted = registry.store().get(&POD, "default", "a").expect("its grace period runs");
    assert!(evicted.is_terminating());
    let conditions = evicted.value()["status"]["conditions"].as_array().expect("conditions");
    let reasons: Vec<&Value> = conditions.iter().map(|condition| &condition["reason"]).collect();
    assert!(reasons.contains(&&json!("EvictionByEvictionAPI")), "{reasons:?}");
    let eviction = json!({"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 0}});
    registry.evict("default", "a", &eviction, &options()).expect("no budget refuses");
    assert_eq!(message(registry.store().get(&POD, "default", "a")).0, 404);
}

/// S4: a node keeps the status with which it is created; deletecollection deletes the selected
/// objects.
#[test]
fn a_collection_is_deleted_by_selector() {
    let mut registry = registry();
    for (name, zone) in [("n1", "a"), ("n2", "b")] {
        let node = json!({
            "metadata": {"name": name, "labels": {"zone": zone}}, "status": {"phase": "Running"},
        });
        create(&mut registry, &NODE, node);
    }
    let node = registry.store().get(&NODE, "", "n1").expect("it is there");
    assert_eq!(node.text(&["status", "phase"]), "Running");
    let selector = Selector {
        labels: LabelSelector::parse("zone=a").expect("it parses"),
        ..Selector::default()
    };
    let list = ListOptions { selector, ..ListOptions::default() };
    let deleted = registry.delete_collection(&NODE, &list, &DeleteOptions::default(), &options());
    assert_eq!(deleted.map(|list| list.items.len()), Ok(1));
    assert_eq!(registry.store().count(&NODE), 1);
}

/// S10: admission errors have the name as known at that time, so that those of many pods have the
/// same text.
#[test]
fn a_refused_pod_has_no_generated_name_yet() {
    let mut registry = registry();
    let mut object = pod("");
    object["metadata"] = json!({"generateName": "a-"});
    object["spec"]["serviceAccountName"] = json!("b");
    assert_eq!(
        message(registry.create(&POD, "default", object, &options())).1,
        "pods \"a-\" is forbidden: error looking up service account default/b: serviceaccount \
         \"b\" not found"
    );
}

/// S11: an object that is being deleted accepts no new finalizer, and its deletion can't be undone.
#[test]
fn a_deletion_is_final() {
    let mut registry = registry();
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["example.dev/wait"]);
    create(&mut registry, &CONFIG_MAP, object);
    registry
        .delete(&CONFIG_MAP, "default", "a", &DeleteOptions::default(), &options())
        .expect("it is there");
    let patch =
        merge(json!({"metadata": {"finalizers": ["example.dev/wait", "example.dev/more"]}}));
    let refused = registry.patch(&CONFIG_MAP, "default", "a", &patch, &options());
    assert_eq!(
        message(refused),
        (
            422,
            "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be \
             added if the object is being deleted, found new finalizers \
             []string{\"example.dev/more\"}"
                .to_string()
        )
    );
    let patch = merge(json!({"metadata": {"deletionTimestamp": null}}));
    let patched = registry.patch(&CONFIG_MAP, "default", "a", &patch, &options());
    assert!(patched.expect("it is valid").is_terminating());
}

/// S8: an update with the UID of another object of the same name is a conflict; such a patch is
/// invalid, from which controllers learn that the object was replaced.
#[test]
fn a_write_can_require_a_uid() {
    let mut registry = registry();
    let created = create(&mut registry, &CONFIG_MAP, config_map("a"));
    let mut object = config_map("a");
    object["metadata"]["uid"] = json!("other");
    let (code, text) = message(registry.update(&CONFIG_MAP, "default", "a", object, &options()));
    assert_eq!(code, 409);
    let expected = format!(
        "Key: /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: other, UID in object meta: {}",
        created.uid()
    );
    assert!(text.ends_with(&expected), "{text}");
    let patch = merge(json!({"metadata": {"uid": "other"}}));
    assert_eq!(
        message(registry.patch(&CONFIG_MAP, "default", "a", &patch, &options())),
        (
            422,
            "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"other\": field is \
             immutable"
                .to_string()
        )
    );
}

/// S5, S8: a patched object is decoded as its kind, and errors have upstream's messages.
#[test]
fn a_patch_with_an_undecodable_result_is_invalid() {
    let mut registry = registry();
    create(&mut registry, &DAEMON_SET, daemon_set("d"));
    let mut refused = |patch_type, body| {
        let patch = Patch { patch_type, body, endpoint: Endpoint::Main, strict: None };
        let (code, text) = message(registry.patch(&DAEMON_SET, "default", "d", &patch, &options()));
        let start = text.split("Invalid value: ").next().unwrap_or_default().to_owned();
        let end = text.rsplit("\": ").next().unwrap_or_default().to_owned();
        (code, start, end)
    };
    let says = |reason: &str| (422, " \"\" is invalid: patch: ".to_owned(), reason.to_owned());
    let wrong = json!({"spec": {"minReadySeconds": "soon"}});
    assert_eq!(refused(PatchType::StrategicMerge, wrong.clone()), says("unrecognized type: int32"));
    let decoder = "json: cannot unmarshal string into Go struct field \
        DaemonSetSpec.spec.minReadySeconds of type int32";
    assert_eq!(refused(PatchType::Merge, wrong), says(decoder));
    let replace = json!([{"op": "add", "path": "/spec/minReadySeconds", "value": "soon"}]);
    assert_eq!(refused(PatchType::Json, replace), says(decoder));
    let patch = Patch {
        patch_type: PatchType::StrategicMerge,
        body: json!({"spec": {"minReadySeconds": "soon"}}),
        endpoint: Endpoint::Main,
        strict: None,
    };
    let status = registry.patch(&DAEMON_SET, "default", "d", &patch, &options()).unwrap_err();
    assert_eq!(
        status.message,
        " \"\" is invalid: patch: Invalid value: \"map[spec:map[minReadySeconds:soon]]\": \
         unrecognized type: int32"
    );
}

/// S4, S5: strict validation refuses a patch that adds unknown fields, but not one of an object
/// that has them already.
#[test]
fn strict_validation_applies_to_every_patch_type() {
    let mut registry = registry();
    create(&mut registry, &DAEMON_SET, daemon_set("d"));
    let mut send = |patch_type, body, strict| {
        let patch = Patch { patch_type, body, endpoint: Endpoint::Main, strict };
        let result = registry.patch(&DAEMON_SET, "default", "d", &patch, &options());
        let reason = |text: &str| text.rsplit("\": ").next().unwrap_or_default().to_owned();
        result.map(|_| ()).map_err(|status| reason(&status.message))
    };
    let strict = || Some(Vec::new());
    let unknown =
        |field: &str| Err(format!("strict decoding error: unknown field \"spec.{field}\""));
    let merge = |field: &str| json!({"spec": {field: 1}});
    let add = |field: &str| json!([{"op": "add", "path": format!("/spec/{field}"), "value": 1}]);
    for patch_type in [PatchType::Merge, PatchType::StrategicMerge] {
        assert_eq!(send(patch_type, merge("a"), strict()), unknown("a"));
    }
    assert_eq!(send(PatchType::Json, add("a"), strict()), unknown("a"));
    assert_eq!(send(PatchType::Json, add("a"), None), Ok(()));
    assert_eq!(send(PatchType::Json, add("minReadySeconds"), strict()), Ok(()));
    assert_eq!(send(PatchType::Json, add("b"), strict()), unknown("b"));
    let text = vec!["json patch unknown field \"[0].x\"".to_owned()];
    assert_eq!(
        send(PatchType::Json, json!([]), Some(text)),
        Err("strict decoding error: json patch unknown field \"[0].x\"".to_owned())
    );
}
