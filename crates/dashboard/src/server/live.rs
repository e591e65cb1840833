//! Keeps a page up to date: sends the sections that have changed as server-sent events.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{Stream, StreamExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::source::Reading;
use crate::view::Section;

/// The name of the events.
const NAME: &str = "sections";
/// How long the browser waits before it connects again.
const RETRY: Duration = Duration::from_secs(1);

/// The sections of a page whenever one has changed, until `shutdown`. The first event has all of
/// them; the page ignores those that it has already.
pub(super) fn events<T: Send + Sync + 'static>(
    receiver: watch::Receiver<Reading<T>>,
    sections: impl Fn(&Reading<T>) -> Vec<Section> + Send + 'static,
    shutdown: CancellationToken,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let follower = Follower { receiver, sections, sent: BTreeMap::new() };
    let events = futures::stream::unfold(follower, async |mut follower| {
        let html = follower.next().await?;
        let event = Event::default().event(NAME).retry(RETRY).data(html);
        Some((Ok(event), follower))
    });
    Sse::new(events.take_until(shutdown.cancelled_owned())).keep_alive(KeepAlive::default())
}

struct Follower<T, F> {
    receiver: watch::Receiver<Reading<T>>,
    sections: F,
    /// The digest of each section that was sent.
    sent: BTreeMap<&'static str, String>,
}

impl<T, F: Fn(&Reading<T>) -> Vec<Section>> Follower<T, F> {
    /// The next sections that differ from those sent before; `None` if nobody reads the cluster any
    /// more.
    async fn next(&mut self) -> Option<String> {
        loop {
            if self.sent.is_empty() {
                self.receiver.mark_changed();
            }
            self.receiver.changed().await.ok()?;
            let sections = (self.sections)(&self.receiver.borrow_and_update());
            let mut html = String::new();
            for section in sections {
                let digest = section.digest();
                if self.sent.get(section.id) != Some(&digest) {
                    html.push_str(&section.render().into_string());
                    self.sent.insert(section.id, digest);
                }
            }
            if !html.is_empty() {
                return Some(html);
            }
        }
    }
}
