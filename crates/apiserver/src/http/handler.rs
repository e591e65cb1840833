//! From an HTTP request to its response: authentication, authorization, the body, injected faults,
//! and then the [server](Server).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::header::EXPECT;
use http::request::Parts;
use http::{Method, Request, Response, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::access;
use super::body;
use super::call::{AuthorizedCall, Call, ReadFaults};
use super::connection::Connection;
use super::outgoing::Outgoing;
use super::query;
use super::quota::Resource;
use super::respond::{self, Body, unauthorized};
use super::route::{self, Route};
use super::server::Server;
use super::unwinding::catching;
use crate::fault::Fault;
use crate::status::Status;

/// Responds to any request; errors become a `Status` document.
pub(crate) async fn handle(server: Arc<Server>, request: Request<Incoming>) -> Response<Body> {
    let (head, mut body) = request.into_parts();
    // A client that waits to be asked for the body sees the answer first.
    let sends_body = head.version <= Version::HTTP_11 && !head.headers.contains_key(EXPECT);
    let served = {
        let mut served = pin!(authorize_and_serve(&server, head, &mut body));
        let caught = poll_fn(|cx| match catching(|| served.as_mut().poll(cx)) {
            Ok(polled) => polled,
            Err(panicked) => Poll::Ready(Err(panicked)),
        });
        caught.await
    };
    match served {
        Ok(response) => response,
        Err(status) => {
            if sends_body {
                body::discard(&mut body).await;
            }
            respond::status(&status)
        }
    }
}

async fn authorize_and_serve(
    server: &Arc<Server>,
    parts: Parts,
    body: &mut Incoming,
) -> Result<Response<Body>, Status> {
    let route = route::parse(parts.uri.path())
        .ok_or_else(|| Status::bad_request("the path is not valid UTF-8"))?;
    let user = server.authenticator.identify(&server.shared, &parts.headers)?;
    let parameters = query::parse(parts.uri.query().unwrap_or_default())?;
    let path = parts.uri.path().to_owned();
    let Parts { method, headers, extensions, .. } = parts;
    let connection = extensions.get::<Connection>().cloned().unwrap_or_else(|| Connection::new(0));
    let api_server = server.api_servers.of_connection(connection.number);
    let read_faults = ReadFaults::default();
    let call = Call { method, headers, parameters, body: Bytes::new(), api_server, read_faults };
    let mut request = AuthorizedCall { route, path, user, call, connection };
    let Some(user) = &request.user else {
        // Anonymous users may get health and version, as upstream's default roles allow. The body
        // of such a request is not read.
        return match request.route {
            Route::Health | Route::Version => serve(server, request).await,
            _ => Err(unauthorized()),
        };
    };
    let client = Client { name: user.name.as_str().into(), connection: request.connection.number };
    let reserve = |resource, amount| server.quota.reserve(&client.name, resource, amount);
    request.connection.set_owner(|| reserve(Resource::Connections, 1))?;
    let is_watch = request.call.parameters.watch && request.call.method == Method::GET;
    let place = reserve(if is_watch { Resource::Watches } else { Resource::Requests }, 1)?;
    {
        let _turn = server.turns.take(&client.name, client.connection).await;
        // The rights of masters are not looked up.
        let _entered = match user.is_master() {
            true => None,
            false => Some(server.shared.turn_of_requests().await),
        };
        access::check(&server.shared, user, &access::attributes_of(&request))?;
    }
    let mut body_bytes = reserve(Resource::BodyBytes, 0)?;
    let headers = &request.call.headers;
    request.call.body = body::read(headers, body, &server.limits, &mut body_bytes).await?;
    wait_for_cache(&request.call).await;
    let connection = request.connection.clone();
    let response = match server.faults.decide(&request) {
        None => serve_in_turn(server, request, &client).await?,
        Some(fault) => inject(server, request, fault).await?,
    };
    drop(body_bytes);
    let (head, body) = response.into_parts();
    let reserve_bytes = |bytes| reserve(Resource::ResponseBytes, bytes);
    let body = Outgoing::new(body, connection, place, reserve_bytes)?;
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

/// Who waits for a turn.
struct Client {
    name: Arc<str>,
    /// The number of the connection.
    connection: usize,
}

/// Serves a request when it is its client's turn. A long one gets a thread of its own, so that the
/// threads of the runtime serve others meanwhile.
async fn serve_in_turn(
    server: &Arc<Server>,
    request: AuthorizedCall,
    client: &Client,
) -> Result<Response<Body>, Status> {
    if !server.takes_long(&request) {
        let _turn = server.turns.take(&client.name, client.connection).await;
        let _entered = server.shared.turn_of_requests().await;
        return server.serve(&request);
    }
    let turn = server.long_turns.take(&client.name, client.connection).await;
    let server = Arc::clone(server);
    let served = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        catching(|| server.serve(&request)).flatten()
    });
    match served.await {
        Ok(response) => response,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn serve(server: &Arc<Server>, request: AuthorizedCall) -> Result<Response<Body>, Status> {
    match server.faults.decide(&request) {
        None => server.serve(&request),
        Some(fault) => inject(server, request, fault).await,
    }
}

async fn inject(
    server: &Arc<Server>,
    request: AuthorizedCall,
    fault: Fault,
) -> Result<Response<Body>, Status> {
    let stop = server.shared.stop.clone();
    let serve = {
        let server = Arc::clone(server);
        move |request: &AuthorizedCall| server.serve(request)
    };
    server.faults.inject(request, fault, serve, stop).await
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
