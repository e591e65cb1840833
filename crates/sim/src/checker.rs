//! Checkers of the properties, and what they know: every version of every object.
//!
//! Each write of the controller is judged by what its replica had seen and written when it made the
//! plan: the [`View`] with which the request is stamped. The rules are written here a second time,
//! from their text and the objects' JSON, not by calling the controller's functions.

mod answer;
mod backoff;
mod beside;
mod budget;
mod copies;
mod coverage;
mod creation_delay;
mod demands;
mod duplicate;
mod event;
mod foreign;
mod guard;
mod history;
mod idle;
mod images;
mod in_doubt;
mod in_place;
mod judged_plan;
mod late;
mod lost_pods;
mod model;
mod node_state;
mod pace;
mod plan;
mod question;
mod quiescence;
mod reason;
mod record;
mod removal;
mod revision;
mod rolled_back;
mod situation;
mod stage;
mod status;
mod template;
mod waves;

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_controller::recorder::Occurrence;
use everynode_core::api::Timestamp;
use everynode_sandbox::json::Value;
use everynode_sandbox::kind::Kind;
use everynode_sandbox::kinds::{DAEMON_SET, POD};
use everynode_sandbox::object::Object;
use everynode_sandbox::store::Store;

use crate::network::Request;
use crate::role::{Installation, Role};
use crate::serve::Target;
use crate::setting::Setting;
use crate::statement;
use crate::view::{Idle, View};
use backoff::Backoffs;
use history::History;
use judged_plan::{Deletion, JudgedPlan};
use model::BoundBy;
use pace::Beginnings;
use question::Questions;
use situation::Situation;

pub use coverage::{Coverage, Section};

/// A violation of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The violated property.
    pub property: Property,
    /// The objects concerned and what is wrong with them.
    pub message: String,
}

/// A property that the controller must have. Each deliberate bug violates one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// A node has at most one pod of a DaemonSet, or two with surge (C22, C26, C34).
    Duplicate,
    /// A pod is deleted only for a reason that a rule gives (C23–C27, C32, C33).
    Deletion,
    /// Failed pods are deleted, with a back-off, and succeeded ones (C24).
    Backoff,
    /// The controller makes as many pods unavailable as `maxUnavailable` allows, and creates as
    /// many beside others as `maxSurge` allows (C51–C53).
    Budget,
    /// A rollout begins on as many nodes within a minute as its policy allows (G5).
    Pace,
    /// A node gets the target only if its wave is open, and is left alone while the rollout is
    /// paused, has failed, or has no valid policy, and while it is set aside; it loses no pod to
    /// the target's placement unless the policy allows it (G1, G5–G7, G33, G42).
    Gate,
    /// The states of the nodes of a guarded rollout are true (G31, G33, G34).
    State,
    /// The record of a rollout is written before anything follows from it, moves on by the rules
    /// only, and at rest states why the rollout is not complete (G8–G11, G15).
    Record,
    /// At rest the condition of a rollout states what its record and its policy say (G21).
    Condition,
    /// The controller writes no object of another owner (C21, C61).
    Foreign,
    /// The checks of a wave are not asked before their initial delay is over (G46), and then at
    /// their interval (G5).
    Check,
    /// Beside the built-in controller, writes are some of those that G20 lists, and pods are
    /// deleted only while it is known what replaces them (G18–G20).
    Beside,
    /// The controller deletes no revision that a live pod uses, and those beyond the limit (C40,
    /// C42, C44).
    Revision,
    /// Another content of ConfigMaps counts once it has settled; copies have the content that their
    /// names say, and are there as long as a revision or a pod has them (G58).
    Copies,
    /// A pod is what the template of its revision demands (C30, C31).
    Template,
    /// Every node that should run a pod gets exactly one, and no other node does (C23).
    Placement,
    /// A status has the counts that its replica has seen; at rest it is correct (C56, C70).
    Status,
    /// At rest the controller writes nothing (C80).
    Quiescence,
    /// The controller writes at most a certain number of times a minute.
    WriteRate,
    /// Each outcome of a write of a pod has its Event, and Events say what is true (C71).
    Event,
    /// Counts and work sets equal recomputed ones (C80).
    Recount,
    /// The controller observes every write before the expectation lapses (C60).
    ExpectationLapse,
    /// The controller does not panic, and no assertion fails.
    Panic,
}

/// The state of all checkers.
#[derive(Default)]
pub struct Checks {
    /// The cases that were looked at.
    pub coverage: Coverage,
    installation: Installation,
    bound_by: BoundBy,
    /// How long the controller may wait with a status in which only counts change.
    status_interval_ms: i64,
    history: History,
    /// Number of nodes whose leases have expired.
    unreachable_nodes: usize,
    /// The plans that were judged, by replica and number.
    plans: BTreeMap<(u64, u64), JudgedPlan>,
    backoffs: Backoffs,
    beginnings: Beginnings,
    questions: Questions,
    /// The names of all pods that a replica has tried to create, with their nodes. Admission may
    /// have set another node.
    created_pods: BTreeMap<String, String>,
    /// The replicas that sent those creations which took effect late, by the names of the pods.
    late_pods: BTreeMap<String, u64>,
    /// A pod that is not what its labels say.
    mislabelled: Option<Violation>,
}

/// A write of the controller just before it takes effect.
pub struct PendingWrite<'a> {
    /// The store before the write.
    pub store: &'a Store,
    /// The request.
    pub request: &'a Request,
    /// The resource that the request writes.
    pub target: &'a Target,
    /// The body of the request, or null.
    pub body: &'a Value,
    /// The current time.
    pub now: Timestamp,
    /// True if the write takes effect seconds after its sender stopped waiting for it.
    pub arrives_late: bool,
    /// True if another replica has led since the process of the sender was frozen.
    pub is_of_former_leader: bool,
    /// True if the kubelet of a node has an image.
    pub has_image: &'a dyn Fn(&str, &str) -> bool,
}

impl PendingWrite<'_> {
    fn object(&self) -> Option<&Object> {
        let Target { kind, namespace, name, .. } = self.target;
        Some(self.store.find(kind, namespace, name)?)
    }

    /// The UID that the object must have.
    fn uid_precondition(&self) -> Option<&str> {
        let uids = [&self.body["metadata"]["uid"], &self.body["preconditions"]["uid"]];
        uids.into_iter().find_map(Value::as_str)
    }

    fn creates(&self, kind: &Kind) -> bool {
        self.request.method == http::Method::POST && self.target.kind.kind == kind.kind
    }

    /// True if the server refuses the creation because the name is taken.
    fn is_name_taken(&self) -> bool {
        let Target { kind, namespace, .. } = self.target;
        let name = self.body["metadata"]["name"].as_str();
        let is_name_taken = |name| self.store.find(kind, namespace, name).is_some();
        self.request.method == http::Method::POST && name.is_some_and(is_name_taken)
    }

    fn deletes(&self, kind: &Kind) -> bool {
        self.request.method == http::Method::DELETE && self.target.kind.kind == kind.kind
    }
}

impl Checks {
    /// Checkers of the controllers that are installed.
    pub fn new(setting: Setting) -> Self {
        let bound_by = match setting.schedule_by_controller {
            true => BoundBy::Controller,
            false => BoundBy::Scheduler,
        };
        let installation = setting.installation;
        Self {
            installation,
            bound_by,
            status_interval_ms: setting.status_interval_ms.into(),
            history: History::new(installation),
            ..Self::default()
        }
    }

    /// Reads all changes of the store since the last call.
    pub fn update(&mut self, store: &Store, now: Timestamp) {
        let since = self.history.version();
        if self.history.update(store, now) {
            let found = || in_place::mislabelled(&self.history, since);
            self.mislabelled = self.mislabelled.take().or_else(found);
            let unreachable = self.history.nodes.all().filter(|node| node.is_unreachable()).count();
            let known = std::mem::replace(&mut self.unreachable_nodes, unreachable);
            if unreachable > known {
                self.record_fault("lease of a node expired");
            }
        }
    }

    /// True if a pod exists and is ready.
    pub fn is_pod_ready(&self, uid: &str) -> bool {
        self.history.pods.newest(uid).is_some_and(|pod| pod.is_ready)
    }

    /// Records a fault.
    pub fn record_fault(&mut self, kind: &'static str) {
        self.coverage.count(Section::Faults, kind);
        if self.history.has_rollout() {
            self.coverage.count(Section::FaultsInRollouts, kind);
        }
    }

    /// Checks that a Kubernetes Event says what is true.
    pub(crate) fn check_event(&mut self, occurrence: &Occurrence) -> Option<Violation> {
        self.coverage.count(Section::Others, "event");
        let problem = event::problem(occurrence, &self.history)?;
        let Occurrence { regarding, reason, note, .. } = occurrence;
        violation(Property::Event, format!("{}: {reason}: {note}: {problem}", regarding.name))
    }

    /// Checks what holds at rest.
    pub fn check_quiescence(&self, now: Timestamp) -> Option<Violation> {
        let found =
            || quiescence::check(&self.history, self.installation, now, statement::published);
        self.mislabelled.clone().or_else(found)
    }

    /// Checks a write of the controller before it takes effect. A write that the server refuses is
    /// no violation.
    pub fn check_write(&mut self, write: &PendingWrite) -> Option<Violation> {
        self.update(write.store, write.now);
        if let Some(violation) = self.mislabelled.take() {
            return Some(violation);
        }
        if write.is_name_taken() {
            return None;
        }
        let (creates, deletes) = (write.creates(&POD), write.deletes(&POD));
        let Some(view) = write.request.view.clone() else {
            self.record(creates, deletes, None);
            return None;
        };
        if let Some(violation) = self.judge_plans(&view) {
            return Some(violation);
        }
        if images::is_of_puller(write, &view) {
            let situation = Situation::of(&view, &self.history)?;
            return images::check_puller(write, &situation);
        }
        let reason = match self.judge_request(write, &view) {
            Ok(reason) => reason,
            Err(violation) => return Some(violation),
        };
        if let Some(plan) = self.plans.get(&(view.replica, view.plan))
            && let Some(violation) = self.beginnings.check(write, &view, plan, &self.history)
        {
            return Some(violation);
        }
        self.note_record(write, &view);
        if let Some(name) = write.body["metadata"]["name"].as_str().filter(|_| creates) {
            let node = model::Pod::parse(write.body).node().unwrap_or_default().to_owned();
            self.created_pods.insert(name.to_owned(), node);
            if write.arrives_late {
                self.late_pods.insert(name.to_owned(), view.replica);
            }
        }
        self.record(creates, deletes, reason);
        None
    }

    /// Checks a replica that has nothing to do for a DaemonSet, as it believes: no rule demands a
    /// write, so no change and no timer is overlooked (C1, C72).
    pub(crate) fn check_idle(&mut self, idle: &Idle) -> Option<Violation> {
        let view = &idle.view;
        if let Some(previous) = &view.previous
            && let Some(violation) = self.judge_plans(previous)
        {
            return Some(violation);
        }
        let seen = self.history.daemon_sets(view.role).at(&view.daemon_set, view.feeds.daemon_sets);
        if seen?.metadata.is_terminating {
            return None;
        }
        self.coverage.count(Section::Others, "replica with nothing to do");
        let Self { history, backoffs, questions, status_interval_ms, .. } = self;
        let situation = Situation::of(view, history)?;
        let found = stated_problem(view, &situation, history, questions);
        let Violation { property, message } = found.or_else(|| {
            idle::unfinished_work(idle, &situation, history, backoffs, *status_interval_ms)
        })?;
        violation(property, format!("{message}; the replica plans nothing"))
    }

    /// Notes that a record was judged, and by which policy it was begun.
    fn note_record(&mut self, write: &PendingWrite, view: &View) {
        let Some(record) = record::written(write) else { return };
        let reason = record.reason.as_ref().map_or(String::new(), |reason| format!(" {reason}"));
        self.coverage.count(Section::Records, format!("{:?}{reason}", record.phase));
        let seen = self.history.daemon_sets(view.role).at(&view.daemon_set, view.feeds.daemon_sets);
        if let Some(policy) = seen.and_then(|ds| ds.policy.valid()).cloned() {
            self.history.note_steps(&record, &policy);
        }
    }

    fn record(&mut self, creates: bool, deletes: bool, reason: Option<&'static str>) {
        match (creates, deletes) {
            (true, _) => {
                self.coverage.count_judged(Section::Creations, reason);
                if self.bound_by == BoundBy::Controller && reason.is_some() {
                    self.coverage.count(Section::Others, "pod bound by the controller");
                }
            }
            (_, true) => self.coverage.count_judged(Section::Deletions, reason),
            _ => reason.into_iter().for_each(|it| self.coverage.count(Section::Others, it)),
        }
    }

    /// Judges a plan, and those of its replica before that were not judged yet.
    fn judge_plans(&mut self, view: &Arc<View>) -> Option<Violation> {
        let mut plans = Vec::new();
        let mut next = Some(view);
        while let Some(view) = next.filter(|v| !self.plans.contains_key(&(v.replica, v.plan))) {
            plans.push(view);
            next = view.previous.as_ref();
        }
        for view in plans.into_iter().rev() {
            match self.judge_plan(view).unwrap_or_else(|| Ok(JudgedPlan::default())) {
                Ok(plan) => self.plans.insert((view.replica, view.plan), plan),
                Err(violation) => return Some(violation),
            };
        }
        None
    }

    /// Judges a plan. `None` if its replica had not seen the DaemonSet.
    fn judge_plan(&mut self, view: &View) -> Option<Result<JudgedPlan, Violation>> {
        let Self { history, backoffs, coverage, questions, .. } = self;
        let situation = Situation::of(view, history)?;
        if let Some(violation) = stated_problem(view, &situation, history, questions) {
            return Some(Err(violation));
        }
        Some(match view.role {
            Role::Beside => beside::judge(view, &situation, history, coverage),
            Role::Controller | Role::BuiltIn => {
                plan::judge(view, &situation, history, backoffs, coverage)
            }
        })
    }

    /// Judges a request of a plan that was judged. Returns the reason for it.
    fn judge_request(
        &self,
        write: &PendingWrite,
        view: &View,
    ) -> Result<Option<&'static str>, Violation> {
        if let Some(violation) = beside::check(write, view, self.installation, &self.history) {
            return Err(violation);
        }
        if write.target.is_status {
            let problem = status::check(write, view, &self.history);
            return problem.map_or(Ok(Some(write.target.kind.kind)), Err);
        }
        let plan = &self.plans[&(view.replica, view.plan)];
        let Some(situation) = Situation::of(view, &self.history) else {
            let message = "a write for a DaemonSet that the replica has not seen".to_owned();
            return Err(Violation { property: Property::Foreign, message });
        };
        let problem = foreign::check(write, view, &situation, self)
            .or_else(|| revision::check(write, &situation))
            .or_else(|| copies::check(write, view, &situation, &self.history))
            .or_else(|| record::check(write, view, &situation, &self.history));
        if let Some(violation) = problem {
            return Err(violation);
        }
        if write.creates(&POD) {
            return self.judge_creation(write, view, &situation).map(Some);
        }
        if let Some(step) = in_place::step(write) {
            let problem = in_place::check(write, &step, &situation, plan, &self.history);
            return problem.map_or(Ok(Some(step.name())), Err);
        }
        if !write.deletes(&POD) {
            let is_daemon_set = write.target.kind.kind == DAEMON_SET.kind;
            let name = if is_daemon_set { "DaemonSet rolled back" } else { write.target.kind.kind };
            return Ok(Some(name));
        }
        let stored = write.object().map(Object::uid);
        let uid = write.uid_precondition().or(stored).unwrap_or_default();
        match plan.deletions.get(uid) {
            Some(Deletion::Permitted) => Ok(None),
            Some(reason) => {
                let problem = images::check_deletion(write, *reason, &situation);
                problem.map_or(Ok(Some(reason.name())), Err)
            }
            None => {
                let message =
                    format!("pod {} is deleted, which was not planned", write.target.name);
                Err(Violation { property: Property::Deletion, message })
            }
        }
    }

    fn judge_creation(
        &self,
        write: &PendingWrite,
        view: &View,
        situation: &Situation,
    ) -> Result<&'static str, Violation> {
        let plan = &self.plans[&(view.replica, view.plan)];
        let error = |property, message| Err(Violation { property, message });
        let created = model::Pod::parse(write.body);
        let planned = created.node().and_then(|node| duplicate::planned(write, view, node));
        let Some(new) = planned else {
            let message =
                format!("a pod is created on {:?}, which was not planned", created.node());
            return error(Property::Placement, message);
        };
        let name = &created.metadata.name;
        if new.name.as_ref().is_some_and(|planned| planned.as_str() != name)
            && !duplicate::was_taken_by_other(write, new, situation, self)
        {
            let message = format!("pod {name} is created, planned was {:?}", new.name);
            return error(Property::Duplicate, message);
        }
        let problem = duplicate::check(write, new, situation, self)
            .or_else(|| template::check(write, situation, new.node.as_str(), self.bound_by));
        match problem {
            Some(violation) => Err(violation),
            None => Ok(plan.creations[new.node.as_str()].name()),
        }
    }
}

/// The problem with the questions or with what the replica states: copies, open nodes and the
/// states of nodes.
fn stated_problem(
    view: &View,
    situation: &Situation,
    history: &History,
    questions: &mut Questions,
) -> Option<Violation> {
    let found = questions.check(view, situation, history);
    let found = found.or_else(|| copies::check_statement(view, situation, history));
    let found = found.or_else(|| waves::check(situation, history));
    found.or_else(|| node_state::check(view, situation, history))
}

fn violation(property: Property, message: String) -> Option<Violation> {
    Some(Violation { property, message })
}
