//! Validates custom resources by their schemas (S15), with the messages of upstream's OpenAPI
//! validator.

mod lists;
mod rules;
mod types;
mod walk;

use crate::json::Value;

use self::walk::{Findings, Walk};
use crate::custom::{CustomType, Schema};
use crate::kind::Kind;
use crate::kind::rules::{Causes, Field, Path, Reason, metadata};
use crate::patch::go_text;
use crate::value::go_type;

pub(super) fn on_create(kind: &Kind, custom: &CustomType, object: &Field, causes: &mut Causes) {
    metadata::on_create(kind, object, causes);
    check(custom, object, None, causes);
    rules::check(&custom.schema, object.value(), None, causes);
}

/// Validates an update. A value that it does not change may stay invalid, as upstream
/// (`CRDValidationRatcheting`).
pub(super) fn on_update(custom: &CustomType, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    check(custom, object, Some(old.value()), causes);
    rules::check(&custom.schema, object.value(), Some(old.value()), causes);
}

/// Upstream validates the status as an object of its own.
pub(super) fn on_status_update(
    custom: &CustomType,
    object: &Field,
    old: &Field,
    causes: &mut Causes,
) {
    metadata::on_update(object, old, causes);
    let mut found = Findings::default();
    if let (Some(schema), Some(status)) =
        (custom.schema.properties.get("status"), object.value().get("status"))
    {
        let old = old.value().get("status");
        let mut walk = Walk { found: &mut found, steps: &mut causes.steps, root: "status." };
        walk.value(schema, status, old, Path::Start("status"));
    }
    found.report(causes);
    if let Some(scale) = &custom.scale {
        replicas(&scale.status_replicas, object.value(), causes);
    }
    lists::check(&custom.schema, object.value(), Some(old.value()), causes);
    rules::check(&custom.schema, object.value(), Some(old.value()), causes);
}

/// Checks the default of a schema, whose path is `path`.
pub(crate) fn check_default(schema: &Schema, default: &Value, path: &str, causes: &mut Causes) {
    let mut found = Findings::default();
    let mut walk = Walk { found: &mut found, steps: &mut causes.steps, root: "" };
    walk.value(schema, default, None, Path::Start(""));
    if found.count == 0 {
        rules::check_default(schema, default, path, causes);
    }
    for finding in &mut found.kept.items {
        finding.field = match &*finding.field {
            "" | "<nil>" => path.to_owned(),
            below => Path::Field(&Path::Start(path), below.trim_start_matches('.')).text(),
        };
    }
    found.report(causes);
}

fn check(custom: &CustomType, object: &Field, old: Option<&Value>, causes: &mut Causes) {
    let mut found = Findings::default();
    let mut walk = Walk { found: &mut found, steps: &mut causes.steps, root: "" };
    for (name, schema) in &custom.schema.properties {
        // The schema of the metadata can restrict names.
        if let Some(value) = object.value().get(&**name) {
            let is_visible = !matches!(&**name, "apiVersion" | "kind");
            let old = old.filter(|_| is_visible).and_then(|old| old.get(&**name));
            walk.value(schema, value, old, Path::Start(name));
        }
    }
    walk.object(&custom.schema, object.value(), Path::Start(""));
    found.report(causes);
    if let Some(scale) = &custom.scale {
        replicas(&scale.spec_replicas, object.value(), causes);
        replicas(&scale.status_replicas, object.value(), causes);
    }
    lists::check(&custom.schema, object.value(), old, causes);
}

/// Checks a number of the scale.
fn replicas(path: &[String], object: &Value, causes: &mut Causes) {
    let mut value = object;
    let mut accessor = String::new();
    for field in path {
        accessor.push('.');
        accessor.push_str(field);
        match value {
            Value::Object(fields) => match fields.get(field) {
                Some(found) => value = found,
                None => return,
            },
            Value::Null => return,
            other => {
                let expected = "map[string]interface{}";
                return wrong_accessor(path, &accessor, other, expected, causes);
            }
        }
    }
    let (shown, detail) = match value.as_i64() {
        Some(0..=0x7fff_ffff) => return,
        Some(negative) if negative < 0 => (negative, "should be a non-negative integer".to_owned()),
        Some(large) => (large, format!("should be less than or equal to {}", i32::MAX)),
        None => return wrong_accessor(path, &accessor, value, "int64", causes),
    };
    causes.found_at(Reason::Invalid, &accessor, format!("{shown}: {detail}"));
}

/// A value on the way to a number of the scale has another type than expected.
fn wrong_accessor(
    path: &[String],
    accessor: &str,
    value: &Value,
    expected: &str,
    causes: &mut Causes,
) {
    let (found, name) = (go_text(value), go_type(value));
    let message =
        format!("0: {accessor} accessor error: {found} is of the type {name}, expected {expected}");
    causes.found_at(Reason::Invalid, &format!(".{}", path.join(".")), message);
}
