//! RoleBindings and ClusterRoleBindings, which `crate::authorization` evaluates.

use super::role::{GROUP, RULES};
use crate::format;
use crate::json::Value;
use crate::kind::columns::{self, AGE, Column, NAME};
use crate::kind::defaults::{Defaults, Fields, default, struct_at, structs_in, text};
use crate::kind::rules::{Causes, Field, Rules, go_value};
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, named};
use crate::value::{array, string};

/// ClusterRoleBindings.
pub static CLUSTER_ROLE_BINDING: Kind = Kind {
    namespaced: false,
    rules: Rules { more: |object, causes| binding(object, false, causes), ..BINDING_RULES },
    ..named_binding("ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding")
};

/// RoleBindings.
pub static ROLE_BINDING: Kind = Kind {
    rules: Rules { more: |object, causes| binding(object, true, causes), ..BINDING_RULES },
    ..named_binding("RoleBinding", "rolebindings", "rolebinding")
};

const BINDING_RULES: Rules = Rules {
    on_update: |kind, object, old, causes| {
        (RULES.on_update)(kind, object, old, causes);
        let reference = object.child("roleRef");
        if reference.value() != old.child("roleRef").value() {
            let value = go_value(reference.value());
            causes.invalid_rendered(&reference, value, "cannot change roleRef");
        }
    },
    ..RULES
};

const COLUMNS: &[Column] = &[
    NAME,
    columns::of("Role", role).about("The role that is granted"),
    AGE,
    columns::of("Users", |object| subjects(object, "User"))
        .about("The users who are granted the role")
        .wide(),
    columns::of("Groups", |object| subjects(object, "Group"))
        .about("The groups that are granted the role")
        .wide(),
    columns::of("ServiceAccounts", |object| subjects(object, "ServiceAccount"))
        .about("The service accounts that are granted the role")
        .wide(),
];

const fn named_binding(kind: &'static str, plural: &'static str, singular: &'static str) -> Kind {
    Kind {
        columns: COLUMNS,
        defaults: Defaults { more: api_groups, ..Defaults::NONE },
        strategy: Strategy { is_created_by_update: true, ..Strategy::PLAIN },
        ..named(GROUP, kind, plural, singular)
    }
}

fn role(binding: &Value) -> Value {
    let part = |path| string(binding, path);
    format!("{}/{}", part("/roleRef/kind"), part("/roleRef/name")).into()
}

fn subjects(binding: &Value, kind: &str) -> Value {
    let subjects = array(binding, "/subjects").iter();
    let of_kind = subjects.filter(|subject| string(subject, "/kind") == kind);
    let names = of_kind.map(|subject| match kind {
        "ServiceAccount" => {
            format!("{}/{}", string(subject, "/namespace"), string(subject, "/name"))
        }
        _ => string(subject, "/name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ").into()
}

/// Sets the API group of roles, users and groups. Service accounts are in the core group.
fn api_groups(fields: &mut Fields, _: &Value) {
    let role = struct_at(fields, "roleRef");
    if text(role, "apiGroup").is_empty() {
        role.insert("apiGroup", GROUP.into());
    }
    for subject in structs_in(fields, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            default(subject, "apiGroup", GROUP);
        }
    }
}

fn binding(object: &Field, is_namespaced: bool, causes: &mut Causes) {
    role_reference(&object.child("roleRef"), is_namespaced, causes);
    for subject_of_binding in object.child("subjects").items() {
        subject(&subject_of_binding, is_namespaced, causes);
    }
}

fn role_reference(reference: &Field, is_namespaced: bool, causes: &mut Causes) {
    causes.choice(&reference.child("apiGroup"), &[GROUP]);
    let supported: &[&str] =
        if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    causes.choice(&reference.child("kind"), supported);
    let name = reference.child("name");
    causes.required_format(&name, |text| format::path_segment(text, false));
}

fn subject(subject: &Field, is_namespaced: bool, causes: &mut Causes) {
    let (name, group) = (subject.child("name"), subject.child("apiGroup"));
    causes.required_text(&name);
    let kind = subject.child("kind");
    match kind.text() {
        "ServiceAccount" => {
            causes.optional_format(&name, |text| format::subdomain_name(text, false));
            causes.choice(&group, &[""]);
            if !is_namespaced {
                causes.required_text(&subject.child("namespace"));
            }
        }
        "User" | "Group" => causes.choice(&group, &[GROUP]),
        _ => causes.not_supported(&kind, &["ServiceAccount", "User", "Group"]),
    }
}
