//! The copies of ConfigMaps that the target and the other revisions have (G58).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::{
    ConfigCopies, ConfigMap, ConfigMaps, ConfigRule, DaemonSet, KnownConfigMaps, Timestamp,
};
use crate::copying::Stored;
use crate::daemon_set::sync::Draft;

use super::DaemonSetState;

impl DaemonSetState {
    /// True if the ConfigMaps of the namespace must be applied by
    /// [`apply_config_maps`](Self::apply_config_maps): the policy wants copies of some, or
    /// there are some.
    pub fn needs_config_maps(&self) -> bool {
        let of_template =
            |rule: &ConfigRule| rule.copied(&self.daemon_set.template.config).count() > 0;
        self.creates_pods()
            && (self.snapshots().is_some_and(of_template)
                || self.copying.has_copies()
                || self.history.copies().next().is_some())
    }

    /// Those of all ConfigMaps of the namespace that concern the DaemonSet: those that its template
    /// names, those of which a revision has copies, and its copies.
    pub fn known_config_maps(&self, all: &BTreeMap<Arc<str>, ConfigMap>) -> ConfigMaps {
        let DaemonSet { key, uid, template, .. } = &self.daemon_set;
        let named = template.config.iter().flat_map(|config| config.config_maps());
        let copied = self.history.copies().flat_map(|copies| copies.hashes.keys());
        let sources = named.map(|(name, _)| name).chain(copied);
        ConfigMaps::Known(KnownConfigMaps::new((key.name.as_str(), uid), sources, all))
    }

    /// Applies the ConfigMaps that concern the DaemonSet, as far as they are known. Returns whether
    /// a plan is due.
    pub fn apply_config_maps(&mut self, config_maps: ConfigMaps) -> bool {
        self.copying.apply(config_maps)
    }

    /// The copies that the target has, if it has any.
    pub fn target_copies(&self) -> Option<Arc<ConfigCopies>> {
        self.history.classify(&self.daemon_set).overrides?.copies.clone()
    }

    fn snapshots(&self) -> Option<&ConfigRule> {
        self.daemon_set.policy.valid()?.snapshots()
    }

    /// Determines which copies the target is to have.
    pub(super) fn refresh_copies(&mut self, now: Timestamp) {
        if self.copying.is_idle() && self.snapshots().is_none() {
            return;
        }
        let waited = self.copying.wait().cloned();
        let before = self.daemon_set.copies.take();
        let policy = self.daemon_set.policy.valid().cloned();
        let copies = if let Some(rule) = policy.as_ref().and_then(|policy| policy.snapshots()) {
            let template = &self.daemon_set.template;
            let stored = Stored {
                with_template: self.history.copies_with(template),
                is_empty: self.history.len() == 0,
            };
            self.copying.refresh(rule, template, before.as_ref(), &stored, now)
        } else {
            self.copying.end();
            None
        };
        if copies != before {
            self.history.forget_current();
        }
        self.daemon_set_changes +=
            u64::from(copies != before || waited.as_ref() != self.copying.wait());
        self.daemon_set.copies = copies;
    }

    /// Plans the writes of copies that are due.
    pub(super) fn plan_copies(&self, now: Timestamp, draft: &mut Draft) {
        if self.copying.is_idle() {
            return;
        }
        // A revision that another client has deleted or taken is written again with its copies.
        let target = self.target_copies();
        let needed = self.history.copies().chain(&self.daemon_set.copies).chain(&target);
        let is_known = |tag: &str| needed.clone().any(|copies| *copies.tag == *tag);
        // The built-in controller has merged the revision of such pods with another one.
        let keeps_others = !self.labels.copies_in_use().all(is_known);
        for write in self.copying.writes(needed.clone(), keeps_others, now) {
            draft.write(write);
        }
    }
}
