//! What a write may do (S8–S11): the rules between a request and the store.
//!
//! Each write goes the same way: metadata that is the server's is set, defaults and admission fill in, the kind's strategy
//! guards what this endpoint may not change, validation refuses, and the store writes it down. Nothing here keeps state.

mod admission;
mod delete;
mod event;
mod metadata;
mod namespace;
mod pod;
mod rules;
mod strategy;
mod update;

use std::sync::Arc;

use serde_json::Value;

use crate::kind::{Kind, Strategy};
use crate::object::Object;
use crate::patch::PatchType;
use crate::status::Status;
use crate::store::{Action, Change, Store, WriteOptions};

pub use delete::{FOREGROUND, ORPHAN, delete, delete_collection};
pub use namespace::finalize;
pub use pod::{bind, evict};
pub use update::{patch, update, update_status};

/// The namespaces that are there from the start.
pub const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// A patch as it came, and what it may change.
#[derive(Clone, Debug)]
pub struct Patch {
    pub patch_type: PatchType,
    pub body: Value,
    /// True for the status subresource.
    pub status: bool,
    /// Under strict validation what is wrong with the patch's own text: it is refused for that, and for fields that no
    /// type has.
    pub strict: Option<Vec<String>>,
}

pub fn create(
    store: &mut Store,
    kind: &'static Kind,
    namespace: &str,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Arc<Object>, Status> {
    metadata::check_shape(&object)?;
    rules::decode(kind, &object)?;
    metadata::check_namespace(&object, kind, namespace)?;
    if !crate::value::text(&object, &["metadata", "resourceVersion"]).is_empty() {
        return Err(Status::new(
            crate::status::Reason::Unknown,
            "resourceVersion should not be set on objects to be created",
        ));
    }
    metadata::prepare_create(&mut object, kind, namespace, options.now);
    rules::defaults(kind, &mut object);
    admission::namespace_exists(store, kind, &object)?;
    admission::on_create(store, kind, &mut object)?;
    let name = chosen_name(store, kind, namespace, &object);
    object["metadata"]["name"] = Value::from(name.as_str());
    strategy::prepare_create(kind, &mut object);
    rules::check(kind, &name, rules::on_create(kind, &object))?;
    if store.find(kind, namespace, &name).is_some() {
        return Err(Status::already_exists(kind, &name));
    }
    object["metadata"]["uid"] = Value::String(store.uid());
    if options.dry_run {
        return Ok(Arc::new(Object::new(object)));
    }
    admission::is_kept(kind, &name)?;
    let stored = store.commit(kind, Action::Added, stored_as(kind, object));
    if kind.strategy == Strategy::Namespace {
        namespace::furnish(store, &name, options);
    }
    Ok(served_as(kind, &stored))
}

/// The name asked for, or one made of generateName that is free.
fn chosen_name(store: &mut Store, kind: &'static Kind, namespace: &str, object: &Value) -> String {
    const ATTEMPTS: usize = 8;
    const BASE_LENGTH_MAX: usize = 58;
    let name = crate::value::text(object, &["metadata", "name"]);
    let base = crate::value::text(object, &["metadata", "generateName"]);
    if !name.is_empty() || base.is_empty() {
        return name.to_string();
    }
    let end = (0..=BASE_LENGTH_MAX.min(base.len()))
        .rev()
        .find(|end| base.is_char_boundary(*end))
        .unwrap_or(0);
    let mut name = String::new();
    for _ in 0..ATTEMPTS {
        name = format!("{}{}", &base[..end], store.name_suffix());
        if store.find(kind, namespace, &name).is_none() {
            break;
        }
    }
    name
}

/// A stored object in the form of `kind`; another than the stored one for the newer Events alone.
pub fn served_as(kind: &Kind, object: &Arc<Object>) -> Arc<Object> {
    match kind.stored_as {
        None => object.clone(),
        Some(_) => Arc::new(Object::new(event::to_events(object.read().into_owned()))),
    }
}

/// Changes in the form of `kind`.
pub fn changes_served_as(kind: &Kind, changes: Vec<Arc<Change>>) -> Vec<Arc<Change>> {
    if kind.stored_as.is_none() {
        return changes;
    }
    let served = |change: Arc<Change>| {
        Arc::new(Change {
            resource_version: change.resource_version,
            action: change.action,
            object: served_as(kind, &change.object),
            previous: change.previous.as_ref().map(|object| served_as(kind, object)),
        })
    };
    changes.into_iter().map(served).collect()
}

/// A request's object in the form in which it is stored.
fn stored_as(kind: &Kind, object: Value) -> Value {
    match kind.stored_as {
        None => object,
        Some(_) => event::to_core(object),
    }
}
