//! Response bodies with an injected fault: they end, stall or freeze at a point, or contain an
//! invalid object (S17).

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::time::Instant;

use crate::fault::{InvalidUtf8, Point, Progress, invalidate, object_ends};
use crate::http::connection::Connection;
use crate::http::respond::Body;

/// Time for the bytes before the point to leave the process before the connection breaks.
const FLUSH: Duration = Duration::from_millis(50);

/// The action at the point.
pub(super) enum PointAction {
    Close,
    Freeze,
    /// Wait, then send the rest of the body.
    Wait(Duration),
    /// Send these bytes and end the body.
    EndWith(Bytes),
}

/// A watch's ERROR event with a `Status`.
pub(super) fn error_event(status: &crate::json::Value) -> Bytes {
    format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n").into()
}

/// The response, with an action at a point of its body.
pub(super) fn with_point_action(
    response: Response<Body>,
    is_watch: bool,
    point: Point,
    action: PointAction,
    connection: Connection,
) -> Response<Body> {
    response.map(|body| {
        let progress = Progress::new(point);
        let deadline = progress.time().map(|time| Instant::now() + time.to_std());
        let state = if progress.is_reached() { State::AtPoint } else { State::BeforePoint };
        let body = FaultyBody {
            body,
            progress,
            deadline,
            is_watch,
            action,
            connection,
            state,
            rest: None,
        };
        let chunks = stream::unfold(body, |mut body| async move {
            let chunk = body.next().await?;
            Some((Ok::<_, Infallible>(Frame::data(chunk)), body))
        });
        StreamBody::new(chunks).boxed_unsync()
    })
}

/// The response, with one object made invalid UTF-8.
pub(super) fn with_invalid_utf8(
    response: Response<Body>,
    is_watch: bool,
    object: InvalidUtf8,
) -> Response<Body> {
    response.map(|body| {
        let invalidate =
            move |data: Bytes| invalidate(&data, is_watch, &object).map_or(data, Bytes::from);
        body.map_frame(move |frame| frame.map_data(&invalidate)).boxed_unsync()
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    BeforePoint,
    AtPoint,
    /// The rest of the body is sent unchanged.
    AfterPoint,
    Ended,
}

struct FaultyBody {
    body: Body,
    progress: Progress,
    deadline: Option<Instant>,
    is_watch: bool,
    action: PointAction,
    connection: Connection,
    state: State,
    /// The bytes after the point in the chunk that contains it.
    rest: Option<Bytes>,
}

impl FaultyBody {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.state {
                State::BeforePoint => {
                    if let Some(chunk) = self.next_before_point().await? {
                        return Some(chunk);
                    }
                }
                State::AtPoint => {
                    if let Some(last) = self.act().await {
                        return Some(last);
                    }
                }
                State::AfterPoint => match self.rest.take().filter(|rest| !rest.is_empty()) {
                    Some(rest) => return Some(rest),
                    None => return data(&mut self.body).await,
                },
                State::Ended => return None,
            }
        }
    }

    /// The next chunk up to the point, `Some(None)` if the point is reached without one, `None` if
    /// the body ends first.
    async fn next_before_point(&mut self) -> Option<Option<Bytes>> {
        let deadline = self.deadline.unwrap_or_else(Instant::now);
        let mut chunk = tokio::select! {
            chunk = data(&mut self.body) => chunk?,
            () = tokio::time::sleep_until(deadline), if self.deadline.is_some() => {
                self.state = State::AtPoint;
                return Some(None);
            }
        };
        let ends = object_ends(&chunk, self.is_watch);
        if let Some(offset) = self.progress.take(chunk.len(), &ends) {
            self.state = State::AtPoint;
            self.rest = Some(chunk.split_off(offset));
        }
        Some(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }

    async fn act(&mut self) -> Option<Bytes> {
        match &mut self.action {
            PointAction::Close => {
                tokio::time::sleep(FLUSH).await;
                self.connection.close();
                std::future::pending().await
            }
            PointAction::Freeze => {
                tokio::time::sleep(FLUSH).await;
                self.connection.freeze();
                std::future::pending().await
            }
            PointAction::Wait(duration) => {
                tokio::time::sleep(*duration).await;
                self.state = State::AfterPoint;
                None
            }
            PointAction::EndWith(last) => {
                self.state = State::Ended;
                Some(std::mem::take(last))
            }
        }
    }
}

/// The next chunk of data in a body.
async fn data(body: &mut Body) -> Option<Bytes> {
    loop {
        let frame = match body.frame().await? {
            Ok(frame) => frame,
            Err(never) => match never {},
        };
        if let Ok(data) = frame.into_data() {
            return Some(data);
        }
    }
}
