//! Kinds that are kept, and those beside DaemonSets that are acted on.

use super::*;
use crate::kinds::{POD_DISRUPTION_BUDGET, PRIORITY_CLASS, SERVICE};

fn service(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

/// S13: a Service gets an address and keeps it, unless it names another one or has none.
#[test]
fn services_have_addresses_of_their_own() {
    let mut registry = registry();
    let ports = json!([{"port": 80}]);
    let address = |object: &Object| object.text(&["spec", "clusterIP"]).to_owned();
    let first = create(&mut registry, &SERVICE, service("a", json!({"ports": ports})));
    let second = create(&mut registry, &SERVICE, service("b", json!({"ports": ports})));
    assert_eq!((address(&first), address(&second)), ("10.96.0.2".into(), "10.96.0.3".into()));
    assert_eq!(first.value()["spec"]["clusterIPs"], json!(["10.96.0.2"]));
    let headless = service("c", json!({"ports": ports, "clusterIP": "None"}));
    assert_eq!(address(&create(&mut registry, &SERVICE, headless)), "None");
    let update = service("a", json!({"ports": [{"port": 81}]}));
    let updated = registry.update(&SERVICE, "default", "a", update, &options());
    assert_eq!(address(&updated.expect("it is valid")), "10.96.0.2");
}

/// S13: an object's status is that of the server, and its generation counts its changes.
#[test]
fn kept_objects_have_the_status_and_generation_of_the_server() {
    let mut registry = registry();
    let kind = *crate::kinds::BUILT_IN.iter().find(|row| row.kind == "Deployment").expect("a row");
    let mut object = daemon_set("web");
    object["apiVersion"] = "apps/v1".into();
    object["kind"] = "Deployment".into();
    object["status"] = json!({"replicas": 7});
    let created = create(&mut registry, kind, object.clone());
    assert_eq!(created.value()["status"], json!({}));
    assert_eq!(created.value()["metadata"]["generation"], 1);
    object["spec"]["replicas"] = 3.into();
    let updated = registry.update(kind, "default", "web", object.clone(), &options());
    assert_eq!(updated.expect("it is valid").value()["metadata"]["generation"], 2);
    object["spec"]["selector"]["matchLabels"]["x"] = "y".into();
    object["spec"]["template"]["metadata"]["labels"]["x"] = "y".into();
    let (_, text) = message(registry.update(kind, "default", "web", object, &options()));
    assert!(text.contains("field is immutable"), "{text}");
}

fn class(name: &str, more: Value) -> Value {
    let mut class = json!({"metadata": {"name": name}, "value": 7});
    class.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    class
}

/// S10, S13: a pod has the priority of its class, or of the default one, and a class that does not
/// exist is refused with upstream's words.
#[test]
fn pods_have_the_priority_of_their_class() {
    let mut registry = registry();
    let mut named = pod("a");
    named["spec"]["priorityClassName"] = "high".into();
    let refused = registry.create(&POD, "default", named.clone(), &options());
    assert_eq!(
        message(refused),
        (403, "pods \"a\" is forbidden: no PriorityClass with name high was found".to_owned())
    );
    create(&mut registry, &PRIORITY_CLASS, class("high", json!({"preemptionPolicy": "Never"})));
    let created = create(&mut registry, &POD, named);
    assert_eq!(created.value()["spec"]["priority"], 7);
    assert_eq!(created.value()["spec"]["preemptionPolicy"], "Never");
    assert_eq!(create(&mut registry, &POD, pod("b")).value()["spec"]["priority"], 0);
    let default = class("usual", json!({"value": 3, "globalDefault": true}));
    create(&mut registry, &PRIORITY_CLASS, default);
    let usual = create(&mut registry, &POD, pod("c"));
    assert_eq!(usual.value()["spec"]["priority"], 3);
    assert_eq!(usual.value()["spec"]["priorityClassName"], "usual");
    let second = class("other", json!({"globalDefault": true}));
    let (code, text) = message(registry.create(&PRIORITY_CLASS, "", second, &options()));
    assert_eq!(code, 403);
    assert!(text.ends_with("is already marked as default. Only one default can exist"), "{text}");
}

/// S13: the system's classes exist from the start, and nobody deletes them.
#[test]
fn system_classes_cannot_be_deleted() {
    let mut registry = registry();
    registry.seed(START).expect("a new cluster has none");
    assert_eq!(registry.store().count(&PRIORITY_CLASS), 2);
    let delete = DeleteOptions::default();
    let name = "system-node-critical";
    let deleted = registry.delete(&PRIORITY_CLASS, "", name, &delete, &options());
    assert_eq!(message(deleted).0, 403);
    let other = class("system-mine", json!({}));
    assert_eq!(message(registry.create(&PRIORITY_CLASS, "", other, &options())).0, 422);
}

/// S13: a pod with two budgets can't be evicted, and a budget without a status refuses.
#[test]
fn evictions_ask_the_budget() {
    let mut registry = registry();
    let mut ready = pod("a");
    ready["spec"]["nodeName"] = "n".into();
    let created = create(&mut registry, &POD, ready);
    let mut running = created.value().clone();
    running["status"]["phase"] = "Running".into();
    running["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    registry.update_status(&POD, "default", "a", running, &options()).expect("it is valid");
    let budget = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
        })
    };
    create(&mut registry, &POD_DISRUPTION_BUDGET, budget("one"));
    let status = registry.evict("default", "a", &json!({}), &options()).expect_err("refused");
    assert_eq!(
        (status.code(), &*status.message),
        (429, "Cannot evict pod as it would violate the pod's disruption budget.")
    );
    let cause = &status.details.as_ref().expect("details").causes[0];
    assert_eq!(cause.message, "The disruption budget one is still being processed by the server.");
    create(&mut registry, &POD_DISRUPTION_BUDGET, budget("two"));
    let refused = registry.evict("default", "a", &json!({}), &options());
    assert_eq!(message(refused).0, 500);
}
