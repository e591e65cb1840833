//! The kinds that the sandbox serves: one table, read by the store, the HTTP front, the printers and the validators (S2).
//!
//! Adding a kind is adding a row. Rows are `&'static`, so that they pass freely between parts; a kind that is defined at
//! run time gets its row by [`Kinds::add`].

/// One served resource: its names, its scope, and what may be done with it.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    pub verbs: &'static [Verb],
    pub subresources: &'static [Subresource],
    /// Field labels that a field selector may name, beside `metadata.name` and `metadata.namespace`.
    pub field_labels: FieldLabels,
    /// What the registry does beyond the rules of every kind.
    pub strategy: Strategy,
    /// The kind in whose form objects are stored, if that is another one: the two share one store.
    pub stored_as: Option<&'static Self>,
}

/// What a client may do with the main resource; the order is that of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    Status,
    Binding,
    Eviction,
    Finalize,
    Token,
}

/// The field labels of a kind; the two forms are refused in different words upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldLabels {
    /// `metadata.name` and `metadata.namespace` alone.
    Metadata,
    /// The kind has a list of its own.
    Listed(&'static [&'static str]),
}

/// What the registry does for a kind beyond the rules of every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Plain,
    Namespace,
    Node,
    Pod,
    DaemonSet,
    /// Nothing here acts on it: it is checked in dry runs, and refused otherwise.
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

pub static CONFIG_MAP: Kind = Kind {
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short_names: &["cm"],
    ..PLAIN
};

pub static EVENT: Kind = Kind {
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    field_labels: FieldLabels::Listed(EVENT_FIELDS),
    ..PLAIN
};

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

pub static SECRET: Kind = Kind {
    kind: "Secret",
    plural: "secrets",
    singular: "secret",
    field_labels: FieldLabels::Listed(&["type"]),
    ..PLAIN
};

pub static SERVICE: Kind = Kind {
    kind: "Service",
    plural: "services",
    singular: "service",
    short_names: &["svc"],
    categories: &["all"],
    strategy: Strategy::OnlyChecked,
    ..PLAIN
};

pub static SERVICE_ACCOUNT: Kind = Kind {
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short_names: &["sa"],
    subresources: &[Subresource::Token],
    ..PLAIN
};

pub static CONTROLLER_REVISION: Kind = Kind {
    group: "apps",
    kind: "ControllerRevision",
    plural: "controllerrevisions",
    singular: "controllerrevision",
    ..PLAIN
};

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

pub static LEASE: Kind = Kind {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    ..PLAIN
};

/// The newer form of the same objects as [`EVENT`].
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

pub static POD_DISRUPTION_BUDGET: Kind = Kind {
    group: "policy",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    singular: "poddisruptionbudget",
    short_names: &["pdb"],
    strategy: Strategy::OnlyChecked,
    ..PLAIN
};

/// Who may do what: see `crate::authorization`.
const RBAC: Kind = Kind { group: "rbac.authorization.k8s.io", ..PLAIN };

pub static CLUSTER_ROLE_BINDING: Kind = Kind {
    kind: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    singular: "clusterrolebinding",
    namespaced: false,
    ..RBAC
};

pub static CLUSTER_ROLE: Kind = Kind {
    kind: "ClusterRole",
    plural: "clusterroles",
    singular: "clusterrole",
    namespaced: false,
    ..RBAC
};

pub static ROLE_BINDING: Kind =
    Kind { kind: "RoleBinding", plural: "rolebindings", singular: "rolebinding", ..RBAC };

pub static ROLE: Kind = Kind { kind: "Role", plural: "roles", singular: "role", ..RBAC };

/// Every built-in row, in the order of discovery.
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
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `PodList`.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// `pods`, `daemonsets.apps`: the resource as upstream's messages name it.
    pub fn group_resource(&self) -> String {
        qualified(self.plural, self.group)
    }

    /// `Pod`, `DaemonSet.apps`: the kind as upstream's messages name it.
    pub fn group_kind(&self) -> String {
        qualified(self.kind, self.group)
    }

    /// Whether a deletion that is done at once answers with the object, not with a Status.
    pub fn returns_deleted_object(&self) -> bool {
        match self.strategy {
            Strategy::Pod => true,
            // Upstream's table: service accounts are the other kind of ours.
            Strategy::Plain => self.group.is_empty() && self.kind == "ServiceAccount",
            Strategy::Namespace | Strategy::Node | Strategy::DaemonSet | Strategy::OnlyChecked => {
                false
            }
        }
    }

    pub fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }

    pub fn supports(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// The row in whose form the objects of this kind are stored.
    pub fn storage(&'static self) -> &'static Self {
        self.stored_as.unwrap_or(self)
    }
}

impl Verb {
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
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Finalize => "finalize",
            Self::Token => "token",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Status, Self::Binding, Self::Eviction, Self::Finalize, Self::Token]
            .into_iter()
            .find(|subresource| subresource.name() == name)
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_string() } else { format!("{name}.{group}") }
}

/// The rows that one server serves.
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
    pub fn iter(&self) -> impl Iterator<Item = &'static Kind> + '_ {
        self.rows.iter().copied()
    }

    /// The row of a URL: `/apis/GROUP/VERSION/…/PLURAL`.
    pub fn by_resource(&self, group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
        self.iter().find(|row| row.group == group && row.version == version && row.plural == plural)
    }

    /// The row of an object's `apiVersion` and `kind`.
    pub fn by_api_version(&self, api_version: &str, kind: &str) -> Option<&'static Kind> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.iter().find(|row| row.group == group && row.version == version && row.kind == kind)
    }

    /// The row of a group and kind, whatever the version.
    pub fn by_group_kind(&self, group: &str, kind: &str) -> Option<&'static Kind> {
        self.iter().find(|row| row.group == group && row.kind == kind)
    }

    /// Serves one more kind from now on. A row lives as long as the process; false if the resource is served already.
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

    /// S2: every row is found by its URL and by its apiVersion and kind, and no two rows share either.
    #[test]
    fn rows_are_found_by_either_key() {
        let kinds = Kinds::default();
        for row in kinds.iter() {
            assert_eq!(kinds.by_resource(row.group, row.version, row.plural), Some(row));
            assert_eq!(kinds.by_api_version(&row.api_version(), row.kind), Some(row));
        }
    }

    /// S2: a kind that comes at run time is a row like any other, and can't take another's place.
    #[test]
    fn a_row_can_be_added_at_run_time() {
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
