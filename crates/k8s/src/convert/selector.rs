//! Label selectors (`metav1.LabelSelector`).

use everynode_core::api::{LabelOperator, LabelRequirement, LabelSelector};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

use super::label::{checked_key, checked_value};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSelector {
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<WireRequirement>>,
}

#[derive(Deserialize)]
struct WireRequirement {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

/// Decodes a label selector.
///
/// # Errors
/// Why it is malformed, for a [`Problem`](everynode_core::api::Problem).
pub fn label_selector(selector: Option<&Value>) -> Result<LabelSelector, String> {
    let selector = selector.filter(|selector| !selector.is_null()).ok_or("it is missing")?;
    let wire = WireSelector::deserialize(selector).map_err(|e| e.to_string())?;
    let labels = wire.match_labels.unwrap_or_default().into_iter().map(|(key, value)| {
        let operator = LabelOperator::In(vec![checked_value(&value)?]);
        Ok(LabelRequirement { key: checked_key(&key)?, operator })
    });
    let expressions = wire.match_expressions.unwrap_or_default();
    let expressions = expressions.iter().map(WireRequirement::convert);
    let requirements = labels.chain(expressions).collect::<Result<_, String>>()?;
    Ok(LabelSelector { requirements })
}

/// Maximum number of requirements and values of a DaemonSet's selector: each pod of its namespace
/// without a controller is compared with them.
const ITEMS_MAX: usize = 1_000;

/// Decodes the selector of a DaemonSet.
///
/// # Errors
/// As [`label_selector`], also for one that is very large.
pub(super) fn daemon_set_selector(selector: Option<&Value>) -> Result<LabelSelector, String> {
    let selector = label_selector(selector)?;
    let items = selector.requirements.iter().map(|requirement| match &requirement.operator {
        LabelOperator::In(values) | LabelOperator::NotIn(values) => 1 + values.len(),
        LabelOperator::Exists | LabelOperator::DoesNotExist => 1,
    });
    match items.sum::<usize>() > ITEMS_MAX {
        true => Err(format!("it has more than {ITEMS_MAX} requirements and values")),
        false => Ok(selector),
    }
}

/// The selector as the value of the query parameter `labelSelector`.
pub fn label_selector_text(selector: &LabelSelector) -> String {
    let requirements = selector.requirements.iter().map(|requirement| {
        let key = &requirement.key;
        match &requirement.operator {
            LabelOperator::In(values) => format!("{key} in ({})", values.join(",")),
            LabelOperator::NotIn(values) => format!("{key} notin ({})", values.join(",")),
            LabelOperator::Exists => key.to_string(),
            LabelOperator::DoesNotExist => format!("!{key}"),
        }
    });
    requirements.collect::<Vec<_>>().join(",")
}

impl WireRequirement {
    fn convert(&self) -> Result<LabelRequirement, String> {
        let values = self.values.as_deref().unwrap_or_default();
        let some = || match values {
            [] => Err(format!("{} needs values", self.operator)),
            values => values.iter().map(|value| checked_value(value)).collect(),
        };
        let none = |operator| match values {
            [] => Ok(operator),
            _ => Err(format!("{} takes no values", self.operator)),
        };
        let operator = match self.operator.as_str() {
            "In" => LabelOperator::In(some()?),
            "NotIn" => LabelOperator::NotIn(some()?),
            "Exists" => none(LabelOperator::Exists)?,
            "DoesNotExist" => none(LabelOperator::DoesNotExist)?,
            other => return Err(format!("\"{other}\" is not a valid label selector operator")),
        };
        Ok(LabelRequirement { key: checked_key(&self.key)?, operator })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(selector: Value) -> Result<String, String> {
        label_selector(Some(&selector)).map(|selector| label_selector_text(&selector))
    }

    /// C21, C33: labels and expressions form one list; an empty selector matches everything.
    #[test]
    fn a_selector_is_a_list_of_requirements() {
        let selector = json!({ "matchLabels": { "a": "b" }, "matchExpressions": [
            { "key": "x/y", "operator": "NotIn", "values": ["1", "2"] },
            { "key": "p", "operator": "Exists" },
            { "key": "q", "operator": "DoesNotExist", "values": [] },
        ] });
        assert_eq!(text(selector).unwrap(), "a in (b),x/y notin (1,2),p,!q");
        assert!(label_selector(Some(&json!({}))).unwrap().is_empty());
    }

    /// C4, C33: a malformed selector, or one that requires an invalid label, is an error.
    #[test]
    fn a_malformed_selector_is_an_error() {
        let expression = |operator: &str, values: &[&str]| {
            let requirement = json!({ "key": "k", "operator": operator, "values": values });
            text(json!({ "matchExpressions": [requirement] }))
        };
        assert!(expression("Matches", &["a"]).unwrap_err().contains("\"Matches\""));
        assert!(expression("In", &[]).is_err());
        assert!(expression("Exists", &["a"]).is_err());
        assert!(text(json!({ "matchLabels": { "b@d": "x" } })).is_err());
        assert!(text(json!({ "matchLabels": { "a": "not a value" } })).is_err());
        assert!(text(json!({ "matchLabels": { "a": "" } })).is_ok());
        assert!(expression("NotIn", &["ok", "-no"]).unwrap_err().contains("\"-no\""));
        assert!(expression("In", &[&"x".repeat(64)]).is_err());
        assert!(text(json!({ "matchLabels": [1] })).is_err());
        assert!(label_selector(None).is_err());
        assert!(label_selector(Some(&Value::Null)).is_err());
    }

    /// C4, C33: a very large selector of a DaemonSet counts as malformed.
    #[test]
    fn a_very_large_selector_is_an_error() {
        let selector = |count: usize| {
            let values: Vec<_> = (0..count).map(|number| number.to_string()).collect();
            let requirement = json!({ "key": "k", "operator": "NotIn", "values": values });
            daemon_set_selector(Some(&json!({ "matchExpressions": [requirement] })))
        };
        assert!(selector(999).is_ok());
        assert!(selector(1_000).unwrap_err().contains("more than 1000"));
    }
}
