//! The controller's requests as calls of the registry, as the sandbox's HTTP server makes them.

use bytes::Bytes;
use everynode_controller::api::Content;
use everynode_core::api::Timestamp;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kind::Kind;
use everynode_sandbox::kinds::{
    CONFIG_MAP, CONTROLLER_REVISION, DAEMON_SET, LEASE, NAMESPACE, NODE, POD,
};
use everynode_sandbox::patch::PatchType;
use everynode_sandbox::registry::{Endpoint, Patch, Registry};
use everynode_sandbox::status::Status;
use everynode_sandbox::store::{DeleteOptions, WatchCache, WriteOptions};

use crate::network::Request;

/// The resource that a path identifies.
#[derive(Clone, Debug)]
pub struct Target {
    pub kind: &'static Kind,
    /// Empty for all namespaces, and for objects without one.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    pub is_status: bool,
    /// True if it is `pods/resize`.
    pub is_resize: bool,
    /// True if the request says `dryRun=All`: it changes nothing.
    pub is_dry_run: bool,
}

impl Target {
    /// Returns `None` if the controller should not use the path.
    pub fn parse(path: &str) -> Option<Self> {
        let is_dry_run = path.contains("dryRun=All");
        let path = path.split('?').next()?;
        let groups = ["/api/v1/", "/apis/apps/v1/", "/apis/coordination.k8s.io/v1/"];
        let rest = groups.iter().find_map(|group| path.strip_prefix(group))?;
        let (namespace, rest) = match rest.strip_prefix("namespaces/") {
            Some(rest) => rest.split_once('/')?,
            None => ("", rest),
        };
        let mut parts = rest.split('/');
        let namespace = namespace.to_owned();
        let kind = match parts.next()? {
            "configmaps" => &CONFIG_MAP,
            "pods" => &POD,
            "controllerrevisions" => &CONTROLLER_REVISION,
            "daemonsets" => &DAEMON_SET,
            "leases" => &LEASE,
            "nodes" => &NODE,
            "namespaces" => &NAMESPACE,
            _ => return None,
        };
        let name = parts.next().unwrap_or_default().to_owned();
        let subresource = parts.next();
        let (is_status, is_resize) = (subresource == Some("status"), subresource == Some("resize"));
        Some(Self { kind, namespace, name, is_status, is_resize, is_dry_run })
    }
}

/// The parameters of a request for a list or a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub watches: bool,
    pub limit: Option<u32>,
    pub continue_token: Option<String>,
    pub resource_version: Option<u64>,
    pub label_selector: Option<String>,
    pub sends_initial_events: bool,
    pub timeout_seconds: Option<i64>,
}

impl Query {
    pub(crate) fn parse(path: &str) -> Self {
        let query = path.split_once('?').map_or("", |(_, query)| query);
        let mut parsed = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "watch" => parsed.watches = value == "true",
                "limit" => parsed.limit = value.parse().ok(),
                "continue" => parsed.continue_token = Some(value.into_owned()),
                "resourceVersion" => parsed.resource_version = value.parse().ok(),
                "labelSelector" => parsed.label_selector = Some(value.into_owned()),
                "sendInitialEvents" => parsed.sends_initial_events = value == "true",
                "timeoutSeconds" => parsed.timeout_seconds = value.parse().ok(),
                _ => {}
            }
        }
        parsed
    }
}

/// Answers a request for an object. `cache` is that of the API server.
pub(crate) fn serve(
    registry: &mut Registry,
    cache: WatchCache,
    request: &Request,
    target: Option<&Target>,
    body: Value,
    now: Timestamp,
) -> Result<Bytes, Status> {
    let Some(target) = target else {
        return Err(Status::bad_request(format!("no such path: {}", request.path)));
    };
    let object = answer(registry, cache, request, target, body, now)?;
    Ok(if request.wants_metadata { metadata_of(&object) } else { object })
}

/// The `PartialObjectMetadata` of an object, from its JSON.
fn metadata_of(object: &[u8]) -> Bytes {
    let object: Value = serde_json::from_slice(object).unwrap_or_default();
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
    .to_string()
    .into()
}

fn answer(
    registry: &mut Registry,
    cache: WatchCache,
    request: &Request,
    target: &Target,
    body: Value,
    now: Timestamp,
) -> Result<Bytes, Status> {
    let Target { kind, namespace, name, is_status, is_resize, is_dry_run } = target;
    let options = WriteOptions { now, dry_run: *is_dry_run };
    match request.method.as_str() {
        "GET" => {
            let version = Query::parse(&request.path).resource_version;
            Ok(cache.get(registry.store(), kind, namespace, name, version)?.json())
        }
        "POST" => Ok(registry.create(kind, namespace, body, &options)?.json()),
        "PUT" => Ok(registry.update(kind, namespace, name, body, &options)?.json()),
        "PATCH" => {
            let patch_type = match request.content {
                Content::Json => PatchType::Json,
                Content::MergePatch => PatchType::Merge,
                Content::StrategicMergePatch => PatchType::StrategicMerge,
            };
            let endpoint = match (is_status, is_resize) {
                (true, _) => Endpoint::Status,
                (false, true) => Endpoint::Resize,
                (false, false) => Endpoint::Main,
            };
            let patch = Patch { patch_type, body, endpoint, strict: None };
            Ok(registry.patch(kind, namespace, name, &patch, &options)?.json())
        }
        _ => {
            let delete = DeleteOptions::parse(&body)?;
            let deleted = registry.delete(kind, namespace, name, &delete, &options)?;
            Ok(deleted.response(kind).to_string().into())
        }
    }
}
