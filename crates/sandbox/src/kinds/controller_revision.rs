//! ControllerRevisions.

use crate::json::Value;
use crate::kind::columns::{self, AGE, NAME, or_none};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Int;
use crate::kind::rules::{self, Causes, Field, Rules, metadata};
use crate::kind::{Kind, named};
use crate::value::{array, boolean, string};

/// ControllerRevisions.
pub static CONTROLLER_REVISION: Kind = Kind {
    columns: &[
        NAME,
        columns::of("Controller", controller).about("Controller of the object"),
        columns::number("Revision", "/revision").about("The number of the revision"),
        AGE,
    ],
    defaults: Defaults { values: &[("revision", Int(0))], ..Defaults::NONE },
    rules: Rules { nonnegative: &["revision"], more: data, on_update, ..Rules::NONE },
    ..named("apps", "ControllerRevision", "controllerrevisions", "controllerrevision")
};

/// The owner that is the controller, as `kind.group/name`.
fn controller(object: &Value) -> Value {
    let mut owners = array(object, "/metadata/ownerReferences").iter();
    let Some(owner) = owners.find(|owner| boolean(owner, "/controller")) else {
        return or_none("").into();
    };
    let (kind, name) = (string(owner, "/kind").to_lowercase(), string(owner, "/name"));
    match string(owner, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}").into(),
        None => format!("{kind}/{name}").into(),
    }
}

fn data(object: &Field, causes: &mut Causes) {
    if !object.child("data").is_set() {
        causes.required(&object.child("data"), "data is mandatory");
    }
}

fn on_update(kind: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    rules::on_update(kind, object, old, causes);
    metadata::immutable(&object.child("data"), &old.child("data"), causes);
}
