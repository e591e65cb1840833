//! The garbage collector and the namespace controller (S11): deletes objects without owners,
//! completes foreground and orphan deletion, and empties namespaces that are being deleted.
//!
//! It reads the change logs of all kinds, so that its work is proportional to the changes. It takes
//! an owner of an unknown kind to exist.

mod tokens;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use everynode_core::api::Timestamp;

use crate::json::{Value, json};
use crate::kind::Kind;
use crate::kinds::{DEFINITION, NAMESPACE, SECRET, SERVICE_ACCOUNT};
use crate::object::{Object, OwnerReference};
use crate::patch::PatchType;
use crate::registry::{CLEANUP, Endpoint, FOREGROUND, ORPHAN, Patch, Registry};
use crate::status::Status;
use crate::store::{Action, Change, DeleteOptions, PropagationPolicy, Store, WriteOptions};

/// The garbage collector and the namespace controller.
#[derive(Debug, Default)]
pub struct GarbageCollector {
    /// The resourceVersion up to which all changes have been read.
    seen: u64,
    queue: VecDeque<WorkItem>,
    queued: BTreeSet<WorkItem>,
    /// UIDs of owners and namespaces all of whose dependents have been queued.
    expanded: BTreeSet<Box<str>>,
    /// How long a deleted namespace keeps its content, in milliseconds.
    namespace_delay_ms: i64,
    /// The times at which deleted namespaces are emptied, by UID.
    emptied_at: BTreeMap<Box<str>, Timestamp>,
    /// Those that are not due yet, in order.
    waiting: BTreeSet<(Timestamp, Box<str>)>,
}

/// An object to process, by its UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WorkItem {
    Examine(Box<str>),
    Delete(Box<str>),
}

/// The state of an owner that a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// The owner exists, or its kind is unknown.
    Present,
    Absent,
    /// The owner is in foreground deletion, which waits for its dependents.
    DeletingDependents,
}

impl GarbageCollector {
    /// A garbage collector that empties deleted namespaces after a delay in milliseconds.
    pub fn new(namespace_delay_ms: i64) -> Self {
        Self { namespace_delay_ms, ..Self::default() }
    }

    /// When a deleted namespace is emptied next.
    pub fn next(&self) -> Option<Timestamp> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// Processes changes with about `limit` writes at most. Returns true if more work is due;
    /// otherwise there is none before the next change and [`next`](Self::next).
    pub fn step(&mut self, registry: &mut Registry, now: Timestamp, limit: usize) -> bool {
        while self.next().is_some_and(|at| at <= now)
            && let Some((_, uid)) = self.waiting.pop_first()
        {
            self.push(WorkItem::Examine(uid));
        }
        let mut writes = WriteBudget { registry, options: WriteOptions::at(now), remaining: limit };
        loop {
            self.observe(writes.store());
            let Some(work) = self.queue.pop_front() else { return false };
            if writes.remaining == 0 {
                self.queue.push_front(work);
                return true;
            }
            self.queued.remove(&work);
            let again = work.clone();
            if let Err(status) = self.process(&mut writes, work) {
                match status.code() {
                    404 => {}
                    409 => self.push(again),
                    code => {
                        tracing::warn!(code, %status, "a garbage collection write failed")
                    }
                }
            }
        }
    }

    fn push(&mut self, work: WorkItem) {
        if self.queued.insert(work.clone()) {
            self.queue.push_back(work);
        }
    }

    fn observe(&mut self, store: &Store) {
        let newest = store.resource_version();
        if self.seen == newest {
            return;
        }
        for kind in store.kinds_changed_since(self.seen) {
            match store.changes_since(kind, self.seen, usize::MAX) {
                Ok(changes) => {
                    changes.iter().for_each(|change| self.observe_change(store, kind, change));
                }
                Err(_) => {
                    self.observe_all(store);
                    break;
                }
            }
        }
        self.seen = newest;
    }

    /// Queues all objects, because changes were lost. Their owner references reveal owners that
    /// have been deleted meanwhile.
    fn observe_all(&mut self, store: &Store) {
        self.expanded.clear();
        let kinds = store.kinds().iter().filter(|kind| is_of_storage(store, kind));
        for object in kinds.flat_map(|kind| store.iter(kind, None)) {
            if object.is_terminating() || object.owner_references().next().is_some() {
                self.push(WorkItem::Examine(object.uid().into()));
            }
        }
    }

    fn observe_change(&mut self, store: &Store, kind: &'static Kind, change: &Change) {
        let object = &change.object;
        match change.action {
            Action::Added | Action::Modified => {
                if needs_examination(change) {
                    self.push(WorkItem::Examine(object.uid().into()));
                }
                if *kind == SECRET
                    && change.action == Action::Added
                    && tokens::lacks_account(store, object)
                {
                    self.push(WorkItem::Delete(object.uid().into()));
                }
            }
            Action::Deleted => {
                self.expanded.remove(object.uid());
                self.emptied_at.remove(object.uid());
                for (_, dependent) in store.dependents(object.uid()) {
                    self.push(WorkItem::Examine(dependent.uid().into()));
                }
                for owner in object.owner_references() {
                    self.push(WorkItem::Examine(owner.uid.into()));
                }
                if *kind == SERVICE_ACCOUNT {
                    for token in tokens::of_account(store, object) {
                        self.push(WorkItem::Delete(token));
                    }
                }
                if kind.namespaced
                    && let Some(namespace) = store.find(&NAMESPACE, "", object.namespace())
                    && namespace.is_terminating()
                {
                    self.push(WorkItem::Examine(namespace.uid().into()));
                }
                if kind.custom.is_some()
                    && let Some(definition) = store.find(&DEFINITION, "", &kind.group_resource())
                    && definition.is_terminating()
                {
                    self.push(WorkItem::Examine(definition.uid().into()));
                }
            }
        }
    }

    fn process(&mut self, writes: &mut WriteBudget, work: WorkItem) -> Result<(), Status> {
        let (WorkItem::Examine(uid) | WorkItem::Delete(uid)) = &work;
        let Some((kind, object)) = writes.store().by_uid(uid) else { return Ok(()) };
        let object = Arc::clone(object);
        match work {
            WorkItem::Delete(_) if object.is_terminating() => Ok(()),
            WorkItem::Delete(_) => writes.delete(kind, &object, None),
            WorkItem::Examine(_) if object.is_terminating() => self.finish(writes, kind, &object),
            WorkItem::Examine(_) => collect(writes, kind, &object),
        }
    }

    /// Processes an object that is being deleted.
    fn finish(
        &mut self,
        writes: &mut WriteBudget,
        kind: &'static Kind,
        object: &Arc<Object>,
    ) -> Result<(), Status> {
        if object.finalizers().any(|finalizer| finalizer == ORPHAN) {
            return self.orphan(writes, kind, object);
        }
        if object.finalizers().any(|finalizer| finalizer == FOREGROUND) {
            return self.foreground(writes, kind, object);
        }
        if kind == &NAMESPACE {
            return self.empty_namespace(writes, object);
        }
        if object.finalizers().any(|finalizer| finalizer == CLEANUP) {
            return self.empty_definition(writes, kind, object);
        }
        Ok(())
    }

    /// Deletes the objects of a custom kind, and then its definition (S15).
    fn empty_definition(
        &mut self,
        writes: &mut WriteBudget,
        kind: &'static Kind,
        object: &Arc<Object>,
    ) -> Result<(), Status> {
        let is_defined = |it: &&Kind| it.custom.is_some() && it.group_resource() == object.name();
        let defined = writes.store().kinds().iter().find(is_defined);
        if self.is_emptied(writes.store(), object, defined.into_iter(), None) {
            writes.remove_finalizer(kind, object, CLEANUP)?;
        }
        Ok(())
    }

    /// Deletes what an object contains when this is called first. Returns whether nothing is left.
    fn is_emptied(
        &mut self,
        store: &Store,
        object: &Object,
        kinds: impl Iterator<Item = &'static Kind>,
        namespace: Option<&str>,
    ) -> bool {
        let first_time = self.expanded.insert(object.uid().into());
        let some = if first_time { usize::MAX } else { 1 };
        let mut is_empty = true;
        for content in kinds.flat_map(|kind| store.iter(kind, namespace).take(some)) {
            is_empty = false;
            if first_time {
                self.push(WorkItem::Delete(content.uid().into()));
            }
        }
        is_empty
    }

    /// Removes the owner from its dependents' references, then removes the finalizer.
    fn orphan(
        &mut self,
        writes: &mut WriteBudget,
        kind: &'static Kind,
        object: &Arc<Object>,
    ) -> Result<(), Status> {
        let dependents = writes.store().dependents(object.uid()).take(writes.remaining);
        let dependents: Vec<_> =
            dependents.map(|(kind, dependent)| (kind, Arc::clone(dependent))).collect();
        for (kind, dependent) in dependents {
            writes.remove_owner_references(kind, &dependent, |owner| owner.uid == object.uid())?;
        }
        if writes.store().dependents(object.uid()).next().is_some() {
            self.push(WorkItem::Examine(object.uid().into()));
            return Ok(());
        }
        writes.remove_finalizer(kind, object, ORPHAN)
    }

    /// Deletes the dependents of an owner, and removes the finalizer once none blocks the deletion.
    fn foreground(
        &mut self,
        writes: &mut WriteBudget,
        kind: &'static Kind,
        object: &Arc<Object>,
    ) -> Result<(), Status> {
        let first_time = self.expanded.insert(object.uid().into());
        let mut blocked = false;
        for (_, dependent) in writes.store().dependents(object.uid()) {
            blocked |= blocks(dependent, object.uid());
            if first_time {
                self.push(WorkItem::Examine(dependent.uid().into()));
            } else if blocked {
                break;
            }
        }
        if blocked {
            return Ok(());
        }
        writes.remove_finalizer(kind, object, FOREGROUND)
    }

    fn empty_namespace(&mut self, writes: &mut WriteBudget, object: &Object) -> Result<(), Status> {
        let now = writes.options.now;
        let due = Timestamp(now.0 + self.namespace_delay_ms);
        let at = *self.emptied_at.entry(object.uid().into()).or_insert(due);
        if now < at {
            self.waiting.insert((at, object.uid().into()));
            return Ok(());
        }
        let store = writes.store();
        let kinds = store.kinds().iter();
        let kinds = kinds.filter(|kind| kind.namespaced && is_of_storage(store, kind));
        if !self.is_emptied(store, object, kinds, Some(object.name())) {
            return Ok(());
        }
        let mut finalized = object.read().into_owned();
        if let Some(finalizers) = finalized["spec"]["finalizers"].as_array_mut() {
            finalizers.retain(|finalizer| finalizer != "kubernetes");
        }
        writes.remaining = writes.remaining.saturating_sub(1);
        writes.registry.finalize(&NAMESPACE, object.name(), &finalized, &writes.options).map(|_| ())
    }
}

/// True if the objects of a kind are visited by it: each in one of its versions.
fn is_of_storage(store: &Store, kind: &'static Kind) -> bool {
    match &kind.custom {
        None => kind.stored_as.is_none(),
        Some(_) => store.kinds().by_group_kind(kind.group, kind.kind) == Some(kind),
    }
}

/// True if a change can require work: another owner, or progress of a deletion.
fn needs_examination(change: &Change) -> bool {
    let object = &change.object;
    if object.is_terminating() {
        return true;
    }
    let previous = change.previous.iter().flat_map(|previous| previous.owner_references());
    !object.owner_references().eq(previous)
}

fn blocks(dependent: &Object, owner_uid: &str) -> bool {
    dependent.owner_references().any(|owner| owner.uid == owner_uid && owner.block_owner_deletion)
}

/// Deletes an object whose owners are all gone, or removes the references to owners that are gone.
fn collect(
    writes: &mut WriteBudget,
    kind: &'static Kind,
    object: &Arc<Object>,
) -> Result<(), Status> {
    let owners: Vec<OwnerState> =
        object.owner_references().map(|owner| state(writes.store(), object, owner)).collect();
    if owners.is_empty() || owners.iter().all(|owner| *owner == OwnerState::Present) {
        return Ok(());
    }
    if owners.contains(&OwnerState::Present) {
        let gone: Vec<&str> = object
            .owner_references()
            .zip(&owners)
            .filter(|(_, state)| **state != OwnerState::Present)
            .map(|(owner, _)| owner.uid)
            .collect();
        return writes.remove_owner_references(kind, object, |owner| gone.contains(&owner.uid));
    }
    let has_dependents = writes.store().dependents(object.uid()).next().is_some();
    let is_foreground = owners.contains(&OwnerState::DeletingDependents) && has_dependents;
    writes.delete(kind, object, is_foreground.then_some(PropagationPolicy::Foreground))
}

fn state(store: &Store, object: &Object, owner: OwnerReference<'_>) -> OwnerState {
    let Some(kind) = store.kinds().by_api_version(owner.api_version, owner.kind) else {
        return OwnerState::Present;
    };
    let namespace = if kind.namespaced { object.namespace() } else { "" };
    match store.find(kind, namespace, owner.name) {
        Some(found) if found.uid() == owner.uid => {
            let foreground = found.finalizers().any(|finalizer| finalizer == FOREGROUND);
            if found.is_terminating() && foreground {
                OwnerState::DeletingDependents
            } else {
                OwnerState::Present
            }
        }
        Some(_) | None => OwnerState::Absent,
    }
}

/// The registry, with the remaining number of writes in this step.
struct WriteBudget<'a> {
    registry: &'a mut Registry,
    options: WriteOptions,
    remaining: usize,
}

impl WriteBudget<'_> {
    fn store(&self) -> &Store {
        self.registry.store()
    }

    /// Deletes the object with this UID, not another one with the same name.
    fn delete(
        &mut self,
        kind: &'static Kind,
        object: &Object,
        policy: Option<PropagationPolicy>,
    ) -> Result<(), Status> {
        let of_object = DeleteOptions::default().with_uid(object.uid());
        let delete = DeleteOptions { propagation_policy: policy, ..of_object };
        self.remaining = self.remaining.saturating_sub(1);
        self.registry
            .delete(kind, object.namespace(), object.name(), &delete, &self.options)
            .map(|_| ())
    }

    fn remove_finalizer(
        &mut self,
        kind: &'static Kind,
        object: &Object,
        finalizer: &str,
    ) -> Result<(), Status> {
        let kept: Vec<&str> = object.finalizers().filter(|known| *known != finalizer).collect();
        self.patch(kind, object, "finalizers", json!(kept))
    }

    /// Removes the owner references for which `is_removed` returns true.
    fn remove_owner_references(
        &mut self,
        kind: &'static Kind,
        object: &Object,
        is_removed: impl Fn(&OwnerReference<'_>) -> bool,
    ) -> Result<(), Status> {
        let value = object.read();
        let references = &value["metadata"]["ownerReferences"];
        let kept: Vec<Value> = object
            .owner_references()
            .zip(references.as_array().into_iter().flatten())
            .filter(|(owner, _)| !is_removed(owner))
            .map(|(_, reference)| reference.clone())
            .collect();
        self.patch(kind, object, "ownerReferences", kept.into())
    }

    fn patch(
        &mut self,
        kind: &'static Kind,
        object: &Object,
        field: &str,
        list: Value,
    ) -> Result<(), Status> {
        let list = if list.as_array().is_some_and(Vec::is_empty) { Value::Null } else { list };
        let patch = Patch {
            patch_type: PatchType::Merge,
            body: json!({"metadata": {
                "uid": object.uid(),
                "resourceVersion": object.resource_version().to_string(),
                field: list,
            }}),
            endpoint: Endpoint::Main,
            strict: None,
        };
        self.remaining = self.remaining.saturating_sub(1);
        self.registry
            .patch(kind, object.namespace(), object.name(), &patch, &self.options)
            .map(|_| ())
    }
}

#[cfg(test)]
mod tests;
