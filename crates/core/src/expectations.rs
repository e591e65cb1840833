//! What has been written and is yet to be seen (C60).
//!
//! A DaemonSet's pods and revisions are left alone until every result is in, every pod created has been
//! seen, every deletion has been seen to start, and the watch of each kind written to has come as far as
//! the write. Only a lapse, which is told, ends the wait otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::{ResourceVersion, Timestamp, Uid};
use crate::plan::{Notice, ObjectKind, PodReference, Waiting, Watermarks};

/// How long to wait after a restore. What was written before it is lost, or in the list that has shown it. It can't be told
/// from what was written after that list was read and its result in before the list: dropped at once, that would be
/// written twice (C34). A watch that has just begun shows it well within this time.
const LAPSE_AFTER_RESTORE: Duration = Duration::from_secs(30);

/// How long to wait for what was written to be seen.
pub const LAPSE_AFTER: Duration = Duration::from_secs(5 * 60);

/// How long a deletion of unknown outcome is sent again before it counts as failed (C52).
pub const DELETION_GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Expectations {
    in_flight: usize,
    /// Pods seen while writes were out: one of them may be a creation whose result is still on its way.
    early: BTreeSet<Uid>,
    /// What went while writes were out: their results may say that it is gone.
    gone: BTreeSet<Uid>,
    creations: BTreeMap<Uid, ResourceVersion>,
    deletions: BTreeSet<Uid>,
    /// Those of the deletions whose outcome is unknown.
    unanswered: BTreeMap<Uid, Unanswered>,
    written: BTreeMap<ObjectKind, ResourceVersion>,
    /// When the last result came in.
    since: Timestamp,
    restore: Restore,
}

/// Whether the server was restored from a backup while something was to be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Restore {
    #[default]
    No,
    /// Since the last plan.
    Just,
    NoticedAt(Timestamp),
}

/// A pod's deletion of unknown outcome.
#[derive(Debug)]
struct Unanswered {
    pod: PodReference,
    /// When it was first sent without a definite answer.
    since: Timestamp,
}

impl Expectations {
    /// So many writes have been handed out.
    pub(crate) fn sent(&mut self, writes: usize) {
        self.in_flight += writes;
    }

    /// A result has come back. It is one too many if it is of a write that the state before handed out: a watch that
    /// breaks off may repeat that the DaemonSet came after it has told that it went.
    pub(crate) fn returned(&mut self, now: Timestamp) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.since = now;
        if self.in_flight == 0 {
            self.early.clear();
            self.gone.clear();
        }
    }

    /// The watch of this kind has to reach this version.
    pub(crate) fn expect_version(&mut self, kind: ObjectKind, resource_version: ResourceVersion) {
        let written = self.written.entry(kind).or_default();
        *written = resource_version.max(*written);
    }

    /// A pod was created: it is seen, or the watch has passed it.
    pub(crate) fn expect_creation(&mut self, uid: Uid, resource_version: ResourceVersion) {
        if !self.early.remove(&uid) {
            self.creations.insert(uid, resource_version);
        }
    }

    /// An object is being deleted: it goes, or is seen terminating.
    pub(crate) fn expect_deletion(&mut self, uid: Uid) {
        self.deletions.insert(uid);
    }

    /// A write found its object gone: that is to be seen, too, if it has not been.
    pub(crate) fn expect_gone(&mut self, uid: &Uid) {
        if !self.gone.contains(uid) {
            self.deletions.insert(uid.clone());
        }
    }

    pub(crate) fn saw_creation(&mut self, uid: &Uid) {
        if self.creations.remove(uid).is_none() && self.in_flight > 0 {
            self.early.insert(uid.clone());
        }
    }

    /// An object is gone, or terminating, or not ours any more; or its deletion was refused.
    pub(crate) fn saw_deletion(&mut self, uid: &Uid) {
        self.creations.remove(uid);
        self.deletions.remove(uid);
        self.unanswered.remove(uid);
        if self.in_flight > 0 {
            self.gone.insert(uid.clone());
        }
    }

    /// No answer tells whether this pod's deletion has been done. If it has been seen meanwhile, there is no need for one.
    pub(crate) fn deletion_is_unanswered(&mut self, pod: &PodReference, now: Timestamp) {
        if self.deletions.contains(&pod.uid) {
            let unanswered = || Unanswered { pod: pod.clone(), since: now };
            self.unanswered.entry(pod.uid.clone()).or_insert_with(unanswered);
        }
    }

    /// This object's deletion has been done: it is only to be seen.
    pub(crate) fn deletion_is_answered(&mut self, uid: &Uid) {
        self.unanswered.remove(uid);
    }

    pub(crate) fn is_unanswered(&self, uid: &Uid) -> bool {
        self.unanswered.contains_key(uid)
    }

    /// The pods whose deletions are to be sent again; none while their results are out.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &PodReference> {
        let pods = self.unanswered.values().map(|unanswered| &unanswered.pod);
        pods.filter(|_| self.in_flight == 0)
    }

    /// Takes deletions that have been without a definite answer for too long for failed, and returns their pods.
    pub(crate) fn give_up_deletions(&mut self, now: Timestamp) -> Vec<PodReference> {
        if self.in_flight > 0 {
            return Vec::new();
        }
        for unanswered in self.unanswered.values_mut() {
            // The clock may have been set back.
            unanswered.since = unanswered.since.min(now);
        }
        let is_over = |_: &Uid, lost: &mut Unanswered| lost.since + DELETION_GIVEN_UP_AFTER <= now;
        let given_up: Vec<_> = self.unanswered.extract_if(.., is_over).collect();
        for (uid, _) in &given_up {
            self.deletions.remove(uid);
        }
        given_up.into_iter().map(|(_, unanswered)| unanswered.pod).collect()
    }

    /// When the next deletion without an answer counts as failed.
    pub(crate) fn gives_up_at(&self) -> Option<Timestamp> {
        let since = self.unanswered.values().map(|unanswered| unanswered.since).min()?;
        Some(since + DELETION_GIVEN_UP_AFTER)
    }

    /// What is still to be seen, given how far the watches have come; nothing: `None`.
    pub(crate) fn waiting(&mut self, watermarks: &Watermarks) -> Option<Waiting> {
        self.written.retain(|kind, version| watermarks.of(*kind) < *version);
        self.creations.retain(|_, version| watermarks.pods < *version);
        let waiting = Waiting {
            in_flight: self.in_flight,
            creations: self.creations.len(),
            deletions: self.deletions.len(),
            stale_kinds: self.written.len(),
        };
        if waiting == Waiting::default() {
            self.restore = Restore::No;
            return None;
        }
        Some(waiting)
    }

    /// The server was restored from a backup.
    pub(crate) fn restored(&mut self) {
        self.restore = Restore::Just;
    }

    /// The first plan after a restore begins to count the time.
    pub(crate) fn start_restore_timer(&mut self, now: Timestamp) {
        if self.restore == Restore::Just {
            self.restore = Restore::NoticedAt(now);
        }
    }

    /// Whether the watch of this kind has yet to show what was written.
    pub(crate) fn is_stale(&self, kind: ObjectKind) -> bool {
        self.written.contains_key(&kind)
    }

    /// Whether this object was found gone, or is being deleted, and that has yet to be seen.
    pub(crate) fn is_expected_gone(&self, uid: &Uid) -> bool {
        self.deletions.contains(uid)
    }

    /// When the wait is over if nothing more is seen. Results out are always waited for: a write that
    /// may still arrive must not be repeated.
    pub(crate) fn lapses_at(&self) -> Option<Timestamp> {
        let lapses_at = match self.restore {
            Restore::No | Restore::Just => self.since + LAPSE_AFTER,
            Restore::NoticedAt(at) => {
                (at.max(self.since) + LAPSE_AFTER_RESTORE).min(self.since + LAPSE_AFTER)
            }
        };
        (self.in_flight == 0).then_some(lapses_at)
    }

    /// Ends the wait if it is time (C60).
    pub(crate) fn lapse(&mut self, now: Timestamp) -> Option<Notice> {
        self.lapses_at().filter(|&at| at <= now)?;
        let notice = Notice::ExpectationLapsed {
            creations: self.creations.len(),
            deletions: self.deletions.len(),
            writes: self.written.len(),
        };
        *self = Self::default();
        Some(notice)
    }
}

impl Watermarks {
    const fn of(&self, kind: ObjectKind) -> ResourceVersion {
        match kind {
            ObjectKind::DaemonSet => self.daemon_sets,
            ObjectKind::Pod => self.pods,
            ObjectKind::Revision => self.revisions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watermarks(version: u64) -> Watermarks {
        let version = ResourceVersion(version);
        Watermarks { daemon_sets: version, pods: version, revisions: version }
    }

    const NOW: Timestamp = Timestamp(1_000_000);

    /// C60: a creation is waited for by UID, unless it was seen before its result came.
    #[test]
    fn a_creation_is_waited_for_until_it_is_seen() {
        let mut expectations = Expectations::default();
        expectations.sent(2);
        expectations.saw_creation(&"early".into());
        expectations.expect_creation("early".into(), ResourceVersion(7));
        expectations.returned(NOW);
        expectations.expect_creation("late".into(), ResourceVersion(8));
        expectations.returned(NOW);
        let waiting = expectations.waiting(&watermarks(6)).expect("one is missing");
        assert_eq!((waiting.creations, waiting.in_flight), (1, 0));
        expectations.saw_creation(&"late".into());
        assert_eq!(expectations.waiting(&watermarks(6)), None);
    }

    /// C60: one that came and went unseen is not waited for once the watch has passed it.
    #[test]
    fn a_creation_that_the_watch_has_passed_is_not_waited_for() {
        let mut expectations = Expectations::default();
        expectations.expect_creation("short-lived".into(), ResourceVersion(8));
        assert!(expectations.waiting(&watermarks(7)).is_some());
        assert_eq!(expectations.waiting(&watermarks(8)), None);
    }

    /// C60, C61: what a write found gone is waited for to be seen gone, unless it has been.
    #[test]
    fn what_is_gone_is_waited_for_until_that_is_seen() {
        let mut expectations = Expectations::default();
        expectations.sent(2);
        expectations.saw_deletion(&"seen".into());
        expectations.expect_gone(&"seen".into());
        expectations.expect_gone(&"unseen".into());
        expectations.returned(NOW);
        expectations.returned(NOW);
        assert_eq!(expectations.waiting(&watermarks(0)).map(|w| w.deletions), Some(1));
        expectations.saw_deletion(&"unseen".into());
        assert_eq!(expectations.waiting(&watermarks(0)), None);
    }

    /// C60: each kind is waited for by itself, to the highest version written.
    #[test]
    fn the_watch_of_each_kind_has_to_come_as_far_as_was_written() {
        let mut expectations = Expectations::default();
        expectations.expect_version(ObjectKind::Pod, ResourceVersion(9));
        expectations.expect_version(ObjectKind::Pod, ResourceVersion(5));
        expectations.expect_version(ObjectKind::DaemonSet, ResourceVersion(6));
        let pods_behind = Watermarks { pods: ResourceVersion(8), ..watermarks(100) };
        assert_eq!(expectations.waiting(&pods_behind).map(|w| w.stale_kinds), Some(1));
        assert!(
            expectations.is_stale(ObjectKind::Pod) && !expectations.is_stale(ObjectKind::DaemonSet)
        );
        assert_eq!(expectations.waiting(&watermarks(9)), None);
    }

    /// C52: a deletion without a definite answer is given up after a minute, also if the clock is set back meanwhile, but
    /// not while it is under way; one that is seen, or answered, is not sent again.
    #[test]
    fn a_deletion_without_an_answer_is_given_up_after_a_minute() {
        let pod = |uid: &str| PodReference { name: uid.into(), uid: uid.into(), node: None };
        let mut expectations = Expectations::default();
        for uid in ["done", "lost", "seen", "seen before"] {
            expectations.expect_deletion(uid.into());
        }
        expectations.saw_deletion(&"seen before".into());
        for uid in ["done", "lost", "seen", "seen before"] {
            expectations.deletion_is_unanswered(&pod(uid), NOW);
        }
        expectations.saw_deletion(&"seen".into());
        expectations.deletion_is_answered(&"done".into());
        assert!(expectations.unanswered().eq([&pod("lost")]));
        let earlier = NOW - Duration::from_secs(3_600);
        assert_eq!(expectations.give_up_deletions(earlier), []);
        let minute = earlier + DELETION_GIVEN_UP_AFTER;
        assert_eq!(expectations.gives_up_at(), Some(minute));
        assert_eq!(expectations.give_up_deletions(minute - Duration::from_millis(1)), []);
        expectations.sent(1);
        assert_eq!(expectations.give_up_deletions(minute), []);
        assert_eq!(expectations.unanswered().count(), 0);
        expectations.returned(minute);
        assert_eq!(expectations.give_up_deletions(minute), [pod("lost")]);
        // What is done is still to be seen.
        assert_eq!(expectations.waiting(&watermarks(0)).map(|w| w.deletions), Some(1));
    }

    /// C60: the wait lapses after five minutes, but never while a write may still arrive.
    #[test]
    fn the_wait_lapses_after_five_minutes_unless_a_write_is_out() {
        let mut expectations = Expectations::default();
        expectations.sent(2);
        expectations.expect_deletion("pod".into());
        expectations.returned(NOW);
        assert_eq!(expectations.lapse(NOW + 2 * LAPSE_AFTER), None);
        expectations.returned(NOW);
        assert_eq!(expectations.lapses_at(), Some(NOW + LAPSE_AFTER));
        assert_eq!(expectations.lapse(NOW + LAPSE_AFTER - Duration::from_millis(1)), None);
        let lapsed = expectations.lapse(NOW + LAPSE_AFTER).expect("it is time");
        assert_eq!(lapsed, Notice::ExpectationLapsed { creations: 0, deletions: 1, writes: 0 });
        assert_eq!(expectations.waiting(&watermarks(0)), None);
    }
}
