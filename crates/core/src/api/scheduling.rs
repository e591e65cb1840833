//! Constraints on the node of a pod: node name, node selector, required node affinity, tolerations.

use std::fmt;
use std::sync::Arc;

use super::labels::Labels;
use super::names::NodeName;
use super::node::TaintEffect;

/// The constraints of a pod, or of a pod template, on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// `spec.nodeName`.
    pub node_name: Option<NodeName>,
    /// `spec.nodeSelector`: labels that the node must have.
    pub node_selector: Labels,
    /// `requiredDuringSchedulingIgnoredDuringExecution` of the node affinity: at least one term
    /// must match. An empty list matches no node.
    pub required_node_affinity: Option<Vec<NodeSelectorTerm>>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// `spec.hostNetwork`.
    pub host_network: bool,
}

impl Placement {
    /// Adds those [default tolerations](default_tolerations) that are missing (C14).
    #[must_use]
    pub fn with_default_tolerations(mut self) -> Self {
        for toleration in default_tolerations(self.host_network) {
            if !self.tolerations.contains(&toleration) {
                self.tolerations.push(toleration);
            }
        }
        self
    }
}

/// A `NodeSelectorTerm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelectorTerm {
    /// A valid term.
    Parsed(Term),
    /// A malformed term, with the reason. It matches no node; the other terms still count (C12).
    Malformed(Arc<str>),
}

/// The requirements of one term, all of which must hold. A term without any matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// Requirements on labels of the node.
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Requirements on fields of the node; `metadata.name` is the only field.
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// A condition on one label or field of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSelectorRequirement {
    /// The key of the label, or the path of the field.
    pub key: Arc<str>,
    /// The condition on its value.
    pub operator: NodeSelectorOperator,
}

/// The operators of node affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelectorOperator {
    /// The value is one of these.
    In(Vec<Arc<str>>),
    /// The value is none of these, or there is none.
    NotIn(Vec<Arc<str>>),
    /// There is a value.
    Exists,
    /// There is no value.
    DoesNotExist,
    /// The value is an integer greater than this.
    Gt(i64),
    /// The value is an integer less than this.
    Lt(i64),
}

/// A toleration of taints, without `tolerationSeconds`, which only the node lifecycle controller
/// reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// `key`; an empty one tolerates taints of any key.
    pub key: Arc<str>,
    /// `operator`.
    pub operator: TolerationOperator,
    /// `value`.
    pub value: Arc<str>,
    /// `effect`; `None` tolerates taints of any effect.
    pub effect: Option<TaintEffect>,
}

/// How a toleration compares its value with that of a taint (C13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TolerationOperator {
    /// The values are equal.
    #[default]
    Equal,
    /// Any value matches.
    Exists,
    /// The taint's value is an integer less than the toleration's.
    Lt,
    /// The taint's value is an integer greater than the toleration's.
    Gt,
}

/// The tolerations that every pod of a DaemonSet gets, one more with `hostNetwork`. Upstream:
/// `AddOrUpdateDaemonPodTolerations` (C14).
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

impl fmt::Display for TolerationOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "Equal",
            Self::Exists => "Exists",
            Self::Lt => "Lt",
            Self::Gt => "Gt",
        })
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
