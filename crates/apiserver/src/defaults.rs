//! Sets the server's defaults (S9): upstream's `SetDefaults_…` functions, and the form in which its
//! encoder writes objects. Pure and idempotent.

use crate::json::Value;

use crate::kind::Kind;
use crate::kind::defaults::struct_at;
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
    kind.defaults.apply(fields, stored);
    if kind.defaults.completed_by_schema {
        schema::complete(kind, object);
    }
}
