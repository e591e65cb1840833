//! Events are stored once, in the core form, and served in two.

use serde_json::{Map, Value};

/// Core field, events.k8s.io field; all others have the same name in both.
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// From the core form to that of events.k8s.io/v1.
pub fn to_events(event: Value) -> Value {
    rename(event, "events.k8s.io/v1", |(core, events)| (core, events))
}

/// From the form of events.k8s.io/v1 to the core one.
pub fn to_core(event: Value) -> Value {
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
    let moved: Map<String, Value> = FIELDS
        .into_iter()
        .map(direction)
        .filter_map(|(from, to)| Some((to.to_string(), fields.remove(from)?)))
        .collect();
    fields.extend(moved);
    fields.insert("apiVersion".to_string(), Value::from(api_version));
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// S2: the two forms of an Event carry the same, there and back.
    #[test]
    fn an_event_survives_the_way_to_the_other_form_and_back() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "Pulled", "message": "m", "count": 3,
            "involvedObject": {"name": "pod"}, "source": {"component": "kubelet"}, "reportingComponent": "kubelet",
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
