//! The Kubernetes Events of one replica (C71): every outcome of a write of a pod has its Event, and
//! every Event about one its outcome.

use everynode_controller::api::Error;
use everynode_controller::recorder::Occurrence;
use everynode_core::api::DaemonSetKey;
use everynode_core::plan::{Outcome, Write, WriteResult};
use tokio::sync::mpsc;

/// The Events that the replica records.
#[derive(Debug)]
pub(crate) struct EventLedger {
    occurrences: mpsc::Receiver<Occurrence>,
    /// Those about writes of pods whose outcomes the event loop has yet to get.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    daemon_set: DaemonSetKey,
    reason: &'static str,
    note: String,
}

/// The Event that must report an outcome.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    reason: &'static str,
    note: Note,
}

#[derive(Debug, PartialEq, Eq)]
enum Note {
    Is(String),
    /// The cause follows.
    StartsWith(&'static str),
}

impl EventLedger {
    /// A ledger of what a recorder sends.
    pub(crate) const fn new(occurrences: mpsc::Receiver<Occurrence>) -> Self {
        Self { occurrences, entries: Vec::new() }
    }

    /// Takes the next Event from the recorder, if there is one.
    pub(crate) fn next(&mut self) -> Option<Occurrence> {
        self.occurrences.try_recv().ok()
    }

    /// Adds an Event, if it is about a write of a pod.
    pub(crate) fn record(&mut self, occurrence: &Occurrence) {
        let Occurrence { regarding, reason, note, .. } = occurrence;
        let is_of_write = ["SuccessfulCreate", "FailedCreate", "SuccessfulDelete", "FailedDelete"];
        if is_of_write.contains(reason) {
            let daemon_set = DaemonSetKey::new(&*regarding.namespace, &*regarding.name);
            self.entries.push(Entry { daemon_set, reason, note: note.clone() });
        }
    }

    /// Takes out the Event about an outcome. Returns what is wrong if there is none.
    pub(crate) fn settle(
        &mut self,
        daemon_set: &DaemonSetKey,
        result: &WriteResult,
    ) -> Option<String> {
        let expected = expected(result)?;
        let is_it = |entry: &Entry| {
            entry.daemon_set == *daemon_set
                && entry.reason == expected.reason
                && match &expected.note {
                    Note::Is(note) => entry.note == *note,
                    Note::StartsWith(start) => entry.note.starts_with(start),
                }
        };
        let Some(at) = self.entries.iter().position(is_it) else {
            return Some(format!(
                "{}: {:?}, without an Event {expected:?}",
                result.write, result.outcome
            ));
        };
        self.entries.remove(at);
        None
    }

    /// Takes out the Events about a DaemonSet all of whose writes are reported. Returns what is
    /// wrong if there is any.
    pub(crate) fn close(&mut self, daemon_set: &DaemonSetKey) -> Option<String> {
        let left = self.entries.extract_if(.., |entry| entry.daemon_set == *daemon_set);
        let left: Vec<_> = left.map(|entry| format!("{}: {}", entry.reason, entry.note)).collect();
        (!left.is_empty()).then(|| format!("no outcome belongs to the Events {left:?}"))
    }
}

fn expected(result: &WriteResult) -> Option<Expected> {
    let (reason, note) = match (&result.write, &result.outcome) {
        (Write::CreatePod(new), Outcome::Written { .. } | Outcome::Changed { .. }) => {
            let name = new.name.as_ref()?;
            ("SuccessfulCreate", Note::Is(format!("Created pod: {name}")))
        }
        // No Event reports that the replica may have lost its lease.
        (_, Outcome::Unknown { message }) if message.ends_with(&Error::Fenced.to_string()) => {
            return None;
        }
        (Write::CreatePod(_), Outcome::Failed { .. } | Outcome::Unknown { .. }) => {
            ("FailedCreate", Note::StartsWith("Error creating: "))
        }
        (Write::DeletePod(pod), Outcome::Written { .. }) => {
            ("SuccessfulDelete", Note::Is(format!("Deleted pod: {}", pod.name)))
        }
        (Write::DeletePod(_), Outcome::Failed { .. } | Outcome::Unknown { .. }) => {
            ("FailedDelete", Note::StartsWith("Error deleting: "))
        }
        _ => return None,
    };
    Some(Expected { reason, note })
}
