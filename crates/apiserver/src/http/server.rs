//! Serves a request that is authenticated and authorized: the route selects the module that
//! handles it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use http::{Method, Response, StatusCode};

use super::api_server::ApiServers;
use super::authentication::Authenticator;
use super::call::{AuthorizedCall, Call};
use super::discovery;
use super::fault::Faults;
use super::limits::Limits;
use super::negotiate;
use super::openapi::OpenApi;
use super::query;
use super::quota::Quota;
use super::resource;
use super::respond::{self, Body, method_not_allowed, not_served};
use super::review;
use super::route::{ResourcePath, Route};
use super::shared::SharedCluster;
use super::turns::Turns;
use crate::authorization::User;
use crate::kinds::{self, Kinds};
use crate::status::Status;

/// The API server.
pub(crate) struct Server {
    pub shared: Arc<SharedCluster>,
    pub limits: Limits,
    pub faults: Faults,
    pub api_servers: ApiServers,
    pub authenticator: Authenticator,
    pub quota: Arc<Quota>,
    /// For requests that take a short time.
    pub turns: Arc<Turns>,
    /// For the others, which run beside the runtime's threads.
    pub long_turns: Arc<Turns>,
    /// `127.0.0.1:6443`, for discovery.
    address: String,
    openapi: OpenApi,
}

impl Server {
    pub(crate) fn new(
        shared: Arc<SharedCluster>,
        limits: Limits,
        faults: Faults,
        api_servers: ApiServers,
        token: String,
        address: String,
    ) -> Self {
        let authenticator = Authenticator::new(token);
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            shared,
            limits,
            faults,
            api_servers,
            authenticator,
            quota: Quota::new(limits),
            turns: Turns::new(cores),
            // The other cores serve short requests meanwhile.
            long_turns: Turns::new((cores / 2).max(1)),
            address,
            openapi: OpenApi::default(),
        }
    }

    /// Handles an authorized request.
    pub(crate) fn serve(&self, request: &AuthorizedCall) -> Result<Response<Body>, Status> {
        let call = &request.call;
        match (&request.route, &request.user) {
            (Route::Resource(target), Some(user)) => self.on_resource(target, user, call),
            (Route::Faults, _) => self.faults.handle(call),
            (route, _) => self.describe(route, &request.path, call),
        }
    }

    /// True if a request can take more than a few milliseconds: it has a large body, it is about
    /// many objects, or it writes what is validated by a schema that a client has sent.
    pub(crate) fn takes_long(&self, request: &AuthorizedCall) -> bool {
        /// Maximum size in bytes of the body of a short request.
        const BODY_BYTES_MAX: usize = 16 * 1024;
        /// Maximum number of objects of a short request.
        const OBJECTS_MAX: usize = 500;
        let call = &request.call;
        let is_write = call.method != Method::GET;
        let is_page = call.parameters.limit.is_some_and(|limit| (1..=500).contains(&limit));
        match &request.route {
            _ if call.body.len() > BODY_BYTES_MAX => true,
            Route::Resource(path) if is_write || path.name.is_none() => self.shared.read(|store| {
                let Some(kind) = path.kind(store.kinds()) else { return false };
                let is_of_many = path.name.is_none() && call.method != Method::POST && !is_page;
                (is_write && kinds::has_client_schemas(kind))
                    || (is_of_many && store.count(kind) > OBJECTS_MAX)
            }),
            Route::OpenApiV2 | Route::OpenApiV3 | Route::OpenApiV3Document(_) => true,
            _ => false,
        }
    }

    fn on_resource(
        &self,
        target: &ResourcePath,
        user: &User,
        call: &Call,
    ) -> Result<Response<Body>, Status> {
        match review::find(target) {
            Some(review) => review::handle(review, &self.shared, user, call),
            None => resource::handle(&self.shared, &self.authenticator.tokens, user, target, call),
        }
    }

    /// Documents about the server itself.
    fn describe(&self, route: &Route, path: &str, call: &Call) -> Result<Response<Body>, Status> {
        if call.method != Method::GET {
            return Err(method_not_allowed());
        }
        let kinds = self.shared.read(|store| store.kinds().clone());
        let json = |value: crate::json::Value| respond::json(StatusCode::OK, &value);
        let missing = || not_served(path);
        match route {
            Route::Root => Ok(json(root(&kinds))),
            Route::Health => Ok(respond::text(StatusCode::OK, health(path, &call.parameters))),
            Route::Version => Ok(json(discovery::version())),
            Route::CoreVersions => match aggregated(call, &kinds, true) {
                Some(response) => Ok(response),
                None => json_document(call, discovery::core_versions(&kinds, &self.address)),
            },
            Route::Groups => match aggregated(call, &kinds, false) {
                Some(response) => Ok(response),
                None => json_document(call, discovery::groups(&kinds)),
            },
            Route::Group(name) => {
                json_document(call, discovery::group(&kinds, name).ok_or_else(missing)?)
            }
            Route::GroupVersion { group, version } => json_document(
                call,
                discovery::resources(&kinds, group, version).ok_or_else(missing)?,
            ),
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

/// The health checks: a server that responds is healthy. `verbose` lists the checks.
fn health(path: &str, parameters: &query::Parameters) -> String {
    let name = path.trim_matches('/');
    if parameters.verbose && !name.contains('/') {
        format!("[+]ping ok\n{name} check passed\n")
    } else {
        "ok".to_owned()
    }
}

/// The aggregated discovery document, if the client prefers it.
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

fn json_document(call: &Call, document: crate::json::Value) -> Result<Response<Body>, Status> {
    negotiate::require_json(&call.headers)?;
    Ok(respond::json(StatusCode::OK, &document))
}

/// `/`: the paths of the server.
fn root(kinds: &Kinds) -> crate::json::Value {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for group_version in discovery::group_versions(kinds) {
        if group_version.group.is_empty() {
            paths.push(format!("/api/{}", group_version.version));
        } else {
            paths.push(format!("/apis/{}", group_version.group));
            paths.push(format!("/apis/{}", group_version.name()));
        }
    }
    for path in
        ["/debug/faults", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    {
        paths.push(path.to_owned());
    }
    paths.sort();
    paths.dedup();
    crate::json::json!({"paths": paths})
}
