//! Required node affinity (C12): one term must match, and all requirements of a term must hold.

use crate::api::{Node, NodeSelectorOperator, NodeSelectorTerm, Term};

pub(super) fn matches(terms: &[NodeSelectorTerm], node: &Node) -> bool {
    terms.iter().any(|term| match term {
        NodeSelectorTerm::Parsed(term) => term.matches(node),
        NodeSelectorTerm::Malformed(_) => false,
    })
}

impl Term {
    fn matches(&self, node: &Node) -> bool {
        let is_empty = self.match_expressions.is_empty() && self.match_fields.is_empty();
        let label = |key: &str| node.labels.get(key).map(|value| &**value);
        let field = |key: &str| (key == "metadata.name").then(|| node.name.as_str());
        !is_empty
            && self.match_expressions.iter().all(|r| r.operator.matches(label(&r.key)))
            && self.match_fields.iter().all(|r| r.operator.matches(field(&r.key)))
    }
}

impl NodeSelectorOperator {
    /// True if a label or a field with this value meets the condition; `None` if it does not exist.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| values.iter().any(|v| **v == *value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| **v != *value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Gt(bound) => number().is_some_and(|number| number > *bound),
            Self::Lt(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}
