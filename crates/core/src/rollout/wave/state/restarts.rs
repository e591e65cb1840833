//! Restarts of pods, as far as they count for an attempt (G34).

/// The restarts of a container of a node's pod of the target.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restarts {
    /// Those that were there when the attempt began.
    before: u8,
    seen: u8,
}

impl Restarts {
    /// Records how many there are now: of another pod, none was there before.
    pub(super) fn record(&mut self, seen: u8) {
        let before = if seen < self.before { 0 } else { self.before };
        *self = Self { before, seen };
    }

    /// How many there were since the attempt began.
    pub(super) const fn since(self) -> u8 {
        self.seen.saturating_sub(self.before)
    }

    /// Counts them anew, for another attempt.
    pub(super) const fn forget(&mut self) {
        self.before = self.seen;
    }
}
