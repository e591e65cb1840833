//! Tables of roles and role bindings.

use everynode_core::api::Timestamp;

use super::{AGE, Column, NAME, Printer, age, name};
use crate::json::Value;
use crate::value::{array, string};

pub(super) const PRINTER: Printer = Printer {
    columns: &[NAME, Column::new("Created At", "When the role was created")],
    cells: |object, _| {
        vec![name(object).into(), string(object, "/metadata/creationTimestamp").into()]
    },
};

pub(super) const BINDING_PRINTER: Printer = Printer {
    columns: &[
        NAME,
        Column::new("Role", "The role that is granted"),
        AGE,
        Column::new("Users", "The users who are granted the role").wide(),
        Column::new("Groups", "The groups that are granted the role").wide(),
        Column::new("ServiceAccounts", "The service accounts that are granted the role").wide(),
    ],
    cells: binding,
};

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", string(object, "/roleRef/kind"), string(object, "/roleRef/name"));
    vec![
        name(object).into(),
        role.into(),
        age(object, now).into(),
        subjects(object, "User").into(),
        subjects(object, "Group").into(),
        subjects(object, "ServiceAccount").into(),
    ]
}

fn subjects(object: &Value, kind: &str) -> String {
    let subjects = array(object, "/subjects").iter();
    let of_kind = subjects.filter(|subject| string(subject, "/kind") == kind);
    let names = of_kind.map(|subject| match kind {
        "ServiceAccount" => {
            format!("{}/{}", string(subject, "/namespace"), string(subject, "/name"))
        }
        _ => string(subject, "/name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}
