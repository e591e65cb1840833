//! The policy's requirements on the target: on the names of its configuration (G53), and that pods
//! can be changed to it (G56).

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

    /// The configuration that going back does not restore (G53).
    pub(super) fn unrestored(
        &self,
        input: &RolloutInput<'_>,
        revisions: &RevisionSet<'_>,
    ) -> Vec<ConfigObject> {
        let base = self.base_template(revisions);
        let unrestored = base.map(|base| input.daemon_set.template.unrestored_by(base));
        let copies = self.gate.base_overrides().and_then(|it| it.copies.as_ref());
        let mut unrestored = unrestored.unwrap_or_default();
        unrestored.retain(|object| !copies.is_some_and(|copies| copies.restore(object)));
        unrestored
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
                !self.unrestored(input, revisions).is_empty()
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
