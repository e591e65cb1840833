//! The forms in which an object is served besides the one in which it is stored: that of a kind
//! that is stored as another one (S2), and a custom resource in each of its versions (S15).

use std::sync::Arc;

use crate::json::Value;

use super::log::Change;
use crate::kind::Kind;
use crate::object::Object;

/// A stored object in the form of `kind`.
pub(crate) fn served_form(kind: &Kind, object: &Arc<Object>) -> Arc<Object> {
    match (&kind.custom, kind.stored_as) {
        (Some(_), _) => in_version(kind, object),
        (None, None) => object.clone(),
        (None, Some(_)) => Arc::new(Object::new(
            (kind.strategy.to_served)(object.read().into_owned()),
            object.managed_fields().clone(),
        )),
    }
}

/// Changes in the form of `kind`.
pub(super) fn served_changes(kind: &Kind, changes: Vec<Arc<Change>>) -> Vec<Arc<Change>> {
    if kind.stored_as.is_none() && kind.custom.is_none() {
        return changes;
    }
    let served = |change: Arc<Change>| {
        Arc::new(Change {
            resource_version: change.resource_version,
            action: change.action,
            object: served_form(kind, &change.object),
            previous: change.previous.as_ref().map(|object| served_form(kind, object)),
        })
    };
    changes.into_iter().map(served).collect()
}

/// An object in the form of `kind`, converted to the form in which it is stored.
pub(crate) fn stored_form(kind: &Kind, object: Value) -> Value {
    match (&kind.custom, kind.stored_as) {
        (None, None) => object,
        (None, Some(_)) => (kind.strategy.to_stored)(object),
        (Some(_), _) => {
            let mut object = object;
            let storage = kind.stored_as.unwrap_or(kind);
            object["apiVersion"] = storage.api_version().into();
            object
        }
    }
}

/// A custom resource in a version of its kind: all versions have the same fields (S15). As
/// upstream, defaults that its definition got later are set when it is read.
fn in_version(kind: &Kind, object: &Arc<Object>) -> Arc<Object> {
    let Some(custom) = kind.custom() else { return object.clone() };
    if !custom.has_versions && !custom.completes_on_read {
        return object.clone();
    }
    let api_version = kind.api_version();
    let mut value = object.read();
    let has_version = value["apiVersion"] == api_version;
    let is_complete = !custom.completes_on_read || !custom.lacks_defaults(&value);
    if has_version && is_complete {
        return object.clone();
    }
    let served = value.to_mut();
    if !has_version {
        served["apiVersion"] = api_version.into();
    }
    if !is_complete {
        custom.apply_defaults(served);
    }
    Arc::new(Object::new(value.into_owned(), object.managed_fields().clone()))
}
