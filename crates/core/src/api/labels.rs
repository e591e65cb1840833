//! Labels and label selectors.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::schema::{self, rule};

/// The label with the [hash](super::RevisionHash) of the revision that a pod or a revision has.
pub const HASH_LABEL: &str = "controller-revision-hash";
/// The label with the template generation that a pod was created from (C45).
pub const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";
/// The label and the annotation of a pod with the [tag](super::NodeOverride::tag) of its override.
pub const OVERRIDE_LABEL: &str = "everynode.dev/override";

/// Label and annotation of pods that have copies of ConfigMaps in place of those that the template
/// names: identifies the copies (G58).
pub const CONFIG_LABEL: &str = "everynode.dev/config";
/// The annotation with a DaemonSet's template generation (C30).
pub const TEMPLATE_GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
/// The annotation with a namespace's node selector (C15).
pub const NAMESPACE_NODE_SELECTOR_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// Labels in the order of their keys. Clones share memory; most pods of a DaemonSet have the same
/// labels.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Arc<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let at = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The labels but for one.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        let others = self.iter().filter(|(known, _)| ***known != *key);
        others.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// True if there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// If two labels have the same key, the later one counts.
impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let mut labels: Vec<(Arc<str>, Arc<str>)> =
            labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        labels.reverse();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.dedup_by(|later, first| later.0 == first.0);
        Self(labels.into())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A `metav1.LabelSelector` with `matchLabels` and `matchExpressions` as one list of requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Written")]
pub struct LabelSelector {
    /// The conditions, all of which must hold.
    pub requirements: Vec<LabelRequirement>,
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The key of the label.
    pub key: Arc<str>,
    /// The condition on its value.
    pub operator: LabelOperator,
}

/// The operators of label selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// The label has one of these values.
    In(Vec<Arc<str>>),
    /// The label has none of these values, or does not exist.
    NotIn(Vec<Arc<str>>),
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
}

/// A label selector as a policy has it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "label selector")]
struct Written {
    #[serde(default)]
    #[schemars(schema_with = "schema::labels")]
    match_labels: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    match_expressions: Vec<Expression>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    "message": rule::VALUES,
}]))]
struct Expression {
    #[schemars(schema_with = "schema::label_key")]
    key: Arc<str>,
    operator: Operator,
    #[serde(default)]
    #[schemars(schema_with = "schema::label_values")]
    values: Vec<Arc<str>>,
}

#[derive(Deserialize, JsonSchema)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

schema::schema_of!(LabelSelector, Written::json_schema);

impl From<Written> for LabelSelector {
    fn from(written: Written) -> Self {
        let labels = written
            .match_labels
            .into_iter()
            .map(|(key, value)| LabelRequirement { key, operator: LabelOperator::In(vec![value]) });
        let expressions = written.match_expressions.into_iter().map(|expression| {
            let operator = match expression.operator {
                Operator::In => LabelOperator::In(expression.values),
                Operator::NotIn => LabelOperator::NotIn(expression.values),
                Operator::Exists => LabelOperator::Exists,
                Operator::DoesNotExist => LabelOperator::DoesNotExist,
            };
            LabelRequirement { key: expression.key, operator }
        });
        Self { requirements: labels.chain(expressions).collect() }
    }
}

impl LabelSelector {
    /// True if the labels meet all requirements.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// True if the selector matches everything (C33).
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl LabelRequirement {
    /// True if the labels meet this requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            LabelOperator::In(values) => value.is_some_and(|value| values.contains(value)),
            LabelOperator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &[&str]) -> Vec<Arc<str>> {
        values.iter().map(|&value| value.into()).collect()
    }

    #[test]
    fn requirements_match_as_the_api_documents() {
        let labels = Labels::from_iter([("app", "fluentd"), ("tier", "a")]);
        let check = |key: &str, operator: LabelOperator, expected: bool| {
            let requirement = LabelRequirement { key: key.into(), operator };
            assert_eq!(requirement.matches(&labels), expected, "{requirement:?}");
        };
        check("app", LabelOperator::In(values(&["x", "fluentd"])), true);
        check("app", LabelOperator::In(values(&["x"])), false);
        check("missing", LabelOperator::In(values(&["x"])), false);
        check("app", LabelOperator::NotIn(values(&["x"])), true);
        check("app", LabelOperator::NotIn(values(&["fluentd"])), false);
        check("missing", LabelOperator::NotIn(values(&["x"])), true);
        check("tier", LabelOperator::Exists, true);
        check("missing", LabelOperator::Exists, false);
        check("tier", LabelOperator::DoesNotExist, false);
        check("missing", LabelOperator::DoesNotExist, true);
    }

    #[test]
    fn the_later_of_two_labels_with_the_same_key_counts() {
        let labels = Labels::from_iter([("a", "1"), ("b", "2"), ("a", "3")]);
        assert_eq!(labels, Labels::from_iter([("a", "3"), ("b", "2")]));
    }
}
