//! Answers that break off, stand still, or end in an error in their middle.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::time::Instant;

use crate::api::link::Link;
use crate::api::respond::Body;
use crate::fault::{Event, InvalidUtf8, Point, Progress, invalidate, object_ends};

/// Time for what was written before to leave, before the connection breaks.
const FLUSH: Duration = Duration::from_millis(50);

/// What happens at the point.
pub enum Then {
    Close,
    Freeze,
    /// The answer goes on after so long.
    Wait(Duration),
    /// This is the last piece.
    EndWith(Bytes),
}

/// An ERROR event with a `Status`.
pub fn error_event(status: &serde_json::Value) -> Bytes {
    format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n").into()
}

/// The answer, to which something happens at a point.
pub fn broken(
    response: Response<Body>,
    is_watch: bool,
    point: Point,
    then: Then,
    link: Link,
) -> Response<Body> {
    response.map(|body| {
        let progress = Progress::new(point);
        let deadline = progress.time().map(|time| Instant::now() + time.to_std());
        let state = if progress.is_reached() { State::Reached } else { State::Before };
        let broken = Broken { body, progress, deadline, is_watch, then, link, state, rest: None };
        let chunks = stream::unfold(broken, |mut broken| async move {
            let chunk = broken.next().await?;
            Some((Ok::<_, Infallible>(Frame::data(chunk)), broken))
        });
        StreamBody::new(chunks).boxed_unsync()
    })
}

/// The answer with one object made invalid.
pub fn spoilt(response: Response<Body>, is_watch: bool, object: InvalidUtf8) -> Response<Body> {
    response.map(|body| {
        let spoil =
            move |data: Bytes| invalidate(&data, is_watch, &object).map_or(data, Bytes::from);
        body.map_frame(move |frame| frame.map_data(&spoil)).boxed_unsync()
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Before,
    Reached,
    /// The rest goes as it is.
    Behind,
    Over,
}

struct Broken {
    body: Body,
    progress: Progress,
    deadline: Option<Instant>,
    is_watch: bool,
    then: Then,
    link: Link,
    state: State,
    /// Of the piece in which the point was: what follows it.
    rest: Option<Bytes>,
}

impl Broken {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.state {
                State::Before => {
                    if let Some(chunk) = self.before().await? {
                        return Some(chunk);
                    }
                }
                State::Reached => {
                    if let Some(last) = self.happen().await {
                        return Some(last);
                    }
                }
                State::Behind => match self.rest.take().filter(|rest| !rest.is_empty()) {
                    Some(rest) => return Some(rest),
                    None => return data(&mut self.body).await,
                },
                State::Over => return None,
            }
        }
    }

    /// The next piece up to the point. `None`: the answer ends first.
    async fn before(&mut self) -> Option<Option<Bytes>> {
        let deadline = self.deadline.unwrap_or_else(Instant::now);
        let mut chunk = tokio::select! {
            chunk = data(&mut self.body) => chunk?,
            () = tokio::time::sleep_until(deadline), if self.deadline.is_some() => {
                self.state = State::Reached;
                return Some(None);
            }
        };
        let ends = object_ends(&chunk, self.is_watch);
        if let Event::Reached(at) = self.progress.take(chunk.len(), &ends) {
            self.state = State::Reached;
            self.rest = Some(chunk.split_off(at));
        }
        Some(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }

    async fn happen(&mut self) -> Option<Bytes> {
        match &mut self.then {
            Then::Close => {
                tokio::time::sleep(FLUSH).await;
                self.link.close();
                std::future::pending().await
            }
            Then::Freeze => {
                tokio::time::sleep(FLUSH).await;
                self.link.freeze();
                std::future::pending().await
            }
            Then::Wait(duration) => {
                tokio::time::sleep(*duration).await;
                self.state = State::Behind;
                None
            }
            Then::EndWith(last) => {
                self.state = State::Over;
                Some(std::mem::take(last))
            }
        }
    }
}

/// The next piece of data of a body.
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
