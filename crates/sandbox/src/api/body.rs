//! Reads request bodies within limits of size and time.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::serve::Limits;
use crate::status::{Reason, Status};

/// The whole body. Fails with 413 once the body is known to be too large, and with 504 if it does
/// not arrive in time.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Incoming,
    limits: &Limits,
) -> Result<Bytes, Status> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limits.request_body_bytes) {
        return Err(too_large(limits));
    }
    let whole = Limited::new(body, limits.request_body_bytes).collect();
    match tokio::time::timeout(limits.request_body, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limits)),
        Ok(Err(error)) => Err(Status::bad_request(format!("read the request's body: {error}"))),
        Err(_) => Err(Status::new(Reason::Timeout, "the request's body did not arrive in time")),
    }
}

fn too_large(limits: &Limits) -> Status {
    let message = format!("Request entity too large: limit is {}", limits.request_body_bytes);
    Status::new(Reason::RequestEntityTooLarge, message)
}
