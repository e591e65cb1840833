//! What a pod asks of its node: node selector, required node affinity, tolerations.

use std::fmt;
use std::sync::Arc;

use super::labels::Labels;
use super::names::NodeName;
use super::node::TaintEffect;

/// What a pod, or a template of pods, asks of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// `spec.nodeName`.
    pub node_name: Option<NodeName>,
    pub node_selector: Labels,
    /// `requiredDuringSchedulingIgnoredDuringExecution`: any of the terms; an empty list matches no node.
    pub required_node_affinity: Option<Vec<NodeSelectorTerm>>,
    pub tolerations: Vec<Toleration>,
    pub host_network: bool,
}

impl Placement {
    /// Adds the tolerations that every pod of a DaemonSet gets and that are not there (C14).
    #[must_use]
    pub fn with_default_tolerations(mut self) -> Self {
        for toleration in default_tolerations(self.host_network) {
            if !self.tolerations.iter().any(|t| *t == toleration) {
                self.tolerations.push(toleration);
            }
        }
        self
    }
}

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

/// A toleration; times (`tolerationSeconds`) are the node lifecycle's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// Empty: any key.
    pub key: Arc<str>,
    pub operator: TolerationOperator,
    pub value: Arc<str>,
    /// `None`: any effect.
    pub effect: Option<TaintEffect>,
}

/// `Lt` and `Gt` compare the taint's value with the toleration's, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TolerationOperator {
    #[default]
    Equal,
    Exists,
    Lt,
    Gt,
}

/// The tolerations that every pod of a DaemonSet gets (C14).
pub fn default_tolerations(host_network: bool) -> impl Iterator<Item = Toleration> {
    use TaintEffect::{NoExecute, NoSchedule};
    let always = [
        ("node.kubernetes.io/not-ready", NoExecute),
        ("node.kubernetes.io/unreachable", NoExecute),
        ("node.kubernetes.io/disk-pressure", NoSchedule),
        ("node.kubernetes.io/memory-pressure", NoSchedule),
        ("node.kubernetes.io/pid-pressure", NoSchedule),
        ("node.kubernetes.io/unschedulable", NoSchedule),
    ];
    let network = host_network.then_some(("node.kubernetes.io/network-unavailable", NoSchedule));
    always.into_iter().chain(network).map(|(key, effect)| Toleration {
        key: key.into(),
        operator: TolerationOperator::Exists,
        value: "".into(),
        effect: Some(effect),
    })
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
