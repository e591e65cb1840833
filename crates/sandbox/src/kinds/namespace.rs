//! Namespaces.

use super::SERVICE_ACCOUNT;
use crate::format;
use crate::json::{Value, json};
use crate::kind::columns::{self, AGE, NAME};
use crate::kind::defaults::Literal::{Struct, Text};
use crate::kind::defaults::{Defaults, Fields, struct_at, text};
use crate::kind::rules::{self, Causes, Field, Rules, metadata};
use crate::kind::strategy::{Companion, InitialStatus, Strategy, keep};
use crate::kind::{FieldLabels, Kind, NO_COLLECTION, Subresource, named};

/// The label with a namespace's own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Namespaces.
pub static NAMESPACE: Kind = Kind {
    short_names: &["ns"],
    namespaced: false,
    verbs: NO_COLLECTION,
    subresources: &[Subresource::Finalize, Subresource::Status],
    field_labels: FieldLabels::Listed(&["status.phase", "name"]),
    columns: &[
        NAME,
        columns::text("Status", "/status/phase").about("The status of the namespace"),
        AGE,
    ],
    defaults: Defaults {
        values: &[("spec", Struct), ("status.phase", Text("Active"))],
        more: name_label,
        ..Defaults::NONE
    },
    rules: Rules {
        names: format::label_name,
        on_create,
        on_update: |_, object, old, causes| metadata::on_update(object, old, causes),
        on_status_update,
        ..Rules::NONE
    },
    strategy: Strategy {
        initial_status: InitialStatus::Of(|_| json!({"phase": "Active"})),
        prepare_create,
        prepare_update: |object, current| keep(object, current, "spec"),
        companion: Some(default_service_account),
        check_delete,
        mark_deleted: |namespace| namespace["status"]["phase"] = "Terminating".into(),
        has_spec_finalizers: true,
        ..Strategy::PLAIN
    },
    ..named("", "Namespace", "namespaces", "namespace")
};

/// The namespaces that may not be deleted.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

fn check_delete(name: &str) -> Result<(), String> {
    if PROTECTED.contains(&name) {
        return Err("this namespace may not be deleted".to_owned());
    }
    Ok(())
}

/// The service account which pods use unless they name another.
fn default_service_account(namespace: &str) -> Companion {
    let object = json!({"metadata": {"name": "default"}});
    Companion { kind: &SERVICE_ACCOUNT, namespace: namespace.to_owned(), object }
}

fn name_label(fields: &mut Fields, _: &Value) {
    let metadata = struct_at(fields, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        struct_at(metadata, "labels").insert(NAME_LABEL, name.into());
    }
}

/// A new namespace may have a generated name, which the defaults did not know.
fn prepare_create(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    object["metadata"]["labels"][NAME_LABEL] = name;
    let finalizers = &mut object["spec"]["finalizers"];
    let kubernetes = Value::from("kubernetes");
    match finalizers.as_array_mut() {
        Some(finalizers) if finalizers.contains(&kubernetes) => {}
        Some(finalizers) => finalizers.push(kubernetes),
        None => *finalizers = json!([kubernetes]),
    }
}

fn on_create(kind: &Kind, object: &Field, causes: &mut Causes) {
    rules::on_create(kind, object, causes);
    let spec = object.child("spec");
    let finalizers = spec.child("finalizers");
    for finalizer in finalizers.items() {
        metadata::finalizer_name(&finalizers.with_value(finalizer.value()), causes);
    }
}

fn on_status_update(_: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    let status = object.child("status");
    let (phase, path) = (status.child("phase"), status.child("Phase"));
    let is_terminating = object.child("metadata").child("deletionTimestamp").is_set();
    let (expected, is_or_not) =
        if is_terminating { ("Terminating", "is not") } else { ("Active", "is") };
    if phase.text() != expected {
        let detail = format!("may only be '{expected}' if `deletionTimestamp` {is_or_not} empty");
        causes.invalid_text(&path, phase.text(), &detail);
    }
}
