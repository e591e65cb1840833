//! Changes of a running pod to another override (G57).

use super::*;
use crate::convert::rollout_policy;

/// The change of a pod with the override of this tag to this override of container `a`.
fn overriding(tag: Option<&str>, resources: Option<&str>) -> NewChange {
    let of_node = resources.map(|resources| {
        let container = format!("{{name: a, resources: {resources}}}");
        let yaml = format!("overrides: [{{name: big, nodes: {{}}, containers: [{container}]}}]");
        rollout_policy(&yaml).unwrap().overrides.list[0].clone()
    });
    let new = change(json!({}));
    NewChange { tag: tag.map(Into::into), r#override: of_node, hash: "h1".into(), ..new }
}

/// The pod of [`template`] with these amounts, of which its annotation says `changed`.
fn overridden_pod(resources: &Value, changed: &Value) -> Value {
    let metadata = json!({ "metadata": {
        "labels": { HASH_LABEL: "h1" },
        "annotations": { OVERRIDDEN_ANNOTATION: changed.to_string() },
    } });
    with(with(pod_of(template()), container(&json!({ "resources": resources }))), metadata)
}

/// G57: only the amounts of the override change, and the pod states which these are; an amount of
/// the override before that is not one of the next is that of the template again.
#[test]
fn another_override_changes_its_amounts() {
    let memory = |request: &str| json!({ "requests": { "memory": request } });
    let of_memory = json!({ "a": { "requests": ["memory"] } });
    let with_vpa = container(&json!({ "resources": { "requests": { "cpu": "77m" } } }));
    let overridden = || overridden_pod(&memory("32Mi"), &of_memory);
    for (before, to, pod, resources, states) in [
        (
            None,
            Some("{requests: {memory: 32Mi}}"),
            with(pod_of(template()), with_vpa),
            Some(memory("32Mi")),
            Some(of_memory.clone()),
        ),
        (
            Some("big-1"),
            Some("{limits: {memory: 100Mi}}"),
            overridden(),
            Some(json!({ "requests": { "memory": "64Mi" }, "limits": { "memory": "100Mi" } })),
            Some(json!({ "a": { "requests": ["memory"], "limits": ["memory"] } })),
        ),
        (Some("big-1"), None, overridden(), Some(memory("64Mi")), None),
        (
            Some("big-1"),
            Some("{requests: {memory: 32Mi}}"),
            overridden(),
            None,
            Some(of_memory.clone()),
        ),
    ] {
        let new = overriding(before, to);
        let change = Change::new(&new, Some(&pod)).unwrap();
        let expected = resources.map(|it| json!([{ "name": "a", "resources": it }]));
        let patch = change.resize_patch().map(|patch| patch["spec"]["containers"].clone());
        assert_eq!(patch, expected, "{before:?} {to:?}");
        let patch = change.patch(&pod).unwrap();
        let statement = parsed(&patch, CHANGING_ANNOTATION);
        let tag = new.r#override.as_ref().map(|it| &*it.tag);
        assert_eq!(statement.get("override").and_then(Value::as_str), tag, "{statement}");
        assert_eq!(statement["resizes"], expected.is_some(), "{statement}");
        let stated = &patch["metadata"]["annotations"][OVERRIDDEN_ANNOTATION];
        let stated = stated.as_str().map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(stated, states);
    }
}

/// G57: an amount that the template lacks is removed with the override. The API server says if it
/// may be.
#[test]
fn an_amount_that_the_template_lacks_is_removed() {
    let changed = json!({ "a": { "limits": ["cpu"] } });
    let pod = overridden_pod(&json!({ "limits": { "cpu": "2" } }), &changed);
    let new = overriding(Some("big-1"), None);
    let patch = Change::new(&new, Some(&pod)).unwrap().resize_patch().unwrap();
    let resources = &patch["spec"]["containers"][0]["resources"];
    assert_eq!(*resources, json!({ "limits": { "cpu": null } }));
}

/// G57: a pod that does not say what its override has changed, or has more than other resources,
/// cannot change back.
#[test]
fn a_pod_that_cannot_change_back_says_why() {
    let env = json!({ "a": { "requests": ["memory"], "other": true } });
    for (pod, why) in [
        (pod_of(template()), "it does not say what its override big-1 has changed"),
        (overridden_pod(&json!({}), &env), "its override differs from the template in more than"),
    ] {
        let new = overriding(Some("big-1"), None);
        let error = Change::new(&new, Some(&pod)).expect_err(why);
        assert!(error.starts_with(why), "{error}");
    }
}

/// G57: a change of the override alone gives way to another one, a change of the revision does not.
#[test]
fn another_override_takes_the_place_of_one_that_is_not_done() {
    let states = |to: &str, tag: &str| {
        let statement = json!({ "to": to, "since": "1970-01-01T00:01:00Z", "override": tag });
        let annotations = json!({ CHANGING_ANNOTATION: statement.to_string() });
        let metadata = json!({ "metadata": { "annotations": annotations } });
        with(overridden_pod(&json!({}), &json!({})), metadata)
    };
    let new = overriding(None, Some("{requests: {memory: 1Mi}}"));
    let (own, other) = (states("h1", "big-1"), states("h2", "big-1"));
    let change = Change::new(&new, Some(&own)).unwrap();
    assert!(!change.has_begun(&own));
    assert!(change.patch(&own).is_ok());
    assert!(change.patch(&other).is_err());
    let tag = new.goal().tag.unwrap();
    assert!(change.has_begun(&states("h1", &tag)));
}
