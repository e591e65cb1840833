//! Validates roles and role bindings.

use super::field::{Causes, Field, go_value};
use super::format;
use super::metadata::{self, RBAC_CLUSTER_SCOPED, RBAC_NAMESPACED};
use super::selector::label_selector;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The scope of a role or a binding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Cluster,
    Namespace,
}

pub(super) fn on_create(object: &Field, scope: Scope, causes: &mut Causes) {
    metadata::on_create(object, scope.rules(), causes);
    role(object, scope, causes);
}

pub(super) fn on_update(object: &Field, old: &Field, scope: Scope, causes: &mut Causes) {
    on_create(object, scope, causes);
    metadata::on_update(object, old, causes);
}

pub(super) fn binding_on_create(object: &Field, scope: Scope, causes: &mut Causes) {
    metadata::on_create(object, scope.rules(), causes);
    let reference = object.child("roleRef");
    role_reference(&reference, scope, causes);
    for subject_of_binding in object.child("subjects").items() {
        subject(&subject_of_binding, scope, causes);
    }
}

pub(super) fn binding_on_update(object: &Field, old: &Field, scope: Scope, causes: &mut Causes) {
    binding_on_create(object, scope, causes);
    metadata::on_update(object, old, causes);
    let reference = object.child("roleRef");
    if reference.value() != old.child("roleRef").value() {
        causes.invalid_rendered(&reference, go_value(reference.value()), "cannot change roleRef");
    }
}

impl Scope {
    fn rules(self) -> metadata::NameRules {
        match self {
            Self::Cluster => RBAC_CLUSTER_SCOPED,
            Self::Namespace => RBAC_NAMESPACED,
        }
    }
}

fn role(object: &Field, scope: Scope, causes: &mut Causes) {
    for rule_of_role in object.child("rules").items() {
        rule(&rule_of_role, scope, causes);
    }
    let aggregation = object.child("aggregationRule");
    if scope == Scope::Namespace || !aggregation.is_set() {
        return;
    }
    let selectors = aggregation.child("clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        causes.required(&selectors, detail);
    }
    for selector in selectors.items() {
        label_selector(&selector, causes);
    }
}

fn rule(rule: &Field, scope: Scope, causes: &mut Causes) {
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
    if scope == Scope::Namespace {
        causes.invalid(&paths, "namespaced rules cannot apply to non-resource URLs");
    }
    if !(groups.is_empty() && resources.is_empty() && rule.child("resourceNames").is_empty()) {
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        causes.invalid(&paths, detail);
    }
}

fn role_reference(reference: &Field, scope: Scope, causes: &mut Causes) {
    let group = reference.child("apiGroup");
    if group.text() != GROUP {
        causes.not_supported(&group, &[GROUP]);
    }
    let supported: &[&str] = match scope {
        Scope::Cluster => &["ClusterRole"],
        Scope::Namespace => &["Role", "ClusterRole"],
    };
    let kind = reference.child("kind");
    if !supported.contains(&kind.text()) {
        causes.not_supported(&kind, supported);
    }
    let name = reference.child("name");
    if name.text().is_empty() {
        causes.required(&name, "");
    } else {
        causes.invalid_each(&name, format::path_segment(name.text(), false));
    }
}

fn subject(subject: &Field, scope: Scope, causes: &mut Causes) {
    let (name, group) = (subject.child("name"), subject.child("apiGroup"));
    if name.text().is_empty() {
        causes.required(&name, "");
    }
    let kind = subject.child("kind");
    match kind.text() {
        "ServiceAccount" => {
            if !name.text().is_empty() {
                causes.invalid_each(&name, format::subdomain_name(name.text(), false));
            }
            if !group.text().is_empty() {
                causes.not_supported(&group, &[""]);
            }
            let namespace = subject.child("namespace");
            if scope == Scope::Cluster && namespace.text().is_empty() {
                causes.required(&namespace, "");
            }
        }
        "User" | "Group" => {
            if group.text() != GROUP {
                causes.not_supported(&group, &[GROUP]);
            }
        }
        _ => causes.not_supported(&kind, &["ServiceAccount", "User", "Group"]),
    }
}
