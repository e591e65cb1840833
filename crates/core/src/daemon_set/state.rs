//! The state of one DaemonSet, and what observations change.
//!
//! Observations change slots and mark them. [`plan`](DaemonSetState::plan) assesses the marked
//! slots and those whose assessment expired, updates counts and sets by the difference, and then
//! visits only the nodes in those sets.

mod inspect;
mod overrides;
mod parts;
mod planning;
mod pods;
mod refresh;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::{
    Budget, ConfigCopies, ConfigMap, ConfigMaps, ConfigRule, DaemonSet, DaemonSetKey,
    KnownConfigMaps, Labels, MayOverride, NamespaceNodeSelector, NodeName, Now, Overrides, Pod,
    PolicySource, Problem, Revision, RevisionHash, RolloutReason, Timestamp, Uid, WaveName,
};
use crate::backoff::{Backoff, Cause};
use crate::copying::Copying;
use crate::expectations::Expectations;
use crate::node_table::{NodeId, NodeTable};
use crate::ownership::{self, Ownership};
use crate::placement::{self, Reason};
use crate::plan::Watermarks;
use crate::pod_changes::PodChanges;
use crate::revisions::{RevisionHistory, RevisionLabels};
use crate::rollout::{
    NodeStanding, RolloutInput, RolloutState, RolloutStatus, StateCounts, Target, WaveStanding,
};

use super::index::NodeCounts;
use crate::config::{Config, PodDuty};
use crate::node::{Health, NodeState, RolloutParameters, Scheduling, Slot, Wave};

use overrides::{NodeOverrides, OverrideInput};
use parts::{
    Asking, Assessing, Backoffs, CreationLimits, Index, OtherPods, Reports, StatusWrites,
    StoredTarget,
};

pub use inspect::{Availability, InspectedPod, Inspection};

/// Everything known of one DaemonSet.
///
/// A caller follows this protocol:
///
/// - It applies observations (`apply_…`, `delete_…`, `reset_…`). If one of them returns `true`,
///   something that a plan reads has changed, and a plan is due.
/// - It executes the writes of each [`plan`](Self::plan), and returns the result of every write
///   exactly once, in any order, through [`apply_result`](Self::apply_result).
/// - A plan is also due when all results of the last plan have been applied, when a watch has
///   reached the last write of its kind, and at [`Plan::requeue_at`].
/// - After [`NodeTable::apply`] or [`NodeTable::delete`] it calls [`apply_node`](Self::apply_node)
///   before the next plan. When the DaemonSet is deleted, it calls [`detach`](Self::detach).
#[derive(Debug)]
pub struct DaemonSetState {
    config: Config,
    daemon_set: DaemonSet,
    /// Number of changes of `daemon_set`, but for its status.
    daemon_set_changes: u64,
    namespace_node_selector: NamespaceNodeSelector,
    slots: Vec<Slot>,
    assessing: Assessing,
    index: Index,
    labels: RevisionLabels,
    other_pods: OtherPods,
    /// When the deletions of terminating pods were requested (C58).
    deleted_at: BTreeMap<Uid, Timestamp>,
    asking: Asking,
    /// The pods that are changed in place (G56).
    changes: PodChanges,
    /// The overrides that count on nodes (G57).
    overrides: NodeOverrides,
    /// The copies of ConfigMaps (G58).
    copying: Copying,
    history: RevisionHistory,
    target: StoredTarget,
    rollout: RolloutState,
    backoffs: Backoffs,
    expectations: Expectations,
    reports: Reports,
}

/// The number of failures in a row after which records do not wait until new pods are marked.
const FAILED_MARKS_MAX: u32 = 10;

impl DaemonSetState {
    /// The state of a DaemonSet that has no pods and no revisions yet.
    pub fn new(config: Config, daemon_set: DaemonSet, nodes: &NodeTable) -> Self {
        let daemon_set = config.visible_daemon_set(daemon_set);
        let problems = daemon_set.problems.iter().cloned().chain(daemon_set.policy.problem());
        let reports = Reports {
            problems: problems.collect(),
            was_selecting_all_reported: false,
            was_not_guarded_reported: false,
            reported_order: None,
            status: StatusWrites::default(),
        };
        let backoffs = Backoffs {
            ended_pods: Backoff::new(Cause::Failure),
            lost_pods: Backoff::new(Cause::Loss),
            creations: CreationLimits::default(),
        };
        let mut state = Self {
            config,
            daemon_set,
            daemon_set_changes: 0,
            namespace_node_selector: NamespaceNodeSelector::default(),
            slots: Vec::new(),
            assessing: Assessing::default(),
            index: Index::default(),
            labels: RevisionLabels::new(config.may_override() == MayOverride::Running),
            other_pods: OtherPods::default(),
            deleted_at: BTreeMap::new(),
            asking: Asking::default(),
            changes: PodChanges::default(),
            overrides: NodeOverrides::default(),
            copying: Copying::default(),
            history: RevisionHistory::default(),
            target: StoredTarget::default(),
            rollout: RolloutState::default(),
            backoffs,
            expectations: Expectations::default(),
            reports,
        };
        state.backoffs.ended_pods.set_generation(state.daemon_set.status.observed_generation);
        state.backoffs.lost_pods.set_generation(state.daemon_set.generation);
        state.evaluate_all(nodes);
        state
    }

    /// Namespace and name.
    pub const fn key(&self) -> &DaemonSetKey {
        &self.daemon_set.key
    }

    /// The UID of the DaemonSet.
    pub const fn uid(&self) -> &Uid {
        &self.daemon_set.uid
    }

    /// The newest known version of the DaemonSet.
    pub const fn daemon_set(&self) -> &DaemonSet {
        &self.daemon_set
    }

    /// True if this installation creates the pods, and all that belongs to it.
    fn creates_pods(&self) -> bool {
        self.config.mode.duties().pods == PodDuty::All
    }

    /// True if this state can continue with `daemon_set`. If not (it was deleted and created again,
    /// or its selector, which is immutable in apps/v1, differs), a new state is needed, and all
    /// pods and revisions of the namespace must be applied to it.
    pub fn accepts(&self, daemon_set: &DaemonSet) -> bool {
        self.daemon_set.uid == daemon_set.uid && self.daemon_set.selector == daemon_set.selector
    }

    /// True if an orphan with these labels would be adopted (C21). An empty selector adopts nothing
    /// (C33).
    pub fn selects(&self, labels: &Labels) -> bool {
        ownership::adopts(self.daemon_set.selector.as_ref(), labels)
    }

    /// True if an object of the namespace with this controller and these labels must be applied to
    /// this state: it is owned, or an orphan that matches (C21).
    pub fn concerns(&self, controller: Option<&Uid>, labels: &Labels) -> bool {
        ownership::concerns(&self.daemon_set, controller, labels)
    }

    /// Applies the DaemonSet of a watch event; [`accepts`](Self::accepts) must hold. A restarted
    /// watch may repeat an older version, which is ignored.
    pub fn apply_daemon_set(&mut self, daemon_set: DaemonSet, nodes: &NodeTable) -> bool {
        let is_repeated = daemon_set.resource_version < self.daemon_set.resource_version;
        !is_repeated && self.replace_daemon_set(daemon_set, nodes)
    }

    /// Applies the DaemonSet of a list, even if it is older than the known version (C1);
    /// [`accepts`](Self::accepts) must hold.
    pub fn replace_daemon_set(&mut self, daemon_set: DaemonSet, nodes: &NodeTable) -> bool {
        debug_assert!(self.accepts(&daemon_set), "the caller checks accepts()");
        let copies = self.daemon_set.copies.clone();
        let daemon_set = self.config.visible_daemon_set(DaemonSet { copies, ..daemon_set });
        let mut old = std::mem::replace(&mut self.daemon_set, daemon_set);
        let is_placed_alike = self.daemon_set.template.placement == old.template.placement;
        if is_placed_alike {
            // Revisions share it: what is stored once is compared at once.
            self.daemon_set.template.placement = old.template.placement.clone();
        }
        let new = &self.daemon_set;
        let changed = *new != old;
        // Its status is no change of it.
        (old.resource_version, old.status) = (new.resource_version, new.status.clone());
        self.daemon_set_changes += u64::from(*new != old);
        if new.problems != old.problems {
            self.reports.problems.extend(new.problems.iter().cloned());
        }
        if new.policy != old.policy {
            // The old policy is gone: a problem with it that was not reported yet is dropped.
            self.reports.problems.retain(|problem| !matches!(problem, Problem::Policy { .. }));
            self.reports.problems.extend(new.policy.problem());
            self.reports.was_not_guarded_reported = false;
        }
        if new.generation != old.generation {
            self.reports.was_selecting_all_reported = false;
            self.backoffs.creations.delay = None;
        }
        let is_assessed_alike = RolloutParameters::new(new) == RolloutParameters::new(&old);
        let mut backed_off =
            self.backoffs.ended_pods.set_generation(new.status.observed_generation);
        backed_off.extend(self.backoffs.lost_pods.set_generation(new.generation));
        if new.retry != old.retry {
            backed_off.extend(self.backoffs.ended_pods.end_all());
            backed_off.extend(self.backoffs.lost_pods.end_all());
            self.backoffs.creations.delay = None;
        }
        let overrides = |of: &DaemonSet| of.policy.valid().map(|it| it.overrides().cloned());
        if new.template.canonical != old.template.canonical || overrides(new) != overrides(&old) {
            self.history.forget_current();
        }
        let of_running = |of: &DaemonSet| of.overrides_of_running().cloned();
        let is_overridden_alike = self.daemon_set.may_change_overrides()
            == old.may_change_overrides()
            && Overrides::are_same(
                of_running(&self.daemon_set).as_ref(),
                of_running(&old).as_ref(),
            );
        if !is_overridden_alike {
            self.ask_about_overrides();
        }
        if !is_placed_alike {
            self.evaluate_all(nodes);
        } else if !(is_assessed_alike && is_overridden_alike) {
            self.mark_all();
        }
        for id in backed_off {
            self.mark(id);
        }
        changed
    }

    /// Applies the policy that guards the rollouts from now on. What the annotation of the
    /// DaemonSet says does not count if a policy object selects it (G4).
    pub fn apply_policy(&mut self, policy: PolicySource, nodes: &NodeTable) -> bool {
        if self.daemon_set.policy == policy {
            return false;
        }
        let daemon_set = DaemonSet { policy, ..self.daemon_set.clone() };
        self.replace_daemon_set(daemon_set, nodes)
    }

    /// Applies the node selector of the namespace's annotation (C15).
    pub fn apply_namespace_node_selector(
        &mut self,
        selector: NamespaceNodeSelector,
        nodes: &NodeTable,
    ) -> bool {
        if self.namespace_node_selector == selector {
            return false;
        }
        let malformed = selector.malformed.clone();
        self.reports.problems.extend(
            malformed.map(|message| Problem::NamespaceNodeSelector { message: message.into() }),
        );
        self.namespace_node_selector = selector;
        self.evaluate_all(nodes);
        true
    }

    /// Evaluates one node that changed or was deleted (C16).
    pub fn apply_node(&mut self, id: NodeId, nodes: &NodeTable) -> bool {
        self.make_room(nodes);
        if nodes.is_replaced(id) {
            self.rollout.apply_node(id, nodes.name(id), None);
        }
        self.rollout.apply_node(id, nodes.name(id), nodes.node(id).map(|node| &node.labels));
        if let (Some(groups), Some(node)) = (&mut self.index.groups, nodes.node(id)) {
            let assessment = &self.slots[id.index()].assessment;
            groups.apply_node(nodes.name(id), id, &node.labels, assessment);
        }
        if nodes.node(id).is_none() {
            self.rollout.images.forget(nodes.name(id));
            self.overrides.forget(id);
        }
        let eligibility = self.evaluate(id, nodes).verdict.eligibility;
        let is_or_was_unreachable = self.apply_reachability(id, nodes);
        let (overrides, _, input) = self.override_parts();
        let has_overrides = overrides.has_any(&input);
        let slot = &mut self.slots[id.index()];
        // What has made its pods end may be over: one more try costs a pod.
        let has_recovered = nodes.has_recovered(id);
        let ends_backoff = has_recovered && self.backoffs.ended_pods.forget(id);
        let is_same = slot.eligibility == eligibility && !is_or_was_unreachable;
        if is_same && self.rollout.waves.is_none() && !ends_backoff && !has_overrides {
            // What its pod lacks is not the node's fault any more.
            return has_recovered && self.lacks_available_pod(id);
        }
        if slot.eligibility != eligibility {
            // What has deleted the pods may have been the reason for which the node changed.
            self.backoffs.lost_pods.forget(id);
        }
        slot.eligibility = eligibility;
        self.mark(id);
        self.clear_if_vacant(id, nodes);
        true
    }

    /// True if this pod of the namespace must be applied to this state: as
    /// [`concerns`](Self::concerns) says, or because it is one of a former DaemonSet (C36).
    pub fn concerns_pod(&self, pod: &Pod) -> bool {
        self.concerns(pod.controller.as_ref(), &pod.labels)
            || ownership::is_former(&self.daemon_set, pod)
    }

    /// Applies a pod's newest version: an owned pod, an orphan, one of a former DaemonSet, or one
    /// that was any of these.
    pub fn apply_pod(&mut self, pod: &Pod, nodes: &mut NodeTable) -> bool {
        self.claim_pod(pod, nodes)
    }

    /// Records since when a pod that was applied is not ready. It counts with [`Clocks::Stated`].
    ///
    /// [`Clocks::Stated`]: crate::daemon_set::Clocks::Stated
    pub fn record_not_ready_since(&mut self, pod: &Pod, since: Timestamp, nodes: &NodeTable) {
        let id = pod.target_node_name().and_then(|name| nodes.id(name));
        if let Some(slot) = id.and_then(|id| self.slots.get_mut(id.index())) {
            slot.pods.record_readiness_since(&pod.uid, since);
        }
    }

    /// Removes a deleted pod. `pod` is its last known version.
    pub fn delete_pod(&mut self, pod: &Pod, nodes: &mut NodeTable) -> bool {
        let was_former = self.forget_former_pod(pod, nodes);
        self.remove_pod(pod, nodes) || was_former
    }

    /// Applies the complete list of the pods that concern this DaemonSet; all others were deleted.
    pub fn reset_pods<'a>(
        &mut self,
        pods: impl IntoIterator<Item = &'a Pod>,
        nodes: &mut NodeTable,
    ) -> bool {
        let mut changed = false;
        let mut seen = BTreeSet::new();
        for pod in pods {
            changed |= self.claim_pod(pod, nodes);
            seen.insert(pod.uid.clone());
        }
        self.forget_pods_except(&seen, nodes) || changed
    }

    /// Applies a revision's newest version: an owned one, an orphan, or one that was either (C46).
    pub fn apply_revision(&mut self, revision: Revision) -> bool {
        !self.history.is_repeated(&revision) && self.replace_revision(revision)
    }

    fn replace_revision(&mut self, revision: Revision) -> bool {
        let revision = self.config.mode.visible_revision(revision);
        let ownership = revision.ownership(&self.daemon_set);
        let is_gone = revision.terminating || ownership == Ownership::Foreign;
        let was_awaited = is_gone && self.expectations.saw_deletion(&revision.uid);
        let problem = revision.problem();
        let changed = self.history.apply(revision, &self.daemon_set);
        self.reports.problems.extend(problem.filter(|_| changed));
        if changed {
            // A revision may be stored now of pods that cannot get their override.
            let kept: Vec<NodeId> = self.overrides.running.kept.keys().copied().collect();
            kept.into_iter().for_each(|id| self.mark(id));
        }
        changed || was_awaited
    }

    /// Removes a deleted revision (C46).
    pub fn delete_revision(&mut self, revision: &Revision) -> bool {
        let was_awaited = self.expectations.saw_deletion(&revision.uid);
        self.history.delete(&revision.name, &revision.uid, &self.daemon_set) || was_awaited
    }

    /// Applies the complete list of the revisions that concern this DaemonSet; all others were
    /// deleted.
    pub fn reset_revisions(&mut self, revisions: impl IntoIterator<Item = Revision>) -> bool {
        let revisions: Vec<_> = revisions.into_iter().collect();
        let seen = revisions.iter().map(|revision| revision.uid.clone()).collect();
        let mut changed = false;
        // First, because a new revision may have the name of a deleted one.
        for (name, uid) in self.history.except(&seen) {
            changed |= self.expectations.saw_deletion(&uid);
            changed |= self.history.delete(&name, &uid, &self.daemon_set);
        }
        for revision in revisions {
            changed |= self.replace_revision(revision);
        }
        changed
    }

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
        self.history.copies_of_target(&self.daemon_set)
    }

    /// Records that the API server was restored from a backup: writes since that backup may be
    /// lost, unless a watch has shown them (C1, C60).
    pub fn restored(&mut self) {
        self.expectations.record_restore();
    }

    /// Releases all nodes, because the DaemonSet was deleted.
    pub fn detach(mut self, nodes: &mut NodeTable) {
        self.forget_pods_except(&BTreeSet::new(), nodes);
    }

    /// The counts that the status reports, as of the last plan.
    pub const fn counts(&self) -> &NodeCounts {
        &self.index.counts
    }

    /// The reasons against a pod on this node (C10), by the revision that governs it (G1). Without
    /// any, the node gets a pod.
    pub fn reasons_against<'a>(&'a self, id: NodeId, nodes: &'a NodeTable) -> Vec<Reason<'a>> {
        let slot = self.slots.get(id.index());
        let pods = slot.map_or(&[][..], |slot| slot.pods.as_slice());
        let wave = slot.map_or(Wave::Closed, |slot| slot.wave);
        let governing = self.rollout.gate.governing(pods, wave, &self.labels);
        let placement = &*governing.template(&self.daemon_set.template).placement;
        let reasons = nodes.node(id).map(|node| {
            placement::reasons_against(placement, &self.namespace_node_selector.labels, node)
        });
        reasons.into_iter().flatten().collect()
    }

    /// The state of a node right after a plan made at `now`.
    pub fn inspect(&self, id: NodeId, now: impl Into<Now>, nodes: &NodeTable) -> Inspection {
        let slot = &self.slots[id.index()];
        debug_assert_eq!(
            slot.eligibility,
            self.evaluate(id, nodes).verdict.eligibility,
            "the node was applied"
        );
        let budget = self.daemon_set.budget(self.index.counts.desired);
        let former_pods = self.other_pods.former.get(&id);
        let former_pods = former_pods.into_iter().flat_map(BTreeMap::values).cloned().collect();
        let assessor = self.sync_input(now.into(), nodes).assessor();
        Inspection { former_pods, ..Inspection::new(slot, &assessor, budget) }
    }

    /// True if the node should run a pod and has none that is available, as of the last plan.
    pub fn lacks_available_pod(&self, id: NodeId) -> bool {
        let assessment = self.slots.get(id.index()).map(|slot| &slot.assessment);
        assessment.is_some_and(|assessment| {
            let is_available = matches!(
                assessment.scheduling,
                Scheduling::Scheduled { health: Health::Available, .. }
            );
            assessment.is_desired() && !is_available
        })
    }

    /// Number of nodes that use one of the budget that applies, as of the last plan.
    pub fn budget_used(&self) -> usize {
        match self.daemon_set.budget(self.index.counts.desired) {
            None => 0,
            Some(Budget::Unavailable(_)) => self.index.counts.uses_unavailable,
            Some(Budget::Surge(_)) => self.index.counts.uses_surge,
        }
    }

    /// Where the rollout is; `None` if it is neither guarded nor paused.
    pub fn rollout_status(&self) -> Option<RolloutStatus> {
        let leaked_nodes = self.rollout.leaked_nodes(!self.creates_pods());
        RolloutStatus::new(&self.rollout, leaked_nodes, &self.labels)
    }

    /// The numbers of nodes by their state (G32); `None` without a valid policy.
    pub fn nodes_by_state(&self) -> Option<StateCounts> {
        self.rollout.waves.as_deref().map(|waves| waves.states())
    }

    /// The waves of a guarded rollout, and the nodes that it concerns, as of the last plan (G32).
    /// Both are empty without a valid policy.
    pub fn standings(&self, nodes: &NodeTable) -> (Vec<WaveStanding>, Vec<NodeStanding>) {
        let waves = self.rollout.waves.as_deref();
        waves.map(|waves| (waves.waves(), waves.standings(nodes))).unwrap_or_default()
    }

    /// Reason and message of the condition of a guarded or paused rollout, as of the last plan
    /// (G21).
    pub fn rollout_condition(&self) -> Option<(RolloutReason, &Arc<str>)> {
        self.rollout.condition().map(|stated| (stated.reason, &stated.message))
    }

    /// The wave that a guarded rollout is at, as of the last plan.
    pub fn wave(&self) -> Option<WaveName> {
        let policy = self.daemon_set.policy.valid()?;
        policy.wave_name(&self.rollout.moving()?.position)
    }

    /// The nodes of a guarded rollout with their states, whether their wave is open or not, as of
    /// the last plan with a valid policy (G31). For checkers.
    pub fn node_states<'a>(
        &'a self,
        nodes: &'a NodeTable,
    ) -> impl Iterator<Item = (&'a NodeName, NodeState)> {
        let waves = self.rollout.known_waves().into_iter();
        waves.flat_map(|waves| nodes.iter().map(|(id, node)| (&node.name, waves.state(id))))
    }

    /// The target that these states are about; `None` if there are none. For checkers.
    pub fn rollout_target(&self) -> Option<&Target> {
        self.rollout.known_waves().map(|waves| waves.target())
    }

    /// The UIDs of the orphan pods that it knows (C3, C21). For checkers.
    pub fn orphans(&self) -> impl Iterator<Item = &Uid> {
        let placed = self.slots.iter().flat_map(|slot| slot.pods.as_slice());
        let all = placed.chain(self.other_pods.unplaced.values());
        all.filter(|pod| pod.is_orphan()).map(|pod| &pod.uid)
    }

    /// The hashes of pods that are up to date, as of the last plan (C42, C43, C45). For checkers.
    pub fn current_hashes(&self) -> impl Iterator<Item = &RevisionHash> {
        self.labels.current_hashes()
    }

    /// The nodes whose wave is open (G1). For checkers.
    pub fn open_nodes<'a>(&'a self, nodes: &'a NodeTable) -> impl Iterator<Item = &'a NodeName> {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.wave.is_open());
        slots.map(|(index, _)| nodes.name(NodeId::from_index(index)))
    }

    /// True if results of writes, or the watches' sight of them, are awaited (C60). For checkers.
    pub fn awaits_writes(&self, watermarks: &Watermarks) -> bool {
        self.expectations.clone().waiting(watermarks).is_some()
    }

    /// Number of assessments since this state was created, for tests and metrics (C80).
    pub const fn slots_assessed(&self) -> u64 {
        self.assessing.count
    }

    /// True if a new pod has yet to say that its node is updated (G54).
    fn awaits_marks(&self) -> bool {
        !self.index.work_sets.tells.is_empty() && self.asking.failed_marks < FAILED_MARKS_MAX
    }

    /// The overrides of nodes, the slots, and the input of the overrides.
    #[inline]
    fn override_parts(&mut self) -> (&mut NodeOverrides, &mut [Slot], OverrideInput<'_>) {
        let input = OverrideInput {
            daemon_set: &self.daemon_set,
            history: &self.history,
            labels: &self.labels,
            rollout: &self.rollout,
            changes: &self.changes,
        };
        (&mut self.overrides, &mut self.slots, input)
    }

    /// The state of the rollout, and its input.
    #[inline]
    fn rollout_parts(&mut self, now: Now) -> (&mut RolloutState, RolloutInput<'_>) {
        let awaits_overrides = self.index.work_sets.awaits_overrides();
        let input = RolloutInput {
            now,
            duties: self.config.mode.duties(),
            daemon_set: &self.daemon_set,
            daemon_set_changes: self.daemon_set_changes,
            namespace_node_selector: &self.namespace_node_selector.labels,
            history: &self.history,
            labels: &self.labels,
            slots: &self.slots,
            refusal: self.backoffs.creations.refusal.as_deref(),
            question_refusal: self.asking.refusal.as_ref(),
            config_wait: self.copying.wait(),
            replacements: &self.asking.replacements,
            changes: &self.changes,
            keeps_override: &self.overrides.running.kept,
            override_failure: self.changes.failure().filter(|_| awaits_overrides),
            reported_order: self.reports.reported_order.as_ref(),
            is_rolled_out: self.index.counts.is_rolled_out(),
            misscheduled: self.index.counts.misscheduled,
            has_too_many_waves: self.rollout.has_too_many_waves(),
            clocks: self.config.clocks,
        };
        (&mut self.rollout, input)
    }
}
