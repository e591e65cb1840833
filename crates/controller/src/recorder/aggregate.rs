//! Which Events to write, so that 5,000 pods don't cause 5,000 Events (C71). No I/O, no clock.
//!
//! For each DaemonSet and reason, the first ten different notes within ten minutes each get their
//! own Event. A repeated note increases the count of its Event, unless each occurrence is news of
//! its own. Further notes are combined into one Event. Upstream: client-go's `EventCorrelator`,
//! with the same limits and wording.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{NodeName, Timestamp};

/// Number of different notes in a group that get their own Events.
const NOTES_PER_GROUP: usize = 10;
/// A group without occurrences for this long starts over.
const GROUP_LIFETIME: Duration = Duration::from_secs(600);
/// Minimum interval between two updates of an Event.
const UPDATE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of groups; beyond it the group with the oldest last occurrence is removed.
const GROUPS_MAX: usize = 4096;
/// Maximum length of `note`.
const NOTE_BYTES_MAX: usize = 1024;

/// The object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Regarding {
    /// `metadata.namespace`
    pub namespace: Arc<str>,
    /// `metadata.name`
    pub name: Arc<str>,
    /// `metadata.uid`
    pub uid: Arc<str>,
}

/// The `type` of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// `Normal`
    Normal,
    /// `Warning`
    Warning,
}

/// Something to record as an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The DaemonSet.
    pub regarding: Regarding,
    /// The `type`.
    pub severity: Severity,
    /// The `reason`, in upstream's words: `SuccessfulCreate`.
    pub reason: &'static str,
    /// The `action`: `Create`.
    pub action: &'static str,
    /// The `message`, for people.
    pub note: String,
    /// Another occurrence with the same note is news of its own, as the failure of another rollout.
    pub is_unique: bool,
    /// The node whose pod has ended, and how long its next one is kept if it ends, too.
    pub backoff: Option<(NodeName, Duration)>,
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventWrite {
    /// Creates an Event.
    Create { name: String, at: Timestamp, occurrence: Occurrence },
    /// Sets the count of the Event `name`.
    Repeat { namespace: Arc<str>, name: String, count: i32, last: Timestamp },
}

/// The Events written so far, and those to write next.
#[derive(Debug, Default)]
pub(super) struct Aggregator {
    groups: BTreeMap<GroupKey, Group>,
    due: Vec<EventWrite>,
    /// Makes names unique within a millisecond.
    names: u64,
}

type GroupKey = (Regarding, Severity, &'static str);

#[derive(Debug)]
struct Group {
    last: Timestamp,
    /// By note. All further notes share the combined Event.
    events: BTreeMap<Note, RecordedEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Note {
    One(String),
    /// By the number in its name.
    Unique(u64),
    Combined,
}

#[derive(Debug)]
struct RecordedEvent {
    name: String,
    count: i32,
    last: Timestamp,
    written: Timestamp,
    written_count: i32,
}

impl Aggregator {
    /// Adds an occurrence at `now`.
    pub(super) fn record(&mut self, mut occurrence: Occurrence, now: Timestamp) {
        truncate(&mut occurrence.note);
        let key = (occurrence.regarding.clone(), occurrence.severity, occurrence.reason);
        let group = self.groups.entry(key).or_insert(Group { last: now, events: BTreeMap::new() });
        if now.since(group.last) > GROUP_LIFETIME {
            group.events.clear();
        }
        group.last = now;
        let single = match occurrence.is_unique {
            true => Note::Unique(self.names),
            false => Note::One(occurrence.note.clone()),
        };
        let full = group.events.len() >= NOTES_PER_GROUP;
        let note =
            if full && !group.events.contains_key(&single) { Note::Combined } else { single };
        if let Some(event) = group.events.get_mut(&note) {
            event.count = event.count.saturating_add(1);
            event.last = now;
            return;
        }
        if note == Note::Combined {
            occurrence.note.insert_str(0, "(combined from similar events): ");
            truncate(&mut occurrence.note);
        }
        self.names += 1;
        let name = format!("{}.{:x}{:04x}", occurrence.regarding.name, now.as_millis(), self.names);
        let event = RecordedEvent {
            name: name.clone(),
            count: 1,
            last: now,
            written: now,
            written_count: 1,
        };
        group.events.insert(note, event);
        self.due.push(EventWrite::Create { name, at: now, occurrence });
        self.remove_oldest_group();
    }

    /// The requests to send now, new Events first.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<EventWrite> {
        let mut due = std::mem::take(&mut self.due);
        self.groups.retain(|_, group| now.since(group.last) <= GROUP_LIFETIME);
        for ((regarding, ..), group) in &mut self.groups {
            for event in group.events.values_mut().filter(|event| event.is_due(now)) {
                event.written = now;
                event.written_count = event.count;
                due.push(EventWrite::Repeat {
                    namespace: regarding.namespace.clone(),
                    name: event.name.clone(),
                    count: event.count,
                    last: event.last,
                });
            }
        }
        due
    }

    /// When the next update is due.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let events = self.groups.values().flat_map(|group| group.events.values());
        events.filter(|event| event.has_grown()).map(|event| event.written + UPDATE_INTERVAL).min()
    }

    /// Removes an Event that could not be written, for example because it expired.
    pub(super) fn remove_event(&mut self, name: &str) {
        for group in self.groups.values_mut() {
            group.events.retain(|_, event| event.name != name);
        }
    }

    fn remove_oldest_group(&mut self) {
        if self.groups.len() > GROUPS_MAX {
            let oldest = self.groups.iter().min_by_key(|(_, group)| group.last);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|key| self.groups.remove(&key));
        }
    }
}

impl RecordedEvent {
    fn has_grown(&self) -> bool {
        self.count > self.written_count
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.has_grown() && now.since(self.written) >= UPDATE_INTERVAL
    }
}

fn truncate(note: &mut String) {
    note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(pod: u32) -> Occurrence {
        let regarding =
            Regarding { namespace: "kube-system".into(), name: "agent".into(), uid: "u1".into() };
        Occurrence {
            regarding,
            severity: Severity::Normal,
            reason: "SuccessfulCreate",
            action: "Create",
            note: format!("Created pod: agent-{pod}"),
            is_unique: false,
            backoff: None,
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    /// C71: 5,000 pods cause ten Events that name their pod, a combined one, and few updates of its
    /// count.
    #[test]
    fn five_thousand_pods_make_eleven_events() {
        let mut aggregator = Aggregator::default();
        let mut writes = Vec::new();
        for pod in 0..5000 {
            let now = at(i64::from(pod / 250));
            aggregator.record(created(pod), now);
            writes.extend(aggregator.take_due(now));
        }
        let deadline = aggregator.deadline().unwrap();
        writes.extend(aggregator.take_due(deadline));
        assert_eq!(aggregator.deadline(), None);
        let creates: Vec<&str> = writes
            .iter()
            .filter_map(|write| match write {
                EventWrite::Create { occurrence, .. } => Some(occurrence.note.as_str()),
                EventWrite::Repeat { .. } => None,
            })
            .collect();
        assert_eq!(creates.len(), 11);
        assert_eq!(creates[0], "Created pod: agent-0");
        assert_eq!(creates[10], "(combined from similar events): Created pod: agent-10");
        assert!(writes.len() <= 16, "{} writes", writes.len());
        assert!(matches!(writes.last(), Some(EventWrite::Repeat { count: 4990, .. })));
    }

    /// C71: a repeated note is one Event with a count.
    #[test]
    fn a_note_that_repeats_is_one_event() {
        let mut aggregator = Aggregator::default();
        for second in 0..4 {
            aggregator.record(created(1), at(second));
        }
        assert_eq!(aggregator.take_due(at(4)).len(), 1);
        let due = aggregator.take_due(at(5));
        assert!(
            matches!(due.as_slice(), [EventWrite::Repeat { count: 4, last, .. }] if *last == at(3))
        );
        assert_eq!(aggregator.take_due(at(20)), []);
    }

    /// C71: failures of several rollouts are an Event each, even if they read the same, up to the
    /// number of different notes.
    #[test]
    fn unique_occurrences_are_an_event_each() {
        let mut aggregator = Aggregator::default();
        let failed = || Occurrence { is_unique: true, ..created(1) };
        (0..2).for_each(|second| aggregator.record(failed(), at(second)));
        assert_eq!(aggregator.take_due(at(60)).len(), 2);
        (0..100).for_each(|_| aggregator.record(failed(), at(61)));
        assert_eq!(aggregator.take_due(at(61)).len(), NOTES_PER_GROUP + 1 - 2);
    }

    /// C71: after ten minutes without occurrences a group starts over, and its memory is freed.
    #[test]
    fn a_silent_group_starts_over() {
        let mut aggregator = Aggregator::default();
        aggregator.record(created(1), at(0));
        assert_eq!(aggregator.take_due(at(0)).len(), 1);
        assert_eq!(aggregator.take_due(at(601)), []);
        assert!(aggregator.groups.is_empty());
        aggregator.record(created(1), at(602));
        assert_eq!(aggregator.take_due(at(602)).len(), 1);
    }

    /// C71: memory is bounded for any number of DaemonSets, and notes are as short as the API
    /// demands.
    #[test]
    fn memory_and_notes_are_bounded() {
        let mut aggregator = Aggregator::default();
        for ds in 0..5000 {
            let mut occurrence = created(1);
            occurrence.regarding.uid = ds.to_string().into();
            occurrence.note = "ü".repeat(2000);
            aggregator.record(occurrence, at(ds / 100));
        }
        assert_eq!(aggregator.groups.len(), GROUPS_MAX);
        for write in aggregator.take_due(at(50)) {
            let EventWrite::Create { occurrence, .. } = write else { panic!("{write:?}") };
            assert_eq!(occurrence.note.len(), 1024);
        }
    }
}
