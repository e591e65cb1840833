//! The table of the kinds that the sandbox serves. The store, the API server, the printers and the
//! validators read it (S2).
//!
//! A new kind is a new row. Rows are `&'static`, so that they can be passed around freely; a kind
//! that is defined at run time is added with [`Kinds::add`].

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
    /// The kind in whose form the objects are stored, if it is another one: both kinds serve the
    /// same objects.
    pub stored_as: Option<&'static Self>,
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
    /// `finalize`: the finalizers in a namespace's spec.
    Finalize,
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
    /// Nothing in the sandbox acts on the kind. Objects are checked in dry runs and never stored.
    OnlyChecked,
}

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

const NO_COLLECTION: &[Verb] =
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
    strategy: Strategy::Plain,
    stored_as: None,
};

const EVENT_FIELDS: &[&str] = &[
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
];

/// ConfigMaps.
pub static CONFIG_MAP: Kind = Kind {
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short_names: &["cm"],
    ..PLAIN
};

/// Events of the core group.
pub static EVENT: Kind = Kind {
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    field_labels: FieldLabels::Listed(EVENT_FIELDS),
    ..PLAIN
};

/// Namespaces.
pub static NAMESPACE: Kind = Kind {
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    namespaced: false,
    verbs: NO_COLLECTION,
    subresources: &[Subresource::Finalize, Subresource::Status],
    field_labels: FieldLabels::Listed(&["status.phase", "name"]),
    strategy: Strategy::Namespace,
    ..PLAIN
};

/// Nodes.
pub static NODE: Kind = Kind {
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short_names: &["no"],
    namespaced: false,
    subresources: &[Subresource::Status],
    field_labels: FieldLabels::Listed(&["spec.unschedulable"]),
    strategy: Strategy::Node,
    ..PLAIN
};

/// Pods.
pub static POD: Kind = Kind {
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    short_names: &["po"],
    categories: &["all"],
    subresources: &[Subresource::Binding, Subresource::Eviction, Subresource::Status],
    field_labels: FieldLabels::Listed(&[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ]),
    strategy: Strategy::Pod,
    ..PLAIN
};

/// Secrets.
pub static SECRET: Kind = Kind {
    kind: "Secret",
    plural: "secrets",
    singular: "secret",
    field_labels: FieldLabels::Listed(&["type"]),
    ..PLAIN
};

/// Services, which are only checked.
pub static SERVICE: Kind = Kind {
    kind: "Service",
    plural: "services",
    singular: "service",
    short_names: &["svc"],
    categories: &["all"],
    strategy: Strategy::OnlyChecked,
    ..PLAIN
};

/// ServiceAccounts.
pub static SERVICE_ACCOUNT: Kind = Kind {
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short_names: &["sa"],
    subresources: &[Subresource::Token],
    ..PLAIN
};

/// ControllerRevisions.
pub static CONTROLLER_REVISION: Kind = Kind {
    group: "apps",
    kind: "ControllerRevision",
    plural: "controllerrevisions",
    singular: "controllerrevision",
    ..PLAIN
};

/// DaemonSets.
pub static DAEMON_SET: Kind = Kind {
    group: "apps",
    kind: "DaemonSet",
    plural: "daemonsets",
    singular: "daemonset",
    short_names: &["ds"],
    categories: &["all"],
    subresources: &[Subresource::Status],
    strategy: Strategy::DaemonSet,
    ..PLAIN
};

/// Deployments, which are only checked.
pub static DEPLOYMENT: Kind = Kind {
    group: "apps",
    kind: "Deployment",
    plural: "deployments",
    singular: "deployment",
    short_names: &["deploy"],
    categories: &["all"],
    strategy: Strategy::OnlyChecked,
    ..PLAIN
};

/// Leases.
pub static LEASE: Kind = Kind {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    ..PLAIN
};

/// Events of events.k8s.io: a newer form of the same objects as [`EVENT`].
pub static EVENTS_EVENT: Kind = Kind {
    group: "events.k8s.io",
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
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
    ..PLAIN
};

/// PodDisruptionBudgets, which are only checked.
pub static POD_DISRUPTION_BUDGET: Kind = Kind {
    group: "policy",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    singular: "poddisruptionbudget",
    short_names: &["pdb"],
    strategy: Strategy::OnlyChecked,
    ..PLAIN
};

/// The common columns of the RBAC kinds, which `crate::authorization` evaluates.
const RBAC: Kind = Kind { group: "rbac.authorization.k8s.io", ..PLAIN };

/// ClusterRoleBindings.
pub static CLUSTER_ROLE_BINDING: Kind = Kind {
    kind: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    singular: "clusterrolebinding",
    namespaced: false,
    ..RBAC
};

/// ClusterRoles.
pub static CLUSTER_ROLE: Kind = Kind {
    kind: "ClusterRole",
    plural: "clusterroles",
    singular: "clusterrole",
    namespaced: false,
    ..RBAC
};

/// RoleBindings.
pub static ROLE_BINDING: Kind =
    Kind { kind: "RoleBinding", plural: "rolebindings", singular: "rolebinding", ..RBAC };

/// Roles.
pub static ROLE: Kind = Kind { kind: "Role", plural: "roles", singular: "role", ..RBAC };

/// All built-in rows, in the order of discovery.
pub static BUILT_IN: &[&Kind] = &[
    &CONFIG_MAP,
    &EVENT,
    &NAMESPACE,
    &NODE,
    &POD,
    &SECRET,
    &SERVICE,
    &SERVICE_ACCOUNT,
    &CONTROLLER_REVISION,
    &DAEMON_SET,
    &DEPLOYMENT,
    &LEASE,
    &EVENTS_EVENT,
    &POD_DISRUPTION_BUDGET,
    &CLUSTER_ROLE_BINDING,
    &CLUSTER_ROLE,
    &ROLE_BINDING,
    &ROLE,
];

impl Kind {
    /// The group and version: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The kind of a list: `PodList`.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
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
            Strategy::Namespace | Strategy::Node | Strategy::DaemonSet | Strategy::OnlyChecked => {
                false
            }
        }
    }

    /// Whether the kind has a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
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
            Self::Finalize => "finalize",
            Self::Token => "token",
        }
    }

    /// The subresource with a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Status, Self::Binding, Self::Eviction, Self::Finalize, Self::Token]
            .into_iter()
            .find(|subresource| subresource.name() == name)
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_string() } else { format!("{name}.{group}") }
}

/// The kinds that a server serves.
#[derive(Clone, Debug)]
pub struct Kinds {
    rows: Vec<&'static Kind>,
}

impl Default for Kinds {
    fn default() -> Self {
        Self { rows: BUILT_IN.to_vec() }
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

    /// The kind of an object's `apiVersion` and `kind`.
    pub fn by_api_version(&self, api_version: &str, kind: &str) -> Option<&'static Kind> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.iter().find(|row| row.group == group && row.version == version && row.kind == kind)
    }

    /// The first kind with this group and kind, in any version.
    pub fn by_group_kind(&self, group: &str, kind: &str) -> Option<&'static Kind> {
        self.iter().find(|row| row.group == group && row.kind == kind)
    }

    /// Adds a kind, which stays in memory for the lifetime of the process. Returns false if its
    /// resource is served already.
    pub fn add(&mut self, row: Kind) -> bool {
        if self.by_resource(row.group, row.version, row.plural).is_some() {
            return false;
        }
        self.rows.push(Box::leak(Box::new(row)));
        true
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

    /// S2: a kind that is added at run time is a row like any other, and can't replace another one.
    #[test]
    fn a_kind_can_be_added_at_run_time() {
        let mut kinds = Kinds::default();
        let row = || Kind {
            group: "example.dev",
            kind: "Widget",
            plural: "widgets",
            singular: "widget",
            ..PLAIN
        };
        assert!(kinds.add(row()));
        assert!(!kinds.add(row()));
        assert_eq!(
            kinds.by_api_version("example.dev/v1", "Widget").map(Kind::group_resource),
            Some("widgets.example.dev".to_string())
        );
    }
}
