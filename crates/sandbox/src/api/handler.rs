//! From an HTTP request to its response: authentication, authorization, the body, injected faults,
//! and then the [server](Server).

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Incoming;

use super::access;
use super::body;
use super::call::{AuthorizedCall, Call, ReadFaults};
use super::connection::Connection;
use super::inject;
use super::query;
use super::respond::{self, Body, unauthorized};
use super::route::{self, Route};
use super::server::Server;
use crate::status::Status;

/// Responds to any request; errors become a `Status` document.
pub(crate) async fn handle(server: Arc<Server>, request: Request<Incoming>) -> Response<Body> {
    match authorize_and_serve(&server, request).await {
        Ok(response) => response,
        Err(status) => respond::status(&status),
    }
}

async fn authorize_and_serve(
    server: &Arc<Server>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Status> {
    let (parts, body) = request.into_parts();
    let route = route::parse(parts.uri.path())
        .ok_or_else(|| Status::bad_request("the path is not valid UTF-8"))?;
    let user = server.authenticator.identify(&server.shared, &parts.headers)?;
    let parameters = query::parse(parts.uri.query().unwrap_or_default())?;
    let path = parts.uri.path().to_owned();
    match &user {
        Some(user) => {
            let attributes = access::attributes(&route, &path, &parts.method, &parameters);
            access::check(&server.shared, user, &attributes)?;
        }
        None if is_public(&route) => {}
        None => return Err(unauthorized()),
    }
    let body = body::read(&parts.headers, body, &server.limits).await?;
    let Parts { method, headers, extensions, .. } = parts;
    let connection = extensions.get::<Connection>().cloned().unwrap_or_else(|| Connection::new(0));
    let api_server = server.api_servers.of_connection(connection.number);
    let read_faults = ReadFaults::default();
    let call = Call { method, headers, parameters, body, api_server, read_faults };
    wait_for_cache(&call).await;
    let request = AuthorizedCall { route, path, user, call, connection };
    match server.faults.decide(&request) {
        None => server.serve(&request),
        Some(fault) => inject::serve(server, request, fault).await,
    }
}

/// Waits until the API server has seen the state that a get or list requires.
async fn wait_for_cache(call: &Call) {
    let parameters = &call.parameters;
    if call.method == Method::GET
        && !parameters.watch
        && let Ok(required) = parameters.resource_version.parse()
    {
        call.api_server.wait_until(required).await;
    }
}

/// Anonymous users may get health and version, as upstream's default roles allow.
fn is_public(route: &Route) -> bool {
    matches!(route, Route::Health | Route::Version)
}
