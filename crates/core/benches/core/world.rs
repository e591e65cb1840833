//! A cluster in virtual time that executes the plans of one DaemonSet and records the inputs of its
//! core.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{
    DaemonSet, DaemonSetKey, FailureRule, HASH_LABEL, IntOrPercent, LabelOperator,
    LabelRequirement, LabelSelector, Labels, Node, NodeName, NodeReadiness, Placement, Pod,
    PodName, PodPhase, PolicySource, Readiness, RecordState, ResourceVersion, Revision,
    RevisionName, RolloutPolicy, RolloutStep, Status, Taint, TaintEffect, Template, Timestamp, Uid,
    UpdateStrategy, Wait,
};
use everynode_core::daemon_set::NodeCounts;
use everynode_core::plan::{NewPod, NewRevision, Outcome, Plan, Watermarks, Write, WriteResult};

use crate::record::{Core, Input, Recording, Step};

/// The phases, in the order in which they are recorded.
pub(crate) const PHASES: &[&str] = &[
    "nodes join",
    "place",
    "heartbeats",
    "readiness flaps",
    "update at 10%",
    "update at 1",
    "guarded at 10%",
    "guarded at 1",
    "relabel",
    "guarded in 1,000 waves",
    "racks change",
    "more nodes join",
];

/// Number of values of the label by which the last phases have their waves, of which each has two.
const RACKS: usize = 500;

const DS_UID: &str = "0c6ff5b8-21ad-4d3c-9f0e-8b1a2c3d4e5f";

pub(crate) struct World {
    node_names: Vec<NodeName>,
    core: Core,
    daemon_set: DaemonSet,
    pods: BTreeMap<PodName, Pod>,
    revisions: BTreeMap<RevisionName, Revision>,
    version: u64,
    pods_created: u64,
    now: Timestamp,
    /// Inputs that have not reached the core, each with the version that its watch has then
    /// reached.
    pending: VecDeque<(Input, u64)>,
    watched: u64,
    recording: Recording,
    /// Measures the longest step of a recording.
    clock: fn() -> Duration,
}

/// The DaemonSet before the first phase.
pub(crate) fn daemon_set() -> DaemonSet {
    let operator = LabelOperator::In(vec!["agent".into()]);
    DaemonSet {
        copies: None,
        key: DaemonSetKey::new("bench", "agent"),
        uid: DS_UID.into(),
        resource_version: ResourceVersion(1),
        generation: 1,
        terminating: false,
        selector: Some(LabelSelector {
            requirements: vec![LabelRequirement { key: "app".into(), operator }],
        }),
        template: Template::new("0", Placement::default()),
        template_generation: None,
        paused: false,
        policy: PolicySource::None,
        order: None,
        retry: None,
        rolled_back: None,
        update_strategy: UpdateStrategy::OnDelete,
        min_ready_seconds: 0,
        revision_history_limit: 10,
        status: Status::default(),
        problems: Vec::new(),
    }
}

impl World {
    pub(crate) fn new(nodes: u32, clock: fn() -> Duration) -> World {
        let daemon_set = daemon_set();
        World {
            node_names: (0..nodes).map(|n| format!("node-{n:06}").into()).collect(),
            core: Core::new(&daemon_set),
            daemon_set,
            pods: BTreeMap::new(),
            revisions: BTreeMap::new(),
            version: 1,
            pods_created: 0,
            now: Timestamp::from_seconds(1_000_000),
            pending: VecDeque::new(),
            watched: 1,
            recording: Recording::default(),
            clock,
        }
    }

    pub(crate) fn counts(&self) -> NodeCounts {
        self.core.counts()
    }

    /// Records one of the [`PHASES`].
    pub(crate) fn record(&mut self, phase: &str) -> Recording {
        match phase {
            "nodes join" => {
                // The taint prevents the creation of pods in this phase.
                self.push_nodes(|name| node(name, true));
            }
            "place" | "heartbeats" => self.push_nodes(|name| node(name, false)),
            "readiness flaps" => self.flap(),
            "update at 10%" => self.roll_out(IntOrPercent::Percent(10)),
            "update at 1" => self.roll_out(IntOrPercent::Int(1)),
            "guarded at 10%" => {
                let policy = policy(None, &[10, 50, 100]);
                self.daemon_set.policy = PolicySource::Valid(Arc::new(policy));
                self.roll_out(IntOrPercent::Percent(10));
            }
            "guarded at 1" => self.roll_out(IntOrPercent::Int(1)),
            // The policy of that time divides no nodes by it.
            "relabel" => self.push_racks(0),
            "guarded in 1,000 waves" => {
                let policy = policy(Some("rack"), &[50, 100]);
                self.daemon_set.policy = PolicySource::Valid(Arc::new(policy));
                self.roll_out(IntOrPercent::Percent(10));
            }
            "racks change" => self.push_racks(1),
            "more nodes join" => {
                let known = self.node_names.len();
                let names = (known..known + known / 10).map(|n| format!("node-{n:06}").into());
                self.node_names = names.collect();
                self.push_racks(0);
            }
            _ => panic!("there is no phase {phase:?}"),
        }
        self.settle();
        std::mem::take(&mut self.recording)
    }

    fn settle(&mut self) {
        while let Some((input, version)) = self.pending.pop_front() {
            self.watched = self.watched.max(version);
            let version = ResourceVersion(self.watched);
            let watermarks = Watermarks { daemon_sets: version, pods: version, revisions: version };
            self.now = self.now + Duration::from_millis(1);
            self.recording.inputs.push(Step { input: copy(&input), now: self.now, watermarks });
            let step = Step { input, now: self.now, watermarks };
            let started = (self.clock)();
            let plan = self.core.step(step);
            self.recording.longest = self.recording.longest.max((self.clock)() - started);
            if let Some(plan) = plan {
                self.perform(plan);
            }
        }
        let desired = self.core.counts().desired;
        assert_eq!(self.core.counts().available, desired, "all pods are available");
    }

    /// Executes a plan. All results arrive before the events that its writes cause.
    fn perform(&mut self, plan: Plan) {
        self.recording.writes += plan.writes.len();
        let mut observed = Vec::new();
        for write in plan.writes {
            let outcome = self.outcome(&write, &mut observed);
            // A result does not move the watermark.
            self.pending.push_back((Input::Written(WriteResult { write, outcome }), 0));
        }
        self.pending.extend(observed);
    }

    fn push_nodes(&mut self, node: impl FnMut(&NodeName) -> Node) {
        let nodes: Vec<Node> = self.node_names.iter().map(node).collect();
        nodes.into_iter().for_each(|node| self.push(Input::Node(node)));
    }

    /// Each node in a rack, from this one on.
    fn push_racks(&mut self, first: usize) {
        let mut racks = (0..RACKS).cycle().skip(first);
        self.push_nodes(|name| {
            let rack = racks.next().expect("it has no end").to_string();
            let labels = [("kubernetes.io/os", "linux"), ("rack", rack.as_str())];
            Node { labels: Labels::from_iter(labels), ..node(name, false) }
        });
    }

    fn push(&mut self, input: Input) {
        self.pending.push_back((input, self.version));
    }

    fn outcome(&mut self, write: &Write, observed: &mut Vec<(Input, u64)>) -> Outcome {
        self.version += 1;
        let resource_version = ResourceVersion(self.version);
        let uid = match write {
            Write::CreatePod(new) => self.create_pod(new, observed),
            Write::DeletePod(reference) => {
                let pod =
                    self.pods.remove(&reference.name).expect("the core deletes existing pods");
                let terminating = Pod { terminating: true, ..pod };
                observed.push((Input::Pod(terminating.clone()), self.version));
                observed.push((Input::PodGone(terminating), self.version));
                reference.uid.clone()
            }
            Write::CreateRevision(new) => {
                let revision = self.revision(new, resource_version);
                let uid = revision.uid.clone();
                self.revisions.insert(revision.name.clone(), revision.clone());
                observed.push((Input::Revision(revision), self.version));
                uid
            }
            Write::WriteRecord { revision, record } => {
                let stored = self.revisions.get_mut(&revision.name).expect("it was created");
                stored.record = RecordState::Stored(record.clone());
                stored.resource_version = resource_version;
                observed.push((Input::Revision(stored.clone()), self.version));
                stored.uid.clone()
            }
            Write::UpdateStatus { status, .. } => {
                self.daemon_set.status = status.clone();
                self.daemon_set.resource_version = resource_version;
                observed.push((Input::DaemonSet(Box::new(self.daemon_set.clone())), self.version));
                DS_UID.into()
            }
            other => panic!("unexpected in these phases: {other}"),
        };
        Outcome::Written { uid, resource_version }
    }

    /// Creates a pod, which causes four events: created, scheduled, running and ready.
    fn create_pod(&mut self, new: &NewPod, observed: &mut Vec<(Input, u64)>) -> Uid {
        self.pods_created += 1;
        let uid = Uid::new(&format!("00000000-0000-4000-8000-{:012x}", self.pods_created));
        let created = Pod {
            namespace: "bench".into(),
            name: format!("agent-{:05x}", self.pods_created).into(),
            uid: uid.clone(),
            labels: Labels::from_iter([("app", "agent"), (HASH_LABEL, new.hash.as_str())]),
            controller: Some(DS_UID.into()),
            controller_name: None,
            creation_timestamp: self.now,
            changed_after: None,
            terminating: false,
            deleted_at: None,
            node_name: None,
            affinity_node_name: Some(new.node.clone()),
            phase: PodPhase::Pending,
            readiness: Readiness::NotReady,
            restarts: 0,
            trouble: None,
            unschedulable: false,
            replacement: None,
            change: None,
        };
        let scheduled = Pod { node_name: Some(new.node.clone()), ..created.clone() };
        let running = Pod { phase: PodPhase::Running, ..scheduled.clone() };
        let ready = Pod { readiness: Readiness::ReadySince(self.now), ..running.clone() };
        self.pods.insert(ready.name.clone(), ready.clone());
        let seen = [created, scheduled, running, ready].map(Input::Pod);
        observed.extend(seen.map(|input| (input, self.version)));
        uid
    }

    fn revision(&self, new: &NewRevision, resource_version: ResourceVersion) -> Revision {
        Revision {
            name: new.name.clone(),
            uid: Uid::new(&format!("00000000-0000-4000-9000-{:012x}", new.number)),
            resource_version,
            labels: Labels::from_iter([("app", "agent"), (HASH_LABEL, new.hash.as_str())]),
            controller: Some(DS_UID.into()),
            terminating: false,
            number: new.number,
            template_generation: None,
            template: Ok(self.daemon_set.template.clone()),
            overrides: None,
            record: RecordState::None,
        }
    }

    fn flap(&mut self) {
        for pod in self.pods.values() {
            let unready = Pod { readiness: Readiness::NotReady, ..pod.clone() };
            let seen = [unready, pod.clone()].map(Input::Pod);
            self.pending.extend(seen.map(|input| (input, self.version)));
        }
    }

    fn roll_out(&mut self, max_unavailable: IntOrPercent) {
        let max_surge = IntOrPercent::Int(0);
        self.version += 1;
        let daemon_set = &mut self.daemon_set;
        daemon_set.resource_version = ResourceVersion(self.version);
        daemon_set.generation += 1;
        daemon_set.update_strategy = UpdateStrategy::RollingUpdate { max_unavailable, max_surge };
        let canonical: Arc<str> = daemon_set.generation.to_string().into();
        daemon_set.template = Template::new(canonical, Placement::default());
        let daemon_set = daemon_set.clone();
        self.push(Input::DaemonSet(Box::new(daemon_set)));
    }
}

/// Waves of these shares of the nodes, or of those with each value of a label, and a rule for
/// failures.
fn policy(by: Option<&str>, up_to: &[u32]) -> RolloutPolicy {
    let step = RolloutStep {
        name: "part".into(),
        nodes: LabelSelector::default(),
        by: by.map(Into::into),
        each: None,
        up_to: up_to.iter().copied().map(IntOrPercent::Percent).collect(),
        wait: Wait::default(),
    };
    let failure = FailureRule {
        max_nodes: IntOrPercent::Percent(5),
        max_restarts: Some(2),
        max_lost: None,
        max_removed: IntOrPercent::Int(0),
        cannot_start: true,
        ready_within: Some(Duration::from_secs(600)),
        rollback_after: None,
    };
    RolloutPolicy {
        steps: vec![step],
        steps_hash: by.unwrap_or("steps").into(),
        failure: Some(failure),
        ..RolloutPolicy::default()
    }
}

fn copy(input: &Input) -> Input {
    match input {
        Input::Node(node) => Input::Node(node.clone()),
        Input::DaemonSet(daemon_set) => Input::DaemonSet(daemon_set.clone()),
        Input::Pod(pod) => Input::Pod(pod.clone()),
        Input::PodGone(pod) => Input::PodGone(pod.clone()),
        Input::Revision(revision) => Input::Revision(revision.clone()),
        Input::Written(result) => Input::Written(result.clone()),
    }
}

fn node(name: &NodeName, tainted: bool) -> Node {
    let taint = Taint { key: "joining".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    Node {
        name: name.clone(),
        labels: Labels::from_iter([("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")]),
        taints: if tainted { vec![taint] } else { Vec::new() },
        created: Timestamp(0),
        readiness: NodeReadiness::Ready,
        conditions: Box::default(),
        boot_id: "".into(),
        kubelet_version: None,
    }
}
