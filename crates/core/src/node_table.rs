//! The nodes of the cluster, shared by all DaemonSets. Each node name has a small number, which
//! indexes the slots of every DaemonSet.
//!
//! A number stays with its name until the node is deleted, every DaemonSet has been informed, and
//! none of them has a pod there. Only then another name may get it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::api::{Node, NodeName};

/// The number of a node name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 nodes"))
    }
}

/// All nodes, and the numbers of their names.
#[derive(Debug, Default)]
pub struct NodeTable {
    /// Looked up with each event of a pod. Nothing iterates over them.
    ids: HashMap<NodeName, NodeId>,
    entries: Vec<Entry>,
    free: Vec<NodeId>,
}

#[derive(Debug)]
struct Entry {
    name: NodeName,
    node: Option<Node>,
    /// True if its last change may have ended what made pods fail there (C24).
    has_recovered: bool,
    /// True if its last change made it another machine with the same name.
    is_replaced: bool,
    /// Number of DaemonSets with pods there.
    users: u32,
}

impl NodeTable {
    /// Applies a node's newest version. Returns its number if anything changed that decisions read:
    /// then [`apply_node`](crate::daemon_set::DaemonSetState::apply_node) of every DaemonSet is due
    /// (C16).
    pub fn apply(&mut self, node: Node) -> Option<NodeId> {
        let id = self.intern(&node.name);
        let entry = &mut self.entries[id.index()];
        if entry.node.as_ref() == Some(&node) {
            return None;
        }
        let before = entry.node.as_ref();
        entry.is_replaced = before.is_some_and(|before| before.created != node.created);
        // One that was deleted and comes back is another machine.
        entry.has_recovered = before.is_none_or(|before| node.has_recovered_since(before));
        entry.node = Some(node);
        Some(id)
    }

    /// Removes a deleted node. Returns its number if it was known; `apply_node` is due as above,
    /// and [`collect`](Self::collect) after that.
    pub fn delete(&mut self, name: &NodeName) -> Option<NodeId> {
        let id = *self.ids.get(name)?;
        self.entries[id.index()].node.take().map(|_| id)
    }

    /// Applies the complete list of nodes. Returns the numbers of those that changed or are gone.
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

    /// Frees the number of a deleted node if no DaemonSet has pods there; otherwise the last
    /// DaemonSet to release it does. Call it once every DaemonSet has applied the deletion.
    pub fn collect(&mut self, id: NodeId) {
        let entry = &self.entries[id.index()];
        if entry.node.is_none() && entry.users == 0 && self.ids.get(&entry.name) == Some(&id) {
            self.ids.remove(&entry.name);
            self.free.push(id);
        }
    }

    /// The node with this number, if it exists.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.entries.get(id.index())?.node.as_ref()
    }

    /// The name with this number.
    pub fn name(&self, id: NodeId) -> &NodeName {
        &self.entries[id.index()].name
    }

    /// True if the last change of the node may have ended what made pods fail there (C24).
    pub(crate) fn has_recovered(&self, id: NodeId) -> bool {
        self.entries[id.index()].has_recovered
    }

    /// True if the last change of the node made it another machine, whose former one was not seen
    /// to go (G33).
    pub(crate) fn is_replaced(&self, id: NodeId) -> bool {
        self.entries[id.index()].is_replaced
    }

    /// The number of this name, if it has one.
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

    /// True if no node exists.
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

    /// The number of a name, whether or not the node exists.
    pub(crate) fn intern(&mut self, name: &NodeName) -> NodeId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let entry = Entry {
            name: name.clone(),
            node: None,
            has_recovered: false,
            is_replaced: false,
            users: 0,
        };
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

    /// Records that one more DaemonSet has pods on this node.
    pub(crate) fn acquire(&mut self, id: NodeId) {
        self.entries[id.index()].users += 1;
    }

    /// Records that one DaemonSet less has pods on this node.
    pub(crate) fn release(&mut self, id: NodeId) {
        let users = &mut self.entries[id.index()].users;
        *users = users.checked_sub(1).expect("a DaemonSet releases only what it acquired");
        self.collect(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Labels, NodeReadiness, Timestamp};

    fn node(name: &str, zone: &str) -> Node {
        let labels = Labels::from_iter([("zone", zone)]);
        Node {
            name: name.into(),
            labels,
            taints: Vec::new(),
            created: Timestamp(0),
            readiness: NodeReadiness::Ready,
            conditions: Box::default(),
            boot_id: "".into(),
            kubelet_version: None,
        }
    }

    /// C16: a heartbeat changes nothing, a label does, and a list reveals deletions.
    #[test]
    fn only_what_decisions_read_is_a_change() {
        let mut nodes = NodeTable::default();
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

    /// C16: another name gets the number once the node is gone and no DaemonSet has pods there.
    #[test]
    fn a_number_is_reused_only_when_no_pods_are_left() {
        let mut nodes = NodeTable::default();
        let a = nodes.apply(node("a", "1")).expect("new");
        nodes.acquire(a);
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
