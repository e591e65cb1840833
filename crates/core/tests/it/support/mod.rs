//! A cluster around one `DaemonSetState`, in memory and in virtual time: an API server that
//! executes plans, watches that can be delayed, and kubelets.

pub(crate) mod config_maps;
mod controllers;
mod object;
mod pullers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use everynode_core::admission;
use everynode_core::api::{
    CheckAnswer, DaemonSet, HASH_LABEL, ImagePuller, Node, NodeName, Now, Overrides, Pod, PodName,
    PodPhase, Problem, PullState, Readiness, RecordState, ResourceVersion, Revision, RevisionName,
    Status, Timestamp, Uid,
};
use everynode_core::daemon_set::{Config, DaemonSetState};
use everynode_core::node_table::NodeTable;
use everynode_core::plan::{
    CheckQuestion, NewChange, NewPod, NewPuller, NewRevision, Outcome, Plan, RevisionReference,
    ScheduleBy, Watermarks, Write, WriteResult,
};

use config_maps::ServedConfigMaps;
use controllers::concerns_checks;
use object::assert_made_from_its_revision;
pub(crate) use object::{ANOTHER_KIND, Fault, daemon_set, node, pod, revision, with_label};
use pullers::Pullers;

pub(crate) const DS_UID: &str = "ds-uid";

pub(crate) struct World {
    config: Config,
    pub now: Timestamp,
    /// How far the wall clock, whose time objects have, is ahead of `now`.
    pub wall_ahead_ms: i64,
    pub nodes: NodeTable,
    pub state: DaemonSetState,
    pub server: Server,
    /// Events that the watches have not delivered, in order.
    events: VecDeque<Event>,
    watermarks: Watermarks,
    /// Kinds whose watch delivers nothing.
    delayed: BTreeSet<Kind>,
    /// Pods that a kubelet must look at.
    unsettled: BTreeSet<PodName>,
    pub faults: VecDeque<Fault>,
    /// The answer to each check, by its name. Others are not answered yet.
    pub answers: BTreeMap<String, CheckAnswer>,
    /// Checks that were asked and not answered.
    questions: Vec<CheckQuestion>,
    /// Changes created pods.
    pub webhook: Option<Webhook>,
    /// True if counts are recomputed after each plan, which costs a pass over the nodes.
    pub recounts: bool,
}

/// A mutating webhook for created pods.
pub(crate) type Webhook = Box<dyn Fn(Pod) -> Pod>;

/// The objects of the API server.
pub(crate) struct Server {
    pub version: u64,
    pub daemon_set: DaemonSet,
    pub pods: BTreeMap<PodName, Pod>,
    pub revisions: BTreeMap<RevisionName, Revision>,
    /// The overrides that policies stated when revisions were created.
    pub overrides: Vec<Arc<Overrides>>,
    pub pullers: Pullers,
    pub config_maps: ServedConfigMaps,
    /// Number of pods created so far for each node, and of revisions with each name.
    created: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    DaemonSets,
    Pods,
    Revisions,
}

enum Event {
    DaemonSet(Box<DaemonSet>),
    Pod(Pod),
    PodGone(Pod),
    Puller(ImagePuller),
    PullerGone(ImagePuller),
    Revision(Revision),
    RevisionGone(Revision),
}

impl World {
    pub(crate) fn new(daemon_set: DaemonSet) -> Self {
        Self::with_config(Config::default(), daemon_set)
    }

    pub(crate) fn with_config(config: Config, daemon_set: DaemonSet) -> Self {
        let nodes = NodeTable::default();
        Self {
            now: Timestamp::from_seconds(1000),
            wall_ahead_ms: 0,
            config,
            state: DaemonSetState::new(config, daemon_set.clone(), &nodes),
            nodes,
            server: Server {
                version: 1,
                daemon_set,
                pods: BTreeMap::new(),
                revisions: BTreeMap::new(),
                overrides: Vec::new(),
                pullers: Pullers::default(),
                config_maps: ServedConfigMaps::default(),
                created: BTreeMap::new(),
            },
            events: VecDeque::new(),
            watermarks: Watermarks::default(),
            delayed: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            faults: VecDeque::new(),
            answers: BTreeMap::new(),
            questions: Vec::new(),
            webhook: None,
            recounts: true,
        }
    }

    /// Applies a node. One that comes without a time was created now.
    pub(crate) fn apply_node(&mut self, mut node: Node) {
        let known = self.nodes.id(&node.name).and_then(|id| self.nodes.node(id));
        let at = known.map_or(self.time().wall_seconds(), |known| known.created);
        node.created = if node.created == Timestamp(0) { at } else { node.created };
        let changed = self.nodes.apply(node);
        changed.map(|id| self.state.apply_node(id, &self.nodes));
    }

    pub(crate) fn delete_node(&mut self, name: &str) {
        let Some(id) = self.nodes.delete(&name.into()) else { return };
        self.state.apply_node(id, &self.nodes);
        self.nodes.collect(id);
    }

    /// Changes the DaemonSet as a user does: a changed spec is a new generation.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut DaemonSet)) {
        let old = self.server.daemon_set.clone();
        change(&mut self.server.daemon_set);
        let new = &mut self.server.daemon_set;
        let templates_differ = new.template != old.template;
        if templates_differ
            || new.update_strategy != old.update_strategy
            || new.min_ready_seconds != old.min_ready_seconds
            || new.revision_history_limit != old.revision_history_limit
        {
            new.generation += 1;
        }
        if templates_differ && let Some(generation) = &mut new.template_generation {
            *generation += 1;
        }
        self.put_daemon_set();
    }

    pub(crate) fn put_pod(&mut self, mut pod: Pod) {
        object::set_version(&mut pod, self.server.next_version());
        self.server.pods.insert(pod.name.clone(), pod.clone());
        self.unsettled.insert(pod.name.clone());
        self.events.push_back(Event::Pod(pod));
        self.deliver();
    }

    pub(crate) fn remove_pod(&mut self, name: &PodName) {
        self.server.next_version();
        if let Some(pod) = self.server.pods.remove(name) {
            self.events.push_back(Event::PodGone(pod));
            self.deliver();
        }
    }

    pub(crate) fn put_revision(&mut self, mut revision: Revision) {
        revision.resource_version = ResourceVersion(self.server.next_version());
        self.server.revisions.insert(revision.name.clone(), revision.clone());
        self.events.push_back(Event::Revision(revision));
        self.deliver();
    }

    pub(crate) fn remove_revision(&mut self, name: &RevisionName) {
        self.server.next_version();
        if let Some(revision) = self.server.revisions.remove(name) {
            self.events.push_back(Event::RevisionGone(revision));
            self.deliver();
        }
    }

    /// Stops the watch of this kind.
    pub(crate) fn delay(&mut self, kind: Kind) {
        self.delayed.insert(kind);
    }

    /// Delivers all events, and stops no watch any more.
    pub(crate) fn deliver_delayed(&mut self) {
        self.delayed.clear();
        self.deliver();
    }

    /// Restarts the watch of pods with a list.
    pub(crate) fn relist(&mut self) {
        self.events.retain(|event| !matches!(event, Event::Pod(_) | Event::PodGone(_)));
        self.delayed.remove(&Kind::Pods);
        self.state.reset_pods(self.server.pods.values(), &mut self.nodes);
        self.state.reset_pullers(self.server.pullers.pods.values(), &self.nodes);
        let version = self.server.next_version();
        self.reach(Kind::Pods, version);
        self.deliver();
    }

    pub(crate) fn advance(&mut self, duration: Duration) {
        self.now = self.now + duration;
    }

    fn time(&self) -> Now {
        Now { steady: self.now, wall_ahead_ms: self.wall_ahead_ms }
    }

    pub(crate) fn plan(&mut self) -> Plan {
        self.observe_config_maps();
        let plan = self.state.plan(self.time(), &self.watermarks, &self.nodes);
        self.check_plan(&plan);
        plan
    }

    /// Plans, executes the writes, and delivers watch events.
    pub(crate) fn sync(&mut self) -> Plan {
        let plan = self.plan();
        self.perform(&plan);
        self.deliver();
        plan
    }

    pub(crate) fn perform(&mut self, plan: &Plan) {
        for mut write in plan.writes.clone() {
            let outcome = self.perform_write(&mut write);
            self.state.apply_result(WriteResult { write, outcome }, self.now);
        }
        self.answer_checks(plan);
    }

    /// Syncs and runs the kubelets until nothing changes at the current time. Returns the plans
    /// that contain writes, or ask or report checks.
    pub(crate) fn settle(&mut self) -> Vec<Plan> {
        let mut plans = Vec::new();
        for _ in 0..100_000 {
            let plan = self.sync();
            let others_acted = self.kubelets() | self.built_in();
            let is_empty = plan.writes.is_empty() && !concerns_checks(&plan);
            let is_idle = is_empty && !others_acted;
            if !is_empty {
                plans.push(plan);
            }
            if is_idle {
                return plans;
            }
        }
        panic!("the cluster does not settle");
    }

    /// Settles, advances to the next deadline, and repeats that until there is none.
    pub(crate) fn settle_all_deadlines(&mut self) -> Vec<Plan> {
        let mut plans = self.settle();
        for _ in 0..10_000 {
            let plan = self.plan();
            assert!(plan.writes.is_empty(), "settled, but {plan}");
            let Some(at) = plan.requeue_at else { return plans };
            self.now = at.max(self.now);
            plans.extend(self.settle());
        }
        panic!("there is always another deadline");
    }

    /// Runs the kubelets and the scheduler: pods are bound, become ready or end. Returns whether
    /// anything changed.
    pub(crate) fn kubelets(&mut self) -> bool {
        let mut acted = false;
        for name in std::mem::take(&mut self.unsettled) {
            let Some(mut pod) = self.server.pods.get(&name).cloned() else { continue };
            if pod.terminating {
                self.remove_pod(&name);
                acted = true;
            } else if pod.phase == PodPhase::Pending && self.is_node(pod.target_node_name()) {
                pod.node_name = pod.target_node_name().cloned();
                pod.phase = PodPhase::Running;
                pod.readiness = Readiness::ReadySince(self.now);
                self.put_pod(pod);
                acted = true;
            } else if pod.phase == PodPhase::Pending {
                self.unsettled.insert(name);
            }
        }
        acted
    }

    pub(crate) fn deliver(&mut self) {
        let delayed = self.delayed.clone();
        let (kept, due): (VecDeque<Event>, VecDeque<Event>) =
            self.events.drain(..).partition(|event| delayed.contains(&event.kind()));
        self.events = kept;
        for event in due {
            self.deliver_one(event);
        }
        for kind in [Kind::DaemonSets, Kind::Pods, Kind::Revisions] {
            if !delayed.contains(&kind) {
                self.reach(kind, self.server.version);
            }
        }
    }

    fn deliver_one(&mut self, event: Event) {
        match event {
            Event::DaemonSet(daemon_set) if !self.state.accepts(&daemon_set) => {
                self.restart(*daemon_set);
            }
            Event::DaemonSet(daemon_set) => {
                self.state.apply_daemon_set(*daemon_set, &self.nodes);
            }
            Event::Pod(pod) => {
                self.state.apply_pod(&pod, &mut self.nodes);
            }
            Event::PodGone(pod) => {
                self.state.delete_pod(&pod, &mut self.nodes);
            }
            Event::Puller(puller) => {
                self.state.apply_puller(&puller, &self.nodes);
            }
            Event::PullerGone(puller) => {
                self.state.delete_puller(&puller, &self.nodes);
            }
            Event::Revision(revision) => {
                self.state.apply_revision(revision);
            }
            Event::RevisionGone(revision) => {
                self.state.delete_revision(&revision);
            }
        }
    }

    fn reach(&mut self, kind: Kind, version: u64) {
        let watermark = match kind {
            Kind::DaemonSets => &mut self.watermarks.daemon_sets,
            Kind::Pods => &mut self.watermarks.pods,
            Kind::Revisions => &mut self.watermarks.revisions,
        };
        *watermark = ResourceVersion(version);
    }

    fn is_node(&self, name: Option<&NodeName>) -> bool {
        name.and_then(|name| self.nodes.id(name)).is_some_and(|id| self.nodes.node(id).is_some())
    }

    fn check_plan(&self, plan: &Plan) {
        let ds = self.state.daemon_set();
        let is_unreadable = ds.problems.iter().any(|p| matches!(p, Problem::Template { .. }));
        let selects_something = ds.selector.as_ref().is_some_and(|selector| !selector.is_empty());
        if ds.terminating || is_unreadable || !selects_something {
            let is_left = |write: &Write| ds.terminating && matches!(write, Write::DeletePuller(_));
            assert!(plan.writes.iter().all(is_left), "the DaemonSet must not be synced");
            return;
        }
        let is_consistent = || self.state.is_consistent(self.time(), &self.nodes);
        assert!(!self.recounts || is_consistent(), "counts or sets differ from a recount");
        let mut deleted = BTreeSet::new();
        for uid in plan.writes.iter().filter_map(Write::deleted) {
            assert!(deleted.insert(uid), "{uid} is deleted twice");
        }
    }

    /// Executes a write like the controller does: it chooses the names of pods.
    fn perform_write(&mut self, write: &mut Write) -> Outcome {
        let text = write.to_string();
        let at = self.faults.iter().position(|fault| text.starts_with(&fault.write));
        let fault = at.and_then(|at| self.faults.remove(at));
        let is_sent = fault.as_ref().is_none_or(|f| matches!(f.outcome, Outcome::Unknown { .. }));
        if let Write::CreatePod(new) = write
            && new.name.is_none()
            && is_sent
        {
            new.name = Some(self.new_name(&new.node));
        }
        match fault {
            None => self.perform_without_fault(write),
            Some(fault) => {
                if fault.takes_effect {
                    self.perform_without_fault(write);
                }
                fault.outcome
            }
        }
    }

    fn perform_without_fault(&mut self, write: &mut Write) -> Outcome {
        match write {
            Write::CreatePod(new) => self.create_pod(new),
            Write::DeletePod(pod) => self.delete_pod(&pod.name, &pod.uid),
            Write::PullImages(new) => self.pull_images(new),
            Write::DeletePuller(pod) => self.delete_puller(&pod.uid),
            Write::CopyConfigMap(new) => self.copy_config_map(new),
            Write::DeleteCopy(copy) => self.delete_copy(copy),
            Write::CreateRevision(new) => self.create_revision(new),
            Write::DeleteRevision(revision) => {
                self.remove_revision(&revision.name);
                self.written(&revision.uid)
            }
            _ if let Some(conflict) = object::conflict(&self.server.pods, write) => conflict,
            Write::AdoptPod(pod)
            | Write::ReleasePod(pod)
            | Write::RelabelPod { pod, .. }
            | Write::AskForReplacement { pod, .. }
            | Write::ChangePod(NewChange { pod, .. })
            | Write::FinishChange { pod, .. }
            | Write::MarkReplaced { pod, .. } => {
                self.edit_pod(&pod.name.clone(), |pod| object::patch(pod, write))
            }
            Write::AdoptRevision(revision) => self.edit_revision(revision, |r| {
                (r.controller, r.template_generation) = (Some(DS_UID.into()), None);
            }),
            Write::ReleaseRevision(it) => self.edit_revision(it, |r| r.controller = None),
            Write::LabelRevision { revision, hash } => self.edit_revision(revision, |r| {
                r.labels = with_label(&r.labels, HASH_LABEL, hash.as_str());
            }),
            Write::RaiseRevision { revision, number, template_generation: of } => {
                self.edit_revision(revision, |r| (r.number, r.template_generation) = (*number, *of))
            }
            Write::WriteRecord { revision, record } => {
                self.edit_revision(revision, |r| r.record = RecordState::Stored(record.clone()))
            }
            Write::RaiseCollisionCount { resource_version, collision_count } => {
                self.edit_status(*resource_version, |s| s.collision_count = Some(*collision_count))
            }
            Write::UpdateStatus { resource_version, status, ends_rollout } => {
                self.edit_status(*resource_version, |s| {
                    let kept = s.rollout.take().filter(|_| !*ends_rollout);
                    *s = Status { rollout: status.rollout.clone().or(kept), ..status.clone() };
                })
            }
            Write::UpdateConditions { rollout } => {
                let version = self.server.daemon_set.resource_version;
                self.edit_status(version, |s| s.rollout.clone_from(rollout))
            }
            Write::RollBack { resource_version, base, attempt } => {
                self.roll_back(*resource_version, base, attempt)
            }
        }
    }

    fn new_name(&mut self, node: &NodeName) -> PodName {
        let number = self.server.created.entry(node.to_string()).or_default();
        *number += 1;
        format!("{node}-{number}").into()
    }

    /// If an own pod of this node has the name, an earlier creation succeeded. If another pod has
    /// it, a new name is chosen.
    fn create_pod(&mut self, new: &mut NewPod) -> Outcome {
        while let Some(taken) = new.name.as_ref().and_then(|name| self.server.pods.get(name)) {
            if taken.controller == Some(DS_UID.into())
                && taken.target_node_name() == Some(&new.node)
            {
                return if taken.terminating {
                    Outcome::Failed { message: "the pod is still terminating".to_owned() }
                } else {
                    self.written(&taken.uid.clone())
                };
            }
            new.name = Some(self.new_name(&new.node));
        }
        assert_made_from_its_revision(new, self.server.revisions.values());
        let name = new.name.clone().expect("the name was chosen above");
        let pod = Pod {
            labels: object::labels_of(new),
            node_name: (new.schedule_by == ScheduleBy::Controller).then(|| new.node.clone()),
            creation_timestamp: self.now,
            ..pod(name.as_str(), new.node.as_str())
        };
        let pod = self.webhook.iter().fold(pod, |pod, change| change(pod));
        let uid = pod.uid.clone();
        let daemon_set = &self.server.daemon_set;
        let (owner, selector) = (&daemon_set.uid, daemon_set.selector.as_ref());
        let change = admission::change(new, Some(&pod), owner, selector);
        self.put_pod(pod);
        match change {
            None => self.written(&uid),
            Some(change) => {
                let resource_version = ResourceVersion(self.server.version);
                Outcome::Changed { uid, resource_version, change }
            }
        }
    }

    fn delete_pod(&mut self, name: &PodName, uid: &Uid) -> Outcome {
        let Some(pod) = self.server.pods.get(name).filter(|pod| pod.uid == *uid).cloned() else {
            return Outcome::Gone;
        };
        // An API server deletes unscheduled pods at once.
        if pod.node_name.is_none() {
            self.remove_pod(name);
        } else {
            self.put_pod(Pod { terminating: true, deleted_at: Some(self.now), ..pod });
        }
        self.written(uid)
    }

    fn create_revision(&mut self, new: &NewRevision) -> Outcome {
        if let Some(existing) = self.server.revisions.get(&new.name) {
            let is_of_another_kind = existing.controller == Some(ANOTHER_KIND.into());
            return Outcome::RevisionExists {
                revision: (!is_of_another_kind).then(|| Box::new(existing.clone())),
                collision_count: self.server.daemon_set.status.collision_count,
            };
        }
        let number = self.server.created.entry(new.name.to_string()).or_default();
        *number += 1;
        let uid = format!("{}-{number}", new.name);
        let revision = self.new_revision(new, &uid);
        let uid = revision.uid.clone();
        self.put_revision(revision);
        self.written(&uid)
    }

    fn edit_pod(&mut self, name: &PodName, edit: impl FnOnce(&mut Pod)) -> Outcome {
        let Some(mut pod) = self.server.pods.get(name).cloned() else { return Outcome::Gone };
        edit(&mut pod);
        let uid = pod.uid.clone();
        self.put_pod(pod);
        self.written(&uid)
    }

    fn edit_revision(
        &mut self,
        reference: &RevisionReference,
        edit: impl FnOnce(&mut Revision),
    ) -> Outcome {
        let Some(mut revision) = self.server.revisions.get(&reference.name).cloned() else {
            return Outcome::Gone;
        };
        if revision.resource_version != reference.resource_version {
            return Outcome::Failed { message: "conflict".to_owned() };
        }
        edit(&mut revision);
        self.put_revision(revision);
        self.written(&reference.uid)
    }

    fn written(&self, uid: &Uid) -> Outcome {
        Outcome::Written {
            uid: uid.clone(),
            resource_version: ResourceVersion(self.server.version),
        }
    }
}

impl Server {
    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}

impl Event {
    const fn kind(&self) -> Kind {
        match self {
            Self::DaemonSet(_) => Kind::DaemonSets,
            Self::Pod(_) | Self::PodGone(_) | Self::Puller(_) | Self::PullerGone(_) => Kind::Pods,
            Self::Revision(_) | Self::RevisionGone { .. } => Kind::Revisions,
        }
    }
}
