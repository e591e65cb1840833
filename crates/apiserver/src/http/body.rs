//! Reads request bodies within limits of size and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::limits::Limits;
use super::quota::Reservation;
use crate::status::{Reason, Status};

/// The whole body, whose size is added to `reserved` as it arrives. Fails with 413 once the body is
/// known to be too large, with 429 if the client has too many bodies, and with 504 if the body does
/// not arrive in time.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: &mut Incoming,
    limits: &Limits,
    reserved: &mut Reservation,
) -> Result<Bytes, Status> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limits.request_body_bytes) {
        return Err(too_large(limits));
    }
    let whole = collect(body, announced.unwrap_or_default(), limits, reserved);
    match tokio::time::timeout(limits.request_body, whole).await {
        Ok(result) => result,
        Err(_) => Err(Status::new(Reason::Timeout, "the request's body did not arrive in time")),
    }
}

async fn collect(
    body: &mut Incoming,
    announced: usize,
    limits: &Limits,
    reserved: &mut Reservation,
) -> Result<Bytes, Status> {
    /// Maximum number of bytes for which there is room before they arrive.
    const ROOM_MAX: usize = 16 * 1024;
    let mut whole = BytesMut::with_capacity(announced.min(ROOM_MAX));
    while let Some(frame) = body.frame().await {
        let failed = |error| Status::bad_request(format!("read the request's body: {error}"));
        let Ok(bytes) = frame.map_err(failed)?.into_data() else { continue };
        if whole.len() + bytes.len() > limits.request_body_bytes {
            return Err(too_large(limits));
        }
        reserved.grow(bytes.len())?;
        whole.extend_from_slice(&bytes);
    }
    Ok(whole.freeze())
}

/// Reads the rest of the body of a refused request, as Go's server does. Otherwise a client of
/// HTTP/1.1 that is still sending would see a closed connection instead of the answer.
pub(crate) async fn discard(body: &mut Incoming) {
    const BYTES_MAX: usize = 256 * 1024;
    const TIME_MAX: Duration = Duration::from_secs(1);
    let rest = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > BYTES_MAX {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(TIME_MAX, rest).await;
}

fn too_large(limits: &Limits) -> Status {
    let message = format!("Request entity too large: limit is {}", limits.request_body_bytes);
    Status::new(Reason::RequestEntityTooLarge, message)
}
