//! The pods of any owner on a node, which hold its resources and ports.

use everynode_core::api::{NodeName, Uid};
use everynode_k8s::convert::Interner;
use everynode_k8s::fit::Usage;

use super::deletion::Deletion;
use super::pod::usage_on_node;

/// A pod of any owner that holds resources of its node.
#[derive(Clone, Debug)]
pub struct NodePod {
    /// `metadata.uid`.
    pub uid: Uid,
    /// The node.
    pub node: NodeName,
    /// The resources and host ports that it holds.
    pub usage: Usage,
    /// Its deletion, if somebody has deleted it.
    pub deletion: Option<Deletion>,
}

impl NodePod {
    /// The pod in `json`; `None` if it has no node, or has ended.
    pub(super) fn of(uid: Uid, json: &[u8], interner: &mut Interner) -> Option<Self> {
        let (node, usage) = usage_on_node(json, interner)?;
        Some(Self { uid, node, usage, deletion: Deletion::of(json) })
    }
}
