//! Watches and streaming lists on the API server's side, with their faults.

use std::sync::Arc;

use everynode_core::api::Timestamp;
use everynode_sandbox::fault::Fault;
use everynode_sandbox::object::Object;
use everynode_sandbox::status::Status;
use everynode_sandbox::store::{Action, Change, ListOptions, ResourceVersionMatch, WatchCache};
use rand::RngExt;

use super::{BOOKMARK_MS, ScheduledEvent, World};
use crate::fault::happens;
use crate::mutation::{Mutation, ReportedChange};
use crate::network::Reply;
use crate::open_watch::{Closed, OpenWatch};
use crate::response::{self, Failure, Lines, Refusal};
use crate::serve::{Query, Target};
use crate::watch_fault::BrokenLine;
use crate::wire;

/// Maximum number of changes that arrive at the same time.
const CHANGES_PER_DELIVERY_MAX: usize = 8;
/// Maximum number of earlier events that a reopened watch repeats.
const REPEATED_MAX: u64 = 6;

/// The watch has ended.
struct Ended;

impl From<Closed> for Ended {
    fn from(_: Closed) -> Self {
        Self
    }
}

impl World {
    pub(super) fn open_watch(
        &mut self,
        number: u64,
        Target { kind, namespace, .. }: Target,
        query: &Query,
        reply: Reply,
    ) {
        if query.sends_initial_events && !self.supports_streaming_lists(number) {
            let refusal = Refusal::new(422, "Invalid", "sendInitialEvents is forbidden");
            return self.fail(number, reply, &Failure::Refused(refusal));
        }
        if let Some(failure) = self.faults.draw_list_failure(&mut self.rng) {
            self.log(|| format!("watch of {}: {failure:?}", kind.plural));
            self.checks.record_fault("list or watch refused");
            return self.fail(number, reply, &failure);
        }
        if !query.sends_initial_events && happens(self.faults.expire, &mut self.rng) {
            self.log(|| format!("watch of {}: 410", kind.plural));
            self.checks.record_fault("watch answered with 410");
            return self.answer(number, reply, response::of_result(Err(expired())));
        }
        let (lines, answer) = response::of_watch();
        self.watch_number += 1;
        let mut watch = OpenWatch {
            number: self.watch_number,
            replica: number,
            server: self.api_servers.server_of(number, &mut self.rng),
            kind,
            namespace,
            position: self.cluster.store().resource_version(),
            list_ends_at: None,
            delivery_scheduled: false,
            lines,
        };
        let opened = if query.sends_initial_events {
            // Without a version the client requests the newest state.
            let newest = self.cluster.store().resource_version();
            watch.list_ends_at = Some(query.resource_version.unwrap_or(newest));
            self.send_initial_events(&mut watch)
        } else {
            self.open_since(&mut watch, query.resource_version.unwrap_or_default())
        };
        self.answer(number, reply, answer);
        if opened.is_ok() {
            let lasts = query.timeout_seconds.unwrap_or(600) * 1_000;
            self.schedule(lasts, ScheduledEvent::EndWatch { watch: watch.number });
            self.watches.push(watch);
            self.schedule_deliveries();
        }
    }

    /// True if the API server streams lists to this replica. A server without this feature refuses
    /// such a request.
    fn supports_streaming_lists(&self, number: u64) -> bool {
        (self.setting.seed.wrapping_add(number)).is_multiple_of(2)
    }

    /// Opens a watch at a version. The server may repeat earlier events.
    fn open_since(&mut self, watch: &mut OpenWatch, since: u64) -> Result<(), Ended> {
        let repeated = match happens(self.faults.repeat, &mut self.rng) {
            _ if self.now < self.repeat_until => REPEATED_MAX,
            true => self.rng.random_range(0..REPEATED_MAX),
            false => 0,
        };
        if repeated > 0 {
            self.checks.record_fault("events repeated");
        }
        let (store, cache) = (self.cluster.store(), self.cache(watch));
        let is_available = |version| cache.changes_since(store, watch.kind, version, 1).is_ok();
        let earlier = since.saturating_sub(repeated);
        if !is_available(since) {
            return Err(self.send_expired(&watch.lines));
        }
        watch.position = if is_available(earlier) { earlier } else { since };
        Ok(())
    }

    /// Returns what the cache of a watch's server has seen.
    fn cache(&self, watch: &OpenWatch) -> WatchCache {
        self.api_servers.cache(watch.server, self.cluster.store())
    }

    /// Sends the objects that the server's cache has, then the bookmark that ends them, unless the
    /// cache has to see more first.
    fn send_initial_events(&mut self, watch: &mut OpenWatch) -> Result<(), Ended> {
        let (store, cache) = (self.cluster.store(), self.cache(watch));
        let options = ListOptions { resource_version: Some(0), ..ListOptions::default() };
        let Ok(list) = cache.list(store, watch.kind, &options) else {
            return Err(self.send_expired(&watch.lines));
        };
        let items = list.items;
        watch.position = list.resource_version;
        let cut_at = happens(self.faults.half_list, &mut self.rng)
            .then(|| self.rng.random_range(0..=items.len()));
        let fault = match cut_at {
            Some(_) => None,
            None => self.faults.draw_list_fault(items.len(), &mut self.rng),
        };
        match &fault {
            Some(Fault::LateBookmark(_)) => self.checks.record_fault("late bookmark"),
            Some(_) => self.checks.record_fault("watch error"),
            None if cut_at.is_some() => self.checks.record_fault("list cut off"),
            None => {}
        }
        if let Some(Fault::LateBookmark(_)) = fault {
            self.send_older_list_and_changes(watch, &items)?;
        } else {
            let end = cut_at.or_else(|| failing_object(fault.as_ref()));
            for object in items.iter().take(end.unwrap_or(items.len())) {
                self.send_object(watch, "ADDED", object)?;
            }
            if cut_at.is_some() {
                return Err(Ended);
            }
            if let Some(Fault::WatchError(error)) = fault {
                watch.send(wire::error(&error.error))?;
                return Err(Ended);
            }
        }
        Ok(send_list_end(watch)?)
    }

    /// Sends an older list, and then the changes since it was current.
    fn send_older_list_and_changes(
        &mut self,
        watch: &OpenWatch,
        newest: &[Arc<Object>],
    ) -> Result<(), Ended> {
        let start = watch.position.saturating_sub(self.rng.random_range(1..20));
        let (store, cache) = (self.cluster.store(), self.cache(watch));
        let options = ListOptions {
            resource_version: Some(start),
            resource_version_match: Some(ResourceVersionMatch::Exact),
            ..ListOptions::default()
        };
        let older = store.list(watch.kind, &options).ok();
        let since = cache.changes_since(store, watch.kind, start, usize::MAX).unwrap_or_default();
        let (items, since) = match older {
            Some(list) => (list.items, since),
            // The older version is compacted.
            None => (newest.to_vec(), Vec::new()),
        };
        for object in &items {
            self.send_object(watch, "ADDED", object)?;
        }
        for change in &since {
            self.send_change(watch, change)?;
        }
        Ok(())
    }

    fn send_change(&mut self, watch: &OpenWatch, change: &Change) -> Result<(), Ended> {
        let reported = Mutation::reported_change(self.mutation, watch.kind, change);
        let event = match change.action {
            // A deliberate bug hides the change.
            _ if reported == ReportedChange::Hidden => return Ok(()),
            _ if reported == ReportedChange::AsDeleted => "DELETED",
            Action::Added => "ADDED",
            Action::Modified => "MODIFIED",
            Action::Deleted => "DELETED",
        };
        self.send_object(watch, event, &change.object)
    }

    fn send_object(
        &mut self,
        watch: &OpenWatch,
        event: &str,
        object: &Object,
    ) -> Result<(), Ended> {
        if !watch.namespace.is_empty() && watch.namespace != object.namespace() {
            return Ok(());
        }
        let json = self.object_json(watch.replica, watch.kind, object);
        Ok(watch.send(wire::line(event, &json))?)
    }

    /// Tells the replica that the version is compacted.
    fn send_expired(&self, lines: &Lines) -> Ended {
        let line = wire::line("ERROR", expired().to_value().to_string().as_bytes());
        // If the replica has closed the watch, it needs no line.
        let _ = lines.unbounded_send(Ok(hyper::body::Frame::data(line.into())));
        Ended
    }

    /// Schedules deliveries to the watches that have changes.
    pub(super) fn schedule_deliveries(&mut self) {
        if self.watches_stalled {
            return;
        }
        let (store, api_servers) = (self.cluster.store(), &self.api_servers);
        let due = self.watches.iter_mut().filter(|watch| !watch.delivery_scheduled);
        let due: Vec<u64> = due
            .filter(|watch| watch.has_changes(store, api_servers.cache(watch.server, store)))
            .map(|watch| {
                watch.delivery_scheduled = true;
                watch.number
            })
            .collect();
        for watch in due {
            let stall = self.faults.draw_delivery_delay(&mut self.rng).map(|delay| delay.lasts.0);
            if stall.is_some() {
                self.checks.record_fault("stalled watch");
            }
            let delay = stall.unwrap_or_else(|| self.faults.delay_ms(&mut self.rng));
            self.schedule(delay, ScheduledEvent::DeliverWatch { watch });
        }
    }

    pub(super) fn deliver_watch(&mut self, number: u64) {
        let Some(index) = self.watches.iter().position(|watch| watch.number == number) else {
            return;
        };
        if let Some(wait) = self.cut_off_for(self.watches[index].replica) {
            return self.schedule(wait, ScheduledEvent::DeliverWatch { watch: number });
        }
        self.watches[index].delivery_scheduled = false;
        if self.watches_stalled || self.server_failure(self.watches[index].server).is_some() {
            return;
        }
        let mut watch = self.watches.swap_remove(index);
        if happens(self.faults.cut, &mut self.rng) {
            self.checks.record_fault("watch closed");
            if happens(self.faults.compact, &mut self.rng) {
                let store = self.cluster.registry_mut().store_mut();
                store.compact(store.resource_version());
                self.checks.record_fault("log compacted");
            }
            if happens(500, &mut self.rng) {
                let replica = watch.replica;
                watch.break_connection();
                self.break_connection(replica);
            }
        } else if self.send_next_changes(&mut watch).is_ok() {
            self.watches.push(watch);
        }
    }

    fn send_next_changes(&mut self, watch: &mut OpenWatch) -> Result<(), Ended> {
        if let Some(error) = self.faults.draw_watch_error(&mut self.rng) {
            self.checks.record_fault("watch error");
            watch.send(wire::error(&error.error))?;
            return Err(Ended);
        }
        let limit = self.rng.random_range(1..=CHANGES_PER_DELIVERY_MAX);
        let (store, cache) = (self.cluster.store(), self.cache(watch));
        let reached = cache.reached(store, watch.kind);
        let changes = cache.changes_since(store, watch.kind, watch.position, limit);
        let Ok(changes) = changes else { return Err(self.send_expired(&watch.lines)) };
        let broken_line = self.faults.draw_broken_line(&mut self.rng);
        if let Some((broken_line, (last, earlier))) = broken_line.zip(changes.split_last()) {
            for change in earlier {
                self.send_change(watch, change)?;
            }
            self.send_broken_line(watch, last, broken_line)?;
            return Err(Ended);
        }
        for change in &changes {
            watch.position = change.resource_version;
            self.send_change(watch, change)?;
        }
        if changes.is_empty() {
            watch.position = watch.position.max(reached);
        }
        Ok(send_list_end(watch)?)
    }

    /// Sends a line that cannot be read instead of this change.
    fn send_broken_line(
        &mut self,
        watch: &OpenWatch,
        change: &Change,
        broken_line: BrokenLine,
    ) -> Result<(), Closed> {
        match broken_line {
            BrokenLine::NotJson => {
                self.checks.record_fault("line that is not JSON");
                watch.send(wire::not_json())
            }
            BrokenLine::CutOff => {
                self.checks.record_fault("line cut off");
                let mut line = wire::line("MODIFIED", &change.object.json());
                line.truncate(self.rng.random_range(1..line.len()));
                watch.send(line)?;
                // Otherwise the answer ends as if it were complete.
                if self.rng.random_ratio(1, 2) {
                    watch.break_connection();
                }
                Ok(())
            }
        }
    }

    /// Sends a bookmark to every watch that has sent all changes.
    pub(super) fn send_bookmarks(&mut self) {
        self.schedule(BOOKMARK_MS, ScheduledEvent::SendBookmarks);
        if self.watches_stalled {
            return;
        }
        let (now, store, api_servers) = (self.now, self.cluster.store(), &self.api_servers);
        let cut_off = |number: u64| {
            let replica = self.replicas.iter().find(|replica| replica.number == number);
            replica.is_some_and(|replica| replica.unreachable_until > Timestamp(now.0))
        };
        self.watches.retain_mut(|watch| {
            let cache = api_servers.cache(watch.server, store);
            let reached = cache.reached(store, watch.kind);
            let is_idle = !watch.delivery_scheduled
                && watch.position < reached
                && watch.list_ends_at.is_none();
            if !is_idle || cut_off(watch.replica) || watch.has_changes(store, cache) {
                return true;
            }
            watch.position = reached;
            watch.send(wire::bookmark(&reached.to_string(), false)).is_ok()
        });
    }
}

/// The status of a version that is compacted.
fn expired() -> Status {
    Status::expired("The resourceVersion for the provided watch is too old.")
}

/// Sends the bookmark that ends the initial events if they are complete.
fn send_list_end(watch: &mut OpenWatch) -> Result<(), Closed> {
    match watch.list_ends_at.take_if(|version| *version <= watch.position) {
        Some(_) => watch.send(wire::bookmark(&watch.position.to_string(), true)),
        None => Ok(()),
    }
}

/// Returns the number of objects after which the fault ends a list.
fn failing_object(fault: Option<&Fault>) -> Option<usize> {
    let Some(Fault::WatchError(end)) = fault else { return None };
    Some(end.at.objects.map_or(0, |objects| usize::try_from(objects).unwrap_or(usize::MAX)))
}
