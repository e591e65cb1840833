//! Records of revisions that are in use although no guarded rollout brought them there (G36, G37).

use super::Judge;
use crate::checker::model::{Eligibility, Phase, Position, Record, Revision};
use crate::checker::situation::NodeView;

impl Judge<'_> {
    /// True if a revision is recorded as the one in use, for the first time or once more.
    pub(super) fn is_adopted(&self, chosen: &Revision, new: &Record) -> bool {
        let is_again = |old: &Record| old.phase == Phase::Complete && old.order == new.order;
        new.is_adoption() && chosen.record.as_ref().is_none_or(is_again)
    }

    /// Why a revision must not be recorded as the one in use: more pods have another one, which no
    /// record states, or none has it (G37), or it is complete already, and somebody has not gone
    /// back to it without a guard (G36).
    pub(super) fn adoption(&self, chosen: &Revision) -> Option<String> {
        let situation = self.situation;
        let target = situation.revisions.current.last()?;
        let pods = |revision: &Revision| situation.pods_of(revision, target);
        let in_use = pods(chosen);
        let unrecorded = situation.revisions.old_and_target().filter(|it| !it.has_record());
        let most = unrecorded.map(pods).max();
        let since = |it: &Revision| it.record.as_ref().map(|record| record.since);
        let is_last = |old: &Record| {
            let mut complete = situation.revisions.old.iter().filter(|it| it.is_complete());
            !complete.any(|it| since(it) > Some(old.since))
        };
        let why = match &chosen.record {
            _ if !situation.ds.is_to_be_guarded() => "is of a DaemonSet that nothing guards",
            Some(old) if is_last(old) => "is that of the base already",
            None if Some(in_use) < most => "is that of a revision that fewer pods have",
            _ if in_use == 0 && situation.has_outdated_pods() => {
                "is that of a revision that no pod has"
            }
            _ => return None,
        };
        Some(why.to_owned())
    }

    /// A rollout that was promoted in full is complete without a policy when all nodes have the
    /// target that should run it and whose kubelets answer (G43); one that was tried before, and is
    /// in use now, as well (G37).
    pub(super) fn completion_without_policy(&self, old: &Record, new: &Record) -> Option<String> {
        let complete = Record { phase: Phase::Complete, since: new.since, ..old.clone() };
        let expected = match old.phase {
            Phase::Superseded => Record {
                position: Position::AllNodes,
                reason: Some("Adopted".to_owned()),
                ..complete
            },
            _ => complete,
        };
        let lacks_target = |on_node: &NodeView| {
            let answers = on_node.node.is_some_and(|node| node.unreachable_since().is_none());
            let oldest = on_node.occupants().next();
            let has_target = oldest.is_some_and(|our| {
                self.situation.is_updated(our.pod) && self.situation.may_be_available(our.pod)
            });
            answers && on_node.eligibility == Eligibility::ShouldRun && !has_target
        };
        match self.situation.nodes.iter().find(|(_, on_node)| lacks_target(on_node)) {
            Some((name, _)) => Some(format!("is complete without the target on {name}")),
            None => self.differs(new, &expected),
        }
    }
}
