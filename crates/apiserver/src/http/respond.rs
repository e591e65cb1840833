//! Responses: their bodies, and the errors that several endpoints share.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};

use crate::status::{Details, Reason, Status};

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) const JSON: &str = "application/json";

/// A response with a body of known length.
pub(crate) fn full(
    status: StatusCode,
    content_type: &str,
    bytes: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Full::new(bytes.into()).boxed_unsync());
    *response.status_mut() = status;
    let content_type = HeaderValue::from_str(content_type)
        .unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A response with `value` as JSON and the final newline that Go's encoder writes.
pub(crate) fn json(status: StatusCode, value: &impl serde::Serialize) -> Response<Body> {
    let mut bytes = serde_json::to_vec(value).expect("documents have only string keys");
    bytes.push(b'\n');
    full(status, JSON, bytes)
}

pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    full(status, "text/plain; charset=utf-8", text.into())
}

/// A response with an error as a `Status` document.
pub(crate) fn status(status: &Status) -> Response<Body> {
    /// Maximum size of a message. Some quote a part of the request.
    const MESSAGE_BYTES_MAX: usize = 128 * 1024;
    let code = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, &status.excerpt(MESSAGE_BYTES_MAX).to_value());
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry));
    }
    response
}

/// Adds a `Warning` header for each text, in the form of RFC 7234, which Kubernetes' clients print.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    /// Clients limit the size of all headers to a few kilobytes.
    const WARNINGS_MAX: usize = 20;
    /// Sizes in bytes, as upstream: of all warnings, and of one if all are too long.
    const TOTAL_MAX: usize = 4 * 1024;
    const SHORT_MAX: usize = 256;
    let are_long = warnings.iter().map(String::len).sum::<usize>() > TOTAL_MAX;
    let shown = |warning: &String| {
        let end = if are_long { SHORT_MAX } else { warning.len() };
        warning[..warning.floor_char_boundary(end)].to_owned()
    };
    for warning in warnings.iter().take(WARNINGS_MAX).map(shown) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// 429 for a client that uses more than its share, in upstream's words.
pub(crate) fn too_many_requests() -> Status {
    Status::new(Reason::TooManyRequests, "Too many requests, please try again later.")
        .with_details(Details { retry_after_seconds: 1, ..Details::default() })
}

/// 401 for a request without valid credentials.
pub(crate) fn unauthorized() -> Status {
    Status::new(Reason::Unauthorized, "Unauthorized")
}

/// 405 for a method that the resource does not support.
pub(crate) fn method_not_allowed() -> Status {
    Status::new(
        Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    )
}

/// 404 for a resource or path that the sandbox lacks, named in the message (S12).
pub(crate) fn not_served(what: &str) -> Status {
    // Clients assume that a 404 has details.
    Status::new(Reason::NotFound, format!("the sandbox does not serve {what}"))
        .with_details(Details::default())
}
