//! Requests for stored objects, the same for every kind in the table of kinds (S2, S4).

mod field_manager;
mod read;
mod scale;
mod transaction;
mod write;

use std::sync::Arc;

use http::{Method, Response, StatusCode};

use super::call::Call;
use super::respond::{self, Body, method_not_allowed, not_served};
use super::route::ResourcePath;
use super::shared::SharedCluster;
use crate::authorization::User;
use crate::kind::{Kind, Subresource, Verb};
use crate::kinds::Kinds;
use crate::status::Status;

/// The kind, namespace and name of a request.
pub(super) struct ResourceTarget<'a> {
    pub kind: &'static Kind,
    /// Empty for a cluster-scoped kind; `None` for all namespaces.
    pub namespace: Option<&'a str>,
    pub name: Option<&'a str>,
}

impl ResourceTarget<'_> {
    /// The namespace of a single object.
    fn namespace(&self) -> &str {
        self.namespace.unwrap_or_default()
    }
}

pub(crate) fn handle(
    shared: &Arc<SharedCluster>,
    user: &User,
    path: &ResourcePath,
    call: &Call,
) -> Result<Response<Body>, Status> {
    if is_unknown(shared, path) {
        return Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n"));
    }
    let target = target(shared, path)?;
    let response = dispatch(shared, user, path, &target, call);
    let Some(deprecation) = target.kind.deprecation else { return response };
    let mut response = response.unwrap_or_else(|status| respond::status(&status));
    respond::warn(&mut response, &[deprecation.to_owned()]);
    Ok(response)
}

fn dispatch(
    shared: &Arc<SharedCluster>,
    user: &User,
    path: &ResourcePath,
    target: &ResourceTarget<'_>,
    call: &Call,
) -> Result<Response<Body>, Status> {
    match (target.name, path.subresource.as_deref()) {
        (None, _) => on_collection(shared, user, target, call),
        (Some(name), None) => on_object(shared, user, target, name, call),
        (Some(name), Some(subresource)) => {
            let subresource = Subresource::parse(subresource)
                .filter(|subresource| target.kind.subresources.contains(subresource))
                .ok_or_else(|| no_subresource(target.kind, subresource))?;
            on_subresource(shared, user, target, name, subresource, call)
        }
    }
}

/// Whether a resource belongs to a group that is no group of the sandbox, such as that of a deleted
/// definition. To clients a real server is then one that does not have the resource.
fn is_unknown(shared: &SharedCluster, path: &ResourcePath) -> bool {
    let ResourcePath { group, version, plural, .. } = path;
    !Kinds::has_builtin_group(group)
        && shared.read(|store| store.kinds().by_resource(group, version, plural).is_none())
}

fn target<'a>(
    shared: &SharedCluster,
    path: &'a ResourcePath,
) -> Result<ResourceTarget<'a>, Status> {
    let kind = shared
        .read(|store| store.kinds().by_resource(&path.group, &path.version, &path.plural))
        .ok_or_else(|| not_served(&resource_name(path)))?;
    let namespace = match (kind.namespaced, path.namespace.as_deref()) {
        (true, namespace) => namespace,
        (false, None) => Some(""),
        (false, Some(_)) => {
            return Err(not_served(&format!("{} in a namespace", kind.group_resource())));
        }
    };
    if kind.namespaced && namespace.is_none() && path.name.is_some() {
        return Err(not_served(&format!("one of {} without its namespace", kind.group_resource())));
    }
    Ok(ResourceTarget { kind, namespace, name: path.name.as_deref() })
}

fn resource_name(path: &ResourcePath) -> String {
    if path.plural == "watch" {
        "paths below watch/, the old form of a watch: ask for the list with watch=1".to_owned()
    } else if path.group.is_empty() {
        format!("{} ({})", path.plural, path.version)
    } else {
        format!("{}.{} ({})", path.plural, path.group, path.version)
    }
}

/// 404 for a subresource that the sandbox lacks, with the reason if real clusters have it (S12).
fn no_subresource(kind: &Kind, name: &str) -> Status {
    let resource = format!("{}/{name}", kind.plural);
    match name {
        "log" | "exec" | "attach" | "portforward" | "proxy" | "ephemeralcontainers" => {
            not_served(&format!("{resource}: its containers are simulated, nothing runs in them"))
        }
        _ => not_served(&resource),
    }
}

fn on_collection(
    shared: &Arc<SharedCluster>,
    user: &User,
    target: &ResourceTarget<'_>,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let verb = match call.method {
        Method::GET if call.parameters.watch => Verb::Watch,
        Method::GET => Verb::List,
        Method::POST => Verb::Create,
        Method::DELETE => Verb::DeleteCollection,
        _ => return Err(method_not_allowed()),
    };
    if !target.kind.supports(verb) {
        return Err(method_not_allowed());
    }
    match verb {
        Verb::Watch => read::watch(shared, target, call),
        Verb::List => read::list(shared, target, call),
        // Writes need a namespace; only reads work on all namespaces.
        _ if target.namespace.is_none() => Err(method_not_allowed()),
        Verb::Create => write::create(shared, user, target, call),
        _ => write::delete_collection(shared, target, call),
    }
}

fn on_object(
    shared: &Arc<SharedCluster>,
    user: &User,
    target: &ResourceTarget<'_>,
    name: &str,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let verb = match call.method {
        Method::GET => Verb::Get,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => return Err(method_not_allowed()),
    };
    if !target.kind.supports(verb) {
        return Err(method_not_allowed());
    }
    match verb {
        Verb::Get => read::get(shared, target, name, call),
        Verb::Update => write::update(shared, user, target, name, write::WriteEndpoint::Main, call),
        Verb::Patch => write::patch(shared, user, target, name, write::WriteEndpoint::Main, call),
        _ => write::delete(shared, target, name, call),
    }
}

fn on_subresource(
    shared: &Arc<SharedCluster>,
    user: &User,
    target: &ResourceTarget<'_>,
    name: &str,
    subresource: Subresource,
    call: &Call,
) -> Result<Response<Body>, Status> {
    match (subresource, &call.method) {
        (Subresource::Status | Subresource::Resize, &Method::GET) => {
            read::get(shared, target, name, call)
        }
        (Subresource::Resize, &Method::PUT) => {
            write::update(shared, user, target, name, write::WriteEndpoint::Resize, call)
        }
        (Subresource::Resize, &Method::PATCH) => {
            write::patch(shared, user, target, name, write::WriteEndpoint::Resize, call)
        }
        (Subresource::Status, &Method::PUT) => {
            write::update(shared, user, target, name, write::WriteEndpoint::Status, call)
        }
        (Subresource::Status, &Method::PATCH) => {
            write::patch(shared, user, target, name, write::WriteEndpoint::Status, call)
        }
        (Subresource::Scale, &Method::GET) => scale::get(shared, target, name),
        (Subresource::Scale, &Method::PUT) => scale::update(shared, user, target, name, call),
        (Subresource::Scale, &Method::PATCH) => scale::patch(shared, user, target, name, call),
        (Subresource::Finalize, &Method::PUT) => {
            write::update(shared, user, target, name, write::WriteEndpoint::Finalize, call)
        }
        (Subresource::Binding, &Method::POST) => write::bind(shared, target, name, call),
        (Subresource::Eviction, &Method::POST) => write::evict(shared, target, name, call),
        _ => Err(method_not_allowed()),
    }
}
