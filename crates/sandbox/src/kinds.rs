//! The kinds that the sandbox serves (S2, S13), one file for each that has code of its own: names,
//! columns, defaults, rules and strategy in one literal.
//!
//! A new kind is a file here and its line in [`ALL`], or a row of `kept`.
//!
//! Descriptors are `&'static`, so that they can be passed around freely. Those of custom kinds are
//! made at run time (S15).

mod api_service;
mod config_map;
mod controller_revision;
mod cron_job;
mod custom;
mod custom_resource_definition;
mod daemon_set;
mod deployment;
mod event;
mod horizontal_pod_autoscaler;
mod ingress;
pub(crate) mod job;
mod kept;
mod lease;
mod namespace;
mod network_policy;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
pub(crate) mod pod;
mod pod_disruption_budget;
pub(crate) mod priority_class;
mod replica_set;
mod replication_controller;
mod role;
mod role_binding;
mod secret;
mod service;
mod service_account;
mod stateful_set;
mod storage_class;
#[cfg(test)]
mod tests;
mod webhook_configuration;

use std::sync::LazyLock;

use crate::json::Value;
use crate::kind::Kind;

pub use config_map::CONFIG_MAP;
pub use controller_revision::CONTROLLER_REVISION;
pub(crate) use custom::TooManyKinds;
pub use custom_resource_definition::DEFINITION;
pub use daemon_set::DAEMON_SET;
pub use event::{EVENT, EVENTS_EVENT};
pub use job::JOB;
pub use lease::LEASE;
pub use namespace::NAMESPACE;
pub use node::NODE;
pub use pod::POD;
pub use pod_disruption_budget::POD_DISRUPTION_BUDGET;
pub use priority_class::PRIORITY_CLASS;
pub use role::{CLUSTER_ROLE, ROLE};
pub use role_binding::{CLUSTER_ROLE_BINDING, ROLE_BINDING};
pub use secret::SECRET;
pub use service::SERVICE;
pub use service_account::SERVICE_ACCOUNT;

/// The kinds with a file of their own. The others are in `kept`.
static ALL: &[&Kind] = &[
    &api_service::API_SERVICE,
    &config_map::CONFIG_MAP,
    &controller_revision::CONTROLLER_REVISION,
    &cron_job::CRON_JOB,
    &custom_resource_definition::DEFINITION,
    &daemon_set::DAEMON_SET,
    &deployment::DEPLOYMENT,
    &event::EVENT,
    &event::EVENTS_EVENT,
    &horizontal_pod_autoscaler::HORIZONTAL_POD_AUTOSCALER,
    &ingress::INGRESS,
    &job::JOB,
    &lease::LEASE,
    &namespace::NAMESPACE,
    &network_policy::NETWORK_POLICY,
    &node::NODE,
    &persistent_volume::PERSISTENT_VOLUME,
    &persistent_volume_claim::PERSISTENT_VOLUME_CLAIM,
    &pod::POD,
    &pod_disruption_budget::POD_DISRUPTION_BUDGET,
    &priority_class::PRIORITY_CLASS,
    &replica_set::REPLICA_SET,
    &replication_controller::REPLICATION_CONTROLLER,
    &role::CLUSTER_ROLE,
    &role::ROLE,
    &role_binding::CLUSTER_ROLE_BINDING,
    &role_binding::ROLE_BINDING,
    &secret::SECRET,
    &service::SERVICE,
    &service_account::SERVICE_ACCOUNT,
    &stateful_set::STATEFUL_SET,
    &storage_class::STORAGE_CLASS,
    &webhook_configuration::MUTATING_WEBHOOK_CONFIGURATION,
    &webhook_configuration::VALIDATING_WEBHOOK_CONFIGURATION,
];

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
    let mut rows: Vec<&'static Kind> = ALL.iter().copied().chain(kept::ALL).collect();
    let group = |row: &Kind| GROUPS.iter().position(|group| *group == row.group);
    // A version that is sorted later is newer, and comes first.
    rows.sort_by_key(|row| (group(row), std::cmp::Reverse(row.version), row.plural));
    rows
});

/// Whether the objects of a kind are validated by schemas that clients send, or are such schemas,
/// so that even a small one can take long.
pub(crate) fn has_client_schemas(kind: &Kind) -> bool {
    kind.custom.is_some() || kind == &DEFINITION
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
