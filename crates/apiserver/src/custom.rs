//! The parts of CustomResourceDefinitions that concern the objects of their kinds (S15): schemas,
//! columns and the paths of the scale.
//!
//! A custom kind is a row of the table of kinds like any other; the row refers to what is here.

mod column;
mod defaulting;
mod json_path;
mod pattern;
mod pruning;

mod schema;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::json::Value;

pub use column::Column;
pub(crate) use pattern::CompiledPattern;
pub(crate) use pruning::is_pruned;
pub(crate) use schema::rule::{Budget, CompileError, Rule, Values, Verdict};
pub(crate) use schema::{Additional, Checks, ListType, Schema, TypeName};

/// etcd's default `--max-request-bytes`. Here it limits the JSON text of an object, which is larger
/// than the Protobuf that a real server stores.
pub(crate) const OBJECT_BYTES_MAX: usize = 1536 * 1024;

/// The type of a custom kind. A change of its definition replaces it, while the row of the kind
/// stays.
pub struct CustomKind(RwLock<Arc<CustomType>>);

impl CustomKind {
    /// A kind with this type.
    pub fn new(of: CustomType) -> Self {
        Self(RwLock::new(Arc::new(of)))
    }

    /// The type at present.
    pub fn get(&self) -> Arc<CustomType> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the type.
    pub fn set(&self, of: CustomType) {
        *self.0.write() = Arc::new(of);
    }
}

impl fmt::Debug for CustomKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CustomKind")
    }
}

/// Rows of kinds are compared by what else they contain.
impl PartialEq for CustomKind {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CustomKind {}

/// One version of a kind, as its definition has it.
#[derive(Debug)]
pub struct CustomType {
    /// The kind of lists.
    pub list_kind: String,
    /// The schema of the objects.
    pub(crate) schema: Schema,
    /// The schema as the definition has it.
    pub document: Value,
    /// The columns of the table besides the name.
    pub columns: Vec<Column>,
    /// Where the scale is, if the kind has this subresource.
    pub scale: Option<ScalePaths>,
    /// The served versions: `example.dev/v1`.
    pub api_versions: Vec<String>,
    /// True if stored objects can have another version, so that their apiVersion is replaced.
    pub has_versions: bool,
    /// True if the schema has defaults, and stored objects can be older than it.
    pub completes_on_read: bool,
    /// True if the definition is being deleted, so that no object is created.
    pub is_terminating: bool,
}

/// Where the scale of an object is.
#[derive(Debug)]
pub struct ScalePaths {
    /// The steps to the wanted number of replicas.
    pub spec_replicas: Vec<String>,
    /// The steps to the number of replicas that there are.
    pub status_replicas: Vec<String>,
    /// The steps to the label selector, if the status has one.
    pub selector: Option<Vec<String>>,
}

impl CustomType {
    /// The type in a version of a definition.
    pub(crate) fn of_version(definition: &Value, version: &Value) -> Self {
        let (spec, metadata) = (&definition["spec"], &definition["metadata"]);
        let document = version["schema"]["openAPIV3Schema"].clone();
        let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let group = spec["group"].as_str().unwrap_or_default();
        let served = versions.iter().filter(|version| version["served"] == true);
        let names = served.filter_map(|version| version["name"].as_str());
        let schema = Schema::parse(&document);
        let has_changed = metadata["generation"].as_u64().is_some_and(|count| count > 1);
        Self {
            list_kind: spec["names"]["listKind"].as_str().unwrap_or_default().to_owned(),
            completes_on_read: has_changed && schema.has_defaults(),
            schema,
            document,
            columns: Column::of_version(version),
            scale: ScalePaths::of_version(version),
            api_versions: names.map(|name| format!("{group}/{name}")).collect(),
            has_versions: versions.len() > 1,
            is_terminating: metadata["deletionTimestamp"].is_string(),
        }
    }

    /// Removes the fields that the schema does not have, and visits their paths.
    pub(crate) fn prune(&self, object: &mut Value, removed: &mut dyn FnMut(&str)) {
        pruning::prune(&self.schema, object, removed);
    }

    /// True if an object has no value for a field with a default.
    pub(crate) fn lacks_defaults(&self, object: &Value) -> bool {
        defaulting::is_incomplete(&self.schema, object)
    }

    /// Removes the nulls of fields that are not nullable and have no default.
    pub(crate) fn remove_nulls(&self, object: &mut Value) {
        defaulting::remove_nulls(&self.schema, object);
    }

    /// Sets defaults; not all of them, if the object is then too large to be stored.
    pub(crate) fn apply_defaults(&self, object: &mut Value) {
        defaulting::set(&self.schema, object, &mut { OBJECT_BYTES_MAX });
    }
}

impl ScalePaths {
    fn of_version(version: &Value) -> Option<Self> {
        let scale = version["subresources"].get("scale").filter(|scale| scale.is_object())?;
        let path = |field: &str| -> Option<Vec<String>> {
            let text = scale[field].as_str()?.strip_prefix('.')?;
            Some(text.split('.').map(str::to_owned).collect())
        };
        Some(Self {
            spec_replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            selector: path("labelSelectorPath"),
        })
    }
}
