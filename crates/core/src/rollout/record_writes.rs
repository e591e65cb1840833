//! Writes of the record whose outcome is a failure, or unknown (G9).

use std::sync::Arc;
use std::time::Duration;

use crate::api::Timestamp;
use crate::plan::{Outcome, RevisionReference, UNKNOWN_FOR};
use crate::revisions::RevisionHistory;

/// Time until a record is written again after a failure. Until then the stored record holds, and
/// missing pods are created (G9).
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The last writes of the record.
#[derive(Debug, Default)]
pub(crate) struct RecordWrites {
    /// Set after a record could not be written: when that is tried again (G9).
    retry_at: Option<Timestamp>,
    /// The failures since a record was written.
    failures: Failures,
    /// The record whose last write has an unknown outcome: the stored record may be another one
    /// than the watch has shown.
    unknown: Option<Unknown>,
}

/// The writes that have failed in a row.
#[derive(Debug, Default)]
enum Failures {
    #[default]
    None,
    /// A single one, as another writer or an API server that restarts causes.
    One,
    /// More, with the reason for the second one: each other text would write the status again.
    More(Arc<str>),
}

impl Failures {
    fn add(&mut self, why: &str) {
        match self {
            Self::None => *self = Self::One,
            Self::One => *self = Self::More(why.into()),
            Self::More(_) => {}
        }
    }
}

#[derive(Debug)]
struct Unknown {
    revision: RevisionReference,
    since: Timestamp,
}

impl Unknown {
    /// When the wait for it ends.
    fn ends_at(&self) -> Timestamp {
        self.since + UNKNOWN_FOR
    }
}

impl RecordWrites {
    /// Applies the outcome of a write. Returns whether the record is written.
    pub(super) fn apply_outcome(
        &mut self,
        revision: &RevisionReference,
        outcome: &Outcome,
        now: Timestamp,
    ) -> bool {
        let is_written = matches!(outcome, Outcome::Written { .. } | Outcome::Gone);
        self.retry_at = (!is_written).then(|| now + RETRY_AFTER);
        if let Outcome::Failed { message } = outcome {
            self.failures.add(message);
        }
        if is_written {
            (self.unknown, self.failures) = (None, Failures::None);
        } else if matches!(outcome, Outcome::Unknown { .. }) && self.unknown.is_none() {
            self.unknown = Some(Unknown { revision: revision.clone(), since: now });
        }
        is_written
    }

    /// True if a record could not be written, and may be written again.
    pub(super) fn is_retry_due(&self, now: Timestamp) -> bool {
        !matches!(self.failures, Failures::None) && !self.is_delayed(now)
    }

    /// Records that no record is to be written any more.
    pub(super) fn forget_failures(&mut self) {
        self.failures = Failures::None;
    }

    /// Why the record cannot be written, if it has failed more than once.
    pub(super) fn failure(&self) -> Option<&Arc<str>> {
        match &self.failures {
            Failures::More(why) => Some(why),
            Failures::None | Failures::One => None,
        }
    }

    /// True if the next write has to wait.
    pub(super) fn is_delayed(&self, now: Timestamp) -> bool {
        self.retry_at.is_some_and(|at| now < at)
    }

    /// True if the watch has yet to show whether a record was written: until then nothing is done
    /// by the one that it has shown.
    pub(crate) fn await_watch(&mut self, history: &RevisionHistory, now: Timestamp) -> bool {
        let is_over = |unknown: &mut Unknown| {
            !history.has_version(&unknown.revision) || unknown.ends_at() <= now
        };
        self.unknown.take_if(is_over);
        self.unknown.is_some()
    }

    /// When a record is written again, and when the wait for one ends.
    pub(super) fn due_at(&self) -> [Option<Timestamp>; 2] {
        [self.retry_at, self.unknown.as_ref().map(Unknown::ends_at)]
    }
}
