//! Defaults of Namespaces, Secrets, Events and role bindings.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Fields, default, struct_at, structs_in, text};
use crate::json::Value;

/// The label with a namespace's own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Sets the name label.
pub(super) fn namespace(fields: &mut Fields) {
    let metadata = struct_at(fields, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        struct_at(metadata, "labels").insert(NAME_LABEL.to_owned(), name.into());
    }
    struct_at(fields, "spec");
    default(struct_at(fields, "status"), "phase", "Active");
}

/// Moves the plain strings of a Secret to its base64 data.
pub(super) fn secret(fields: &mut Fields) {
    default(fields, "type", "Opaque");
    let Some(Value::Object(plain)) = fields.remove("stringData") else { return };
    let data = struct_at(fields, "data");
    for (key, value) in plain {
        let bytes = STANDARD.encode(value.as_str().unwrap_or(""));
        data.insert(key, bytes.into());
    }
}

/// The fields that Go always writes.
pub(super) fn event(fields: &mut Fields) {
    for name in ["involvedObject", "source"] {
        struct_at(fields, name);
    }
    default(fields, "reportingComponent", "");
    default(fields, "reportingInstance", "");
}

/// Sets the API group of roles, users and groups. Service accounts are in the core group.
pub(super) fn binding(fields: &mut Fields) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let role = struct_at(fields, "roleRef");
    if text(role, "apiGroup").is_empty() {
        role.insert("apiGroup", GROUP.into());
    }
    for subject in structs_in(fields, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            default(subject, "apiGroup", GROUP);
        }
    }
}
