//! Who owns which fields after a write through the API (S14).
//!
//! The writes of the sandbox's own components change no owner: computing theirs would cost more
//! than the writes.

use everynode_core::api::Timestamp;

use super::strategy::{self, Endpoint};
use crate::json::Value;
use crate::kind::Kind;
use crate::managed_fields::{
    self, Applied, Conflicts, Live, ManagedFields, Managers, Set, Writing,
};
use crate::merge_schema::Type;
use crate::object::Object;
use crate::patch::go_text;
use crate::schema;
use crate::status::{Reason, Status};

/// A server-side apply.
#[derive(Clone, Debug)]
pub struct Apply {
    /// The applied object.
    pub object: Value,
    /// The endpoint that is applied to.
    pub endpoint: Endpoint,
    /// True if to take fields from other managers.
    pub force: bool,
    /// `None` unless the request asks for strict field validation; then the findings in the text of
    /// the object, such as duplicate fields.
    pub strict: Option<Vec<String>>,
}

/// A writer of an object.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The name of the field manager.
    pub manager: &'a str,
    /// The time of the write.
    pub now: Timestamp,
}

/// The owners of a new object. `sent` is `metadata.managedFields` of the request.
pub(super) fn on_create(
    kind: &'static Kind,
    object: &Value,
    sent: &Value,
    writer: Writer<'_>,
) -> ManagedFields {
    let managers = managed_fields::decode(sent).unwrap_or_default();
    let update = |writing: &Writing<'_>| {
        managed_fields::update(
            writing,
            &schema::empty_object(kind),
            object,
            managers,
            writer.manager,
        )
    };
    ManagedFields::encode(&with_writing(kind, Endpoint::Main, writer.now, update))
}

/// The owners of an object that replaces another one. `sent` is `metadata.managedFields` of the
/// request.
pub(super) fn on_update(
    kind: &'static Kind,
    endpoint: Endpoint,
    current: &Object,
    object: &Value,
    sent: &Value,
    writer: Writer<'_>,
) -> ManagedFields {
    let Some(managers) = known_managers(endpoint, current, sent) else {
        return ManagedFields::default();
    };
    let update = |writing: &Writing<'_>| {
        managed_fields::update(writing, current.value(), object, managers, writer.manager)
    };
    ManagedFields::encode(&with_writing(kind, endpoint, writer.now, update))
}

/// The managers before an update; `None` if there are none, so that nothing is recorded. A client
/// may send others for the main resource. If they do not make sense, those of the object stay.
fn known_managers(endpoint: Endpoint, current: &Object, sent: &Value) -> Option<Managers> {
    let sent = match endpoint {
        Endpoint::Main if managed_fields::is_reset(sent) => return None,
        Endpoint::Main => managed_fields::decode(sent).filter(|managers| !managers.is_empty()),
        Endpoint::Status | Endpoint::Scale | Endpoint::Resize => None,
    };
    let managers = sent.unwrap_or_else(|| current.managed_fields().decode());
    (!managers.is_empty()).then_some(managers)
}

/// The object and its owners after an apply to `current`, or to nothing. The object is without
/// defaults; `None` if nothing in it changes.
///
/// # Errors
/// 400 for an object of another kind, with managedFields, or with findings of strict decoding, 409
/// with all conflicts, 500 for one that does not have its type.
pub(super) fn apply(
    kind: &'static Kind,
    current: Option<&Object>,
    apply: &Apply,
    writer: Writer<'_>,
) -> Result<(Option<Value>, ManagedFields), Status> {
    check_applied(kind, &apply.object)?;
    let empty = schema::empty_object(kind);
    with_writing(kind, apply.endpoint, writer.now, |writing| {
        managed_fields::validate(writing.root, &apply.object).map_err(|found| {
            let object = description(kind, &apply.object);
            Status::new(
                Reason::Unknown,
                format!("failed to create typed patch object ({object}): {found}"),
            )
        })?;
        let live = Live {
            object: current.map_or(&empty, |current| current.value()),
            empty: &empty,
            managers: current.map(|current| current.managed_fields().decode()).unwrap_or_default(),
        };
        let Applied { object, managers } =
            managed_fields::apply(writing, live, &apply.object, writer.manager, apply.force)
                .map_err(|conflicts| conflict(apply.endpoint, conflicts))?;
        if let Some(findings @ [_, ..]) = apply.strict.as_deref() {
            let findings = findings.join("\n");
            return Err(Status::bad_request(format!("error strict decoding YAML: {findings}")));
        }
        if let Some(object) = &object {
            check_converts(kind, object)?;
        }
        Ok((object, ManagedFields::encode(&managers)))
    })
}

/// 409 with the conflicts. As upstream, who applies a scale is told of fields of the scale.
fn conflict(endpoint: Endpoint, conflicts: Conflicts) -> Status {
    managed_fields::conflict_status(&match endpoint {
        Endpoint::Scale => managed_fields::conflicts_of_version(conflicts, "autoscaling/v1"),
        Endpoint::Main | Endpoint::Status | Endpoint::Resize => conflicts,
    })
}

/// Checks what upstream checks before it looks at types.
fn check_applied(kind: &'static Kind, object: &Value) -> Result<(), Status> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, name) = (text("apiVersion"), text("kind"));
    if api_version != kind.api_version() || name != kind.kind {
        let group_version = with_group(api_version);
        return Err(Status::bad_request(format!(
            "invalid object type: {group_version}, Kind={name}"
        )));
    }
    if object["metadata"]["managedFields"].is_array() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// Checks that the result of an apply can be converted to the type of the kind.
fn check_converts(kind: &'static Kind, object: &Value) -> Result<(), Status> {
    schema::convert(kind, object, &Value::Null).map_err(|reason| {
        let (object, group_version) = (description(kind, object), with_group(&kind.api_version()));
        let name = kind.kind;
        Status::new(
            Reason::Unknown,
            format!(
                "failed to convert new object ({object}) to proper version: unable to convert \
                 unstructured object to {group_version}, Kind={name}: {reason}"
            ),
        )
    })
}

/// `default/agent; apps/v1, Kind=DaemonSet`
fn description(kind: &'static Kind, object: &Value) -> String {
    let text = |field: &str| match &object["metadata"][field] {
        Value::Null => String::new(),
        value => go_text(value),
    };
    let (namespace, name) = (text("namespace"), text("name"));
    format!("{namespace}/{name}; {}, Kind={}", with_group(&kind.api_version()), kind.kind)
}

/// `apps/v1`, `/v1`: as Go prints a group and version, whose group may be empty.
fn with_group(api_version: &str) -> String {
    if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") }
}

fn with_writing<T>(
    kind: &'static Kind,
    endpoint: Endpoint,
    now: Timestamp,
    act: impl FnOnce(&Writing<'_>) -> T,
) -> T {
    let custom = kind.custom();
    let root = match &custom {
        Some(custom) => Type::of_custom(&custom.schema),
        None => schema::root_of(kind).map_or(Type::Deduced, Type::Struct),
    };
    let api_version = kind.api_version();
    let serves = |version: &str| {
        version == api_version
            || custom
                .as_ref()
                .is_some_and(|custom| custom.api_versions.iter().any(|it| it == version))
            || kind.also_served.contains(&version)
    };
    act(&Writing {
        root,
        api_version: &api_version,
        serves: &serves,
        subresource: match endpoint {
            Endpoint::Main => "",
            Endpoint::Status => "status",
            Endpoint::Scale => "scale",
            Endpoint::Resize => "resize",
        },
        ignored: Set::of_fields(strategy::unchanged_fields(kind, endpoint)),
        only: match endpoint {
            Endpoint::Resize => kind.strategy.resize.map_or(&[], |resize| resize.fields),
            Endpoint::Main | Endpoint::Status | Endpoint::Scale => &[],
        },
        now,
    })
}
