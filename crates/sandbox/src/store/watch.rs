//! The watch event of a change for a watcher's selection (S7).

use std::sync::Arc;

use super::log::{Action, Change};
use crate::object::Object;
use crate::selector::Selector;

/// An event of a watch.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    /// The type of the event, which depends on the selection.
    pub action: Action,
    /// The object of the event.
    pub object: Arc<Object>,
}

/// The event of a change; `None` if the watcher does not select the object. An object that stops
/// matching is Deleted, in its last matching state with the resourceVersion of the change; one that
/// starts to match is Added.
pub fn watch_event(change: &Change, selector: &Selector) -> Option<WatchEvent> {
    let matches = |object: &Object| selector.matches(object);
    let before = change.previous.as_deref().is_some_and(matches);
    let after = match change.action {
        Action::Added | Action::Modified => matches(&change.object),
        Action::Deleted => false,
    };
    let (action, object) = match (before, after) {
        (false, false) => return None,
        (false, true) => (Action::Added, change.object.clone()),
        (true, true) => (Action::Modified, change.object.clone()),
        (true, false) => (Action::Deleted, deleted_state(change)),
    };
    Some(WatchEvent { action, object })
}

fn deleted_state(change: &Change) -> Arc<Object> {
    match (change.action, &change.previous) {
        (Action::Modified, Some(previous)) => {
            let mut value = previous.read().into_owned();
            value["metadata"]["resourceVersion"] = change.resource_version.to_string().into();
            Arc::new(Object::new(value, previous.managed_fields().clone()))
        }
        (Action::Added | Action::Modified | Action::Deleted, _) => change.object.clone(),
    }
}
