//! On which nodes a DaemonSet's pods run (C10–C15).
//!
//! One list of [reasons](Reason) answers both questions: a node gets a pod if there is no reason
//! against it, and must not keep one if any of the reasons [evicts](Reason::evicts). Existing pods
//! make no difference.

mod affinity;
mod taints;

use std::fmt;
use std::sync::Arc;

use crate::api::{Labels, Node, NodeName, NodeSelectorTerm, Placement, Taint};

/// The answer if a pod is created on a node, and if one may stay there (C10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eligibility {
    /// The node does not exist.
    #[default]
    NoNode,
    /// No pod is created, and none may stay.
    MustNotRun,
    /// No pod is created, but an existing one stays.
    ContinueRunning,
    /// A pod is created if there is none, and an existing one stays.
    Run,
}

impl Eligibility {
    /// True if a pod is created if there is none.
    pub const fn should_run(self) -> bool {
        match self {
            Self::NoNode | Self::MustNotRun | Self::ContinueRunning => false,
            Self::Run => true,
        }
    }

    /// True if an existing pod stays.
    pub const fn should_continue_running(self) -> bool {
        match self {
            Self::NoNode | Self::MustNotRun => false,
            Self::ContinueRunning | Self::Run => true,
        }
    }
}

/// A reason why a node gets no pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason<'a> {
    /// `spec.nodeName` of the template names another node (C11).
    NodeName {
        /// The name in the template.
        wanted: &'a NodeName,
    },
    /// `spec.nodeSelector` requires another value of a label (C12).
    NodeSelector {
        /// The key of the label.
        key: &'a str,
        /// The value that the selector requires.
        wanted: &'a str,
        /// The value that the node has.
        found: Option<&'a str>,
    },
    /// The namespace's node selector requires another value of a label: admission would add it to
    /// the pod, which could then not run on the node (C15).
    NamespaceNodeSelector {
        /// The key of the label.
        key: &'a str,
        /// The value that the selector requires.
        wanted: &'a str,
        /// The value that the node has.
        found: Option<&'a str>,
    },
    /// No term of the required node affinity matches (C12).
    NodeAffinity {
        /// The terms.
        terms: &'a [NodeSelectorTerm],
    },
    /// The node has a taint that the pod does not tolerate (C13).
    Taint(&'a Taint),
}

impl Reason<'_> {
    /// True if the reason removes an existing pod, too (C13, C15).
    pub fn evicts(&self) -> bool {
        match self {
            Self::NodeName { .. } | Self::NodeSelector { .. } | Self::NodeAffinity { .. } => true,
            // Admission checks creations only: a running pod stays when the annotation changes.
            Self::NamespaceNodeSelector { .. } => false,
            Self::Taint(taint) => taints::evicts(taint),
        }
    }
}

/// All reasons against a pod on this node, evaluated lazily.
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

/// The answer if a pod is created on the node, and if one may stay there. Upstream:
/// `NodeShouldRunDaemonPod` (C10).
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

/// True if a pod is created on the node if there is none, regardless of the namespace.
pub fn should_run(placement: &Placement, node: &Node) -> bool {
    eligibility(placement, &Labels::default(), node).should_run()
}

/// True if an existing pod stays on the node, regardless of the namespace.
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
