//! The descriptor of a kind. This crate knows no kind; a server brings its own.

pub mod columns;
pub mod defaults;
pub mod rules;
pub mod strategy;
#[cfg(test)]
pub mod test_kinds;

use std::fmt;
use std::sync::Arc;

use self::columns::Column;
use self::defaults::Defaults;
use self::rules::Rules;
use self::strategy::Strategy;
use crate::custom::{CustomKind, CustomType};
use crate::json::Value;

/// A served resource, and all that is particular to its objects.
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version: `v1`.
    pub version: &'static str,
    /// The kind: `DaemonSet`.
    pub kind: &'static str,
    /// The resource name in URLs: `daemonsets`.
    pub plural: &'static str,
    /// The singular resource name: `daemonset`.
    pub singular: &'static str,
    /// The short names for kubectl: `ds`.
    pub short_names: &'static [&'static str],
    /// The categories for kubectl, such as `all`.
    pub categories: &'static [&'static str],
    /// True if the objects are in namespaces.
    pub namespaced: bool,
    /// The supported verbs of the main resource.
    pub verbs: &'static [Verb],
    /// The supported subresources.
    pub subresources: &'static [Subresource],
    /// The fields that field selectors support besides `metadata.name` and `metadata.namespace`.
    pub field_labels: FieldLabels,
    /// The fields of these whose value is not the one at their path.
    pub field_values: &'static [FieldValue],
    /// The warning for every request for the kind, if upstream has deprecated it.
    pub deprecation: Option<&'static str>,
    /// True if `metadata.generation` counts the changes of an object.
    pub counts_generations: bool,
    /// True if nothing in the sandbox acts on the objects: they are kept, and their writers are
    /// warned (S13).
    pub is_kept: bool,
    /// The columns of its table.
    pub columns: &'static [Column],
    /// The conditions of an object's row in its table.
    pub row_conditions: fn(&Value) -> Vec<Value>,
    /// The defaults of its fields.
    pub defaults: Defaults,
    /// The rules of its fields.
    pub rules: Rules,
    /// The rules of the registry that only some kinds have.
    pub strategy: Strategy,
    /// The kind in whose form the objects are stored, if it is another one: both kinds serve the
    /// same objects.
    pub stored_as: Option<&'static Self>,
    /// The other versions in which the same objects are served: `events.k8s.io/v1`.
    pub also_served: &'static [&'static str],
    /// True if the objects are found by `spec.nodeName`, too.
    pub is_indexed_by_node: bool,
    /// The type of a kind that a CustomResourceDefinition defines (S15).
    pub custom: Option<&'static CustomKind>,
}

/// A verb of the main resource, in the order of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Create an object.
    Create,
    /// Delete an object.
    Delete,
    /// Delete all objects that a list selects.
    DeleteCollection,
    /// Get an object by its name.
    Get,
    /// List the objects of a namespace or of the cluster.
    List,
    /// Change a part of an object.
    Patch,
    /// Replace an object.
    Update,
    /// Follow the changes of a list.
    Watch,
}

/// A subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    /// `status`: the status of an object.
    Status,
    /// `binding`: the node of a pod.
    Binding,
    /// `eviction`: the deletion of a pod, with respect to disruption budgets.
    Eviction,
    /// `resize`: CPU and memory of the containers of a pod.
    Resize,
    /// `finalize`: the finalizers in a namespace's spec.
    Finalize,
    /// `scale`: the number of replicas.
    Scale,
    /// `token`: tokens of a service account.
    Token,
}

/// A field with the function that makes its value in field selectors.
pub type FieldValue = (&'static str, fn(&Value) -> String);

/// The fields that field selectors of a kind support. Upstream has different error messages for the
/// two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldLabels {
    /// Only `metadata.name` and `metadata.namespace`.
    Metadata,
    /// A list of further fields.
    Listed(&'static [&'static str]),
}

/// The subresources of a kind with a status.
pub const STATUS: &[Subresource] = &[Subresource::Status];
/// The subresources of a kind with a status and a number of replicas.
pub const SCALE: &[Subresource] = &[Subresource::Scale, Subresource::Status];

const ALL: &[Verb] = &[
    Verb::Create,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Update,
    Verb::Watch,
];

/// All verbs but the deletion of a collection.
pub const NO_COLLECTION: &[Verb] =
    &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch];

const PLAIN: Kind = Kind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    field_labels: FieldLabels::Metadata,
    field_values: &[],
    deprecation: None,
    counts_generations: false,
    is_kept: false,
    columns: &[columns::NAME, columns::AGE],
    row_conditions: |_| Vec::new(),
    defaults: Defaults::NONE,
    rules: Rules::NONE,
    strategy: Strategy::PLAIN,
    stored_as: None,
    also_served: &[],
    is_indexed_by_node: false,
    custom: None,
};

/// A kind in version v1 and in namespaces, with all verbs and nothing of its own.
pub const fn named(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
) -> Kind {
    Kind { group, kind, plural, singular, ..PLAIN }
}

/// The same for a kind on which nothing in the sandbox acts (S13).
pub const fn kept(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
) -> Kind {
    Kind { is_kept: true, defaults: Defaults::KEPT, ..named(group, kind, plural, singular) }
}

/// A kind is one row: two with the same content are different.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Kind {}

impl fmt::Debug for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.version, self.group_resource())
    }
}

impl Kind {
    /// The group and version: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// True if a text is the group and version.
    pub(crate) fn is_api_version(&self, text: &str) -> bool {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        group == self.group && version == self.version
    }

    /// The kind of a list: `PodList`.
    pub fn list_kind(&self) -> String {
        match self.custom() {
            Some(custom) => custom.list_kind.clone(),
            None => format!("{}List", self.kind),
        }
    }

    /// The type of a custom kind.
    pub fn custom(&self) -> Option<Arc<CustomType>> {
        self.custom.map(CustomKind::get)
    }

    /// The resource in upstream's messages: `pods`, `daemonsets.apps`.
    pub fn group_resource(&self) -> String {
        qualified(self.plural, self.group)
    }

    /// The kind in upstream's messages: `Pod`, `DaemonSet.apps`.
    pub fn group_kind(&self) -> String {
        qualified(self.kind, self.group)
    }

    /// True if the kind has a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }

    /// The warning for writers if nothing in the sandbox acts on the kind (S13).
    pub fn kept_warning(&self) -> Option<String> {
        let plural = self.is_kept.then(|| plural_of(self.kind))?;
        Some(format!("the sandbox keeps {plural}, and nothing acts on them"))
    }

    /// True if the main resource supports a verb.
    pub fn supports(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// The kind in whose form the objects are stored.
    pub fn storage(&'static self) -> &'static Self {
        self.stored_as.unwrap_or(self)
    }
}

impl Verb {
    /// The verb's name in RBAC and discovery.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }
}

impl Subresource {
    /// The subresource's name in URLs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Resize => "resize",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
            Self::Token => "token",
        }
    }

    /// The subresource with a name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [
            Self::Status,
            Self::Binding,
            Self::Eviction,
            Self::Resize,
            Self::Finalize,
            Self::Scale,
            Self::Token,
        ];
        all.into_iter().find(|subresource| subresource.name() == name)
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_string() } else { format!("{name}.{group}") }
}

/// The plural of a kind's name in a sentence: `Services`, `NetworkPolicies`, `Ingresses`.
fn plural_of(kind: &str) -> String {
    match (kind.strip_suffix('y'), kind.chars().last()) {
        (Some(stem), _) => format!("{stem}ies"),
        (None, Some('s')) if kind.ends_with("Endpoints") => kind.to_owned(),
        (None, Some('s')) => format!("{kind}es"),
        (None, _) => format!("{kind}s"),
    }
}
