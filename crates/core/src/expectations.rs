//! Writes that are not visible in the watches yet (C60).
//!
//! No pod or revision is written until all results have arrived, every created pod has been seen,
//! every deletion has been seen to start, and the watch of each written kind has reached the write.
//! Otherwise only a timeout, which is reported, ends the wait.

mod creations;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::creations::Creations;
use crate::api::{ResourceVersion, Timestamp, Uid};
use crate::plan::{Notice, ObjectKind, PodReference, Waiting, Watermarks};

/// Maximum duration of the wait after a restore from a backup.
///
/// An unseen write made before the restore is lost. One made after the list that revealed the
/// restore is not, but looks the same: ending the wait at once would repeat it (C34). A new watch
/// shows it well within this time.
const LAPSE_AFTER_RESTORE: Duration = Duration::from_secs(30);

/// Maximum duration of the wait.
const LAPSE_AFTER: Duration = Duration::from_secs(5 * 60);

/// How long a deletion of unknown outcome is repeated before it counts as failed (C52).
const DELETION_GIVEN_UP_AFTER: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default)]
pub(crate) struct Expectations {
    /// Number of writes whose results have not arrived.
    in_flight: usize,
    /// Pods seen while writes are in flight. One of them may be a creation whose result has not
    /// arrived.
    seen_before_result: BTreeSet<Uid>,
    /// Objects seen deleted while writes are in flight.
    deleted_in_flight: BTreeSet<Uid>,
    creations: Creations,
    /// Objects that have not been seen deleted or terminating.
    deletions: BTreeSet<Uid>,
    /// The deletions whose outcome is unknown.
    unknown_deletions: BTreeMap<Uid, UnknownDeletion>,
    /// The highest version written of each kind, as long as its watch has not reached that.
    written: [Option<ResourceVersion>; ObjectKind::ALL.len()],
    /// When the last result arrived.
    last_result_at: Timestamp,
    restore: Restore,
}

/// A restoration of the API server from a backup during the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Restore {
    #[default]
    No,
    /// After the last plan. The next plan starts the timer, because observations carry no time.
    SinceLastPlan,
    TimedSince(Timestamp),
}

/// A pod's deletion of unknown outcome.
#[derive(Clone, Debug)]
struct UnknownDeletion {
    pod: PodReference,
    /// When the first attempt ended without a definite answer.
    since: Timestamp,
}

impl Expectations {
    /// Records that this number of writes is being executed.
    pub(crate) fn record_sent(&mut self, writes: usize) {
        self.in_flight += writes;
    }

    /// Records that a result has arrived.
    ///
    /// The result may belong to a write planned by this DaemonSet's previous state, so saturate: a
    /// restarted watch may repeat the creation of the DaemonSet after its deletion.
    pub(crate) fn record_result(&mut self, now: Timestamp) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.last_result_at = now;
        if self.in_flight == 0 {
            self.seen_before_result.clear();
            self.deleted_in_flight.clear();
        }
    }

    /// Waits until the watch of this kind reaches this version.
    pub(crate) fn expect_version(&mut self, kind: ObjectKind, resource_version: ResourceVersion) {
        let written = &mut self.written[kind as usize];
        *written = (*written).max(Some(resource_version));
    }

    /// Waits until a created pod is seen, or the watch has passed its creation.
    pub(crate) fn expect_creation(&mut self, uid: Uid, resource_version: ResourceVersion) {
        if !self.seen_before_result.remove(&uid) {
            self.creations.insert(uid, resource_version);
        }
    }

    /// Waits until an object is seen deleted or terminating.
    pub(crate) fn expect_deletion(&mut self, uid: Uid) {
        self.deletions.insert(uid);
    }

    /// Records that a write found its object deleted, and waits until that is seen, unless it has
    /// been.
    pub(crate) fn record_gone(&mut self, uid: &Uid) {
        if !self.deleted_in_flight.contains(uid) {
            self.deletions.insert(uid.clone());
        }
    }

    /// Ends the wait for a creation: the pod was seen.
    pub(crate) fn saw_creation(&mut self, uid: &Uid) {
        if !self.creations.remove(uid) && self.in_flight > 0 {
            self.seen_before_result.insert(uid.clone());
        }
    }

    /// Ends the wait for a deletion: the object was seen deleted, terminating or owned by another
    /// controller, or its deletion failed. Returns whether the object was awaited: then a plan is
    /// due, whatever else changes.
    pub(crate) fn saw_deletion(&mut self, uid: &Uid) -> bool {
        let was_created = self.creations.remove(uid);
        let was_deleted = self.deletions.remove(uid);
        self.unknown_deletions.remove(uid);
        if self.in_flight > 0 {
            self.deleted_in_flight.insert(uid.clone());
        }
        was_created || was_deleted
    }

    /// Records that the outcome of a pod's deletion is unknown. It does not matter if the deletion
    /// has been seen.
    pub(crate) fn record_unknown_deletion(&mut self, pod: &PodReference, now: Timestamp) {
        if self.deletions.contains(&pod.uid) {
            let unknown = || UnknownDeletion { pod: pod.clone(), since: now };
            self.unknown_deletions.entry(pod.uid.clone()).or_insert_with(unknown);
        }
    }

    /// Records that an object's deletion succeeded: it needs no repetition, and is yet to be seen.
    pub(crate) fn record_deletion_outcome(&mut self, uid: &Uid) {
        self.unknown_deletions.remove(uid);
    }

    /// True if the outcome of this object's deletion is unknown.
    pub(crate) fn is_outcome_unknown(&self, uid: &Uid) -> bool {
        self.unknown_deletions.contains_key(uid)
    }

    /// The pods whose deletion must be repeated; none while results are missing.
    pub(crate) fn deletions_to_repeat(&self) -> impl Iterator<Item = &PodReference> {
        let pods = self.unknown_deletions.values().map(|unknown| &unknown.pod);
        pods.filter(|_| self.in_flight == 0)
    }

    /// Number of created pods that no watch has shown.
    pub(crate) fn unseen_creations(&self) -> usize {
        self.creations.len()
    }

    /// Number of deletions that succeeded and that no watch has shown.
    pub(crate) fn unseen_deletions(&self) -> usize {
        self.deletions.len() - self.unknown_deletions.len()
    }

    /// Ends the wait for deletions whose outcome has been unknown for too long, and returns their
    /// pods: they count as failed.
    pub(crate) fn give_up_deletions(&mut self, now: Timestamp) -> Vec<PodReference> {
        if self.in_flight > 0 || self.unknown_deletions.is_empty() {
            return Vec::new();
        }
        let is_over =
            |_: &Uid, unknown: &mut UnknownDeletion| unknown.since + DELETION_GIVEN_UP_AFTER <= now;
        let given_up: Vec<_> = self.unknown_deletions.extract_if(.., is_over).collect();
        for (uid, _) in &given_up {
            self.deletions.remove(uid);
        }
        given_up.into_iter().map(|(_, unknown)| unknown.pod).collect()
    }

    /// When the next deletion of unknown outcome counts as failed.
    pub(crate) fn next_give_up_at(&self) -> Option<Timestamp> {
        let since = self.unknown_deletions.values().map(|unknown| unknown.since).min()?;
        Some(since + DELETION_GIVEN_UP_AFTER)
    }

    /// The writes that are still awaited, given how far the watches are; `None` if there are none.
    /// Forgets those that they have reached.
    pub(crate) fn waiting(&mut self, watermarks: &Watermarks) -> Option<Waiting> {
        for kind in ObjectKind::ALL {
            self.written[kind as usize].take_if(|version| *version <= watermarks.version(kind));
        }
        self.creations.remove_until(watermarks.pods);
        let waiting = Waiting {
            in_flight: self.in_flight,
            creations: self.creations.len(),
            deletions: self.deletions.len(),
            stale_kinds: self.stale_kinds(),
        };
        if waiting == Waiting::default() {
            self.restore = Restore::No;
            return None;
        }
        Some(waiting)
    }

    /// Records that the API server was restored from a backup.
    pub(crate) fn record_restore(&mut self) {
        self.restore = Restore::SinceLastPlan;
    }

    /// Starts the timer of a restore at the first plan after it.
    pub(crate) fn start_restore_timer(&mut self, now: Timestamp) {
        if self.restore == Restore::SinceLastPlan {
            self.restore = Restore::TimedSince(now);
        }
    }

    /// True if the watch of this kind has yet to reach a write.
    pub(crate) fn is_stale(&self, kind: ObjectKind) -> bool {
        self.written[kind as usize].is_some()
    }

    fn stale_kinds(&self) -> usize {
        self.written.iter().flatten().count()
    }

    /// True if the deletion of this object has yet to be seen.
    pub(crate) fn awaits_deletion(&self, uid: &Uid) -> bool {
        self.deletions.contains(uid)
    }

    /// When the wait ends if nothing more is seen. It never ends while results are missing: a write
    /// that may still take effect must not be repeated.
    pub(crate) fn lapses_at(&self) -> Option<Timestamp> {
        let since = self.last_result_at;
        let lapses_at = match self.restore {
            Restore::No | Restore::SinceLastPlan => since + LAPSE_AFTER,
            Restore::TimedSince(at) => {
                (at.max(since) + LAPSE_AFTER_RESTORE).min(since + LAPSE_AFTER)
            }
        };
        (self.in_flight == 0).then_some(lapses_at)
    }

    /// Ends the wait if it has lasted too long (C60).
    pub(crate) fn lapse(&mut self, now: Timestamp) -> Option<Notice> {
        self.lapses_at().filter(|&at| at <= now)?;
        let notice = Notice::ExpectationLapsed {
            creations: self.creations.len(),
            deletions: self.deletions.len(),
            writes: self.stale_kinds(),
        };
        *self = Self::default();
        Some(notice)
    }
}

impl Watermarks {
    const fn version(&self, kind: ObjectKind) -> ResourceVersion {
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

    /// C60: a creation is awaited by UID, unless the pod was seen before the result arrived.
    #[test]
    fn a_creation_is_awaited_until_it_is_seen() {
        let mut expectations = Expectations::default();
        expectations.record_sent(2);
        expectations.saw_creation(&"early".into());
        expectations.expect_creation("early".into(), ResourceVersion(7));
        expectations.record_result(NOW);
        expectations.expect_creation("late".into(), ResourceVersion(8));
        expectations.record_result(NOW);
        let waiting = expectations.waiting(&watermarks(6)).expect("one is missing");
        assert_eq!((waiting.creations, waiting.in_flight), (1, 0));
        expectations.saw_creation(&"late".into());
        assert_eq!(expectations.waiting(&watermarks(6)), None);
    }

    /// C60: a pod that was created and deleted unseen is awaited until the watch has passed it.
    #[test]
    fn a_creation_is_not_awaited_once_the_watch_has_passed_it() {
        let mut expectations = Expectations::default();
        expectations.expect_creation("short-lived".into(), ResourceVersion(8));
        assert!(expectations.waiting(&watermarks(7)).is_some());
        assert_eq!(expectations.waiting(&watermarks(8)), None);
    }

    /// C60, C61: if a write found its object deleted, that is awaited unless it has been seen.
    #[test]
    fn a_deleted_target_is_awaited_until_its_deletion_is_seen() {
        let mut expectations = Expectations::default();
        expectations.record_sent(2);
        expectations.saw_deletion(&"seen".into());
        expectations.record_gone(&"seen".into());
        expectations.record_gone(&"unseen".into());
        expectations.record_result(NOW);
        expectations.record_result(NOW);
        assert_eq!(expectations.waiting(&watermarks(0)).map(|w| w.deletions), Some(1));
        expectations.saw_deletion(&"unseen".into());
        assert_eq!(expectations.waiting(&watermarks(0)), None);
    }

    /// C60: each kind is awaited separately, until its watch reaches the highest version written.
    #[test]
    fn the_watch_of_each_kind_must_reach_the_highest_version_written() {
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

    /// C52: a deletion of unknown outcome is given up after a minute, but not while a
    /// request is in flight; one that is seen or confirmed is not repeated.
    #[test]
    fn a_deletion_of_unknown_outcome_is_given_up_after_a_minute() {
        let pod = |uid: &str| PodReference { name: uid.into(), uid: uid.into(), node: None };
        let mut expectations = Expectations::default();
        for uid in ["confirmed", "lost", "seen", "seen before"] {
            expectations.expect_deletion(uid.into());
        }
        expectations.saw_deletion(&"seen before".into());
        for uid in ["confirmed", "lost", "seen", "seen before"] {
            expectations.record_unknown_deletion(&pod(uid), NOW);
        }
        expectations.saw_deletion(&"seen".into());
        expectations.record_deletion_outcome(&"confirmed".into());
        assert!(expectations.deletions_to_repeat().eq([&pod("lost")]));
        let minute = NOW + DELETION_GIVEN_UP_AFTER;
        assert_eq!(expectations.next_give_up_at(), Some(minute));
        assert_eq!(expectations.give_up_deletions(minute - Duration::from_millis(1)), []);
        expectations.record_sent(1);
        assert_eq!(expectations.give_up_deletions(minute), []);
        assert_eq!(expectations.deletions_to_repeat().count(), 0);
        expectations.record_result(minute);
        assert_eq!(expectations.give_up_deletions(minute), [pod("lost")]);
        // The confirmed deletion is still to be seen.
        assert_eq!(expectations.waiting(&watermarks(0)).map(|w| w.deletions), Some(1));
    }

    /// C60: the wait ends after five minutes, but never while a write may still take effect.
    #[test]
    fn the_wait_ends_after_five_minutes_unless_a_write_is_in_flight() {
        let mut expectations = Expectations::default();
        expectations.record_sent(2);
        expectations.expect_deletion("pod".into());
        expectations.record_result(NOW);
        assert_eq!(expectations.lapse(NOW + 2 * LAPSE_AFTER), None);
        expectations.record_result(NOW);
        assert_eq!(expectations.lapses_at(), Some(NOW + LAPSE_AFTER));
        assert_eq!(expectations.lapse(NOW + LAPSE_AFTER - Duration::from_millis(1)), None);
        let lapsed = expectations.lapse(NOW + LAPSE_AFTER).expect("it is time");
        assert_eq!(lapsed, Notice::ExpectationLapsed { creations: 0, deletions: 1, writes: 0 });
        assert_eq!(expectations.waiting(&watermarks(0)), None);
    }
}
