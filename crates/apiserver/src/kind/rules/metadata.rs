//! Validates `metadata`: names, labels, annotations, owners and finalizers (upstream's
//! `ValidateObjectMeta`).

use std::cell::LazyCell;
use std::collections::HashSet;

use super::field::{Causes, Field, go_json, go_quote, go_value};
use crate::excerpt::shortened;
use crate::format;
use crate::json::Value;
use crate::kind::Kind;

const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Validates the metadata of a new object.
pub fn on_create(kind: &Kind, object: &Field, causes: &mut Causes) {
    let metadata = object.child("metadata");
    let generate_name = metadata.child("generateName");
    causes.optional_format(&generate_name, |name| (kind.rules.names)(name, true));
    let name = metadata.child("name");
    if name.text().is_empty() {
        causes.required(&name, "name or generateName is required");
    } else {
        causes.invalid_each(&name, (kind.rules.names)(name.text(), false));
    }
    namespace(&metadata, kind.namespaced, causes);
    nonnegative(&metadata.child("generation"), causes);
    common(&metadata, causes);
    finalizers(&metadata.child("finalizers"), causes);
    for finalizer in metadata.child("finalizers").items() {
        kubernetes_finalizer(&finalizer, causes);
    }
}

/// Validates the metadata of a replacement.
pub fn on_update(object: &Field, old: &Field, causes: &mut Causes) {
    let (metadata, old) = (object.child("metadata"), old.child("metadata"));
    if metadata.value().is_shared_with(old.value()) {
        return;
    }
    common(&metadata, causes);
    finalizers(&metadata.child("finalizers"), causes);
    if old.child("deletionTimestamp").is_set() {
        no_new_finalizers(&metadata.child("finalizers"), &old.child("finalizers"), causes);
    }
    let resource_version = metadata.child("resourceVersion");
    if resource_version.text().is_empty() {
        causes.invalid_text(&resource_version, "", "must be specified for an update");
    }
    let generation = metadata.child("generation");
    nonnegative(&generation, causes);
    if generation.int() < old.child("generation").int() {
        causes.invalid_rendered(
            &generation,
            generation.int().to_string(),
            "must not be decremented",
        );
    }
    for name in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        immutable(&metadata.child(name), &old.child(name), causes);
    }
    for finalizer in metadata.child("finalizers").items() {
        kubernetes_finalizer(&finalizer, causes);
    }
}

/// Labels in metadata and in node selectors.
pub fn labels(labels: &Field, causes: &mut Causes) {
    for (key, value) in labels.entries() {
        causes.text_format(labels, key, format::label_key);
        causes.text_format(labels, value.text(), format::label_value);
    }
}

/// The keys of annotations, and their size.
pub fn annotations(annotations: &Field, causes: &mut Causes) {
    let mut bytes = 0;
    for (key, value) in annotations.entries() {
        bytes += key.len() + value.text().len();
        causes.text_format(annotations, key, |key| format::label_key(&key.to_lowercase()));
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        causes.too_long(annotations, ANNOTATIONS_BYTES_MAX);
    }
}

/// The value is not negative.
pub fn nonnegative(field: &Field, causes: &mut Causes) {
    if field.int() < 0 {
        causes.invalid(field, "must be greater than or equal to 0");
    }
}

/// `field` must equal `old`.
pub fn immutable(field: &Field, old: &Field, causes: &mut Causes) {
    if field.value() != old.value() && !(is_blank(field) && is_blank(old)) {
        let value = match field.value() {
            Value::Null if old.value().is_string() => go_quote(""),
            _ => go_value(field.value()),
        };
        causes.invalid_rendered(field, value, "field is immutable");
    }
}

/// An entry of a namespace's `spec.finalizers`.
pub fn finalizer_name(finalizer: &Field, causes: &mut Causes) {
    causes.invalid_each(finalizer, format::label_key(finalizer.text()));
    kubernetes_finalizer(finalizer, causes);
}

fn is_blank(field: &Field) -> bool {
    !field.is_set() || field.value().as_str() == Some("")
}

fn namespace(metadata: &Field, namespaced: bool, causes: &mut Causes) {
    let namespace = metadata.child("namespace");
    match (namespaced, namespace.text()) {
        (true, "") => causes.required(&namespace, ""),
        (true, text) => causes.invalid_each(&namespace, format::label_name(text, false)),
        (false, "") => {}
        (false, _) => causes.forbidden(&namespace, "not allowed on this type"),
    }
}

/// The rules of creates and updates.
fn common(metadata: &Field, causes: &mut Causes) {
    labels(&metadata.child("labels"), causes);
    annotations(&metadata.child("annotations"), causes);
    owner_references(&metadata.child("ownerReferences"), causes);
}

fn owner_references(owners: &Field, causes: &mut Causes) {
    let mut first_controller: Option<String> = None;
    // Rendered once, not for each owner.
    let shown = LazyCell::new(|| shortened(go_json(owners.value())));
    for owner in owners.items() {
        owner_reference(&owner, causes);
        if !owner.child("controller").is_true() {
            continue;
        }
        let controller = format!("{}/{}", owner.child("kind").text(), owner.child("name").text());
        match &first_controller {
            None => first_controller = Some(controller),
            Some(first) => causes.invalid_rendered(
                owners,
                shown.clone(),
                &format!(
                    "Only one reference can have Controller set to true. \
                     Found \"true\" in references for {first} and {controller}"
                ),
            ),
        }
    }
}

fn owner_reference(owner: &Field, causes: &mut Causes) {
    let api_version = owner.child("apiVersion");
    match api_version.text() {
        "" => causes.required(&api_version, "must not be empty"),
        text if text.matches('/').count() > 1 || text.ends_with('/') => {
            causes.invalid(&api_version, "must be <group>/<version> or <version>");
        }
        _ => {}
    }
    for name in ["kind", "name", "uid"] {
        let field = owner.child(name);
        if field.text().is_empty() {
            causes.required(&field, "must not be empty");
        }
    }
    if api_version.text() == "v1" && owner.child("kind").text() == "Event" {
        causes.invalid_rendered(
            owner,
            go_json(owner.value()),
            "/v1, Kind=Event is disallowed from being an owner",
        );
    }
}

fn finalizers(finalizers: &Field, causes: &mut Causes) {
    for finalizer in finalizers.items() {
        causes.text_format(finalizers, finalizer.text(), format::label_key);
    }
    let has = |name: &str| finalizers.items().any(|finalizer| finalizer.text() == name);
    if has("orphan") && has("foregroundDeletion") {
        let value = go_json(finalizers.value());
        causes.invalid_rendered(
            finalizers,
            value,
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
}

/// A finalizer without a domain must be one of Kubernetes' own.
fn kubernetes_finalizer(finalizer: &Field, causes: &mut Causes) {
    let text = finalizer.text();
    if !text.contains('/') && !STANDARD_FINALIZERS.contains(&text) {
        causes.invalid(
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

fn no_new_finalizers(finalizers: &Field, old: &Field, causes: &mut Causes) {
    let had: HashSet<String> = old.items().map(|finalizer| finalizer.text().to_owned()).collect();
    let mut extra: Vec<String> = finalizers
        .items()
        .map(|finalizer| finalizer.text().to_owned())
        .filter(|finalizer| !had.contains(finalizer))
        .collect();
    extra.sort_unstable();
    extra.dedup();
    if !extra.is_empty() {
        let extra: Vec<String> = extra.iter().map(|finalizer| go_quote(finalizer)).collect();
        causes.forbidden(
            finalizers,
            &format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                extra.join(", ")
            ),
        );
    }
}
