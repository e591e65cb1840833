//! Validates Events in the core form and, with stricter rules, in that of events.k8s.io.

use super::field::{Causes, Field, go_quote};
use super::metadata::immutable;
use super::{format, metadata};

const NAME_BYTES_MAX: usize = 128;
const NOTE_BYTES_MAX: usize = 1024;

/// `new_form` is true for an object of events.k8s.io/v1 and false for one of core/v1.
pub(super) fn on_create(object: &Field, new_form: bool, causes: &mut Causes) {
    either_form(object, new_form, causes);
    if new_form {
        series_form(object, causes);
        for name in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
            must_be_unset(object, name, object.child(name).is_set(), causes);
        }
        must_be_unset(
            object,
            "deprecatedCount",
            object.child("deprecatedCount").int() != 0,
            causes,
        );
        must_be_unset(
            object,
            "deprecatedSource",
            !object.child("deprecatedSource").is_empty(),
            causes,
        );
    }
    metadata::on_create_generic(object, causes);
}

pub(super) fn on_update(object: &Field, old: &Field, new_form: bool, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    either_form(object, new_form, causes);
    if new_form {
        series_form(object, causes);
        for name in [
            "regarding",
            "related",
            "reason",
            "note",
            "type",
            "reportingController",
            "reportingInstance",
            "action",
            "eventTime",
        ] {
            immutable(&object.child(name), &old.child(name), causes);
        }
    }
}

/// The rules of both forms. An event with an eventTime must also name its reporter.
fn either_form(object: &Field, new_form: bool, causes: &mut Causes) {
    let namespace = object.child("metadata").child("namespace").text().to_owned();
    let subject = object.child(if new_form { "regarding" } else { "involvedObject" });
    let subject_namespace = subject.child("namespace");
    let matches = match (object.child("eventTime").is_set(), subject_namespace.text()) {
        (false, "") => namespace.is_empty() || namespace == "default",
        (false, other) => other == namespace,
        (true, "") => namespace == "default" || namespace == "kube-system",
        (true, _) => true,
    };
    if !matches {
        let value = go_quote(subject_namespace.text());
        causes.invalid_rendered(&subject_namespace, value, "does not match event.namespace");
    }
    if object.child("eventTime").is_set() {
        reporter(object, new_form, causes);
    }
    for message in format::dns_subdomain(&namespace) {
        causes.invalid_rendered(&object.child("namespace"), go_quote(&namespace), &message);
    }
}

fn reporter(object: &Field, new_form: bool, causes: &mut Causes) {
    let controller =
        object.child(if new_form { "reportingController" } else { "reportingComponent" });
    if controller.text().is_empty() {
        causes.required(&controller, "");
    }
    for message in format::label_key(controller.text()) {
        causes.invalid_rendered(&controller, go_quote(controller.text()), &message);
    }
    for name in ["reportingInstance", "action", "reason"] {
        let field = object.child(name);
        if field.text().is_empty() {
            causes.required(&field, "");
        }
        at_most(&field, NAME_BYTES_MAX, causes);
    }
    at_most(&object.child(if new_form { "note" } else { "message" }), NOTE_BYTES_MAX, causes);
}

fn at_most(field: &Field, bytes_max: usize, causes: &mut Causes) {
    if field.text().len() > bytes_max {
        causes.invalid_rendered(
            field,
            go_quote(""),
            &format!("can have at most {bytes_max} characters"),
        );
    }
}

fn series_form(object: &Field, causes: &mut Causes) {
    let event_time = object.child("eventTime");
    if !event_time.is_set() {
        causes.required(&event_time, "");
    }
    let series = object.child("series");
    if series.is_set() {
        let count = series.child("count");
        if count.int() < 2 {
            causes.invalid_rendered(&count, go_quote(""), "should be at least 2");
        }
        let last = series.child("lastObservedTime");
        if !last.is_set() {
            causes.required(&last, "");
        }
    }
    let event_type = object.child("type");
    if !["Normal", "Warning"].contains(&event_type.text()) {
        let detail = format!("has invalid value: {}", event_type.text());
        causes.invalid_rendered(&event_type, go_quote(""), &detail);
    }
}

fn must_be_unset(object: &Field, name: &str, set: bool, causes: &mut Causes) {
    if set {
        causes.invalid_rendered(&object.child(name), go_quote(""), "needs to be unset");
    }
}
