//! Validation (S9): the errors in an object, with the paths and messages of upstream's validation.
//! Pure functions over JSON trees that were decoded with [`decode`] and defaulted with
//! [`defaults::apply`](crate::defaults::apply).

mod affinity;
#[cfg(test)]
mod agents;
mod cause;
mod container;
mod custom;
mod daemon_set;
mod definition;
mod deployment;
mod environment;
mod event;
mod field;
mod kept;
mod lease;
mod metadata;
mod node;
mod pod;
mod pod_spec;
mod probe;
mod resize;
mod resources;
mod role;
mod scheduling;
mod security;
mod selector;
mod service;
mod simple;
#[cfg(test)]
mod tests;
mod volume;
mod volume_source;
mod warnings;

use std::sync::Arc;

use crate::json::Value;

use self::field::{Causes, Field};
use crate::custom::CustomType;
use crate::format;
use crate::kind::Kind;

pub use crate::schema::{DecodeError, decode, unknown_fields};
pub use cause::{Cause, Reason};
pub(crate) use field::go_quote;

/// The errors that prevent the creation of `object`.
pub fn on_create(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let root = Field::root(object);
    match validator_of(kind) {
        Validator::Pod => pod::on_create(&root, &mut causes),
        Validator::Node => node::on_create(&root, &mut causes),
        Validator::DaemonSet => daemon_set::on_create(&root, &mut causes),
        Validator::ControllerRevision => daemon_set::revision_on_create(&root, &mut causes),
        Validator::Namespace => simple::namespace_on_create(&root, &mut causes),
        Validator::ConfigMap => simple::config_map_on_create(&root, &mut causes),
        Validator::Secret => simple::secret_on_create(&root, &mut causes),
        Validator::ServiceAccount => metadata::on_create(&root, metadata::NAMESPACED, &mut causes),
        Validator::Event => event::on_create(&root, false, &mut causes),
        Validator::EventsEvent => event::on_create(&root, true, &mut causes),
        Validator::Lease => lease::on_create(&root, &mut causes),
        Validator::Role(scope) => role::on_create(&root, scope, &mut causes),
        Validator::RoleBinding(scope) => role::binding_on_create(&root, scope, &mut causes),
        Validator::Definition => definition::on_create(&root, &mut causes),
        Validator::Custom(custom) => custom::on_create(kind, &custom, &root, &mut causes),
        Validator::Kept(row) => row.on_create(kind, &root, &mut causes),
        Validator::MetadataOnly => {
            metadata::on_create(&root, metadata::rules_of(kind), &mut causes)
        }
    }
    causes.into_vec()
}

/// The errors that prevent `new` from replacing `old` through the main endpoint.
pub fn on_update(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let (root, old) = (Field::root(new), Field::root(old));
    match validator_of(kind) {
        Validator::Pod => pod::on_update(&root, &old, &mut causes),
        Validator::Node => node::on_update(&root, &old, &mut causes),
        Validator::DaemonSet => daemon_set::on_update(&root, &old, &mut causes),
        Validator::ControllerRevision => daemon_set::revision_on_update(&root, &old, &mut causes),
        Validator::Namespace => metadata::on_update(&root, &old, &mut causes),
        Validator::ConfigMap => simple::config_map_on_update(&root, &old, &mut causes),
        Validator::Secret => simple::secret_on_update(&root, &old, &mut causes),
        Validator::ServiceAccount => {
            metadata::on_update(&root, &old, &mut causes);
            metadata::on_create(&root, metadata::NAMESPACED, &mut causes);
        }
        Validator::Event => event::on_update(&root, &old, false, &mut causes),
        Validator::EventsEvent => event::on_update(&root, &old, true, &mut causes),
        Validator::Lease => lease::on_update(&root, &old, &mut causes),
        Validator::Role(scope) => role::on_update(&root, &old, scope, &mut causes),
        Validator::RoleBinding(scope) => {
            role::binding_on_update(&root, &old, scope, &mut causes);
        }
        Validator::Definition => definition::on_update(&root, &old, &mut causes),
        Validator::Custom(custom) => custom::on_update(&custom, &root, &old, &mut causes),
        Validator::Kept(row) => row.on_update(&root, &old, &mut causes),
        Validator::MetadataOnly => metadata::on_update(&root, &old, &mut causes),
    }
    causes.into_vec()
}

/// The errors that prevent `new` from replacing `old` through the status subresource.
pub fn on_status_update(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let (root, old) = (Field::root(new), Field::root(old));
    match validator_of(kind) {
        Validator::Pod => pod::on_status_update(&root, &old, &mut causes),
        Validator::DaemonSet => daemon_set::on_status_update(&root, &old, &mut causes),
        Validator::Node => node::on_update(&root, &old, &mut causes),
        Validator::Namespace => simple::namespace_on_status_update(&root, &old, &mut causes),
        Validator::Custom(custom) => custom::on_status_update(&custom, &root, &old, &mut causes),
        Validator::ControllerRevision
        | Validator::Definition
        | Validator::ConfigMap
        | Validator::Secret
        | Validator::ServiceAccount
        | Validator::Event
        | Validator::EventsEvent
        | Validator::Lease
        | Validator::Role(_)
        | Validator::RoleBinding(_)
        | Validator::Kept(_)
        | Validator::MetadataOnly => metadata::on_update(&root, &old, &mut causes),
    }
    causes.into_vec()
}

/// The errors that prevent the resize of the pod `old` to `new`.
pub(crate) fn on_resize(new: &Value, old: &Value, keeps_class: bool) -> Vec<Cause> {
    let mut causes = Causes::default();
    resize::on_resize(&Field::root(new), &Field::root(old), keeps_class, &mut causes);
    causes.into_vec()
}

/// Texts for `Warning` headers about discouraged but valid fields. As upstream, a template causes
/// warnings with each new generation, and an unchanged pod spec none; `old` is the replaced object.
pub fn warnings(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    let root = Field::root(new);
    let unchanged = |path: &str| old.is_some_and(|old| old.pointer(path) == new.pointer(path));
    let is_new = !unchanged("/metadata/generation");
    match validator_of(kind) {
        Validator::DaemonSet if is_new => warnings::of_pod(&root.child("spec").child("template")),
        Validator::Kept(row) => {
            let paths = row.templates().iter().map(|path| path.replace('.', "/"));
            let changed = paths.filter(|path| is_new || !unchanged(&format!("/{path}")));
            changed.flat_map(|path| warnings_at(&root, &path)).collect()
        }
        Validator::Pod if !unchanged("/spec") => warnings::of_pod(&root),
        Validator::Definition if !unchanged("/spec") => definition::warnings(new, old),
        _ => Vec::new(),
    }
}

fn warnings_at(field: &Field, path: &str) -> Vec<String> {
    match path.split_once('/') {
        Some((step, rest)) => warnings_at(&field.child(step), rest),
        None => warnings::of_pod(&field.child(path)),
    }
}

/// The validator of a kind.
enum Validator {
    Pod,
    Node,
    DaemonSet,
    ControllerRevision,
    Namespace,
    ConfigMap,
    Secret,
    ServiceAccount,
    Event,
    /// An Event in the form of events.k8s.io/v1.
    EventsEvent,
    Lease,
    Role(role::Scope),
    RoleBinding(role::Scope),
    /// A CustomResourceDefinition.
    Definition,
    /// A kind that one defines.
    Custom(Arc<CustomType>),
    /// A kind of the table of common rules.
    Kept(&'static kept::Row),
    /// A kind without rules of its own.
    MetadataOnly,
}

fn validator_of(kind: &Kind) -> Validator {
    if let Some(custom) = kind.custom() {
        return Validator::Custom(custom);
    }
    match (kind.group, kind.kind) {
        ("", "Pod") => Validator::Pod,
        ("", "Node") => Validator::Node,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Validator::Definition,
        ("apps", "DaemonSet") => Validator::DaemonSet,
        ("apps", "ControllerRevision") => Validator::ControllerRevision,
        ("", "Namespace") => Validator::Namespace,
        ("", "ConfigMap") => Validator::ConfigMap,
        ("", "Secret") => Validator::Secret,
        ("", "ServiceAccount") => Validator::ServiceAccount,
        ("", "Event") => Validator::Event,
        ("events.k8s.io", "Event") => Validator::EventsEvent,
        ("coordination.k8s.io", "Lease") => Validator::Lease,
        ("rbac.authorization.k8s.io", "ClusterRole") => Validator::Role(role::Scope::Cluster),
        ("rbac.authorization.k8s.io", "Role") => Validator::Role(role::Scope::Namespace),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => {
            Validator::RoleBinding(role::Scope::Cluster)
        }
        ("rbac.authorization.k8s.io", "RoleBinding") => {
            Validator::RoleBinding(role::Scope::Namespace)
        }
        _ => kept::row_of(kind).map_or(Validator::MetadataOnly, Validator::Kept),
    }
}
