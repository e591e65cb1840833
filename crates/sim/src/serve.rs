//! The controller's requests as calls of the registry, as the sandbox's HTTP server makes them.

use bytes::Bytes;
use everynode_controller::api::{Content, Error};
use everynode_core::api::Timestamp;
use everynode_sandbox::kind::{CONTROLLER_REVISION, DAEMON_SET, Kind, POD};
use everynode_sandbox::patch::PatchType;
use everynode_sandbox::registry::{Patch, Registry};
use everynode_sandbox::selector::{LabelSelector, Selector};
use everynode_sandbox::status::Status;
use everynode_sandbox::store::{DeleteOptions, ListOptions, Store, WriteOptions};
use serde_json::{Value, json};

use crate::network::{Answer, Request};

/// The resource that a path identifies.
#[derive(Clone, Debug)]
pub struct Target {
    pub kind: &'static Kind,
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    pub is_status: bool,
}

impl Target {
    /// Returns `None` if the controller should not use the path.
    pub fn parse(path: &str) -> Option<Self> {
        let path = path.split('?').next()?;
        let rest = path.strip_prefix("/api/v1/").or_else(|| path.strip_prefix("/apis/apps/v1/"))?;
        let mut parts = rest.strip_prefix("namespaces/")?.split('/');
        let namespace = parts.next()?.to_owned();
        let kind = match parts.next()? {
            "pods" => &POD,
            "controllerrevisions" => &CONTROLLER_REVISION,
            "daemonsets" => &DAEMON_SET,
            _ => return None,
        };
        let name = parts.next().unwrap_or_default().to_owned();
        Some(Self { kind, namespace, name, is_status: parts.next() == Some("status") })
    }
}

/// Answers a request.
pub(crate) fn serve(
    registry: &mut Registry,
    request: &Request,
    target: Option<&Target>,
    body: Value,
    now: Timestamp,
) -> Answer {
    let Some(target) = target else {
        return Err(to_error(&Status::bad_request(format!("no such path: {}", request.path))));
    };
    answer(registry, request, target, body, now).map_err(|status| to_error(&status))
}

fn answer(
    registry: &mut Registry,
    request: &Request,
    target: &Target,
    body: Value,
    now: Timestamp,
) -> Result<Bytes, Status> {
    let Target { kind, namespace, name, is_status } = target;
    let options = WriteOptions::at(now);
    match request.method.as_str() {
        "GET" if name.is_empty() => list(registry.store(), request, target),
        "GET" => Ok(registry.store().get(kind, namespace, name)?.json()),
        "POST" => Ok(registry.create(kind, namespace, body, &options)?.json()),
        "PATCH" => {
            let patch_type = match request.content {
                Content::Json => PatchType::Json,
                Content::MergePatch => PatchType::Merge,
                Content::StrategicMergePatch => PatchType::StrategicMerge,
            };
            let patch = Patch { patch_type, body, status: *is_status, strict: None };
            Ok(registry.patch(kind, namespace, name, &patch, &options)?.json())
        }
        _ => {
            let delete = DeleteOptions::parse(&body)?;
            let deleted = registry.delete(kind, namespace, name, &delete, &options)?;
            Ok(deleted.response(kind).to_string().into())
        }
    }
}

fn list(store: &Store, request: &Request, target: &Target) -> Result<Bytes, Status> {
    let query = request.path.split_once('?').map_or("", |(_, query)| query);
    let labels = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "labelSelector");
    let labels = labels.map(|(_, text)| LabelSelector::parse(&text)).transpose();
    let labels = labels.map_err(|error| Status::bad_request(error.to_string()))?;
    let selector = Selector {
        namespace: Some(target.namespace.clone()),
        labels: labels.unwrap_or_default(),
        ..Selector::default()
    };
    let list = store.list(target.kind, &ListOptions { selector, ..ListOptions::default() })?;
    let items: Vec<&Value> = list.items.iter().map(|object| object.value()).collect();
    let version = list.resource_version.to_string();
    Ok(json!({"metadata": {"resourceVersion": version}, "items": items}).to_string().into())
}

fn to_error(status: &Status) -> Error {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    Error::Refused {
        code: status.code(),
        reason: status.reason.name().to_owned(),
        message: status.message.clone(),
        causes: causes.map(|cause| cause.reason.clone()).collect(),
    }
}
