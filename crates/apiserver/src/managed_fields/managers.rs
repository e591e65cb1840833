//! The managers of an object: who wrote which fields, and how.

use std::collections::BTreeMap;

use everynode_core::api::Timestamp;

use super::fields_v1;
use super::set::Set;
use crate::clock;
use crate::json::Value;

/// The entries of `metadata.managedFields`, for changes. [`ManagedFields`](super::ManagedFields) is
/// their stored form.
pub type Managers = BTreeMap<ManagerId, Manager>;

/// The identity of an entry. Two entries with different values are different managers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    pub name: Box<str>,
    pub operation: Operation,
    /// The version of the fields of an update; empty for an apply.
    pub api_version: Box<str>,
    /// Empty for the main resource.
    pub subresource: Box<str>,
}

/// The fields of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    pub fields: Set,
    /// The version of the object in which these fields are.
    pub api_version: Box<str>,
    /// When the manager last changed them.
    pub time: Option<Timestamp>,
}

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// In any other way.
    Update,
}

impl ManagerId {
    /// The identity of a writer. A writer without a name is called `unknown`.
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Self {
            name: if name.is_empty() { "unknown" } else { name }.into(),
            operation,
            api_version: api_version.into(),
            subresource: subresource.into(),
        }
    }

    /// The manager in messages: `"kubectl" with subresource "status" using apps/v1`.
    pub(super) fn description(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

impl Operation {
    /// The name in `metadata.managedFields`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Reads `metadata.managedFields`; `None` if it does not make sense, as upstream's
/// `DecodeManagedFields` decides.
pub fn decode(entries: &Value) -> Option<Managers> {
    entries.as_array()?.iter().map(decode_entry).collect()
}

/// True if a client asks to forget all managers: by an empty list or one empty entry.
pub(crate) fn is_reset(entries: &Value) -> bool {
    let is_empty = |entry: &Value| {
        let fields = entry.as_object();
        fields.is_some_and(|fields| fields.values().all(|value| value.is_null() || value == ""))
    };
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => is_empty(only),
        Some(_) | None => false,
    }
}

fn decode_entry(entry: &Value) -> Option<(ManagerId, Manager)> {
    let text = |field: &str| entry[field].as_str().unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() || text("fieldsType") != "FieldsV1" {
        return None;
    }
    let fields = match &entry["fieldsV1"] {
        Value::Null => Set::default(),
        fields => fields_v1::parse(&fields.to_string()).ok()?,
    };
    let id = ManagerId {
        name: text("manager").into(),
        ..ManagerId::new("", operation, api_version, text("subresource"))
    };
    let time = entry["time"].as_str().and_then(clock::parse);
    Some((id, Manager { fields, api_version: api_version.into(), time }))
}
