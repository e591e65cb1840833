//! A list and watch of a replica. The controller's own reader, decoder and state machine receive
//! the bytes that an API server would send for the store's log.

use bytes::Bytes;
use everynode_controller::observation::Observation;
use everynode_controller::watch::machine::{End, Machine, Request};
use everynode_controller::watch::{Change, Decode, read};
use everynode_sandbox::fault::{Fault, InvalidUtf8};
use everynode_sandbox::kind::Kind;
use everynode_sandbox::object::Object;
use everynode_sandbox::store::{self, Action, ListOptions, ResourceVersionMatch, Store};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::fault::{Faults, happens};
use crate::mutation::{Mutation, ReportedChange};
use crate::wire;

/// A list and watch of any resource.
pub(crate) trait ListerWatcher {
    /// Returns the kind of the objects.
    fn kind(&self) -> &'static Kind;

    /// Whether there are changes to deliver or a request to send.
    fn has_changes(&self, store: &Store) -> bool;

    /// Delivers the next changes, or sends the next request.
    fn deliver(
        &mut self,
        store: &mut Store,
        faults: &Faults,
        rng: &mut Pcg64Mcg,
    ) -> Vec<Observation>;

    /// Ends an open watch because the server is unreachable or refuses every request.
    fn fail(&mut self);

    /// Sends a bookmark to an open watch that has delivered all changes.
    fn bookmark(&mut self, store: &Store) -> Option<Observation>;

    /// Sets the objects that are served with bytes that are not UTF-8 from now on.
    fn set_invalid_objects(&mut self, objects: &[InvalidUtf8]);

    /// Takes the report since the last call.
    fn take_read_report(&mut self) -> ReadReport;
}

/// Objects with invalid bytes, and what the controller reported when it read lists and watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Number of objects that were served with bytes that are not UTF-8.
    pub invalid_objects: usize,
    /// The controller's reports about single objects.
    pub problems: Vec<String>,
}

/// A line has ended the request.
struct Ended;

/// Converts a change to an observation of the event loop.
pub(crate) type ToObservation<T> = fn(Change<T>) -> Observation;

/// A list and watch of one resource.
pub(crate) struct ListWatch<D: Decode> {
    /// The kind of the objects.
    pub kind: &'static Kind,
    /// The controller's decoder.
    pub decoder: D,
    /// Converts a change of this resource.
    pub to_observation: ToObservation<D::Item>,
    /// A deliberate bug.
    pub mutation: Option<Mutation>,
    /// Whether the server supports streaming lists.
    pub supports_streaming_lists: bool,
    /// With an object's version, it determines whether the object has invalid bytes.
    pub seed: u64,
    invalid_objects: Vec<InvalidUtf8>,
    read_report: ReadReport,
    machine: Machine<D::Item>,
    /// The version up to which the open watch has delivered. `None` if no watch is open.
    position: Option<u64>,
}

const CHANGES_PER_DELIVERY_MAX: usize = 8;

impl<D: Decode> ListWatch<D> {
    pub(crate) fn new(
        kind: &'static Kind,
        decoder: D,
        to_observation: ToObservation<D::Item>,
    ) -> Self {
        let machine = Machine::new(D::is_foreign, D::key);
        Self {
            kind,
            decoder,
            to_observation,
            mutation: None,
            supports_streaming_lists: true,
            seed: 0,
            invalid_objects: Vec::new(),
            read_report: ReadReport::default(),
            machine,
            position: None,
        }
    }

    fn open(&mut self, store: &Store, faults: &Faults, rng: &mut Pcg64Mcg) -> Vec<Change<D::Item>> {
        match self.machine.request() {
            Request::StreamingList if !self.supports_streaming_lists => {
                self.machine.ended(End::Unsupported);
                Vec::new()
            }
            Request::StreamingList => self.stream(store, faults, rng).into_iter().collect(),
            Request::Page { limit, continue_token } => {
                self.page(store, limit, continue_token, faults, rng).into_iter().collect()
            }
            Request::Watch { since } => {
                let since: u64 = since.parse().unwrap_or(0);
                let repeated = if happens(faults.repeat, rng) { rng.random_range(0..6) } else { 0 };
                self.position = Some(since.saturating_sub(repeated));
                if store.changes_since(self.kind, since, 1).is_err() {
                    self.position = None;
                    self.machine.ended(End::Expired);
                } else if store.changes_since(self.kind, since.saturating_sub(repeated), 1).is_err()
                {
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
        // The controller requests the newest state. An older one would violate the API's contract.
        let (items, version) =
            (store.iter(self.kind, None).cloned().collect::<Vec<_>>(), store.resource_version());
        let cut_at = happens(faults.half_list, rng).then(|| rng.random_range(0..=items.len()));
        let fault = match cut_at {
            Some(_) => None,
            None => faults.draw_list_fault(items.len(), rng),
        };
        if let Some(Fault::LateBookmark(_)) = fault {
            self.stream_with_live_events(store, faults, rng).ok()?;
        } else {
            let end = cut_at.or_else(|| failing_object(fault.as_ref()));
            for object in items.iter().take(end.unwrap_or(items.len())) {
                self.receive_object("ADDED", object, faults).ok()?;
            }
            if cut_at.is_some() {
                self.end(End::Closed);
                return None;
            }
            if let Some(Fault::WatchError(error)) = fault {
                return self.receive(&wire::error(&error.error)).ok()?;
            }
        }
        self.receive(&wire::bookmark(&version.to_string(), true)).ok()?
    }

    /// Sends an older list, and then the changes since it was current.
    fn stream_with_live_events(
        &mut self,
        store: &Store,
        faults: &Faults,
        rng: &mut Pcg64Mcg,
    ) -> Result<(), Ended> {
        let now = store.resource_version();
        let start = now.saturating_sub(rng.random_range(1..20));
        let options = ListOptions {
            resource_version: Some(start),
            resource_version_match: Some(ResourceVersionMatch::Exact),
            ..ListOptions::default()
        };
        let older = store.list(self.kind, &options).ok();
        let since = store.changes_since(self.kind, start, usize::MAX).unwrap_or_default();
        let (items, since) = match older {
            Some(list) => (list.items, since),
            // The older version is compacted: start with the newest one.
            None => (store.iter(self.kind, None).cloned().collect(), Vec::new()),
        };
        for object in &items {
            self.receive_object("ADDED", object, faults)?;
        }
        for change in &since {
            self.receive_change(change, faults)?;
        }
        Ok(())
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
            self.end(End::Failed);
            return None;
        }
        let limit = limit.map_or(0, |_| 2);
        let options = ListOptions { limit, continue_token, ..ListOptions::default() };
        let Ok(list) = store.list(self.kind, &options) else {
            self.end(End::Expired);
            return None;
        };
        let items: Vec<Bytes> = list.items.iter().map(|item| self.json(item, faults)).collect();
        let version = list.resource_version.to_string();
        let page = wire::page(&items, &version, list.continue_token.as_deref());
        match read::page(&mut self.decoder, &page, &mut self.read_report.problems) {
            Ok(page) => self.machine.page(page),
            Err(error) => {
                self.end(error.end());
                None
            }
        }
    }

    fn deliver_changes(
        &mut self,
        store: &Store,
        position: u64,
        limit: usize,
        faults: &Faults,
    ) -> Vec<Change<D::Item>> {
        let Ok(changes) = store.changes_since(self.kind, position, limit) else {
            self.end(End::Expired);
            return Vec::new();
        };
        let mut seen = Vec::new();
        for change in &changes {
            self.position = Some(change.resource_version);
            match self.receive_change(change, faults) {
                Ok(change) => seen.extend(change),
                Err(Ended) => break,
            }
        }
        seen
    }

    fn receive_change(
        &mut self,
        change: &store::Change,
        faults: &Faults,
    ) -> Result<Option<Change<D::Item>>, Ended> {
        let reported = Mutation::reported_change(self.mutation, self.kind, change);
        let event = match change.action {
            // A deliberate bug hides the change.
            _ if reported == ReportedChange::Hidden => return Ok(None),
            _ if reported == ReportedChange::AsDeleted => "DELETED",
            Action::Added => "ADDED",
            Action::Modified => "MODIFIED",
            Action::Deleted => "DELETED",
        };
        self.receive_object(event, &change.object, faults)
    }

    fn receive_object(
        &mut self,
        event: &str,
        object: &Object,
        faults: &Faults,
    ) -> Result<Option<Change<D::Item>>, Ended> {
        let json = self.json(object, faults);
        self.receive(&wire::line(event, &json))
    }

    /// Reads a line of a watch as the controller does.
    fn receive(&mut self, line: &[u8]) -> Result<Option<Change<D::Item>>, Ended> {
        match read::line(&mut self.decoder, line, &mut self.read_report.problems) {
            Ok(line) => Ok(self.machine.line(line)),
            Err(error) => {
                self.end(error.end());
                Err(Ended)
            }
        }
    }

    fn end(&mut self, end: End) {
        self.position = None;
        self.machine.ended(end);
    }

    /// Returns an object's JSON as the server sends it.
    fn json(&mut self, object: &Object, faults: &Faults) -> Bytes {
        let json = match self.mutation {
            Some(mutation) => mutation.json(self.kind, object),
            None => object.json(),
        };
        let mut named = self.invalid_objects.iter();
        let named = named.find(|o| o.namespace == object.namespace() && o.name == object.name());
        let fault = named.cloned().or_else(|| faults.draw_invalid_bytes(self.seed, object));
        let invalid = fault.and_then(|fault| wire::invalid(&json, &fault));
        self.read_report.invalid_objects += usize::from(invalid.is_some());
        invalid.unwrap_or(json)
    }
}

impl<D: Decode> ListerWatcher for ListWatch<D> {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn has_changes(&self, store: &Store) -> bool {
        let Some(position) = self.position else { return true };
        position < store.resource_version()
            && store.changes_since(self.kind, position, 1).map_or(true, |news| !news.is_empty())
    }

    fn deliver(
        &mut self,
        store: &mut Store,
        faults: &Faults,
        rng: &mut Pcg64Mcg,
    ) -> Vec<Observation> {
        let changes = match self.position {
            None => {
                let changes = self.open(store, faults, rng);
                if let (Request::Watch { since }, None) = (self.machine.request(), self.position) {
                    self.position = since.parse().ok();
                }
                changes
            }
            Some(_) if happens(faults.cut, rng) => {
                self.end(End::Closed);
                if happens(faults.compact, rng) {
                    store.compact(store.resource_version());
                }
                Vec::new()
            }
            Some(position) => {
                if let Some(error) = faults.draw_watch_error(rng) {
                    self.receive(&wire::error(&error.error)).ok().flatten().into_iter().collect()
                } else {
                    let limit = rng.random_range(1..=CHANGES_PER_DELIVERY_MAX);
                    self.deliver_changes(store, position, limit, faults)
                }
            }
        };
        changes.into_iter().map(self.to_observation).collect()
    }

    fn fail(&mut self) {
        self.end(End::Failed);
    }

    fn bookmark(&mut self, store: &Store) -> Option<Observation> {
        let newest = store.resource_version();
        if self.position? >= newest || self.has_changes(store) {
            return None;
        }
        self.position = Some(newest);
        self.receive(&wire::bookmark(&newest.to_string(), false)).ok()?.map(self.to_observation)
    }

    fn set_invalid_objects(&mut self, objects: &[InvalidUtf8]) {
        self.invalid_objects = objects.to_vec();
    }

    fn take_read_report(&mut self) -> ReadReport {
        std::mem::take(&mut self.read_report)
    }
}

/// Returns the number of objects after which the fault ends a list.
fn failing_object(fault: Option<&Fault>) -> Option<usize> {
    let Some(Fault::WatchError(end)) = fault else { return None };
    Some(end.at.objects.map_or(0, |objects| usize::try_from(objects).unwrap_or(usize::MAX)))
}
