//! Namespaces: which may be deleted, and how a deletion completes (S11).

use std::sync::Arc;

use crate::json::{Value, json};

use super::{Registry, metadata};
use crate::kinds::NAMESPACE;
use crate::object::Object;
use crate::status::Status;
use crate::store::WriteOptions;

/// The namespaces that may not be deleted.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Refuses to delete a namespace that every cluster needs.
pub(super) fn check_delete(name: &str) -> Result<(), Status> {
    if PROTECTED.contains(&name) {
        return Err(Status::forbidden(&NAMESPACE, name, "this namespace may not be deleted"));
    }
    Ok(())
}

impl Registry {
    /// `namespaces/finalize`: replaces `spec.finalizers` and nothing else. A namespace that is
    /// being deleted is removed once it has no finalizer left.
    ///
    /// # Errors
    /// 404 if there is no such namespace, 409 if the UID or resourceVersion is another.
    pub fn finalize(
        &mut self,
        name: &str,
        namespace: &Value,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        metadata::check_shape(namespace)?;
        metadata::check_name(namespace, name)?;
        let Some(current) = self.store.find_with_tree(&NAMESPACE, "", name) else {
            return Err(Status::not_found(&NAMESPACE, name));
        };
        metadata::check_locks(namespace, &NAMESPACE, &current)?;
        let mut object = current.value().clone();
        match namespace["spec"]["finalizers"].as_array() {
            Some(finalizers) if !finalizers.is_empty() => {
                object["spec"]["finalizers"] = finalizers.clone().into();
            }
            Some(_) | None => object["spec"] = json!({}),
        }
        let managed_fields = current.managed_fields().clone();
        self.write(&NAMESPACE, &current, object, managed_fields, options)
    }
}
