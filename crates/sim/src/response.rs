//! The answers of an API server, as HTTP responses.

use std::io;

use bytes::Bytes;
use everynode_sandbox::json::json;
use everynode_sandbox::status::Status;
use futures::channel::mpsc;
use http::{Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

/// The body of an answer.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

/// An answer, or the failure of the connection.
pub(crate) type Answer = io::Result<Response<AnswerBody>>;

/// Takes the lines of an open watch. If it is dropped, the watch ends.
pub(crate) type Lines = mpsc::UnboundedSender<io::Result<Frame<Bytes>>>;

/// Why a request fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server can't be connected to.
    ConnectionRefused,
    /// The connection breaks before the answer.
    ConnectionLost,
    /// No answer ever arrives.
    Silence,
    /// The server, or a proxy, refuses the request.
    Refused(Refusal),
}

/// A refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The reason of the `Status`. If it is empty, a proxy answers without a `Status`.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The number of seconds after which the client should retry.
    pub retry_after: Option<u32>,
}

impl Refusal {
    /// A refusal without a time for the retry.
    pub fn new(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), message: message.into(), retry_after: None }
    }

    fn response(&self) -> Response<AnswerBody> {
        let body = if self.reason.is_empty() {
            self.message.clone()
        } else {
            let Self { code, reason, message, .. } = self;
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "code": code, "reason": reason, "message": message,
            })
            .to_string()
        };
        let mut response = response(self.code, body.into());
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl Failure {
    /// The answer. `None` if none ever arrives.
    pub(crate) fn answer(&self) -> Option<Answer> {
        match self {
            Self::ConnectionRefused => Some(Err(io::ErrorKind::ConnectionRefused.into())),
            Self::ConnectionLost => Some(Err(io::ErrorKind::ConnectionReset.into())),
            Self::Silence => None,
            Self::Refused(refusal) => Some(Ok(refusal.response())),
        }
    }
}

/// The answer to a request that the registry has served.
pub(crate) fn of_result(result: Result<Bytes, Status>) -> Answer {
    Ok(match result {
        Ok(body) => response(200, body),
        Err(status) => response(status.code(), status.to_value().to_string().into()),
    })
}

/// A list.
pub(crate) fn of_list(body: Vec<u8>) -> Answer {
    Ok(response(200, body.into()))
}

/// A list whose connection breaks after this number of bytes.
pub(crate) fn of_half_list(body: &[u8], length: usize) -> Answer {
    let (lines, response) = of_watch();
    let half = Bytes::copy_from_slice(&body[..length.min(body.len())]);
    // The response, which receives both, still exists.
    let _ = lines.unbounded_send(Ok(Frame::data(half)));
    let _ = lines.unbounded_send(Err(io::ErrorKind::ConnectionReset.into()));
    response
}

/// The answer to a watch, and what takes its lines.
pub(crate) fn of_watch() -> (Lines, Answer) {
    let (lines, receiver) = mpsc::unbounded();
    (lines, Ok(Response::new(StreamBody::new(receiver).boxed_unsync())))
}

fn response(code: u16, body: Bytes) -> Response<AnswerBody> {
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).expect("status codes are in range");
    response
}
