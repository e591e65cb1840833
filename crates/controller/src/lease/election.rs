//! Who may lead, computed from what was read of the Lease and when (C63). No I/O, no clock.
//!
//! Upstream: `client-go/tools/leaderelection`. A candidate trusts only its own clock: the times in
//! the Lease are for people. What counts is how long ago this candidate saw the Lease change, so
//! clocks that disagree do no harm.

use std::time::Duration;

use crate::environment::Moment;

/// How long a lease lasts and how often it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long other candidates wait after the last renewal that they saw.
    pub lease_duration: Duration,
    /// How long the leader may lead without a renewal. The rest of the lease is for writes in
    /// flight.
    pub renew_deadline: Duration,
    /// The pause between two attempts to acquire or renew.
    pub retry_period: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Refuses timings with which two replicas could lead at once, or none for a long time.
    ///
    /// # Errors
    /// A sentence that names the options as upstream's flags do.
    pub fn check(&self) -> Result<(), String> {
        let Self { lease_duration, renew_deadline, retry_period } = *self;
        if lease_duration < Duration::from_secs(1) {
            return Err("--leader-elect-lease-duration must be at least 1s".to_owned());
        }
        if lease_duration <= renew_deadline {
            return Err(format!(
                "--leader-elect-lease-duration ({lease_duration:?}) must be greater than \
                 --leader-elect-renew-deadline ({renew_deadline:?})"
            ));
        }
        if retry_period.is_zero() || renew_deadline <= retry_period.mul_f64(1.2) {
            return Err(format!(
                "--leader-elect-renew-deadline ({renew_deadline:?}) must be greater than 1.2 times \
                 --leader-elect-retry-period ({retry_period:?}), which must be greater than 0"
            ));
        }
        Ok(())
    }
}

/// A Lease as a candidate reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseRecord {
    /// `spec.holderIdentity`, empty once released.
    pub holder: String,
    /// `metadata.resourceVersion`: it changes with every renewal.
    pub version: String,
    /// `spec.leaseDurationSeconds` of the holder, whose options may differ from ours.
    pub lease_duration: Option<Duration>,
}

/// The next action of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// This candidate holds it: renew it.
    Renew,
    /// It was released or has expired: take it over.
    TakeOver,
    /// Another candidate holds it: wait.
    Wait,
}

/// The memory of one candidate.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    timing: Timing,
    /// The last record that differed from its predecessor, and when it was seen.
    seen: Option<(LeaseRecord, Moment)>,
}

impl Election {
    /// A candidate that has not seen the Lease.
    pub(super) fn new(identity: String, timing: Timing) -> Self {
        Self { identity, timing, seen: None }
    }

    /// Decides what to do about the record, which was read at `now`.
    pub(super) fn evaluate(&mut self, record: LeaseRecord, now: Moment) -> Decision {
        if record.holder == self.identity {
            self.seen = Some((record, now));
            return Decision::Renew;
        }
        if record.holder.is_empty() {
            self.seen = Some((record, now));
            return Decision::TakeOver;
        }
        let since = match &self.seen {
            Some((seen, since)) if *seen == record => *since,
            Some(_) | None => now,
        };
        let is_over = self.is_over(&record, since, now);
        self.seen = Some((record, since));
        if is_over { Decision::TakeOver } else { Decision::Wait }
    }

    /// True if this candidate may create the Lease, which does not exist: whoever held it when it
    /// was seen last may act until it finds that out.
    pub(super) fn may_create(&self, now: Moment) -> bool {
        self.seen.as_ref().is_none_or(|(seen, since)| {
            let is_held = !seen.holder.is_empty() && seen.holder != self.identity;
            !is_held || self.is_over(seen, *since, now)
        })
    }

    /// True if a record that was seen for the first time at `since` has expired. A wall clock that
    /// somebody sets must not make that sooner.
    fn is_over(&self, record: &LeaseRecord, since: Moment, now: Moment) -> bool {
        let wait = record.lease_duration.unwrap_or_default().max(self.timing.lease_duration);
        now.surely_since(since) > wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    fn record(holder: &str, version: &str) -> LeaseRecord {
        LeaseRecord {
            holder: holder.to_owned(),
            version: version.to_owned(),
            lease_duration: Some(Duration::from_secs(15)),
        }
    }

    /// C63: a lease is taken over only if it was released, or was seen unchanged for longer than
    /// its duration; the holder renews it at any age.
    #[test]
    fn a_lease_is_taken_over_only_when_released_or_seen_unchanged_for_its_duration() {
        let mut election = Election::new("us".to_owned(), Timing::default());
        let start = Environment::default().moment();
        for (second, holder, version, expected) in [
            (0, "them", "1", Decision::Wait),
            (14, "them", "1", Decision::Wait),
            (15, "them", "1", Decision::Wait),
            (16, "them", "2", Decision::Wait),
            (31, "them", "2", Decision::Wait),
            (32, "them", "2", Decision::TakeOver),
            (33, "others", "3", Decision::Wait),
            (34, "", "4", Decision::TakeOver),
            (35, "us", "5", Decision::Renew),
            (99, "us", "5", Decision::Renew),
        ] {
            let decision =
                election.evaluate(record(holder, version), start + Duration::from_secs(second));
            assert_eq!(decision, expected, "second {second}");
        }
    }

    /// C63: the lease duration of a holder that is longer than ours is respected.
    #[test]
    fn a_longer_lease_of_the_holder_counts() {
        let mut election = Election::new("us".to_owned(), Timing::default());
        let start = Environment::default().moment();
        let long =
            LeaseRecord { lease_duration: Some(Duration::from_secs(60)), ..record("them", "1") };
        assert_eq!(election.evaluate(long.clone(), start), Decision::Wait);
        assert_eq!(
            election.evaluate(long.clone(), start + Duration::from_secs(50)),
            Decision::Wait
        );
        assert_eq!(election.evaluate(long, start + Duration::from_secs(61)), Decision::TakeOver);
    }

    /// C63: a wall clock that is set forward does not end the lease of another candidate.
    #[test]
    fn a_wall_clock_that_is_set_forward_does_not_end_a_lease() {
        let mut election = Election::new("us".to_owned(), Timing::default());
        let start = Environment::default().moment();
        assert_eq!(election.evaluate(record("them", "1"), start), Decision::Wait);
        let set = (start + Duration::from_secs(2)).with_wall_ahead(Duration::from_secs(3600));
        assert_eq!(election.evaluate(record("them", "1"), set), Decision::Wait);
    }

    /// C63: a Lease that somebody has deleted is created at once by its holder or by a candidate
    /// that has not seen it, and by others once it would have expired.
    #[test]
    fn a_deleted_lease_still_lasts_for_others() {
        let start = Environment::default().moment();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut election = Election::new("us".to_owned(), Timing::default());
        assert!(election.may_create(start), "it has not seen it");
        election.evaluate(record("them", "1"), start);
        assert!(!election.may_create(at(15)) && election.may_create(at(16)));
        election.evaluate(record("us", "2"), at(16));
        assert!(election.may_create(at(17)), "it is the holder");
        election.evaluate(record("them", "3"), at(18));
        election.evaluate(record("", "4"), at(19));
        assert!(election.may_create(at(19)), "nobody is");
    }

    /// C63: timings with which two replicas could lead are refused.
    #[test]
    fn dangerous_timing_is_refused() {
        let timing = |lease, renew, retry| Timing {
            lease_duration: Duration::from_secs(lease),
            renew_deadline: Duration::from_secs(renew),
            retry_period: Duration::from_secs(retry),
        };
        assert_eq!(timing(15, 10, 2).check(), Ok(()));
        for (bad, named) in [
            (timing(0, 0, 0), "--leader-elect-lease-duration"),
            (timing(10, 10, 2), "--leader-elect-lease-duration"),
            (timing(15, 10, 10), "--leader-elect-renew-deadline"),
            (timing(15, 10, 0), "--leader-elect-retry-period"),
        ] {
            let message = bad.check().unwrap_err();
            assert!(message.contains(named), "{message}");
        }
    }
}
