//! The server's defaults (S9): upstream's `SetDefaults_…` functions, and the form in which its
//! encoder writes objects. Pure and idempotent.

mod daemon_set;
mod kept;
mod node;
mod pod;
mod simple;
#[cfg(test)]
mod tests;

use crate::json::{Map, Value};

use crate::kind::Kind;
use crate::schema;

/// The same as [`apply`] for the result of a server-side apply: as upstream, the nulls of a custom
/// resource stay, and are refused where the schema does not allow them.
pub(crate) fn apply_to_applied(kind: &Kind, object: &mut Value) {
    match kind.custom() {
        None => apply(kind, object),
        Some(custom) => {
            schema::normalize(kind, object, &Value::Null);
            custom.prune(object, &mut |_| {});
            custom.apply_defaults(object);
        }
    }
}

/// Sets the defaults of `object` and normalizes it to the form in which the server returns it.
/// Ignores a value that is not a JSON object, which `validation::decode` refuses.
pub fn apply(kind: &Kind, object: &mut Value) {
    apply_to_changed(kind, object, &Value::Null);
}

/// The same for a changed object. Skips what it shares with `stored`, the object before, which has
/// its defaults.
pub(crate) fn apply_to_changed(kind: &Kind, object: &mut Value, stored: &Value) {
    schema::normalize(kind, object, stored);
    if let Some(custom) = kind.custom() {
        custom.prune(object, &mut |_| {});
        custom.remove_nulls(object);
        custom.apply_defaults(object);
        return;
    }
    let Some(fields) = object.as_object_mut() else { return };
    struct_at(fields, "metadata");
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::pod(fields, stored),
        ("", "Node") => node::node(fields, stored),
        ("", "Namespace") => simple::namespace(fields),
        ("", "Secret") => simple::secret(fields),
        ("", "Event") => simple::event(fields),
        ("apps", "DaemonSet") => daemon_set::daemon_set(fields),
        ("apps", "ControllerRevision") => default(fields, "revision", 0),
        ("coordination.k8s.io", "Lease") => {
            struct_at(fields, "spec");
        }
        ("rbac.authorization.k8s.io", "ClusterRole" | "Role") => {
            default(fields, "rules", Value::Null);
        }
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => {
            simple::binding(fields);
        }
        _ => {
            if kept::apply(kind, fields) {
                schema::complete(kind, object);
            }
        }
    }
}

type Fields = Map;

/// The struct at `name`, created if it is absent; `None` if it is shared with `stored`, which has
/// its defaults.
fn changed_struct<'a>(
    fields: &'a mut Fields,
    stored: &Value,
    name: &str,
) -> Option<&'a mut Fields> {
    let is_known = fields.get(name).is_some_and(|value| value.is_shared_with(&stored[name]));
    (!is_known).then(|| struct_at(fields, name))
}

/// The struct at `name`, created if it is absent.
fn struct_at<'a>(fields: &'a mut Fields, name: &str) -> &'a mut Fields {
    let field = fields.entry(name).or_insert(Value::Null);
    if !field.is_object() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut().expect("just made an object")
}

/// The struct at `name`; `None` if there is none.
fn optional_struct<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    fields.get_mut(name)?.as_object_mut()
}

/// Synchronises a list with the older field for its first item. If they differ, the older field
/// counts, because old clients know only that one.
fn first_of_many(
    fields: &mut Fields,
    one: &str,
    many: &str,
    item: impl Fn(Value) -> Value,
    text_of: impl Fn(&Value) -> &Value,
) {
    let first = fields.get(many).and_then(|many| many.get(0)).map(text_of).cloned();
    match (text(fields, one), first) {
        ("", Some(first)) => drop(fields.insert(one.to_owned(), first)),
        ("", None) => {}
        (text, Some(first)) if first == text => {}
        (text, _) => {
            let items = vec![item(text.into())];
            fields.insert(many.to_owned(), items.into());
        }
    }
}

/// The structs in the list at `name`.
fn structs_in<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let list = fields.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The times of the conditions in a status, which Go writes even if they are unknown.
fn condition_times(status: &mut Fields, times: &[&str]) {
    for condition in structs_in(status, "conditions") {
        times.iter().for_each(|time| default(condition, time, Value::Null));
    }
}

/// Sets a field that is absent.
fn default(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    if !fields.contains_key(name) {
        fields.insert(name.to_owned(), value.into());
    }
}

fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or("")
}
