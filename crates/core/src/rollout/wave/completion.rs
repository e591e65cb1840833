//! Which waves are complete, and whether the rollout is, or has failed, by the counts of nodes
//! (G15, G37, G39, G40, G42).

use crate::api::{FailureRule, IntOrPercent, NodeName, Position, RolloutRecord};
use crate::node::{NodeState, SetAside};

use super::group::{Group, tolerated};
use super::state::Holding;
use super::{Gone, StateCounts, Waves};

const LOST: NodeState = NodeState::SetAside(SetAside::Lost);

impl Waves {
    /// True if the wave at this position has passed: each of its nodes is done, has failed or is
    /// set aside, and the target was tried (G39, G40).
    pub(crate) fn is_complete(&self, position: &Position) -> bool {
        let group = self.group(position);
        self.is_passed(position, group) && !self.lacks_trial(position, group)
    }

    /// True if nothing but nodes that went down, or leave, after the rollout was done with them
    /// keeps the wave at this position from being complete.
    pub(crate) fn lacks_only_absent(&self, position: &Position) -> bool {
        let Group { open, disturbed_absent, .. } = self.group(position);
        *disturbed_absent > 0 && open.left() == *disturbed_absent
    }

    /// True if each node of the wave at this position, whose group is `group`, is done, has failed
    /// or is set aside.
    pub(crate) fn is_passed(&self, position: &Position, group: &Group) -> bool {
        let Group { open, disturbed, disturbed_absent, .. } = group;
        let left = open.left();
        // Once the rollout is complete, nobody judges nodes that are up; their time tells.
        let are_judged = self.policy().failure.is_some_and(|rule| rule.ready_within.is_some());
        let excused = match position {
            Position::AllNodes if are_judged => *disturbed_absent,
            Position::AllNodes | Position::Wave(_) => *disturbed,
        };
        let may_pass = left == 0 || left == excused && left <= tolerated(open.total());
        let is_filled = |(group, size): (&Group, usize)| group.open.total() >= size;
        may_pass && self.sizes(position).all(is_filled)
    }

    /// True if a node that is up still lacks the revision, which is complete: it never had an
    /// available pod of it (G37).
    pub(crate) fn has_nodes_left(&self) -> bool {
        self.all.has_nodes_left() || self.lacks_trial(&Position::AllNodes, &self.all)
    }

    /// True if the wave at this position, whose group is `group`, has nodes, and has tried none;
    /// that of all nodes, whether none is done.
    pub(crate) fn lacks_trial(&self, position: &Position, group: &Group) -> bool {
        let open = &group.open;
        let nodes = open.total() + group.held;
        match position {
            // A rollout is never complete without a node that is done, unless the target may run on
            // none (G40).
            Position::AllNodes => nodes > group.barred && open.done == 0,
            Position::Wave(_) => nodes > 0 && open.tried() == 0,
        }
    }

    /// True if more nodes have failed than the policy tolerates (G15).
    pub(crate) fn has_failed_nodes(&self) -> bool {
        let failed = self.all.failed + self.gone_in(NodeState::Failed).count();
        let rule = self.policy().failure.as_ref();
        rule.is_some_and(|rule| failed > rule.max_nodes.resolve_floor(self.ever_on_target()))
    }

    /// The nodes that were in this state when they were deleted in this attempt.
    pub(crate) fn gone_in(&self, state: NodeState) -> impl Iterator<Item = &NodeName> {
        self.gone().filter(move |gone| gone.state == state).map(|gone| &gone.name)
    }

    fn gone(&self) -> impl Iterator<Item = &Gone> {
        self.attempt.iter().flat_map(|attempt| &attempt.gone)
    }

    /// True if more nodes have failed since the rollout was complete than the policy tolerates, or
    /// more are lost (G40).
    pub(crate) fn has_late_failures(&self) -> bool {
        let Some(rule) = &self.policy().failure else { return false };
        let gone = |state| self.gone().filter(|gone| gone.is_late && gone.state == state).count();
        let (failed, lost) = (gone(NodeState::Failed), gone(LOST));
        let on_target = self.ever_on_target();
        self.all.late.failed + failed > rule.max_nodes.resolve_floor(on_target)
            || self.all.late.lost + lost > max_lost(rule, on_target)
    }

    /// True if more nodes are lost than the policy tolerates: by default one, or a tenth of those
    /// that have the target (G15).
    pub(crate) fn has_lost_nodes(&self) -> bool {
        let Some(rule) = &self.policy().failure else { return false };
        self.all.lost + self.gone_in(LOST).count() > max_lost(rule, self.ever_on_target())
    }

    /// The number of nodes that have a pod of the target, or had one: of those that have failed,
    /// are lost or were done, its successor is awaited. Nodes that were deleted after they failed
    /// or were lost are counted as if they were still there.
    fn ever_on_target(&self) -> usize {
        self.all.on_target + self.all.without_pod + self.gone().count()
    }

    /// How many pods the target's placement removes or has removed, if these are more than the
    /// policy allows (G42).
    pub(crate) fn too_many_removals(&self) -> Option<usize> {
        let allowed = self.policy().failure.map_or(IntOrPercent::Int(0), |rule| rule.max_removed);
        let removed = self.all.removed + self.all.emptied;
        (removed > allowed.resolve_floor(self.all.members)).then_some(removed)
    }

    /// The same, if the wave at this position removes one: they are its last nodes.
    pub(crate) fn forbidden_removals(&self, position: &Position) -> Option<usize> {
        let removes = |(group, size): (&Group, usize)| size > group.members - group.removed;
        self.too_many_removals().filter(|_| self.sizes(position).any(removes))
    }

    /// The same for the next wave of a rollout with this record. Somebody may have promoted it:
    /// once a wave has removed pods, that was asked.
    pub(crate) fn unpromoted_removals(
        &self,
        record: &RolloutRecord,
        next: &Position,
    ) -> Option<usize> {
        let was_asked = record.is_promoted() && self.all.emptied > 0;
        self.forbidden_removals(next).filter(|_| !was_asked)
    }

    /// The nodes of the wave at a position by their state: those that are not open yet wait, and
    /// held ones count if there are no others.
    pub(crate) fn states_at(&self, position: &Position) -> StateCounts {
        let group = self.group(position);
        let mut states = group.open;
        states.waiting += self.size(position, group).saturating_sub(states.total());
        if states.total() == 0 {
            *states.count(NodeState::SetAside(SetAside::Held)) += group.held;
        }
        states
    }

    /// The nodes for whose outage the wave at this position waits: an earlier attempt has taken
    /// their pods, and this one is at work on no node of the wave (G14).
    pub(crate) fn awaited_outages(&self, position: &Position) -> usize {
        self.outages_of(self.group(position))
    }

    const fn outages_of(&self, group: &Group) -> usize {
        if group.open.updating == 0 { self.all.taken } else { 0 }
    }

    /// The nodes for which the wave at this position waits, so that no progress is expected: those
    /// that are down or leaving, those of which somebody is asked, outages of an earlier attempt
    /// and, if it is at work on none of its own, nodes of another wave that are down, and its own
    /// that pull images (G15, G47, G54, G55).
    pub(crate) fn awaited(&self, position: &Position, may_pull: bool) -> usize {
        let group = self.group(position);
        let Group { absent, open, pulling_in_time, .. } = group;
        let others = self.all.absent + usize::from(may_pull) * pulling_in_time;
        let others = if open.updating == 0 { others } else { 0 };
        absent + others + self.all.unanswered + self.outages_of(group)
    }

    /// True if the target is everywhere already.
    pub(crate) fn is_rolled_out(&self) -> bool {
        match self.all.members {
            0 => self.has_unaffected(),
            members => self.all.updated == members,
        }
    }

    /// True if the overrides of the target leave the pod of any node as it is (G57).
    fn has_unaffected(&self) -> bool {
        self.nodes.iter().any(|node| node.holding == Holding::Unaffected)
    }

    /// The nodes that keep their pod of the target going back.
    pub(crate) const fn kept(&self) -> usize {
        self.all.kept
    }

    /// True if a node on which the rollout has begun is down or leaving since.
    pub(crate) const fn has_absent(&self) -> bool {
        self.all.absent > 0
    }

    /// True if a node has a pod of the target that it does not keep going back.
    pub(crate) const fn has_target(&self) -> bool {
        self.all.on_target > self.all.kept
    }
}

/// How many of this number of nodes with the target may be lost: by default one, or a tenth (G15).
fn max_lost(rule: &FailureRule, on_target: usize) -> usize {
    let max = |max: IntOrPercent| max.resolve_floor(on_target);
    rule.max_lost.map_or_else(|| max(IntOrPercent::Percent(10)).max(1), max)
}
