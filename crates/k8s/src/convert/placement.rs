//! The constraints of a pod on its node: nodeName, nodeSelector, required node affinity and
//! tolerations.

use std::sync::Arc;

use super::label::{checked_key, checked_value};
use super::node::taint_effect;
use crate::json::Json;
use everynode_core::api::{
    NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, Placement, Problem, Term,
    Toleration, TolerationOperator,
};

const REQUIRED: [&str; 3] =
    ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];

/// Maximum number of terms, requirements and values of a node affinity, which each node is compared
/// with. What exceeds it is malformed, as below, so that its pods go: twice the nodes of the
/// largest cluster, each by its name, are fewer.
const AFFINITY_ITEMS_MAX: usize = 110_000;
/// Maximum number of tolerations.
const TOLERATIONS_MAX: usize = 1_000;

/// Decodes the placement of a pod spec, without default tolerations. A malformed term or toleration
/// becomes a problem and matches nothing. `path` is the path of the spec, for problems (C4, C12).
pub fn placement(spec: &impl Json, path: &str) -> (Placement, Vec<Problem>) {
    let mut problems = Vec::new();
    let placement = Placement {
        node_name: string(spec, "nodeName").filter(|name| !name.is_empty()).map(Into::into),
        node_selector: spec
            .field("nodeSelector")
            .into_iter()
            .flat_map(Json::fields)
            .map(|(key, value)| (key, value.string().unwrap_or("")))
            .collect(),
        required_node_affinity: required_node_affinity(spec, path, &mut problems),
        tolerations: tolerations(spec, path, &mut problems),
        host_network: spec.field("hostNetwork").and_then(Json::boolean) == Some(true),
    };
    (placement, problems)
}

/// `terminationGracePeriodSeconds` of a pod's spec, an int64.
pub(super) fn termination_grace_period_seconds(spec: &impl Json) -> Option<u64> {
    let seconds = spec.field("terminationGracePeriodSeconds").and_then(Json::unsigned)?;
    i64::try_from(seconds).is_ok().then_some(seconds)
}

fn required_node_affinity(
    spec: &impl Json,
    path: &str,
    problems: &mut Vec<Problem>,
) -> Option<Vec<NodeSelectorTerm>> {
    let required = spec.at(&REQUIRED).filter(|required| !required.is_null())?;
    let mut left = AFFINITY_ITEMS_MAX;
    let terms = required.items_at(&["nodeSelectorTerms"]).iter().enumerate().map(|(i, term)| {
        left = left.saturating_sub(items(term));
        let parsed = match left {
            0 => Err(format!("the affinity has more than {AFFINITY_ITEMS_MAX} items")),
            _ => parse_term(term),
        };
        parsed.map_or_else(
            |message| {
                let field = format!("{path}.{}.nodeSelectorTerms[{i}]", REQUIRED.join("."));
                let message: Arc<str> = message.into();
                let problem =
                    Problem::NodeAffinity { field: field.into(), message: message.clone() };
                problems.push(problem);
                NodeSelectorTerm::Malformed(message)
            },
            NodeSelectorTerm::Parsed,
        )
    });
    Some(terms.collect())
}

/// The number of requirements and values of a term, and the term.
fn items(term: &impl Json) -> usize {
    let lists = ["matchExpressions", "matchFields"].map(|list| term.items_at(&[list]));
    let requirements = lists.into_iter().flatten();
    1 + requirements.map(|one| 1 + one.items_at(&["values"]).len()).sum::<usize>()
}

fn parse_term(term: &impl Json) -> Result<Term, String> {
    let expressions = term.items_at(&["matchExpressions"]).iter().map(parse_expression);
    let fields = term.items_at(&["matchFields"]).iter().map(parse_field);
    Ok(Term {
        match_expressions: expressions.collect::<Result<_, _>>()?,
        match_fields: fields.collect::<Result<_, _>>()?,
    })
}

/// Parses a requirement on a label, whose key and values must be valid for labels. Upstream:
/// `labels.NewRequirement`.
fn parse_expression(requirement: &impl Json) -> Result<NodeSelectorRequirement, String> {
    for value in requirement.items_at(&["values"]).iter().filter_map(Json::string) {
        checked_value(value)?;
    }
    checked_key(string(requirement, "key").unwrap_or(""))?;
    parse_requirement(requirement)
}

fn parse_requirement(requirement: &impl Json) -> Result<NodeSelectorRequirement, String> {
    let key = string(requirement, "key").filter(|key| !key.is_empty()).ok_or("a key is missing")?;
    let operator = string(requirement, "operator").unwrap_or("");
    let values = values(requirement);
    let operator = match (operator, values.as_slice()) {
        ("In" | "NotIn", []) => return Err(format!("{operator} of {key} needs values")),
        ("In", _) => NodeSelectorOperator::In(values),
        ("NotIn", _) => NodeSelectorOperator::NotIn(values),
        ("Exists", []) => NodeSelectorOperator::Exists,
        ("DoesNotExist", []) => NodeSelectorOperator::DoesNotExist,
        ("Exists" | "DoesNotExist", _) => {
            return Err(format!("{operator} of {key} takes no values"));
        }
        ("Gt", [bound]) => NodeSelectorOperator::Gt(integer(bound)?),
        ("Lt", [bound]) => NodeSelectorOperator::Lt(integer(bound)?),
        ("Gt" | "Lt", _) => return Err(format!("{operator} of {key} takes one value")),
        _ => return Err(format!("\"{operator}\" is not a valid node selector operator")),
    };
    Ok(NodeSelectorRequirement { key: key.into(), operator })
}

fn parse_field(requirement: &impl Json) -> Result<NodeSelectorRequirement, String> {
    let key = string(requirement, "key").unwrap_or("");
    if key != "metadata.name" {
        return Err(format!("\"{key}\" is not a field that nodes are selected by"));
    }
    match parse_requirement(requirement)? {
        NodeSelectorRequirement {
            operator: NodeSelectorOperator::In(values) | NodeSelectorOperator::NotIn(values),
            ..
        } if values.len() != 1 => Err("matchFields take one value".into()),
        field @ NodeSelectorRequirement {
            operator: NodeSelectorOperator::In(_) | NodeSelectorOperator::NotIn(_),
            ..
        } => Ok(field),
        NodeSelectorRequirement {
            operator:
                NodeSelectorOperator::Exists
                | NodeSelectorOperator::DoesNotExist
                | NodeSelectorOperator::Gt(_)
                | NodeSelectorOperator::Lt(_),
            ..
        } => Err("matchFields take In and NotIn only".into()),
    }
}

fn tolerations(spec: &impl Json, path: &str, problems: &mut Vec<Problem>) -> Vec<Toleration> {
    let tolerations = spec.items_at(&["tolerations"]);
    if tolerations.len() > TOLERATIONS_MAX {
        let message = format!("only the first {TOLERATIONS_MAX} count").into();
        problems.push(Problem::Toleration { field: format!("{path}.tolerations").into(), message });
    }
    let first = tolerations.iter().take(TOLERATIONS_MAX).enumerate();
    let parsed = first.filter_map(|(i, toleration)| match self::toleration(toleration) {
        Ok(toleration) => Some(toleration),
        Err(message) => {
            let field = format!("{path}.tolerations[{i}]").into();
            problems.push(Problem::Toleration { field, message: message.into() });
            None
        }
    });
    parsed.collect()
}

/// Decodes a toleration.
///
/// # Errors
/// Its operator or effect is unknown.
pub fn toleration(toleration: &impl Json) -> Result<Toleration, String> {
    let field = |key| string(toleration, key).unwrap_or("");
    let operator = match field("operator") {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        "Lt" => TolerationOperator::Lt,
        "Gt" => TolerationOperator::Gt,
        other => return Err(format!("\"{other}\" is not a valid toleration operator")),
    };
    let effect = match field("effect") {
        "" => None,
        effect => Some(
            taint_effect(effect).ok_or_else(|| format!("\"{effect}\" is not a valid effect"))?,
        ),
    };
    Ok(Toleration { key: field("key").into(), operator, value: field("value").into(), effect })
}

fn string<'a>(value: &'a impl Json, key: &str) -> Option<&'a str> {
    value.field(key)?.string()
}

fn values(requirement: &impl Json) -> Vec<Arc<str>> {
    requirement.items_at(&["values"]).iter().filter_map(Json::string).map(Into::into).collect()
}

fn integer(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not an integer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({ "key": key, "operator": operator, "values": values })
    }

    fn affinity(terms: Value) -> (Option<Vec<NodeSelectorTerm>>, usize) {
        let spec = json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
        } } });
        let (placement, problems) = placement(&spec, "spec.template.spec");
        (placement.required_node_affinity, problems.len())
    }

    /// C4, C12: a malformed term is reported, and the others still count.
    #[test]
    fn a_malformed_term_does_not_affect_the_others() {
        let (terms, problems) = affinity(json!([
            { "matchExpressions": [{ "key": "a", "operator": "Resembles", "values": ["b"] }] },
            { "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b"] }] },
            {},
        ]));
        let terms = terms.unwrap();
        assert_eq!(problems, 1);
        assert!(matches!(&terms[0], NodeSelectorTerm::Malformed(m) if m.contains("Resembles")));
        assert!(matches!(&terms[1], NodeSelectorTerm::Parsed(t) if t.match_expressions.len() == 1));
        assert_eq!(terms[2], NodeSelectorTerm::Parsed(Term::default()));
    }

    /// C12: the operators of node affinity, and the values that they allow.
    #[test]
    fn requirements_parse_as_upstream_parses_them() {
        let check = |field: &str, requirement: Value, is_valid: bool| {
            let (_, problems) = affinity(json!([{ field: [requirement.clone()] }]));
            assert_eq!(problems == 0, is_valid, "{field} {requirement}");
        };
        for (operator, values, is_valid) in [
            ("In", &["a", "b"][..], true),
            ("In", &[], false),
            ("NotIn", &["a"], true),
            ("Exists", &[], true),
            ("Exists", &["a"], false),
            ("DoesNotExist", &[], true),
            ("Gt", &["5"], true),
            ("Gt", &["five"], false),
            ("Lt", &["5", "6"], false),
            ("", &["a"], false),
            ("In", &["not a value"], false),
            ("NotIn", &["a", "not/a/value"], false),
            ("NotIn", &[""], true),
            ("Gt", &["-5"], false),
        ] {
            check("matchExpressions", requirement("k", operator, values), is_valid);
        }
        for key in ["a b", "/k", "Example.com/k", "a/b/c", "k-"] {
            check("matchExpressions", requirement(key, "Exists", &[]), false);
        }
        check("matchExpressions", requirement("example.com/k.K_k-k", "Exists", &[]), true);
        check("matchFields", requirement("metadata.name", "In", &["n"]), true);
        check("matchFields", requirement("metadata.name", "NotIn", &["no_label value!"]), true);
        check("matchFields", requirement("metadata.name", "NotIn", &["n"]), true);
        check("matchFields", requirement("metadata.name", "In", &["n", "m"]), false);
        check("matchFields", requirement("metadata.name", "Exists", &[]), false);
        check("matchFields", requirement("metadata.uid", "In", &["n"]), false);
    }

    /// C4, C12: what would be compared with each node for too long is malformed.
    #[test]
    fn a_placement_has_limits() {
        let values: Vec<String> = (0..55_000).map(|value| value.to_string()).collect();
        let term =
            json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": values }] });
        let (terms, problems) = affinity(json!([term, { "matchFields": [] }, term]));
        let parsed = |term: &NodeSelectorTerm| matches!(term, NodeSelectorTerm::Parsed(_));
        assert_eq!(terms.unwrap().iter().map(parsed).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(problems, 1);
        let spec = json!({ "tolerations": vec![json!({ "operator": "Exists" }); 1_001] });
        let (placement, problems) = placement(&spec, "spec");
        assert_eq!((placement.tolerations.len(), problems.len()), (1_000, 1));
    }

    /// C4, C13: a malformed toleration is reported and tolerates nothing.
    #[test]
    fn a_malformed_toleration_is_left_out() {
        let spec = json!({ "tolerations": [
            { "operator": "Exists" },
            { "key": "a", "operator": "Lt", "value": "5", "effect": "NoExecute" },
            { "key": "a", "operator": "Near" },
            { "key": "a", "effect": "Sometimes" },
        ] });
        let (placement, problems) = placement(&spec, "spec");
        assert_eq!(placement.tolerations.len(), 2);
        assert_eq!(placement.tolerations[1].operator, TolerationOperator::Lt);
        let field: Arc<str> = "spec.tolerations[2]".into();
        assert!(matches!(&problems[0], Problem::Toleration { field: f, .. } if *f == field));
        assert_eq!(problems.len(), 2);
    }
}
