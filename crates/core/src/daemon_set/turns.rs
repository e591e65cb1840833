//! Whose turn it is where not all can be served (C29, C55): nodes in the order of their names, but those
//! on which the last write was refused after all others, the one that was tried least recently first.
//!
//! Without this a node whose pod is always refused would be tried first in every sync, and those after it
//! never: the slow start of creations ends at the first refusal, and budgets have room for few.

use std::collections::BTreeMap;

use crate::api::NodeName;
use crate::nodes::NodeId;
use crate::plan::{NewPod, Write};

use super::candidates::NodeSet;

#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The nodes with a refusal, and its number.
    refused: BTreeMap<NodeName, u64>,
    /// The same in the order of their numbers.
    queue: BTreeMap<u64, NodeName>,
    next: u64,
}

impl Turns {
    /// A write on this node was refused: it goes to the end.
    pub fn refuse(&mut self, node: &NodeName) {
        self.forget(node);
        self.refused.insert(node.clone(), self.next);
        self.queue.insert(self.next, node.clone());
        self.next += 1;
    }

    /// A write on this node succeeded, or the node is gone.
    pub fn forget(&mut self, node: &NodeName) {
        if let Some(number) = self.refused.remove(node) {
            self.queue.remove(&number);
        }
    }

    /// These nodes in turn.
    pub fn of<'a>(&'a self, nodes: &'a NodeSet) -> impl Iterator<Item = (&'a NodeName, NodeId)> {
        let others = nodes.iter().filter(|(name, _)| !self.refused.contains_key(*name));
        let refused = self.queue.values().filter_map(|name| nodes.get_key_value(name));
        others.chain(refused).map(|(name, id)| (name, *id))
    }

    /// Puts the creations among these writes in turn; the other writes stay where they are.
    pub fn arrange(&self, writes: &mut [Write]) {
        if self.refused.is_empty() {
            return;
        }
        let creation = |write: &Write| match write {
            Write::CreatePod(pod) => Some(pod.clone()),
            _ => None,
        };
        let mut creations: Vec<NewPod> = writes.iter().filter_map(creation).collect();
        creations.sort_by_key(|pod| self.refused.get(&pod.node));
        let places = writes.iter_mut().filter(|write| matches!(write, Write::CreatePod(_)));
        for (place, pod) in places.zip(creations) {
            *place = Write::CreatePod(pod);
        }
    }
}
