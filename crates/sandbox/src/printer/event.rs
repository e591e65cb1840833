//! Tables of Events, in the core form and in that of events.k8s.io.

use everynode_core::api::Timestamp;

use super::{Column, NAME, Printer, duration, name};
use crate::json::{Value, json};
use crate::value::{integer, is_set, string};

pub(super) const PRINTER: Printer = Printer {
    columns: &[
        Column::new("Last Seen", "The time since the event was last seen"),
        Column::new("Type", "Normal or Warning"),
        Column::new("Reason", "The reason, as a machine-readable word"),
        Column::new("Object", "The object that the event is about"),
        Column::new("Subobject", "The part of the object that the event is about").wide(),
        Column::new("Source", "The component that reported the event").wide(),
        Column::new("Message", "A description of what happened"),
        Column::new("First Seen", "The time since the event was first seen").wide(),
        Column::new("Count", "The number of times the event was seen").wide(),
        NAME.wide(),
    ],
    cells,
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let (first_seen, last_seen, count) = seen(object, now);
    vec![
        last_seen.into(),
        string(object, "/type").into(),
        string(object, "/reason").into(),
        target(object).into(),
        involved(object, "fieldPath").into(),
        source(object).into(),
        first_set(object, &["/message", "/note"]).trim().into(),
        first_seen.into(),
        json!(count),
        name(object).into(),
    ]
}

/// The times of the first and the last occurrence, and their number. A series takes precedence over
/// the deprecated fields.
fn seen(object: &Value, now: Timestamp) -> (String, String, i64) {
    let since = |timestamp: &str| duration::since(timestamp, now);
    let first = first_set(object, &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]);
    if is_set(object, "/series") {
        let last = string(object, "/series/lastObservedTime");
        return (since(first), since(last), integer(object, "/series/count"));
    }
    let last = first_set(object, &["/lastTimestamp", "/deprecatedLastTimestamp"]);
    let last = if last.is_empty() { first } else { last };
    let count = integer(object, "/count").max(integer(object, "/deprecatedCount")).max(1);
    (since(first), since(last), count)
}

fn target(object: &Value) -> String {
    let kind = involved(object, "kind").to_lowercase();
    match involved(object, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(object: &Value) -> String {
    let component = first_set(
        object,
        &["/source/component", "/deprecatedSource/component", "/reportingComponent"],
    );
    let component =
        if component.is_empty() { string(object, "/reportingController") } else { component };
    let instance =
        first_set(object, &["/source/host", "/deprecatedSource/host", "/reportingInstance"]);
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}

/// A field of the object that the event is about, in either form.
fn involved<'a>(object: &'a Value, field: &str) -> &'a str {
    let core = string(object, &format!("/involvedObject/{field}"));
    if core.is_empty() { string(object, &format!("/regarding/{field}")) } else { core }
}

fn first_set<'a>(object: &'a Value, paths: &[&str]) -> &'a str {
    paths.iter().map(|path| string(object, path)).find(|text| !text.is_empty()).unwrap_or("")
}
