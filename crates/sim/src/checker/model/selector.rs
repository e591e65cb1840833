//! Label selectors.

use std::collections::BTreeMap;

use everynode_sandbox::json::Value;

use super::metadata::{text, texts};

/// A label selector. All its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Selector {
    labels: BTreeMap<String, String>,
    expressions: Vec<(String, String, Vec<String>)>,
}

impl Selector {
    pub(super) fn parse(selector: &Value) -> Self {
        let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
        let expressions = expressions.map(|expression| {
            let values = expression["values"].as_array().into_iter().flatten();
            (text(&expression["key"]), text(&expression["operator"]), values.map(text).collect())
        });
        Self { labels: texts(&selector["matchLabels"]), expressions: expressions.collect() }
    }

    /// Whether the selector matches everything: then nothing is done (C33).
    pub(in crate::checker) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.expressions.is_empty()
    }

    /// Whether the selector matches these labels.
    pub(in crate::checker) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(|(key, operator, values)| {
                let value = labels.get(key);
                match operator.as_str() {
                    "In" => value.is_some_and(|value| values.contains(value)),
                    "NotIn" => value.is_none_or(|value| !values.contains(value)),
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    _ => false,
                }
            })
    }
}
