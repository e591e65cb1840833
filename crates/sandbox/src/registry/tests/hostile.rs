//! Random input: the registry never panics, and accepts the objects that it has served.

use proptest::prelude::*;

mod bounds;

use super::*;
use crate::kind::Subresource;
use crate::kinds::BUILT_IN;

/// Meaningful names, so that random objects pass the first checks.
const WORDS: &[&str] = &[
    "metadata",
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "deletionTimestamp",
    "creationTimestamp",
    "generation",
    "spec",
    "status",
    "template",
    "selector",
    "matchLabels",
    "containers",
    "image",
    "a",
    "default",
    "1",
    "",
    "nodeName",
    "tolerations",
    "key",
    "operator",
    "Exists",
    "priorityClassName",
    "priority",
    "taints",
    "effect",
    "NoSchedule",
    "phase",
    "Running",
    "data",
    "kind",
    "apiVersion",
    "terminationGracePeriodSeconds",
    "conditions",
    "type",
    "updateStrategy",
    "rollingUpdate",
    "maxUnavailable",
    "50%",
    "$patch",
    "delete",
    "replace",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "target",
    "deleteOptions",
    "preconditions",
    "gracePeriodSeconds",
    "involvedObject",
    "volumes",
    "hostPath",
    "ports",
    "deprecated.daemonset.template.generation",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![6 => prop::sample::select(WORDS).prop_map(str::to_string), 1 => "\\PC{0,6}"]
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2..40i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::btree_map(word(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A valid object with a random tree inserted somewhere.
fn nearly_valid() -> impl Strategy<Value = (usize, Value)> {
    let places = prop::sample::select(vec![
        "",
        "/metadata",
        "/metadata/labels",
        "/metadata/annotations",
        "/metadata/finalizers",
        "/metadata/ownerReferences",
        "/spec",
        "/spec/template",
        "/spec/template/spec",
        "/spec/containers/0",
        "/spec/selector",
        "/spec/tolerations",
        "/status",
        "/data",
    ]);
    (0..BUILT_IN.len(), places, word(), tree()).prop_map(|(index, place, key, value)| {
        let mut object = match BUILT_IN[index].kind {
            "Pod" => pod("x"),
            "DaemonSet" => daemon_set("x"),
            "ConfigMap" => config_map("x"),
            _ => json!({"metadata": {"name": "x"}}),
        };
        object["metadata"]["labels"] = json!({"app": "a"});
        object["metadata"]["annotations"] = json!({"k": "v"});
        match object.pointer_mut(place) {
            Some(Value::Object(fields)) => {
                fields.insert(key, value);
            }
            Some(found) => *found = value,
            None => object[place.rsplit('/').next().unwrap_or("")] = value,
        }
        (index, object)
    })
}

/// Sends all requests for an object of a kind.
fn send(kind: &'static Kind, object: &Value, other: &Value) {
    let mut registry = registry();
    let namespace = if kind.namespaced { "default" } else { "" };
    let before = registry.store().resource_version();
    let Ok(created) = registry.create(kind, namespace, object.clone(), &options()) else {
        assert_eq!(registry.store().resource_version(), before, "a refused write is no write");
        return;
    };
    let name = created.name().to_string();
    let served = registry.store().get(kind, namespace, &name).expect("it was created");
    if let Some(cold) = served.without_tree() {
        assert_eq!(cold.value(), served.value());
    }
    let newest = registry.store().resource_version();
    let again = registry.update(kind, namespace, &name, served.value().clone(), &options());
    assert!(again.is_ok(), "what was served is taken back: {again:?}");
    assert_eq!(registry.store().resource_version(), newest, "and changes nothing: {object}");
    let _ = registry.update(kind, namespace, &name, other.clone(), &options());
    if kind.has_status() {
        let _ = registry.update_status(kind, namespace, &name, other.clone(), &options());
    }
    for patch_type in [PatchType::Json, PatchType::Merge, PatchType::StrategicMerge] {
        let patch =
            Patch { patch_type, body: other.clone(), endpoint: Endpoint::Main, strict: None };
        let _ = registry.patch(kind, namespace, &name, &patch, &options());
    }
    if kind.subresources.contains(&Subresource::Binding) {
        let _ = registry.bind(namespace, &name, other, &options());
        let _ = registry.evict(namespace, &name, other, &options());
    }
    if kind.subresources.contains(&Subresource::Finalize) {
        let _ = registry.finalize(&NAMESPACE, &name, other, &options());
    }
    let delete = DeleteOptions::parse(other).unwrap_or_default();
    let _ = registry.delete(kind, namespace, &name, &delete, &options());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// S12: no object, patch or option in JSON makes the registry panic; a refused write changes
    /// nothing, and a served object is accepted unchanged, without a new resourceVersion.
    #[test]
    fn any_json_is_accepted_or_refused(
        (index, object) in nearly_valid(),
        random in tree(),
        other in tree(),
    ) {
        send(BUILT_IN[index], &object, &other);
        send(BUILT_IN[index], &random, &object);
        send(BUILT_IN[index], &object, &object);
    }
}
