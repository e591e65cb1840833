//! Configuration that the target only names (G53).

use crate::api::{ConfigObject, ConfigRequirement, ConfigRule};
use crate::revisions::RevisionSet;

use super::super::input::RolloutInput;
use super::RolloutState;

impl RolloutState {
    /// The configuration that going back does not restore (G53).
    pub(super) fn unrestored(
        &self,
        input: &RolloutInput<'_>,
        revisions: &RevisionSet<'_>,
    ) -> Vec<ConfigObject> {
        let base = self.gate.base();
        let mut bases = revisions.old.iter().filter(|old| Some(&old.pod_hash()) == base);
        let base = bases.find_map(|old| old.template.as_ref().ok());
        base.map(|base| input.daemon_set.template.unrestored_by(base)).unwrap_or_default()
    }

    /// The requirement of the policy on configuration that holds the rollout, if one does (G53).
    pub(super) fn unmet_requirement(
        &self,
        input: &RolloutInput<'_>,
        revisions: &RevisionSet<'_>,
    ) -> Option<ConfigRequirement> {
        let ConfigRule { require } = input.policy()?.config?;
        // One that was complete before may be gone back to at any time.
        let record = revisions.current.and_then(|target| target.record.stored());
        let was_complete = record.is_some_and(|record| record.was_complete());
        let is_met = match require {
            ConfigRequirement::HashedNames => self.unrestored(input, revisions).is_empty(),
        };
        (!was_complete && !is_met).then_some(require)
    }
}
