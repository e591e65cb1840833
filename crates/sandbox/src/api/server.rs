//! From a request to its answer: who asks, what for, and who answers.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::access;
use super::authentication::Authenticator;
use super::body;
use super::discovery;
use super::faults::{self, Faults};
use super::link::Link;
use super::negotiate;
use super::openapi::OpenApi;
use super::query;
use super::resource;
use super::respond::{self, Body};
use super::review;
use super::route::{self, ResourcePath, Route};
use super::serve::Limits;
use super::shared::Shared;
use super::token;
use crate::authorization::User;
use crate::kind::Kinds;
use crate::status::{Details, Reason, Status};

/// Everything that answering needs.
pub struct Server {
    pub shared: Arc<Shared>,
    pub limits: Limits,
    pub faults: Faults,
    authenticator: Authenticator,
    /// `127.0.0.1:6443`, as discovery tells it.
    address: String,
    openapi: OpenApi,
}

/// A request, its body read.
pub struct Call {
    pub method: Method,
    pub headers: HeaderMap,
    pub parameters: query::Parameters,
    pub body: bytes::Bytes,
    pub reading: Reading,
}

/// What is peculiar about how a request is read, of those that faults happen to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Number of the latest writes that the state lacks which is shown.
    pub writes_behind: Option<u64>,
    /// When the bookmark comes that ends the initial events.
    pub bookmark_after: Option<Duration>,
}

/// A call, with what it is about and who makes it.
pub struct Asked {
    pub route: Route,
    pub path: String,
    /// None: nobody that is known.
    pub user: Option<User>,
    pub call: Call,
    pub link: Link,
}

impl Server {
    pub fn new(
        shared: Arc<Shared>,
        limits: Limits,
        faults: Faults,
        token: String,
        address: String,
    ) -> Server {
        let authenticator = Authenticator::new(token);
        Server { shared, limits, faults, authenticator, address, openapi: OpenApi::default() }
    }

    /// Answers any request; a refusal is an answer too.
    pub async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        match self.answer(request).await {
            Ok(response) => response,
            Err(status) => respond::status(&status),
        }
    }

    async fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Status> {
        let (parts, body) = request.into_parts();
        let route = route::parse(parts.uri.path())
            .ok_or_else(|| Status::bad_request("the path is not valid UTF-8"))?;
        let user = self.authenticator.identify(&self.shared, &parts.headers)?;
        let parameters = query::parse(parts.uri.query().unwrap_or_default())?;
        let path = parts.uri.path().to_owned();
        match &user {
            Some(user) => {
                let request = access::asked(&route, &path, &parts.method, &parameters);
                access::check(&self.shared, user, &request)?;
            }
            None if is_public(&route) => {}
            None => return Err(unauthorized()),
        }
        let body = body::read(&parts.headers, body, &self.limits).await?;
        let Parts { method, headers, extensions, .. } = parts;
        let call = Call { method, headers, parameters, body, reading: Reading::default() };
        let link = extensions.get::<Link>().cloned().unwrap_or_default();
        let asked = Asked { route, path, user, call, link };
        match self.faults.decide(&asked) {
            None => self.serve(&asked),
            Some(fault) => faults::serve(self, asked, fault).await,
        }
    }

    /// Answers a call that may be made.
    pub fn serve(&self, asked: &Asked) -> Result<Response<Body>, Status> {
        match (&asked.route, &asked.user) {
            (Route::Resource(target), Some(user)) => self.on_resource(target, user, &asked.call),
            (Route::Faults, _) => self.faults.answer(&asked.call),
            (route, _) => self.describe(route, &asked.path, &asked.call),
        }
    }

    fn on_resource(
        &self,
        target: &ResourcePath,
        user: &User,
        call: &Call,
    ) -> Result<Response<Body>, Status> {
        if asks_for_definitions(target, call) {
            return Ok(respond::json(StatusCode::OK, &no_definitions()));
        }
        if token::is_request(target) {
            return token::answer(&self.authenticator.tokens, &self.shared, target, call);
        }
        match review::find(target) {
            Some(review) => review::answer(review, &self.shared, user, call),
            None => resource::answer(&self.shared, target, call),
        }
    }

    /// Documents about the server itself.
    fn describe(&self, route: &Route, path: &str, call: &Call) -> Result<Response<Body>, Status> {
        if call.method != Method::GET {
            return Err(method_not_allowed());
        }
        let kinds = self.shared.read(|store| store.kinds().clone());
        let json = |value: serde_json::Value| respond::json(StatusCode::OK, &value);
        let missing = || not_served(path);
        match route {
            Route::Root => Ok(json(root(&kinds))),
            Route::Health => Ok(respond::text(StatusCode::OK, health(path, &call.parameters))),
            Route::Version => Ok(json(discovery::version())),
            Route::CoreVersions => match aggregated(call, &kinds, true) {
                Some(response) => Ok(response),
                None => plain(call, discovery::core_versions(&kinds, &self.address)),
            },
            Route::Groups => match aggregated(call, &kinds, false) {
                Some(response) => Ok(response),
                None => plain(call, discovery::groups(&kinds)),
            },
            Route::Group(name) => plain(call, discovery::group(&kinds, name).ok_or_else(missing)?),
            Route::GroupVersion { group, version } => {
                plain(call, discovery::resources(&kinds, group, version).ok_or_else(missing)?)
            }
            Route::OpenApiV2 => self.openapi_v2(call, &kinds),
            Route::OpenApiV3 => Ok(json(self.openapi.v3_index(&kinds))),
            Route::OpenApiV3Document(path) => {
                let document = self.openapi.v3_document(&kinds, path).ok_or_else(missing)?;
                Ok(respond::full(StatusCode::OK, respond::JSON, document))
            }
            Route::Resource(_) | Route::Faults | Route::Unknown => Err(missing()),
        }
    }

    fn openapi_v2(&self, call: &Call, kinds: &Kinds) -> Result<Response<Body>, Status> {
        for range in negotiate::accepted(&call.headers) {
            match range.essence.as_str() {
                "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
                | "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" => {
                    let bytes = self.openapi.v2_protobuf(kinds);
                    let content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
                    return Ok(respond::full(StatusCode::OK, content_type, bytes));
                }
                "application/json" | "application/*" | "*/*" => {
                    let bytes = self.openapi.v2_json(kinds);
                    return Ok(respond::full(StatusCode::OK, respond::JSON, bytes));
                }
                _ => {}
            }
        }
        Err(negotiate::not_acceptable())
    }
}

/// Whoever is answered by this server finds it well; `verbose` lists what was looked at.
fn health(path: &str, parameters: &query::Parameters) -> String {
    let name = path.trim_matches('/');
    if parameters.verbose && !name.contains('/') {
        format!("[+]ping ok\n{name} check passed\n")
    } else {
        "ok".to_owned()
    }
}

/// Health and version need nobody to be known, as upstream's default roles have it.
fn is_public(route: &Route) -> bool {
    matches!(route, Route::Health | Route::Version)
}

/// kubectl looks for a CustomResourceDefinition of each kind that it can't find in the OpenAPI document, and gives a file up
/// if it is not even told that there are none.
fn asks_for_definitions(target: &ResourcePath, call: &Call) -> bool {
    call.method == Method::GET
        && (target.group.as_str(), target.version.as_str()) == ("apiextensions.k8s.io", "v1")
        && target.plural == "customresourcedefinitions"
        && target.name.is_none()
}

fn no_definitions() -> serde_json::Value {
    serde_json::json!({
        "kind": "CustomResourceDefinitionList",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"resourceVersion": "1"},
        "items": [],
    })
}

/// The aggregated discovery document, if that is what the client likes best.
fn aggregated(call: &Call, kinds: &Kinds, is_core: bool) -> Option<Response<Body>> {
    let ranges = negotiate::accepted(&call.headers);
    let best = ranges.iter().find(|range| range.essence == "application/json")?;
    let version = match (best.parameter("g"), best.parameter("as"), best.parameter("v")) {
        (Some("apidiscovery.k8s.io"), Some("APIGroupDiscoveryList"), Some("v2")) => "v2",
        (Some("apidiscovery.k8s.io"), Some("APIGroupDiscoveryList"), Some("v2beta1")) => "v2beta1",
        _ => return None,
    };
    let content_type =
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let document = discovery::aggregated(kinds, is_core, version);
    Some(respond::full(StatusCode::OK, &content_type, document.to_string()))
}

fn plain(call: &Call, document: serde_json::Value) -> Result<Response<Body>, Status> {
    negotiate::require_json(&call.headers)?;
    Ok(respond::json(StatusCode::OK, &document))
}

/// `/`: what can be asked for.
fn root(kinds: &Kinds) -> serde_json::Value {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for known in discovery::group_versions(kinds) {
        if known.group.is_empty() {
            paths.push(format!("/api/{}", known.version));
        } else {
            paths.push(format!("/apis/{}", known.group));
            paths.push(format!("/apis/{}", known.name()));
        }
    }
    for path in
        ["/debug/faults", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    {
        paths.push(path.to_owned());
    }
    paths.sort();
    paths.dedup();
    serde_json::json!({"paths": paths})
}

pub fn unauthorized() -> Status {
    Status::new(Reason::Unauthorized, "Unauthorized")
}

pub fn method_not_allowed() -> Status {
    Status::new(
        Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    )
}

/// What is not there, by name (S12).
pub fn not_served(what: &str) -> Status {
    // Clients look for the details of a 404 without a doubt that it has some.
    Status::new(Reason::NotFound, format!("the sandbox does not serve {what}"))
        .with_details(Details::default())
}
