//! The subresource `scale`: the number of replicas of an object, in one form for all kinds (S13).

use http::{Response, StatusCode};

use super::Request;
use super::options::Options;
use super::transaction::Changed;
use super::write::{applied_object, sub_body};
use crate::http::decode;
use crate::http::negotiate::{self, Syntax};
use crate::http::respond::{self, Body};
use crate::json::{Value, json};
use crate::kind::{Kind, columns};
use crate::object::Object;
use crate::patch::{self, PatchType};
use crate::registry::{Apply, Endpoint, Patch};
use crate::status::Status;
use crate::value::integer;

impl Request<'_> {
    pub(super) fn read_scale(&self, name: &str) -> Result<Response<Body>, Status> {
        Ok(respond::json(StatusCode::OK, &self.scale(name)?))
    }

    /// Replaces the scale.
    pub(super) fn update_scale(&self, name: &str) -> Result<Response<Body>, Status> {
        let options = Options::of_write("UpdateOptions", self.call)?;
        self.set_scale(name, &sub_body(self.call)?, &options)
    }

    /// Patches the scale.
    pub(super) fn patch_scale(&self, name: &str) -> Result<Response<Body>, Status> {
        let content_type = negotiate::content_type(&self.call.headers);
        if content_type == patch::APPLY {
            return self.apply_scale(name);
        }
        let patch_type = match PatchType::parse(&content_type)? {
            // A Scale has no lists, so the two forms are the same.
            PatchType::StrategicMerge => PatchType::Merge,
            other => other,
        };
        let options = Options::of_patch(self.call)?;
        let body =
            decode::decode(&self.call.body, Syntax::Json).map_err(Status::bad_request)?.value;
        let scale = patch::apply(self.kind, patch_type, &self.scale(name)?, &body)?;
        self.set_scale(name, &scale, &options)
    }

    /// Server-side apply (S14): the applier owns the number of replicas in the object itself.
    fn apply_scale(&self, name: &str) -> Result<Response<Body>, Status> {
        let options = Options::of_apply(self.call)?;
        let (scale, _) = applied_object(&self.call.body)?;
        let (kind, given) = (self.kind, |field: &str| scale[field].as_str().unwrap_or_default());
        if (given("apiVersion"), given("kind")) != ("autoscaling/v1", "Scale") {
            let (version, kind) = (given("apiVersion"), given("kind"));
            return Err(Status::bad_request(format!(
                "invalid object type: {version}, Kind={kind}"
            )));
        }
        let mut object = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": scale["metadata"],
        });
        if let Some(replicas) = scale["spec"].get("replicas") {
            set(&mut object, &Paths::of(kind).spec_replicas, replicas.clone());
        }
        let force = self.call.parameters.force == Some(true);
        let apply = Apply { object, endpoint: Endpoint::Scale, force, strict: None };
        Ok(self.scale_response(&self.transaction(&options).apply(name, &apply)?))
    }

    fn scale(&self, name: &str) -> Result<Value, Status> {
        let object = self.shared.read(|store| store.get(self.kind, self.namespace(), name))?;
        Ok(scale_of(self.kind, &object))
    }

    fn set_scale(
        &self,
        name: &str,
        scale: &Value,
        options: &Options,
    ) -> Result<Response<Body>, Status> {
        let patch = patch_of(self.kind, scale);
        Ok(self.scale_response(&self.transaction(options).patch(name, &patch)?))
    }

    fn scale_response(&self, changed: &Changed) -> Response<Body> {
        let mut response = respond::json(StatusCode::OK, &scale_of(self.kind, &changed.after));
        if changed.is_change() {
            respond::warn(&mut response, &Vec::from_iter(self.kind.kept_warning()));
        }
        response
    }
}

/// The patch of the object that sets its scale.
fn patch_of(kind: &Kind, scale: &Value) -> Patch {
    let replicas = integer(scale, "/spec/replicas");
    let mut metadata = json!({});
    for field in ["resourceVersion", "uid"] {
        if let Some(value) = scale["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut body = json!({"metadata": metadata});
    set(&mut body, &Paths::of(kind).spec_replicas, replicas.into());
    Patch { patch_type: PatchType::Merge, body, endpoint: Endpoint::Scale, strict: None }
}

/// Where the scale of the objects of a kind is.
struct Paths {
    spec_replicas: Vec<String>,
    status_replicas: Vec<String>,
    /// The selector as text; `None` for a built-in kind, which has a structured one.
    selector: Option<Vec<String>>,
}

impl Paths {
    fn of(kind: &Kind) -> Self {
        let custom = kind.custom();
        match custom.as_ref().and_then(|custom| custom.scale.as_ref()) {
            Some(scale) => Self {
                spec_replicas: scale.spec_replicas.clone(),
                status_replicas: scale.status_replicas.clone(),
                selector: Some(scale.selector.clone().unwrap_or_default()),
            },
            None => {
                let path = |field: &str| vec![field.to_owned(), "replicas".to_owned()];
                Self {
                    spec_replicas: path("spec"),
                    status_replicas: path("status"),
                    selector: None,
                }
            }
        }
    }
}

/// Sets a value, and makes the objects that lead to it.
fn set(object: &mut Value, path: &[String], value: Value) {
    match path {
        [] => *object = value,
        [first, rest @ ..] => {
            if !object.is_object() {
                *object = json!({});
            }
            set(&mut object[first.as_str()], rest, value);
        }
    }
}

fn at<'a>(object: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(object, |value, field| &value[field.as_str()])
}

/// The scale of an object. Only these fields of its metadata are in it.
fn scale_of(kind: &Kind, object: &Object) -> Value {
    let (value, paths) = (object.value(), Paths::of(kind));
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata[field] = value["metadata"][field].clone();
    }
    let replicas = |path: &[String]| at(value, path).as_i64().unwrap_or(0);
    let mut status = json!({"replicas": replicas(&paths.status_replicas)});
    let selector = match &paths.selector {
        Some(path) => at(value, path).as_str().unwrap_or_default().to_owned(),
        None => selector_text(&value["spec"]["selector"]),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas(&paths.spec_replicas)},
        "status": status,
    })
}

/// A selector as text: that of a ReplicationController is a map, the others are objects.
fn selector_text(selector: &Value) -> String {
    let has_form = |field: &str| selector.get(field).is_some_and(|field| !field.is_string());
    if has_form("matchLabels") || has_form("matchExpressions") {
        columns::selector(selector)
    } else {
        columns::labels(selector, "")
    }
}
