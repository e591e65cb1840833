//! The objects of one kind, ordered by key, with indexes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use slab::Slab;

use super::log::{Action, Change, ChangeLog};
use crate::kind::Kind;
use crate::object::Object;

#[derive(Debug)]
pub(super) struct Table {
    kind: &'static Kind,
    objects: Slab<Arc<Object>>,
    /// The index of the object with each key; never iterated.
    by_key: HashMap<Arc<str>, usize>,
    /// The same in the order of lists.
    in_order: BTreeMap<Arc<str>, usize>,
    /// The size of the objects, as JSON text.
    bytes: usize,
    /// Keys by node, if the kind is indexed by it.
    by_node: BTreeMap<String, BTreeSet<String>>,
    pub log: ChangeLog,
    /// The index of the next object in the sweep for trees that readers have parsed again.
    sweep: usize,
}

/// `NAMESPACE/NAME`, or `NAME` for a cluster-scoped object: the order of lists, as in etcd.
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_string() } else { format!("{namespace}/{name}") }
}

impl Table {
    pub(super) fn new(kind: &'static Kind, capacity: usize) -> Self {
        Self {
            kind,
            objects: Slab::new(),
            by_key: HashMap::new(),
            in_order: BTreeMap::new(),
            bytes: 0,
            by_node: BTreeMap::new(),
            log: ChangeLog::new(capacity),
            sweep: 0,
        }
    }

    pub(super) fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// True if the table has the objects of this kind, in any version.
    pub(super) fn stores(&self, kind: &'static Kind) -> bool {
        let stored = kind.storage();
        self.kind.kind == stored.kind && self.kind.group == stored.group
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The size of all objects, as JSON text.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn find(&self, key: &str) -> Option<&Arc<Object>> {
        Some(&self.objects[*self.by_key.get(key)?])
    }

    /// The objects of a namespace, or of all for `None`, after the key `after`.
    pub(super) fn range<'a>(
        &'a self,
        namespace: Option<&str>,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<Object>)> + use<'a> {
        let prefix = namespace.map(|namespace| format!("{namespace}/"));
        let start = match (after, prefix.as_deref()) {
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(prefix)) => Bound::Included(prefix),
            (None, None) => Bound::Unbounded,
        };
        let following = self.in_order.range::<str, _>((start, Bound::Unbounded));
        following
            .take_while(move |(key, _)| {
                prefix.as_deref().is_none_or(|prefix| key.starts_with(prefix))
            })
            .map(|(key, index)| (&**key, &self.objects[*index]))
    }

    /// The objects that are bound to a node, ordered by key.
    pub(super) fn on_node(&self, node: &str) -> impl Iterator<Item = &Arc<Object>> {
        self.by_node.get(node).into_iter().flatten().filter_map(|key| self.find(key))
    }

    /// Stores a change in the objects, the indexes and the log.
    pub(super) fn record(&mut self, key: &str, action: Action, object: Arc<Object>) {
        let previous = match action {
            Action::Added | Action::Modified => self.insert(key, object.clone()),
            Action::Deleted => self.remove(key),
        };
        self.bytes -= previous.as_ref().map_or(0, |previous| previous.bytes());
        if action != Action::Deleted {
            self.bytes += object.bytes();
        }
        self.reindex(key, action, &object, previous.as_deref());
        self.log.push(Arc::new(Change {
            resource_version: object.resource_version(),
            action,
            object,
            previous,
        }));
        self.drop_trees();
    }

    fn insert(&mut self, key: &str, object: Arc<Object>) -> Option<Arc<Object>> {
        if let Some(index) = self.by_key.get(key) {
            return Some(std::mem::replace(&mut self.objects[*index], object));
        }
        let key: Arc<str> = key.into();
        let index = self.objects.insert(object);
        self.by_key.insert(Arc::clone(&key), index);
        self.in_order.insert(key, index);
        None
    }

    fn remove(&mut self, key: &str) -> Option<Arc<Object>> {
        let index = self.by_key.remove(key)?;
        self.in_order.remove(key);
        Some(self.objects.remove(index))
    }

    /// Drops the trees of objects that were not written for a while, and of one that was read since
    /// then.
    fn drop_trees(&mut self) {
        while let Some(bare) = self.log.drop_tree() {
            self.share(bare);
        }
        if self.sweep >= self.objects.capacity() {
            self.sweep = 0;
        }
        let swept = self.objects.get_mut(self.sweep);
        self.sweep += 1;
        if let Some(object) = swept
            && object.has_tree()
            && object.resource_version() < self.log.bare_until()
            && let Some(bare) = object.without_tree()
        {
            *object = Arc::new(bare);
        }
    }

    /// Stores an object without its tree instead of the same one with it.
    fn share(&mut self, bare: Arc<Object>) {
        let index = self.by_key.get(key(bare.namespace(), bare.name()).as_str());
        if let Some(object) = index.and_then(|index| self.objects.get_mut(*index))
            && object.resource_version() == bare.resource_version()
        {
            *object = bare;
        }
    }

    /// Drops the oldest change, and the tree of its object.
    pub(super) fn forget_first(&mut self) {
        let Some(dropped) = self.log.drop_first() else { return };
        if let Some(bare) = dropped.object.without_tree() {
            self.share(Arc::new(bare));
        }
    }

    /// Drops all changes up to and including `resource_version`.
    pub(super) fn compact(&mut self, resource_version: u64) {
        while self.log.reaches_back_to(resource_version) {
            self.forget_first();
        }
    }

    fn reindex(&mut self, key: &str, action: Action, object: &Object, previous: Option<&Object>) {
        if !self.kind.is_indexed_by_node {
            return;
        }
        let before = previous.map_or("", Object::node_name);
        let after = match action {
            Action::Added | Action::Modified => object.node_name(),
            Action::Deleted => "",
        };
        if before == after {
            return;
        }
        if let Some(keys) = self.by_node.get_mut(before) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_node.remove(before);
            }
        }
        if !after.is_empty() {
            self.by_node.entry(after.to_string()).or_default().insert(key.to_string());
        }
    }
}
