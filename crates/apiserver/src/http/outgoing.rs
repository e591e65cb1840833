//! A response on its way to the client. It uses the client's quota until it is sent, and its
//! connection knows since when the client takes nothing of it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};

use super::connection::{Connection, ResponseId};
use super::quota::Reservation;
use super::respond::Body;
use crate::status::Status;

/// Maximum size of a frame, so that a client's progress is seen.
const FRAME_BYTES: usize = 64 * 1024;

/// The body of a response.
pub(crate) struct Outgoing {
    inner: Body,
    /// The rest of a frame that is larger than [`FRAME_BYTES`].
    rest: Bytes,
    id: ResponseId,
    connection: Connection,
    _place: Reservation,
    unsent: Unsent,
}

/// The part of the client's share of unsent bytes that a body takes.
enum Unsent {
    /// All of it, until it is sent.
    Whole { _bytes: Reservation },
    /// Of a stream, the rest of a frame.
    Rest(Reservation),
}

impl Outgoing {
    /// `reserve` reserves a number of unsent bytes.
    ///
    /// # Errors
    /// 429 if there are too many.
    pub(crate) fn new(
        inner: Body,
        connection: Connection,
        place: Reservation,
        reserve: impl FnOnce(usize) -> Result<Reservation, Status>,
    ) -> Result<Self, Status> {
        let unsent = match inner.size_hint().exact() {
            Some(bytes) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                Unsent::Whole { _bytes: reserve(bytes)? }
            }
            None => Unsent::Rest(reserve(0)?),
        };
        let id = connection.next_response();
        Ok(Self { inner, rest: Bytes::new(), id, connection, _place: place, unsent })
    }

    /// The next frame of some bytes. `None` ends the stream of a client for which too many bytes
    /// are unsent; a watch goes on from its last event on a new request.
    fn take(&mut self, mut bytes: Bytes) -> Option<Frame<Bytes>> {
        self.connection.response_has_data(self.id);
        self.rest =
            if bytes.len() > FRAME_BYTES { bytes.split_off(FRAME_BYTES) } else { Bytes::new() };
        if let Unsent::Rest(reservation) = &mut self.unsent
            && reservation.set(self.rest.len()).is_err()
        {
            self.rest.clear();
            return None;
        }
        Some(Frame::data(bytes))
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
            return Poll::Ready(self.take(rest).map(Ok));
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(match frame.into_data() {
                Ok(bytes) => self.take(bytes).map(Ok),
                Err(other) => Some(Ok(other)),
            }),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;
    use crate::http::limits::{Limits, Share};
    use crate::http::quota::{Quota, Resource};

    /// S12: the events of watches that clients do not take are within their share of unsent bytes:
    /// the next watch ends.
    #[tokio::test]
    async fn untaken_events_are_within_the_share_of_a_client() {
        let share = Share { client: 300_000, total: 300_000 };
        let quota = Quota::new(Limits { response_bytes: share, ..Limits::default() });
        let client: Arc<str> = "ann".into();
        let watch = || {
            let event = Bytes::from(vec![b'x'; 200_000]);
            let events = stream::repeat_with(move || Ok(Frame::data(event.clone())));
            let place = quota.reserve(&client, Resource::Watches, 1)?;
            let reserve = |bytes| quota.reserve(&client, Resource::ResponseBytes, bytes);
            let body = StreamBody::new(events).boxed_unsync();
            Outgoing::new(body, Connection::new(0), place, reserve)
        };
        let (mut first, mut second) = (watch().unwrap(), watch().unwrap());
        assert!(first.frame().await.is_some());
        assert!(second.frame().await.is_some());
        let mut third = watch().unwrap();
        assert!(third.frame().await.is_none(), "two events of 200 KB wait");
        // Once the first one is taken, there is room again.
        drop(first);
        assert!(watch().unwrap().frame().await.is_some());
    }
}
