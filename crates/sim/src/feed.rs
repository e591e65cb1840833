//! One list and watch of a replica: the controller's own machine and decoder, fed from the store's log.

use everynode_controller::observation::Observation;
use everynode_controller::watch::machine::{End, Line, Machine, Page, Request};
use everynode_controller::watch::{Change, Decode};
use everynode_sandbox::fault::Fault;
use everynode_sandbox::kind::Kind;
use everynode_sandbox::store::{self, Action, ListOptions, Object, ResourceVersionMatch, Store};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::fault::{Faults, happens};
use crate::mutation::{Mutation, Seen};

/// A watch, of whichever kind.
pub trait Follow {
    fn kind(&self) -> &'static Kind;

    /// Whether there is something to deliver or to ask for.
    fn has_news(&self, store: &Store) -> bool;

    /// Delivers what comes next.
    fn poll(&mut self, store: &mut Store, faults: &Faults, rng: &mut Pcg64Mcg) -> Vec<Observation>;

    /// The server can't be reached, or refuses whatever is asked: an open watch ends, and no other one begins.
    fn refuse(&mut self);

    /// Says how far an open watch is of which nothing is left to deliver.
    fn bookmark(&mut self, store: &Store) -> Option<Observation>;
}

/// How a change becomes the loop's observation.
pub type Wrap<T> = fn(Change<T>) -> Observation;

pub struct Feed<D: Decode> {
    pub kind: &'static Kind,
    pub decoder: D,
    pub wrap: Wrap<D::Item>,
    pub mutation: Option<Mutation>,
    /// Whether the server understands streaming lists.
    pub streams: bool,
    machine: Machine<D::Item>,
    /// Up to where the open watch has delivered; `None`: there is none.
    position: Option<u64>,
}

const DELIVERIES_MAX: usize = 8;

impl<D: Decode> Feed<D> {
    pub fn new(kind: &'static Kind, decoder: D, wrap: Wrap<D::Item>) -> Self {
        let machine = Machine::new(D::is_foreign, D::key);
        Self { kind, decoder, wrap, mutation: None, streams: true, machine, position: None }
    }

    fn open(&mut self, store: &Store, faults: &Faults, rng: &mut Pcg64Mcg) -> Vec<Change<D::Item>> {
        match self.machine.request() {
            Request::StreamingList if !self.streams => {
                self.machine.ended(End::Unsupported);
                Vec::new()
            }
            Request::StreamingList => self.stream(store, faults, rng).into_iter().collect(),
            Request::Page { limit, continue_token } => {
                self.page(store, limit, continue_token, faults, rng).into_iter().collect()
            }
            Request::Watch { since } => {
                let since: u64 = since.parse().unwrap_or(0);
                let again = if happens(faults.repeat, rng) { rng.random_range(0..6) } else { 0 };
                self.position = Some(since.saturating_sub(again));
                if store.changes_since(self.kind, since, 1).is_err() {
                    self.position = None;
                    self.machine.ended(End::Expired);
                } else if store.changes_since(self.kind, since.saturating_sub(again), 1).is_err() {
                    self.position = Some(since);
                }
                Vec::new()
            }
        }
    }

    fn stream(
        &mut self,
        store: &Store,
        faults: &Faults,
        rng: &mut Pcg64Mcg,
    ) -> Option<Change<D::Item>> {
        // The controller asks for the newest state, and a server that answers with an older one breaks its word.
        let (items, version) =
            (store.iter(self.kind, None).cloned().collect::<Vec<_>>(), store.resource_version());
        let half = happens(faults.half_list, rng).then(|| rng.random_range(0..=items.len()));
        let fault = match half {
            Some(_) => None,
            None => faults.on_streaming_list(items.len(), rng),
        };
        if let Some(Fault::LateBookmark(_)) = fault {
            self.stream_with_live_events(store, rng);
        } else {
            let broken = half.or_else(|| broken_at(fault.as_ref()));
            for object in items.iter().take(broken.unwrap_or(items.len())) {
                if let Some((item, version)) = self.decode(object) {
                    self.machine.line(Line::Added { item, version });
                }
            }
            if broken.is_some() {
                self.machine.ended(if half.is_some() { End::Closed } else { End::Failed });
                return None;
            }
        }
        let version = version.to_string();
        self.machine.line(Line::Bookmark { version, ends_initial_events: true })
    }

    /// The list as it was a few writes ago, and what has happened since.
    fn stream_with_live_events(&mut self, store: &Store, rng: &mut Pcg64Mcg) {
        let now = store.resource_version();
        let then = now.saturating_sub(rng.random_range(1..20));
        let options = ListOptions {
            resource_version: Some(then),
            resource_version_match: Some(ResourceVersionMatch::Exact),
            ..ListOptions::default()
        };
        let older = store.list(self.kind, &options).ok();
        let since = store.changes_since(self.kind, then, usize::MAX).unwrap_or_default();
        let (items, since) = match older {
            Some(list) => (list.items, since),
            // It is forgotten: there is nothing older to begin with.
            None => (store.iter(self.kind, None).cloned().collect(), Vec::new()),
        };
        for object in &items {
            if let Some((item, version)) = self.decode(object) {
                self.machine.line(Line::Added { item, version });
            }
        }
        for change in &since {
            if let Some(line) = self.line(change) {
                self.machine.line(line);
            }
        }
    }

    fn page(
        &mut self,
        store: &Store,
        limit: Option<u32>,
        continue_token: Option<String>,
        faults: &Faults,
        rng: &mut Pcg64Mcg,
    ) -> Option<Change<D::Item>> {
        if happens(faults.half_list, rng) {
            self.machine.ended(End::Failed);
            return None;
        }
        let limit = limit.map_or(0, |_| 2);
        let options = ListOptions { limit, continue_token, ..ListOptions::default() };
        let Ok(list) = store.list(self.kind, &options) else {
            self.machine.ended(End::Expired);
            return None;
        };
        let items = list.items.iter().filter_map(|object| self.decode(object));
        let items = items.map(|(item, _)| item).collect();
        let version = list.resource_version.to_string();
        self.machine.page(Page { items, version, continue_token: list.continue_token })
    }

    fn deliver(&mut self, store: &Store, position: u64, limit: usize) -> Vec<Change<D::Item>> {
        let Ok(changes) = store.changes_since(self.kind, position, limit) else {
            self.position = None;
            self.machine.ended(End::Expired);
            return Vec::new();
        };
        let mut seen = Vec::new();
        for change in &changes {
            self.position = Some(change.resource_version);
            if let Some(line) = self.line(change) {
                seen.extend(self.machine.line(line));
            }
        }
        seen
    }

    /// A change as a line of a watch. `None`: a deliberate bug hides it.
    fn line(&mut self, change: &store::Change) -> Option<Line<D::Item>> {
        let shown = Mutation::sees(self.mutation, self.kind, change);
        if shown == Seen::Hidden {
            return None;
        }
        let (item, version) = self.decode(&change.object)?;
        Some(match change.action {
            _ if shown == Seen::Deleted => Line::Deleted { item, version },
            Action::Added => Line::Added { item, version },
            Action::Modified => Line::Modified { item, version },
            Action::Deleted => Line::Deleted { item, version },
        })
    }

    fn decode(&mut self, object: &Object) -> Option<(D::Item, String)> {
        let json = match self.mutation {
            Some(mutation) => mutation.json(self.kind, object),
            None => object.json(),
        };
        let item = self.decoder.decode(&json).ok()?;
        Some((item, object.resource_version().to_string()))
    }
}

impl<D: Decode> Follow for Feed<D> {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn has_news(&self, store: &Store) -> bool {
        let Some(position) = self.position else { return true };
        position < store.resource_version()
            && store.changes_since(self.kind, position, 1).map_or(true, |news| !news.is_empty())
    }

    fn poll(&mut self, store: &mut Store, faults: &Faults, rng: &mut Pcg64Mcg) -> Vec<Observation> {
        let changes = match self.position {
            None => {
                let changes = self.open(store, faults, rng);
                if let (Request::Watch { since }, None) = (self.machine.request(), self.position) {
                    self.position = since.parse().ok();
                }
                changes
            }
            Some(_) if happens(faults.cut, rng) => {
                self.position = None;
                self.machine.ended(End::Closed);
                if happens(faults.compact, rng) {
                    store.compact(store.resource_version());
                }
                Vec::new()
            }
            Some(_) if faults.on_watch(rng).is_some() => {
                self.refuse();
                Vec::new()
            }
            Some(position) => {
                let limit = rng.random_range(1..=DELIVERIES_MAX);
                self.deliver(store, position, limit)
            }
        };
        changes.into_iter().map(self.wrap).collect()
    }

    fn refuse(&mut self) {
        self.position = None;
        self.machine.ended(End::Failed);
    }

    fn bookmark(&mut self, store: &Store) -> Option<Observation> {
        let newest = store.resource_version();
        if self.position? >= newest || self.has_news(store) {
            return None;
        }
        self.position = Some(newest);
        let version = newest.to_string();
        self.machine.line(Line::Bookmark { version, ends_initial_events: false }).map(self.wrap)
    }
}

/// After how many objects the fault ends a list.
fn broken_at(fault: Option<&Fault>) -> Option<usize> {
    let Some(Fault::WatchError(end)) = fault else { return None };
    Some(end.at.objects.map_or(0, |objects| usize::try_from(objects).unwrap_or(usize::MAX)))
}
