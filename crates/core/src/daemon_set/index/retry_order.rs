//! The order in which nodes get their writes, if limits or budgets do not allow all of them (C29,
//! C55): by name, but nodes whose last write failed come last, least recent failure first.
//!
//! Otherwise a node whose pod is always refused would come first in every sync, and the nodes after
//! it would never get a pod: slow start ends at the first failure, and budgets are small.

use std::collections::BTreeMap;

use crate::api::NodeName;
use crate::node_table::NodeId;
use crate::plan::{NewPod, Write};

use super::work_sets::NodeSet;

/// The nodes whose last write failed, least recent failure first.
#[derive(Debug, Default)]
pub(in crate::daemon_set) struct RetryOrder {
    /// The number of each node's last failure.
    failed: BTreeMap<NodeName, u64>,
    /// The same, ordered by number.
    queue: BTreeMap<u64, NodeName>,
    next: u64,
}

impl RetryOrder {
    /// Moves a node to the end, because a write on it failed.
    pub(crate) fn record_failure(&mut self, node: &NodeName) {
        self.clear(node);
        self.failed.insert(node.clone(), self.next);
        self.queue.insert(self.next, node.clone());
        self.next += 1;
    }

    /// Returns a node to its position by name: a write on it succeeded, or it was deleted.
    pub(crate) fn clear(&mut self, node: &NodeName) {
        if let Some(number) = self.failed.remove(node) {
            self.queue.remove(&number);
        }
    }

    /// The nodes of a set in the order in which they are tried.
    pub(crate) fn sorted<'a>(
        &'a self,
        nodes: &'a NodeSet,
    ) -> impl Iterator<Item = (&'a NodeName, NodeId)> {
        let others = nodes.iter().filter(|(name, _)| !self.failed.contains_key(*name));
        let failed = self.queue.values().filter_map(|name| nodes.get_key_value(name));
        others.chain(failed).map(|(name, id)| (name, *id))
    }

    /// Sorts the creations among the writes in this order; other writes keep their positions.
    pub(crate) fn sort_creations(&self, writes: &mut [Write]) {
        if self.failed.is_empty() {
            return;
        }
        let creation = |write: &Write| match write {
            Write::CreatePod(pod) => Some(pod.clone()),
            _ => None,
        };
        let mut creations: Vec<NewPod> = writes.iter().filter_map(creation).collect();
        creations.sort_by_key(|pod| self.failed.get(&pod.node));
        let positions = writes.iter_mut().filter(|write| matches!(write, Write::CreatePod(_)));
        for (position, pod) in positions.zip(creations) {
            *position = Write::CreatePod(pod);
        }
    }
}
