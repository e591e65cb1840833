//! Requests for stored objects, the same for every kind in the table of kinds (S2, S4).

mod options;
mod read;
mod scale;
mod token;
mod transaction;
mod write;

use std::sync::Arc;

use http::{Method, Response, StatusCode};

use super::authentication::Tokens;
use super::call::Call;
use super::negotiate::{self, Form};
use super::respond::{self, Body, method_not_allowed, not_served};
use super::route::ResourcePath;
use super::shared::SharedCluster;
use crate::authorization::User;
use crate::kind::{Kind, Subresource, Verb};
use crate::registry::Endpoint;
use crate::status::Status;

/// A request for stored objects: its user, what it is for, and how it was sent.
pub(super) struct Request<'a> {
    pub shared: &'a Arc<SharedCluster>,
    pub tokens: &'a Tokens,
    pub user: &'a User,
    pub call: &'a Call,
    pub kind: &'static Kind,
    /// Empty for a cluster-scoped kind; `None` for all namespaces.
    pub namespace: Option<&'a str>,
}

pub(crate) fn handle(
    shared: &Arc<SharedCluster>,
    tokens: &Tokens,
    user: &User,
    path: &ResourcePath,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let (kind, is_known_group) = shared.read(|store| {
        let kinds = store.kinds();
        (path.kind(kinds), kinds.has_builtin_group(&path.group))
    });
    if kind.is_none() && !is_known_group {
        // To clients of a deleted definition a real server is one that does not have the resource.
        return Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n"));
    }
    let kind = kind.ok_or_else(|| not_served(&resource_name(path)))?;
    let namespace = namespace(kind, path)?;
    let response = Request { shared, tokens, user, call, kind, namespace }.answer(path);
    let Some(deprecation) = kind.deprecation else { return response };
    let mut response = response.unwrap_or_else(|status| respond::status(&status));
    respond::warn(&mut response, &[deprecation.to_owned()]);
    Ok(response)
}

impl Request<'_> {
    /// The namespace of a single object.
    fn namespace(&self) -> &str {
        self.namespace.unwrap_or_default()
    }

    /// The form of the response.
    fn form(&self) -> Result<Form, Status> {
        negotiate::form(&self.call.headers, self.kind)
    }

    fn answer(&self, path: &ResourcePath) -> Result<Response<Body>, Status> {
        match (path.name.as_deref(), path.subresource.as_deref()) {
            (Some(name), Some(subresource)) => {
                let subresource = Subresource::parse(subresource)
                    .filter(|subresource| self.kind.subresources.contains(subresource))
                    .ok_or_else(|| no_subresource(self.kind, subresource))?;
                self.on_subresource(name, subresource)
            }
            (name, _) => self.on_resource(name),
        }
    }

    /// Answers a request for an object, or for the collection without a name.
    fn on_resource(&self, name: Option<&str>) -> Result<Response<Body>, Status> {
        let verb = match (&self.call.method, name) {
            (&Method::GET, Some(_)) => Verb::Get,
            (&Method::GET, None) if self.call.parameters.watch => Verb::Watch,
            (&Method::GET, None) => Verb::List,
            (&Method::POST, None) => Verb::Create,
            (&Method::PUT, Some(_)) => Verb::Update,
            (&Method::PATCH, Some(_)) => Verb::Patch,
            (&Method::DELETE, Some(_)) => Verb::Delete,
            (&Method::DELETE, None) => Verb::DeleteCollection,
            _ => return Err(method_not_allowed()),
        };
        // Writes need a namespace; only reads work on all namespaces.
        let is_possible = self.namespace.is_some() || matches!(verb, Verb::List | Verb::Watch);
        if !is_possible || !self.kind.supports(verb) {
            return Err(method_not_allowed());
        }
        let name = name.unwrap_or_default();
        match verb {
            Verb::Get => self.get(name),
            Verb::List => self.list(),
            Verb::Watch => self.watch(),
            Verb::Create => self.create(),
            Verb::Update => self.update(name, Endpoint::Main),
            Verb::Patch => self.patch(name, Endpoint::Main),
            Verb::Delete => self.delete(name),
            Verb::DeleteCollection => self.delete_collection(),
        }
    }

    fn on_subresource(
        &self,
        name: &str,
        subresource: Subresource,
    ) -> Result<Response<Body>, Status> {
        match (subresource, &self.call.method) {
            (Subresource::Status | Subresource::Resize, &Method::GET) => self.get(name),
            (Subresource::Status, &Method::PUT) => self.update(name, Endpoint::Status),
            (Subresource::Status, &Method::PATCH) => self.patch(name, Endpoint::Status),
            (Subresource::Resize, &Method::PUT) => self.update(name, Endpoint::Resize),
            (Subresource::Resize, &Method::PATCH) => self.patch(name, Endpoint::Resize),
            (Subresource::Scale, &Method::GET) => self.read_scale(name),
            (Subresource::Scale, &Method::PUT) => self.update_scale(name),
            (Subresource::Scale, &Method::PATCH) => self.patch_scale(name),
            (Subresource::Finalize, &Method::PUT) => self.finalize(name),
            (Subresource::Binding, &Method::POST) => self.bind(name),
            (Subresource::Eviction, &Method::POST) => self.evict(name),
            (Subresource::Token, &Method::POST) => self.request_token(name),
            _ => Err(method_not_allowed()),
        }
    }
}

/// The namespace of a path; empty for a cluster-scoped kind, and `None` for all namespaces.
fn namespace<'a>(kind: &Kind, path: &'a ResourcePath) -> Result<Option<&'a str>, Status> {
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
    Ok(namespace)
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
