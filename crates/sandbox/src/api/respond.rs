//! Responses: bodies and the few shapes that all answers have.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};

pub type Body = UnsyncBoxBody<Bytes, Infallible>;

pub const JSON: &str = "application/json";

/// A whole body, sent with its length.
pub fn full(status: StatusCode, content_type: &str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(bytes.into()).boxed_unsync());
    *response.status_mut() = status;
    let content_type = HeaderValue::from_str(content_type)
        .unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// `value` as JSON, with the new line that Go's encoder ends its documents with.
pub fn json(status: StatusCode, value: &impl serde::Serialize) -> Response<Body> {
    let mut bytes = serde_json::to_vec(value).expect("our documents have string keys only");
    bytes.push(b'\n');
    full(status, JSON, bytes)
}

pub fn text(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    full(status, "text/plain; charset=utf-8", text.into())
}
