//! One DaemonSet as it is known to be, and what is to be done about it.
//!
//! There is a slot for each node. A mutator changes slots and marks them; [`plan`](DaemonSetState::plan)
//! assesses the marked ones and those whose time has come, updates counts and candidate sets by the
//! difference, and then only walks candidates. So an event costs what it changes, and a plan what it
//! writes (C80). The order of all choices is that of node names, then of age (C55; docs/rollout-order.md).

mod assess;
mod candidates;
mod carried;
mod draft;
mod history;
mod inspect;
mod manage;
mod observe;
mod ownership;
mod pending;
mod refresh;
mod rolling_update;
mod slot;
mod status;
mod tally;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::{
    DaemonSet, DaemonSetKey, Labels, NamespaceNodeSelector, NodeName, Pod, PodName, Problem,
    Revision, Timestamp, Uid,
};
use crate::backoff::Backoff;
use crate::expectations::Expectations;
use crate::nodes::{NodeId, Nodes};
use crate::placement::{self, Reason};
use crate::plan::{Notice, Plan, ScheduleBy, Watermarks};
use crate::revision::{self, History};

pub use assess::Step;
use candidates::Candidates;
use carried::Carried;
use draft::Draft;
pub use inspect::{InspectedPod, Inspection};
use pending::{PendingNames, Seen};
use slot::{PodView, Slot};
pub use tally::Tally;
use turns::Turns;

/// What is the same for all DaemonSets.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// At most so many pods are created, and so many deleted, in one sync (C28).
    pub burst_replicas: usize,
    pub schedule_by: ScheduleBy,
    /// While counts go on changing, the status is written at most this often (C70, C80).
    pub status_interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            burst_replicas: 250,
            schedule_by: ScheduleBy::Scheduler,
            status_interval: Duration::ZERO,
        }
    }
}

/// All that is known of one DaemonSet. Mutators return whether anything changed that a plan could read:
/// then a plan is due. It is due, too, when the results of a plan's writes are in, when a watch has
/// reached what was written, and at [`Plan::requeue_at`].
#[derive(Debug)]
pub struct DaemonSetState {
    config: Config,
    daemon_set: DaemonSet,
    namespace_node_selector: NamespaceNodeSelector,
    slots: Vec<Slot>,
    /// Slots to be assessed by the next plan.
    marked: Vec<NodeId>,
    /// When slots are to be assessed again: a pod becomes available, a back-off ends. An entry that
    /// is out of date costs one assessment and changes nothing.
    timers: BTreeSet<(Timestamp, NodeId)>,
    tally: Tally,
    candidates: Candidates,
    turns: Turns,
    pending_names: PendingNames,
    carried: Carried,
    /// Pods that are neither on a node nor aimed at one.
    unplaced: BTreeMap<Uid, PodView>,
    /// Pods that are ours and that the selector does not match any more (C21).
    releases: BTreeMap<PodName, Uid>,
    history: History,
    backoff: Backoff,
    expectations: Expectations,
    /// Told by the next plan.
    problems: Vec<Problem>,
    told_selecting_all: bool,
    status_in_flight: bool,
    status_written_at: Option<Timestamp>,
    /// Set while the namespace is terminating: creating would only be refused again.
    no_creations_before: Option<Timestamp>,
    slots_assessed: u64,
}

impl DaemonSetState {
    pub fn new(config: Config, daemon_set: DaemonSet, nodes: &Nodes) -> Self {
        let mut state = Self {
            config,
            namespace_node_selector: NamespaceNodeSelector::default(),
            slots: Vec::new(),
            marked: Vec::new(),
            timers: BTreeSet::new(),
            tally: Tally::default(),
            candidates: Candidates::default(),
            turns: Turns::default(),
            pending_names: PendingNames::default(),
            carried: Carried::default(),
            unplaced: BTreeMap::new(),
            releases: BTreeMap::new(),
            history: History::default(),
            backoff: Backoff::default(),
            expectations: Expectations::default(),
            problems: daemon_set.problems.clone(),
            told_selecting_all: false,
            status_in_flight: false,
            status_written_at: None,
            no_creations_before: None,
            slots_assessed: 0,
            daemon_set,
        };
        state.backoff.set_observed_generation(state.daemon_set.status.observed_generation);
        state.evaluate_all(nodes);
        state
    }

    pub const fn key(&self) -> &DaemonSetKey {
        &self.daemon_set.key
    }

    pub const fn uid(&self) -> &Uid {
        &self.daemon_set.uid
    }

    pub const fn daemon_set(&self) -> &DaemonSet {
        &self.daemon_set
    }

    /// Whether this state can go on with `daemon_set`. If not (it was deleted and created anew, or its
    /// selector, which is immutable in apps/v1, differs), a new state is needed, and all pods and
    /// revisions of the namespace have to be offered to it.
    pub fn is_of(&self, daemon_set: &DaemonSet) -> bool {
        self.daemon_set.uid == daemon_set.uid && self.daemon_set.selector == daemon_set.selector
    }

    /// Whether the selector matches: an orphan with these labels would be adopted (C21). One that selects
    /// everything adopts nothing (C33).
    pub fn selects(&self, labels: &Labels) -> bool {
        let selector = self.daemon_set.selector.as_ref();
        selector.is_some_and(|selector| !selector.is_empty() && selector.matches(labels))
    }

    /// Takes the DaemonSet as a watch shows it; [`is_of`](Self::is_of) must hold. A watch may repeat an older state, which
    /// is of no account.
    pub fn apply_daemon_set(&mut self, daemon_set: DaemonSet, nodes: &Nodes) -> bool {
        let is_repeated = daemon_set.resource_version < self.daemon_set.resource_version;
        !is_repeated && self.take_daemon_set(daemon_set, nodes)
    }

    /// Takes the DaemonSet as a list has it, which holds whatever was known before (C1); [`is_of`](Self::is_of) must hold.
    pub fn take_daemon_set(&mut self, daemon_set: DaemonSet, nodes: &Nodes) -> bool {
        debug_assert!(self.is_of(&daemon_set), "a DaemonSet of its own UID and selector");
        let old = std::mem::replace(&mut self.daemon_set, daemon_set);
        let new = &self.daemon_set;
        let changed = *new != old;
        if new.problems != old.problems {
            self.problems.extend(new.problems.iter().cloned());
        }
        if new.generation != old.generation {
            self.told_selecting_all = false;
        }
        self.backoff.set_observed_generation(new.status.observed_generation);
        if new.template.canonical != old.template.canonical {
            self.history.forget_lost();
        }
        let is_assessed_alike = new.update_strategy == old.update_strategy
            && new.min_ready_seconds == old.min_ready_seconds
            && new.status.observed_generation == old.status.observed_generation;
        if new.template.placement != old.template.placement {
            self.evaluate_all(nodes);
        } else if !is_assessed_alike {
            self.mark_all();
        }
        changed
    }

    /// Takes the node selector that the namespace's annotation gives (C15).
    pub fn apply_namespace_node_selector(
        &mut self,
        selector: NamespaceNodeSelector,
        nodes: &Nodes,
    ) -> bool {
        if self.namespace_node_selector == selector {
            return false;
        }
        let malformed = selector.malformed.clone();
        self.problems.extend(
            malformed.map(|message| Problem::NamespaceNodeSelector { message: message.into() }),
        );
        self.namespace_node_selector = selector;
        self.evaluate_all(nodes);
        true
    }

    /// Looks at one node again, which has changed, or is deleted (C16).
    pub fn apply_node(&mut self, id: NodeId, nodes: &Nodes) -> bool {
        self.make_room(nodes);
        let eligibility = self.evaluate(id, nodes);
        let slot = &mut self.slots[id.index()];
        if slot.eligibility == eligibility {
            return false;
        }
        slot.eligibility = eligibility;
        self.mark(id);
        self.strike_if_vacant(id, nodes);
        true
    }

    /// Takes a pod of the namespace as it is now: ours, an orphan, or one that was either.
    pub fn apply_pod(&mut self, pod: &Pod, nodes: &mut Nodes) -> bool {
        self.claim_pod(pod, nodes)
    }

    /// Forgets a pod. `pod` is its last known state.
    pub fn delete_pod(&mut self, pod: &Pod, nodes: &mut Nodes) -> bool {
        self.expectations.saw_deletion(&pod.uid);
        self.forget_pod(pod, nodes)
    }

    /// Takes the complete list of what `apply_pod` would be given (after a list): the others are gone.
    pub fn reset_pods<'a>(
        &mut self,
        pods: impl IntoIterator<Item = &'a Pod>,
        nodes: &mut Nodes,
    ) -> bool {
        let mut changed = false;
        let mut seen = BTreeSet::new();
        for pod in pods {
            changed |= self.claim_pod(pod, nodes);
            seen.insert(pod.uid.clone());
        }
        self.forget_pods_except(&seen, nodes) || changed
    }

    /// Takes a revision of the namespace as it is now: ours, an orphan, or one that was either (C46).
    pub fn apply_revision(&mut self, revision: Revision) -> bool {
        !self.history.is_repeated(&revision) && self.take_revision(revision)
    }

    fn take_revision(&mut self, revision: Revision) -> bool {
        if revision.terminating || revision::is_foreign(&revision, &self.daemon_set) {
            self.expectations.saw_deletion(&revision.uid);
        }
        let problem = revision.problem();
        let changed = self.history.apply(revision, &self.daemon_set);
        self.problems.extend(problem.filter(|_| changed));
        changed
    }

    /// Forgets a revision (C46).
    pub fn delete_revision(&mut self, revision: &Revision) -> bool {
        self.expectations.saw_deletion(&revision.uid);
        self.history.delete(&revision.name, &revision.uid, &self.daemon_set)
    }

    /// Takes the complete list of what `apply_revision` would be given: the others are gone.
    pub fn reset_revisions(&mut self, revisions: impl IntoIterator<Item = Revision>) -> bool {
        let mut changed = false;
        let mut seen = BTreeSet::new();
        for revision in revisions {
            seen.insert(revision.uid.clone());
            changed |= self.take_revision(revision);
        }
        for (name, uid) in self.history.except(&seen) {
            self.expectations.saw_deletion(&uid);
            changed |= self.history.delete(&name, &uid, &self.daemon_set);
        }
        changed
    }

    /// The server was restored from a backup: what was written since that, and is yet to be seen, may never be (C1, C60).
    pub fn restored(&mut self) {
        self.expectations.restored();
    }

    /// Lets go of all nodes: the DaemonSet is gone.
    pub fn detach(mut self, nodes: &mut Nodes) {
        self.forget_pods_except(&BTreeSet::new(), nodes);
    }

    /// What is to be done now. Every write of it has to come back through [`observe`](Self::observe);
    /// while some are out, only the status is refreshed. While one has yet to be seen, there may besides be
    /// deletions that were planned before and whose outcome is unknown.
    pub fn plan(&mut self, now: Timestamp, watermarks: &Watermarks, nodes: &Nodes) -> Plan {
        let mut draft = Draft::new(self.config.burst_replicas);
        if self.daemon_set.terminating {
            return draft.plan;
        }
        draft.plan.notices.extend(self.problems.drain(..).map(Notice::Problem));
        if !self.may_act(&mut draft.plan) {
            return draft.plan;
        }
        self.refresh(now, nodes);
        self.give_up_deletions(now);
        self.look_for_pending_names(now, nodes);
        if self.still_waiting(now, watermarks, &mut draft.plan) {
            self.repeat_deletions(now, nodes, &mut draft);
            self.plan_status(None, now, &mut draft);
        } else {
            self.plan_writes(now, &mut draft);
        }
        let requeue_at = self.requeue_at(now, draft.plan.waiting.is_some());
        draft.plan.requeue_at = requeue_at.into_iter().chain(draft.status_due_at).min();
        self.hand_out(&draft.plan, now);
        draft.plan
    }

    /// The counts that the status reports and the rollout goes by, as of the last plan.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What speaks against a pod on this node (C10). Nothing: it gets one.
    pub fn reasons_against<'a>(&'a self, id: NodeId, nodes: &'a Nodes) -> Vec<Reason<'a>> {
        let placement = &self.daemon_set.template.placement;
        let reasons = nodes.node(id).map(|node| {
            placement::reasons_against(placement, &self.namespace_node_selector.labels, node)
        });
        reasons.into_iter().flatten().collect()
    }

    /// How many slots were assessed since the start: the measure of C80.
    pub const fn slots_assessed(&self) -> u64 {
        self.slots_assessed
    }

    /// C33, and C4: whether there are a selector and a template to go by. Without the present template nothing is done by
    /// the one before, either: whoever has changed it does not want that one any more, and is told by an event why nothing
    /// happens.
    fn may_act(&mut self, plan: &mut Plan) -> bool {
        let Some(selector) = &self.daemon_set.selector else { return false };
        if self
            .daemon_set
            .problems
            .iter()
            .any(|problem| matches!(problem, Problem::Template { .. }))
        {
            return false;
        }
        if selector.is_empty() && !self.told_selecting_all {
            self.told_selecting_all = true;
            plan.notices.push(Notice::SelectingAll);
        }
        !selector.is_empty()
    }

    /// C56, C60: whether something written is yet to be seen.
    fn still_waiting(&mut self, now: Timestamp, watermarks: &Watermarks, plan: &mut Plan) -> bool {
        plan.waiting = self.expectations.waiting(watermarks);
        self.expectations.begin_restored(now);
        if plan.waiting.is_some()
            && let Some(lapsed) = self.expectations.lapse(now)
        {
            plan.notices.push(lapsed);
            plan.waiting = None;
        }
        plan.waiting.is_some()
    }

    /// A pod whose creation was not answered is seen: the creation succeeded (C35). Its successor has to wait for the name,
    /// unless it may be beside it.
    fn look_for_pending_names(&mut self, now: Timestamp, nodes: &Nodes) {
        let surges = self.daemon_set.update_strategy.surges();
        let Self { pending_names, slots, .. } = self;
        let sees = |node: &NodeName, name: &PodName| {
            let slot = nodes.id(node).and_then(|id| slots.get(id.index()))?;
            let pod = slot.pods.as_slice().iter().find(|pod| pod.name == *name)?;
            Some(if pod.terminating && !surges { Seen::Leaving } else { Seen::Staying })
        };
        for node in pending_names.look(sees, now) {
            self.turns.forget(&node);
        }
    }

    fn plan_writes(&mut self, now: Timestamp, draft: &mut Draft) {
        self.plan_ownership(draft);
        let Some(hash) = self.plan_history(now, draft) else { return };
        if self.is_creation_held(now) {
            draft.hold_creations();
        }
        self.manage(&hash, now, draft);
        self.rolling_update(&hash, now, draft);
        self.turns.arrange(&mut draft.plan.writes);
        self.truncate_history(draft);
        self.plan_status(Some(self.daemon_set.generation), now, draft);
    }

    /// C28: whether creating was refused not long ago because the namespace is terminating.
    fn is_creation_held(&self, now: Timestamp) -> bool {
        self.no_creations_before.is_some_and(|at| now < at)
    }

    fn requeue_at(&self, now: Timestamp, waiting: bool) -> Option<Timestamp> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let lapse = if waiting { self.expectations.lapses_at() } else { None };
        let surge_room_free_at = self.pending_names.surge_room_free_at(now);
        let others = [
            self.no_creations_before,
            lapse,
            self.backoff.collect_at(),
            self.expectations.gives_up_at(),
            surge_room_free_at.filter(|_| self.daemon_set.update_strategy.surges()),
        ];
        let others = others.into_iter().chain(self.history.due_at());
        timer.into_iter().chain(others.flatten()).filter(|at| *at > now).min()
    }
}
