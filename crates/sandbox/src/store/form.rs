//! The forms in which an object is served besides the one in which it is stored: an Event in that
//! of events.k8s.io (S2), and a custom resource in each of its versions (S15).

use std::sync::Arc;

use crate::json::{Map, Value};

use super::log::Change;
use crate::kind::Kind;
use crate::object::Object;

/// The fields whose names differ: in the core form, then in events.k8s.io.
const RENAMED_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// A stored object in the form of `kind`. Only events.k8s.io Events and custom resources differ
/// from their stored form.
pub(crate) fn served_form(kind: &Kind, object: &Arc<Object>) -> Arc<Object> {
    match (&kind.custom, kind.stored_as) {
        (Some(_), _) => in_version(kind, object),
        (None, None) => object.clone(),
        (None, Some(_)) => Arc::new(Object::new(
            to_events(object.read().into_owned()),
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
        (None, Some(_)) => to_core(object),
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

fn to_events(event: Value) -> Value {
    rename(event, "events.k8s.io/v1", |(core, events)| (core, events))
}

fn to_core(event: Value) -> Value {
    rename(event, "v1", |(core, events)| (events, core))
}

fn rename(
    event: Value,
    api_version: &str,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let Value::Object(mut fields) = event else {
        return event;
    };
    let moved: Map = RENAMED_FIELDS
        .into_iter()
        .map(direction)
        .filter_map(|(from, to)| Some((to.to_string(), fields.remove(from)?)))
        .collect();
    fields.extend(moved);
    fields.insert("apiVersion", Value::from(api_version));
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    /// S2: an Event keeps its content when it is converted to the other form and back.
    #[test]
    fn an_event_survives_conversion_to_the_other_form_and_back() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "Pulled",
            "message": "m", "count": 3, "involvedObject": {"name": "pod"},
            "source": {"component": "kubelet"}, "reportingComponent": "kubelet",
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        });
        let events = to_events(core.clone());
        assert_eq!(events["apiVersion"], "events.k8s.io/v1");
        assert_eq!(events["regarding"]["name"], "pod");
        assert_eq!(events["note"], "m");
        assert_eq!(events["deprecatedCount"], 3);
        assert_eq!(events.get("message"), None);
        assert_eq!(to_core(events), core);
    }
}
