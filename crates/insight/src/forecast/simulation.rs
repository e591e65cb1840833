//! A small model of a cluster that executes the core's plans in virtual time: pods are bound if
//! they fit, become ready after their start-up time, and disappear after the time that they take to
//! stop.
//!
//! It makes none of the controller's decisions.

mod waves;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everynode_core::api::{
    DaemonSet, Labels, NodeName, Pod, PodName, PodPhase, Readiness, ResourceVersion, Revision,
    RevisionName, Timestamp, Uid, UpdateStrategy,
};
use everynode_core::daemon_set::{Availability, Inspection, RolloutStatus};
use everynode_core::ownership;
use everynode_core::placement::Eligibility;
use everynode_core::plan::{Plan, Watermarks, Write, WriteResult};
use everynode_k8s::fit::{Misfit, Room, Usage};

use super::timing::PodTiming;
use super::{NodeChanges, Proposal};
use crate::controller_state::ControllerState;
use crate::snapshot::{NodeHealth, PodDetail, PodState, Snapshot};
use waves::{FirstWrite, ReachedWave};

/// The maximum number of rounds for each node. A rollout that takes more is treated as endless.
const ROUNDS_PER_NODE_MAX: usize = 40;

/// A cluster with one DaemonSet at the virtual time `now`.
pub(super) struct Simulation {
    controller: ControllerState,
    daemon_set: DaemonSet,
    template_labels: Labels,
    /// The usage of a pod of the current template.
    usage: Usage,
    timing: PodTiming,
    started_at: Timestamp,
    now: Timestamp,
    /// The resourceVersion of the last write.
    version: u64,
    /// The number of pods created so far, for their names.
    created: u64,
    pods: BTreeMap<PodName, SimulatedPod>,
    revisions: BTreeMap<RevisionName, Revision>,
    nodes: BTreeMap<NodeName, SimulatedNode>,
    /// When the next transition of a pod is due.
    timers: BTreeSet<(Timestamp, PodName)>,
    waiting_for_room: BTreeMap<NodeName, Vec<PodName>>,
    /// The scheduler may evict other pods for the DaemonSet's.
    has_priority: bool,
    /// The pod of each node at the start.
    pods_before: PodOfNode,
    /// The nodes whose pods were changed in place.
    changed_in_place: BTreeSet<NodeName>,
    first_writes: BTreeMap<NodeName, FirstWrite>,
    /// The waves of the policy that the rollout has reached.
    reached: Vec<ReachedWave>,
    /// When the last pod became available, or disappeared.
    settled_at: Timestamp,
}

/// The oldest pod of each node that is not terminating.
type PodOfNode = BTreeMap<NodeName, Uid>;

/// A pod, and how it changes next.
struct SimulatedPod {
    pod: Pod,
    transition: Transition,
    usage: Usage,
}

/// How a pod changes next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Transition {
    /// The pod does not change. Contains the reason if it is not ready.
    None(Option<String>),
    /// The pod fits its node only after other pods have disappeared. Contains the reason.
    AwaitsRoom(String),
    BecomesReady,
    Disappears,
}

/// A node with the pods of all controllers.
struct SimulatedNode {
    room: Room,
    /// The kubelet works, so that pods start and stop.
    is_alive: bool,
    /// It is known which resources are free.
    knows_room: bool,
}

impl Simulation {
    pub(super) fn new(
        snapshot: &Snapshot,
        proposal: &Proposal,
        timing: PodTiming,
        now: Timestamp,
    ) -> Self {
        let object = &proposal.object;
        let daemon_set = waves::without_repetitions(object.daemon_set.clone());
        let template = object.raw.template();
        let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
        let of_namespace =
            snapshot.revisions.iter().filter(|((of, _), _)| *of == daemon_set.key.namespace);
        let mut simulation = Self {
            controller: ControllerState::new(snapshot, daemon_set.clone()),
            template_labels: labels
                .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
                .collect(),
            usage: Usage::of_spec(&template["spec"]),
            timing,
            started_at: now,
            now,
            version: highest_version(snapshot, &daemon_set),
            created: 0,
            pods: BTreeMap::new(),
            revisions: of_namespace.map(|((_, name), r)| (name.clone(), r.clone())).collect(),
            nodes: nodes(snapshot, proposal),
            timers: BTreeSet::new(),
            waiting_for_room: BTreeMap::new(),
            has_priority: template["spec"]["priorityClassName"].is_string(),
            pods_before: PodOfNode::new(),
            changed_in_place: BTreeSet::new(),
            first_writes: BTreeMap::new(),
            reached: Vec::new(),
            settled_at: now,
            daemon_set,
        };
        simulation.add_pods(snapshot);
        simulation.pods_before = simulation.pods_of_nodes();
        simulation
    }

    /// Runs until no event is left.
    pub(super) fn run(&mut self) {
        let rounds_max = (self.nodes.len() + 25) * ROUNDS_PER_NODE_MAX;
        for _ in 0..rounds_max {
            let plan = self.plan();
            self.note_wave();
            let has_checks = self.pass_checks(&plan);
            if plan.writes.is_empty() {
                if has_checks || self.approve_wave() {
                    continue;
                }
                let event_at = self.timers.first().map(|(at, _)| *at);
                let Some(next) = event_at.into_iter().chain(plan.requeue_at).min() else { return };
                self.now = next;
                self.fire_timers();
            } else {
                self.execute(plan);
            }
        }
    }

    /// The pods at the end compared with those at the start.
    pub(super) fn node_changes(&self) -> NodeChanges {
        let after = self.pods_of_nodes();
        let mut changes = NodeChanges::default();
        for node in self.nodes.keys() {
            let side = match (self.pods_before.get(node), after.get(node)) {
                (None, None) => {
                    changes.without += 1;
                    continue;
                }
                (None, Some(_)) => &mut changes.gain,
                // The old pod of a node that is down stays terminating.
                (Some(_), None) if self.inspect(node).eligibility.should_run() => {
                    &mut changes.replace
                }
                (Some(_), None) => &mut changes.lose,
                (Some(old), Some(new)) if old == new && self.changed_in_place.contains(node) => {
                    &mut changes.change_in_place
                }
                (Some(old), Some(new)) if old == new => &mut changes.keep,
                (Some(_), Some(_)) => &mut changes.replace,
            };
            side.push(node.to_string());
        }
        changes
    }

    /// The time from the start until the last change.
    pub(super) fn duration(&self) -> Duration {
        self.settled_at.since(self.started_at)
    }

    /// The number of nodes that should run a pod.
    pub(super) fn desired(&self) -> usize {
        self.controller.state.counts().desired
    }

    /// The nodes that should run a pod.
    pub(super) fn desired_nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.keys().filter(move |node| self.inspect(node).eligibility.should_run())
    }

    /// The state of a guarded rollout at the end, as the controller states it.
    pub(super) fn rollout_status(&self) -> Option<RolloutStatus> {
        self.controller.state.rollout_status()
    }

    /// The usage of a pod of the current template.
    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The nodes that should have an available pod of the current revision and have none, with the
    /// reason.
    pub(super) fn unfinished(&self) -> Vec<(NodeName, String)> {
        let mut by_node: BTreeMap<&NodeName, Vec<&SimulatedPod>> = BTreeMap::new();
        for simulated in self.pods.values() {
            if let Some(node) = simulated.pod.target_node_name() {
                by_node.entry(node).or_default().push(simulated);
            }
        }
        let nodes = self.nodes.keys().filter_map(|node| {
            let inspection = self.inspect(node);
            let replaces_pods = self.daemon_set.strategy() != UpdateStrategy::OnDelete
                && !self.daemon_set.is_paused();
            let is_done = inspection.pods.iter().any(|pod| {
                (pod.updated || !replaces_pods) && pod.availability == Availability::Available
            });
            if !inspection.eligibility.should_run() || is_done {
                return None;
            }
            let pods = by_node.get(node).map_or(&[][..], Vec::as_slice);
            Some((node.clone(), why_unfinished(pods, self.nodes[node].is_alive)))
        });
        nodes.collect()
    }

    /// The nodes that keep a pod of an older revision, because they would get no new one, with the
    /// reason. With `OnDelete` that makes no difference.
    pub(super) fn keeping_old_pods(&self) -> Vec<(NodeName, String)> {
        if self.daemon_set.strategy() == UpdateStrategy::OnDelete || self.daemon_set.is_paused() {
            return Vec::new();
        }
        let nodes = self.nodes.keys().filter_map(|node| {
            let inspection = self.inspect(node);
            let has_old = inspection.pods.iter().any(|pod| !pod.updated && !pod.terminating);
            let keeps = inspection.eligibility == Eligibility::ContinueRunning && has_old;
            keeps.then(|| (node.clone(), self.why_none(node)))
        });
        nodes.collect()
    }

    /// The nodes that lose their pod, with the reason.
    pub(super) fn why_lost(&self, changes: &NodeChanges) -> Vec<(NodeName, String)> {
        let lost = changes.lose.iter().map(|node| NodeName::from(node.as_str()));
        let lost = lost.map(|node| (node.clone(), self.why_none(&node)));
        lost.filter(|(_, why)| !why.is_empty()).collect()
    }

    /// The reasons for which the node gets no pod.
    fn why_none(&self, node: &NodeName) -> String {
        let id = self.controller.nodes.id(node).expect("it is one of the snapshot's nodes");
        let reasons = self.controller.state.reasons_against(id, &self.controller.nodes);
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        reasons.join("; ")
    }

    fn inspect(&self, node: &NodeName) -> Inspection {
        let id = self.controller.nodes.id(node).expect("it is one of the snapshot's nodes");
        self.controller.state.inspect(id, self.now, &self.controller.nodes)
    }

    fn plan(&mut self) -> Plan {
        let version = ResourceVersion(self.version);
        let watermarks = Watermarks { daemon_sets: version, pods: version, revisions: version };
        self.controller.state.plan(self.now, &watermarks, &self.controller.nodes)
    }

    fn execute(&mut self, plan: Plan) {
        for write in plan.writes {
            if matches!(&write, Write::WriteRecord { record, .. } if record.phase.is_complete()) {
                // Its last bake time is over, perhaps long after the last pod became available.
                self.settled_at = self.settled_at.max(self.now);
            }
            let outcome = self.write(&write);
            self.controller.state.apply_result(WriteResult { write, outcome }, self.now);
        }
    }

    /// Performs the transitions that are due.
    fn fire_timers(&mut self) {
        let min_ready_seconds = self.daemon_set.min_ready_seconds;
        while let Some((at, name)) = self.timers.first().cloned()
            && at <= self.now
        {
            self.timers.remove(&(at, name.clone()));
            let Some(simulated) = self.pods.get_mut(&name) else { continue };
            match simulated.transition {
                Transition::BecomesReady => {
                    simulated.transition = Transition::None(None);
                    simulated.pod.phase = PodPhase::Running;
                    simulated.pod.readiness = Readiness::ReadySince(at);
                    let pod = simulated.pod.clone();
                    let available_at = pod.readiness.available_at(None, min_ready_seconds);
                    self.settled_at = self.settled_at.max(available_at.unwrap_or(at));
                    self.controller.state.apply_pod(&pod, &mut self.controller.nodes);
                }
                Transition::Disappears => self.remove_pod(&name),
                Transition::None(_) | Transition::AwaitsRoom(_) => {}
            }
        }
    }

    fn remove_pod(&mut self, name: &PodName) {
        let Some(simulated) = self.pods.remove(name) else { return };
        self.settled_at = self.settled_at.max(self.now);
        self.controller.state.delete_pod(&simulated.pod, &mut self.controller.nodes);
        let Some(node) = simulated.pod.node_name else { return };
        if let Some(simulated_node) = self.nodes.get_mut(&node) {
            simulated_node.room.remove(&simulated.usage);
        }
        for name in self.waiting_for_room.remove(&node).unwrap_or_default() {
            let waits = |pod: &SimulatedPod| matches!(pod.transition, Transition::AwaitsRoom(_));
            if self.pods.get(&name).is_some_and(waits) {
                self.bind(&name);
            }
        }
    }

    /// Starts the pod on its node if it fits there, as the scheduler and the kubelet would.
    fn bind(&mut self, name: &PodName) {
        let Some(simulated) = self.pods.get_mut(name) else { return };
        let Some(node) = simulated.pod.target_node_name().cloned() else { return };
        let Some(target) = self.nodes.get_mut(&node) else { return };
        let misfits = if target.knows_room {
            target.room.admission_misfits(&simulated.usage)
        } else {
            Vec::new()
        };
        if !misfits.is_empty() {
            simulated.transition =
                Transition::AwaitsRoom(no_room_text(&misfits, self.has_priority));
            self.waiting_for_room.entry(node).or_default().push(name.clone());
            return;
        }
        target.room.add(&simulated.usage);
        simulated.pod.node_name = Some(node);
        if target.is_alive {
            simulated.transition = Transition::BecomesReady;
            self.timers.insert((self.now + self.timing.start_up, name.clone()));
        } else {
            simulated.transition = Transition::None(Some("the node is not ready".to_owned()));
        }
        let pod = simulated.pod.clone();
        self.controller.state.apply_pod(&pod, &mut self.controller.nodes);
    }

    /// The oldest pod of each node that is not terminating.
    fn pods_of_nodes(&self) -> PodOfNode {
        let mut oldest: BTreeMap<NodeName, &Pod> = BTreeMap::new();
        let ours = self.pods.values().filter(|simulated| {
            !simulated.pod.terminating
                && simulated.pod.controller.as_ref() == Some(&self.daemon_set.uid)
        });
        for SimulatedPod { pod, .. } in ours {
            let Some(node) = pod.target_node_name() else { continue };
            let first = oldest.entry(node.clone()).or_insert(pod);
            let age = |pod: &Pod| (pod.node_name.is_none(), pod.created());
            if age(pod) < age(first) {
                *first = pod;
            }
        }
        oldest.into_iter().map(|(node, pod)| (node, pod.uid.clone())).collect()
    }

    fn transition_of(&self, detail: &PodDetail) -> Transition {
        let node = detail.pod.node_name.as_ref();
        let is_alive = node.and_then(|name| self.nodes.get(name)).is_some_and(|node| node.is_alive);
        match &detail.state {
            PodState::Terminating if is_alive || node.is_none() => Transition::Disappears,
            PodState::Ready => Transition::None(None),
            PodState::Waiting(_) | PodState::NotReady { .. }
                if is_alive && !detail.state.is_failing() =>
            {
                Transition::BecomesReady
            }
            state => Transition::None(Some(state.to_string())),
        }
    }

    /// Adds the pods of the snapshot with their transitions.
    fn add_pods(&mut self, snapshot: &Snapshot) {
        for detail in snapshot.in_namespace(&self.daemon_set.key.namespace) {
            let is_ours = detail.pod.controller.as_ref() == Some(&self.daemon_set.uid);
            let is_former = ownership::is_former(&self.daemon_set, &detail.pod);
            if !is_ours && !is_former && detail.pod.controller.is_some() {
                continue;
            }
            let name = detail.pod.name.clone();
            let transition = match self.transition_of(detail) {
                // The garbage collector deletes it.
                Transition::BecomesReady | Transition::None(None) if is_former => {
                    Transition::Disappears
                }
                transition => transition,
            };
            let readiness = detail.pod.readiness;
            let available_at =
                readiness.available_at(Some(self.now), self.daemon_set.min_ready_seconds);
            if let Some(at) = available_at.filter(|at| *at > self.now) {
                self.settled_at = self.settled_at.max(at);
            }
            let due = match transition {
                Transition::BecomesReady => {
                    Some(detail.pod.creation_timestamp + self.timing.start_up)
                }
                Transition::Disappears => Some(self.now + self.timing.stop),
                Transition::None(_) | Transition::AwaitsRoom(_) => None,
            };
            if let Some(at) = due {
                self.timers.insert((at.max(self.now), name.clone()));
            }
            let (pod, usage) = (detail.pod.clone(), detail.usage.clone());
            self.pods.insert(name, SimulatedPod { pod, transition, usage });
        }
    }
}

/// Why a node with these pods has no available pod of the current revision.
fn why_unfinished(pods: &[&SimulatedPod], is_alive: bool) -> String {
    let no_room = pods.iter().find_map(|simulated| match &simulated.transition {
        Transition::AwaitsRoom(why) => Some(format!("the new pod does not fit: {why}")),
        Transition::None(_) | Transition::BecomesReady | Transition::Disappears => None,
    });
    let unchanged = pods.iter().find_map(|simulated| match &simulated.transition {
        Transition::None(Some(why)) => Some(format!("its pod does not change: {why}")),
        Transition::None(None)
        | Transition::AwaitsRoom(_)
        | Transition::BecomesReady
        | Transition::Disappears => None,
    });
    match (no_room, is_alive, unchanged) {
        (Some(why), _, _) => why,
        (None, false, _) => "the node is not ready".to_owned(),
        (None, true, Some(why)) => why,
        (None, true, None) if pods.is_empty() => "no pod is created".to_owned(),
        (None, true, None) => "the rollout does not reach it".to_owned(),
    }
}

/// The reasons in the scheduler's words, with a note if the scheduler might evict other pods, which
/// the simulation does not do.
fn no_room_text(misfits: &[Misfit], has_priority: bool) -> String {
    let reasons = misfits.iter().map(Misfit::reason).collect::<Vec<_>>().join(", ");
    let is_resolvable =
        |misfit: &Misfit| matches!(misfit, Misfit::Insufficient(_)) && misfit.could_be_resolved();
    if has_priority && misfits.iter().all(is_resolvable) {
        format!("{reasons}, unless the scheduler evicts other pods for it")
    } else {
        reasons
    }
}

/// All nodes, with the usage of the pods that run there.
fn nodes(snapshot: &Snapshot, proposal: &Proposal) -> BTreeMap<NodeName, SimulatedNode> {
    let mut nodes: BTreeMap<NodeName, SimulatedNode> = BTreeMap::new();
    for (name, detail) in &snapshot.nodes {
        let is_alive = match detail.health {
            NodeHealth::Ready | NodeHealth::Unreported => true,
            NodeHealth::NotReady { .. } => false,
        };
        let knows_room = proposal.knows_room && detail.reports_allocatable;
        let node = SimulatedNode { room: detail.room.clone(), is_alive, knows_room };
        nodes.insert(name.clone(), node);
    }
    let of_others = snapshot.other_pods.values().map(|(node, usage)| (node, usage));
    let of_daemon_sets = snapshot
        .pods
        .values()
        .filter(|detail| !detail.pod.phase.is_terminal())
        .filter_map(|detail| Some((detail.pod.node_name.as_ref()?, &detail.usage)));
    for (node, usage) in of_others.chain(of_daemon_sets) {
        if let Some(simulated) = nodes.get_mut(node) {
            simulated.room.add(usage);
        }
    }
    nodes
}

/// The highest resourceVersion in the snapshot; those of the simulation's writes are higher.
fn highest_version(snapshot: &Snapshot, daemon_set: &DaemonSet) -> u64 {
    let revisions = snapshot.revisions.values().map(|revision| revision.resource_version.0);
    revisions.chain([daemon_set.resource_version.0]).max().unwrap_or(0)
}
