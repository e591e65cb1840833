//! Deletion (S10, S11): at once, after a grace period, or when the last finalizer is removed.

use std::sync::Arc;
use std::time::Duration;

use crate::json::{Value, json};

use super::metadata::metadata_mut;
use super::write::has_finalizers;
use super::{Registry, definition};
use crate::clock::rfc3339;
use crate::kind::Kind;
use crate::kind::strategy::bump_generation;
use crate::kinds::DEFINITION;
use crate::object::Object;
use crate::status::Status;
use crate::store::{
    Action, DeleteOptions, Deleted, List, ListOptions, PropagationPolicy, WriteOptions, served_form,
};
use crate::value::text;

/// The finalizer of a deletion that leaves the dependents behind
/// (`metav1.FinalizerOrphanDependents`).
pub const ORPHAN: &str = "orphan";
/// The finalizer of a deletion that waits for the dependents (`metav1.FinalizerDeleteDependents`).
pub const FOREGROUND: &str = "foregroundDeletion";

impl Registry {
    /// Deletes an object, or marks it as being deleted while a grace period or a finalizer keeps
    /// it.
    ///
    /// # Errors
    /// 403 for an object that may not be deleted, 404 if there is no such object, 409 if a
    /// precondition does not hold.
    pub fn delete(
        &mut self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        delete: &DeleteOptions,
        options: &WriteOptions,
    ) -> Result<Deleted, Status> {
        let strategy = &kind.strategy;
        (strategy.check_delete)(name).map_err(|cause| Status::forbidden(kind, name, &cause))?;
        let Some(current) = self.store.find_with_tree(kind, namespace, name) else {
            return Err(Status::not_found(kind, name));
        };
        check_preconditions(kind, &current, delete)?;
        let grace_seconds = (strategy.grace_seconds)(current.value(), delete.grace_period_seconds)
            .map_err(Status::bad_request)?;
        let mut object = current.value().clone();
        set_propagation(&mut object, delete.propagation_policy);
        if kind == &DEFINITION && !current.is_terminating() {
            definition::mark(&mut object, options.now);
        }
        if grace_seconds > 0 || has_finalizers(kind, &object) {
            mark(&mut object, current.value(), grace_seconds, options);
            (strategy.mark_deleted)(&mut object);
            let pending = self.put(kind, &current, Action::Modified, object, options);
            if kind == &DEFINITION && !options.dry_run {
                self.sync_definitions(&pending, options.now);
            }
            return Ok(Deleted::Pending(pending));
        }
        let last = current.value().clone();
        let gone = self.put(kind, &current, Action::Deleted, last, options);
        if kind == &DEFINITION && !options.dry_run {
            self.sync_definitions(&gone, options.now);
        }
        Ok(Deleted::Gone(gone))
    }

    /// Deletes the objects that `list` selects, and returns them.
    ///
    /// # Errors
    /// Those of [`Store::list`](crate::store::Store::list) and of the first deletion that fails;
    /// the objects before it are deleted.
    pub fn delete_collection(
        &mut self,
        kind: &'static Kind,
        list: &ListOptions,
        options: &DeleteOptions,
        write: &WriteOptions,
    ) -> Result<List, Status> {
        let listed = self.store.list(kind, list)?;
        for object in &listed.items {
            match self.delete(kind, object.namespace(), object.name(), options, write) {
                Ok(_) => {}
                Err(status) if status.code() == 404 => {}
                Err(status) => return Err(status),
            }
        }
        Ok(listed)
    }

    fn put(
        &mut self,
        kind: &'static Kind,
        current: &Arc<Object>,
        action: Action,
        object: Value,
        options: &WriteOptions,
    ) -> Arc<Object> {
        if action == Action::Modified && &object == current.value() {
            return served_form(kind, current);
        }
        let managed_fields = current.managed_fields().clone();
        if options.dry_run {
            return served_form(kind, &Arc::new(Object::new(object, managed_fields)));
        }
        served_form(kind, &self.commit(kind, action, Some(current), object, managed_fields))
    }
}

/// Refuses a deletion whose UID or resourceVersion is not that of the object.
pub fn check_preconditions(
    kind: &Kind,
    current: &Object,
    delete: &DeleteOptions,
) -> Result<(), Status> {
    let name = current.name();
    if let Some(uid) = &delete.preconditions.uid
        && uid != current.uid()
    {
        return Err(Status::conflict(
            kind,
            name,
            &format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The \
                 object might have been deleted and then recreated",
                current.uid()
            ),
        ));
    }
    let record = current.resource_version().to_string();
    if let Some(resource_version) = &delete.preconditions.resource_version
        && *resource_version != record
    {
        return Err(Status::conflict(
            kind,
            name,
            &format!(
                "the ResourceVersion in the precondition ({resource_version}) does not match the \
                 ResourceVersion in record ({record}). The object might have been modified"
            ),
        ));
    }
    Ok(())
}

/// Sets the finalizer of foreground or orphan deletion, which the garbage collector removes.
fn set_propagation(object: &mut Value, policy: Option<PropagationPolicy>) {
    let Some(policy) = policy else { return };
    let wanted = match policy {
        PropagationPolicy::Orphan => Some(ORPHAN),
        PropagationPolicy::Foreground => Some(FOREGROUND),
        PropagationPolicy::Background => None,
    };
    let mut finalizers: Vec<Value> = object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND)
        .cloned()
        .collect();
    finalizers.extend(wanted.map(Value::from));
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers", finalizers.into());
    }
}

/// Marks an object as being deleted. A second deletion may shorten the grace period, never extend
/// it.
fn mark(object: &mut Value, current: &Value, grace_seconds: i64, options: &WriteOptions) {
    let marked = !text(current, &["metadata", "deletionTimestamp"]).is_empty();
    let before = current["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    if marked && grace_seconds >= before {
        return;
    }
    let deadline = options.now + Duration::from_secs(grace_seconds.unsigned_abs());
    object["metadata"]["deletionTimestamp"] = Value::from(rfc3339(deadline));
    object["metadata"]["deletionGracePeriodSeconds"] = json!(grace_seconds);
    if !marked && current["metadata"]["generation"].is_i64() {
        bump_generation(object, current);
    }
}
