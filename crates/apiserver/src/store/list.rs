//! Lists: selection, pages over a consistent snapshot, and older states (S6).
//!
//! A snapshot needs no memory: an older state is the current one without the later changes in the
//! log.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};

use super::form::served_form;
use super::log::Expired;
use super::table::Table;
use crate::kind::Kind;
use crate::object::Object;
use crate::selector::Selector;
use crate::status::Status;

/// The options of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// The selection.
    pub selector: Selector,
    /// Maximum number of items; 0 for all.
    pub limit: usize,
    /// The token of the previous page.
    pub continue_token: Option<String>,
    /// `None` means the newest state, and 0 any state, so that of the cache.
    pub resource_version: Option<u64>,
    /// How `resource_version` is matched.
    pub resource_version_match: Option<ResourceVersionMatch>,
}

/// The matching of a resourceVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// Exactly that state.
    Exact,
    /// That state or a newer one.
    NotOlderThan,
}

/// A list or a page of it.
#[derive(Clone, Debug)]
pub struct List {
    /// The state that the list shows; a watch can start from it.
    pub resource_version: u64,
    /// The selected objects, ordered by key.
    pub items: Vec<Arc<Object>>,
    /// The token of the next page; `None` on the last one.
    pub continue_token: Option<String>,
    /// The number of further items; as upstream, `None` with a selector, which would make it
    /// costly.
    pub remaining_item_count: Option<usize>,
}

/// A state, and the key after which a page starts.
struct Position {
    resource_version: u64,
    after: Option<String>,
}

/// The states that a list can show without a request for an exact one.
#[derive(Clone, Copy, Debug)]
pub(super) struct States {
    /// The resourceVersion of the store.
    pub newest: u64,
    /// The resourceVersion that the API server's cache has reached; not above the newest.
    pub cached: u64,
}

/// A page of `table`.
pub(super) fn list(
    kind: &'static Kind,
    table: &Table,
    options: &ListOptions,
    states: States,
) -> Result<List, Status> {
    let position = position(options, states)?;
    let namespace = options.selector.namespace.as_deref();
    let past_states = past_states(table, namespace, &position, states.newest)?;
    let mut page = Page::new(kind, options);
    let objects = merge(table, options, &position, &past_states);
    for (key, object) in objects {
        if !page.add(key, object) {
            break;
        }
    }
    Ok(page.finish(position.resource_version))
}

fn position(options: &ListOptions, states: States) -> Result<Position, Status> {
    if let Some(token) = &options.continue_token {
        if options.resource_version.is_some_and(|requested| requested != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return decode(token, states.newest);
    }
    let Some(requested) = options.resource_version else {
        return Ok(Position { resource_version: states.newest, after: None });
    };
    let is_exact = match options.resource_version_match {
        Some(ResourceVersionMatch::Exact) => true,
        Some(ResourceVersionMatch::NotOlderThan) => false,
        // As upstream: a page with a resourceVersion shows exactly that state.
        None => options.limit > 0 && requested > 0,
    };
    let known = if is_exact { states.newest } else { states.cached };
    if requested > known {
        return Err(Status::too_large_resource_version(requested, known));
    }
    Ok(Position { resource_version: if is_exact { requested } else { known }, after: None })
}

/// The former state of each object of the listed namespace that has changed since the position;
/// `None` if it did not exist.
type PastStates = BTreeMap<String, Option<Arc<Object>>>;

fn past_states(
    table: &Table,
    namespace: Option<&str>,
    position: &Position,
    current: u64,
) -> Result<PastStates, Status> {
    let mut past_states = PastStates::new();
    if position.resource_version >= current {
        return Ok(past_states);
    }
    let expired = |_: Expired| match &position.after {
        Some(key) => Status::expired(INCONSISTENT).with_continue_token(encode(LATEST, key)),
        None => Status::expired("The resourceVersion for the provided list is too old."),
    };
    for change in table.log.after(position.resource_version).map_err(expired)? {
        // The others are not listed, and their number is nobody else's business.
        if namespace.is_some_and(|namespace| namespace != change.object.namespace()) {
            continue;
        }
        past_states
            .entry(super::table::key(change.object.namespace(), change.object.name()))
            .or_insert_with(|| change.previous.clone());
    }
    Ok(past_states)
}

/// The objects at the position, ordered by key: the current ones, replaced by their past states.
fn merge<'a>(
    table: &'a Table,
    options: &'a ListOptions,
    position: &'a Position,
    past_states: &'a PastStates,
) -> Box<dyn Iterator<Item = (&'a str, &'a Arc<Object>)> + 'a> {
    let namespace = options.selector.namespace.as_deref();
    let after = position.after.as_deref();
    if past_states.is_empty() {
        if let Some(node) = options.selector.fields.exact("spec.nodeName")
            && table.kind().is_indexed_by_node
            && !node.is_empty()
            && after.is_none()
            && options.limit == 0
        {
            return Box::new(table.on_node(node).map(|object| ("", object)));
        }
        return Box::new(table.range(namespace, after));
    }
    let present = table.range(namespace, after);
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let past = past_states.range::<str, _>((start, Bound::Unbounded));
    Box::new(overlay(present, past.map(|(key, state)| (key.as_str(), state.as_ref()))))
}

/// Merges two sequences ordered by key. If both have a key, the past state counts, even if it is
/// empty. Lazy, so that a page costs only what it shows.
fn overlay<'a>(
    present: impl Iterator<Item = (&'a str, &'a Arc<Object>)> + 'a,
    past: impl Iterator<Item = (&'a str, Option<&'a Arc<Object>>)> + 'a,
) -> impl Iterator<Item = (&'a str, &'a Arc<Object>)> + 'a {
    let (mut present, mut past) = (present.peekable(), past.peekable());
    std::iter::from_fn(move || {
        loop {
            let Some((key, _)) = past.peek() else { return present.next() };
            if let Some(unchanged) = present.next_if(|(other, _)| other < key) {
                return Some(unchanged);
            }
            present.next_if(|(other, _)| other == key);
            if let Some((key, Some(object))) = past.next() {
                return Some((key, object));
            }
        }
    })
}

struct Page<'a> {
    kind: &'static Kind,
    options: &'a ListOptions,
    items: Vec<Arc<Object>>,
    last_key: String,
    remaining: usize,
}

impl<'a> Page<'a> {
    fn new(kind: &'static Kind, options: &'a ListOptions) -> Self {
        Page { kind, options, items: Vec::new(), last_key: String::new(), remaining: 0 }
    }

    /// Adds an object if it is selected. Returns false once further objects don't matter.
    fn add(&mut self, key: &str, object: &Arc<Object>) -> bool {
        let is_full = self.options.limit > 0 && self.items.len() == self.options.limit;
        // The number of further items is reported only without a selector, so these need not be
        // read.
        if is_full && !self.options.selector.selects() {
            self.remaining += 1;
            return true;
        }
        let object = served_form(self.kind, object);
        if !self.options.selector.matches(self.kind, &object) {
            return true;
        }
        if is_full {
            self.remaining += 1;
            return false;
        }
        self.last_key.clear();
        self.last_key.push_str(key);
        self.items.push(object);
        true
    }

    fn finish(self, resource_version: u64) -> List {
        let remaining = self.remaining > 0;
        List {
            resource_version,
            items: self.items,
            continue_token: remaining
                .then(|| encode(&resource_version.to_string(), &self.last_key)),
            remaining_item_count: (remaining && !self.options.selector.selects())
                .then_some(self.remaining),
        }
    }
}

/// Stands for the newest state in the token of an inconsistent continuation.
const LATEST: &str = "-1";

const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent \
    list result. You can start a new list without the continue parameter, or use the continue \
    token in this response to retrieve the remainder of the results. Continuing with the provided \
    token results in an inconsistent list - objects that were created, modified, or deleted \
    between the time the first chunk was returned and now may show up in the list.";

/// A token is `RESOURCE_VERSION KEY` in base64, which clients must not interpret.
fn encode(resource_version: &str, key: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{resource_version} {key}"))
}

fn decode(token: &str, current: u64) -> Result<Position, Status> {
    let invalid =
        || Status::bad_request("continue key is not valid: it is no token of this server");
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|_| invalid())?;
    let text = String::from_utf8(bytes).map_err(|_| invalid())?;
    let (resource_version, key) = text.split_once(' ').ok_or_else(invalid)?;
    let resource_version = match resource_version.parse() {
        Ok(known) if known <= current => known,
        Err(_) if resource_version == LATEST => current,
        Ok(_) | Err(_) => return Err(invalid()),
    };
    Ok(Position { resource_version, after: Some(key.to_string()) })
}
