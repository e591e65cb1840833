//! What a change means to one watcher, given what it selects (S7).

use std::sync::Arc;

use serde_json::Value;

use super::log::{Action, Change};
use crate::object::Object;
use crate::selector::Selector;

/// One event of a watch; `action` is what the watcher is told, which depends on its selector.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    pub action: Action,
    pub object: Arc<Object>,
}

/// None if the change does not concern the watcher. An object that stops matching is Deleted (in the last state that
/// matched, with the change's resourceVersion), one that starts to match is Added.
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
            value["metadata"]["resourceVersion"] =
                Value::String(change.resource_version.to_string());
            Arc::new(Object::new(value))
        }
        (Action::Added | Action::Modified | Action::Deleted, _) => change.object.clone(),
    }
}
