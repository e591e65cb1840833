//! Injects a fault into a request (S17).

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Method, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::Faults;
use super::body::{self, PointAction};
use crate::fault::{CommitLate, Fault, InjectedError, LoseAnswer, Point, WatchError};
use crate::http::access;
use crate::http::call::{AuthorizedCall, Call};
use crate::http::connection::Connection;
use crate::http::negotiate;
use crate::http::respond::{self, Body};
use crate::status::{Reason, Status};

impl Faults {
    /// Responds to a request with a fault. `serve` serves it as usual, until `stop`.
    pub(crate) async fn inject(
        &self,
        mut request: AuthorizedCall,
        fault: Fault,
        serve: impl Fn(&AuthorizedCall) -> Result<Response<Body>, Status> + Send + Sync + 'static,
        stop: CancellationToken,
    ) -> Result<Response<Body>, Status> {
        let is_watch = request.call.parameters.watch && request.call.method == Method::GET;
        let connection = request.connection.clone();
        if acts_on_text(&fault) {
            negotiate::refuse_protobuf(&mut request.call.headers);
        }
        let with_point_action = |request: &AuthorizedCall, point: Point, action: PointAction| {
            let response = serve(request)?;
            Ok(body::with_point_action(response, is_watch, point, action, connection.clone()))
        };
        match fault {
            Fault::Error(error) => {
                if error.after_commit {
                    serve(&request)?;
                }
                Ok(error_response(&error, &request))
            }
            Fault::LoseAnswer(LoseAnswer { after_commit }) => {
                if after_commit {
                    serve(&request)?;
                }
                Err(lose_response(&connection).await)
            }
            Fault::CommitLate(late) => self.commit_late(request, late, serve, stop).await,
            Fault::Cut(point) => with_point_action(&request, point, PointAction::Close),
            Fault::Freeze(point) => with_point_action(&request, point, PointAction::Freeze),
            Fault::Stall(stall) => {
                with_point_action(&request, stall.at, PointAction::Wait(stall.lasts.to_std()))
            }
            Fault::Delay(delay) => {
                wait(&stop, delay.lasts.to_std()).await;
                serve(&request)
            }
            Fault::WatchError(WatchError { error, at }) => {
                let last = body::error_event(&status_of(&error, &request));
                with_point_action(&request, at, PointAction::EndWith(last))
            }
            Fault::LateBookmark(late) => {
                request.call.read_faults.bookmark_after = Some(late.after.to_std());
                serve(&request)
            }
            Fault::StaleRead(stale) => {
                let Call { parameters, read_faults, .. } = &mut request.call;
                read_faults.writes_behind = Some(stale.writes_behind);
                // Even a read that requires the newest state gets an older one.
                if parameters.resource_version.is_empty() {
                    parameters.resource_version = "0".to_owned();
                }
                serve(&request)
            }
            Fault::InvalidUtf8(object) => {
                Ok(body::with_invalid_utf8(serve(&request)?, is_watch, object))
            }
            Fault::Restart(restart) => {
                if restart.after_commit {
                    serve(&request)?;
                }
                self.begin_outage(&restart);
                Err(lose_response(&connection).await)
            }
        }
    }

    /// Responds at once, and executes the write later.
    async fn commit_late(
        &self,
        request: AuthorizedCall,
        CommitLate { after, error }: CommitLate,
        serve: impl Fn(&AuthorizedCall) -> Result<Response<Body>, Status> + Send + Sync + 'static,
        stop: CancellationToken,
    ) -> Result<Response<Body>, Status> {
        let Some(permit) = self.late_write_permit() else {
            let message = "too many writes wait to take effect late";
            return Err(Status::new(Reason::TooManyRequests, message));
        };
        let response = error.map(|error| error_response(&error, &request));
        let connection = request.connection.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(after.to_std()) => {}
            }
            if let Err(status) = serve(&request) {
                tracing::debug!(path = request.path, error = %status, "late write refused");
            }
            drop(permit);
        });
        match response {
            Some(response) => Ok(response),
            None => Err(lose_response(&connection).await),
        }
    }
}

/// True if the fault looks for objects or lines in the body, which therefore is JSON.
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

async fn wait(stop: &CancellationToken, duration: Duration) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(duration) => {}
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
