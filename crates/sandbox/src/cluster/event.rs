//! Events of the components, aggregated and rate-limited as by client-go's recorder.
//!
//! The recorder is pure: it makes Event objects, and the [component
//! context](super::component_context) stores them. Old ones are deleted here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use everynode_core::api::Timestamp;

use crate::clock::{rfc3339, rfc3339_micro};
use crate::json::{Value, json};
use crate::kinds::EVENT;
use crate::object::Object;
use crate::registry::Registry;
use crate::store::{DeleteOptions, WriteOptions};

/// Number of recent events whose repetitions are counted in the same Event.
const REMEMBERED_MAX: usize = 4096;
/// Limits on normal events, as a burst and a rate per second: ten thousand nodes that start a pod
/// would hide all other events. Warnings are not limited.
const NORMAL_BURST: i64 = 4000;
const NORMAL_PER_SECOND: i64 = 200;

/// The object that an event is about.
#[derive(Clone, Debug)]
pub(super) struct EventSubject<'a> {
    pub object: &'a Object,
    pub kind: &'static str,
    pub field_path: Option<String>,
}

impl<'a> EventSubject<'a> {
    pub(super) fn pod(pod: &'a Object) -> Self {
        EventSubject { object: pod, kind: "Pod", field_path: None }
    }

    pub(super) fn node(node: &'a Object) -> Self {
        EventSubject { object: node, kind: "Node", field_path: None }
    }

    pub(super) fn at(self, field_path: String) -> Self {
        EventSubject { field_path: Some(field_path), ..self }
    }

    /// The namespace of the event: `default` for cluster-scoped objects.
    pub(super) fn namespace(&self) -> &str {
        match self.object.namespace() {
            "" => "default",
            namespace => namespace,
        }
    }

    fn reference(&self) -> Value {
        let object = self.object;
        let mut reference = json!({
            "apiVersion": "v1",
            "kind": self.kind,
            "name": object.name(),
            // Upstream's node events have the name here, and `kubectl describe` selects them by it.
            "uid": if self.kind == "Node" { object.name() } else { object.uid() },
        });
        if !object.namespace().is_empty() {
            reference["namespace"] = json!(object.namespace());
            reference["resourceVersion"] = json!(object.resource_version().to_string());
        }
        if let Some(path) = &self.field_path {
            reference["fieldPath"] = json!(path);
        }
        reference
    }
}

/// The reporter and the content of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventText<'a> {
    pub component: &'a str,
    /// The node of a kubelet; empty for other components.
    pub host: &'a str,
    pub is_warning: bool,
    pub reason: &'a str,
    pub message: &'a str,
}

impl<'a> EventText<'a> {
    /// A normal event.
    pub(super) fn normal(component: &'a str, reason: &'a str, message: &'a str) -> Self {
        Self { component, host: "", is_warning: false, reason, message }
    }

    /// A warning.
    pub(super) fn warning(component: &'a str, reason: &'a str, message: &'a str) -> Self {
        Self { is_warning: true, ..Self::normal(component, reason, message) }
    }
}

/// A write that records an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EventWrite {
    Create(Value),
    /// The Event with this name occurred again.
    Repeat {
        name: Arc<str>,
        count: u32,
    },
}

#[derive(Debug)]
pub(super) struct Recorder {
    remembered: BTreeMap<EventKey, RepeatedEvent>,
    order: VecDeque<EventKey>,
    tokens: i64,
    refilled: Timestamp,
    named: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EventKey {
    uid: Arc<str>,
    field_path: Arc<str>,
    reason: Arc<str>,
    message: Arc<str>,
}

#[derive(Debug)]
struct RepeatedEvent {
    name: Arc<str>,
    count: u32,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            remembered: BTreeMap::new(),
            order: VecDeque::new(),
            tokens: NORMAL_BURST,
            refilled: Timestamp(0),
            named: 0,
        }
    }
}

impl Recorder {
    /// The write that records an event; `None` if the rate limit is exceeded.
    pub(super) fn record(
        &mut self,
        subject: &EventSubject<'_>,
        text: EventText<'_>,
        now: Timestamp,
    ) -> Option<EventWrite> {
        if !text.is_warning && !self.take_token(now) {
            return None;
        }
        let similar = EventKey {
            uid: subject.object.uid().into(),
            field_path: subject.field_path.as_deref().unwrap_or_default().into(),
            reason: text.reason.into(),
            message: text.message.into(),
        };
        if let Some(repeated) = self.remembered.get_mut(&similar) {
            repeated.count += 1;
            let (name, count) = (repeated.name.clone(), repeated.count);
            return Some(EventWrite::Repeat { name, count });
        }
        self.named += 1;
        let name: Arc<str> = self.name(subject, now).into();
        self.insert(similar, name.clone());
        Some(EventWrite::Create(event(subject, text, &name, now)))
    }

    /// As in client-go, the name consists of the object's name and the time; the count
    /// distinguishes events at the same time.
    fn name(&self, subject: &EventSubject<'_>, now: Timestamp) -> String {
        let nanoseconds = i128::from(now.0) * 1_000_000 + i128::from(self.named % 1_000_000);
        format!("{}.{nanoseconds:x}", subject.object.name())
    }

    fn insert(&mut self, similar: EventKey, name: Arc<str>) {
        if self.order.len() == REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.remembered.remove(&oldest);
        }
        self.order.push_back(similar.clone());
        self.remembered.insert(similar, RepeatedEvent { name, count: 1 });
    }

    fn take_token(&mut self, now: Timestamp) -> bool {
        let refill = (now.0 - self.refilled.0).max(0).saturating_mul(NORMAL_PER_SECOND) / 1000;
        if refill > 0 {
            self.tokens = self.tokens.saturating_add(refill).min(NORMAL_BURST);
            self.refilled = now;
        }
        let has = self.tokens > 0;
        self.tokens -= i64::from(has);
        has
    }
}

/// A new Event.
pub(super) fn event(
    subject: &EventSubject<'_>,
    text: EventText<'_>,
    name: &str,
    now: Timestamp,
) -> Value {
    let mut event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": subject.namespace()},
        "involvedObject": subject.reference(),
        "reason": text.reason,
        "message": text.message,
        "type": if text.is_warning { "Warning" } else { "Normal" },
        "source": {"component": text.component},
        "reportingComponent": text.component,
        "reportingInstance": text.host,
        "eventTime": null,
        "firstTimestamp": rfc3339(now),
        "lastTimestamp": rfc3339(now),
        "count": 1,
    });
    if text.component == "default-scheduler" {
        // kube-scheduler records Events in the newer form.
        event["source"] = json!({});
        event["reportingInstance"] = json!("default-scheduler-sandbox");
        event["eventTime"] = json!(rfc3339_micro(now));
        event["firstTimestamp"] = Value::Null;
        event["lastTimestamp"] = Value::Null;
        event["action"] = json!(match text.reason {
            "Scheduled" => "Binding",
            "Preempted" => "Preempting",
            _ => "Scheduling",
        });
        if let Some(fields) = event.as_object_mut() {
            fields.remove("count");
        }
    } else if !text.host.is_empty() {
        event["source"]["host"] = json!(text.host);
    }
    event
}

/// An Event with another occurrence.
pub(super) fn repeat(event: &Value, count: u32, now: Timestamp) -> Value {
    let mut event = event.clone();
    if event["eventTime"].is_null() {
        event["count"] = json!(count);
        event["lastTimestamp"] = json!(rfc3339(now));
    } else {
        event["series"] = json!({"count": count, "lastObservedTime": rfc3339_micro(now)});
    }
    event
}

/// The age of events, derived from their resourceVersions alone, so that no event has to be
/// decoded.
#[derive(Debug, Default)]
pub(super) struct EventExpiry {
    /// The newest resourceVersion at each earlier call.
    samples: VecDeque<(Timestamp, u64)>,
}

impl EventExpiry {
    /// Deletes the events whose last write is at least `age_ms` old.
    pub(super) fn expire(&mut self, registry: &mut Registry, now: Timestamp, age_ms: i64) {
        self.samples.push_back((now, registry.store().resource_version()));
        let mut limit = 0;
        while let Some((at, newest)) = self.samples.front()
            && at.0 + age_ms <= now.0
        {
            limit = *newest;
            self.samples.pop_front();
        }
        let is_old = |event: &&Arc<Object>| event.resource_version() <= limit;
        let old: Vec<Arc<Object>> =
            registry.store().iter(&EVENT, None).filter(is_old).cloned().collect();
        for event in old {
            let (namespace, name) = (event.namespace(), event.name());
            let options = DeleteOptions::default().with_uid(event.uid());
            let deleted =
                registry.delete(&EVENT, namespace, name, &options, &WriteOptions::at(now));
            if let Err(status) = deleted {
                tracing::debug!(name, %status, "cannot delete an expired event");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed_fields::ManagedFields;

    fn pod(name: &str) -> Object {
        let metadata =
            json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7"});
        Object::new(json!({"metadata": metadata}), ManagedFields::default())
    }

    fn text(reason: &'static str, is_warning: bool) -> EventText<'static> {
        EventText { component: "kubelet", host: "node-0001", is_warning, reason, message: "m" }
    }

    /// S22: repetitions are counted in the same Event.
    #[test]
    fn repeated_events_are_counted() {
        let mut recorder = Recorder::default();
        let pod = pod("a");
        let now = Timestamp(1_000);
        let first = recorder.record(&EventSubject::pod(&pod), text("BackOff", true), now);
        let Some(EventWrite::Create(event)) = first else { panic!("{first:?}") };
        assert_eq!(event["involvedObject"]["uid"], "a");
        assert_eq!(event["source"]["host"], "node-0001");
        let again = recorder.record(&EventSubject::pod(&pod), text("BackOff", true), now);
        assert!(matches!(again, Some(EventWrite::Repeat { count: 2, .. })), "{again:?}");
        let event = repeat(&event, 2, Timestamp(61_000));
        assert_eq!(
            (&event["count"], &event["lastTimestamp"]),
            (&json!(2), &json!("1970-01-01T00:01:01Z"))
        );
    }

    /// S22, S25: a burst of normal events is limited, warnings are not, and the limit recovers with
    /// time.
    #[test]
    fn a_flood_of_normal_events_is_cut() {
        let mut recorder = Recorder::default();
        let pods: Vec<Object> = (0..5000).map(|n| pod(&format!("p{n}"))).collect();
        let mut count = |is_warning, now| {
            let recorded = pods
                .iter()
                .filter(|pod| {
                    recorder
                        .record(&EventSubject::pod(pod), text("R", is_warning), Timestamp(now))
                        .is_some()
                })
                .count();
            i64::try_from(recorded).unwrap()
        };
        assert_eq!(count(false, 1), NORMAL_BURST);
        assert_eq!(count(true, 1), 5000);
        assert_eq!(count(false, 2001), 2 * NORMAL_PER_SECOND);
    }
}
