//! Required node affinity (C12): terms are ORed, requirements within a term ANDed.

use std::fmt;
use std::sync::Arc;

use crate::object::Node;

/// A `NodeSelectorTerm`, or what is left of one that did not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelectorTerm {
    Parsed(Term),
    /// Matches nothing; the other terms still count. Holds what is wrong.
    Malformed(Arc<str>),
}

/// All of these must hold; with none at all the term matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Of fields there is only `metadata.name`.
    pub match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSelectorRequirement {
    pub key: Arc<str>,
    pub operator: NodeSelectorOperator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelectorOperator {
    In(Vec<Arc<str>>),
    NotIn(Vec<Arc<str>>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
}

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

impl fmt::Display for NodeSelectorTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "malformed: {why}"),
            Self::Parsed(term) => term.fmt(f),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.match_expressions.iter().map(|r| ("", r));
        let fields = self.match_fields.iter().map(|r| ("field ", r));
        let mut separator = "";
        for (kind, requirement) in labels.chain(fields) {
            write!(f, "{separator}{kind}{requirement}")?;
            separator = " and ";
        }
        if separator.is_empty() { f.write_str("empty term") } else { Ok(()) }
    }
}

impl fmt::Display for NodeSelectorRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.operator {
            NodeSelectorOperator::In(values) => write!(f, "{key} In [{}]", values.join(", ")),
            NodeSelectorOperator::NotIn(values) => write!(f, "{key} NotIn [{}]", values.join(", ")),
            NodeSelectorOperator::Exists => write!(f, "{key} Exists"),
            NodeSelectorOperator::DoesNotExist => write!(f, "{key} DoesNotExist"),
            NodeSelectorOperator::Gt(bound) => write!(f, "{key} Gt {bound}"),
            NodeSelectorOperator::Lt(bound) => write!(f, "{key} Lt {bound}"),
        }
    }
}
