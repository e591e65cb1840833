//! The copies of ConfigMaps that the target and the other revisions have (G58).

use crate::api::{ConfigMaps, Timestamp};
use crate::daemon_set::sync::Draft;

use super::DaemonSetState;

impl DaemonSetState {
    /// True if the ConfigMaps of the namespace must be applied by
    /// [`apply_config_maps`](Self::apply_config_maps): the policy wants copies of them, or a
    /// revision has some.
    pub fn needs_config_maps(&self) -> bool {
        let policy = self.daemon_set.policy.valid();
        self.creates_pods()
            && (policy.is_some_and(|policy| policy.snapshots().is_some())
                || self.history.copies().next().is_some())
    }

    /// Applies the ConfigMaps that concern the DaemonSet, as far as they are known.
    pub fn apply_config_maps(&mut self, config_maps: ConfigMaps) -> bool {
        self.copying.apply(config_maps)
    }

    /// Determines which copies the target is to have.
    pub(super) fn refresh_copies(&mut self, now: Timestamp) {
        let policy = self.daemon_set.policy.valid().cloned();
        let rule = policy.as_ref().and_then(|policy| policy.snapshots());
        if rule.is_none() && self.daemon_set.copies.is_none() {
            return;
        }
        let waited = self.copying.wait().cloned();
        let before = self.daemon_set.copies.take();
        let template = &self.daemon_set.template;
        let stored: Vec<_> = self.history.copies_with(template).collect();
        let copies = self.copying.refresh(rule, template, before.as_ref(), &stored, now);
        if copies != before {
            self.history.forget_current();
        }
        self.daemon_set_changes +=
            u64::from(copies != before || waited.as_ref() != self.copying.wait());
        self.daemon_set.copies = copies;
    }

    /// Plans the writes of copies that are due.
    pub(super) fn plan_copies(&self, now: Timestamp, draft: &mut Draft) {
        let needed = self.history.copies().chain(&self.daemon_set.copies);
        let is_known = |tag: &str| needed.clone().any(|copies| *copies.tag == *tag);
        // The built-in controller has merged the revision of such pods with another one.
        let keeps_others = !self.labels.copies_in_use().all(is_known);
        for write in self.copying.writes(needed.clone(), keeps_others, now) {
            draft.write(write);
        }
    }
}
