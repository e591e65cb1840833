//! Who may lead, as arithmetic on what was read of the Lease and when (C63). Never reads a clock and never writes.
//!
//! Upstream: `client-go/tools/leaderelection`. A candidate trusts its own clock alone: the times in the record are for
//! people, and what counts is how long ago this candidate saw the record change. So clocks that disagree do no harm.

use std::time::Duration;

use super::Clock;

/// How long a lease lasts and how eagerly it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long other candidates wait after the last renewal that they saw.
    pub lease_duration: Duration,
    /// How long the leader goes on without a successful renewal. The rest of the lease is for writes in flight.
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
    /// Refuses what could let two replicas lead at once, or none for long.
    ///
    /// # Errors
    /// A sentence that names the options, in the words of upstream's flags.
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

/// What a candidate reads of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// `spec.holderIdentity`, empty once released.
    pub holder: String,
    /// `metadata.resourceVersion`: it changes with every renewal.
    pub version: String,
    /// `spec.leaseDurationSeconds` of the holder, which may run with other options than we.
    pub lease_duration: Option<Duration>,
}

/// What to do about a record that was just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ours: renew it.
    Renew,
    /// Released or expired: take it over.
    TakeOver,
    /// Another candidate holds it.
    Wait,
}

/// One candidate's memory.
#[derive(Debug)]
pub struct Election {
    identity: String,
    timing: Timing,
    /// The last record that differed from the one before, and when it was seen.
    seen: Option<(Record, Clock)>,
}

impl Election {
    pub fn new(identity: String, timing: Timing) -> Self {
        Self { identity, timing, seen: None }
    }

    /// Judges the record as read at `now`.
    pub fn judge(&mut self, record: Record, now: Clock) -> Verdict {
        if record.holder == self.identity {
            self.seen = Some((record, now));
            return Verdict::Renew;
        }
        if record.holder.is_empty() {
            return Verdict::TakeOver;
        }
        let since = match &self.seen {
            Some((seen, since)) if *seen == record => *since,
            Some(_) | None => now,
        };
        let patience = record.lease_duration.unwrap_or_default().max(self.timing.lease_duration);
        self.seen = Some((record, since));
        if now.since(since) > patience { Verdict::TakeOver } else { Verdict::Wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, version: &str) -> Record {
        Record {
            holder: holder.to_owned(),
            version: version.to_owned(),
            lease_duration: Some(Duration::from_secs(15)),
        }
    }

    /// C63: a lease is taken over only when it was released, or was seen unchanged for longer than it lasts; one's own
    /// is renewed at any age.
    #[test]
    fn a_lease_is_taken_over_only_when_released_or_seen_unchanged_for_its_duration() {
        let mut election = Election::new("us".to_owned(), Timing::default());
        let start = Clock::start();
        for (second, holder, version, expected) in [
            (0, "them", "1", Verdict::Wait),
            (14, "them", "1", Verdict::Wait),
            (15, "them", "1", Verdict::Wait),
            (16, "them", "2", Verdict::Wait),
            (31, "them", "2", Verdict::Wait),
            (32, "them", "2", Verdict::TakeOver),
            (33, "others", "3", Verdict::Wait),
            (34, "", "4", Verdict::TakeOver),
            (35, "us", "5", Verdict::Renew),
            (99, "us", "5", Verdict::Renew),
        ] {
            let verdict =
                election.judge(record(holder, version), start + Duration::from_secs(second));
            assert_eq!(verdict, expected, "second {second}");
        }
    }

    /// C63: a holder that runs with a longer lease than ours is given its time.
    #[test]
    fn a_longer_lease_of_the_holder_counts() {
        let mut election = Election::new("us".to_owned(), Timing::default());
        let start = Clock::start();
        let long = Record { lease_duration: Some(Duration::from_secs(60)), ..record("them", "1") };
        assert_eq!(election.judge(long.clone(), start), Verdict::Wait);
        assert_eq!(election.judge(long.clone(), start + Duration::from_secs(50)), Verdict::Wait);
        assert_eq!(election.judge(long, start + Duration::from_secs(61)), Verdict::TakeOver);
    }

    /// C63: options under which two could lead are refused by name.
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
