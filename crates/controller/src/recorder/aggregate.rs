//! Which events to write of what happened, so that 5,000 pods don't make 5,000 events (C71). No I/O, no clock.
//!
//! Of a DaemonSet and a reason, the first ten different notes within ten minutes each get an event of their own; the same
//! note again raises its event's series, and what comes on top is combined into one event. Upstream: client-go's
//! `EventCorrelator`, whose numbers and words these are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::Timestamp;

/// Different notes of one topic that get events of their own.
const NOTES_PER_TOPIC: usize = 10;
/// A topic that was silent for so long starts anew.
const TOPIC_LIFETIME: Duration = Duration::from_secs(600);
/// A series is written no more often than this.
const SERIES_INTERVAL: Duration = Duration::from_secs(5);
/// Topics remembered; beyond that the longest silent one is forgotten.
const TOPICS_MAX: usize = 4096;
/// `note` may have so many bytes.
const NOTE_BYTES_MAX: usize = 1024;

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Regarding {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Normal,
    Warning,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    pub regarding: Regarding,
    pub severity: Severity,
    /// In upstream's words: `SuccessfulCreate`.
    pub reason: &'static str,
    /// What was tried: `Create`.
    pub action: &'static str,
    pub note: String,
}

/// What to send to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventWrite {
    Create {
        name: String,
        at: Timestamp,
        occurrence: Occurrence,
    },
    /// The event `name` has happened `count` times by now.
    Series {
        namespace: Arc<str>,
        name: String,
        count: i32,
        last: Timestamp,
    },
}

/// What was written so far, and what is due.
#[derive(Debug, Default)]
pub struct Aggregator {
    topics: BTreeMap<TopicKey, Topic>,
    due: Vec<EventWrite>,
    /// Makes names unique that fall into one millisecond.
    named: u64,
}

type TopicKey = (Regarding, Severity, &'static str);

#[derive(Debug)]
struct Topic {
    last: Timestamp,
    /// By note; the combined event is under its own key.
    events: BTreeMap<Note, Written>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Note {
    One(String),
    Combined,
}

#[derive(Debug)]
struct Written {
    name: String,
    count: i32,
    last: Timestamp,
    written: Timestamp,
    written_count: i32,
}

impl Aggregator {
    pub fn record(&mut self, mut occurrence: Occurrence, now: Timestamp) {
        truncate(&mut occurrence.note);
        let key = (occurrence.regarding.clone(), occurrence.severity, occurrence.reason);
        let topic = self.topics.entry(key).or_insert(Topic { last: now, events: BTreeMap::new() });
        if now.since(topic.last) > TOPIC_LIFETIME {
            topic.events.clear();
        }
        topic.last = now;
        let single = Note::One(occurrence.note.clone());
        let full = topic.events.len() >= NOTES_PER_TOPIC;
        let note =
            if full && !topic.events.contains_key(&single) { Note::Combined } else { single };
        if let Some(event) = topic.events.get_mut(&note) {
            event.count = event.count.saturating_add(1);
            event.last = now;
            return;
        }
        if note == Note::Combined {
            occurrence.note.insert_str(0, "(combined from similar events): ");
            truncate(&mut occurrence.note);
        }
        self.named += 1;
        let name = format!("{}.{:x}{:04x}", occurrence.regarding.name, now.as_millis(), self.named);
        let event =
            Written { name: name.clone(), count: 1, last: now, written: now, written_count: 1 };
        topic.events.insert(note, event);
        self.due.push(EventWrite::Create { name, at: now, occurrence });
        self.forget_the_longest_silent();
    }

    /// What is to be written now, new events first.
    pub fn take_due(&mut self, now: Timestamp) -> Vec<EventWrite> {
        let mut due = std::mem::take(&mut self.due);
        self.topics.retain(|_, topic| now.since(topic.last) <= TOPIC_LIFETIME);
        for ((regarding, ..), topic) in &mut self.topics {
            for event in topic.events.values_mut().filter(|event| event.is_due(now)) {
                event.written = now;
                event.written_count = event.count;
                due.push(EventWrite::Series {
                    namespace: regarding.namespace.clone(),
                    name: event.name.clone(),
                    count: event.count,
                    last: event.last,
                });
            }
        }
        due
    }

    /// When a series is due next, if any has grown.
    pub fn deadline(&self) -> Option<Timestamp> {
        let events = self.topics.values().flat_map(|topic| topic.events.values());
        events.filter(|event| event.has_grown()).map(|event| event.written + SERIES_INTERVAL).min()
    }

    /// An event could not be written because it is gone (events expire): start its topic anew.
    pub fn forget(&mut self, name: &str) {
        for topic in self.topics.values_mut() {
            topic.events.retain(|_, event| event.name != name);
        }
    }

    fn forget_the_longest_silent(&mut self) {
        if self.topics.len() > TOPICS_MAX {
            let oldest = self.topics.iter().min_by_key(|(_, topic)| topic.last);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|key| self.topics.remove(&key));
        }
    }
}

impl Written {
    fn has_grown(&self) -> bool {
        self.count > self.written_count
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.has_grown() && now.since(self.written) >= SERIES_INTERVAL
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
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    /// C71: 5,000 pods make ten events that name their pod, one that stands for the rest, and a few updates of its count.
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
                EventWrite::Series { .. } => None,
            })
            .collect();
        assert_eq!(creates.len(), 11);
        assert_eq!(creates[0], "Created pod: agent-0");
        assert_eq!(creates[10], "(combined from similar events): Created pod: agent-10");
        assert!(writes.len() <= 16, "{} writes", writes.len());
        assert!(matches!(writes.last(), Some(EventWrite::Series { count: 4990, .. })));
    }

    /// C71: the same failure again and again is one event with a count.
    #[test]
    fn a_note_that_repeats_is_one_event() {
        let mut aggregator = Aggregator::default();
        for second in 0..4 {
            aggregator.record(created(1), at(second));
        }
        assert_eq!(aggregator.take_due(at(4)).len(), 1);
        let due = aggregator.take_due(at(5));
        assert!(
            matches!(due.as_slice(), [EventWrite::Series { count: 4, last, .. }] if *last == at(3))
        );
        assert_eq!(aggregator.take_due(at(20)), []);
    }

    /// C71: after ten minutes of silence the next occurrence is news again, and memory is given back.
    #[test]
    fn silence_ends_a_topic() {
        let mut aggregator = Aggregator::default();
        aggregator.record(created(1), at(0));
        assert_eq!(aggregator.take_due(at(0)).len(), 1);
        assert_eq!(aggregator.take_due(at(601)), []);
        assert!(aggregator.topics.is_empty());
        aggregator.record(created(1), at(602));
        assert_eq!(aggregator.take_due(at(602)).len(), 1);
    }

    /// C71: however many DaemonSets there are, the memory is bounded, and no note is longer than the API allows.
    #[test]
    fn memory_and_notes_are_bounded() {
        let mut aggregator = Aggregator::default();
        for ds in 0..5000 {
            let mut occurrence = created(1);
            occurrence.regarding.uid = ds.to_string().into();
            occurrence.note = "ü".repeat(2000);
            aggregator.record(occurrence, at(ds / 100));
        }
        assert_eq!(aggregator.topics.len(), TOPICS_MAX);
        for write in aggregator.take_due(at(50)) {
            assert!(
                matches!(write, EventWrite::Create { occurrence, .. } if occurrence.note.len() == 1024)
            );
        }
    }
}
