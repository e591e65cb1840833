//! Rights that are refused although they were there a moment ago. An API server that has just
//! started refuses requests until it has read its roles: it is asked again for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use everynode_insight::snapshot::ObjectKind;
use tokio::time::Instant;

/// The time after which a right that is still refused has been taken away.
const RESTART: Duration = Duration::from_secs(30);

/// Since when each kind of objects that was read before is refused.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<ObjectKind, Instant>);

impl Refusals {
    /// Returns whether a refusal may be over soon.
    pub(super) fn may_pass(&mut self, kind: ObjectKind, was_read: bool, now: Instant) -> bool {
        was_read && now.duration_since(*self.0.entry(kind).or_insert(now)) < RESTART
    }

    /// The objects were read again.
    pub(super) fn end(&mut self, kind: ObjectKind) {
        self.0.remove(&kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_that_was_there_is_asked_for_again_for_a_while() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let kind = ObjectKind::DaemonSet;
        let mut refusals = Refusals::default();
        assert!(!refusals.may_pass(ObjectKind::Node, false, at(0)), "it never was there");
        assert!(refusals.may_pass(kind, true, at(0)) && refusals.may_pass(kind, true, at(29)));
        assert!(!refusals.may_pass(kind, true, at(30)), "it has been taken away");
        refusals.end(kind);
        assert!(refusals.may_pass(kind, true, at(40)), "that is another restart");
    }
}
