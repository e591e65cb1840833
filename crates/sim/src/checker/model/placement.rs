//! Which nodes a template allows (C10–C14).

use std::collections::BTreeMap;

use everynode_sandbox::json::{Value, json};

use super::metadata::{text, texts};
use super::node::{Node, Taint};

/// The taints that every pod of a DaemonSet tolerates (C14). The last one needs the host's network.
const TOLERATED: [(&str, &str); 7] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ("node.kubernetes.io/network-unavailable", "NoSchedule"),
];

/// Whether a node gets a pod (C10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checker) enum Eligibility {
    /// The node does not exist.
    NoNode,
    /// It gets no pod, and one that is there must go.
    MustNotRun,
    /// It gets no pod, and one that is there stays.
    MayKeep,
    /// It gets a pod.
    ShouldRun,
}

impl Eligibility {
    /// Whether a pod that is there stays.
    pub(in crate::checker) fn keeps(self) -> bool {
        self >= Self::MayKeep
    }
}

/// The parts of a template that restrict its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Placement {
    node_name: Option<String>,
    node_selector: BTreeMap<String, String>,
    /// The terms of the required node affinity.
    terms: Option<Vec<Value>>,
    tolerations: Vec<Value>,
    uses_host_network: bool,
}

impl Placement {
    pub(super) fn parse(template: &Value) -> Self {
        let spec = &template["spec"];
        let required =
            &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let terms = required["nodeSelectorTerms"].as_array().cloned().unwrap_or_default();
        Self {
            node_name: Some(text(&spec["nodeName"])).filter(|name| !name.is_empty()),
            node_selector: texts(&spec["nodeSelector"]),
            terms: required.is_object().then_some(terms),
            tolerations: spec["tolerations"].as_array().cloned().unwrap_or_default(),
            uses_host_network: spec["hostNetwork"] == true,
        }
    }

    /// Whether this node gets a pod.
    pub(in crate::checker) fn eligibility(&self, node: &Node) -> Eligibility {
        let labels = &node.metadata.labels;
        let is_elsewhere = self.node_name.as_ref().is_some_and(|name| *name != node.metadata.name);
        let is_selected =
            self.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let has_affinity =
            self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| is_met(term, node)));
        let repels = |effect: &str| {
            let mut taints = node.taints.iter().filter(|taint| taint.effect == effect);
            taints.any(|taint| !self.tolerates(taint))
        };
        if is_elsewhere || !is_selected || !has_affinity || repels("NoExecute") {
            Eligibility::MustNotRun
        } else if repels("NoSchedule") {
            Eligibility::MayKeep
        } else {
            Eligibility::ShouldRun
        }
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        let defaults = TOLERATED.iter().take(if self.uses_host_network { 7 } else { 6 });
        defaults.into_iter().any(|(key, effect)| taint.key == *key && taint.effect == *effect)
            || self.tolerations.iter().any(|toleration| tolerates(toleration, taint))
    }
}

/// The default tolerations as JSON (C14).
pub(super) fn default_tolerations(uses_host_network: bool) -> impl Iterator<Item = Value> {
    let count = if uses_host_network { 7 } else { 6 };
    let toleration = |(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect});
    TOLERATED.into_iter().take(count).map(toleration)
}

/// Whether a toleration tolerates a taint (C13).
fn tolerates(toleration: &Value, taint: &Taint) -> bool {
    let field = |name: &str| toleration[name].as_str().unwrap_or_default();
    let (key, effect, value) = (field("key"), field("effect"), field("value"));
    let numbers = || Some((taint.value.parse::<i64>().ok()?, value.parse::<i64>().ok()?));
    let meets_operator = match field("operator") {
        "" | "Equal" => value == taint.value,
        "Exists" => true,
        "Lt" => numbers().is_some_and(|(taint, bound)| taint < bound),
        "Gt" => numbers().is_some_and(|(taint, bound)| taint > bound),
        _ => false,
    };
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || key.is_empty() && field("operator") == "Exists")
        && meets_operator
}

/// Whether a node meets a term of a node affinity. An empty term, and one that is malformed, is met
/// by none (C12).
fn is_met(term: &Value, node: &Node) -> bool {
    let list = |key: &str| term[key].as_array().cloned().unwrap_or_default();
    let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
    let meets = |expression: &Value, value: Option<&str>| {
        let values = expression["values"].as_array().into_iter().flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        let bound = || match values[..] {
            [one] => one.parse::<i64>().ok(),
            _ => None,
        };
        let number = || value.and_then(|value| value.parse::<i64>().ok()).zip(bound());
        match expression["operator"].as_str().unwrap_or_default() {
            "In" => value.is_some_and(|value| values.contains(&value)),
            "NotIn" => value.is_none_or(|value| !values.contains(&value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => number().is_some_and(|(number, bound)| number > bound),
            "Lt" => number().is_some_and(|(number, bound)| number < bound),
            _ => false,
        }
    };
    let label = |expression: &Value| {
        let key = expression["key"].as_str().unwrap_or_default();
        node.metadata.labels.get(key).cloned()
    };
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|e| meets(e, label(e).as_deref()))
        && fields
            .iter()
            .all(|f| f["key"] == "metadata.name" && meets(f, Some(node.metadata.name.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_sandbox::json::json;

    fn eligibility(spec: Value, labels: Value, taints: Value) -> Eligibility {
        let node = json!({"metadata": {"name": "n", "labels": labels}, "spec": {"taints": taints}});
        Placement::parse(&json!({"spec": spec})).eligibility(&Node::parse(&node))
    }

    /// C11, C12: the name, the selector and the affinity of a template exclude other nodes.
    #[test]
    fn a_template_excludes_nodes() {
        let on = |spec| eligibility(spec, json!({"a": "1"}), json!([]));
        let affinity = |terms: Value| {
            let required = json!({"nodeSelectorTerms": terms});
            on(json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
            }}}))
        };
        assert_eq!(on(json!({})), Eligibility::ShouldRun);
        assert_eq!(on(json!({"nodeName": "n"})), Eligibility::ShouldRun);
        assert_eq!(on(json!({"nodeName": "m"})), Eligibility::MustNotRun);
        assert_eq!(on(json!({"nodeSelector": {"a": "1"}})), Eligibility::ShouldRun);
        assert_eq!(on(json!({"nodeSelector": {"a": "2"}})), Eligibility::MustNotRun);
        assert_eq!(affinity(json!([])), Eligibility::MustNotRun);
        assert_eq!(affinity(json!([{}])), Eligibility::MustNotRun);
        let term = |operator: &str, values: Value| {
            let expression = json!({"key": "a", "operator": operator, "values": values});
            json!({"matchExpressions": [expression]})
        };
        let either = json!([term("Invented", json!([])), term("Gt", json!(["0"]))]);
        assert_eq!(affinity(either), Eligibility::ShouldRun);
        assert_eq!(affinity(json!([term("NotIn", json!(["1"]))])), Eligibility::MustNotRun);
        let field = json!([{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n"]},
        ]}]);
        assert_eq!(affinity(field), Eligibility::ShouldRun);
    }

    /// C13, C14: an untolerated NoSchedule taint keeps new pods off, NoExecute removes them.
    #[test]
    fn taints_keep_pods_off() {
        let taint = |key: &str, effect: &str| json!([{"key": key, "value": "5", "effect": effect}]);
        let with = |tolerations: Value, taints: Value| {
            eligibility(json!({"tolerations": tolerations}), json!({}), taints)
        };
        assert_eq!(with(json!([]), taint("t", "NoSchedule")), Eligibility::MayKeep);
        assert_eq!(with(json!([]), taint("t", "NoExecute")), Eligibility::MustNotRun);
        assert_eq!(with(json!([]), taint("t", "PreferNoSchedule")), Eligibility::ShouldRun);
        for toleration in [
            json!({"operator": "Exists"}),
            json!({"key": "t", "value": "5"}),
            json!({"key": "t", "operator": "Lt", "value": "6", "effect": "NoSchedule"}),
        ] {
            let tolerated = with(json!([toleration]), taint("t", "NoSchedule"));
            assert_eq!(tolerated, Eligibility::ShouldRun, "{toleration}");
        }
        let cordoned = taint("node.kubernetes.io/unschedulable", "NoSchedule");
        assert_eq!(with(json!([]), cordoned), Eligibility::ShouldRun);
        let network = || taint("node.kubernetes.io/network-unavailable", "NoSchedule");
        assert_eq!(with(json!([]), network()), Eligibility::MayKeep);
        let host = eligibility(json!({"hostNetwork": true}), json!({}), network());
        assert_eq!(host, Eligibility::ShouldRun);
    }
}
