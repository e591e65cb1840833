//! Storing a replacement, and how a deletion completes (S11).

use std::sync::Arc;

use crate::json::{Value, json};

use super::Registry;
use super::metadata::{check_locks, check_name, check_shape};
use crate::kind::Kind;
use crate::managed_fields::ManagedFields;
use crate::object::Object;
use crate::status::Status;
use crate::store::{Action, WriteOptions, served_form, stored_form};
use crate::value::text;

impl Registry {
    /// Stores a replacement of `stored` and returns it as it is served. Writes nothing if nothing
    /// changed but for the times of managers, and deletes the object if the replacement completes
    /// its deletion.
    pub fn write(
        &mut self,
        kind: &'static Kind,
        stored: &Arc<Object>,
        object: Value,
        managed_fields: ManagedFields,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        let object = stored_form(kind, object);
        let is_unchanged = &object == stored.value();
        if is_unchanged && managed_fields.is_same_but_for_times(stored.managed_fields()) {
            return Ok(served_form(kind, stored));
        }
        if options.dry_run {
            return Ok(served_form(kind, &Arc::new(Object::new(object, managed_fields))));
        }
        let is_complete = is_deletion_complete(kind, &object);
        let action = if is_complete { Action::Deleted } else { Action::Modified };
        let written = self.commit(kind, action, Some(stored), object, managed_fields);
        Ok(served_form(kind, &written))
    }

    /// `finalize`: replaces `spec.finalizers` of a cluster-scoped object and nothing else. An
    /// object that is being deleted is removed once it has no finalizer left.
    ///
    /// # Errors
    /// 404 if there is no such object, 409 if the UID or resourceVersion is another.
    pub fn finalize(
        &mut self,
        kind: &'static Kind,
        name: &str,
        sent: &Value,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        check_shape(sent)?;
        check_name(sent, name)?;
        let Some(current) = self.store.find_with_tree(kind, "", name) else {
            return Err(Status::not_found(kind, name));
        };
        check_locks(sent, kind, &current)?;
        let mut object = current.value().clone();
        match sent["spec"]["finalizers"].as_array() {
            Some(finalizers) if !finalizers.is_empty() => {
                object["spec"]["finalizers"] = finalizers.clone().into();
            }
            Some(_) | None => object["spec"] = json!({}),
        }
        let managed_fields = current.managed_fields().clone();
        self.write(kind, &current, object, managed_fields, options)
    }

    /// Stores an object in place of `replaced`, from which it was made, and brings up to date what
    /// is derived from the objects of its kind.
    pub(super) fn commit(
        &mut self,
        kind: &'static Kind,
        action: Action,
        replaced: Option<&Object>,
        object: Value,
        managed_fields: ManagedFields,
    ) -> Arc<Object> {
        let committed = self.store.commit(kind, action, replaced, object, managed_fields);
        self.plugins.committed(&self.store, kind);
        committed
    }
}

/// True if an object is being deleted, and neither a grace period nor a finalizer keeps it.
fn is_deletion_complete(kind: &Kind, object: &Value) -> bool {
    let metadata = &object["metadata"];
    !text(metadata, &["deletionTimestamp"]).is_empty()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && !has_finalizers(kind, object)
}

/// True if a finalizer keeps the object. A namespace also has finalizers in its spec, which
/// protect its content.
pub(super) fn has_finalizers(kind: &Kind, object: &Value) -> bool {
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    !is_empty(&object["metadata"]["finalizers"])
        || (kind.strategy.has_spec_finalizers && !is_empty(&object["spec"]["finalizers"]))
}
