//! Tests of values, maps and sizes against `serde_json` and a sorted map.

use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};

use super::*;

/// Any value; objects have few or many fields, with equal names among them.
fn value() -> impl Strategy<Value = serde_json::Value> {
    let name = prop_oneof!["[a-c]{0,2}", "[a-z/~]{20,30}"];
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        name.clone().prop_map(Into::into),
    ];
    scalar.prop_recursive(4, 300, 100, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec((name.clone(), inner.clone()), 0..12)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
            prop::collection::vec(inner, 60..70).prop_map(|values| {
                let fields = values.into_iter().enumerate();
                serde_json::Value::Object(fields.map(|(n, v)| (n.to_string(), v)).collect())
            }),
        ]
    })
}

/// A change of the fields of an object.
#[derive(Clone, Debug)]
enum Change {
    Insert(String, i64),
    Remove(String),
    Set(String),
    Add(String),
    RetainOdd,
}

fn change() -> impl Strategy<Value = Change> {
    let name = || (0..80).prop_map(|number: i32| format!("field-{number}"));
    prop_oneof![
        6 => (name(), any::<i64>()).prop_map(|(name, value)| Change::Insert(name, value)),
        2 => name().prop_map(Change::Remove),
        2 => name().prop_map(Change::Set),
        2 => name().prop_map(Change::Add),
        1 => Just(Change::RetainOdd),
    ]
}

proptest! {
    /// S4: text, equality and conversions are those of `serde_json`.
    #[test]
    fn values_are_those_of_serde_json(theirs in value(), other in value()) {
        let text = theirs.to_string();
        let ours: Value = serde_json::from_str(&text).expect("it is JSON");
        prop_assert_eq!(ours.to_string(), &*text);
        prop_assert_eq!(ours.size().json, text.len());
        prop_assert_eq!(format!("{ours:#}"), format!("{theirs:#}"));
        prop_assert_eq!(&Value::from(theirs.clone()), &ours);
        prop_assert_eq!(&serde_json::Value::from(&ours), &theirs);
        prop_assert_eq!(ours == Value::from(other.clone()), theirs == other);
    }

    /// S4: changes of fields have the results that they have in a sorted map, at any size, and
    /// leave copies as they are.
    #[test]
    fn a_map_is_a_sorted_map(changes in prop::collection::vec(change(), 0..300)) {
        let (mut ours, mut theirs) = (Map::new(), std::collections::BTreeMap::new());
        for change in changes {
            let (copy, before) = (ours.clone(), theirs.clone());
            match change {
                Change::Insert(name, value) => {
                    let replaced = ours.insert(name.as_str(), value.into());
                    prop_assert_eq!(replaced, theirs.insert(name, value).map(Value::from));
                }
                Change::Remove(name) => {
                    prop_assert_eq!(ours.remove(&name), theirs.remove(&name).map(Value::from));
                }
                Change::Set(name) => {
                    let found = ours.get_mut(&name).map(|value| *value = 7.into());
                    prop_assert_eq!(found, theirs.get_mut(&name).map(|value| *value = 7));
                }
                Change::Add(name) => {
                    let ours = ours.entry(name.as_str()).or_insert(8.into()).clone();
                    prop_assert_eq!(ours, *theirs.entry(name).or_insert(8));
                }
                Change::RetainOdd => {
                    ours.retain(|_, value| value.as_i64().is_some_and(|value| value % 2 != 0));
                    theirs.retain(|_, value| *value % 2 != 0);
                }
            }
            let entries = |map: &Map| {
                let entry = |(name, value): (&SmolStr, &Value)| {
                    (name.to_string(), value.as_i64().expect("an integer"))
                };
                map.iter().map(entry).collect::<Vec<_>>()
            };
            prop_assert_eq!(entries(&ours), theirs.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(ours.len(), theirs.len());
            prop_assert_eq!(entries(&copy), before.into_iter().collect::<Vec<_>>());
        }
    }
}

/// S4: the last of several fields of one name counts.
#[test]
fn the_last_of_equal_names_counts() {
    let value: Value =
        serde_json::from_str(r#"{"b": 1, "a": 2, "b": 3, "b": 4}"#).expect("it is JSON");
    assert_eq!(value, json!({"a": 2, "b": 4}));
}

/// S25: a copy shares all levels that are not changed.
#[test]
fn a_changed_copy_shares_the_rest() {
    let address = |value: &Value| std::ptr::from_ref(value.as_array().expect("an array"));
    let one = json!({"spec": {"containers": [1, 2]}, "status": {"conditions": []}});
    let mut other = one.clone();
    other["status"]["conditions"] = json!([3]);
    assert_eq!(one["status"]["conditions"], json!([]));
    assert_eq!(address(&one["spec"]["containers"]), address(&other["spec"]["containers"]));
    // Looking for what is not there copies nothing.
    assert_eq!(other.get_mut("absent"), None);
    assert_eq!(other.as_object_mut().and_then(|fields| fields.remove("absent")), None);
}

/// S4: pointers have the steps of RFC 6901.
#[test]
fn pointers_lead_to_values() {
    let value = json!({"a/b": [{"~": 1}], "": 2});
    assert_eq!(value.pointer(""), Some(&value));
    assert_eq!(value.pointer("/"), Some(&json!(2)));
    assert_eq!(value.pointer("/a~1b/0/~0"), Some(&json!(1)));
    assert_eq!((value.pointer("a"), value.pointer("/a~1b/1")), (None, None));
}

/// S8: each array and object is one level.
#[test]
fn a_depth_is_the_nesting() {
    for (value, depth) in
        [(json!("a"), 1), (json!([]), 1), (json!({"a": 1, "b": [{}, 2]}), 3), (json!([[[0]]]), 4)]
    {
        assert_eq!(value.size().depth, depth, "{value}");
    }
}

/// S8: the size of a value is the length of its text.
#[test]
fn a_size_is_the_length_of_the_text() {
    for value in [
        json!({"a": {"b": [1, -2, 0.5, "x\"\\\n\u{1}é"]}, "n": null, "t": true}),
        json!([[], {}, [[]], "", {"": {}}]),
    ] {
        assert_eq!(value.size().json, value.to_string().len(), "{value}");
    }
}
