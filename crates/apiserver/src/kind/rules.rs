//! The rules of a kind (S9): its most common ones as data, and code for what depends on several
//! fields.
//!
//! In a path `[]` stands for each element of a list, and for absent structs nothing is checked.

mod field;
pub mod int_or_percent;
pub mod metadata;
mod path;
pub mod selector;

use self::metadata::nonnegative;
use super::Kind;
use crate::format;
use crate::json::Value;

pub(crate) use field::{BYTES_PER_STEP, SMALL_PER_STEP};
pub use field::{Cause, Causes, Field, Reason, Steps, go_json, go_quote, go_value};
pub(crate) use path::Path;

/// Finds the errors in a field.
pub type Check = fn(&Field, &mut Causes);

/// The rules of a kind.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Why a name is invalid; the second argument says whether it is only the beginning of one.
    pub names: fn(&str, bool) -> Vec<String>,
    /// Fields that must not be empty, and the detail of the message.
    pub required: &'static [(&'static str, &'static str)],
    /// Fields with a closed list of values.
    pub choices: &'static [(&'static str, &'static [&'static str])],
    /// Numbers that must not be negative.
    pub nonnegative: &'static [&'static str],
    /// Fields that an update must not change.
    pub immutable: &'static [&'static str],
    /// Fields that are checked by a function, such as pod templates.
    pub each: &'static [(&'static str, Check)],
    /// A check that reads several fields.
    pub more: Check,
    /// Validates a new object; [`on_create`] unless upstream has an order of its own.
    pub on_create: fn(&Kind, &Field, &mut Causes),
    /// Validates a replacement of an object; [`on_update`] unless there is more to compare.
    pub on_update: fn(&Kind, &Field, &Field, &mut Causes),
    /// Validates a replacement of a status.
    pub on_status_update: fn(&Kind, &Field, &Field, &mut Causes),
    /// The warnings about a valid object, which replaces another one or is new.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
}

impl Rules {
    /// Those of metadata alone.
    pub const NONE: Self = Self {
        names: format::subdomain_name,
        required: &[],
        choices: &[],
        nonnegative: &[],
        immutable: &[],
        each: &[],
        more: |_, _| {},
        on_create,
        on_update,
        on_status_update: |_, object, old, causes| metadata::on_update(object, old, causes),
        warnings: |_, _| Vec::new(),
    };

    /// Checks all but the metadata of an object.
    pub fn check(&self, object: &Field, causes: &mut Causes) {
        for (path, detail) in self.required {
            each(object, path, &mut |field| {
                if is_unset(field) {
                    causes.required(field, detail);
                }
            });
        }
        (self.more)(object, causes);
        for (path, values) in self.choices {
            each(object, path, &mut |field| causes.optional_choice(field, values));
        }
        for path in self.nonnegative {
            each(object, path, &mut |field| nonnegative(field, causes));
        }
        for (path, check) in self.each {
            each(object, path, &mut |field| check(field, causes));
        }
    }
}

/// Validates the metadata and the fields of a new object.
pub fn on_create(kind: &Kind, object: &Field, causes: &mut Causes) {
    metadata::on_create(kind, object, causes);
    kind.rules.check(object, causes);
}

/// Validates the metadata and the fields of a replacement, which keeps the immutable ones.
pub fn on_update(kind: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    kind.rules.check(object, causes);
    for path in kind.rules.immutable {
        let (mut new_values, mut old_values) = (Vec::new(), Vec::new());
        each(object, path, &mut |field| new_values.push(field.value().clone()));
        each(old, path, &mut |field| old_values.push(field.value().clone()));
        if new_values != old_values {
            each(object, path, &mut |field| {
                causes.invalid_rendered(field, go_json(field.value()), "field is immutable");
            });
        }
    }
}

/// True if Go's zero value is all that a field has.
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
pub fn each(field: &Field, path: &str, visit: &mut dyn FnMut(&Field)) {
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
