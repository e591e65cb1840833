//! Hostile objects (S12): what they cost is bounded, and nothing ends. Each of them would take
//! minutes, gigabytes, or a panic without its bound, so that a test which ends is the proof.

use super::*;
use crate::kinds::{DEFINITION, SECRET};

/// Defines a kind whose objects have a `spec` of this schema.
fn define(registry: &mut Registry, spec: Value) -> Result<&'static Kind, Status> {
    let definition = json!({
        "metadata": {"name": "things.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing",
                "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}},
            }}],
        },
    });
    registry.create(&DEFINITION, "", definition, &options())?;
    let kind = registry.store().kinds().by_api_version("example.dev/v1", "Thing");
    Ok(kind.expect("it is served"))
}

fn thing(spec: Value) -> Value {
    let metadata = json!({"name": "a"});
    json!({"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": metadata, "spec": spec})
}

/// The refusal of an object whose `spec` has a schema.
fn refused(schema: Value, spec: Value) -> Status {
    let mut registry = registry();
    let kind = define(&mut registry, schema).expect("it is a definition");
    let created = registry.create(kind, "default", thing(spec), &options());
    created.expect_err("it is invalid")
}

fn answer_bytes(status: &Status) -> usize {
    status.to_value().to_string().len()
}

/// Schemas in schemas are evaluated once each.
#[test]
fn nested_all_of_costs_no_more_than_its_levels() {
    let mut nested = json!({"maximum": 0});
    for _ in 0..40 {
        nested = json!({"allOf": [nested]});
    }
    nested["type"] = "integer".into();
    let status = refused(nested, json!(1));
    assert_eq!(status.code(), 422);
    assert!(status.message.contains("must validate all the schemas (allOf)"), "{status}");
}

/// Schemas that cost too much for an object are an error that says so.
#[test]
fn validation_ends_after_its_steps() {
    let numbers = |range: std::ops::Range<usize>| Value::Array(range.map(Value::from).collect());
    let choices: Vec<Value> = (0..2000).map(|number| json!({"minimum": 9000 + number})).collect();
    // Errors that each level passes on.
    let mut many_errors = json!({"items": {"maximum": -1}});
    for _ in 0..35 {
        many_errors = json!({"anyOf": [many_errors]});
    }
    many_errors["type"] = "array".into();
    many_errors["items"] = json!({"type": "integer"});
    let many_errors = json!({"type": "array", "items": many_errors});
    let names: Vec<String> = (0..1000).map(|number| format!("k{number}")).collect();
    let properties: Value =
        names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": names,
        "items": {"type": "object", "required": names, "properties": properties}});
    let texts: Vec<Value> = (0..500).map(|it| json!({"pattern": format!("^x+{it}$")})).collect();
    for (schema, spec) in [
        (
            json!({"type": "array", "items": {"type": "integer", "enum": numbers(0..20_000)}}),
            numbers(0..19_999),
        ),
        (
            json!({"type": "array", "items": {"type": "integer", "anyOf": choices}}),
            numbers(0..5000),
        ),
        (json!({"type": "string", "allOf": texts}), "x".repeat(300_000).into()),
        // Its automaton would have 2^200 states.
        (json!({"type": "string", "pattern": "[xy]*x[xy]{200}z"}), "xy".repeat(600_000).into()),
        (many_errors, Value::Array(vec![numbers(0..100); 1000].into())),
        (keyed, Value::Array(vec![json!({}); 60_000].into())),
    ] {
        let status = refused(schema, spec);
        assert!(status.message.contains("more than 2000000 steps"), "{:.200}", status.message);
        assert!(answer_bytes(&status) < 300_000, "{}", answer_bytes(&status));
    }
}

/// The paths of errors are made only for those that are listed.
#[test]
fn errors_below_a_long_name_are_few() {
    let name = "x".repeat(200_000);
    let wrong = Value::Array(vec![json!({"a": "b", "unknown": 1}); 5000].into());
    let item = json!({"type": "object", "properties": {"a": {"type": "integer"}},
        "required": ["c"]});
    let schema = json!({"type": "object", "additionalProperties": {"type": "array",
        "items": item}});
    let status = refused(schema, json!({name: wrong}));
    assert_eq!(status.code(), 422);
    assert!(answer_bytes(&status) < 300_000, "{}", answer_bytes(&status));
}

/// An element of a list with keys finds the one that it replaces by its key.
#[test]
fn long_lists_with_keys_are_updated() {
    let mut registry = registry();
    let item = json!({"type": "object", "required": ["k"], "properties": {
        "k": {"type": "integer"}, "v": {"type": "integer"}}});
    let schema = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"], "items": item});
    let kind = define(&mut registry, schema).expect("it is a definition");
    let list = |v: usize| {
        Value::Array((0..20_000_usize).map(|k| json!({"k": 20_000 - k, "v": v})).collect())
    };
    registry.create(kind, "default", thing(list(0)), &options()).expect("it is valid");
    let patch = merge(json!({"spec": list(1)}));
    registry.patch(kind, "default", "a", &patch, &options()).expect("it is valid");
}

/// Defaults that are larger than an object are not set in each of its items.
#[test]
fn large_defaults_in_many_items_are_refused() {
    let defaults = json!({"type": "object", "default": {}, "properties": {
        "a": {"type": "string", "default": "x".repeat(10_000)}}});
    let item = json!({"type": "object", "properties": {"d": defaults}});
    let spec = Value::Array(vec![json!({}); 20_000].into());
    let status = refused(json!({"type": "array", "items": item}), spec);
    assert_eq!(status.message, "etcdserver: request is too large");
}

/// Rules count what they compute, also of literals and of variables of macros.
#[test]
fn rules_end_after_their_budget() {
    let doubled = |start: &str, times| format!("[{start}]{}", ".map(x, x + x)".repeat(times));
    for rule in [
        format!("{}.size() == 1", doubled("'aaaaaaaaaa'", 35)),
        format!("{}.size() == 1", doubled("[1, 2, 3]", 35)),
        format!("[[1]]{}.size() == 1", ".map(x, [x, x, x, x, x, x, x, x])".repeat(20)),
        "self.text.replace('', self.text).size() > 0".to_owned(),
        "self.list.all(x, [self.list].all(y, y.join(self.text).size() > 0))".to_owned(),
        "[self.list].all(k, k.all(a, k.all(b, k.all(c, k.all(d, true)))))".to_owned(),
        "[self.list].all(k, sets.contains(k, k) && k.distinct().size() > 0)".to_owned(),
        "self.list.all(x, (self.text + x).matches('[xy]*x[xy]{25}z') || true)".to_owned(),
        "self.list.all(x, ''.matches(x + '(a{90}){90}') || true)".to_owned(),
    ] {
        let mut registry = registry();
        let schema = json!({"type": "object",
            "properties": {
                "text": {"type": "string", "maxLength": 100_000},
                "list": {"type": "array", "maxItems": 3000,
                    "items": {"type": "string", "maxLength": 10}},
            },
            "x-kubernetes-validations": [{"rule": rule}]});
        let kind = define(&mut registry, schema).expect("it is an expression");
        let list: Vec<Value> = (0..3000).map(|number| number.to_string().into()).collect();
        let spec = json!({"text": "x".repeat(100_000), "list": list});
        let created = registry.create(kind, "default", thing(spec), &options());
        let status = created.expect_err(&rule);
        assert!(status.message.contains("actual cost limit exceeded"), "{rule}: {status:.300}");
    }
}

/// Names, columns and versions of a kind are limited: they cost memory with each other or for ever.
#[test]
fn definitions_have_limits() {
    let many = |count: usize| -> Vec<Value> {
        (0..count).map(|number| format!("n{number}").into()).collect()
    };
    let column = json!({"name": "a", "type": "string", "jsonPath": ".a"});
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}});
    for (path, value, message) in [
        ("/spec/names/categories", json!(many(33)), "must have at most 32 items"),
        ("/spec/names/shortNames", json!(many(33)), "must have at most 32 items"),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!(vec![column; 33]),
            "must have at most 32 items",
        ),
        ("/spec/versions", json!(vec![version.clone(); 101]), "must have at most 100 items"),
    ] {
        let mut definition = json!({
            "metadata": {"name": "things.example.dev"},
            "spec": {
                "group": "example.dev", "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing",
                    "listKind": "ThingList", "categories": [], "shortNames": []},
                "versions": [version.clone()],
            },
        });
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
        *definition.pointer_mut(path).expect("it has the field") = value;
        let created = registry().create(&DEFINITION, "", definition, &options());
        let (code, found) = super::message(created);
        assert_eq!(code, 422);
        assert!(found.contains(message), "{path}: {found}");
    }
}

/// A namespace that was finalized before its content was gone can be created again.
#[test]
fn a_namespace_that_was_finalized_by_hand_is_created_again() {
    let mut registry = registry();
    let namespace = || json!({"metadata": {"name": "x"}});
    create(&mut registry, &NAMESPACE, namespace());
    registry.delete(&NAMESPACE, "", "x", &DeleteOptions::now(), &options()).expect("it is there");
    let finalized = json!({"metadata": {"name": "x"}, "spec": {"finalizers": []}});
    registry.finalize(&NAMESPACE, "x", &finalized, &options()).expect("it is being deleted");
    create(&mut registry, &NAMESPACE, namespace());
}

/// The list of owners is shown in a message without a copy for each of them.
#[test]
fn many_owners_that_are_all_controllers_are_refused() {
    let owner = |number: usize| {
        json!({"apiVersion": "v1", "kind": "Node", "name": format!("n{number}"), "uid": "u",
            "controller": true})
    };
    let owners: Vec<Value> = (0..10_000).map(owner).collect();
    let map = json!({"metadata": {"name": "a", "ownerReferences": owners}});
    let created = registry().create(&CONFIG_MAP, "default", map, &options());
    let status = created.expect_err("it has many controllers");
    assert_eq!(status.code(), 422);
    assert!(answer_bytes(&status) < 300_000, "{}", answer_bytes(&status));
}

/// S6: how many objects of other namespaces have changed shows nowhere.
#[test]
fn a_later_page_counts_only_its_namespace() {
    let mut registry = registry();
    let secret = |name: String| json!({"metadata": {"name": name}});
    for number in 0..10 {
        create(&mut registry, &SECRET, secret(format!("own-{number}")));
        let other = secret(format!("other-{number}"));
        registry.create(&SECRET, "kube-system", other, &options()).expect("it is valid");
    }
    let page = |registry: &Registry, continue_token| {
        let namespace = Some("default".to_owned());
        let selector = Selector { namespace, ..Selector::default() };
        let options = ListOptions { selector, limit: 3, continue_token, ..Default::default() };
        registry.store().list(&SECRET, &options).expect("it is a list")
    };
    let first = page(&registry, None);
    for number in 0..5 {
        let name = format!("other-{number}");
        let delete = DeleteOptions::now();
        registry.delete(&SECRET, "kube-system", &name, &delete, &options()).expect("it is there");
    }
    let second = page(&registry, first.continue_token);
    assert_eq!(second.remaining_item_count, Some(4));
}
