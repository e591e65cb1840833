//! Roles and ClusterRoles, which `crate::authorization` evaluates.

use crate::format;
use crate::kind::columns::{self, Column, NAME};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Null;
use crate::kind::rules::{self, Causes, Field, Rules, metadata, selector};
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, named};

/// The group of roles and bindings.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// ClusterRoles.
pub static CLUSTER_ROLE: Kind = Kind {
    namespaced: false,
    rules: Rules { more: cluster_role, ..RULES },
    ..named_role("ClusterRole", "clusterroles", "clusterrole")
};

/// Roles.
pub static ROLE: Kind = Kind {
    rules: Rules { more: |object, causes| policy_rules(object, true, causes), ..RULES },
    ..named_role("Role", "roles", "role")
};

/// The rules of all kinds of the group. Names need only be valid in a URL: many have colons.
pub(super) const RULES: Rules = Rules {
    names: format::path_segment,
    // Upstream reports the metadata of an update last.
    on_update: |kind, object, old, causes| {
        rules::on_create(kind, object, causes);
        metadata::on_update(object, old, causes);
    },
    ..Rules::NONE
};

const COLUMNS: &[Column] = &[
    NAME,
    columns::text("Created At", "/metadata/creationTimestamp").about("When the role was created"),
];

const fn named_role(kind: &'static str, plural: &'static str, singular: &'static str) -> Kind {
    Kind {
        columns: COLUMNS,
        defaults: Defaults { values: &[("rules", Null)], ..Defaults::NONE },
        strategy: Strategy { is_created_by_update: true, ..Strategy::PLAIN },
        ..named(GROUP, kind, plural, singular)
    }
}

fn cluster_role(object: &Field, causes: &mut Causes) {
    policy_rules(object, false, causes);
    let aggregation = object.child("aggregationRule");
    if !aggregation.is_set() {
        return;
    }
    let selectors = aggregation.child("clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        causes.required(&selectors, detail);
    }
    for selector in selectors.items() {
        selector::label_selector(&selector, causes);
    }
}

fn policy_rules(object: &Field, is_namespaced: bool, causes: &mut Causes) {
    for rule in object.child("rules").items() {
        policy_rule(&rule, is_namespaced, causes);
    }
}

fn policy_rule(rule: &Field, is_namespaced: bool, causes: &mut Causes) {
    if rule.child("verbs").is_empty() {
        causes.required(&rule.child("verbs"), "verbs must contain at least one value");
    }
    let paths = rule.child("nonResourceURLs");
    let (groups, resources) = (rule.child("apiGroups"), rule.child("resources"));
    if paths.is_empty() {
        if groups.is_empty() {
            causes.required(&groups, "resource rules must supply at least one api group");
        }
        if resources.is_empty() {
            causes.required(&resources, "resource rules must supply at least one resource");
        }
        return;
    }
    if is_namespaced {
        causes.invalid(&paths, "namespaced rules cannot apply to non-resource URLs");
    }
    if !(groups.is_empty() && resources.is_empty() && rule.child("resourceNames").is_empty()) {
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        causes.invalid(&paths, detail);
    }
}
