//! Deletion (S10, S11): at once, after a grace period, or when the last finalizer is gone.

use std::sync::Arc;

use serde_json::{Value, json};

use super::metadata::{bump_generation, metadata_mut};
use super::{namespace, served_as};
use crate::clock::rfc3339;
use crate::kind::{Kind, Strategy};
use crate::object::Object;
use crate::status::Status;
use crate::store::{
    Action, DeleteOptions, Deleted, List, ListOptions, PropagationPolicy, Store, WriteOptions,
};
use crate::value::text;

pub const ORPHAN: &str = "orphan";
pub const FOREGROUND: &str = "foregroundDeletion";

const GRACE_SECONDS_DEFAULT: i64 = 30;

pub fn delete(
    store: &mut Store,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
    delete: &DeleteOptions,
    options: &WriteOptions,
) -> Result<Deleted, Status> {
    if kind.strategy == Strategy::Namespace {
        namespace::check_delete(name)?;
    }
    let Some(current) = store.find_warm(kind, namespace, name) else {
        return Err(Status::not_found(kind, name));
    };
    check_preconditions(kind, &current, delete)?;
    let grace_seconds = grace_seconds(kind, &current, delete)?;
    let mut object = current.value().clone();
    set_propagation(&mut object, delete.propagation_policy);
    if is_kept(kind, &object, grace_seconds) {
        mark(&mut object, current.value(), grace_seconds, options);
        if kind.strategy == Strategy::Namespace {
            object["status"]["phase"] = Value::from("Terminating");
        }
        return Ok(Deleted::Pending(put(store, kind, &current, Action::Modified, object, options)));
    }
    let gone = put(store, kind, &current, Action::Deleted, current.value().clone(), options);
    Ok(Deleted::Gone(gone))
}

pub fn delete_collection(
    store: &mut Store,
    kind: &'static Kind,
    list: &ListOptions,
    options: &DeleteOptions,
    write: &WriteOptions,
) -> Result<List, Status> {
    let listed = store.list(kind, list)?;
    for object in &listed.items {
        match delete(store, kind, object.namespace(), object.name(), options, write) {
            Ok(_) => {}
            Err(status) if status.code() == 404 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(listed)
}

/// Whether an object that is being deleted has nothing left to wait for.
pub fn is_done(kind: &Kind, object: &Value) -> bool {
    let metadata = &object["metadata"];
    !text(metadata, &["deletionTimestamp"]).is_empty()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && is_empty(&metadata["finalizers"])
        && !has_content_to_clear(kind, object)
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

/// A namespace waits for its content, by finalizers in its spec.
fn has_content_to_clear(kind: &Kind, object: &Value) -> bool {
    kind.strategy == Strategy::Namespace && !is_empty(&object["spec"]["finalizers"])
}

fn is_kept(kind: &Kind, object: &Value, grace_seconds: i64) -> bool {
    grace_seconds > 0
        || !is_empty(&object["metadata"]["finalizers"])
        || has_content_to_clear(kind, object)
}

pub(super) fn check_preconditions(
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
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have \
                 been deleted and then recreated",
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
                "the ResourceVersion in the precondition ({resource_version}) does not match the ResourceVersion in \
                 record ({record}). The object might have been modified"
            ),
        ));
    }
    Ok(())
}

/// How long a pod may take to stop; a bound pod that has not ended is the only thing that takes time.
fn grace_seconds(kind: &Kind, current: &Object, delete: &DeleteOptions) -> Result<i64, Status> {
    if let Some(asked) = delete.grace_period_seconds
        && asked < 0
        && kind.strategy != Strategy::Pod
    {
        return Err(Status::bad_request(format!(
            "gracePeriodSeconds must be non-negative, not {asked}"
        )));
    }
    let ended = matches!(current.text(&["status", "phase"]), "Failed" | "Succeeded");
    if kind.strategy != Strategy::Pod || current.node_name().is_empty() || ended {
        return Ok(0);
    }
    let own = current.value()["spec"]["terminationGracePeriodSeconds"].as_i64();
    let asked = delete.grace_period_seconds.or(own);
    Ok(match asked.unwrap_or(GRACE_SECONDS_DEFAULT) {
        // As upstream: a negative period means the shortest one that is not "at once".
        negative if negative < 0 => 1,
        seconds => seconds,
    })
}

/// Foreground and orphan deletion are finalizers that the garbage collector works off.
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
    set_finalizers(object, finalizers);
}

/// Sets the finalizers; none at all is no field.
pub fn set_finalizers(object: &mut Value, finalizers: Vec<Value>) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_string(), Value::Array(finalizers));
    }
}

/// Marks an object as being deleted. A mark that is there may be brought forward, never put off.
fn mark(object: &mut Value, current: &Value, grace_seconds: i64, options: &WriteOptions) {
    let marked = !text(current, &["metadata", "deletionTimestamp"]).is_empty();
    let before = current["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    if marked && grace_seconds >= before {
        return;
    }
    let deadline = options.now + std::time::Duration::from_secs(grace_seconds.unsigned_abs());
    object["metadata"]["deletionTimestamp"] = Value::from(rfc3339(deadline));
    object["metadata"]["deletionGracePeriodSeconds"] = json!(grace_seconds);
    if !marked && current["metadata"]["generation"].is_i64() {
        bump_generation(object, current);
    }
}

fn put(
    store: &mut Store,
    kind: &'static Kind,
    current: &Arc<Object>,
    action: Action,
    object: Value,
    options: &WriteOptions,
) -> Arc<Object> {
    if action == Action::Modified && &object == current.value() {
        return served_as(kind, current);
    }
    if options.dry_run {
        return served_as(kind, &Arc::new(Object::new(object)));
    }
    served_as(kind, &store.commit(kind, action, object))
}
