//! Reads that lack the latest writes (S17).

use std::sync::Arc;

use crate::kind::Kind;
use crate::object::Object;
use crate::selector::{FieldSelector, Selector};
use crate::status::Status;
use crate::store::{List, ListOptions, ResourceVersionMatch, Store};

/// A list that lacks the latest `writes_behind` writes, as far back as the store's log and the
/// options allow. `None` lists the current state.
pub(crate) fn list(
    store: &Store,
    kind: &'static Kind,
    options: &ListOptions,
    writes_behind: Option<u64>,
) -> Result<List, Status> {
    let Some(behind) = writes_behind else { return store.list(kind, options) };
    let at = store.resource_version().saturating_sub(behind);
    let at = at.max(options.resource_version.unwrap_or(0));
    let exact = ListOptions {
        resource_version: Some(at),
        resource_version_match: Some(ResourceVersionMatch::Exact),
        ..options.clone()
    };
    store.list(kind, &exact).or_else(|_| store.list(kind, options))
}

/// An object as it was before the latest `writes_behind` writes. `None` gets the current state.
pub(crate) fn get(
    store: &Store,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
    writes_behind: Option<u64>,
) -> Result<Arc<Object>, Status> {
    let Some(behind) = writes_behind else { return store.get(kind, namespace, name) };
    let fields = FieldSelector::equals("metadata.name", name);
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let selector =
        Selector { namespace: namespace.map(str::to_owned), fields, ..Selector::default() };
    let options = ListOptions { selector, ..ListOptions::default() };
    let list = self::list(store, kind, &options, Some(behind))?;
    list.items.into_iter().next().ok_or_else(|| Status::not_found(kind, name))
}
