//! A little cluster on which the core's plans are executed in virtual time: pods are bound if they fit, become ready
//! after the time that pods take to start, and go after the time that they take to stop.
//!
//! It decides nothing that the controller decides.

mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everynode_core::api::{
    DaemonSet, Labels, NodeName, Pod, PodName, PodPhase, Readiness, ResourceVersion, Revision,
    RevisionName, Timestamp, UpdateStrategy,
};
use everynode_core::daemon_set::Inspection;
use everynode_core::plan::{Plan, Watermarks, WriteResult};
use everynode_k8s::fit::{Misfit, Room, Usage};

use super::pace::Speed;
use super::{NodeChanges, Pods, Proposal, Wave};
use crate::known::Known;
use crate::snapshot::{NodeHealth, PodState, Snapshot};

/// No rollout takes so many rounds for each node; beyond that it is not said to come to rest.
const ROUNDS_PER_NODE_MAX: usize = 40;

pub(super) struct Model {
    known: Known,
    daemon_set: DaemonSet,
    template_labels: Labels,
    usage: Usage,
    speed: Speed,
    started_at: Timestamp,
    now: Timestamp,
    version: u64,
    created: u64,
    pods: BTreeMap<PodName, Actor>,
    revisions: BTreeMap<RevisionName, Revision>,
    nodes: BTreeMap<NodeName, Place>,
    agenda: BTreeSet<(Timestamp, PodName)>,
    waiting_for_room: BTreeMap<NodeName, Vec<PodName>>,
    /// The scheduler may evict others for its pods.
    has_priority: bool,
    /// The pod that spoke for each node in the beginning.
    before: Pods,
    /// When something was first done on a node.
    touched: BTreeMap<NodeName, Timestamp>,
    /// When the last pod became available, or went.
    settled_at: Timestamp,
}

/// A pod, and what it is on its way to.
struct Actor {
    pod: Pod,
    fate: Fate,
    usage: Usage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// It stays as it is. Text: why that is not ready, if it is not.
    Stays(Option<String>),
    /// It fits the node only when others have gone.
    DoesNotFit(String),
    BecomesReady,
    Goes,
}

/// What there is of a node besides the DaemonSet's own pods.
struct Place {
    room: Room,
    /// Whether its kubelet does anything.
    is_alive: bool,
    tells_room: bool,
}

impl Model {
    pub fn new(snapshot: &Snapshot, proposal: &Proposal, speed: Speed, now: Timestamp) -> Self {
        let object = &proposal.object;
        let daemon_set = object.daemon_set.clone();
        let template = object.raw.template();
        let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
        let of_namespace =
            snapshot.revisions.iter().filter(|((of, _), _)| *of == daemon_set.key.namespace);
        let mut model = Self {
            known: Known::new(snapshot, daemon_set.clone()),
            template_labels: labels
                .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
                .collect(),
            usage: Usage::of_spec(&template["spec"]),
            speed,
            started_at: now,
            now,
            version: highest_version(snapshot, &daemon_set),
            created: 0,
            pods: BTreeMap::new(),
            revisions: of_namespace.map(|((_, name), r)| (name.clone(), r.clone())).collect(),
            nodes: places(snapshot, proposal),
            agenda: BTreeSet::new(),
            waiting_for_room: BTreeMap::new(),
            has_priority: template["spec"]["priorityClassName"].is_string(),
            before: Pods::new(),
            touched: BTreeMap::new(),
            settled_at: now,
            daemon_set,
        };
        model.take_pods(snapshot);
        model.before = model.speakers();
        model
    }

    /// Runs until nothing happens any more.
    pub fn run(&mut self) {
        let rounds_max = (self.nodes.len() + 25) * ROUNDS_PER_NODE_MAX;
        for _ in 0..rounds_max {
            let plan = self.plan();
            if plan.writes.is_empty() {
                let event_at = self.agenda.first().map(|(at, _)| *at);
                let Some(next) = event_at.into_iter().chain(plan.requeue_at).min() else { return };
                self.now = next;
                self.happen();
            } else {
                self.execute(plan);
            }
        }
    }

    /// Who has which pod in the end, beside who had which in the beginning.
    pub fn compare(&self) -> NodeChanges {
        let after = self.speakers();
        let mut changes = NodeChanges::default();
        for node in self.nodes.keys() {
            let side = match (self.before.get(node), after.get(node)) {
                (None, None) => {
                    changes.without += 1;
                    continue;
                }
                (None, Some(_)) => &mut changes.gain,
                // The old pod of a dead node goes on terminating.
                (Some(_), None) if self.inspect(node).eligibility.should_run() => {
                    &mut changes.replace
                }
                (Some(_), None) => &mut changes.lose,
                (Some(old), Some(new)) if old == new => &mut changes.keep,
                (Some(_), Some(_)) => &mut changes.replace,
            };
            side.push(node.to_string());
        }
        changes
    }

    /// The nodes whose pods are replaced, by when that begins.
    pub fn waves(&self, changes: &NodeChanges) -> Vec<Wave> {
        let mut waves: BTreeMap<Timestamp, Vec<String>> = BTreeMap::new();
        for node in &changes.replace {
            let at = self.touched.get(node.as_str()).copied().unwrap_or(self.started_at);
            waves.entry(at).or_default().push(node.clone());
        }
        let after = |at: Timestamp| at.since(self.started_at).as_secs();
        waves
            .into_iter()
            .map(|(at, nodes)| Wave { starts_after_seconds: after(at), nodes })
            .collect()
    }

    pub fn took(&self) -> Duration {
        self.settled_at.since(self.started_at)
    }

    pub fn desired(&self) -> usize {
        self.known.state.tally().desired
    }

    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Nodes that should have an available pod of the current revision and have none, and why.
    pub fn unfinished(&self) -> Vec<(NodeName, String)> {
        let mut by_node: BTreeMap<&NodeName, Vec<&Actor>> = BTreeMap::new();
        for actor in self.pods.values() {
            if let Some(node) = actor.pod.target_node_name() {
                by_node.entry(node).or_default().push(actor);
            }
        }
        let nodes = self.nodes.keys().filter_map(|node| {
            let inspection = self.inspect(node);
            let is_rolled = self.daemon_set.update_strategy != UpdateStrategy::OnDelete;
            let is_done =
                inspection.pods.iter().any(|pod| (pod.updated || !is_rolled) && pod.available);
            if !inspection.eligibility.should_run() || is_done {
                return None;
            }
            let actors = by_node.get(node).map_or(&[][..], Vec::as_slice);
            Some((node.clone(), why_unfinished(actors, self.nodes[node].is_alive)))
        });
        nodes.collect()
    }

    fn inspect(&self, node: &NodeName) -> Inspection {
        let id = self.known.nodes.id(node).expect("it is one of the snapshot's nodes");
        self.known.state.inspect(id, self.now, &self.known.nodes)
    }

    fn plan(&mut self) -> Plan {
        let version = ResourceVersion(self.version);
        let watermarks = Watermarks { daemon_sets: version, pods: version, revisions: version };
        self.known.state.plan(self.now, &watermarks, &self.known.nodes)
    }

    fn execute(&mut self, plan: Plan) {
        for write in plan.writes {
            let outcome = self.write(&write);
            self.known.state.observe(WriteResult { write, outcome }, self.now);
        }
    }

    /// What was due has happened.
    fn happen(&mut self) {
        let min_ready = self.min_ready();
        while let Some((at, name)) = self.agenda.first().cloned()
            && at <= self.now
        {
            self.agenda.remove(&(at, name.clone()));
            let Some(actor) = self.pods.get_mut(&name) else { continue };
            match actor.fate {
                Fate::BecomesReady => {
                    actor.fate = Fate::Stays(None);
                    actor.pod.phase = PodPhase::Running;
                    actor.pod.readiness = Readiness::ReadySince(at);
                    self.settled_at = self.settled_at.max(at + min_ready);
                    let pod = actor.pod.clone();
                    self.known.state.apply_pod(&pod, &mut self.known.nodes);
                }
                Fate::Goes => self.gone(&name),
                Fate::Stays(_) | Fate::DoesNotFit(_) => {}
            }
        }
    }

    fn min_ready(&self) -> Duration {
        Duration::from_secs(self.daemon_set.min_ready_seconds.into())
    }

    fn gone(&mut self, name: &PodName) {
        let Some(actor) = self.pods.remove(name) else { return };
        self.settled_at = self.settled_at.max(self.now);
        self.known.state.delete_pod(&actor.pod, &mut self.known.nodes);
        let Some(node) = actor.pod.node_name else { return };
        if let Some(place) = self.nodes.get_mut(&node) {
            place.room.remove(&actor.usage);
        }
        for name in self.waiting_for_room.remove(&node).unwrap_or_default() {
            let waits = |actor: &Actor| matches!(actor.fate, Fate::DoesNotFit(_));
            if self.pods.get(&name).is_some_and(waits) {
                self.bind(&name);
            }
        }
    }

    /// Has the pod start on its node, if it fits there.
    fn bind(&mut self, name: &PodName) {
        let Some(actor) = self.pods.get_mut(name) else { return };
        let Some(node) = actor.pod.target_node_name().cloned() else { return };
        let Some(place) = self.nodes.get_mut(&node) else { return };
        let misfits =
            if place.tells_room { place.room.admission_misfits(&actor.usage) } else { Vec::new() };
        if !misfits.is_empty() {
            actor.fate = Fate::DoesNotFit(why_unfit(&misfits, self.has_priority));
            self.waiting_for_room.entry(node).or_default().push(name.clone());
            return;
        }
        place.room.add(&actor.usage);
        actor.pod.node_name = Some(node);
        if place.is_alive {
            actor.fate = Fate::BecomesReady;
            self.agenda.insert((self.now + self.speed.start_up, name.clone()));
        } else {
            actor.fate = Fate::Stays(Some("the node is not ready".to_owned()));
        }
        let pod = actor.pod.clone();
        self.known.state.apply_pod(&pod, &mut self.known.nodes);
    }

    /// The oldest pod of each node that is not on its way out.
    fn speakers(&self) -> Pods {
        let mut speakers: BTreeMap<NodeName, &Pod> = BTreeMap::new();
        let ours = self.pods.values().filter(|actor| {
            !actor.pod.terminating && actor.pod.controller.as_ref() == Some(&self.daemon_set.uid)
        });
        for Actor { pod, .. } in ours {
            let Some(node) = pod.target_node_name() else { continue };
            let speaker = speakers.entry(node.clone()).or_insert(pod);
            let age = |pod: &Pod| (pod.node_name.is_none(), pod.creation_timestamp);
            if age(pod) < age(speaker) {
                *speaker = pod;
            }
        }
        speakers.into_iter().map(|(node, pod)| (node, pod.uid.clone())).collect()
    }

    /// Takes the pods that there are, with what will become of them.
    fn take_pods(&mut self, snapshot: &Snapshot) {
        for detail in snapshot.in_namespace(&self.daemon_set.key.namespace) {
            let is_ours = detail.pod.controller.as_ref() == Some(&self.daemon_set.uid);
            if !is_ours && detail.pod.controller.is_some() {
                continue;
            }
            let name = detail.pod.name.clone();
            let is_alive = detail
                .pod
                .node_name
                .as_ref()
                .and_then(|node| self.nodes.get(node))
                .is_some_and(|place| place.is_alive);
            let fate = match &detail.state {
                PodState::Terminating if is_alive || detail.pod.node_name.is_none() => Fate::Goes,
                PodState::Ready => Fate::Stays(None),
                PodState::Waiting(_) | PodState::NotReady { .. }
                    if is_alive && !detail.state.is_failing() =>
                {
                    Fate::BecomesReady
                }
                state => Fate::Stays(Some(state.to_string())),
            };
            let readiness = detail.pod.readiness;
            let available_at =
                readiness.available_at(Some(self.now), self.daemon_set.min_ready_seconds);
            if let Some(at) = available_at.filter(|at| *at > self.now) {
                self.settled_at = self.settled_at.max(at);
            }
            let due = match fate {
                Fate::BecomesReady => Some(detail.pod.creation_timestamp + self.speed.start_up),
                Fate::Goes => Some(self.now + self.speed.stop),
                Fate::Stays(_) | Fate::DoesNotFit(_) => None,
            };
            if let Some(at) = due {
                self.agenda.insert((at.max(self.now), name.clone()));
            }
            let actor = Actor { pod: detail.pod.clone(), fate, usage: detail.usage.clone() };
            self.pods.insert(name, actor);
        }
    }
}

fn why_unfinished(actors: &[&Actor], is_alive: bool) -> String {
    let told = actors.iter().find_map(|actor| match &actor.fate {
        Fate::DoesNotFit(why) => Some(format!("the new pod does not fit: {why}")),
        Fate::Stays(_) | Fate::BecomesReady | Fate::Goes => None,
    });
    let stays = actors.iter().find_map(|actor| match &actor.fate {
        Fate::Stays(Some(why)) => Some(format!("its pod stays as it is: {why}")),
        Fate::Stays(None) | Fate::DoesNotFit(_) | Fate::BecomesReady | Fate::Goes => None,
    });
    match (told, is_alive, stays) {
        (Some(why), _, _) => why,
        (None, false, _) => "the node is not ready".to_owned(),
        (None, true, Some(why)) => why,
        (None, true, None) if actors.is_empty() => "no pod is created".to_owned(),
        (None, true, None) => "its turn does not come".to_owned(),
    }
}

/// In the scheduler's words; and whether it might evict others, which nobody does here.
fn why_unfit(misfits: &[Misfit], has_priority: bool) -> String {
    let reasons = misfits.iter().map(Misfit::reason).collect::<Vec<_>>().join(", ");
    let is_of_room =
        |misfit: &Misfit| matches!(misfit, Misfit::Insufficient(_)) && misfit.could_be_resolved();
    if has_priority && misfits.iter().all(is_of_room) {
        format!("{reasons}, unless others are evicted for it")
    } else {
        reasons
    }
}

/// All nodes, with what pods of others take up there.
fn places(snapshot: &Snapshot, proposal: &Proposal) -> BTreeMap<NodeName, Place> {
    let mut places: BTreeMap<NodeName, Place> = BTreeMap::new();
    for (name, detail) in &snapshot.nodes {
        let is_alive = match detail.health {
            NodeHealth::Ready | NodeHealth::Untold => true,
            NodeHealth::NotReady { .. } => false,
        };
        let tells_room = proposal.knows_room && detail.tells_allocatable;
        places.insert(name.clone(), Place { room: detail.room.clone(), is_alive, tells_room });
    }
    let of_others = snapshot.others.values().map(|(node, usage)| (node, usage));
    let of_daemon_sets = snapshot
        .pods
        .values()
        .filter(|detail| !detail.pod.phase.is_terminal())
        .filter_map(|detail| Some((detail.pod.node_name.as_ref()?, &detail.usage)));
    for (node, usage) in of_others.chain(of_daemon_sets) {
        if let Some(place) = places.get_mut(node) {
            place.room.add(usage);
        }
    }
    places
}

/// Versions only have to grow from what the snapshot has.
fn highest_version(snapshot: &Snapshot, daemon_set: &DaemonSet) -> u64 {
    let revisions = snapshot.revisions.values().map(|revision| revision.resource_version.0);
    revisions.chain([daemon_set.resource_version.0]).max().unwrap_or(0)
}
