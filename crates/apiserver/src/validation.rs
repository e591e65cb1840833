//! Validation (S9): the errors in an object, with the paths and messages of upstream's validation.
//! Pure functions over JSON trees that were decoded with [`decode`] and defaulted with
//! [`defaults::apply`](crate::defaults::apply).

pub mod custom;

use crate::json::Value;
use crate::kind::Kind;
use crate::kind::rules::{Causes, Field};

pub use crate::kind::rules::{Cause, Reason};
pub use crate::schema::{DecodeError, decode, unknown_fields};

/// The errors that prevent the creation of `object`.
pub fn on_create(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let object = Field::root(object);
    match kind.custom() {
        Some(custom) => custom::on_create(kind, &custom, &object, &mut causes),
        None => (kind.rules.on_create)(kind, &object, &mut causes),
    }
    causes.into_vec()
}

/// The errors that prevent `new` from replacing `old` through the main endpoint.
pub fn on_update(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let (new, old) = (Field::root(new), Field::root(old));
    match kind.custom() {
        Some(custom) => custom::on_update(&custom, &new, &old, &mut causes),
        None => (kind.rules.on_update)(kind, &new, &old, &mut causes),
    }
    causes.into_vec()
}

/// The errors that prevent `new` from replacing `old` through the status subresource.
pub fn on_status_update(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let (new, old) = (Field::root(new), Field::root(old));
    match kind.custom() {
        Some(custom) => custom::on_status_update(&custom, &new, &old, &mut causes),
        None => (kind.rules.on_status_update)(kind, &new, &old, &mut causes),
    }
    causes.into_vec()
}

/// Texts for `Warning` headers about discouraged but valid fields. As upstream, a template causes
/// warnings with each new generation, and an unchanged pod spec none; `old` is the replaced object.
pub fn warnings(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    (kind.rules.warnings)(new, old)
}
