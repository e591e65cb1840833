//! Events in the core form and in that of events.k8s.io, whose rules are stricter. Both kinds serve
//! the same objects.

use everynode_core::api::Timestamp;

use crate::format;
use crate::json::{Map, Value, json};
use crate::kind::columns::{self, Cell, Column, NAME, duration};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::{Struct, Text};
use crate::kind::rules::{Causes, Field, Rules, go_quote, metadata};
use crate::kind::strategy::Strategy;
use crate::kind::{FieldLabels, Kind, named};
use crate::value::{integer, is_set, string};

/// Events of the core group.
pub static EVENT: Kind = Kind {
    field_labels: FieldLabels::Listed(&[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ]),
    field_values: &[("source", |event| {
        first_set(event, &["/source/component", "/reportingComponent"]).to_owned()
    })],
    defaults: Defaults {
        // The fields that Go always writes.
        values: &[
            ("involvedObject", Struct),
            ("source", Struct),
            ("reportingComponent", Text("")),
            ("reportingInstance", Text("")),
        ],
        ..Defaults::NONE
    },
    also_served: &["events.k8s.io/v1"],
    ..in_group("")
};

/// Events of events.k8s.io: a newer form of the same objects as [`EVENT`].
pub static EVENTS_EVENT: Kind = Kind {
    field_labels: FieldLabels::Listed(&[
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reason",
        "reportingController",
        "type",
    ]),
    stored_as: Some(&EVENT),
    also_served: &["v1"],
    strategy: Strategy { to_served: to_events, to_stored: to_core, ..STRATEGY },
    ..in_group(NEW_GROUP)
};

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

const NEW_GROUP: &str = "events.k8s.io";

const STRATEGY: Strategy = Strategy { is_created_by_update: true, ..Strategy::PLAIN };

const fn in_group(group: &'static str) -> Kind {
    Kind {
        short_names: &["ev"],
        columns: COLUMNS,
        rules: Rules { names: format::path_segment, on_create, on_update, ..Rules::NONE },
        strategy: STRATEGY,
        ..named(group, "Event", "events", "event")
    }
}

const COLUMNS: &[Column] = &[
    Column::new("Last Seen", Cell::At(last_seen)).about("The time since the event was last seen"),
    columns::text("Type", "/type").about("Normal or Warning"),
    columns::text("Reason", "/reason").about("The reason, as a machine-readable word"),
    columns::of("Object", target).about("The object that the event is about"),
    columns::of("Subobject", |event| involved(event, "fieldPath").into())
        .about("The part of the object that the event is about")
        .wide(),
    columns::of("Source", source).about("The component that reported the event").wide(),
    columns::of("Message", |event| first_set(event, &["/message", "/note"]).trim().into())
        .about("A description of what happened"),
    Column::new("First Seen", Cell::At(|event, now| duration::since(first(event), now).into()))
        .about("The time since the event was first seen")
        .wide(),
    columns::of("Count", count).about("The number of times the event was seen").wide(),
    NAME.wide(),
];

/// The time of the first occurrence.
fn first(event: &Value) -> &str {
    first_set(event, &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"])
}

/// A series takes precedence over the deprecated fields.
fn last_seen(event: &Value, now: Timestamp) -> Value {
    let last = if is_set(event, "/series") {
        string(event, "/series/lastObservedTime")
    } else {
        match first_set(event, &["/lastTimestamp", "/deprecatedLastTimestamp"]) {
            "" => first(event),
            last => last,
        }
    };
    duration::since(last, now).into()
}

fn count(event: &Value) -> Value {
    if is_set(event, "/series") {
        return json!(integer(event, "/series/count"));
    }
    json!(integer(event, "/count").max(integer(event, "/deprecatedCount")).max(1))
}

fn target(event: &Value) -> Value {
    let kind = involved(event, "kind").to_lowercase();
    match involved(event, "name") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn source(event: &Value) -> Value {
    let component = first_set(
        event,
        &[
            "/source/component",
            "/deprecatedSource/component",
            "/reportingComponent",
            "/reportingController",
        ],
    );
    match first_set(event, &["/source/host", "/deprecatedSource/host", "/reportingInstance"]) {
        "" => component.into(),
        instance => format!("{component}, {instance}").into(),
    }
}

/// A field of the object that the event is about, in either form.
fn involved<'a>(event: &'a Value, field: &str) -> &'a str {
    let core = string(event, &format!("/involvedObject/{field}"));
    if core.is_empty() { string(event, &format!("/regarding/{field}")) } else { core }
}

fn first_set<'a>(event: &'a Value, paths: &[&str]) -> &'a str {
    paths.iter().map(|path| string(event, path)).find(|text| !text.is_empty()).unwrap_or("")
}

const NAME_BYTES_MAX: usize = 128;
const NOTE_BYTES_MAX: usize = 1024;

fn on_create(kind: &Kind, object: &Field, causes: &mut Causes) {
    check(kind, object, causes);
    metadata::on_create(kind, object, causes);
}

fn on_update(kind: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    check(kind, object, causes);
}

/// Events are in the namespace of their object, and those with an eventTime, as all of the newer
/// form, name their reporter.
fn check(kind: &Kind, object: &Field, causes: &mut Causes) {
    let new_form = kind.group == NEW_GROUP;
    let event_time = object.child("eventTime");
    if new_form && !event_time.is_set() {
        causes.required(&event_time, "");
    }
    let namespace = object.child("metadata").child("namespace").text().to_owned();
    let subject = object.child(if new_form { "regarding" } else { "involvedObject" });
    let subject_namespace = subject.child("namespace");
    let matches = match (event_time.is_set(), subject_namespace.text()) {
        (false, "") => namespace.is_empty() || namespace == "default",
        (false, other) => other == namespace,
        (true, "") => namespace == "default" || namespace == "kube-system",
        (true, _) => true,
    };
    if !matches {
        let value = go_quote(subject_namespace.text());
        causes.invalid_rendered(&subject_namespace, value, "does not match event.namespace");
    }
    if event_time.is_set() {
        reporter(object, new_form, causes);
    }
    causes.text_format(&object.child("namespace"), &namespace, format::dns_subdomain);
}

fn reporter(object: &Field, new_form: bool, causes: &mut Causes) {
    let controller =
        object.child(if new_form { "reportingController" } else { "reportingComponent" });
    causes.required_text(&controller);
    causes.text_format(&controller, controller.text(), format::label_key);
    for name in ["reportingInstance", "action", "reason"] {
        let field = object.child(name);
        causes.required_text(&field);
        at_most(&field, NAME_BYTES_MAX, causes);
    }
    at_most(&object.child(if new_form { "note" } else { "message" }), NOTE_BYTES_MAX, causes);
}

fn at_most(field: &Field, bytes_max: usize, causes: &mut Causes) {
    if field.text().len() > bytes_max {
        causes.invalid_text(field, "", &format!("can have at most {bytes_max} characters"));
    }
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
