//! Lists: selected, in pages over one consistent snapshot, at a resourceVersion that can be asked for (S6).
//!
//! A snapshot costs nothing to keep: an older state is the present one with the changes since then undone from the log.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::event_form::served_form;
use super::log::Expired;
use super::table::Table;
use crate::kind::{Kind, Strategy};
use crate::object::Object;
use crate::selector::Selector;
use crate::status::Status;

#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    pub selector: Selector,
    /// Items per page; 0 for all.
    pub limit: usize,
    /// The token of the page before.
    pub continue_token: Option<String>,
    /// None and 0 mean any state; the store always has the newest.
    pub resource_version: Option<u64>,
    pub resource_version_match: Option<ResourceVersionMatch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    Exact,
    NotOlderThan,
}

#[derive(Clone, Debug)]
pub struct List {
    /// The state that the list shows: a watch goes on from here.
    pub resource_version: u64,
    pub items: Vec<Arc<Object>>,
    /// For the next page; None on the last one.
    pub continue_token: Option<String>,
    /// How many follow; None where a selector makes that costly, as upstream.
    pub remaining_item_count: Option<usize>,
}

/// Which state, and from which key on.
struct Position {
    resource_version: u64,
    after: Option<String>,
}

/// A page of `table` as `options` ask for it; `current` is the store's resourceVersion.
pub(super) fn list(
    kind: &'static Kind,
    table: &Table,
    options: &ListOptions,
    current: u64,
) -> Result<List, Status> {
    let position = position(options, current)?;
    let past_states = past_states(table, &position, current)?;
    let mut page = Page::new(kind, options);
    let objects = merge(table, options, &position, &past_states);
    for (key, object) in objects {
        if !page.add(key, object) {
            break;
        }
    }
    Ok(page.finish(position.resource_version))
}

fn position(options: &ListOptions, current: u64) -> Result<Position, Status> {
    if let Some(token) = &options.continue_token {
        if options.resource_version.is_some_and(|asked| asked != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return decode(token, current);
    }
    let asked = options.resource_version.unwrap_or(0);
    if asked > current {
        return Err(Status::too_large_resource_version(asked, current));
    }
    let exact = match options.resource_version_match {
        Some(ResourceVersionMatch::Exact) => true,
        Some(ResourceVersionMatch::NotOlderThan) => false,
        // As upstream: a page at a resourceVersion is a page of exactly that state.
        None => options.limit > 0 && asked > 0,
    };
    Ok(Position { resource_version: if exact { asked } else { current }, after: None })
}

/// The objects that are different now from what they were at the position: key to the state then.
type PastStates = BTreeMap<String, Option<Arc<Object>>>;

fn past_states(table: &Table, position: &Position, current: u64) -> Result<PastStates, Status> {
    let mut past_states = PastStates::new();
    if position.resource_version >= current {
        return Ok(past_states);
    }
    let expired = |_: Expired| match &position.after {
        Some(key) => Status::expired(INCONSISTENT).with_continue_token(encode(LATEST, key)),
        None => Status::expired("The resourceVersion for the provided list is too old."),
    };
    for change in table.log.after(position.resource_version).map_err(expired)? {
        past_states
            .entry(super::table::key(change.object.namespace(), change.object.name()))
            .or_insert_with(|| change.previous.clone());
    }
    Ok(past_states)
}

/// The state at the position: the present one, with the past_states laid over it, in the order of the keys.
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
            && table.kind().strategy == Strategy::Pod
            && !node.is_empty()
            && after.is_none()
            && options.limit == 0
        {
            return Box::new(table.on_node(node).map(|object| ("", object)));
        }
        return Box::new(table.range(namespace, after).map(|(key, object)| (key.as_str(), object)));
    }
    let present = table.range(namespace, after).map(|(key, object)| (key.as_str(), object));
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let past = past_states.range::<str, _>((start, Bound::Unbounded));
    Box::new(overlay(present, past.map(|(key, state)| (key.as_str(), state.as_ref()))))
}

/// Both in the order of their keys; where both have a key, what it was counts, even if that was nothing. Lazy: a page
/// costs what it shows, however many objects there are.
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

    /// False once nothing that follows can matter.
    fn add(&mut self, key: &str, object: &Arc<Object>) -> bool {
        let is_full = self.options.limit > 0 && self.items.len() == self.options.limit;
        // How many follow is told only where nothing is selected; to count them, none has to be looked at.
        if is_full && !self.options.selector.selects() {
            self.remaining += 1;
            return true;
        }
        let object = served_form(self.kind, object);
        if !self.options.selector.matches(&object) {
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

/// In a token in place of a resourceVersion: to go on with the state as it is then.
const LATEST: &str = "-1";

const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
     the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
     Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
     deleted between the time the first chunk was returned and now may show up in the list.";

/// Tokens are opaque to clients: hexadecimal digits of `RESOURCE_VERSION KEY`.
fn encode(resource_version: &str, key: &str) -> String {
    format!("{resource_version} {key}").bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(token: &str, current: u64) -> Result<Position, Status> {
    let invalid =
        || Status::bad_request("continue key is not valid: it is no token of this server");
    let bytes: Option<Vec<u8>> = token
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            let digits = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(digits, 16).ok()
        })
        .collect();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(invalid)?;
    let (resource_version, key) = text.split_once(' ').ok_or_else(invalid)?;
    let resource_version = match resource_version.parse() {
        Ok(known) if known <= current => known,
        Err(_) if resource_version == LATEST => current,
        Ok(_) | Err(_) => return Err(invalid()),
    };
    Ok(Position { resource_version, after: Some(key.to_string()) })
}
