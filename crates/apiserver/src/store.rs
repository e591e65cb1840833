//! The store: all objects of the cluster, a growing resourceVersion, and a bounded log of changes
//! for each kind.
//!
//! The API server and the simulated components use the same methods. There is no I/O and no clock,
//! and names and UIDs come from a seeded generator (S24). The store decides nothing about writes:
//! its owner has the rules.

mod form;
mod list;
mod log;
mod options;
mod table;
mod watch_cache;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::json::Value;
use crate::kind::Kind;
use crate::kinds::{Kinds, TooManyKinds};
use crate::managed_fields::{ManagedFields, SharedTexts};
use crate::object::Object;
use crate::status::Status;
use table::Table;

pub(crate) use form::{served_form, stored_form};
pub use list::{List, ListOptions, ResourceVersionMatch};
pub use log::{Action, Change, Expired, Follower, TREE_CHANGES, WatchEvent, watch_event};
pub(crate) use options::check_dry_run;
pub use options::{
    DeleteOptions, Deleted, Options, Preconditions, PropagationPolicy, WriteOptions,
};
pub use table::key;
pub use watch_cache::WatchCache;

/// The objects of a cluster.
#[derive(Debug)]
pub struct Store {
    kinds: Kinds,
    /// One for each group and kind of stored objects.
    tables: Vec<Table>,
    resource_version: u64,
    window: usize,
    log_bytes_max: usize,
    bytes_max: usize,
    rng: Pcg64,
    shared_texts: SharedTexts,
    /// The object with each UID; never iterated.
    by_uid: HashMap<Box<str>, ObjectReference>,
    /// The dependents of each owner, by the owner's UID.
    dependents: BTreeMap<Box<str>, BTreeSet<ObjectReference>>,
}

/// Identifies a stored object.
#[derive(Clone, Debug)]
struct ObjectReference {
    kind: &'static Kind,
    /// Empty for a cluster-scoped object.
    namespace: Box<str>,
    name: Box<str>,
}

impl Store {
    /// Makes an empty store for objects of these kinds.
    pub fn new(kinds: Kinds, options: &Options) -> Self {
        let mut store = Self {
            tables: Vec::new(),
            resource_version: 0,
            window: options.window,
            log_bytes_max: options.log_bytes_max,
            bytes_max: options.bytes_max,
            rng: Pcg64::seed_from_u64(options.seed),
            shared_texts: SharedTexts::default(),
            by_uid: HashMap::new(),
            dependents: BTreeMap::new(),
            kinds: kinds.clone(),
        };
        for kind in kinds.iter() {
            store.add_table(kind);
        }
        store
    }

    /// The kinds that are served.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Serves the kinds of a definition; `None` serves none (S15).
    ///
    /// # Errors
    /// There have been too many different custom kinds.
    pub fn define(
        &mut self,
        group: &str,
        plural: &str,
        definition: Option<&Value>,
    ) -> Result<(), TooManyKinds> {
        for kind in self.kinds.define(group, plural, definition)? {
            self.add_table(kind);
        }
        Ok(())
    }

    /// The resourceVersion of the latest write.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// An object in the form of `kind`.
    ///
    /// # Errors
    ///
    /// 404 if there is no such object.
    pub fn get(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Object>, Status> {
        match self.find(kind, namespace, name) {
            Some(object) => Ok(served_form(kind, object)),
            None => Err(Status::not_found(kind, name)),
        }
    }

    /// An object in its stored form.
    pub fn find(&self, kind: &'static Kind, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.table(kind).find(&table::key(namespace, name))
    }

    /// True if this is the newest version of a stored object.
    pub fn is_newest(&self, kind: &'static Kind, object: &Object) -> bool {
        let found = self.find(kind, object.namespace(), object.name());
        found.is_some_and(|found| found.resource_version() == object.resource_version())
    }

    /// An object in its stored form with its tree, for repeated reads.
    pub fn find_with_tree(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Object>> {
        self.find(kind, namespace, name).map(Object::with_tree)
    }

    /// A list, or a page of it, from a cache that is not behind (S6). The namespace is in the
    /// selector.
    ///
    /// # Errors
    ///
    /// 400 for an unsupported field selector or an invalid token, 410 if the state is too old, 504
    /// for a resourceVersion that does not exist yet.
    pub fn list(&self, kind: &'static Kind, options: &ListOptions) -> Result<List, Status> {
        WatchCache::at(self.resource_version).list(self, kind, options)
    }

    /// The objects of a kind in their stored form, ordered by key; `None` selects all namespaces.
    pub fn iter(
        &self,
        kind: &'static Kind,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = &Arc<Object>> {
        self.table(kind).range(namespace, None).map(|(_, object)| object)
    }

    /// The objects of a kind in a namespace whose names are after `name`, in their stored form.
    pub fn iter_after(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = &Arc<Object>> {
        let after = table::key(namespace, name);
        self.table(kind).range(Some(namespace), Some(&after)).map(|(_, object)| object)
    }

    /// The number of objects of a kind.
    pub fn count(&self, kind: &'static Kind) -> usize {
        self.table(kind).len()
    }

    /// The objects that are bound to a node, of a kind that is indexed by it.
    pub fn on_node(&self, kind: &'static Kind, node: &str) -> impl Iterator<Item = &Arc<Object>> {
        self.table(kind).on_node(node)
    }

    /// The object with a UID.
    pub fn by_uid(&self, uid: &str) -> Option<(&'static Kind, &Arc<Object>)> {
        self.by_uid.get(uid).and_then(|found| self.resolve(found))
    }

    /// The objects whose ownerReferences contain a UID, in a fixed order.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = (&'static Kind, &Arc<Object>)> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|found| self.resolve(found))
    }

    fn resolve(&self, reference: &ObjectReference) -> Option<(&'static Kind, &Arc<Object>)> {
        let ObjectReference { kind, namespace, name } = reference;
        Some((*kind, self.find(kind, namespace, name)?))
    }

    /// At most `limit` changes of a kind after a resourceVersion, oldest first. [`watch_event`]
    /// converts them for a watcher (S7).
    ///
    /// # Errors
    ///
    /// [`Expired`] if the log no longer contains all of these changes; the caller lists again.
    pub fn changes_since(
        &self,
        kind: &'static Kind,
        resource_version: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Change>>, Expired> {
        if resource_version == self.resource_version {
            return Ok(Vec::new());
        }
        let changes = self.table(kind).log.since(resource_version, limit)?;
        Ok(form::served_changes(kind, changes))
    }

    /// True if a kind has changes after a resourceVersion, even if the log no longer contains them.
    pub fn has_changes_since(&self, kind: &'static Kind, resource_version: u64) -> bool {
        self.table(kind).log.newest() > resource_version
    }

    /// The stored kinds with changes after a resourceVersion.
    pub fn kinds_changed_since(
        &self,
        resource_version: u64,
    ) -> impl Iterator<Item = &'static Kind> + '_ {
        let changed = move |table: &&Table| table.log.newest() > resource_version;
        self.tables.iter().filter(changed).map(Table::kind)
    }

    /// Removes the changes up to and including a resourceVersion from the log, as etcd's compaction
    /// does.
    pub fn compact(&mut self, resource_version: u64) {
        for table in &mut self.tables {
            table.compact(resource_version);
        }
    }

    fn add_table(&mut self, kind: &'static Kind) {
        if !self.tables.iter().any(|table| table.stores(kind)) {
            self.tables.push(Table::new(kind.storage(), self.window));
        }
    }

    fn table(&self, kind: &'static Kind) -> &Table {
        &self.tables[self.table_index(kind)]
    }

    fn table_index(&self, kind: &'static Kind) -> usize {
        // A custom kind may have been defined anew since its table was made.
        let stored = kind.storage();
        let index = self.tables.iter().position(|table| std::ptr::eq(table.kind(), stored));
        let index = index.or_else(|| self.tables.iter().position(|table| table.stores(kind)));
        index.expect("a row of this store's kinds has a table")
    }

    /// Stores an object under the next resourceVersion. `replaced` is the version that it replaces,
    /// from which it was made.
    pub fn commit(
        &mut self,
        kind: &'static Kind,
        action: Action,
        replaced: Option<&Object>,
        mut value: Value,
        managed_fields: ManagedFields,
    ) -> Arc<Object> {
        self.resource_version += 1;
        value["metadata"]["resourceVersion"] = self.resource_version.to_string().into();
        let managed_fields = self.shared_texts.share(managed_fields);
        let object = Arc::new(match replaced {
            Some(replaced) => Object::replacing(replaced, value, managed_fields),
            None => Object::new(value, managed_fields),
        });
        let kind = kind.storage();
        let key = table::key(object.namespace(), object.name());
        let previous = self.table(kind).find(&key).cloned();
        self.index(kind, action, &object, previous.as_deref());
        let index = self.table_index(kind);
        self.tables[index].record(&key, action, object.clone());
        self.limit_log();
        object
    }

    /// Drops the oldest changes of the largest log while the logs are too large.
    fn limit_log(&mut self) {
        let bytes = |tables: &[Table]| tables.iter().map(|table| table.log.bytes()).sum::<usize>();
        while bytes(&self.tables) > self.log_bytes_max {
            let largest = self.tables.iter_mut().max_by_key(|table| table.log.bytes());
            largest.expect("a log has bytes").forget_first();
        }
    }

    /// The number of bytes of JSON text that can be added.
    pub(crate) fn bytes_left(&self) -> usize {
        let stored: usize = self.tables.iter().map(Table::bytes).sum();
        self.bytes_max.saturating_sub(stored)
    }

    fn index(
        &mut self,
        kind: &'static Kind,
        action: Action,
        object: &Object,
        previous: Option<&Object>,
    ) {
        fn owners(object: &Object) -> impl Iterator<Item = &str> {
            object.owner_references().map(|owner| owner.uid)
        }
        let has_same_owners = |previous: &Object| owners(previous).eq(owners(object));
        if action == Action::Modified && previous.is_some_and(has_same_owners) {
            return;
        }
        let reference = ObjectReference {
            kind,
            namespace: object.namespace().into(),
            name: object.name().into(),
        };
        for owner in previous.iter().flat_map(|object| object.owner_references()) {
            if let Some(dependents) = self.dependents.get_mut(owner.uid) {
                dependents.remove(&reference);
                if dependents.is_empty() {
                    self.dependents.remove(owner.uid);
                }
            }
        }
        if action == Action::Deleted {
            self.by_uid.remove(object.uid());
            return;
        }
        for owner in object.owner_references() {
            self.dependents.entry(owner.uid.into()).or_default().insert(reference.clone());
        }
        if previous.is_none() {
            self.by_uid.insert(object.uid().into(), reference);
        }
    }

    /// Five random characters of the alphabet of generated names.
    pub(crate) fn name_suffix(&mut self) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5)
            .map(|_| {
                let index = usize::try_from(self.rng.next_u32()).unwrap_or(0) % ALPHABET.len();
                char::from(ALPHABET[index])
            })
            .collect()
    }

    /// A random UUID (version 4).
    pub fn uid(&mut self) -> String {
        let bits = (u128::from(self.rng.next_u64()) << 64) | u128::from(self.rng.next_u64());
        let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let digits = format!("{bits:032x}");
        format!(
            "{}-{}-{}-{}-{}",
            &digits[0..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..32]
        )
    }
}

impl ObjectReference {
    fn rank(&self) -> (&str, &str, &str, &str) {
        (self.kind.group, self.kind.kind, &self.namespace, &self.name)
    }
}

impl PartialEq for ObjectReference {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for ObjectReference {}

impl PartialOrd for ObjectReference {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectReference {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}
