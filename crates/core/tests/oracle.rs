//! The same decisions, made the slow way: every node is scanned, step by step as upstream's `manage`,
//! `rollingUpdate` and `updateDaemonSetStatus` do it, and the outcome compared with the plan's.

mod support;

use std::collections::BTreeSet;

use everynode_core::name::{NodeName, PodName};
use everynode_core::object::{
    DaemonSet, HASH_LABEL, IntOrPercent, Node, Pod, PodPhase, Readiness, Status, Taint,
    TaintEffect, UpdateStrategy,
};
use everynode_core::placement::{should_continue_running, should_run};
use everynode_core::plan::{Plan, Write};
use everynode_core::time::Timestamp;
use proptest::prelude::*;

use support::{World, daemon_set, node, pod, revision, with_label};

const CURRENT: &str = "current";

/// What is to be done with pods, by name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    create: BTreeSet<NodeName>,
    delete: BTreeSet<PodName>,
}

impl Verdict {
    /// Adds what is to be done on nodes that lose no pod by this already. Pods are named after nodes.
    fn and(mut self, other: Self) -> Self {
        let node_of = |pod: &PodName| NodeName::from(&pod.as_str()[..2]);
        let touched: BTreeSet<NodeName> = self.delete.iter().map(node_of).collect();
        let free = |node: &NodeName| !touched.contains(node);
        self.create.extend(other.create.into_iter().filter(free));
        self.delete.extend(other.delete.into_iter().filter(|pod| free(&node_of(pod))));
        self
    }
}

struct Oracle<'a> {
    daemon_set: &'a DaemonSet,
    nodes: Vec<&'a Node>,
    pods: Vec<&'a Pod>,
    now: Timestamp,
}

impl Oracle<'_> {
    /// The node's pods, oldest first, without those that are terminating and have ended (C22).
    fn on(&self, node: &Node) -> Vec<&Pod> {
        let there = |pod: &&&Pod| pod.target_node_name() == Some(&node.name);
        let counts = |pod: &&&Pod| !(pod.terminating && pod.phase.is_terminal());
        let mut pods: Vec<&Pod> = self.pods.iter().filter(there).filter(counts).copied().collect();
        pods.sort_by_key(|pod| (pod.node_name.is_none(), pod.creation_timestamp, pod.name.clone()));
        pods
    }

    fn runs(&self, node: &Node) -> bool {
        should_run(&self.daemon_set.template.placement, node)
    }

    fn is_new(&self, pod: &Pod) -> bool {
        pod.revision_hash().is_some_and(|hash| hash.as_str() == CURRENT)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        let wait = i64::from(self.daemon_set.min_ready_seconds) * 1000;
        match pod.readiness {
            Readiness::NotReady => false,
            Readiness::Ready => wait == 0,
            Readiness::ReadySince(since) => wait == 0 || since.0 + wait <= self.now.0,
        }
    }

    fn manage(&self) -> Verdict {
        let mut verdict = Verdict::default();
        for node in &self.nodes {
            self.manage_node(node, &mut verdict);
        }
        verdict
    }

    fn manage_node(&self, node: &Node, verdict: &mut Verdict) {
        let pods = self.on(node);
        if self.runs(node) && pods.is_empty() {
            verdict.create.insert(node.name.clone());
            return;
        }
        let (mut ended, mut running) = (Vec::new(), Vec::new());
        for pod in pods.iter().filter(|pod| !pod.terminating) {
            if pod.phase.is_terminal() { &mut ended } else { &mut running }.push(*pod);
        }
        if !should_continue_running(&self.daemon_set.template.placement, node) {
            verdict.delete.extend(ended.iter().chain(&running).map(|pod| pod.name.clone()));
            return;
        }
        verdict.delete.extend(ended.iter().map(|pod| pod.name.clone()));
        if !self.daemon_set.update_strategy.surges() {
            verdict.delete.extend(running.iter().skip(1).map(|pod| pod.name.clone()));
            return;
        }
        // Unlike upstream: what ended goes before another one comes (C24).
        if running.is_empty() && ended.is_empty() && self.runs(node) {
            verdict.create.insert(node.name.clone());
        }
        let (new, old): (Vec<&Pod>, Vec<&Pod>) = running.iter().partition(|pod| self.is_new(pod));
        let excess = new.iter().skip(1).chain(old.iter().skip(1));
        verdict.delete.extend(excess.map(|pod| pod.name.clone()));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.readiness.is_ready() || self.is_available(new))
        {
            verdict.delete.insert(old.name.clone());
        }
    }

    /// The new and the old pod of a node; `None` if there is more than one of a kind. On a node that is
    /// being cleared there is neither.
    fn pair<'p>(
        &self,
        node: &Node,
        pods: &[&'p Pod],
    ) -> Option<(Option<&'p Pod>, Option<&'p Pod>)> {
        if !should_continue_running(&self.daemon_set.template.placement, node) {
            return Some((None, None));
        }
        let live = pods.iter().filter(|pod| !pod.terminating);
        let (new, old): (Vec<&Pod>, Vec<&Pod>) = live.partition(|pod| self.is_new(pod));
        (new.len() < 2 && old.len() < 2).then(|| (new.first().copied(), old.first().copied()))
    }

    fn roll(&self) -> Verdict {
        let desired = self.nodes.iter().filter(|node| self.runs(node)).count();
        match self.daemon_set.update_strategy {
            UpdateStrategy::OnDelete | UpdateStrategy::Malformed => Verdict::default(),
            UpdateStrategy::RollingUpdate { max_surge, .. } if max_surge.of(1) > 0 => {
                self.surge(max_surge.of(desired), desired)
            }
            UpdateStrategy::RollingUpdate { max_unavailable, .. } => {
                self.replace(max_unavailable.of(desired).max(1))
            }
        }
    }

    fn replace(&self, max_unavailable: usize) -> Verdict {
        let mut unavailable = 0;
        let (mut at_once, mut candidates) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            let pods = self.on(node);
            if pods.is_empty() && !self.runs(node) {
                continue;
            }
            match self.pair(node, &pods) {
                None | Some((None, None) | (Some(_), Some(_))) => unavailable += 1,
                Some((Some(new), None)) => unavailable += usize::from(!self.is_available(new)),
                Some((None, Some(old))) if self.is_available(old) => candidates.push(old),
                Some((None, Some(old))) => {
                    unavailable += 1;
                    at_once.push(old);
                }
            }
        }
        let room = max_unavailable.saturating_sub(unavailable);
        let delete = at_once.into_iter().chain(candidates.into_iter().take(room));
        Verdict { delete: delete.map(|pod| pod.name.clone()).collect(), ..Verdict::default() }
    }

    fn surge(&self, max_surge: usize, desired: usize) -> Verdict {
        let (mut surging, mut available) = (0, 0usize);
        let (mut retire, mut sunset) = (Vec::new(), Vec::new());
        let (mut at_once, mut candidates) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            let Some((new, old)) = self.pair(node, &self.on(node)) else {
                surging += 1;
                continue;
            };
            available += usize::from(old.or(new).is_some_and(|pod| self.is_available(pod)));
            match (new, old) {
                (_, None) => {}
                (None, Some(old)) => match (self.is_available(old), self.runs(node)) {
                    (false, false) => retire.push(old),
                    (false, true) => at_once.push(node),
                    (true, false) => sunset.push(old),
                    (true, true) => candidates.push(node),
                },
                (Some(new), Some(old)) if self.is_available(new) => retire.push(old),
                (Some(_), Some(_)) => surging += 1,
            }
        }
        let delete =
            retire.into_iter().chain(sunset.into_iter().take(available.saturating_sub(desired)));
        let create = at_once
            .into_iter()
            .chain(candidates.into_iter().take(max_surge.saturating_sub(surging)));
        Verdict {
            delete: delete.map(|pod| pod.name.clone()).collect(),
            create: create.map(|node| node.name.clone()).collect(),
        }
    }

    fn status(&self) -> Status {
        let mut status =
            Status { observed_generation: self.daemon_set.generation, ..Status::default() };
        for node in &self.nodes {
            let pods = self.on(node);
            let oldest = pods.first();
            let is = |holds: bool| u32::from(holds);
            if !self.runs(node) {
                status.number_misscheduled += is(oldest.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            status.current_number_scheduled += is(oldest.is_some());
            status.number_ready += is(oldest.is_some_and(|pod| pod.readiness.is_ready()));
            status.number_available += is(oldest.is_some_and(|pod| self.is_available(pod)));
            status.updated_number_scheduled += is(oldest.is_some_and(|pod| self.is_new(pod)));
        }
        status.number_unavailable = status.desired_number_scheduled - status.number_available;
        status
    }
}

/// A node: its taint, and its pods.
fn any_node() -> impl Strategy<Value = (Option<TaintEffect>, Vec<Pod>)> {
    let effect = prop_oneof![
        2 => Just(None),
        2 => Just(Some(TaintEffect::NoSchedule)),
        1 => Just(Some(TaintEffect::NoExecute)),
    ];
    (effect, prop::collection::vec(any_pod(), 0..4))
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let phase = prop_oneof![
        12 => Just(PodPhase::Running),
        1 => Just(PodPhase::Pending),
        1 => Just(PodPhase::Failed),
        1 => Just(PodPhase::Succeeded),
    ];
    let readiness = prop_oneof![
        1 => Just(Readiness::NotReady),
        1 => Just(Readiness::Ready),
        2 => prop_oneof![900i64..950, 951i64..1000].prop_map(|seconds| Readiness::ReadySince(Timestamp::from_seconds(seconds))),
    ];
    let rest = (any::<bool>(), prop::bool::weighted(0.1), 990i64..994, prop::bool::weighted(0.8));
    (phase, readiness, rest).prop_map(
        |(phase, readiness, (is_new, terminating, created, scheduled))| {
            let mut pod = pod("", "");
            let hash = if is_new { CURRENT } else { "older" };
            pod.labels = with_label(&pod.labels, HASH_LABEL, hash);
            (pod.phase, pod.readiness, pod.terminating) = (phase, readiness, terminating);
            pod.creation_timestamp = Timestamp::from_seconds(created);
            pod.node_name = scheduled.then(|| "".into());
            pod
        },
    )
}

fn any_strategy() -> impl Strategy<Value = UpdateStrategy> {
    let amount = || {
        prop_oneof![
            (0u32..4).prop_map(IntOrPercent::Int),
            (0u32..=100).prop_map(IntOrPercent::Percent)
        ]
    };
    let zero = IntOrPercent::Int(0);
    prop_oneof![
        1 => Just(UpdateStrategy::OnDelete),
        4 => amount().prop_map(move |max_unavailable| {
            UpdateStrategy::RollingUpdate { max_unavailable, max_surge: zero }
        }),
        4 => amount().prop_map(move |max_surge| {
            UpdateStrategy::RollingUpdate { max_unavailable: zero, max_surge }
        }),
    ]
}

fn world_of(
    strategy: UpdateStrategy,
    min_ready_seconds: u32,
    nodes: Vec<(Option<TaintEffect>, Vec<Pod>)>,
) -> World {
    let mut world =
        World::new(DaemonSet { update_strategy: strategy, min_ready_seconds, ..daemon_set() });
    world.put_revision(revision(CURRENT, "A", 1));
    for (number, (effect, pods)) in nodes.into_iter().enumerate() {
        let name = format!("n{number}");
        let mut node = node(&name);
        node.taints.extend(effect.map(|effect| Taint {
            key: "t".into(),
            value: "".into(),
            effect,
        }));
        world.apply_node(node);
        for (number, mut pod) in pods.into_iter().enumerate() {
            pod.name = format!("{name}-p{number}").into();
            pod.uid = pod.name.as_str().into();
            pod.affinity_node_name = Some(name.as_str().into());
            pod.node_name = pod.node_name.map(|_| name.as_str().into());
            world.put_pod(pod);
        }
    }
    world
}

fn verdict_of(plan: &Plan) -> Verdict {
    let mut verdict = Verdict::default();
    for write in &plan.writes {
        match write {
            Write::CreatePod(pod) => assert!(verdict.create.insert(pod.node.clone()), "{plan}"),
            Write::DeletePod(pod) => assert!(verdict.delete.insert(pod.name.clone()), "{plan}"),
            Write::UpdateStatus { .. } => {}
            other => panic!("{other} in\n{plan}"),
        }
    }
    verdict
}

fn status_of(plan: &Plan, known: &Status) -> Status {
    let written = plan.writes.iter().find_map(|write| match write {
        Write::UpdateStatus { status, .. } => Some(status.clone()),
        _ => None,
    });
    written.unwrap_or_else(|| known.clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// C22, C23, C25, C26, C52, C53, C70: the incremental plan is the one that a scan of all nodes arrives at.
    #[test]
    fn a_plan_is_what_a_scan_of_all_nodes_arrives_at(
        strategy in any_strategy(),
        min_ready_seconds in prop::sample::select(vec![0, 50]),
        nodes in prop::collection::vec(any_node(), 0..6),
    ) {
        let mut world = world_of(strategy, min_ready_seconds, nodes);
        let plan = world.plan();
        let oracle = Oracle {
            daemon_set: &world.server.daemon_set,
            nodes: world.nodes.iter().map(|(_, node)| node).collect(),
            pods: world.server.pods.values().collect(),
            now: world.now,
        };
        let (verdict, managed) = (verdict_of(&plan), oracle.manage());
        prop_assert_eq!(status_of(&plan, &world.server.daemon_set.status), oracle.status());
        // Upstream rolls only when there is nothing else to do; we do both at once, on different nodes.
        prop_assert_eq!(verdict, managed.and(oracle.roll()));
    }
}
