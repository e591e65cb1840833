//! On which nodes a DaemonSet's pods run (C10–C15), as a list of reasons against it.
//!
//! A node gets a pod if nothing speaks against it, and keeps one unless a reason that
//! [evicts](Reason::evicts) does. Nothing here looks at the pods that there are.

mod affinity;
mod taints;

use std::fmt;
use std::sync::Arc;

use crate::api::{Labels, Node, NodeName, NodeSelectorTerm, Placement, Taint};

/// Both answers of C10 in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eligibility {
    /// There is no such node.
    #[default]
    NoNode,
    /// No pod is created, and none may stay.
    MustNotRun,
    /// No pod is created, but one that is there stays.
    ContinueRunning,
    /// A pod is created if there is none.
    Run,
}

impl Eligibility {
    pub const fn should_run(self) -> bool {
        match self {
            Self::NoNode | Self::MustNotRun | Self::ContinueRunning => false,
            Self::Run => true,
        }
    }

    pub const fn should_continue_running(self) -> bool {
        match self {
            Self::NoNode | Self::MustNotRun => false,
            Self::ContinueRunning | Self::Run => true,
        }
    }
}

/// Why a node gets no pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason<'a> {
    /// C11: `spec.nodeName` names another node.
    NodeName { wanted: &'a NodeName },
    /// C12: `spec.nodeSelector` wants another value of this label.
    NodeSelector { key: &'a str, wanted: &'a str, found: Option<&'a str> },
    /// C15: the namespace's node selector does; admission would pin the pod elsewhere.
    NamespaceNodeSelector { key: &'a str, wanted: &'a str, found: Option<&'a str> },
    /// C12: none of the terms of the required node affinity matches.
    NodeAffinity { terms: &'a [NodeSelectorTerm] },
    /// C13: a taint with no toleration.
    Taint(&'a Taint),
}

impl Reason<'_> {
    /// Whether a pod that is there has to go, too (C13, C15).
    pub fn evicts(&self) -> bool {
        match self {
            Self::NodeName { .. } | Self::NodeSelector { .. } | Self::NodeAffinity { .. } => true,
            // Admission acts on creations alone: what it lets run stays when the annotation changes (C15).
            Self::NamespaceNodeSelector { .. } => false,
            Self::Taint(taint) => taints::evicts(taint),
        }
    }
}

/// Everything that speaks against a pod on this node, found lazily.
pub fn reasons_against<'a>(
    placement: &'a Placement,
    namespace_node_selector: &'a Labels,
    node: &'a Node,
) -> impl Iterator<Item = Reason<'a>> {
    let node_name = placement.node_name.iter().filter(|&wanted| *wanted != node.name);
    let affinity =
        placement.required_node_affinity.iter().filter(|terms| !affinity::matches(terms, node));
    node_name
        .map(|wanted| Reason::NodeName { wanted })
        .chain(
            mismatches(&placement.node_selector, node)
                .map(|(key, wanted, found)| Reason::NodeSelector { key, wanted, found }),
        )
        .chain(
            mismatches(namespace_node_selector, node)
                .map(|(key, wanted, found)| Reason::NamespaceNodeSelector { key, wanted, found }),
        )
        .chain(affinity.map(|terms| Reason::NodeAffinity { terms }))
        .chain(taints::untolerated(&node.taints, &placement.tolerations).map(Reason::Taint))
}

/// The answers to both questions of C10.
pub fn eligibility(
    placement: &Placement,
    namespace_node_selector: &Labels,
    node: &Node,
) -> Eligibility {
    let mut reasons = reasons_against(placement, namespace_node_selector, node).peekable();
    if reasons.peek().is_none() {
        Eligibility::Run
    } else if reasons.any(|reason| reason.evicts()) {
        Eligibility::MustNotRun
    } else {
        Eligibility::ContinueRunning
    }
}

/// Whether a pod is to be created on the node if there is none.
pub fn should_run(placement: &Placement, node: &Node) -> bool {
    eligibility(placement, &Labels::default(), node).should_run()
}

/// Whether a pod that is on the node is to stay.
pub fn should_continue_running(placement: &Placement, node: &Node) -> bool {
    eligibility(placement, &Labels::default(), node).should_continue_running()
}

fn mismatches<'a>(
    selector: &'a Labels,
    node: &'a Node,
) -> impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)> {
    let found = |key: &str| node.labels.get(key).map(|value: &'a Arc<str>| &**value);
    selector
        .iter()
        .map(move |(key, wanted)| (&**key, &**wanted, found(key)))
        .filter(|(_, wanted, found)| *found != Some(*wanted))
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeName { wanted } => write!(f, "spec.nodeName is {wanted}"),
            Self::NodeSelector { key, wanted, found } => {
                write!(f, "nodeSelector wants label {key}={wanted}, ")?;
                describe_found(f, *found)
            }
            Self::NamespaceNodeSelector { key, wanted, found } => {
                write!(f, "the namespace's node selector wants label {key}={wanted}, ")?;
                describe_found(f, *found)
            }
            Self::NodeAffinity { terms: [] } => {
                f.write_str("the required node affinity has no terms")
            }
            Self::NodeAffinity { terms } => {
                f.write_str("no term of the required node affinity matches: ")?;
                for (i, term) in terms.iter().enumerate() {
                    let separator = if i == 0 { "" } else { " or " };
                    write!(f, "{separator}({term})")?;
                }
                Ok(())
            }
            Self::Taint(taint) => write!(f, "taint {taint} is not tolerated"),
        }
    }
}

fn describe_found(f: &mut fmt::Formatter<'_>, found: Option<&str>) -> fmt::Result {
    match found {
        Some(value) => write!(f, "the node has {value}"),
        None => f.write_str("the node has none"),
    }
}
