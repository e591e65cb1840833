//! Records Events on DaemonSets (C71). `aggregate` decides which to write. Recording never delays a
//! write, and a failure to record never fails one.
//!
//! They are those of `core/v1`, as the built-in controller's: `kubectl describe` and
//! `--sort-by=.lastTimestamp` go by `lastTimestamp`, which `events.k8s.io/v1` forbids.

mod aggregate;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use everynode_core::api::Timestamp;
use everynode_core::plan::{BACKOFF_ANNOTATION, REPORTING_CONTROLLER};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::environment::Environment;
use crate::outage_log::{self, OutageLog};
use aggregate::{Aggregator, EventWrite};
pub use aggregate::{Occurrence, Regarding, Severity};

/// Maximum number of occurrences that wait to be written; [`Recorder::record`] drops more.
const QUEUE_CAPACITY: usize = 1024;
/// The subject of the requests in the log.
const SUBJECT: &str = "events";
/// The pause before an Event is sent again that had no definite answer.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// For how long an Event is sent again.
const RETRIED_FOR: Duration = Duration::from_secs(300);
/// Maximum number of Events that wait to be sent again; further ones are lost.
const UNSENT_MAX: usize = 256;
/// Timeout for the last events on shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Takes occurrences and queues them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder(mpsc::Sender<Occurrence>);

impl Recorder {
    /// A recorder, and the queue that it fills: for a receiver that does not write Events.
    pub fn channel() -> (Self, mpsc::Receiver<Occurrence>) {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        (Self(sender), receiver)
    }

    /// Queues an occurrence without waiting. Returns false if the queue is full, because the API
    /// server is slow, and the occurrence was dropped.
    #[must_use]
    pub fn record(&self, occurrence: Occurrence) -> bool {
        self.0.try_send(occurrence).is_ok()
    }
}

/// Makes a recorder, and the task that writes its Events until `shutdown`.
pub fn recorder(
    client: kube::Client,
    instance: String,
    outages: OutageLog,
    environment: Environment,
    shutdown: CancellationToken,
) -> (Recorder, impl Future<Output = ()> + Send) {
    let (recorder, receiver) = Recorder::channel();
    let writer = Writer {
        client,
        instance,
        outages,
        environment,
        aggregator: Aggregator::default(),
        unsent: VecDeque::new(),
    };
    (recorder, writer.run(receiver, shutdown))
}

struct Writer {
    client: kube::Client,
    instance: String,
    outages: OutageLog,
    environment: Environment,
    aggregator: Aggregator,
    /// Events whose creation had no definite answer, the oldest first. Their names are fixed, so
    /// that none is written twice.
    unsent: VecDeque<Unsent>,
}

/// An Event that is sent again.
struct Unsent {
    event: Event,
    /// When it was sent for the first time.
    first: Timestamp,
    /// When it is sent again.
    again: Timestamp,
}

impl Writer {
    async fn run(mut self, mut receiver: mpsc::Receiver<Occurrence>, shutdown: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            let again = self.unsent.front().map(|unsent| unsent.again);
            let deadlines = self.aggregator.deadline().into_iter().chain(again);
            let wait =
                deadlines.min().map_or(Duration::MAX, |at| at.since(self.environment.now().steady));
            tokio::select! {
                received = receiver.recv_many(&mut batch, QUEUE_CAPACITY) => {
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
        if tokio::time::timeout(FLUSH_TIMEOUT, self.write(&mut batch)).await.is_err() {
            tracing::debug!("the last events were not written before the timeout");
        }
    }

    async fn write(&mut self, batch: &mut Vec<Occurrence>) {
        let now = self.environment.now().steady;
        for occurrence in batch.drain(..) {
            self.aggregator.record(occurrence, now);
        }
        while let Some(unsent) = self.unsent.pop_front_if(|unsent| unsent.again <= now) {
            if !self.send(unsent.event, unsent.first, now).await {
                break;
            }
        }
        for write in self.aggregator.take_due(now) {
            match write {
                EventWrite::Create { name, at, occurrence } => {
                    let time = self.time(at);
                    let event = event(name, time, occurrence, self.instance.clone());
                    self.send(event, now, now).await;
                }
                EventWrite::Repeat { namespace, name, count, last } => {
                    self.update(&namespace, &name, count, last).await;
                }
            }
        }
    }

    /// Creates an Event that was sent for the first time at `first`. Returns whether it is known
    /// if there is one; if not, it is sent again later.
    async fn send(&mut self, event: Event, first: Timestamp, now: Timestamp) -> bool {
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let written = events.create(&PostParams::default(), &event).await;
        let name = event.metadata.name.clone().unwrap_or_default();
        match written {
            Err(error) if may_be_repeated(&error) && now.since(first) < RETRIED_FOR => {
                let (kind, cause) = outage_log::failure(&error);
                self.outages.failed(SUBJECT, kind, &cause);
                if self.unsent.len() < UNSENT_MAX {
                    self.unsent.push_back(Unsent { event, first, again: now + RETRY_AFTER });
                }
                false
            }
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => true,
            written => {
                self.handle_result(&name, written.map(drop));
                true
            }
        }
    }

    async fn update(&mut self, namespace: &str, name: &str, count: i32, last: Timestamp) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let repeated = Repeated { count, last_timestamp: Time(self.time(last)) };
        let written = events.patch(name, &PatchParams::default(), &Patch::Merge(repeated)).await;
        self.handle_result(name, written.map(drop));
    }

    fn handle_result(&mut self, name: &str, written: kube::Result<()>) {
        match written {
            Ok(()) => {
                self.outages.answered();
                self.outages.recovered(SUBJECT);
            }
            Err(error) => {
                let (kind, cause) = outage_log::failure(&error);
                if is_namespace_terminating(&error) {
                    tracing::debug!("{SUBJECT}: {cause}");
                } else {
                    self.outages.failed(SUBJECT, kind, &cause);
                }
                self.aggregator.remove_event(name);
            }
        }
    }

    /// The wall-clock time of a time of the steady clock.
    fn time(&self, at: Timestamp) -> jiff::Timestamp {
        let wall = self.environment.now().to_wall(at);
        jiff::Timestamp::from_millisecond(wall.as_millis()).unwrap_or_default()
    }
}

/// True if the request had no definite answer, or the server had no time for it.
fn may_be_repeated(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            status.code == 429 || status.code >= 500 && !is_namespace_terminating(error)
        }
        _ => true,
    }
}

fn event(name: String, at: jiff::Timestamp, occurrence: Occurrence, instance: String) -> Event {
    let Occurrence { regarding, severity, reason, action, note, is_unique: _, backoff } =
        occurrence;
    let (node, delay) = backoff.unzip();
    let annotation = |delay: Duration| {
        BTreeMap::from([(BACKOFF_ANNOTATION.to_owned(), delay.as_secs().to_string())])
    };
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(regarding.namespace.to_string()),
            annotations: delay.map(annotation),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(at)),
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        count: Some(1),
        type_: Some(match severity {
            Severity::Normal => "Normal".to_owned(),
            Severity::Warning => "Warning".to_owned(),
        }),
        reason: Some(reason.to_owned()),
        action: Some(action.to_owned()),
        message: Some(note),
        involved_object: ObjectReference {
            api_version: Some("apps/v1".to_owned()),
            kind: Some("DaemonSet".to_owned()),
            namespace: Some(regarding.namespace.to_string()),
            name: Some(regarding.name.to_string()),
            uid: Some(regarding.uid.to_string()),
            ..ObjectReference::default()
        },
        related: node.map(|node| ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_string()),
            ..ObjectReference::default()
        }),
        source: Some(EventSource { component: Some(REPORTING_CONTROLLER.to_owned()), host: None }),
        reporting_component: Some(REPORTING_CONTROLLER.to_owned()),
        reporting_instance: Some(instance),
        ..Event::default()
    }
}

/// The fields of an Event that a repetition changes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Repeated {
    count: i32,
    last_timestamp: Time,
}

/// True if the API server refused an event because its namespace is being deleted, which is no
/// failure.
fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    mod unsent;

    use super::*;
    use serde_json::{Value, json};

    /// C71: kubectl sorts and describes by the fields that the built-in controller sets.
    #[test]
    fn an_event_has_the_times_that_kubectl_goes_by() {
        let regarding = Regarding { namespace: "a".into(), name: "b".into(), uid: "u".into() };
        let occurrence = Occurrence {
            regarding,
            severity: Severity::Warning,
            reason: "FailedCreate",
            action: "Create",
            note: "Error creating".to_owned(),
            is_unique: false,
            backoff: Some(("node-1".into(), Duration::from_secs(8))),
        };
        let time = jiff::Timestamp::from_millisecond(1_767_225_600_250).unwrap();
        let event = event("b.1".to_owned(), time, occurrence, "everynode-1".to_owned());
        let event = serde_json::to_value(event).unwrap();
        let expected = json!({
            "eventTime": "2026-01-01T00:00:00.250000Z",
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "count": 1,
            "reportingComponent": "everynode",
            "source": { "component": "everynode" },
            "related": { "apiVersion": "v1", "kind": "Node", "name": "node-1" },
        });
        assert_eq!(
            event["metadata"]["annotations"],
            json!({ "everynode.dev/backoff-seconds": "8" })
        );
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(event.get(field), Some(value), "{field}");
        }
        let repeated = Repeated { count: 3, last_timestamp: Time(time) };
        let repeated: Value = serde_json::to_value(repeated).unwrap();
        assert_eq!(repeated, json!({ "count": 3, "lastTimestamp": "2026-01-01T00:00:00Z" }));
    }

    /// C71, C83: a refusal because the namespace is being deleted is not reported as a failure.
    #[test]
    fn a_terminating_namespace_is_no_failure() {
        let status = |reason: &str| {
            let json = serde_json::json!({
                "status": "Failure", "code": 403, "reason": "Forbidden", "message": "forbidden",
                "details": { "causes": [{ "reason": reason, "message": "", "field": "" }] },
            });
            kube::Error::Api(serde_json::from_value(json).unwrap())
        };
        assert!(is_namespace_terminating(&status("NamespaceTerminating")));
        assert!(!is_namespace_terminating(&status("Other")));
    }
}
