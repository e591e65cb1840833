//! Which nodes a template allows (C10–C15), by the reference of the rules.

use everynode_core::api;
use everynode_k8s::convert;
use everynode_reference::answer;
use everynode_sandbox::json::Value;

use super::namespace::Namespace;
use super::node::Node;

/// The eligibility of a node for a pod (C10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checker) enum Eligibility {
    /// The node does not exist.
    NoNode,
    /// It gets no pod, and one that is there must go.
    MustNotRun,
    /// It gets no pod, and one that is there stays.
    MayKeep,
    /// It gets a pod.
    ShouldRun,
}

impl Eligibility {
    /// True if a pod that is there stays.
    pub(in crate::checker) fn keeps(self) -> bool {
        self >= Self::MayKeep
    }
}

/// The parts of a template that restrict its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Placement(api::Placement);

impl Placement {
    pub(super) fn parse(template: &Value) -> Self {
        Self(convert::placement(&template["spec"], "spec").0)
    }

    /// The eligibility of this node for a pod of a namespace.
    pub(in crate::checker) fn eligibility(
        &self,
        node: &Node,
        namespace: Option<&Namespace>,
    ) -> Eligibility {
        let selector = namespace.map(|namespace| namespace.node_selector.clone());
        let answer = answer(&self.0, &selector.unwrap_or_default(), &node.read);
        match (answer.create, answer.keep) {
            (true, _) => Eligibility::ShouldRun,
            (false, true) => Eligibility::MayKeep,
            (false, false) => Eligibility::MustNotRun,
        }
    }
}
