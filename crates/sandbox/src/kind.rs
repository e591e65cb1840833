//! The table of the kinds that the sandbox serves. The store, the API server, the printers and the
//! validators read it (S2, S13).
//!
//! A new kind is a new row. Rows are `&'static`, so that they can be passed around freely. Custom
//! kinds are rows that are made at run time (S15).

mod custom;
mod kept;
mod simulated;

use std::sync::{Arc, LazyLock};

use crate::json::Value;

use crate::custom::{CustomKind, CustomType};

pub(crate) use custom::TooManyKinds;
pub use kept::SERVICE;
pub use simulated::*;

/// A row of the table: one served resource.
#[derive(Debug, PartialEq, Eq)]
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
    /// Whether the objects are in namespaces.
    pub namespaced: bool,
    /// The supported verbs of the main resource.
    pub verbs: &'static [Verb],
    /// The supported subresources.
    pub subresources: &'static [Subresource],
    /// The fields that field selectors support besides `metadata.name` and `metadata.namespace`.
    pub field_labels: FieldLabels,
    /// The rules of the registry that only some kinds have.
    pub strategy: Strategy,
    /// The warning for every request for the kind, if upstream has deprecated it.
    pub deprecation: Option<&'static str>,
    /// Whether `metadata.generation` counts the changes of an object.
    pub counts_generations: bool,
    /// The kind in whose form the objects are stored, if it is another one: both kinds serve the
    /// same objects.
    pub stored_as: Option<&'static Self>,
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

/// The fields that field selectors of a kind support. Upstream has different error messages for the
/// two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldLabels {
    /// Only `metadata.name` and `metadata.namespace`.
    Metadata,
    /// A list of further fields.
    Listed(&'static [&'static str]),
}

/// The rules of the registry that a kind has in addition to the common ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// No additional rules.
    Plain,
    /// The finalizers and the phase of namespaces.
    Namespace,
    /// Nodes, whose status is kept when they are created.
    Node,
    /// Admission, binding and graceful deletion of pods.
    Pod,
    /// The generations of DaemonSets.
    DaemonSet,
    /// The names, conditions and kinds of CustomResourceDefinitions.
    Definition,
    /// Nothing in the sandbox acts on the kind: its objects are kept, with a warning (S13).
    Kept,
    /// Kept as well, with addresses and ports that the registry allocates.
    Service,
}

/// The groups in the order of discovery, which is that of a real cluster. Others follow.
const GROUPS: &[&str] = &[
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// All built-in rows, in the order of discovery.
pub static BUILT_IN: LazyLock<Vec<&'static Kind>> = LazyLock::new(|| {
    let mut rows: Vec<&'static Kind> = simulated::ROWS.to_vec();
    rows.extend(kept::rows());
    let group = |row: &Kind| GROUPS.iter().position(|group| *group == row.group);
    // A version that is sorted later is newer, and comes first.
    rows.sort_by_key(|row| (group(row), std::cmp::Reverse(row.version), row.plural));
    rows
});

impl Kind {
    /// The group and version: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether a text is the group and version.
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

    /// Whether its objects are validated by schemas that clients send, or are such schemas, so that
    /// even a small one can take long.
    pub(crate) fn has_client_schemas(&self) -> bool {
        self.custom.is_some() || self.strategy == Strategy::Definition
    }

    /// The type of a custom kind.
    pub(crate) fn custom(&self) -> Option<Arc<CustomType>> {
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

    /// Whether the response to a completed deletion is the object instead of a Status.
    pub fn returns_deleted_object(&self) -> bool {
        match self.strategy {
            Strategy::Pod => true,
            // Upstream returns the object for service accounts as well.
            Strategy::Plain => self.group.is_empty() && self.kind == "ServiceAccount",
            // And for these, as well.
            Strategy::Kept | Strategy::Service => {
                self.group.is_empty()
                    && matches!(
                        self.kind,
                        "PersistentVolume"
                            | "PersistentVolumeClaim"
                            | "PodTemplate"
                            | "ResourceQuota"
                            | "Service"
                    )
            }
            Strategy::Namespace | Strategy::Node | Strategy::DaemonSet | Strategy::Definition => {
                false
            }
        }
    }

    /// Whether the kind has a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }

    /// The warning for writers if nothing in the sandbox acts on the kind (S13).
    pub fn kept_warning(&self) -> Option<String> {
        match self.strategy {
            Strategy::Kept | Strategy::Service => Some(format!(
                "the sandbox keeps {}, and nothing acts on them",
                plural_of(self.kind)
            )),
            Strategy::Plain
            | Strategy::Namespace
            | Strategy::Node
            | Strategy::Pod
            | Strategy::DaemonSet
            | Strategy::Definition => None,
        }
    }

    /// Whether the main resource supports a verb.
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

/// The kinds that a server serves.
#[derive(Clone, Debug)]
pub struct Kinds {
    rows: Vec<&'static Kind>,
    /// The rows of custom kinds that were made so far. They stay in memory, so equal ones are
    /// shared.
    made: Vec<&'static Kind>,
    /// Counts the changes of custom kinds and of their types.
    generation: u64,
}

impl Default for Kinds {
    fn default() -> Self {
        Self { rows: BUILT_IN.to_vec(), made: Vec::new(), generation: 0 }
    }
}

impl Kinds {
    /// All kinds, in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = &'static Kind> + '_ {
        self.rows.iter().copied()
    }

    /// The kind of a URL `/apis/GROUP/VERSION/…/PLURAL`.
    pub fn by_resource(&self, group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
        self.iter().find(|row| row.group == group && row.version == version && row.plural == plural)
    }

    /// Whether a group has a built-in kind.
    pub(crate) fn has_builtin_group(group: &str) -> bool {
        BUILT_IN.iter().any(|row| row.group == group)
    }

    /// The kind of an object's `apiVersion` and `kind`.
    pub fn by_api_version(&self, api_version: &str, kind: &str) -> Option<&'static Kind> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.iter().find(|row| row.group == group && row.version == version && row.kind == kind)
    }

    /// The first kind with this group and kind, in any version.
    pub fn by_group_kind(&self, group: &str, kind: &str) -> Option<&'static Kind> {
        self.iter().find(|row| row.group == group && row.kind == kind)
    }

    /// Whether a kind is served, maybe by another row than before. Only a custom kind can cease to
    /// be.
    pub(crate) fn serves(&self, kind: &Kind) -> bool {
        let names = |kind: &Kind| (kind.group, kind.version, kind.plural);
        kind.custom.is_none() || self.iter().any(|row| names(row) == names(kind))
    }

    /// Changes when a custom kind or its type does.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Serves the kinds of a definition instead of those that it had before; `None` serves none.
    ///
    /// # Errors
    /// There have been too many different custom kinds.
    pub(crate) fn define(
        &mut self,
        group: &str,
        plural: &str,
        definition: Option<&Value>,
    ) -> Result<Vec<&'static Kind>, TooManyKinds> {
        self.generation += 1;
        self.rows.retain(|row| row.custom.is_none() || (row.group, row.plural) != (group, plural));
        let Some(definition) = definition else { return Ok(Vec::new()) };
        let served = custom::rows(definition, &mut self.made)?;
        for row in &served {
            if self.by_resource(row.group, row.version, row.plural).is_none() {
                self.rows.push(row);
            }
        }
        self.rows.sort_by_key(|row| row.custom.is_some().then(|| custom::order(row)));
        Ok(served)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2: every kind is found by its URL and by its apiVersion and kind, and no two kinds share
    /// either.
    #[test]
    fn kinds_are_found_by_url_and_by_name() {
        let kinds = Kinds::default();
        for row in kinds.iter() {
            assert_eq!(kinds.by_resource(row.group, row.version, row.plural), Some(row));
            assert_eq!(kinds.by_api_version(&row.api_version(), row.kind), Some(row));
        }
    }
}
