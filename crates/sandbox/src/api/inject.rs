//! Injects a fault into a request (S17).

use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Method, Response, StatusCode};

use super::access;
use super::call::{AuthorizedCall, Call};
use super::connection::Connection;
use super::faulty_body::{self, PointAction};
use super::negotiate;
use super::respond::{self, Body};
use super::server::Server;
use crate::fault::{CommitLate, Fault, InjectedError, LoseAnswer, Point, WatchError};
use crate::status::{Reason, Status};

/// Serves a request with a fault.
pub(crate) async fn serve(
    server: &Arc<Server>,
    mut request: AuthorizedCall,
    fault: Fault,
) -> Result<Response<Body>, Status> {
    let is_watch = request.call.parameters.watch && request.call.method == Method::GET;
    let connection = request.connection.clone();
    if acts_on_text(&fault) {
        negotiate::refuse_protobuf(&mut request.call.headers);
    }
    let with_point_action = |request: &AuthorizedCall, point: Point, action: PointAction| {
        let response = server.serve(request)?;
        Ok(faulty_body::with_point_action(response, is_watch, point, action, connection.clone()))
    };
    match fault {
        Fault::Error(error) => {
            if error.after_commit {
                server.serve(&request)?;
            }
            Ok(error_response(&error, &request))
        }
        Fault::LoseAnswer(LoseAnswer { after_commit }) => {
            if after_commit {
                server.serve(&request)?;
            }
            Err(lose_response(&connection).await)
        }
        Fault::CommitLate(late) => commit_late(server, request, late).await,
        Fault::Cut(point) => with_point_action(&request, point, PointAction::Close),
        Fault::Freeze(point) => with_point_action(&request, point, PointAction::Freeze),
        Fault::Stall(stall) => {
            with_point_action(&request, stall.at, PointAction::Wait(stall.lasts.to_std()))
        }
        Fault::Delay(delay) => {
            wait(server, delay.lasts.to_std()).await;
            server.serve(&request)
        }
        Fault::WatchError(WatchError { error, at }) => {
            let last = faulty_body::error_event(&status_of(&error, &request));
            with_point_action(&request, at, PointAction::EndWith(last))
        }
        Fault::LateBookmark(late) => {
            request.call.read_faults.bookmark_after = Some(late.after.to_std());
            server.serve(&request)
        }
        Fault::StaleRead(stale) => {
            let Call { parameters, read_faults, .. } = &mut request.call;
            read_faults.writes_behind = Some(stale.writes_behind);
            // Even a read that requires the newest state gets an older one.
            if parameters.resource_version.is_empty() {
                parameters.resource_version = "0".to_owned();
            }
            server.serve(&request)
        }
        Fault::InvalidUtf8(object) => {
            Ok(faulty_body::with_invalid_utf8(server.serve(&request)?, is_watch, object))
        }
        Fault::Restart(restart) => {
            if restart.after_commit {
                server.serve(&request)?;
            }
            server.faults.begin_outage(&restart);
            Err(lose_response(&connection).await)
        }
    }
}

/// Whether the fault looks for objects or lines in the body, which therefore is JSON.
const fn acts_on_text(fault: &Fault) -> bool {
    match fault {
        Fault::Cut(_)
        | Fault::Freeze(_)
        | Fault::Stall(_)
        | Fault::WatchError(_)
        | Fault::InvalidUtf8(_) => true,
        Fault::Error(_)
        | Fault::LoseAnswer(_)
        | Fault::CommitLate(_)
        | Fault::Delay(_)
        | Fault::LateBookmark(_)
        | Fault::StaleRead(_)
        | Fault::Restart(_) => false,
    }
}

/// Closes the connection, which ends this request as well: the future never completes.
async fn lose_response(connection: &Connection) -> Status {
    connection.close();
    std::future::pending().await
}

async fn wait(server: &Server, duration: Duration) {
    tokio::select! {
        () = server.shared.stop.cancelled() => {}
        () = tokio::time::sleep(duration) => {}
    }
}

/// Responds at once, and executes the write later.
async fn commit_late(
    server: &Arc<Server>,
    request: AuthorizedCall,
    CommitLate { after, error }: CommitLate,
) -> Result<Response<Body>, Status> {
    let Some(permit) = server.faults.late_write_permit() else {
        let message = "too many writes wait to take effect late";
        return Err(Status::new(Reason::TooManyRequests, message));
    };
    let response = error.map(|error| error_response(&error, &request));
    let connection = request.connection.clone();
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let stop = server.shared.stop.clone();
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(after.to_std()) => {}
        }
        if let Err(status) = server.serve(&request) {
            tracing::debug!(path = request.path, error = %status, "late write refused");
        }
        drop(permit);
    });
    match response {
        Some(response) => Ok(response),
        None => Err(lose_response(&connection).await),
    }
}

/// The `Status` document of an injected error. A 403 without a message gets that of RBAC.
fn status_of(error: &InjectedError, request: &AuthorizedCall) -> crate::json::Value {
    match (&error.message, &request.user) {
        (None, Some(user)) if error.code == 403 => {
            access::forbidden(user, &access::attributes_of(request), "").to_value()
        }
        _ => error.to_value(error.message()),
    }
}

fn error_response(error: &InjectedError, request: &AuthorizedCall) -> Response<Body> {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = if error.plain_text {
        respond::text(code, format!("{}\n", error.message()))
    } else {
        respond::json(code, &status_of(error, request))
    };
    if let Some(seconds) = error.retry_after_seconds {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
