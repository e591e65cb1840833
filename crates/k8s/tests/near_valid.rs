//! What is nearly right: a DaemonSet with one wrong value is told by the field that has it, and everything else of it counts;
//! selectors and affinities mean what a naive reading of the API's documentation says that they mean.

use std::collections::BTreeMap;

use everynode_core::api::{IntOrPercent, Labels, Node, UpdateStrategy};
use everynode_core::placement::should_run;
use everynode_k8s::convert::{self, label_selector};
use proptest::prelude::*;
use serde_json::{Value, json};

fn daemon_set() -> Value {
    json!({
        "metadata": {"name": "d", "namespace": "ns", "uid": "u"},
        "spec": {
            "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["d"]}]},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0},
            },
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {
                "tolerations": [
                    {"operator": "Exists"},
                    {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"},
                ],
                "affinity": {"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["4"]}]},
                        {"matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": ["n1"]},
                        ]},
                    ]},
                }},
            }},
        },
    })
}

const TERMS: &str = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

/// Where a value goes, which ones are right there, and the field by which a wrong one is told.
struct Place {
    path: String,
    is_right: fn(&Value) -> bool,
    field: &'static str,
}

fn places() -> Vec<Place> {
    let terms = "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let first: &str = Box::leak(format!("{terms}[0]").into_boxed_str());
    let second: &str = Box::leak(format!("{terms}[1]").into_boxed_str());
    let place = |path: &str, field, is_right| Place { path: path.to_owned(), is_right, field };
    vec![
        place("/spec/selector/matchExpressions/0/operator", "spec.selector", |value| {
            is_one_of(value, &["In", "NotIn"])
        }),
        place("/spec/updateStrategy/type", "spec.updateStrategy.type", |value| {
            !value.is_string() || is_one_of(value, &["RollingUpdate", "OnDelete"])
        }),
        place(
            "/spec/updateStrategy/rollingUpdate/maxUnavailable",
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
            is_int_or_percent,
        ),
        place(
            "/spec/updateStrategy/rollingUpdate/maxSurge",
            "spec.updateStrategy.rollingUpdate.maxSurge",
            is_int_or_percent,
        ),
        place(
            "/spec/template/spec/tolerations/1/operator",
            "spec.template.spec.tolerations[1]",
            |value| !value.is_string() || is_one_of(value, &["", "Exists", "Equal", "Lt", "Gt"]),
        ),
        place(
            "/spec/template/spec/tolerations/1/effect",
            "spec.template.spec.tolerations[1]",
            |value| {
                let effects = ["", "NoSchedule", "PreferNoSchedule", "NoExecute"];
                !value.is_string() || is_one_of(value, &effects)
            },
        ),
        place(&format!("{TERMS}/0/matchExpressions/0/operator"), first, |value| {
            is_one_of(value, &["In", "NotIn", "Gt", "Lt"])
        }),
        place(&format!("{TERMS}/0/matchExpressions/0/values/0"), first, |value| {
            value.as_str().is_some_and(|text| text.parse::<i64>().is_ok())
        }),
        place(&format!("{TERMS}/1/matchFields/0/key"), second, |value| *value == "metadata.name"),
    ]
}

fn is_one_of(value: &Value, known: &[&str]) -> bool {
    value.as_str().is_some_and(|text| known.contains(&text))
}

fn is_int_or_percent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_u64().is_some_and(|number| number <= u32::MAX.into()),
        Value::String(text) => text.strip_suffix('%').is_some_and(|digits| {
            digits.parse::<u32>().is_ok() && digits.bytes().all(|byte| byte.is_ascii_digit())
        }),
        _ => false,
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u8>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
        "[-+ 0-9]{0,4}%{0,2}".prop_map(Value::from),
        prop::sample::select(vec!["In", "Exists", "Equal", "OnDelete", "NoExecute", "Gt", "in"])
            .prop_map(Value::from),
        Just(json!([])),
        Just(json!({"x": 1})),
    ]
}

/// Keys and values so few that they meet.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "1", "2", "10"]).prop_map(str::to_owned)
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(word(), word(), 0..4)
}

fn requirement() -> impl Strategy<Value = Value> {
    let operators = vec!["In", "NotIn", "Exists", "DoesNotExist"];
    (word(), prop::sample::select(operators), prop::collection::vec(word(), 1..3)).prop_map(
        |(key, operator, values)| match operator {
            "In" | "NotIn" => json!({"key": key, "operator": operator, "values": values}),
            _ => json!({"key": key, "operator": operator}),
        },
    )
}

/// Those of nodes know numbers too.
fn node_requirement() -> impl Strategy<Value = Value> {
    let bound = (word(), prop::sample::select(vec!["Gt", "Lt"]), 0i64..12);
    prop_oneof![
        3 => requirement(),
        1 => bound.prop_map(|(key, operator, bound)| {
            json!({"key": key, "operator": operator, "values": [bound.to_string()]})
        }),
    ]
}

fn node_terms() -> impl Strategy<Value = Vec<Vec<Value>>> {
    prop::collection::vec(prop::collection::vec(node_requirement(), 0..3), 0..3)
}

fn selector() -> impl Strategy<Value = Value> {
    (labels(), prop::collection::vec(requirement(), 0..3)).prop_map(
        |(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions}),
    )
}

/// As the API documents it, word by word.
fn naively_matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let equal = equal.map(|(key, value)| labels.get(key).map(String::as_str) == value.as_str());
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let expressions = expressions.map(|expression| naively_holds(expression, labels));
    equal.chain(expressions).all(|holds| holds)
}

fn naively_holds(expression: &Value, labels: &BTreeMap<String, String>) -> bool {
    let values = expression["values"].as_array().into_iter().flatten();
    let values: Vec<&str> = values.filter_map(Value::as_str).collect();
    let label = labels.get(expression["key"].as_str().unwrap_or_default()).map(String::as_str);
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = || Some((number(label?)?, number(values[0])?));
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => label.is_some_and(|label| values.contains(&label)),
        "NotIn" => !label.is_some_and(|label| values.contains(&label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => compared().is_some_and(|(label, bound)| label > bound),
        _ => compared().is_some_and(|(label, bound)| label < bound),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// C4, C12, C51: one wrong value is one problem, which names its field; a right one is none.
    #[test]
    fn a_wrong_value_is_told_by_its_field(place in 0..places().len(), value in any_value()) {
        let Place { path, is_right, field } = places().swap_remove(place);
        let mut object = daemon_set();
        *object.pointer_mut(&path).unwrap() = value.clone();
        match convert::daemon_set(object.to_string().as_bytes(), None) {
            Ok(read) => {
                let told: Vec<String> =
                    read.daemon_set.problems.iter().map(ToString::to_string).collect();
                prop_assert_eq!(told.is_empty(), is_right(&value), "{} = {}: {:?}", path, value, told);
                prop_assert!(told.len() <= 1, "{:?}", told);
                prop_assert!(told.iter().all(|told| told.contains(field)), "{}: {:?}", field, told);
            }
            Err(error) => prop_assert!(false, "{} = {}: {}", path, value, error),
        }
    }

    /// C51: numbers and percentages are read as what they are.
    #[test]
    fn numbers_and_percentages_are_read_as_what_they_are(number in any::<u32>(), percent in any::<u32>()) {
        let mut object = daemon_set();
        object["spec"]["updateStrategy"]["rollingUpdate"] =
            json!({"maxUnavailable": number, "maxSurge": format!("{percent}%")});
        let read = convert::daemon_set(object.to_string().as_bytes(), None).unwrap().daemon_set;
        prop_assert_eq!(read.update_strategy, UpdateStrategy::RollingUpdate {
            max_unavailable: IntOrPercent::Int(number),
            max_surge: IntOrPercent::Percent(percent),
        });
    }

    /// C12: terms are alternatives, the expressions of a term all hold, and a term of none matches nothing.
    #[test]
    fn an_affinity_allows_the_nodes_that_it_says(terms in node_terms(), labels in labels()) {
        let wire: Vec<Value> =
            terms.iter().map(|expressions| json!({"matchExpressions": expressions})).collect();
        let required = json!({"nodeSelectorTerms": wire});
        let spec = json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required}}});
        let (placement, problems) = convert::placement(&spec, "spec");
        prop_assert_eq!(problems, vec![]);
        let expected = terms.iter().any(|expressions| {
            let holds = |expression| naively_holds(expression, &labels);
            !expressions.is_empty() && expressions.iter().all(holds)
        });
        let node = Node { name: "n".into(), labels: Labels::from_iter(labels.clone()), taints: vec![] };
        prop_assert_eq!(should_run(&placement, &node), expected, "{:?} on {:?}", terms, labels);
    }

    /// C21: a selector selects what a naive reading of it selects.
    #[test]
    fn a_selector_selects_what_it_says(selector in selector(), labels in labels()) {
        let read = label_selector(Some(&selector)).unwrap();
        let expected = naively_matches(&selector, &labels);
        prop_assert_eq!(read.matches(&Labels::from_iter(labels)), expected, "{}", selector);
    }
}
