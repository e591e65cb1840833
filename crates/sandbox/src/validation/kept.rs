//! Validates the kinds that are kept (S13): upstream's most common rules, as a table. What depends
//! on several fields is code.
//!
//! In a path `[]` stands for each element of a list, and for absent structs nothing is checked.

mod several;
mod table;

use crate::json::Value;

use super::field::{Causes, Field, go_json};
use super::metadata::{self, nonnegative};
use super::pod;
use crate::kind::Kind;
use table::ROWS;

/// The rules of a kind.
pub(super) struct Row {
    group: &'static str,
    kind: &'static str,
    names: Names,
    /// The paths to its pod templates.
    templates: &'static [&'static str],
    /// Fields that must not be empty, and the detail of the message.
    required: &'static [(&'static str, &'static str)],
    choices: &'static [(&'static str, &'static [&'static str])],
    nonnegative: &'static [&'static str],
    immutable: &'static [&'static str],
    more: fn(&Field, &mut Causes),
    on_update: fn(&Field, &Field, &mut Causes),
}

/// The form of the names of a kind.
#[derive(Clone, Copy)]
enum Names {
    Subdomain,
    /// A label: a name without dots.
    Label,
    /// Anything that is valid in a URL.
    Segment,
}

const NONE: Row = Row {
    group: "",
    kind: "",
    names: Names::Subdomain,
    templates: &[],
    required: &[],
    choices: &[],
    nonnegative: &[],
    immutable: &[],
    more: |_, _| {},
    on_update: |_, _, _| {},
};

pub(super) fn row_of(kind: &Kind) -> Option<&'static Row> {
    ROWS.iter().find(|row| (row.group, row.kind) == (kind.group, kind.kind))
}

impl Row {
    pub(super) fn on_create(&self, kind: &Kind, object: &Field, causes: &mut Causes) {
        let rules = match (self.names, kind.namespaced) {
            (Names::Subdomain, _) => metadata::rules_of(kind),
            (Names::Label, true) => metadata::LABEL_NAMESPACED,
            (Names::Label, false) => metadata::NAMESPACE,
            (Names::Segment, true) => metadata::RBAC_NAMESPACED,
            (Names::Segment, false) => metadata::RBAC_CLUSTER_SCOPED,
        };
        metadata::on_create(object, rules, causes);
        self.check(object, causes);
    }

    pub(super) fn on_update(&self, object: &Field, old: &Field, causes: &mut Causes) {
        metadata::on_update(object, old, causes);
        self.check(object, causes);
        for path in self.immutable {
            let (mut new_values, mut old_values) = (Vec::new(), Vec::new());
            each(object, path, &mut |field| new_values.push(field.value().clone()));
            each(old, path, &mut |field| old_values.push(field.value().clone()));
            if new_values != old_values {
                each(object, path, &mut |field| {
                    causes.invalid_rendered(field, go_json(field.value()), "field is immutable");
                });
            }
        }
        (self.on_update)(object, old, causes);
    }

    /// The paths to the pod templates that are warned about as pods are. Those of Deployments are
    /// validated elsewhere, and those of StatefulSets not at all, as upstream.
    pub(super) fn templates(&self) -> &'static [&'static str] {
        if matches!(self.kind, "Deployment" | "ReplicationController" | "StatefulSet") {
            &["spec.template"]
        } else {
            self.templates
        }
    }

    fn check(&self, object: &Field, causes: &mut Causes) {
        for (path, detail) in self.required {
            each(object, path, &mut |field| {
                if is_unset(field) {
                    causes.required(field, detail);
                }
            });
        }
        (self.more)(object, causes);
        for (path, values) in self.choices {
            each(object, path, &mut |field| {
                if field.is_set() && !values.contains(&field.text()) {
                    causes.not_supported(field, values);
                }
            });
        }
        for path in self.nonnegative {
            each(object, path, &mut |field| nonnegative(field, causes));
        }
        for path in self.templates {
            each(object, path, &mut |template| pod::template(template, causes));
        }
    }
}

/// Whether Go's zero value is all that a field has.
fn is_unset(field: &Field) -> bool {
    match field.value() {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Calls `visit` with each field at a path.
fn each(field: &Field, path: &str, visit: &mut dyn FnMut(&Field)) {
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let child = field.child(name);
    if is_list {
        for item in child.items() {
            if rest.is_empty() { visit(&item) } else { each(&item, rest, visit) }
        }
    } else if rest.is_empty() {
        visit(&child);
    } else if child.is_set() {
        each(&child, rest, visit);
    }
}
