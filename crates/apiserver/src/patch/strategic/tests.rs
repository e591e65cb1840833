//! Strategic merge patches: a table of cases, a client that computes patches, and random input.

use std::collections::BTreeSet;

use proptest::prelude::{Just, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy;
use serde::Deserialize;

use super::*;
use crate::json::{Value, json};
use crate::kind::test_kinds::{ALL, CONFIG_MAP, DAEMON_SET, NODE, POD};
use crate::kind::{Kind, named};
use crate::patch::{PatchType, apply};
use crate::schema;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    kind: String,
    current: Value,
    patch: Value,
    expected: Option<Value>,
    refused: Option<Refused>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Refused {
    code: u16,
    message: String,
}

fn built_in(name: &str) -> &'static Kind {
    ALL.iter().find(|kind| kind.kind == name).expect("a built-in kind")
}

fn patched(kind: &Kind, current: &Value, patch: &Value) -> Result<Value, Refused> {
    apply(kind, PatchType::StrategicMerge, current, patch)
        .map_err(|status| Refused { code: status.code(), message: status.message.clone() })
}

/// S12: elements with one key are merged one after the other, which a patch does within a limit.
#[test]
fn elements_with_the_same_key_are_merged_within_a_limit() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
    let add = |number: usize| json!({"name": "c", "env": [{"name": format!("E{number}")}]});
    let patch = |count| json!({"spec": {"containers": (0..count).map(add).collect::<Value>()}});
    assert!(patched(built_in("Pod"), &pod, &patch(100)).is_ok());
    let refused = patched(built_in("Pod"), &pod, &patch(5000)).expect_err("it is too much");
    assert_eq!(refused.code, 413, "{}", refused.message);
}

/// S5: the cases of cases.yaml.
#[test]
fn patches_match_the_cases() {
    let cases: Vec<Case> =
        serde_saphyr::from_str(include_str!("cases.yaml")).expect("cases in YAML");
    assert!(cases.len() >= 50);
    let mut wrong = Vec::new();
    for case in cases {
        let expected = match (case.expected, case.refused) {
            (Some(expected), None) => Ok(expected),
            (None, Some(refused)) => Err(refused),
            _ => panic!("{}: one of expected and refused", case.name),
        };
        let before = case.current.clone();
        let outcome = patched(built_in(&case.kind), &case.current, &case.patch);
        if outcome != expected {
            wrong.push(format!("{}\n  expected {expected:?}\n  but got  {outcome:?}", case.name));
        }
        assert_eq!(case.current, before, "{}: the current object is not touched", case.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// S5, S12: a kind without Go types (a custom one) supports no strategic merge patch,
/// and the error lists the supported forms.
#[test]
fn a_custom_kind_refuses_strategic_merge() {
    let thing = &named("example.com", "Thing", "things", "thing");
    let message = "the body of the request was in an unknown format - accepted media types \
        include: application/json-patch+json, application/merge-patch+json, \
        application/apply-patch+yaml";
    let refused = Refused { code: 415, message: message.to_string() };
    assert_eq!(patched(thing, &json!({}), &json!({})), Err(refused));
    assert_eq!(apply(thing, PatchType::Merge, &json!({}), &json!({"a": 1})), Ok(json!({"a": 1})));
}

/// S5: `null` is a patch that changes nothing, as in Go.
#[test]
fn null_changes_nothing() {
    let current = json!({"metadata": {"name": "a"}});
    assert_eq!(patched(&POD, &current, &Value::Null), Ok(current));
}

/// S5: a patch with lists of the maximum length takes well under a second.
#[test]
fn long_lists_merge_quickly() {
    let list = |from: usize| -> Value {
        (from..from + 20_000).map(|i| json!({"name": format!("c{i}")})).collect()
    };
    let current = json!({"spec": {"containers": list(0)}});
    let patch =
        json!({"spec": {"containers": list(10_000), "$setElementOrder/containers": list(10_000)}});
    let merged = patched(&POD, &current, &patch).expect("a merged list");
    assert_eq!(merged["spec"]["containers"].as_array().map(Vec::len), Some(30_000));
}

/// A list of objects with unique keys.
fn keyed(key: &'static str, of: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec(("[a-e]", of), 1..5).prop_map(move |items| {
        let mut seen = BTreeSet::new();
        items
            .into_iter()
            .filter(|(id, _)| seen.insert(id.clone()))
            .map(|(id, mut item)| {
                item[key] = Value::from(id);
                item
            })
            .collect()
    })
}

fn scalars() -> impl Strategy<Value = Value> {
    prop::collection::btree_set("[a-e]", 1..4)
        .prop_map(|set| set.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(Value::from)
}

fn labels() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", "[x-z]", 1..4).prop_map(|map| json!(map))
}

fn container() -> impl Strategy<Value = Value> {
    (
        prop::option::of(keyed("name", labels().prop_map(|labels| json!({"value": labels})))),
        prop::option::of(scalars()),
        prop::option::of(labels()),
    )
        .prop_map(|(env, args, limits)| {
            without_nulls(json!({"env": env, "args": args, "limits": limits}))
        })
}

fn volume() -> impl Strategy<Value = Value> {
    prop_oneof![
        labels().prop_map(|source| json!({"configMap": source})),
        labels().prop_map(|source| json!({"hostPath": source})),
        Just(json!({"emptyDir": {}})),
    ]
}

fn pod() -> impl Strategy<Value = Value> {
    (
        (
            prop::option::of(labels()),
            prop::option::of(scalars()),
            prop::option::of(keyed("uid", labels())),
        ),
        (
            prop::option::of(keyed("name", container())),
            prop::option::of(keyed("name", volume())),
            prop::option::of(scalars()),
        ),
    )
        .prop_map(|((labels, finalizers, owners), (containers, volumes, tolerations))| {
            without_nulls(json!({
                "metadata": {"labels": labels, "finalizers": finalizers, "ownerReferences": owners},
                "spec": {"containers": containers, "volumes": volumes, "tolerations": tolerations},
            }))
        })
}

fn without_nulls(value: Value) -> Value {
    stored_value(value)
}

/// Any JSON, with field names of the schema and directives among its keys.
fn hostile() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "containers",
        "volumes",
        "finalizers",
        "ownerReferences",
        "conditions",
        "env",
        "name",
        "uid",
        "type",
        "a",
        "",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$setElementOrder/a",
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList/containers",
        "$deleteFromPrimitiveList",
        "$setElementOrder",
        "$setElementOrder/",
    ]);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        Just(json!(1.5)),
        prop::sample::select(vec!["a", "b", "replace", "delete", "merge", "name", ""])
            .prop_map(Value::from),
    ];
    scalar.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|fields| {
                fields.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
            }),
        ]
    })
}

fn has_directives(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| is_directive(key) || has_directives(value))
        }
        Value::Array(items) => items.iter().any(has_directives),
        _ => false,
    }
}

// PROPTEST_CASES sets the number of cases of each test.
proptest! {
    /// S5: the patch between two objects turns the first into the second, and does not change the
    /// second.
    #[test]
    fn the_patch_of_a_diff_yields_the_modified_object(original in pod(), modified in pod()) {
        let (Value::Object(from), Value::Object(to)) = (&original, &modified) else {
            unreachable!("pods are objects");
        };
        let root = schema::root_of(&POD).map(schema::StructId::get);
        let patch = Value::Object(diff(Some(from), to, from, root));
        let once = patched(&POD, &original, &patch);
        prop_assert_eq!(once.as_ref(), Ok(&modified), "patch {}", &patch);
        let twice = patched(&POD, &modified, &patch);
        prop_assert_eq!(twice.as_ref(), Ok(&modified), "patch {}", &patch);
    }

    /// S5: any patch is merged or refused, without a panic, and no directive is stored.
    #[test]
    fn no_patch_panics_or_leaves_a_directive(current in hostile(), patch in hostile()) {
        let current = stored_value(current);
        for kind in [&POD, &DAEMON_SET, &NODE, &CONFIG_MAP] {
            if let Ok(merged) = patched(kind, &current, &patch) {
                prop_assert!(!has_directives(&merged), "{merged}");
            }
            let _ = apply(kind, PatchType::Merge, &current, &patch);
            let _ = apply(kind, PatchType::Json, &current, &patch);
        }
    }

    /// S5: fields that a patch does not mention stay unchanged.
    #[test]
    fn fields_absent_from_a_patch_are_kept(current in pod(), patch in hostile()) {
        let mut beside = current.clone();
        beside["kept"] = json!({"list": [{"name": "a"}], "null": 1});
        beside["metadata"]["kept"] = json!(["x"]);
        let patch = json!({"spec": patch, "metadata": {"labels": {"new": "x"}}});
        if let Ok(merged) = patched(&POD, &beside, &patch) {
            prop_assert_eq!(&merged["kept"], &beside["kept"]);
            prop_assert_eq!(&merged["metadata"]["kept"], &beside["metadata"]["kept"]);
            prop_assert_eq!(&merged["metadata"]["finalizers"], &current["metadata"]["finalizers"]);
        }
    }
}
