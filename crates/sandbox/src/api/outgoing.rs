//! A response on its way to the client. It uses the client's quota until it is sent, and its
//! connection knows since when the client takes nothing of it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use super::connection::{Connection, ResponseId};
use super::quota::Reservation;
use super::respond::Body;

/// Maximum size of a frame, so that a client's progress is seen.
const FRAME_BYTES: usize = 64 * 1024;

/// The body of a response.
pub(crate) struct Outgoing {
    inner: Body,
    /// The rest of a frame that is larger than [`FRAME_BYTES`].
    rest: Bytes,
    id: ResponseId,
    connection: Connection,
    _reservations: Vec<Reservation>,
}

impl Outgoing {
    pub(crate) fn new(inner: Body, connection: Connection, reservations: Vec<Reservation>) -> Self {
        let id = connection.next_response();
        Self { inner, rest: Bytes::new(), id, connection, _reservations: reservations }
    }

    fn take(&mut self, mut bytes: Bytes) -> Frame<Bytes> {
        self.connection.response_has_data(self.id);
        self.rest =
            if bytes.len() > FRAME_BYTES { bytes.split_off(FRAME_BYTES) } else { Bytes::new() };
        Frame::data(bytes)
    }
}

impl hyper::body::Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(self.take(rest))));
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_data() {
                Ok(bytes) => self.take(bytes),
                Err(other) => other,
            }))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                self.connection.response_waits(self.id);
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.inner.size_hint();
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        if let Some(exact) = hint.exact() {
            hint.set_exact(exact.saturating_add(rest));
        }
        hint
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.connection.response_waits(self.id);
    }
}
