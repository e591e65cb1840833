//! Which slots a plan assesses, and what an assessment changes (C80, C81).

use std::collections::BTreeSet;

use crate::api::{ConfigRule, GroupLimit, Node, Now, Problem, Timestamp};
use crate::config::UnreachableNodes;
use crate::copying::Stored;
use crate::daemon_set::index::{Groups, NodeCounts, WorkSets};
use crate::node::{Assessor, NodeAssessment, NodeDelays, Slot, SlotFlags, Wanted};
use crate::node_table::{NodeId, NodeTable};
use crate::revisions::{CollisionAction, CurrentRevision};
use crate::rollout::Verdict;

use super::DaemonSetState;

/// The inputs of the current revision.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TargetKey {
    revisions: u64,
    daemon_set: u64,
}

/// The verdict on a node of the revision that governs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evaluation {
    pub verdict: Verdict,
    pub wanted: Wanted,
}

impl DaemonSetState {
    /// The counts, recomputed from all slots. Equal to [`counts`](Self::counts) right after a plan
    /// made at `now` that was allowed to act.
    pub fn recount(&self, now: impl Into<Now>) -> NodeCounts {
        let mut counts = NodeCounts::default();
        for assessment in self.assess_all(now.into()) {
            counts.add(&assessment);
        }
        counts
    }

    /// True if counts and sets equal those recomputed from all slots, right after a plan made at
    /// `now` that was allowed to act. For checkers.
    pub fn is_consistent(&self, now: impl Into<Now>, nodes: &NodeTable) -> bool {
        let now = now.into();
        let mut work_sets = WorkSets::default();
        for (index, assessment) in self.assess_all(now).enumerate() {
            let id = NodeId::from_index(index);
            work_sets.update(nodes.name(id), id, &NodeAssessment::default(), &assessment);
        }
        let has_groups = self.index.groups.as_deref().is_none_or(|groups| {
            let all = self.assess_all(now);
            groups.equals(&Self::grouped(groups.limit().clone(), all, nodes))
        });
        // A node whose failed pod was just deleted leaves the set with the next plan.
        work_sets.has_ended.retain(|_, id| !self.assessing.marked.contains(id));
        let mut known = self.index.work_sets.clone();
        known.has_ended.retain(|_, id| !self.assessing.marked.contains(id));
        self.recount(now) == self.index.counts && work_sets == known && has_groups
    }

    pub(super) fn make_room(&mut self, nodes: &NodeTable) {
        if self.slots.len() < nodes.bound() {
            self.slots.resize_with(nodes.bound(), Slot::default);
        }
    }

    pub(super) fn mark(&mut self, id: NodeId) {
        self.slots[id.index()].mark(id, &mut self.assessing.marked);
    }

    /// Decides for every node whether it is eligible, because the placement changed (C81).
    pub(super) fn evaluate_all(&mut self, nodes: &NodeTable) {
        self.make_room(nodes);
        for id in nodes.ids() {
            self.re_evaluate(id, nodes);
            self.apply_reachability(id, nodes);
            self.mark(id);
        }
    }

    /// Records whether the node's kubelet answers, and which of its pods are of the time since it
    /// does not (C58). Returns whether it does not, or did not before.
    pub(super) fn apply_reachability(&mut self, id: NodeId, nodes: &NodeTable) -> bool {
        let since = match self.config.unreachable_nodes {
            UnreachableNodes::Skip => nodes.node(id).and_then(Node::unreachable_since),
            UnreachableNodes::Wait => None,
        };
        let slot = &mut self.slots[id.index()];
        let is_affected = since.is_some() || slot.flags.contains(SlotFlags::UNREACHABLE);
        if is_affected {
            slot.flags.set(SlotFlags::UNREACHABLE, since.is_some());
            slot.pods.record_unreachable_since(since, |uid| self.deleted_at.get(uid).copied());
        }
        is_affected
    }

    /// Marks every node, because an input that all assessments read has changed (C81).
    pub(super) fn mark_all(&mut self) {
        for index in 0..self.slots.len() {
            if !self.slots[index].is_vacant() {
                self.mark(NodeId::from_index(index));
            }
        }
    }

    /// The verdict on a node of the revision that governs it (G1).
    pub(super) fn evaluate(&self, id: NodeId, nodes: &NodeTable) -> Evaluation {
        let slot = &self.slots[id.index()];
        let pods = slot.pods.as_slice();
        let governing = self.rollout.gate.governing(pods, slot.wave, &self.labels);
        let verdict = nodes.node(id).map_or(Verdict::default(), |node| {
            let selector = &self.namespace_node_selector.labels;
            let target = &self.daemon_set.template;
            let gate = &self.rollout.gate;
            if !self.creates_pods() {
                return gate.verdict_beside(target, selector, node, pods, &self.labels);
            }
            gate.verdict(governing, target, selector, node, pods, &self.labels)
        });
        Evaluation { verdict, wanted: governing.wanted }
    }

    fn re_evaluate(&mut self, id: NodeId, nodes: &NodeTable) {
        self.slots[id.index()].wave = self.rollout.wave(id);
        let Evaluation { verdict, wanted } = self.evaluate(id, nodes);
        let slot = &mut self.slots[id.index()];
        (slot.eligibility, slot.wanted) = (verdict.eligibility, wanted);
        slot.flags.set(SlotFlags::LOSES_POD, verdict.loses_pod);
        slot.flags.set(SlotFlags::BARRED, verdict.is_barred);
    }

    /// Brings counts and sets up to date.
    pub(super) fn refresh(&mut self, now: Now, nodes: &NodeTable) {
        let is_wall_clock_set =
            std::mem::replace(&mut self.assessing.wall_ahead_ms, now.wall_ahead_ms)
                != now.wall_ahead_ms;
        self.give_up_changes(now, nodes);
        self.refresh_copies(now.steady);
        let is_changed = self.refresh_current(now, nodes);
        if is_wall_clock_set {
            self.rollout.pace.iter_mut().for_each(|pace| pace.forget_recovered(now.steady));
        }
        if is_changed || is_wall_clock_set {
            self.mark_all();
        }
        while let Some(&(at, id)) = self.assessing.timers.first()
            && at <= now.steady
        {
            self.assessing.timers.pop_first();
            self.mark(id);
        }
        for node in self.rollout.images.take_changed() {
            self.mark_node(&node, nodes);
        }
        self.refresh_pace(now.steady);
        self.assess_marked(now, nodes);
        if self.rollout.is_followed() {
            self.refresh_waves(now, nodes);
        }
        if self.labels.are_overrides_of_running() {
            self.overrides.running.record_text(self.daemon_set.overrides_of_running());
        }
        self.backoffs.ended_pods.collect(now.steady);
        self.backoffs.lost_pods.collect(now.steady);
        let recount = || cfg!(debug_assertions).then(|| self.recount(now));
        if let Some(counts) = self.is_recount_due().then(recount).flatten() {
            debug_assert_eq!(counts, self.index.counts, "of {}", self.daemon_set.key);
        }
    }

    /// Determines which copies the target is to have.
    fn refresh_copies(&mut self, now: Timestamp) {
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

    /// The rule by which the ConfigMaps of a template are copied.
    pub(super) fn snapshots(&self) -> Option<&ConfigRule> {
        self.daemon_set.policy.valid()?.snapshots()
    }

    /// Brings the waves of a guarded or paused rollout up to date, and what follows from them.
    fn refresh_waves(&mut self, now: Now, nodes: &NodeTable) {
        if self.open_waves(now, nodes) {
            self.assess_marked(now, nodes);
        }
        let had_too_many_waves = self.rollout.has_too_many_waves();
        let (rollout, input) = self.rollout_parts(now);
        if rollout.refresh_limits(&input) {
            self.mark_all();
        }
        if self.rollout.has_too_many_waves() != had_too_many_waves {
            self.refresh_rollout(*self.target.is_stored.last(), now, nodes);
        }
        self.assess_marked(now, nodes);
        let (rollout, input) = self.rollout_parts(now);
        rollout.refresh_wave(&input, nodes);
    }

    /// Determines which revision is current, and which ones govern nodes. Returns whether that
    /// changes which pods are up to date.
    fn refresh_current(&mut self, now: Now, nodes: &NodeTable) -> bool {
        let key = self.target_key();
        if self.target.is_stored.get(&key).is_some() {
            self.refresh_rollout(true, now, nodes);
            return false;
        }
        let current = self.current_revision(now.steady);
        self.target.is_stored.set(key, current.is_some());
        let current = current.or_else(|| self.current_generation());
        // While none is stored, the answer depends on the time as well.
        if current.is_none() || self.history.classify(&self.daemon_set).current.is_none() {
            self.target.is_stored.invalidate();
        }
        // Another client may have deleted the revision of the target, or taken its owner from it.
        let is_lost = || {
            let lost = self.history.lost_current(&self.daemon_set);
            self.labels.current_hashes().any(|hash| lost.contains(hash))
        };
        let is_target_known = current.is_some() || is_lost();
        self.refresh_rollout(is_target_known, now, nodes);
        // While no revision of the current template is stored, the previous one counts.
        let known = self.labels.changes();
        let is_changed = current.is_some_and(|current| self.labels.set_current(current));
        if self.labels.changes() != known {
            // Only now the labels tell which revision is in use (G37).
            self.refresh_rollout(is_target_known, now, nodes);
        }
        is_changed
    }

    pub(super) const fn target_key(&self) -> TargetKey {
        TargetKey { revisions: self.history.changes(), daemon_set: self.daemon_set_changes }
    }

    /// Determines which revisions govern nodes, if anything has changed of what says so.
    fn refresh_rollout(&mut self, is_target_known: bool, now: Now, nodes: &NodeTable) {
        self.refresh_groups(nodes);
        let (rollout, input) = self.rollout_parts(now);
        if rollout.refresh_stage(&input, is_target_known, nodes) {
            self.evaluate_all(nodes);
        }
        if self.changes.set_attempt(self.rollout.record().map(|record| &**record)) {
            self.mark_all();
        }
    }

    /// Brings the pace of the rollout up to date.
    fn refresh_pace(&mut self, now: Timestamp) {
        let repeated = self.expectations.deletions_to_repeat();
        let deleted = repeated.filter_map(|pod| pod.node.as_ref());
        let in_doubt = deleted.chain(self.index.pending_names.nodes_in_doubt(now));
        if self.rollout.refresh_pace(self.daemon_set.policy.valid(), in_doubt, now) {
            self.mark_all();
        }
    }

    /// Opens nodes of the current waves, and marks them. Returns whether it opened any.
    fn open_waves(&mut self, now: Now, nodes: &NodeTable) -> bool {
        let (rollout, input) = self.rollout_parts(now);
        let opened = rollout.open_nodes(&input, nodes);
        for id in &opened {
            self.mark(*id);
        }
        !opened.is_empty()
    }

    /// The revision of up-to-date pods by the stored revisions; `None` while none stores the
    /// current template.
    fn current_revision(&mut self, now: Timestamp) -> Option<CurrentRevision> {
        let set = self.history.classify(&self.daemon_set);
        let mut hashes = set.current_hashes();
        let others = set.other_hashes(&self.daemon_set);
        let (variants, overrides) = (set.variants.clone(), set.overrides.clone());
        if set.current.is_none() {
            let new = self.history.new_revision(&self.daemon_set, set.current_number());
            self.history.drop_outdated_collision(&new, now);
            if let Some(CollisionAction::UseHash(hash)) = self.history.collision_action(&new, now) {
                hashes.insert(hash);
            }
        }
        let template_generation = self.daemon_set.template_generation;
        (!hashes.is_empty()).then_some(CurrentRevision {
            hashes,
            variants,
            overrides,
            others,
            template_generation,
        })
    }

    /// The revision of up-to-date pods if none of the current template has ever been seen, which
    /// happens after a restart if a user has deleted it: the template generation, unless the pod's
    /// hash is that of another revision (C45).
    fn current_generation(&self) -> Option<CurrentRevision> {
        let template_generation = self.daemon_set.template_generation;
        let is_first = self.labels.current_hashes().next().is_none();
        let set = self.history.classify(&self.daemon_set);
        (is_first && template_generation.is_some()).then(|| CurrentRevision {
            hashes: BTreeSet::new(),
            others: set.other_hashes(&self.daemon_set),
            variants: set.variants,
            overrides: set.overrides,
            template_generation,
        })
    }

    fn assess_marked(&mut self, now: Now, nodes: &NodeTable) {
        for id in std::mem::take(&mut self.assessing.marked) {
            self.assess(id, now, nodes);
        }
    }

    fn refresh_overrides(&mut self, id: NodeId, now: Timestamp, nodes: &NodeTable) {
        let (overrides, slots, input) = self.override_parts();
        let pods = &mut slots[id.index()].pods;
        let due_at = overrides.refresh(id, nodes.node(id), pods, &input, now);
        self.assessing.timers.extend(due_at.map(|at| (at, id)));
    }

    fn assess(&mut self, id: NodeId, now: Now, nodes: &NodeTable) {
        self.assessing.count += 1;
        self.refresh_overrides(id, now.steady, nodes);
        if !self.rollout.gate.is_open() {
            // A pod that came or went may have changed which revision governs the node.
            self.re_evaluate(id, nodes);
        }
        let slot = &mut self.slots[id.index()];
        let has_lost_pod = slot.flags.contains(SlotFlags::LOST_POD);
        slot.flags.remove(SlotFlags::MARKED | SlotFlags::LOST_POD);
        if has_lost_pod && slot.eligibility.should_run() {
            let delay = self.backoffs.lost_pods.next(id, now.steady);
            if !delay.is_zero() {
                let node = nodes.name(id).clone();
                self.reports.problems.push(Problem::LostPods { node, delay });
            }
        }
        let slot = &mut self.slots[id.index()];
        slot.pods.record_readiness_seen(now.steady);
        let assessor = Assessor::new(&self.daemon_set, self.rollout.rules(), &self.labels, now);
        let slot = &self.slots[id.index()];
        let assessed = assessor.assess(slot, self.delays(id, now));
        let slot = &mut self.slots[id.index()];
        let old = std::mem::replace(&mut slot.assessment, assessed.assessment);
        let changes_at = match self.rollout.waves.is_some() {
            true => self.judge(id, now, nodes),
            false => None,
        };
        let timers = assessed.expires_at.into_iter().chain(changes_at);
        self.assessing.timers.extend(timers.map(|at| (at, id)));
        self.apply_assessment(id, old, nodes);
    }

    /// Changes the assessment of a node by its state in a guarded rollout. Returns when that may
    /// change by itself.
    fn judge(&mut self, id: NodeId, now: Now, nodes: &NodeTable) -> Option<Timestamp> {
        let (rollout, input) = self.rollout_parts(now);
        let changes_at = rollout.apply_slot(id, &input, nodes);
        let slot = &mut self.slots[id.index()];
        slot.assessment = self.rollout.judged(id, slot.assessment);
        changes_at
    }

    /// Applies the difference to the old assessment to counts and sets.
    fn apply_assessment(&mut self, id: NodeId, old: NodeAssessment, nodes: &NodeTable) {
        let new = self.slots[id.index()].assessment;
        if old != new {
            self.index.counts.remove(&old);
            self.index.counts.add(&new);
            self.index.work_sets.update(nodes.name(id), id, &old, &new);
            if let Some(groups) = &mut self.index.groups {
                groups.update(nodes.name(id), id, &old, &new);
            }
        }
    }

    /// Divides the nodes into the groups that the policy limits, if that is not done yet.
    fn refresh_groups(&mut self, nodes: &NodeTable) {
        let policy = self.daemon_set.policy.valid();
        let limit = policy.and_then(|policy| policy.max_unavailable_per.as_ref());
        if limit != self.index.groups.as_deref().map(Groups::limit) {
            let all = self.slots.iter().map(|slot| slot.assessment);
            let groups = limit.map(|limit| Self::grouped(limit.clone(), all, nodes));
            self.index.groups = groups.map(Box::new);
        }
    }

    /// The groups of a limit, made from the assessments of all slots.
    fn grouped(
        limit: GroupLimit,
        assessments: impl Iterator<Item = NodeAssessment>,
        nodes: &NodeTable,
    ) -> Groups {
        let mut groups = Groups::new(limit);
        let none = NodeAssessment::default();
        for (index, assessment) in assessments.enumerate() {
            let id = NodeId::from_index(index);
            if let Some(node) = nodes.node(id) {
                groups.apply_node(nodes.name(id), id, &node.labels, &none);
            }
            groups.update(nodes.name(id), id, &none, &assessment);
        }
        groups
    }

    /// Removes a slot with neither a node nor pods from all counts and sets at once, because
    /// another node may get its number before the next plan.
    pub(super) fn clear_if_vacant(&mut self, id: NodeId, nodes: &NodeTable) {
        let slot = &mut self.slots[id.index()];
        if slot.is_vacant() {
            let old = std::mem::take(&mut slot.assessment);
            self.apply_assessment(id, old, nodes);
            self.rollout.apply_node(id, nodes.name(id), None);
            self.slots[id.index()].flags.remove(SlotFlags::LOST_POD);
            self.backoffs.ended_pods.forget(id);
            self.backoffs.lost_pods.forget(id);
            self.overrides.forget(id);
            self.index.retry_order.clear(nodes.name(id));
            self.index.pending_names.settle(nodes.name(id));
        }
    }

    fn assess_all(&self, now: Now) -> impl Iterator<Item = NodeAssessment> {
        let assessor = Assessor::new(&self.daemon_set, self.rollout.rules(), &self.labels, now);
        self.slots.iter().enumerate().map(move |(index, slot)| {
            let id = NodeId::from_index(index);
            self.rollout.judged(id, assessor.assess(slot, self.delays(id, now)).assessment)
        })
    }

    fn delays(&self, id: NodeId, now: Now) -> NodeDelays {
        NodeDelays {
            deletion_until: self.backoffs.ended_pods.until(id, now.steady),
            creation_until: self.backoffs.lost_pods.until(id, now.steady),
        }
    }

    /// Limits how often debug builds recompute the counts: each time visits all slots.
    fn is_recount_due(&self) -> bool {
        self.assessing.count.is_multiple_of(self.slots.len() as u64 / 64 + 1)
    }
}
