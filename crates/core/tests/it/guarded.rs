//! Properties of guarded rollouts that hold for orders, faults, crashes and new templates in any
//! sequence. The checks read the objects of the API server only, and know neither gate nor waves.

mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{
    Attribution, GroupLimit, IntOrPercent, LabelOperator, LabelRequirement, LabelSelector, Node,
    NodeName, Order, OrderVerb, Placement, PolicySource, Position, Readiness, RecordReason,
    Revision, RevisionHash, RolloutPhase, RolloutPolicy, RolloutRecord, RolloutStep, Template,
    Timestamp, UpdateStrategy, Wait,
};
use everynode_core::plan::{Outcome, Plan, Write};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{Fault, World, daemon_set, node};

use steps::{Guard, Step, Verb, harmless, step};

/// Nodes n0 to n9; n0 and n1 are canaries.
const NODES: u8 = 10;
const CANARIES: usize = 2;

/// Two canaries that bake for a minute and must be approved, then half of all nodes, then all.
fn policy() -> RolloutPolicy {
    let is_canary =
        LabelRequirement { key: "pool".into(), operator: LabelOperator::In(vec!["canary".into()]) };
    let canary = RolloutStep {
        name: "canary".into(),
        nodes: LabelSelector { requirements: vec![is_canary] },
        by: None,
        each: None,
        up_to: vec![IntOrPercent::Percent(100)],
        wait: Wait { bake: Duration::from_secs(60), approval: true, ..Wait::default() },
    };
    let half = RolloutStep {
        name: "half".into(),
        nodes: LabelSelector::default(),
        up_to: vec![IntOrPercent::Percent(50)],
        wait: Wait::default(),
        ..canary.clone()
    };
    RolloutPolicy {
        steps: vec![canary, half],
        steps_hash: "steps".into(),
        ..RolloutPolicy::default()
    }
}

fn is_canary(node: &NodeName) -> bool {
    (0..CANARIES).any(|number| node.as_str() == format!("n{number}"))
}

fn labelled_node(number: u8) -> Node {
    let mut node = node(&format!("n{number}"));
    let pool = (usize::from(number) < CANARIES).then_some(("pool", "canary"));
    let zone = ["a", "b"].get(usize::from(number % 3)).map(|zone| ("zone", *zone));
    node.labels = pool.into_iter().chain(zone).collect();
    node
}

/// A world whose first template is rolled out, and what was ordered in it.
struct Guarded {
    world: World,
    policy: RolloutPolicy,
    /// The revisions of which somebody approved or promoted the canary, or promoted it in full.
    approved: BTreeSet<RevisionHash>,
    /// Those that were, or were to be, recorded as in use.
    in_use: BTreeSet<RevisionHash>,
    orders: u32,
    /// The most nodes that have had a revision at the same time. Those that got it while nothing
    /// guarded it keep it, and get it again.
    most: BTreeMap<RevisionHash, usize>,
    /// Since when nodes have no ready pod.
    unready_since: BTreeMap<NodeName, Timestamp>,
}

impl Guarded {
    fn new(budget: u32) -> Self {
        Self::with_policy(policy(), budget)
    }

    fn with_policy(policy: RolloutPolicy, budget: u32) -> Self {
        let mut world = World::new(daemon_set());
        world.change(|ds| {
            ds.policy = PolicySource::Valid(Arc::new(policy.clone()));
            ds.template = template(0);
            ds.update_strategy = UpdateStrategy::RollingUpdate {
                max_unavailable: IntOrPercent::Int(budget),
                max_surge: IntOrPercent::Int(0),
            };
        });
        for number in 0..NODES {
            world.apply_node(labelled_node(number));
        }
        world.settle();
        let mut guarded = Self {
            world,
            policy,
            approved: BTreeSet::new(),
            in_use: BTreeSet::new(),
            orders: 0,
            most: BTreeMap::new(),
            unready_since: BTreeMap::new(),
        };
        assert_eq!(guarded.record().map(|r| r.phase), Some(RolloutPhase::Complete));
        guarded.approved.extend(guarded.target());
        guarded
    }

    fn current(&self) -> Option<&Revision> {
        let template = &self.world.server.daemon_set.template;
        self.world.server.revisions.values().find(|revision| revision.stores(template))
    }

    fn target(&self) -> Option<RevisionHash> {
        self.current()?.hash()
    }

    fn record(&self) -> Option<Arc<RolloutRecord>> {
        self.current()?.record.stored().cloned()
    }

    fn apply(&mut self, step: Step) {
        let world = &mut self.world;
        match step {
            Step::Template(letter) => world.change(|ds| ds.template = template(letter)),
            Step::Order(verb) => {
                if let Some(hash) = self.target() {
                    self.order(verb, hash);
                }
            }
            Step::Misdirected(verb) => self.order(verb, "another".into()),
            Step::Pause(paused) => world.change(|ds| ds.paused = paused),
            Step::Policy(guard) => {
                let source = match guard {
                    Guard::Valid => PolicySource::Valid(Arc::new(self.policy.clone())),
                    Guard::Invalid => PolicySource::Invalid("it is wrong".into()),
                    Guard::None => PolicySource::None,
                };
                world.change(|ds| ds.policy = source);
            }
            Step::Unready(index) => {
                if let Some(mut pod) = any_pod(world, index) {
                    pod.readiness = Readiness::NotReady;
                    world.put_pod(pod);
                }
            }
            Step::DeletePod(index) => {
                if let Some(pod) = any_pod(world, index) {
                    world.remove_pod(&pod.name);
                }
            }
            Step::AddNode(number) => world.apply_node(labelled_node(number)),
            Step::Fault(write) => {
                let outcome = Outcome::Failed { message: "refused".to_owned() };
                let write = write.to_owned();
                world.faults.push_back(Fault { write, outcome, takes_effect: false });
            }
            Step::NoResponse(write, takes_effect) => {
                let outcome = Outcome::Unknown { message: "no answer".to_owned() };
                let write = write.to_owned();
                world.faults.push_back(Fault { write, outcome, takes_effect });
            }
            Step::Delay(kind) => world.delay(kind),
            Step::Deliver => world.deliver_delayed(),
            Step::Restart => world.restart(world.server.daemon_set.clone()),
            Step::Advance(seconds) => {
                // A watch that shows nothing for five minutes is not waited for any longer (C60).
                world.deliver_delayed();
                world.advance(Duration::from_secs(seconds.into()));
            }
            Step::Kubelets => {
                world.kubelets();
            }
            Step::Sync => self.sync(),
        }
    }

    fn order(&mut self, verb: Verb, revision: RevisionHash) {
        let verb = match verb {
            Verb::ApproveCanary => OrderVerb::Approve("canary".into()),
            Verb::PromoteCanary => OrderVerb::Promote("canary".into()),
            Verb::PromoteFull => OrderVerb::PromoteFull,
            Verb::Abort => OrderVerb::Abort,
            Verb::Retry => OrderVerb::Retry,
        };
        if matches!(verb, OrderVerb::Approve(_) | OrderVerb::Promote(_) | OrderVerb::PromoteFull) {
            self.approved.insert(revision.clone());
        }
        self.orders += 1;
        let text = format!("order {}", self.orders).into();
        let attribution = Attribution::default();
        self.world
            .change(|ds| ds.order = Some(Box::new(Order { verb, revision, text, attribution })));
    }

    /// Plans, checks the plan, and executes it.
    fn sync(&mut self) {
        let before = self.with_target();
        if let Some(target) = self.target() {
            let most = self.most.entry(target).or_default();
            *most = before.len().max(*most);
        }
        let plan = self.world.plan();
        let adopts = plan.writes.iter().any(|write| match write {
            Write::WriteRecord { revision, record } => {
                self.current().is_some_and(|current| current.uid == revision.uid)
                    && record.reason == Some(RecordReason::Adopted)
            }
            _ => false,
        });
        if adopts {
            self.in_use.extend(self.target());
        }
        self.check(&plan, &before);
        self.world.perform(&plan);
        self.world.deliver();
    }

    /// The nodes that have a pod of the target.
    fn with_target(&self) -> BTreeSet<NodeName> {
        let target = self.target();
        let pods = self.world.server.pods.values();
        let of_target = pods.filter(|pod| pod.revision_hash() == target && !pod.terminating);
        of_target.filter_map(|pod| pod.target_node_name().cloned()).collect()
    }

    /// G1, G7, G9: what a plan writes is allowed by the record that the API server has.
    fn check(&self, plan: &Plan, before: &BTreeSet<NodeName>) {
        let is_record = |write: &&Write| matches!(write, Write::WriteRecord { .. });
        if plan.writes.iter().any(|write| is_record(&write)) {
            assert_eq!(plan.writes.len(), 1, "a record is the only write of its plan: {plan}");
        }
        let seen = &self.world.state.daemon_set().template;
        let Some(target) = self.target().filter(|_| *seen == self.world.server.daemon_set.template)
        else {
            return;
        };
        let of_target = plan.writes.iter().filter_map(|write| match write {
            Write::CreatePod(new) if new.hash == target => Some(&new.node),
            _ => None,
        });
        let new: BTreeSet<_> = of_target.filter(|node| !before.contains(*node)).collect();
        let canaries = || new.iter().all(|node| is_canary(node));
        let most = self.most.get(&target).copied().unwrap_or_default();
        let (size, count) = (self.size().max(most), before.len() + new.len());
        assert!(
            new.is_empty() || count <= size || (size >= CANARIES && canaries()),
            "{count} nodes have the target, but the record opens {size}: {plan}"
        );
    }

    /// How many nodes the record of the target opens, by the policy that this file knows.
    fn size(&self) -> usize {
        let all = self.world.nodes.len();
        let seen = self.world.state.daemon_set();
        let is_guarded = !matches!(seen.policy, PolicySource::None);
        let Some(record) = self.record() else {
            // What is in use counts as complete also while that cannot be recorded (G37).
            let is_in_use = self.target().is_some_and(|target| self.in_use.contains(&target));
            return if (is_guarded || seen.paused) && !is_in_use { 0 } else { all };
        };
        match (record.phase, &record.position) {
            (RolloutPhase::Pending | RolloutPhase::Failed, _) => 0,
            (RolloutPhase::Complete, _) | (_, Position::AllNodes) => all,
            // Without a policy, a template that comes back is not guarded any more.
            (RolloutPhase::Superseded, _) => {
                if is_guarded {
                    0
                } else {
                    all
                }
            }
            (RolloutPhase::Updating | RolloutPhase::Baking, Position::Wave(wave)) => {
                [CANARIES, all.div_ceil(2)][wave.step]
            }
        }
    }

    /// G11: a wave behind the canary is reached with its approval only.
    fn check_approval(&self) {
        let (Some(record), Some(target)) = (self.record(), self.target()) else { return };
        let is_behind_canary = match &record.position {
            Position::Wave(wave) => wave.step > 0,
            Position::AllNodes => record.has_begun(),
        };
        assert!(
            !is_behind_canary || self.approved.contains(&target),
            "nobody approved the canary of {target}: {record}"
        );
    }

    /// Number of nodes without a ready pod.
    fn unavailable(&mut self) -> usize {
        self.unavailable_by_zone().values().sum()
    }

    /// Number of nodes without a ready pod, by the value of the label `zone`. One that has had none
    /// for ten minutes is broken for another reason than a rollout (G33).
    fn unavailable_by_zone(&mut self) -> BTreeMap<Option<Arc<str>>, usize> {
        let pods = self.world.pods_by_node();
        let is_ready = |name: &NodeName| {
            pods.get(name).is_some_and(|pods| pods.iter().any(|pod| pod.readiness.is_ready()))
        };
        let now = self.world.now;
        let (mut counts, mut since) = (BTreeMap::new(), BTreeMap::new());
        for (_, node) in self.world.nodes.iter().filter(|(_, node)| !is_ready(&node.name)) {
            let began = self.unready_since.get(&node.name).copied().unwrap_or(now);
            since.insert(node.name.clone(), began);
            if now.since(began) < Duration::from_secs(600) {
                *counts.entry(node.labels.get("zone").cloned()).or_default() += 1;
            }
        }
        self.unready_since = since;
        counts
    }

    /// Number of nodes with a pod of a revision that is not ready, by the value of the label `zone`
    /// and by revision: in a rollback, pods of the target may be left beside available ones.
    fn starting_by_zone(&self) -> BTreeMap<(Option<Arc<str>>, Option<RevisionHash>), usize> {
        let mut counts = BTreeMap::new();
        let pods = self.world.server.pods.values();
        for pod in pods.filter(|pod| !pod.terminating && !pod.readiness.is_ready()) {
            let node = pod.target_node_name().and_then(|name| self.world.nodes.id(name));
            let node = node.and_then(|id| self.world.nodes.node(id));
            let zone = node.and_then(|node| node.labels.get("zone").cloned());
            *counts.entry((zone, pod.revision_hash())).or_default() += 1;
        }
        counts
    }

    /// Ends all faults, and gives the orders that a person would give until the rollout is over.
    fn finish(&mut self) {
        self.world.faults.clear();
        self.world.change(|ds| {
            ds.paused = false;
            ds.policy = PolicySource::Valid(Arc::new(self.policy.clone()));
        });
        self.world.deliver_delayed();
        for _ in 0..20 {
            self.world.settle_all_deadlines();
            self.ready_all();
            let record = self.record().expect("a guarded rollout has a record");
            match record.phase {
                RolloutPhase::Complete | RolloutPhase::Failed => {
                    self.world.settle_all_deadlines();
                    return;
                }
                RolloutPhase::Baking => {
                    let target = self.target().expect("the revision is stored");
                    self.order(Verb::ApproveCanary, target);
                }
                RolloutPhase::Pending | RolloutPhase::Updating | RolloutPhase::Superseded => {}
            }
        }
        panic!("the rollout does not end: {:?}", self.record());
    }

    fn ready_all(&mut self) {
        let unready = self.world.server.pods.values().filter(|pod| !pod.readiness.is_ready());
        for mut pod in unready.cloned().collect::<Vec<_>>() {
            pod.readiness = Readiness::ReadySince(self.world.now);
            self.world.put_pod(pod);
        }
    }

    /// The rollout ended as its record says: all nodes have the target, or all have the base.
    fn assert_ended(&self) {
        let pods = self.world.pods_by_node();
        let record = self.record().expect("a guarded rollout has a record");
        let target = self.target().expect("the revision is stored");
        let mut by_revision: BTreeMap<RevisionHash, usize> = BTreeMap::new();
        for there in pods.values() {
            assert_eq!(there.len(), 1, "one pod on each node");
            *by_revision.entry(there[0].revision_hash().expect("a hash")).or_default() += 1;
        }
        assert_eq!(pods.len(), self.world.nodes.len());
        if record.phase == RolloutPhase::Complete {
            assert_eq!(by_revision.keys().collect::<Vec<_>>(), [&target]);
        } else {
            assert_eq!(record.reason, Some(RecordReason::Aborted));
            assert!(!by_revision.contains_key(&target), "{by_revision:?}");
        }
    }
}

fn template(letter: u8) -> Template {
    Template::new(letter.to_string(), Placement::default())
}

fn any_pod(world: &World, index: Index) -> Option<everynode_core::api::Pod> {
    let pods: Vec<_> = world.server.pods.values().filter(|pod| !pod.terminating).collect();
    if pods.is_empty() { None } else { Some((*index.get(&pods)).clone()) }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// G1, G7, G9, G10, G11, G16: whatever happens, no more nodes get the target than the record
    /// opens, no wave is skipped, and the rollout ends with the target or the base on all nodes.
    #[test]
    fn no_history_leads_past_a_closed_wave(steps in prop::collection::vec(step(), 1..150)) {
        let mut guarded = Guarded::new(2);
        for step in steps {
            guarded.apply(step);
            guarded.check_approval();
        }
        guarded.finish();
        guarded.assert_ended();
    }

    /// G14: rollouts, rollbacks and crashes in any sequence keep the budget.
    #[test]
    fn a_guarded_rollout_never_exceeds_its_budget(
        budget in 1u32..4,
        steps in prop::collection::vec(harmless(), 1..150),
    ) {
        let mut guarded = Guarded::new(budget);
        for step in steps {
            guarded.apply(step);
            let unavailable = guarded.unavailable();
            prop_assert!(unavailable <= budget as usize, "{unavailable} nodes are unavailable");
        }
        guarded.finish();
        guarded.assert_ended();
    }

    /// G13: rollouts, rollbacks and crashes in any sequence keep the limit of each group: of
    /// unavailable nodes, with surge of those on which a pod starts.
    #[test]
    fn a_guarded_rollout_never_exceeds_the_limit_of_a_group(
        max in 1u32..3,
        surges in any::<bool>(),
        steps in prop::collection::vec(harmless(), 1..150),
    ) {
        let limit = GroupLimit { label: "zone".into(), max: IntOrPercent::Int(max) };
        let policy = RolloutPolicy { max_unavailable_per: Some(limit), ..policy() };
        let mut guarded = Guarded::with_policy(policy, 8);
        if surges {
            guarded.world.change(|ds| {
                let (max_unavailable, max_surge) = (IntOrPercent::Int(0), IntOrPercent::Int(8));
                ds.update_strategy = UpdateStrategy::RollingUpdate { max_unavailable, max_surge };
            });
        }
        for step in steps {
            guarded.apply(step);
            let (unavailable, starting) =
                (guarded.unavailable_by_zone(), guarded.starting_by_zone());
            let counts = unavailable.values().chain(starting.values());
            prop_assert!(counts.into_iter().all(|count| *count <= max as usize),
                "{unavailable:?} {starting:?}");
        }
        guarded.finish();
        guarded.assert_ended();
    }

    /// G14: even if all old pods become unready at once, no more nodes are replaced at a time.
    #[test]
    fn a_collapse_of_readiness_does_not_replace_all_pods(
        budget in 1u32..4,
        before in 0usize..30,
    ) {
        let mut guarded = Guarded::new(budget);
        guarded.apply(Step::Template(1));
        for _ in 0..before {
            guarded.apply(Step::Sync);
            guarded.apply(Step::Kubelets);
        }
        let names: Vec<_> = guarded.world.server.pods.keys().cloned().collect();
        for name in names {
            let mut pod = guarded.world.server.pods[&name].clone();
            pod.readiness = Readiness::NotReady;
            guarded.world.put_pod(pod);
        }
        let target = guarded.target();
        if let Some(target) = target.clone() {
            guarded.order(Verb::PromoteFull, target);
        }
        for _ in 0..60 {
            guarded.apply(Step::Sync);
            let pods = guarded.world.server.pods.values();
            let begun = pods.filter(|pod| {
                pod.terminating || (pod.revision_hash() == target && !pod.readiness.is_ready())
            });
            prop_assert!(begun.count() <= budget as usize + guarded_before(&guarded, &target));
            guarded.apply(Step::Kubelets);
        }
        guarded.finish();
        guarded.assert_ended();
    }
}

/// The nodes whose pod of the target was made unready by the test: the rollout had been there.
fn guarded_before(guarded: &Guarded, target: &Option<RevisionHash>) -> usize {
    let pods = guarded.world.server.pods.values();
    let made_unready =
        pods.filter(|pod| pod.revision_hash() == *target && pod.readiness == Readiness::NotReady);
    made_unready.filter(|pod| pod.node_name.is_some()).count()
}
