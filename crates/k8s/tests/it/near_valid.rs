//! Nearly valid objects: a malformed value of a DaemonSet is reported with its field, and all other
//! fields count. Selectors and affinities match as in a naive implementation of the API's
//! documentation.

use std::collections::BTreeMap;

use everynode_core::api::{IntOrPercent, Labels, Node, NodeReadiness, Timestamp, UpdateStrategy};
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

const TERMS: &str = "/spec/template/spec/affinity/nodeAffinity/\
    requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

/// A field of a DaemonSet.
struct Field {
    /// Path of the value.
    path: String,
    is_valid: fn(&Value) -> bool,
    /// Path in the problem that reports a malformed value.
    reported_as: &'static str,
}

fn fields() -> Vec<Field> {
    let terms = "spec.template.spec.affinity.nodeAffinity.\
        requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let first: &str = Box::leak(format!("{terms}[0]").into_boxed_str());
    let second: &str = Box::leak(format!("{terms}[1]").into_boxed_str());
    let field = |path: &str, reported_as, is_valid| {
        let path = path.to_owned();
        Field { path, is_valid, reported_as }
    };
    vec![
        field("/spec/selector/matchExpressions/0/operator", "spec.selector", |value| {
            is_one_of(value, &["In", "NotIn"])
        }),
        field("/spec/updateStrategy/type", "spec.updateStrategy.type", |value| {
            !value.is_string() || is_one_of(value, &["RollingUpdate", "OnDelete"])
        }),
        field(
            "/spec/updateStrategy/rollingUpdate/maxUnavailable",
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
            is_int_or_percent,
        ),
        field(
            "/spec/updateStrategy/rollingUpdate/maxSurge",
            "spec.updateStrategy.rollingUpdate.maxSurge",
            is_int_or_percent,
        ),
        field(
            "/spec/template/spec/tolerations/1/operator",
            "spec.template.spec.tolerations[1]",
            |value| !value.is_string() || is_one_of(value, &["", "Exists", "Equal", "Lt", "Gt"]),
        ),
        field(
            "/spec/template/spec/tolerations/1/effect",
            "spec.template.spec.tolerations[1]",
            |value| {
                let effects = ["", "NoSchedule", "PreferNoSchedule", "NoExecute"];
                !value.is_string() || is_one_of(value, &effects)
            },
        ),
        field(&format!("{TERMS}/0/matchExpressions/0/operator"), first, |value| {
            is_one_of(value, &["In", "NotIn", "Gt", "Lt"])
        }),
        // An integer that is a label value, too, and so has no sign.
        field(&format!("{TERMS}/0/matchExpressions/0/values/0"), first, |value| {
            value.as_str().is_some_and(|text| {
                text.parse::<i64>().is_ok() && text.bytes().all(|byte| byte.is_ascii_digit())
            })
        }),
        field(&format!("{TERMS}/1/matchFields/0/key"), second, |value| *value == "metadata.name"),
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

/// Few different keys and values, so that selectors and labels often have some in common.
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

/// Requirements on nodes may also compare numbers.
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

/// True if the selector matches, according to the documentation of the API.
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
    #![proptest_config(ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// C4, C12, C51: a malformed value is one problem, which names its field; a valid one is none.
    #[test]
    fn a_malformed_value_is_reported_with_its_field(
        index in 0..fields().len(),
        value in any_value(),
    ) {
        let Field { path, is_valid, reported_as } = fields().swap_remove(index);
        let mut object = daemon_set();
        *object.pointer_mut(&path).unwrap() = value.clone();
        match convert::daemon_set(object.to_string().as_bytes(), None) {
            Ok(read) => {
                let problems: Vec<String> =
                    read.daemon_set.problems.iter().map(ToString::to_string).collect();
                let is_reported = !problems.is_empty();
                prop_assert_eq!(
                    is_reported, !is_valid(&value),
                    "{} = {}: {:?}", path, value, problems
                );
                prop_assert!(problems.len() <= 1, "{:?}", problems);
                prop_assert!(
                    problems.iter().all(|problem| problem.contains(reported_as)),
                    "{}: {:?}", reported_as, problems
                );
            }
            Err(error) => prop_assert!(false, "{} = {}: {}", path, value, error),
        }
    }

    /// C51: numbers and percentages are decoded without a change.
    #[test]
    fn numbers_and_percentages_are_decoded(number in any::<u32>(), percent in any::<u32>()) {
        let mut object = daemon_set();
        object["spec"]["updateStrategy"]["rollingUpdate"] =
            json!({"maxUnavailable": number, "maxSurge": format!("{percent}%")});
        let read = convert::daemon_set(object.to_string().as_bytes(), None).unwrap().daemon_set;
        prop_assert_eq!(read.update_strategy, UpdateStrategy::RollingUpdate {
            max_unavailable: IntOrPercent::Int(number),
            max_surge: IntOrPercent::Percent(percent),
        });
    }

    /// C12: terms are alternatives, the expressions of a term all hold, and a term of none matches
    /// nothing.
    #[test]
    fn an_affinity_matches_as_documented(terms in node_terms(), labels in labels()) {
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
        let node_labels = Labels::from_iter(labels.clone());
        let node = Node {
            name: "n".into(),
            labels: node_labels,
            taints: vec![],
            created: Timestamp(0),
            readiness: NodeReadiness::Ready,
            boot_id: "".into(),
            kubelet_version: None,
            conditions: Box::default(),
        };
        prop_assert_eq!(should_run(&placement, &node), expected, "{:?} on {:?}", terms, labels);
    }

    /// C21: a selector matches the labels that the documentation of the API states.
    #[test]
    fn a_selector_matches_as_documented(selector in selector(), labels in labels()) {
        let read = label_selector(Some(&selector)).unwrap();
        let expected = naively_matches(&selector, &labels);
        prop_assert_eq!(read.matches(&Labels::from_iter(labels)), expected, "{}", selector);
    }
}
