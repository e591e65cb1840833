//! Create, update, patch, delete, bind and evict.

use std::sync::Arc;

use http::{Response, StatusCode};

use super::transaction::{Changed, Transaction};
use super::{ResourceTarget, field_manager, read};
use crate::api::call::Call;
use crate::api::decode::{self, Decoded};
use crate::api::negotiate::{self, Syntax};
use crate::api::query::FieldValidation;
use crate::api::render;
use crate::api::respond::{self, Body};
use crate::api::shared::SharedCluster;
use crate::authorization::User;
use crate::json::{Map, Value, json};
use crate::kind::Kind;
use crate::object::Object;
use crate::patch::{self, PatchType};
use crate::registry::{Apply, Endpoint, Patch};
use crate::schema::{self, DecodeError};
use crate::status::Status;
use crate::store::{DeleteOptions, WriteOptions};
use crate::validation;
use crate::value::json_type;

/// The part of an object that a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteEndpoint {
    Main,
    Status,
    Resize,
    Finalize,
}

impl WriteEndpoint {
    fn of_object(self) -> Endpoint {
        match self {
            Self::Status => Endpoint::Status,
            Self::Resize => Endpoint::Resize,
            Self::Main | Self::Finalize => Endpoint::Main,
        }
    }
}

pub(super) fn create(
    shared: &Arc<SharedCluster>,
    user: &User,
    target: &ResourceTarget<'_>,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let body = object_body(target.kind, call)?;
    let manager = field_manager::of_write("CreateOptions", call)?;
    let transaction = transaction(shared, user, target, call, &manager);
    let created = transaction.create(body.value)?;
    let mut warnings = body.warnings;
    warnings.extend(validation::warnings(target.kind, created.value(), None));
    warnings.extend(target.kind.kept_warning());
    object_response(target.kind, &created, call, StatusCode::CREATED, &warnings)
}

pub(super) fn update(
    shared: &Arc<SharedCluster>,
    user: &User,
    target: &ResourceTarget<'_>,
    name: &str,
    endpoint: WriteEndpoint,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let kind = target.kind;
    let manager = field_manager::of_write("UpdateOptions", call)?;
    let ObjectBody { value, warnings } = object_body(kind, call)?;
    let transaction = transaction(shared, user, target, call, &manager);
    let changed = match endpoint {
        WriteEndpoint::Main => transaction.update(name, &value)?,
        WriteEndpoint::Status => transaction.update_part(Endpoint::Status, name, &value)?,
        WriteEndpoint::Resize => transaction.update_part(Endpoint::Resize, name, &value)?,
        WriteEndpoint::Finalize => transaction.finalize(name, &value)?,
    };
    change_response(kind, &changed, call, warnings)
}

pub(super) fn patch(
    shared: &Arc<SharedCluster>,
    user: &User,
    target: &ResourceTarget<'_>,
    name: &str,
    endpoint: WriteEndpoint,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let content_type = negotiate::content_type(&call.headers);
    if content_type == patch::APPLY {
        return apply(shared, user, target, name, endpoint, call);
    }
    let patch_type = PatchType::parse(&content_type)?;
    let manager = field_manager::of_patch(call)?;
    let decoded = decode::decode(&call.body, Syntax::Json)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    let kind = target.kind;
    let mut findings = decoded.duplicates;
    if patch_type == PatchType::Json {
        findings.extend(unknown_members(&decoded.value));
        findings.iter_mut().for_each(|finding| finding.insert_str(0, "json patch "));
    }
    let validation = call.parameters.field_validation;
    let strict = (validation == FieldValidation::Strict).then(|| findings.clone());
    let patch = Patch { patch_type, body: decoded.value, endpoint: endpoint.of_object(), strict };
    let changed = transaction(shared, user, target, call, &manager).patch(name, &patch)?;
    let warnings = match validation {
        FieldValidation::Ignore | FieldValidation::Strict => Vec::new(),
        FieldValidation::Warn => {
            let before = changed.before.as_ref().map_or(&Value::Null, |before| before.value());
            findings.extend(schema::new_unknown_fields(kind, changed.after.value(), before));
            findings
        }
    };
    change_response(kind, &changed, call, warnings)
}

pub(super) fn transaction<'a>(
    shared: &'a SharedCluster,
    user: &'a User,
    target: &'a ResourceTarget<'a>,
    call: &Call,
    manager: &'a str,
) -> Transaction<'a> {
    let (body_bytes, dry_run) = (call.body.len(), call.parameters.dry_run);
    Transaction { shared, user, target, manager, body_bytes, dry_run }
}

/// Server-side apply (S14).
fn apply(
    shared: &Arc<SharedCluster>,
    user: &User,
    target: &ResourceTarget<'_>,
    name: &str,
    endpoint: WriteEndpoint,
    call: &Call,
) -> Result<Response<Body>, Status> {
    negotiate::form(&call.headers, target.kind)?;
    let manager = field_manager::of_apply(call)?;
    let (object, findings) = applied_object(&call.body)?;
    let validation = call.parameters.field_validation;
    let apply = Apply {
        object,
        endpoint: endpoint.of_object(),
        force: call.parameters.force == Some(true),
        strict: (validation == FieldValidation::Strict).then(|| findings.clone()),
    };
    let changed = transaction(shared, user, target, call, &manager).apply(name, &apply)?;
    let warnings = match validation {
        FieldValidation::Ignore | FieldValidation::Strict => Vec::new(),
        FieldValidation::Warn => findings,
    };
    change_response(target.kind, &changed, call, warnings)
}

/// The object of an apply, and what strict decoding finds in its text. JSON is YAML, and our parser
/// of JSON finds more.
pub(super) fn applied_object(body: &[u8]) -> Result<(Value, Vec<String>), Status> {
    let is_json = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let syntax = if is_json { Syntax::Json } else { Syntax::Yaml };
    let refuse = |error: &str| Status::bad_request(format!("error decoding YAML: {error}"));
    let decoded = decode::decode(body, syntax)
        .map_err(|error| refuse(&format!("error converting YAML to JSON: {error}")))?;
    match decoded.value {
        value @ Value::Object(_) => Ok((value, decoded.duplicates)),
        other => Err(refuse(&format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value \
             of type map[string]interface {{}}",
            json_type(&other)
        ))),
    }
}

fn change_response(
    kind: &'static Kind,
    changed: &Changed,
    call: &Call,
    mut warnings: Vec<String>,
) -> Result<Response<Body>, Status> {
    let before = changed.before.as_ref().map(|before| before.value());
    warnings.extend(validation::warnings(kind, changed.after.value(), before));
    if changed.is_change() {
        warnings.extend(kind.kept_warning());
    }
    let code = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    object_response(kind, &changed.after, call, code, &warnings)
}

pub(super) fn delete(
    shared: &Arc<SharedCluster>,
    target: &ResourceTarget<'_>,
    name: &str,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let form = negotiate::form(&call.headers, target.kind)?;
    let (delete, dry_run) = delete_options(call)?;
    let (kind, namespace) = (target.kind, target.namespace());
    let deleted = shared.write(|registry, now| {
        registry.delete(kind, namespace, name, &delete, &WriteOptions { now, dry_run })
    })?;
    Ok(render::document(StatusCode::OK, &deleted.response(kind), form))
}

pub(super) fn delete_collection(
    shared: &Arc<SharedCluster>,
    target: &ResourceTarget<'_>,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let form = negotiate::form(&call.headers, target.kind)?;
    let (delete, dry_run) = delete_options(call)?;
    let options = read::list_options(target, &call.parameters)?;
    let deleted = shared.write(|registry, now| {
        registry.delete_collection(target.kind, &options, &delete, &WriteOptions { now, dry_run })
    })?;
    Ok(render::list(target.kind, &deleted, form, call.parameters.include_object))
}

pub(super) fn bind(
    shared: &Arc<SharedCluster>,
    target: &ResourceTarget<'_>,
    name: &str,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let binding = sub_body(call)?.value;
    shared.write(|registry, now| {
        let options = WriteOptions { now, dry_run: call.parameters.dry_run };
        registry.bind(target.namespace(), name, &binding, &options)
    })?;
    Ok(success())
}

pub(super) fn evict(
    shared: &Arc<SharedCluster>,
    target: &ResourceTarget<'_>,
    name: &str,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let eviction = sub_body(call)?.value;
    let dry_run = call.parameters.dry_run || has_dry_run(&eviction["deleteOptions"])?;
    shared.write(|registry, now| {
        registry.evict(target.namespace(), name, &eviction, &WriteOptions { now, dry_run })
    })?;
    Ok(success())
}

fn object_response(
    kind: &'static Kind,
    object: &Object,
    call: &Call,
    code: StatusCode,
    warnings: &[String],
) -> Result<Response<Body>, Status> {
    let form = negotiate::form(&call.headers, kind)?;
    let mut response = render::object(kind, object, form, call.parameters.include_object, code);
    respond::warn(&mut response, warnings);
    Ok(response)
}

fn success() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    respond::json(StatusCode::CREATED, &status)
}

/// A decoded object with the warnings for its unknown and duplicate fields.
struct ObjectBody {
    value: Value,
    warnings: Vec<String>,
}

fn object_body(kind: &'static Kind, call: &Call) -> Result<ObjectBody, Status> {
    // Refuse a client that does not accept our response before anything is written.
    negotiate::form(&call.headers, kind)?;
    let mut decoded = body(kind, call)?;
    check_type(kind, &mut decoded.value)?;
    let refuse = |error: DecodeError| Status::bad_request(error.to_string());
    schema::decode(kind, &decoded.value).map_err(refuse)?;
    let findings = || {
        let mut findings = decoded.duplicates;
        findings.extend(schema::unknown_fields(kind, &decoded.value));
        findings
    };
    let warnings = match call.parameters.field_validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => findings(),
        FieldValidation::Strict => {
            let findings = findings();
            if !findings.is_empty() {
                return Err(refuse(DecodeError::strict(kind, &findings)));
            }
            findings
        }
    };
    Ok(ObjectBody { value: decoded.value, warnings })
}

fn body(kind: &Kind, call: &Call) -> Result<Decoded, Status> {
    let syntax = negotiate::body_syntax(&call.headers)?;
    let unrecognized = |error: &str| {
        let (name, body) = (kind.kind, summary(&call.body));
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {name}): couldn't get \
             version/kind; json parse error: {error} ({body})"
        ))
    };
    let decoded = decode::decode(&call.body, syntax).map_err(|error| unrecognized(&error))?;
    if !decoded.value.is_object() {
        return Err(unrecognized("it is not a JSON object"));
    }
    Ok(decoded)
}

/// The start of a body as upstream quotes it: as text if it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    const LENGTH_MAX: usize = 30;
    let start = &body[..body.len().min(LENGTH_MAX)];
    let dots = if body.len() > LENGTH_MAX { " ..." } else { "" };
    match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{dots}", String::from_utf8_lossy(start)),
        Some(_) => {
            let digits: String = start.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits}{dots}")
        }
    }
}

/// The body of `binding`, `eviction` or a deletion, which is decoded without a schema.
fn sub_body(call: &Call) -> Result<Decoded, Status> {
    negotiate::require_json(&call.headers)?;
    let syntax = negotiate::body_syntax(&call.headers)?;
    let decoded = decode::decode(&call.body, syntax).map_err(Status::bad_request)?;
    if decoded.value.is_object() {
        return Ok(decoded);
    }
    Err(Status::bad_request("the body of the request is not a JSON object"))
}

/// The body of a `scale`.
pub(super) fn body_of_scale(call: &Call) -> Result<Value, Status> {
    Ok(sub_body(call)?.value)
}

/// Checks that apiVersion and kind are those of the path, and sets them if they are absent.
fn check_type(kind: &Kind, object: &mut Value) -> Result<(), Status> {
    let api_version = kind.api_version();
    let sent = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (sent_version, sent_kind) = (sent("apiVersion"), sent("kind"));
    if !sent_kind.is_empty() && sent_kind != kind.kind {
        return Err(Status::bad_request(format!(
            "{sent_kind} in version {:?} cannot be handled as a {}: no kind {sent_kind:?} is \
             registered for version {sent_version:?} at this path",
            version_of(&sent_version),
            kind.kind,
        )));
    }
    if !sent_version.is_empty() && sent_version != api_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({sent_version}) does not match the expected API version \
             ({api_version})"
        )));
    }
    object["kind"] = kind.kind.into();
    object["apiVersion"] = api_version.into();
    Ok(())
}

fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or(api_version)
}

/// The options of a deletion, from the body if there is one, else from the query.
fn delete_options(call: &Call) -> Result<(DeleteOptions, bool), Status> {
    let parameters = &call.parameters;
    if call.body.is_empty() {
        let mut query = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            query.extend(value.map(|value| (name.to_owned(), value)));
        };
        set("gracePeriodSeconds", parameters.grace_period_seconds.map(Value::from));
        set("propagationPolicy", parameters.propagation_policy.clone().map(Value::from));
        set("orphanDependents", parameters.orphan_dependents.map(Value::from));
        return Ok((DeleteOptions::parse(&Value::Object(query))?, parameters.dry_run));
    }
    let body = sub_body(call)?.value;
    let dry_run = parameters.dry_run || has_dry_run(&body)?;
    Ok((DeleteOptions::parse(&body)?, dry_run))
}

fn has_dry_run(options: &Value) -> Result<bool, Status> {
    let values = options["dryRun"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    match values.iter().find(|value| **value != "All") {
        Some(other) => Err(Status::bad_request(format!(
            "dryRun: Unsupported value: {other}: supported values: \"All\""
        ))),
        None => Ok(!values.is_empty()),
    }
}

/// Members of JSON patch operations that RFC 6902 does not define, in upstream's words.
fn unknown_members(patch: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (index, operation) in patch.as_array().into_iter().flatten().enumerate() {
        let members = operation.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let unknown = members.filter(|name| !matches!(*name, "op" | "path" | "from" | "value"));
        found.extend(unknown.map(|name| format!("unknown field \"[{index}].{name}\"")));
    }
    found
}
