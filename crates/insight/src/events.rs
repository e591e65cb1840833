//! The events about a DaemonSet and its pods.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{DaemonSet, DaemonSetKey, Pod, Timestamp, Uid};

use crate::snapshot::{EventDetail, Snapshot};

/// The beginning of the message of an event that stands for several.
const COMBINED: &str = "(combined from similar events): ";

/// One event, which may stand for several occurrences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine {
    /// The object: `daemonset infra/agent`, or `pod agent-x7k2p on node-1 and 11 others`.
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

impl EventLine {
    fn new(event: &EventDetail, about: String, count: u32, now: Timestamp) -> Self {
        Self {
            about,
            age_seconds: event.at.map_or(0, |at| now.since(at).as_secs()),
            is_warning: event.is_warning,
            reason: event.reason.clone(),
            message: event.message.trim_start_matches(COMBINED).to_owned(),
            count,
        }
    }
}

/// The events about a DaemonSet, the latest first: at most `max`. Those that differ only by the pod
/// are one line.
pub fn own_events(
    snapshot: &Snapshot,
    key: &DaemonSetKey,
    now: Timestamp,
    max: usize,
) -> Vec<EventLine> {
    let Some(object) = snapshot.daemon_sets.get(key) else { return Vec::new() };
    let own = same_events(snapshot, &object.daemon_set).into_iter().take(max);
    own.map(|(event, count)| EventLine::new(event, format!("daemonset {key}"), count, now))
        .collect()
}

/// The events about a DaemonSet, then the warnings about its pods, the latest first: at most `max`.
/// Those that differ only by the pod are one line.
pub fn events(
    snapshot: &Snapshot,
    key: &DaemonSetKey,
    now: Timestamp,
    max: usize,
) -> Vec<EventLine> {
    let of_pods = same_warnings(snapshot, key);
    let of_pods = of_pods.iter().map(|same| {
        let (event, pod) = same.latest;
        let node = pod.target_node_name().map(|node| format!(" on {node}")).unwrap_or_default();
        let others = match same.pods.len() - 1 {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            others => format!(" and {others} others"),
        };
        EventLine::new(event, format!("pod {}{node}{others}", pod.name), same.count, now)
    });
    own_events(snapshot, key, now, max).into_iter().chain(of_pods).take(max).collect()
}

/// The events about a DaemonSet, each with its number of occurrences, the latest first. Names of
/// its pods make no difference.
fn same_events<'a>(snapshot: &'a Snapshot, daemon_set: &DaemonSet) -> Vec<(&'a EventDetail, u32)> {
    let prefix = format!("{}-", daemon_set.key.name);
    let mut groups: BTreeMap<(&str, String), (&EventDetail, u32)> = BTreeMap::new();
    for event in snapshot.events.values().filter(|event| event.about == daemon_set.uid) {
        let words = event.message.trim_start_matches(COMBINED).split(' ');
        let text = words.filter(|word| !word.starts_with(&prefix)).collect::<Vec<_>>().join(" ");
        let (latest, count) = groups.entry((&event.reason, text)).or_insert((event, 0));
        *count = count.saturating_add(event.count);
        if event.at > latest.at {
            *latest = event;
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|(latest, _)| Reverse(latest.at));
    groups
}

/// Warnings that differ only by the pod.
struct SameWarnings<'a> {
    latest: (&'a EventDetail, &'a Pod),
    pods: BTreeSet<&'a Uid>,
    count: u32,
}

/// The warnings about the pods of a DaemonSet, the latest first.
fn same_warnings<'a>(snapshot: &'a Snapshot, key: &DaemonSetKey) -> Vec<SameWarnings<'a>> {
    if snapshot.pod_warnings.is_empty() {
        return Vec::new();
    }
    let pods = snapshot.pods_of(key).map(|detail| (&detail.pod.uid, &detail.pod));
    let pods: BTreeMap<&Uid, &Pod> = pods.collect();
    let mut groups: BTreeMap<(&str, String), SameWarnings<'a>> = BTreeMap::new();
    for event in snapshot.pod_warnings.values() {
        let Some(pod) = pods.get(&event.about) else { continue };
        let text = event.message.replace(pod.name.as_str(), "").replace(&pod.uid.to_string(), "");
        let latest = (event, *pod);
        let none = SameWarnings { latest, pods: BTreeSet::new(), count: 0 };
        let group = groups.entry((&event.reason, text)).or_insert(none);
        group.pods.insert(&pod.uid);
        group.count = group.count.saturating_add(event.count);
        if event.at > group.latest.0.at {
            group.latest = latest;
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.latest.0.at));
    groups
}
