//! Records of revisions that are in use although no guarded rollout brought them there (G36, G37).

use super::Judge;
use crate::checker::model::{Eligibility, Phase, Pod, Position, Record, Revision};
use crate::checker::situation::{NodeView, Situation};

impl Judge<'_> {
    /// Why a revision must not be recorded as the one that was in use when a policy or a pause
    /// came: it is the one that most pods have, and no record says more (G37).
    pub(super) fn adoption(&self, chosen: &Revision, new: &Record) -> Option<String> {
        let situation = self.situation;
        let all = || situation.revisions.old_and_target();
        let is_established = all().any(Revision::is_complete);
        let target = situation.revisions.current.last()?;
        let attempt = target.record.as_ref();
        let expected = Record {
            phase: Phase::Complete,
            since: attempt.map_or(new.since, |attempt| attempt.began),
            position: Position::AllNodes,
            approvals: Vec::new(),
            reason: Some("Adopted".to_owned()),
            order: self.idle_order(new),
            failed_nodes: Vec::new(),
            is_rolled_back: false,
            ..new.clone()
        };
        let pods = |revision: &Revision| situation.pods_of(revision, target);
        let in_use = pods(chosen);
        let most = all().map(pods).max().unwrap_or_default();
        let most_unknown = all().filter(|revision| !revision.has_record()).map(pods).max();
        let is_first = in_use == 0 && !situation.has_outdated_pods();
        let why = match () {
            () if !situation.ds.is_to_be_guarded() => "is of a DaemonSet that nothing guards",
            () if is_established && target.has_record() => "is of a rollout that is known",
            () if is_established && in_use < most => "is that of a revision that fewer pods have",
            () if Some(in_use) < most_unknown => "is that of a revision that fewer pods have",
            () if in_use == 0 && !is_first => "is that of a revision that no pod has",
            () if attempt.is_some() && *new == expected => return None,
            () => return self.differs(new, &expected),
        };
        Some(why.to_owned())
    }

    /// Why a revision that was complete before must not be recorded once more as the one in use:
    /// somebody has gone back to it without a guard. Then more pods have it, if it is the target,
    /// than the one that was complete last; if not, most have it, and none the last one (G36).
    pub(super) fn adoption_again(
        &self,
        chosen: &Revision,
        old: &Record,
        new: &Record,
    ) -> Option<String> {
        let situation = self.situation;
        let target = situation.revisions.current.last()?;
        let is_target = chosen.metadata.uid == target.metadata.uid;
        let pods = |revision: &Revision| situation.pods_of(revision, target);
        let most = situation.revisions.old_and_target().map(pods).max().unwrap_or_default();
        let (least, too_many) = if is_target { (1, pods(target)) } else { (most.max(1), 1) };
        let last = self.completed_after(old).last();
        let why = match () {
            () if !situation.ds.is_to_be_guarded() => "is of a DaemonSet that nothing guards",
            () if !is_target && target.has_record() => "is of a rollout that is known",
            () if last.is_none() => "is that of the base already",
            () if pods(chosen) < least => "is that of a revision that fewer pods have",
            () if last.is_some_and(|last| pods(last) >= too_many) => {
                "is not the one that most pods have"
            }
            () => {
                let reason = Some("Adopted".to_owned());
                return self.differs(new, &Record { reason, since: new.since, ..old.clone() });
            }
        };
        Some(why.to_owned())
    }

    /// The older revisions that were complete after this record was, by when they were.
    fn completed_after(&self, record: &Record) -> impl DoubleEndedIterator<Item = &Revision> {
        let since = |revision: &Revision| {
            let complete = revision.record.as_ref().filter(|it| it.phase == Phase::Complete);
            complete.map(|it| it.since).filter(|since| *since > record.since)
        };
        let old = self.situation.revisions.old.iter();
        let mut later: Vec<_> = old.filter_map(|old| Some((since(old)?, *old))).collect();
        later.sort_by_key(|(since, _)| *since);
        later.into_iter().map(|(_, revision)| revision)
    }

    /// Why nothing else may be recorded of the target: the record of the revision in use comes
    /// first (G36, G37).
    pub(super) fn unadopted(&self, target: &Revision) -> Option<&'static str> {
        let situation = self.situation;
        let pods = |revision: &Revision| situation.pods_of(revision, target);
        let all = || situation.revisions.old_and_target();
        let is_left = |revision: &Revision, too_many: usize| {
            let record = revision.record.as_ref().filter(|it| it.phase == Phase::Complete);
            let later = record.map(|record| self.completed_after(record));
            later.is_some_and(|mut later| {
                let first = later.next();
                first.is_some_and(|first| later.chain([first]).all(|it| pods(it) < too_many))
            })
        };
        let most = all().map(pods).max().unwrap_or_default();
        let mut used = all().filter(|it| most > 0 && pods(it) == most);
        let most_used = used.next().filter(|_| used.next().is_none());
        let is_established = all().any(Revision::is_complete);
        let is_in_use = |revision: &Revision| match target.has_record() {
            false => !revision.has_record() || is_left(revision, 1),
            true => !revision.has_record() && !is_established,
        };
        let is_due = is_left(target, pods(target)) || most_used.is_some_and(is_in_use);
        (situation.ds.is_to_be_guarded() && is_due)
            .then_some("changes before the revision in use is recorded")
    }

    /// A rollout that was promoted in full is complete without a policy when all nodes have the
    /// target that should run it and whose kubelets answer, and one has it (G43).
    pub(super) fn completion_without_policy(&self, old: &Record, new: &Record) -> Option<String> {
        let complete = Record { phase: Phase::Complete, since: new.since, ..old.clone() };
        // One that was tried before, and is in use now (G37).
        let expected = match old.phase {
            Phase::Superseded => Record {
                position: Position::AllNodes,
                reason: Some("Adopted".to_owned()),
                ..complete
            },
            _ => complete,
        };
        if !self.situation.is_in_use(|pod| self.situation.may_be_available(pod)) {
            return Some("is complete without the target on all nodes".to_owned());
        }
        self.differs(new, &expected)
    }
}

impl Situation<'_> {
    /// True if, without a policy, each node that should run the target has an available pod of it
    /// (G37). Of a rollout that was promoted in full, nodes whose kubelets do not answer may lack
    /// it, and such as keep an old pod because of a taint, if any node has it (G43).
    pub(in crate::checker) fn is_in_use(&self, is_available: impl Fn(&Pod) -> bool) -> bool {
        let has_target = |on_node: &NodeView| {
            let oldest = on_node.occupants().next();
            oldest.is_some_and(|our| self.is_updated(our.pod) && is_available(our.pod))
        };
        let is_silent =
            |on_node: &NodeView| on_node.node.is_some_and(|it| it.unreachable_since().is_some());
        let is_done = |on_node: &NodeView| match on_node.eligibility {
            Eligibility::ShouldRun => has_target(on_node),
            Eligibility::NoNode => true,
            Eligibility::MayKeep | Eligibility::MustNotRun => on_node.occupants().next().is_none(),
        };
        let may_lack = |on_node: &NodeView| {
            self.is_promoted_in_full()
                && (is_silent(on_node) || on_node.eligibility == Eligibility::MayKeep)
        };
        let nodes = || self.nodes.values();
        nodes().all(|on_node| is_done(on_node) || may_lack(on_node))
            && (nodes().all(is_done) || nodes().any(has_target))
    }
}
