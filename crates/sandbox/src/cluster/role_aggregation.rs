//! The rules of aggregated ClusterRoles (S13): upstream's `clusterrole-aggregation-controller`. It
//! writes the rules of the selected ClusterRoles into them.

use std::collections::BTreeSet;
use std::sync::Arc;

use everynode_core::api::Timestamp;

use crate::json::{Value, json};
use crate::kinds::CLUSTER_ROLE;
use crate::object::Object;
use crate::patch::PatchType;
use crate::registry::{Apply, Endpoint, Patch, Registry, Replacement, Writer};
use crate::selector::LabelSelector;
use crate::status::Status;
use crate::store::{Store, WriteOptions};
use crate::value::array;

/// The name of the field manager.
const MANAGER: &str = "clusterrole-aggregation-controller";
const SELECTORS: &str = "/aggregationRule/clusterRoleSelectors";

/// The controller of aggregated ClusterRoles. It does nothing while no ClusterRole changes.
#[derive(Debug, Default)]
pub(super) struct RoleAggregation {
    /// The resourceVersion up to which all changes have been read.
    seen: u64,
    /// The names of the roles whose rules may be out of date.
    due: BTreeSet<Box<str>>,
}

impl RoleAggregation {
    /// Refreshes one role. Returns whether there may be more.
    pub(super) fn step(&mut self, registry: &mut Registry, now: Timestamp) -> bool {
        self.observe(registry.store());
        let Some(name) = self.due.pop_first() else { return false };
        if let Err(status) = refresh(registry, &name, now) {
            tracing::warn!(role = &*name, %status, "an aggregated ClusterRole is not up to date");
        }
        true
    }

    fn observe(&mut self, store: &Store) {
        let changes = store.changes_since(&CLUSTER_ROLE, self.seen, 1);
        self.seen = store.resource_version();
        if changes.is_ok_and(|changes| changes.is_empty()) {
            return;
        }
        let aggregated = store
            .iter(&CLUSTER_ROLE, None)
            .filter(|role| !array(&role.read(), SELECTORS).is_empty());
        self.due.extend(aggregated.map(|role| Box::from(role.name())));
    }
}

fn refresh(registry: &mut Registry, name: &str, now: Timestamp) -> Result<(), Status> {
    let Some(role) = registry.store().find_with_tree(&CLUSTER_ROLE, "", name) else {
        return Ok(());
    };
    let rules = selected_rules(registry.store(), &role);
    if rules == array(role.value(), "/rules") {
        return Ok(());
    }
    let options = WriteOptions::at(now);
    if role.managed_fields().is_empty() {
        let body = json!({"rules": rules});
        let patch =
            Patch { patch_type: PatchType::Merge, body, endpoint: Endpoint::Main, strict: None };
        return registry.patch(&CLUSTER_ROLE, "", name, &patch, &options).map(drop);
    }
    let apply =
        Apply { object: applied(name, rules), endpoint: Endpoint::Main, force: true, strict: None };
    let writer = Writer { manager: MANAGER, now };
    let mut change = Replacement::of_apply(&CLUSTER_ROLE, &role, &apply, writer)?;
    change.validate()?;
    registry.commit_replacement(change, &options).map(drop)
}

/// As upstream: without any rule, the field is not applied.
fn applied(name: &str, rules: Vec<Value>) -> Value {
    let mut object = json!({
        "apiVersion": CLUSTER_ROLE.api_version(), "kind": CLUSTER_ROLE.kind,
        "metadata": {"name": name},
    });
    if !rules.is_empty() {
        object["rules"] = rules.into();
    }
    object
}

/// The rules of the roles that a role selects, each once, in the order of the selectors and of the
/// roles' names.
fn selected_rules(store: &Store, role: &Arc<Object>) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let mut rules = Vec::new();
    for selector in array(role.value(), SELECTORS) {
        // Validation has refused selectors that don't parse.
        let Some(selector) = LabelSelector::of_object(selector) else { continue };
        let selected = store.iter(&CLUSTER_ROLE, None).filter(|other| {
            other.name() != role.name() && selector.matches(|key| other.label(key))
        });
        for other in selected {
            for rule in array(&other.read(), "/rules") {
                if seen.insert(rule.to_string()) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}
