//! Events about DaemonSets and pods.

use std::collections::BTreeMap;
use std::time::Duration;

use everynode_core::api::{NodeName, Timestamp, Uid};
use everynode_core::plan::BACKOFF_ANNOTATION;
use everynode_k8s::convert::timestamp;
use serde::Deserialize;

/// One event, which may stand for several occurrences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDetail {
    /// UID of the object that the event is about.
    pub about: Uid,
    /// The event's type is `Warning`.
    pub is_warning: bool,
    /// The reason, such as `SuccessfulCreate`.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The component that recorded it, such as `daemonset-controller`; empty if none is named.
    pub reporter: String,
    /// The number of occurrences, at least 1.
    pub count: u32,
    /// The time of the first occurrence; `None` if the event has no valid time.
    pub since: Option<Timestamp>,
    /// The time of the last occurrence; `None` if the event has no valid time.
    pub at: Option<Timestamp>,
    /// The node of which a pod has ended, and how long its next one is kept if it ends, too.
    pub backoff: Option<(NodeName, Duration)>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireEvent {
    metadata: WireMetadata,
    involved_object: WireReference,
    related: Option<WireReference>,
    #[serde(rename = "type")]
    kind: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    count: Option<u32>,
    first_timestamp: Option<String>,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    series: Option<WireSeries>,
    reporting_component: Option<String>,
    source: Option<WireSource>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireSource {
    component: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    creation_timestamp: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireReference {
    name: Option<String>,
    uid: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSeries {
    count: Option<u32>,
    last_observed_time: Option<String>,
}

impl EventDetail {
    /// Parses an event of either API version's form (`count` or `series`).
    ///
    /// # Errors
    /// If the JSON is not that of an event.
    pub(super) fn new(json: &[u8]) -> Result<Self, serde_json::Error> {
        let wire: WireEvent = serde_json::from_slice(json)?;
        let series = wire.series.unwrap_or_default();
        let WireMetadata { creation_timestamp: created, annotations } = wire.metadata;
        let event_time = wire.event_time;
        let delay = annotations.as_ref().and_then(|it| it.get(BACKOFF_ANNOTATION));
        let delay = delay.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        let node = wire.related.and_then(|node| node.name).map(NodeName::from);
        let first = [&wire.first_timestamp, &event_time, &created];
        let last = [&series.last_observed_time, &wire.last_timestamp, &event_time, &created];
        let time =
            |times: &[&Option<String>]| times.iter().find_map(|time| timestamp(time.as_deref()?));
        Ok(Self {
            about: Uid::new(&wire.involved_object.uid.unwrap_or_default()),
            is_warning: wire.kind.as_deref() == Some("Warning"),
            reason: wire.reason.unwrap_or_default(),
            message: wire.message.unwrap_or_default(),
            reporter: wire
                .reporting_component
                .filter(|name| !name.is_empty())
                .or(wire.source.and_then(|source| source.component))
                .unwrap_or_default(),
            count: series.count.or(wire.count).unwrap_or(1).max(1),
            since: time(&first),
            at: time(&last),
            backoff: node.zip(delay),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn old_and_new_events_have_the_time_of_their_last_occurrence() {
        let at = |seconds: i64| Some(Timestamp::from_seconds(1_767_225_600 + seconds));
        for (event, expected) in [
            (json!({ "lastTimestamp": "2026-01-01T00:00:02Z", "count": 3 }), (at(2), 3)),
            (json!({ "eventTime": "2026-01-01T00:00:03.5Z", "lastTimestamp": null }), (at(3), 1)),
            (
                json!({ "eventTime": "2026-01-01T00:00:03Z",
                    "series": { "count": 7, "lastObservedTime": "2026-01-01T00:00:09.000000Z" } }),
                (at(9), 7),
            ),
            (json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:04Z" } }), (at(4), 1)),
            (json!({}), (None, 1)),
        ] {
            let read = EventDetail::new(event.to_string().as_bytes()).unwrap();
            let at = read.at.map(|at| Timestamp::from_seconds(at.as_millis() / 1000));
            assert_eq!((at, read.count), expected, "{event}");
        }
        assert!(EventDetail::new(b"1").is_err());
    }
}
