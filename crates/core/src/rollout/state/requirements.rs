//! The policy's requirements on the target: on the names of its configuration (G53), that pods can
//! be changed to it (G56), and that its ConfigMaps are copied (G58).

use crate::api::{ConfigObject, ConfigRequirement, ConfigRule, Template, UpdateMethod};
use crate::copying::ConfigWait;
use crate::revisions::RevisionSet;

use super::super::hindrance::Hindrance;
use super::super::input::RolloutInput;
use super::RolloutState;

impl RolloutState {
    /// How nodes get another template (G56).
    pub(crate) const fn update_method(&self) -> UpdateMethod {
        self.facts.last().update
    }

    /// True if pods are changed in place.
    pub(super) fn changes_pods(&self) -> bool {
        self.update_method() != UpdateMethod::Replace
    }

    /// The configuration that going back does not restore: what has changed under the same name
    /// (G53), and the ConfigMaps of which the target has copies, and the base has none (G58).
    pub(super) fn unrestored(
        &self,
        input: &RolloutInput<'_>,
        revisions: &RevisionSet<'_>,
    ) -> Vec<ConfigObject> {
        let Some(base) = self.base_template(revisions) else { return Vec::new() };
        let mut unrestored = self.changed_config(input, base);
        let copied = input.labels.overrides().and_then(|it| it.copies.as_ref());
        for (name, _) in base.config.iter().flat_map(|config| config.config_maps()) {
            let object = ConfigObject::ConfigMap(name.clone());
            let is_first_copy = copied.is_some_and(|copies| copies.restore(&object))
                && !self.base_restores(&object);
            if is_first_copy && !unrestored.contains(&object) {
                unrestored.push(object);
            }
        }
        unrestored
    }

    /// The configuration that has changed since the base under the same name (G53).
    fn changed_config(&self, input: &RolloutInput<'_>, base: &Template) -> Vec<ConfigObject> {
        let mut changed = input.daemon_set.template.unrestored_by(base);
        changed.retain(|object| !self.base_restores(object));
        changed
    }

    /// True if the base has a copy of this object.
    fn base_restores(&self, object: &ConfigObject) -> bool {
        let copies = self.gate.base_overrides().and_then(|it| it.copies.as_ref());
        copies.is_some_and(|copies| copies.restore(object))
    }

    /// The requirement of the policy on templates that holds the rollout, if one does (G53, G56).
    pub(super) fn unmet_requirement(
        &self,
        input: &RolloutInput<'_>,
        revisions: &RevisionSet<'_>,
    ) -> Option<Hindrance> {
        let policy = input.policy()?;
        // One that was complete before may be gone back to at any time.
        let record = revisions.current.and_then(|target| target.record.stored());
        if record.is_some_and(|record| record.was_complete()) {
            return None;
        }
        match input.config_wait {
            Some(ConfigWait::NotReady(_)) => return Some(Hindrance::ConfigNotReady),
            Some(ConfigWait::Unlisted | ConfigWait::Settles(_) | ConfigWait::Copying(_)) => {
                return Some(Hindrance::ConfigSoonReady);
            }
            None => {}
        }
        let is_config_mutable = match policy.config {
            Some(ConfigRule { require: Some(ConfigRequirement::HashedNames), .. }) => {
                let base = self.base_template(revisions);
                base.is_some_and(|base| !self.changed_config(input, base).is_empty())
            }
            Some(ConfigRule { require: None, .. }) | None => false,
        };
        if is_config_mutable {
            return Some(Hindrance::MutableConfig);
        }
        let base = self.base_template(revisions);
        let differs =
            base.is_some_and(|base| !base.changes_in_place_to(&input.daemon_set.template));
        let is_required = input.update_method() == UpdateMethod::InPlaceOnly;
        (is_required && differs).then_some(Hindrance::NotInPlace)
    }

    fn base_template<'a>(&self, revisions: &RevisionSet<'a>) -> Option<&'a Template> {
        let base = self.gate.base();
        let mut bases = revisions.old.iter().filter(|old| Some(&old.pod_hash()) == base);
        bases.find_map(|old| old.template.as_ref().ok())
    }
}
