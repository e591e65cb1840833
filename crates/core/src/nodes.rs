//! The nodes of the cluster, shared by all DaemonSets: a name has a small number, and slots are
//! vectors over these numbers.
//!
//! A number outlives its node while some DaemonSet still has a pod there. It is given to another name
//! only after that, and after every DaemonSet has been told that the node is gone.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::api::{Node, NodeName};

/// The number of a node's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 nodes"))
    }
}

/// All nodes.
#[derive(Debug, Default)]
pub struct Nodes {
    ids: BTreeMap<NodeName, NodeId>,
    entries: Vec<Entry>,
    free: Vec<NodeId>,
}

#[derive(Debug)]
struct Entry {
    name: NodeName,
    node: Option<Node>,
    /// How many DaemonSets have pods there.
    holds: u32,
}

impl Nodes {
    /// Takes a node as it is now. Returns its number if anything changed that decisions read: then
    /// every DaemonSet's [`apply_node`](crate::daemon_set::DaemonSetState::apply_node) is due (C16).
    pub fn apply(&mut self, node: Node) -> Option<NodeId> {
        let id = self.intern(&node.name);
        let entry = &mut self.entries[id.index()];
        if entry.node.as_ref() == Some(&node) {
            return None;
        }
        entry.node = Some(node);
        Some(id)
    }

    /// Forgets a node. Returns its number if there was one; `apply_node` is due as above, and
    /// [`collect`](Self::collect) after that.
    pub fn delete(&mut self, name: &NodeName) -> Option<NodeId> {
        let id = *self.ids.get(name)?;
        self.entries[id.index()].node.take().map(|_| id)
    }

    /// Takes the complete list of nodes. Returns the numbers of those that changed or went.
    pub fn reset(&mut self, nodes: impl IntoIterator<Item = Node>) -> BTreeSet<NodeId> {
        let mut gone: BTreeMap<NodeName, NodeId> =
            self.iter().map(|(id, node)| (node.name.clone(), id)).collect();
        let mut changed = BTreeSet::new();
        for node in nodes {
            gone.remove(&node.name);
            changed.extend(self.apply(node));
        }
        changed.extend(gone.keys().filter_map(|name| self.delete(name)));
        changed
    }

    /// Frees the number of a deleted node, if no DaemonSet has pods there. To be called once all
    /// DaemonSets know that it is deleted; numbers still held free themselves later.
    pub fn collect(&mut self, id: NodeId) {
        let entry = &self.entries[id.index()];
        if entry.node.is_none() && entry.holds == 0 && self.ids.get(&entry.name) == Some(&id) {
            self.ids.remove(&entry.name);
            self.free.push(id);
        }
    }

    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.entries.get(id.index())?.node.as_ref()
    }

    pub fn name(&self, id: NodeId) -> &NodeName {
        &self.entries[id.index()].name
    }

    pub fn id(&self, name: &NodeName) -> Option<NodeId> {
        self.ids.get(name).copied()
    }

    /// The nodes that exist, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.ids().zip(&self.entries).filter_map(|(id, entry)| Some((id, entry.node.as_ref()?)))
    }

    /// The number of nodes that exist.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// One more than the highest number in use.
    pub(crate) fn bound(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.entries.len()).map(NodeId::from_index)
    }

    /// The number of a name, be there such a node or not.
    pub(crate) fn intern(&mut self, name: &NodeName) -> NodeId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let entry = Entry { name: name.clone(), node: None, holds: 0 };
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id.index()] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                NodeId::from_index(self.entries.len() - 1)
            }
        };
        self.ids.insert(name.clone(), id);
        id
    }

    /// A DaemonSet has pods on this node.
    pub(crate) fn hold(&mut self, id: NodeId) {
        self.entries[id.index()].holds += 1;
    }

    /// A DaemonSet has no pods on this node any more.
    pub(crate) fn release(&mut self, id: NodeId) {
        let holds = &mut self.entries[id.index()].holds;
        *holds = holds.checked_sub(1).expect("a DaemonSet releases what it holds");
        self.collect(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Labels;

    fn node(name: &str, zone: &str) -> Node {
        let labels = Labels::from_iter([("zone", zone)]);
        Node { name: name.into(), labels, taints: Vec::new() }
    }

    /// C16: a heartbeat changes nothing, a label does, and a list tells of what went.
    #[test]
    fn only_what_decisions_read_is_a_change() {
        let mut nodes = Nodes::default();
        let a = nodes.apply(node("a", "1")).expect("new");
        assert_eq!(nodes.apply(node("a", "1")), None);
        assert_eq!(nodes.apply(node("a", "2")), Some(a));
        let b = nodes.apply(node("b", "1")).expect("new");
        let changed = nodes.reset([node("b", "1"), node("c", "1")]);
        let c = nodes.id(&"c".into()).expect("known");
        assert_eq!(changed, BTreeSet::from([a, c]));
        assert_eq!((nodes.len(), nodes.node(a), nodes.name(b).as_str()), (2, None, "b"));
        assert_eq!(nodes.delete(&"a".into()), None);
    }

    /// C16: a number goes to another name once the node is gone and nobody has pods there.
    #[test]
    fn a_number_is_given_away_only_when_nobody_needs_it() {
        let mut nodes = Nodes::default();
        let a = nodes.apply(node("a", "1")).expect("new");
        nodes.hold(a);
        nodes.delete(&"a".into());
        nodes.collect(a);
        assert_ne!(nodes.intern(&"b".into()), a, "pods are still there");
        nodes.release(a);
        assert_eq!(nodes.id(&"a".into()), None);
        assert_eq!(nodes.intern(&"c".into()), a);
        nodes.collect(a);
        nodes.collect(a);
        assert_eq!(nodes.intern(&"d".into()), a, "collected once");
        assert_ne!(nodes.intern(&"e".into()), a);
    }
}
