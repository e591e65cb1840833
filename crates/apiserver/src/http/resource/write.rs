//! Create, update, patch, delete, bind and evict.

use http::{Response, StatusCode};

use super::Request;
use super::options::Options;
use super::transaction::{Changed, Transaction};
use crate::http::call::Call;
use crate::http::decode::{self, Decoded};
use crate::http::negotiate::{self, Syntax};
use crate::http::query::FieldValidation;
use crate::http::render;
use crate::http::respond::{self, Body};
use crate::json::{Value, json};
use crate::kind::Kind;
use crate::object::Object;
use crate::patch::{self, PatchType};
use crate::registry::{Apply, Endpoint, Patch};
use crate::schema::{self, DecodeError};
use crate::status::Status;
use crate::store::{DeleteOptions, WriteOptions};
use crate::validation;
use crate::value::json_type;

/// A decoded object with the warnings for its unknown and duplicate fields.
struct ObjectBody {
    value: Value,
    warnings: Vec<String>,
}

impl Request<'_> {
    pub(super) fn create(&self) -> Result<Response<Body>, Status> {
        let options = Options::of_write("CreateOptions", self.call)?;
        let body = self.object_body(&options)?;
        let created = self.transaction(&options).create(body.value)?;
        let mut warnings = body.warnings;
        warnings.extend(validation::warnings(self.kind, created.value(), None));
        warnings.extend(self.kind.kept_warning());
        self.object_response(&created, StatusCode::CREATED, &warnings)
    }

    pub(super) fn update(&self, name: &str, endpoint: Endpoint) -> Result<Response<Body>, Status> {
        self.replace(|transaction, object| transaction.update(endpoint, name, object))
    }

    /// Replaces the finalizers in the spec of a namespace.
    pub(super) fn finalize(&self, name: &str) -> Result<Response<Body>, Status> {
        self.replace(|transaction, object| transaction.finalize(name, object))
    }

    fn replace(
        &self,
        write: impl FnOnce(&Transaction<'_>, &Value) -> Result<Changed, Status>,
    ) -> Result<Response<Body>, Status> {
        let options = Options::of_write("UpdateOptions", self.call)?;
        let ObjectBody { value, warnings } = self.object_body(&options)?;
        let changed = write(&self.transaction(&options), &value)?;
        self.change_response(&changed, warnings)
    }

    pub(super) fn patch(&self, name: &str, endpoint: Endpoint) -> Result<Response<Body>, Status> {
        let content_type = negotiate::content_type(&self.call.headers);
        if content_type == patch::APPLY {
            return self.apply(name, endpoint);
        }
        let patch_type = PatchType::parse(&content_type)?;
        let options = Options::of_patch(self.call)?;
        let decoded = decode::decode(&self.call.body, Syntax::Json)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        let mut findings = decoded.duplicates;
        if patch_type == PatchType::Json {
            findings.extend(unknown_members(&decoded.value));
            findings.iter_mut().for_each(|finding| finding.insert_str(0, "json patch "));
        }
        let validation = options.field_validation;
        let strict = (validation == FieldValidation::Strict).then(|| findings.clone());
        let patch = Patch { patch_type, body: decoded.value, endpoint, strict };
        let changed = self.transaction(&options).patch(name, &patch)?;
        let warnings = match validation {
            FieldValidation::Ignore | FieldValidation::Strict => Vec::new(),
            FieldValidation::Warn => {
                let before = changed.before.as_ref().map_or(&Value::Null, |before| before.value());
                let after = changed.after.value();
                findings.extend(schema::new_unknown_fields(self.kind, after, before));
                findings
            }
        };
        self.change_response(&changed, warnings)
    }

    /// Server-side apply (S14).
    fn apply(&self, name: &str, endpoint: Endpoint) -> Result<Response<Body>, Status> {
        self.form()?;
        let options = Options::of_apply(self.call)?;
        let (object, findings) = applied_object(&self.call.body)?;
        let validation = options.field_validation;
        let apply = Apply {
            object,
            endpoint,
            force: self.call.parameters.force == Some(true),
            strict: (validation == FieldValidation::Strict).then(|| findings.clone()),
        };
        let changed = self.transaction(&options).apply(name, &apply)?;
        let warnings = match validation {
            FieldValidation::Ignore | FieldValidation::Strict => Vec::new(),
            FieldValidation::Warn => findings,
        };
        self.change_response(&changed, warnings)
    }

    pub(super) fn delete(&self, name: &str) -> Result<Response<Body>, Status> {
        let form = self.form()?;
        let (delete, dry_run) = delete_options(self.call)?;
        let deleted = self.shared.write(|cluster, now| {
            let options = WriteOptions { now, dry_run };
            cluster.registry_mut().delete(self.kind, self.namespace(), name, &delete, &options)
        })?;
        Ok(render::document(StatusCode::OK, &deleted.response(self.kind), form))
    }

    pub(super) fn delete_collection(&self) -> Result<Response<Body>, Status> {
        let form = self.form()?;
        let (delete, dry_run) = delete_options(self.call)?;
        let list = self.list_options()?;
        let deleted = self.shared.write(|cluster, now| {
            let options = WriteOptions { now, dry_run };
            cluster.registry_mut().delete_collection(self.kind, &list, &delete, &options)
        })?;
        Ok(render::list(self.kind, &deleted, form, self.call.parameters.include_object))
    }

    pub(super) fn bind(&self, name: &str) -> Result<Response<Body>, Status> {
        let dry_run = Options::of_write("CreateOptions", self.call)?.dry_run;
        let binding = sub_body(self.call)?;
        self.shared.write(|cluster, now| {
            cluster.bind(self.namespace(), name, &binding, &WriteOptions { now, dry_run })
        })?;
        Ok(success())
    }

    pub(super) fn evict(&self, name: &str) -> Result<Response<Body>, Status> {
        let is_checked = Options::of_write("CreateOptions", self.call)?.dry_run;
        let eviction = sub_body(self.call)?;
        let dry_run = is_checked || has_dry_run(&eviction["deleteOptions"]);
        self.shared.write(|cluster, now| {
            cluster.evict(self.namespace(), name, &eviction, &WriteOptions { now, dry_run })
        })?;
        Ok(success())
    }

    pub(super) fn transaction<'a>(&'a self, options: &'a Options) -> Transaction<'a> {
        Transaction { request: self, options }
    }

    fn object_body(&self, options: &Options) -> Result<ObjectBody, Status> {
        // Refuse a client that does not accept our response before anything is written.
        self.form()?;
        let kind = self.kind;
        let mut decoded = body(kind, self.call)?;
        check_type(kind, &mut decoded.value)?;
        let refuse = |error: DecodeError| Status::bad_request(error.to_string());
        schema::decode(kind, &decoded.value).map_err(refuse)?;
        if options.field_validation == FieldValidation::Ignore {
            return Ok(ObjectBody { value: decoded.value, warnings: Vec::new() });
        }
        let mut findings = decoded.duplicates;
        findings.extend(schema::unknown_fields(kind, &decoded.value));
        if options.field_validation == FieldValidation::Strict && !findings.is_empty() {
            return Err(refuse(DecodeError::strict(kind, &findings)));
        }
        Ok(ObjectBody { value: decoded.value, warnings: findings })
    }

    fn change_response(
        &self,
        changed: &Changed,
        mut warnings: Vec<String>,
    ) -> Result<Response<Body>, Status> {
        let before = changed.before.as_ref().map(|before| before.value());
        warnings.extend(validation::warnings(self.kind, changed.after.value(), before));
        if changed.is_change() {
            warnings.extend(self.kind.kept_warning());
        }
        let code = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
        self.object_response(&changed.after, code, &warnings)
    }

    fn object_response(
        &self,
        object: &Object,
        code: StatusCode,
        warnings: &[String],
    ) -> Result<Response<Body>, Status> {
        let (form, include) = (self.form()?, self.call.parameters.include_object);
        let mut response = render::object(self.kind, object, form, include, code);
        respond::warn(&mut response, warnings);
        Ok(response)
    }
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

fn success() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    respond::json(StatusCode::CREATED, &status)
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

/// The body of `binding`, `eviction`, `scale` or a deletion, which is decoded without a schema.
pub(super) fn sub_body(call: &Call) -> Result<Value, Status> {
    negotiate::require_json(&call.headers)?;
    let syntax = negotiate::body_syntax(&call.headers)?;
    let decoded = decode::decode(&call.body, syntax).map_err(Status::bad_request)?;
    if decoded.value.is_object() {
        return Ok(decoded.value);
    }
    Err(Status::bad_request("the body of the request is not a JSON object"))
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

/// The options of a deletion, as upstream from the body if there is one, else from the query, and
/// whether it is only checked.
fn delete_options(call: &Call) -> Result<(DeleteOptions, bool), Status> {
    let parameters = &call.parameters;
    let body = match call.body.is_empty() {
        true => json!({
            "gracePeriodSeconds": parameters.grace_period_seconds,
            "propagationPolicy": parameters.propagation_policy,
            "orphanDependents": parameters.orphan_dependents,
            "dryRun": parameters.dry_run,
        }),
        false => sub_body(call)?,
    };
    let delete = DeleteOptions::parse(&body)?;
    Ok((delete, has_dry_run(&body)))
}

/// True if options, which are valid, state `dryRun`.
fn has_dry_run(options: &Value) -> bool {
    options["dryRun"].as_array().is_some_and(|values| !values.is_empty())
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
