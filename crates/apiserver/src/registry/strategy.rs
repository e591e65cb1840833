//! The fields that the endpoints of each kind may change (S9).

use crate::defaults;
use crate::json::{Map, SmolStr, Value};
use crate::kind::Kind;
use crate::kind::strategy::{InitialStatus, bump_generation, keep};

/// The part of an object that a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// All but the status.
    Main,
    /// The status.
    Status,
    /// The number of replicas.
    Scale,
    /// CPU and memory of the containers of a pod.
    Resize,
}

pub(super) fn prepare_create(kind: &Kind, object: &mut Value) {
    match kind.strategy.initial_status {
        InitialStatus::Defaults if kind.has_status() => {
            fields_of(object).remove("status");
            defaults::apply(kind, object);
        }
        InitialStatus::Of(status) => object["status"] = status(object),
        InitialStatus::Defaults | InitialStatus::Given => {}
    }
    if kind.counts_generations {
        object["metadata"]["generation"] = Value::from(1);
    }
    (kind.strategy.prepare_create)(object);
}

/// An update through the main endpoint: restores the status and counts changes of the spec.
pub(super) fn prepare_update(kind: &Kind, object: &mut Value, current: &Value) {
    if kind.has_status() {
        keep(object, current, "status");
    }
    if kind.counts_generations && is_new_generation(kind, object, current) {
        bump_generation(object, current);
    }
    (kind.strategy.prepare_update)(object, current);
}

/// An update through the status endpoint: restores the spec.
pub(super) fn prepare_status_update(kind: &Kind, object: &mut Value, current: &Value) {
    if kind.custom.is_some() {
        // Only the status changes, whatever other fields there are.
        let status = object.get("status").cloned();
        object.clone_from(current);
        match status {
            Some(status) => object["status"] = status,
            None => drop(fields_of(object).remove("status")),
        }
        return;
    }
    keep(object, current, "spec");
    (kind.strategy.prepare_status_update)(object, current);
}

/// The fields that an endpoint leaves unchanged, whatever a request contains (`GetResetFields`).
pub(super) fn unchanged_fields(
    kind: &Kind,
    endpoint: Endpoint,
) -> &'static [&'static [&'static str]] {
    match endpoint {
        Endpoint::Main | Endpoint::Scale if kind.has_status() => &[&["status"]],
        Endpoint::Status if kind.custom.is_some() => &[&["metadata"], &["spec"]],
        Endpoint::Status => kind.strategy.unchanged_by_status,
        // Writers of the resize endpoint own nothing but the fields that it can change.
        Endpoint::Main | Endpoint::Scale | Endpoint::Resize => &[],
    }
}

/// True if a change counts: any of the fields but metadata and status.
fn is_new_generation(kind: &Kind, object: &Value, current: &Value) -> bool {
    let has_status = kind.has_status();
    let is_counted =
        |(name, _): &(&SmolStr, &Value)| *name != "metadata" && !(has_status && *name == "status");
    let fields = |object| Value::as_object(object).into_iter().flatten();
    !fields(object).filter(is_counted).eq(fields(current).filter(is_counted))
}

fn fields_of(object: &mut Value) -> &mut Map {
    object.as_object_mut().expect("its shape was checked")
}
