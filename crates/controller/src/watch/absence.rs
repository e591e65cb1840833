//! Resources that a server may lack, or refuse to list (G4). No clock.

use std::time::Duration;

use crate::backoff::ExponentialBackoff;

/// The pauses between requests for a resource that the server lacks, or refuses to list.
const BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_secs(2), max: Duration::from_secs(60) };
/// How often in a row the server must refuse a list for that to count. A server that has just
/// started may refuse for a moment what it allows later.
const REFUSALS_MIN: u32 = 5;

/// The known state of an optional resource that cannot be listed.
#[derive(Debug, Default)]
pub(super) struct Absence {
    /// True if a list was complete. The objects that it had count until there is another one.
    was_listed: bool,
    /// How often in a row the server has refused a list.
    refusals: u32,
    /// How often in a row the resource was absent, and why.
    seen: Option<(AbsenceReason, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbsenceReason {
    /// The server does not have it.
    NotInstalled,
    /// The right to list it is missing.
    Forbidden,
}

impl Absence {
    /// Why the resource counts as absent after this answer.
    pub(super) fn reason(&mut self, code: Option<u16>) -> Option<AbsenceReason> {
        match code {
            Some(404) => Some(AbsenceReason::NotInstalled),
            Some(403) if !self.was_listed => {
                self.refusals += 1;
                (self.refusals >= REFUSALS_MIN).then_some(AbsenceReason::Forbidden)
            }
            Some(_) | None => None,
        }
    }

    /// True if a refusal has been seen that may yet count.
    pub(super) fn is_pending(&self) -> bool {
        self.refusals > 0
    }

    /// Records that the resource is absent; returns how often in a row it was so before.
    pub(super) fn record(&mut self, reason: AbsenceReason) -> u32 {
        let known = self.seen.filter(|(known, _)| *known == reason);
        let times = known.map_or(0, |(_, times)| times);
        self.seen = Some((reason, times.saturating_add(1)));
        self.was_listed = false;
        times
    }

    /// Records that a list is complete; returns whether the resource was absent before.
    pub(super) fn listed(&mut self) -> bool {
        let was_absent = self.seen.is_some();
        *self = Self { was_listed: true, ..Self::default() };
        was_absent
    }
}

/// How long to wait before the next request after so many in a row. `jitter` in 0..1 lengthens it
/// by up to its half.
pub(super) fn pause(times: u32, jitter: f64) -> Duration {
    BACKOFF.delay(times).mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 2.0)
}
