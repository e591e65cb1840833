//! The events about a DaemonSet and its pods.

use std::collections::BTreeMap;

use everynode_core::api::{DaemonSetKey, Timestamp, Uid};

use crate::snapshot::{EventDetail, Snapshot};

/// One event, which may stand for several occurrences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine {
    /// The object: `daemonset infra/agent`, or `pod agent-x7k2p on node-1`.
    pub about: String,
    /// The time since the last occurrence, in seconds.
    pub age_seconds: u64,
    /// The event's type is `Warning`.
    pub is_warning: bool,
    /// The reason, such as `FailedMount`.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The number of occurrences, at least 1.
    pub count: u32,
}

/// The events about a DaemonSet, and the warnings about its pods, the latest first: at most `max`.
pub fn events(
    snapshot: &Snapshot,
    key: &DaemonSetKey,
    now: Timestamp,
    max: usize,
) -> Vec<EventLine> {
    let Some(object) = snapshot.daemon_sets.get(key) else { return Vec::new() };
    let mut subjects: BTreeMap<&Uid, String> = BTreeMap::new();
    subjects.insert(&object.daemon_set.uid, format!("daemonset {key}"));
    if !snapshot.pod_warnings.is_empty() {
        for detail in snapshot.pods_of(key) {
            let (pod, node) = (&detail.pod.name, detail.pod.target_node_name());
            let node = node.map(|node| format!(" on {node}")).unwrap_or_default();
            subjects.insert(&detail.pod.uid, format!("pod {pod}{node}"));
        }
    }
    let all = snapshot.events.values().chain(snapshot.pod_warnings.values());
    let of_daemon_set = all.filter_map(|event| Some((event, subjects.get(&event.about)?)));
    let mut events: Vec<(&EventDetail, &String)> = of_daemon_set.collect();
    events.sort_by_key(|(event, _)| std::cmp::Reverse(event.at));
    let line = |(event, about): (&EventDetail, &String)| EventLine {
        about: about.clone(),
        age_seconds: event.at.map_or(0, |at| now.since(at).as_secs()),
        is_warning: event.is_warning,
        reason: event.reason.clone(),
        message: event.message.clone(),
        count: event.count,
    };
    events.into_iter().take(max).map(line).collect()
}
