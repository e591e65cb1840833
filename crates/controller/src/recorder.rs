//! Tells people what happened, as `events.k8s.io/v1` Events on the DaemonSet (C71). What to write is decided in
//! [`aggregate`]; events are a courtesy: none of them ever delays or fails the work that it tells of.

mod aggregate;

use std::collections::BTreeMap;
use std::time::Duration;

use everynode_core::api::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::outage_log::{self, OutageLog};
use crate::wall_clock;
use aggregate::{Aggregator, EventWrite};
pub use aggregate::{Occurrence, Regarding, Severity};

/// `reportingController` of our events.
pub const REPORTING_CONTROLLER: &str = "everynode";
/// Occurrences that wait to be written; more are dropped, and counted by [`Recorder::record`]'s answer.
const WAITING_MAX: usize = 1024;
/// What requests are made for, in the log.
const SUBJECT: &str = "events";
/// On shutdown the last events get so long.
const FAREWELL: Duration = Duration::from_secs(1);

/// Where occurrences are handed in.
#[derive(Clone, Debug)]
pub struct Recorder(mpsc::Sender<Occurrence>);

impl Recorder {
    /// A recorder, and what it is handed: for whoever does not write events.
    pub fn channel() -> (Self, mpsc::Receiver<Occurrence>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Self(sender), receiver)
    }

    /// Hands in an occurrence and never waits. False if it was dropped, because the API server is too slow.
    #[must_use]
    pub fn record(&self, occurrence: Occurrence) -> bool {
        self.0.try_send(occurrence).is_ok()
    }
}

/// Makes a recorder, and the task that writes what it is handed until `shutdown`.
pub fn recorder(
    client: kube::Client,
    instance: String,
    outages: OutageLog,
    shutdown: CancellationToken,
) -> (Recorder, impl Future<Output = ()> + Send) {
    let (recorder, receiver) = Recorder::channel();
    let writer = Writer { client, instance, outages, aggregator: Aggregator::default() };
    (recorder, writer.run(receiver, shutdown))
}

struct Writer {
    client: kube::Client,
    instance: String,
    outages: OutageLog,
    aggregator: Aggregator,
}

impl Writer {
    async fn run(mut self, mut receiver: mpsc::Receiver<Occurrence>, shutdown: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            let wait = self
                .aggregator
                .deadline()
                .map_or(Duration::MAX, |at| at.since(wall_clock::timestamp()));
            tokio::select! {
                received = receiver.recv_many(&mut batch, WAITING_MAX) => {
                    if received == 0 { break; }
                }
                () = tokio::time::sleep(wait) => {}
                () = shutdown.cancelled() => break,
            }
            self.write(&mut batch).await;
        }
        while let Ok(occurrence) = receiver.try_recv() {
            batch.push(occurrence);
        }
        if tokio::time::timeout(FAREWELL, self.write(&mut batch)).await.is_err() {
            tracing::debug!("the last events were not written in time");
        }
    }

    async fn write(&mut self, batch: &mut Vec<Occurrence>) {
        let now = wall_clock::timestamp();
        for occurrence in batch.drain(..) {
            self.aggregator.record(occurrence, now);
        }
        for write in self.aggregator.take_due(now) {
            match write {
                EventWrite::Create { name, at, occurrence } => {
                    self.create(name, at, occurrence).await;
                }
                EventWrite::Series { namespace, name, count, last } => {
                    self.raise(&namespace, &name, count, last).await;
                }
            }
        }
    }

    async fn create(&mut self, name: String, at: Timestamp, occurrence: Occurrence) {
        let events: Api<Event> =
            Api::namespaced(self.client.clone(), &occurrence.regarding.namespace);
        let event = self.event(name, at, occurrence);
        let written = events.create(&PostParams::default(), &event).await;
        let name = event.metadata.name.unwrap_or_default();
        self.note(&name, written.map(drop));
    }

    async fn raise(&mut self, namespace: &str, name: &str, count: i32, last: Timestamp) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let series = EventSeries { count, last_observed_time: micro_time(last) };
        let patch = Patch::Merge(BTreeMap::from([("series", series)]));
        let written = events.patch(name, &PatchParams::default(), &patch).await;
        self.note(name, written.map(drop));
    }

    fn note(&mut self, name: &str, written: kube::Result<()>) {
        match written {
            Ok(()) => {
                self.outages.answered();
                self.outages.recovered(SUBJECT);
            }
            Err(error) => {
                let (kind, cause) = outage_log::failure(&error);
                self.outages.failed(SUBJECT, kind, &cause);
                self.aggregator.forget(name);
            }
        }
    }

    fn event(&self, name: String, at: Timestamp, occurrence: Occurrence) -> Event {
        let Occurrence { regarding, severity, reason, action, note } = occurrence;
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(regarding.namespace.to_string()),
                ..ObjectMeta::default()
            },
            event_time: Some(micro_time(at)),
            type_: Some(match severity {
                Severity::Normal => "Normal".to_owned(),
                Severity::Warning => "Warning".to_owned(),
            }),
            reason: Some(reason.to_owned()),
            action: Some(action.to_owned()),
            note: Some(note),
            regarding: Some(ObjectReference {
                api_version: Some("apps/v1".to_owned()),
                kind: Some("DaemonSet".to_owned()),
                namespace: Some(regarding.namespace.to_string()),
                name: Some(regarding.name.to_string()),
                uid: Some(regarding.uid.to_string()),
                ..ObjectReference::default()
            }),
            reporting_controller: Some(REPORTING_CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

fn micro_time(at: Timestamp) -> MicroTime {
    MicroTime(jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default())
}
