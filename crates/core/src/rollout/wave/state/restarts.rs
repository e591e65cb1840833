//! Restarts of pods, as far as they count for an attempt (G34).

/// The restarts of a container of a node's pod of the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restarts {
    /// Those that were there when the attempt began; `None` if that is not known yet.
    before: Option<u8>,
    seen: u8,
}

impl Default for Restarts {
    fn default() -> Self {
        Self { before: Some(0), seen: 0 }
    }
}

impl Restarts {
    /// Those of a node that was there before this controller looked.
    pub(super) const fn unknown() -> Self {
        Self { before: None, seen: 0 }
    }

    /// Records how many there are now: of another pod, none was there before. `is_older` is whether
    /// the pod was there when the attempt began.
    pub(super) fn record(&mut self, seen: u8, is_older: impl FnOnce() -> bool) {
        let before = match self.before {
            None if is_older() => seen,
            None => 0,
            Some(before) if seen < before => 0,
            Some(before) => before,
        };
        *self = Self { before: Some(before), seen };
    }

    /// How many there were since the attempt began.
    pub(super) const fn since(self) -> u8 {
        match self.before {
            Some(before) => self.seen.saturating_sub(before),
            None => 0,
        }
    }

    /// Counts them anew, for another attempt.
    pub(super) const fn forget(&mut self) {
        self.before = Some(self.seen);
    }
}
