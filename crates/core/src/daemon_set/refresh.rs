//! Which slots are to be assessed, and what an assessment changes (C80, C81).

use crate::api::Timestamp;
use crate::nodes::{NodeId, Nodes};
use crate::placement::{self, Eligibility};

use super::assess::{Judge, Standing};
use super::candidates::Candidates;
use super::slot::Slot;
use super::{DaemonSetState, Tally};

impl DaemonSetState {
    /// The counts, made from nothing. Always equal to [`tally`](Self::tally) right after a plan made
    /// at `now` that was let act.
    pub fn recount(&self, now: Timestamp) -> Tally {
        let mut tally = Tally::default();
        for standing in self.reassess(now) {
            tally.add(&standing);
        }
        tally
    }

    /// Whether counts and candidate sets are what they would be if made from nothing, right after a plan
    /// made at `now` that was let act: for checkers.
    pub fn is_consistent(&self, now: Timestamp, nodes: &Nodes) -> bool {
        let mut candidates = Candidates::default();
        for (index, standing) in self.reassess(now).enumerate() {
            let id = NodeId::from_index(index);
            candidates.change(nodes.name(id), id, &Standing::default(), &standing);
        }
        // What a plan has just deleted because it failed is backed off, and leaves the set with the next.
        candidates.has_ended.retain(|_, id| !self.marked.contains(id));
        let mut known = self.candidates.clone();
        known.has_ended.retain(|_, id| !self.marked.contains(id));
        self.recount(now) == self.tally && candidates == known
    }

    pub(super) fn make_room(&mut self, nodes: &Nodes) {
        if self.slots.len() < nodes.bound() {
            self.slots.resize_with(nodes.bound(), Slot::default);
        }
    }

    pub(super) fn mark(&mut self, id: NodeId) {
        self.slots[id.index()].mark(id, &mut self.marked);
    }

    /// One pass over the nodes, when what they are judged by has changed (C81).
    pub(super) fn evaluate_all(&mut self, nodes: &Nodes) {
        self.make_room(nodes);
        for id in nodes.ids() {
            self.slots[id.index()].eligibility = self.evaluate(id, nodes);
            self.mark(id);
        }
    }

    /// One pass over the nodes, when what their pods are judged by has changed (C81).
    pub(super) fn mark_all(&mut self) {
        for index in 0..self.slots.len() {
            if !self.slots[index].is_vacant() {
                self.mark(NodeId::from_index(index));
            }
        }
    }

    pub(super) fn evaluate(&self, id: NodeId, nodes: &Nodes) -> Eligibility {
        let placement = &self.daemon_set.template.placement;
        nodes.node(id).map_or(Eligibility::NoNode, |node| {
            placement::eligibility(placement, &self.namespace_node_selector.labels, node)
        })
    }

    /// Brings counts and candidates up to date.
    pub(super) fn refresh(&mut self, now: Timestamp, nodes: &Nodes) {
        if self.refresh_history(now) {
            self.mark_all();
        }
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            self.mark(id);
        }
        for id in std::mem::take(&mut self.marked) {
            self.assess(id, now, nodes);
        }
        self.backoff.collect(now);
        debug_assert!(
            self.is_recount_due().then(|| self.recount(now)).is_none_or(|r| r == self.tally)
        );
    }

    fn assess(&mut self, id: NodeId, now: Timestamp, nodes: &Nodes) {
        self.slots_assessed += 1;
        let backed_off_until = self.backoff.until(id, now);
        let slot = &mut self.slots[id.index()];
        slot.marked = false;
        slot.pods.see(now);
        let judge = Judge::new(&self.daemon_set, &self.carried, now);
        let assessment = judge.assess(slot, backed_off_until);
        let old = std::mem::replace(&mut slot.standing, assessment.standing);
        if let Some(at) = assessment.again_at {
            self.timers.insert((at, id));
        }
        self.restand(id, old, nodes);
    }

    /// Carries a change of a slot's standing over to counts and candidates.
    fn restand(&mut self, id: NodeId, old: Standing, nodes: &Nodes) {
        let new = self.slots[id.index()].standing;
        if old != new {
            self.tally.remove(&old);
            self.tally.add(&new);
            self.candidates.change(nodes.name(id), id, &old, &new);
        }
    }

    /// Takes a slot out of all counts and sets at once if it has neither node nor pods: its number may
    /// be given to another node before the next plan.
    pub(super) fn strike_if_vacant(&mut self, id: NodeId, nodes: &Nodes) {
        let slot = &mut self.slots[id.index()];
        if slot.is_vacant() {
            let old = std::mem::take(&mut slot.standing);
            self.restand(id, old, nodes);
            self.backoff.forget(id);
            self.turns.forget(nodes.name(id));
            self.pending_names.settle(nodes.name(id));
        }
    }

    fn reassess(&self, now: Timestamp) -> impl Iterator<Item = Standing> {
        let judge = Judge::new(&self.daemon_set, &self.carried, now);
        self.slots.iter().enumerate().map(move |(index, slot)| {
            judge.assess(slot, self.backoff.until(NodeId::from_index(index), now)).standing
        })
    }

    /// Recounting costs a pass over the nodes; done this often it costs as much as the rest.
    fn is_recount_due(&self) -> bool {
        self.slots_assessed.is_multiple_of(self.slots.len() as u64 / 64 + 1)
    }
}
