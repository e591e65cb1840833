//! Field sets, merges and ownership of generated objects of one type, and a table of schemas.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use everynode_core::api::Timestamp;
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};

use super::compare::{Comparison, compare};
use super::field_set::field_set;
use super::managers::{ManagerId, Operation};
use super::merge::merge;
use super::update::UNOWNED;
use super::*;
use crate::custom::Schema;
use crate::json::{Map, Value, json};
use crate::merge_schema::{PathElement, Scalar, Type};

const NOW: Timestamp = Timestamp::from_seconds(1_767_225_600);

/// A type with every form of fields.
fn thing() -> Type<'static> {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        Schema::parse(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "text": {"type": "string"},
                "port": {"x-kubernetes-int-or-string": true},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "selector": {"type": "object", "additionalProperties": {"type": "string"},
                    "x-kubernetes-map-type": "atomic"},
                "args": {"type": "array", "items": {"type": "string"}},
                "items": {"type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "side"],
                    "items": {"type": "object", "properties": {
                        "name": {"type": "string"},
                        "side": {"type": "string", "default": "left"},
                        "value": {"type": "integer"},
                    }}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }},
        }}))
    });
    Type::of_custom(&SCHEMA)
}

fn writing(root: Type<'_>) -> Writing<'_> {
    Writing {
        root,
        api_version: "v1",
        serves: &|version| version == "v1",
        subresource: "",
        ignored: Set::default(),
        only: &[],
        now: NOW,
    }
}

fn set(paths: &[&[&str]]) -> Set {
    let mut set = Set::default();
    for path in paths {
        let path: Vec<PathElement> =
            path.iter().map(|text| PathElement::parse(text).expect(text)).collect();
        set.insert(&path);
    }
    set
}

/// S14: the field set of a value depends on its schema as upstream decides: what is one field, what
/// identifies elements, and which defaults keys have.
#[test]
fn the_schema_decides_what_a_field_is() {
    let root = thing();
    let object = json!({
        "apiVersion": "v1", "kind": "Thing",
        "metadata": {"name": "a", "finalizers": ["x/y"]},
        "spec": {
            "port": 80, "labels": {"a": "b"}, "selector": {"a": "b"}, "args": ["a"],
            "items": [{"name": "one", "value": 1}, {"name": "one", "side": "right"}],
            "any": {"deep": {"list": [1], "empty": {}}},
        },
    });
    let text = fields_v1::text(&field_set(root, &object).difference(&UNOWNED));
    let expected = concat!(
        r#"{"f:metadata":{"f:finalizers":{"v:\"x/y\"":{}}},"f:spec":{"f:any":{"f:deep":{".":{},"#,
        r#""f:empty":{},"f:list":{}}},"f:args":{},"f:items":{"#,
        r#""k:{\"name\":\"one\",\"side\":\"left\"}":{".":{},"f:name":{},"f:value":{}},"#,
        r#""k:{\"name\":\"one\",\"side\":\"right\"}":{".":{},"f:name":{},"f:side":{}}},"#,
        r#""f:labels":{"f:a":{}},"f:port":{},"f:selector":{}}}"#,
    );
    assert_eq!(text, expected);
}

/// S14: without a schema maps are granular and lists atomic.
#[test]
fn objects_without_a_schema_are_deduced() {
    let object = json!({"spec": {"list": [{"name": "a"}], "map": {"a": {"b": 1}}}});
    let text = fields_v1::text(&field_set(Type::Deduced, &object));
    let expected = concat!(
        r#"{"f:spec":{".":{},"f:list":{},"#,
        r#""f:map":{".":{},"f:a":{".":{},"f:b":{}}}}}"#,
    );
    assert_eq!(text, expected);
}

/// S14: a value that does not have its type is found with its path, in upstream's words.
#[test]
fn values_of_another_type_are_found() {
    let root = thing();
    for (object, expected) in [
        (
            json!({"spec": {"text": 1}}),
            ".spec.text: expected string, got \
             &value.valueUnstructured{Value:1}",
        ),
        (json!({"spec": {"port": []}}), ".spec.port: expected any scalar, got &{[]}"),
        (json!({"spec": {"labels": "a"}}), ".spec.labels: expected map, got &{a}"),
        (json!({"spec": {"items": {}}}), ".spec.items: expected list, got &{map[]}"),
        (json!({"spec": {"more": 1}}), ".spec.more: field not declared in schema"),
        (json!({"spec": {"more": 1, "most": 2}}), ".spec.more: field not declared in schema"),
        (
            json!({"spec": {"items": [{"name": "a", "value": "b"}]}}),
            ".spec.items[name=\"a\",side=\"left\"].value: expected numeric (int or float), got \
             string",
        ),
        (
            json!({"spec": {"items": [{"name": "a"}, {"name": "a", "side": "left"}]}}),
            ".spec.items: duplicate entries for key [name=\"a\",side=\"left\"]",
        ),
        (
            json!({"metadata": {"finalizers": [null]}}),
            ".metadata.finalizers: element 0: associative \
             list without keys has an element that's an explicit null",
        ),
        (
            json!({"spec": {"text": true, "args": [1]}}),
            "errors:\n  .spec.args[0]: expected string, \
             got &value.valueUnstructured{Value:1}\n  .spec.text: expected string, got \
             &value.valueUnstructured{Value:true}",
        ),
    ] {
        let found = validate(root, &object).expect_err("it is wrong").to_string();
        assert_eq!(found, expected, "{object}");
    }
}

/// S12: findings and conflicts below long names are few.
#[test]
fn findings_below_a_long_name_are_few() {
    let root = thing();
    let name = "x".repeat(200_000);
    let wrong: Vec<Value> = (0..300).map(|_| json!({"name": name, "wrong": {}})).collect();
    let found = validate(root, &json!({"spec": {"items": wrong}})).expect_err("wrong");
    let text = found.to_string();
    assert!(text.len() < 100_000 && text.ends_with(" more"), "{} bytes", text.len());
    let mut fields = Set::default();
    for number in 0..8000 {
        fields.insert(&[PathElement::field(&name), PathElement::field(&format!("f{number}"))]);
    }
    let id = ManagerId::new("a", Operation::Apply, "v1", "");
    let status = conflict_status(&BTreeMap::from([(id, fields)]));
    assert!(status.message.starts_with("Apply failed with 8000 conflicts: conflicts with \"a\""));
    assert!(status.message.len() < 100_000, "{} bytes", status.message.len());
}

/// S14: elements that only one side has stay where they are, and the others have the applied order.
#[test]
fn merged_lists_have_the_order_of_upstream() {
    let root = thing();
    let list = |names: &[&str]| {
        let items: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"items": items}})
    };
    for (live, applied, expected) in [
        (&["a", "b", "c"][..], &["b"][..], &["a", "b", "c"][..]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a", "b"], &["x", "a", "y"], &["x", "a", "b", "y"]),
        (&["a", "b"], &["b", "a", "c"], &["b", "a", "c"]),
        (&[], &["b", "a"], &["b", "a"]),
        (&["a"], &[], &["a"]),
    ] {
        let merged = merge(root, &list(live), &list(applied));
        assert_eq!(merged, list(expected), "{live:?} and {applied:?}");
    }
}

/// S14: of more than ten entries from updates the oldest are merged.
#[test]
fn the_oldest_updates_are_merged() {
    let root = thing();
    let mut managers = Managers::new();
    let mut live = json!({"spec": {"labels": {}}});
    for number in 0..13_i64 {
        let writing = Writing { now: Timestamp::from_seconds(number), ..writing(root) };
        let mut new = live.clone();
        new["spec"]["labels"][format!("l{number}")] = "x".into();
        managers = update(&writing, &live, &new, managers, &format!("writer-{number:02}"));
        live = new;
    }
    assert_eq!(managers.len(), 10);
    let old = ManagerId::new("ancient-changes", Operation::Update, "v1", "");
    let labels = |name: &'static str| ["f:spec", "f:labels", name];
    let expected = ["f:l0", "f:l1", "f:l2", "f:l3"].map(labels);
    let expected: Vec<&[&str]> = expected.iter().map(|path| &path[..]).collect();
    assert_eq!(managers[&old].fields, set(&expected));
    assert_eq!(managers[&old].time, Some(Timestamp::from_seconds(3)));
}

/// S14: entries that make no sense are refused as a whole, and empty ones ask to forget all.
#[test]
fn managed_fields_of_clients_are_checked() {
    let entry = |field: &str, value: Value| {
        let mut entry = json!({
            "manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}}, "time": "2026-01-01T00:00:00Z",
        });
        entry[field] = value;
        json!([entry])
    };
    assert!(decode(&entry("manager", json!("b"))).is_some());
    assert!(decode(&entry("fieldsV1", json!({"x:later": {}}))).is_some());
    for (field, value) in [
        ("operation", json!("Other")),
        ("apiVersion", json!("")),
        ("fieldsType", json!("FieldsV2")),
        ("fieldsType", json!(null)),
        ("fieldsV1", json!({"data": {}})),
        ("fieldsV1", json!({"f:data": 1})),
        ("fieldsV1", json!({"k:{": {}})),
    ] {
        assert!(decode(&entry(field, value.clone())).is_none(), "{field}: {value}");
    }
    assert!(is_reset(&json!([])) && is_reset(&json!([{}])) && is_reset(&json!([{"manager": ""}])));
    assert!(!is_reset(&json!(null)) && !is_reset(&json!([{}, {}])));
    assert!(!is_reset(&entry("manager", json!("a"))));
}

/// S14: stored entries are served as they were written, in upstream's order, and share equal texts
/// until nobody uses them.
#[test]
fn stored_entries_share_their_texts() {
    let manager = |seconds| managers::Manager {
        fields: set(&[&["f:data", "f:a"]]),
        api_version: "v1".into(),
        time: Some(Timestamp::from_seconds(seconds)),
    };
    let managers: Managers = [
        (ManagerId::new("b", Operation::Update, "v1", "status"), manager(2)),
        (ManagerId::new("a", Operation::Update, "v1", ""), manager(3)),
        (ManagerId::new("z", Operation::Apply, "v1", ""), manager(9)),
    ]
    .into();
    let mut texts = SharedTexts::default();
    let stored = texts.share(ManagedFields::encode(&managers));
    let entries = stored.value().expect("there are entries");
    let names: Vec<&str> =
        entries.as_array().into_iter().flatten().filter_map(|it| it["manager"].as_str()).collect();
    assert_eq!(names, ["z", "b", "a"]);
    assert_eq!(decode(&entries).as_ref(), Some(&managers));
    assert_eq!(stored.decode(), managers);
    assert!(stored.is_same_but_for_times(&ManagedFields::encode(&managers)));
}

fn a_set() -> impl Strategy<Value = Set> {
    let element = prop::sample::select(vec![
        PathElement::field("a"),
        PathElement::field("b\"\\\n"),
        PathElement::field("."),
        PathElement::Key([("name".into(), Scalar(json!("x")))].into()),
        PathElement::Key([("port".into(), Scalar(json!(80)))].into()),
        PathElement::Value(Scalar(json!("y"))),
        PathElement::Value(Scalar(json!(2))),
        PathElement::Index(3),
    ]);
    let path = prop::collection::vec(element, 1..4);
    prop::collection::vec(path, 0..12).prop_map(|paths| {
        let mut set = Set::default();
        paths.iter().for_each(|path| set.insert(path));
        set
    })
}

fn an_object() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["a", "b", "c"]).prop_map(Value::from);
    let map = || prop::collection::btree_map("[abc]", text(), 0..3);
    let to_map = |map: std::collections::BTreeMap<String, Value>| -> Value {
        Value::Object(map.into_iter().collect::<Map>())
    };
    let names = prop::collection::btree_set("[abc]", 0..3);
    let items =
        (names, prop::option::of(0..2_i64), any::<bool>()).prop_map(|(names, value, turn)| {
            let mut items: Vec<Value> = names
                .into_iter()
                .map(|name| match value {
                    Some(value) => json!({"name": name, "value": value}),
                    None => json!({"name": name}),
                })
                .collect();
            if turn {
                items.reverse();
            }
            items.into()
        });
    let finalizers = prop::collection::btree_set("[abc]", 0..3).prop_map(|set| json!(set));
    let maybe = |strategy: prop::strategy::BoxedStrategy<Value>| {
        prop::option::of(strategy).prop_map(|value| value.unwrap_or(Value::Null))
    };
    let spec = (
        maybe(text().boxed()),
        maybe(map().prop_map(to_map).boxed()),
        maybe(map().prop_map(to_map).boxed()),
        maybe(prop::collection::vec(text(), 0..2).prop_map(Value::from).boxed()),
        maybe(items.boxed()),
        maybe(finalizers.boxed()),
    );
    spec.prop_map(|(text, labels, selector, args, items, finalizers)| {
        let mut spec = Map::new();
        let all = [("text", text), ("labels", labels), ("selector", selector), ("args", args)];
        for (name, value) in all.into_iter().chain([("items", items)]) {
            if !value.is_null() {
                spec.insert(name.to_owned(), value);
            }
        }
        let mut metadata = json!({"name": "thing"});
        if !finalizers.is_null() {
            metadata["finalizers"] = finalizers;
        }
        json!({"apiVersion": "v1", "kind": "Thing", "metadata": metadata, "spec": spec})
    })
}

fn applied(
    writing: &Writing<'_>,
    live: &Value,
    managers: &Managers,
    object: &Value,
    name: &str,
) -> (Value, Managers) {
    let empty = json!({"metadata": {}, "spec": {}});
    let state = Live { object: live, empty: &empty, managers: managers.clone() };
    let result = apply(writing, state, object, name, true).expect("it is forced");
    (result.object.unwrap_or_else(|| live.clone()), result.managers)
}

// PROPTEST_CASES sets the number of cases of each test.
proptest! {
    /// S14: a set is read as it was written, from the text and from a tree of it.
    #[test]
    fn a_set_survives_its_text(set in a_set()) {
        let text = fields_v1::text(&set);
        let tree: Value = serde_json::from_str(&text).expect("JSON");
        let read = fields_v1::parse(&tree.to_string()).expect("it is FieldsV1");
        let parsed = fields_v1::parse(&text).expect("it is FieldsV1");
        prop_assert_eq!((&parsed, &read), (&set, &set), "{}", &text);
    }

    /// S14: any text is a set or refused.
    #[test]
    fn any_text_is_a_set_or_refused(text in "[\\[\\]{}:,.\"fkvi1a ]{0,40}") {
        if let Ok(set) = fields_v1::parse(&text) {
            prop_assert_eq!(fields_v1::parse(&fields_v1::text(&set)).ok(), Some(set));
        }
    }

    /// S14: each path is in the results of set operations for which it qualifies.
    #[test]
    fn operations_on_sets_decide_for_each_path(one in a_set(), other in a_set()) {
        let (union, both) = (one.clone().union(other.clone()), one.intersection(&other));
        let left = one.clone().difference(&other);
        let deep = one.clone().recursive_difference(&other);
        let mut paths = Vec::new();
        union.for_each(&mut |path| paths.push(path.to_vec()));
        for path in &paths {
            let (in_one, in_other) = (one.contains(path), other.contains(path));
            prop_assert!(in_one || in_other);
            prop_assert_eq!(both.contains(path), in_one && in_other);
            prop_assert_eq!(left.contains(path), in_one && !in_other);
            let covered = (1..=path.len()).any(|length| other.contains(&path[..length]));
            prop_assert_eq!(deep.contains(path), in_one && !covered);
        }
        for set in [&union, &both, &left, &deep] {
            let mut count = 0;
            set.for_each(&mut |path| count += usize::from(union.contains(path)));
            prop_assert_eq!(set.is_empty(), count == 0);
        }
    }

    /// S14: a comparison the other way round finds the opposite, and equal objects do not differ.
    #[test]
    fn a_comparison_has_a_reverse(one in an_object(), other in an_object()) {
        let root = thing();
        prop_assert_eq!(compare(root, &one, &one), Comparison::default());
        let there = compare(root, &one, &other);
        let back = compare(root, &other, &one);
        prop_assert_eq!((&there.added, &there.modified), (&back.removed, &back.modified));
        prop_assert!(there != Comparison::default() || one == other);
    }

    /// S14: an apply that is repeated changes nothing; the manager owns what it applied, and the
    /// object has these values.
    #[test]
    fn an_apply_is_idempotent(live in an_object(), object in an_object()) {
        let root = thing();
        let writing = writing(root);
        let managers = update(&writing, &json!({}), &live, Managers::new(), "someone");
        let (once, owners) = applied(&writing, &live, &managers, &object, "me");
        let (twice, same_owners) = applied(&writing, &once, &owners, &object, "me");
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(&owners, &same_owners);
        prop_assert_eq!(&merge(root, &once, &object), &once, "values are missing");
        let id = ManagerId::new("me", Operation::Apply, "v1", "");
        let owned = owners.get(&id).map(|manager| manager.fields.clone()).unwrap_or_default();
        prop_assert_eq!(owned, field_set(root, &object).difference(&UNOWNED));
    }

    /// S14: what one manager alone applied goes when it applies nothing, and what two share stays.
    #[test]
    fn fields_that_are_given_up_go(first in an_object(), second in an_object()) {
        let root = thing();
        let writing = writing(root);
        let nothing = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "thing"}});
        let empty = json!({"metadata": {}, "spec": {}});
        let (object, owners) = applied(&writing, &empty, &Managers::new(), &first, "first");
        let (object, owners) = applied(&writing, &object, &owners, &second, "second");
        let (object, owners) = applied(&writing, &object, &owners, &nothing, "first");
        prop_assert!(owners.keys().all(|id| &*id.name != "first"), "{owners:?}");
        // Empty maps and lists stay behind.
        let is_container = |path: &Vec<PathElement>| {
            path.len() <= 2 && path.last() != Some(&PathElement::field("text"))
        };
        let difference = compare(root, &second, &object);
        let mut more = Vec::new();
        let changed = difference.added.union(difference.removed);
        changed.for_each(&mut |path| more.push(path.to_vec()));
        prop_assert!(more.iter().all(is_container), "{more:?} in {object}");
        prop_assert!(difference.modified.is_empty(), "{object}");
    }
}
