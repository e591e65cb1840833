//! Properties of guarded rollouts beside the built-in controller, in any sequence of templates,
//! orders, strategies, faults, crashes and people who delete pods. The checks read the objects of
//! the API server only. The built-in controller is this one without guarded rollouts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{
    Attribution, FailureRule, IntOrPercent, LabelSelector, NodeName, Order, OrderVerb, Placement,
    Pod, PolicySource, Position, Readiness, Revision, RolloutPhase, RolloutPolicy, RolloutStep,
    Template, UpdateStrategy, Wait,
};
use everynode_core::daemon_set::{Config, Mode};
use everynode_core::plan::{Outcome, Plan, Write};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{Fault, Kind, World, daemon_set, node};

const NODES: u8 = 6;

#[derive(Clone, Debug)]
enum Step {
    Template(u8),
    OnDelete(bool),
    Policy(bool),
    Pause(bool),
    Order(OrderVerb),
    Unready(Index),
    DeletePod(Index),
    AddNode(u8),
    Fault(&'static str),
    NoResponse(&'static str, bool),
    Delay(Kind),
    Deliver,
    Restart,
    Advance(u16),
    Kubelets,
    BuiltIn,
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let verb = prop::sample::select(vec![
        OrderVerb::Approve("first".into()),
        OrderVerb::Promote("first".into()),
        OrderVerb::PromoteFull,
        OrderVerb::Abort,
        OrderVerb::Abort,
        OrderVerb::Retry,
    ]);
    let write = || {
        let writes = vec!["write record", "delete pod", "update conditions", "roll back"];
        prop::sample::select(writes)
    };
    // With the watch of pods behind, the pods of the check are not those of the decision.
    let kind = prop_oneof![Just(Kind::DaemonSets), Just(Kind::Revisions)];
    prop_oneof![
        3 => (0u8..2).prop_map(Step::Template),
        1 => any::<bool>().prop_map(Step::OnDelete),
        1 => any::<bool>().prop_map(Step::Policy),
        1 => any::<bool>().prop_map(Step::Pause),
        3 => verb.prop_map(Step::Order),
        1 => any::<Index>().prop_map(Step::Unready),
        1 => any::<Index>().prop_map(Step::DeletePod),
        1 => (NODES..NODES + 2).prop_map(Step::AddNode),
        1 => write().prop_map(Step::Fault),
        1 => (write(), any::<bool>()).prop_map(|(write, takes)| Step::NoResponse(write, takes)),
        1 => kind.prop_map(Step::Delay),
        2 => Just(Step::Deliver),
        1 => Just(Step::Restart),
        2 => (0u16..400).prop_map(Step::Advance),
        6 => Just(Step::Kubelets),
        6 => Just(Step::BuiltIn),
        12 => Just(Step::Sync),
    ]
}

/// Two nodes, which must be approved, then all; a failed rollout goes back at once.
fn policy() -> PolicySource {
    let first = RolloutStep {
        name: "first".into(),
        nodes: LabelSelector::default(),
        by: None,
        each: None,
        up_to: vec![IntOrPercent::Int(2)],
        wait: Wait { bake: Duration::from_secs(30), approval: true, ..Wait::default() },
    };
    let failure = FailureRule {
        max_nodes: IntOrPercent::Int(0),
        max_restarts: None,
        max_lost: None,
        cannot_start: false,
        max_removed: IntOrPercent::Int(0),
        ready_within: Some(Duration::from_secs(120)),
        rollback_after: Some(Duration::ZERO),
    };
    PolicySource::Valid(Arc::new(RolloutPolicy {
        steps: vec![first],
        steps_hash: "steps".into(),
        failure: Some(failure),
        ..RolloutPolicy::default()
    }))
}

fn template(letter: u8) -> Template {
    Template::new(letter.to_string(), Placement::default())
}

fn rolling_update() -> UpdateStrategy {
    let (max_unavailable, max_surge) = (IntOrPercent::Int(2), IntOrPercent::Int(0));
    UpdateStrategy::RollingUpdate { max_unavailable, max_surge }
}

/// A world with both controllers, whose first template is rolled out.
struct Beside {
    world: World,
    rolls_back: bool,
    orders: u32,
    /// The attempts that were rolled back.
    rolled_back: BTreeSet<Arc<str>>,
}

impl Beside {
    fn new(rolls_back: bool) -> Self {
        let config = Config { mode: Mode::Beside { rolls_back }, ..Config::default() };
        let mut world = World::with_config(config, daemon_set());
        world.change(|ds| {
            ds.policy = policy();
            ds.template = template(0);
            ds.update_strategy = UpdateStrategy::OnDelete;
        });
        (0..NODES).for_each(|number| world.apply_node(node(&format!("n{number}"))));
        world.settle();
        let beside = Self { world, rolls_back, orders: 0, rolled_back: BTreeSet::new() };
        assert_eq!(beside.phase(), Some(RolloutPhase::Complete));
        beside
    }

    fn revision_of(&self, template: &Template) -> Option<&Revision> {
        let revisions = self.world.server.revisions.values();
        revisions.filter(|revision| revision.stores(template)).max_by_key(|stored| stored.number)
    }

    fn current(&self) -> Option<&Revision> {
        self.revision_of(&self.world.server.daemon_set.template)
    }

    fn phase(&self) -> Option<RolloutPhase> {
        Some(self.current()?.record.stored()?.phase)
    }

    fn any_pod(&self, index: Index) -> Option<Pod> {
        let pods = self.world.server.pods.values().filter(|pod| !pod.terminating);
        let pods: Vec<_> = pods.collect();
        if pods.is_empty() { None } else { Some((*index.get(&pods)).clone()) }
    }

    fn apply(&mut self, step: Step) {
        let fault = |write: &str, outcome, takes_effect| Fault {
            write: write.to_owned(),
            outcome,
            takes_effect,
        };
        let message = || "in a test".to_owned();
        match step {
            Step::Template(letter) => self.world.change(|ds| ds.template = template(letter)),
            Step::OnDelete(true) => {
                self.world.change(|ds| ds.update_strategy = UpdateStrategy::OnDelete);
            }
            Step::OnDelete(false) => self.world.change(|ds| ds.update_strategy = rolling_update()),
            Step::Policy(true) => self.world.change(|ds| ds.policy = policy()),
            Step::Policy(false) => self.world.change(|ds| ds.policy = PolicySource::None),
            Step::Pause(paused) => self.world.change(|ds| ds.paused = paused),
            Step::Order(verb) => self.order(verb),
            Step::Unready(index) => {
                if let Some(pod) = self.any_pod(index) {
                    self.world.put_pod(Pod { readiness: Readiness::NotReady, ..pod });
                }
            }
            Step::DeletePod(index) => {
                if let Some(pod) = self.any_pod(index) {
                    self.world.remove_pod(&pod.name);
                }
            }
            Step::AddNode(number) => self.world.apply_node(node(&format!("n{number}"))),
            Step::Fault(write) => {
                let outcome = Outcome::Failed { message: message() };
                self.world.faults.push_back(fault(write, outcome, false));
            }
            Step::NoResponse(write, takes_effect) => {
                // Only a deletion can have an unknown outcome.
                let outcome = match write {
                    "delete pod" => Outcome::Unknown { message: message() },
                    _ => Outcome::Failed { message: message() },
                };
                self.world.faults.push_back(fault(write, outcome, takes_effect));
            }
            Step::Delay(kind) => self.world.delay(kind),
            Step::Deliver => self.world.deliver_delayed(),
            Step::Restart => self.world.restart(self.world.server.daemon_set.clone()),
            Step::Advance(seconds) => {
                self.world.deliver_delayed();
                self.world.advance(Duration::from_secs(seconds.into()));
            }
            Step::Kubelets => {
                self.world.kubelets();
            }
            Step::BuiltIn => {
                self.world.deliver_delayed();
                self.world.built_in();
            }
            Step::Sync => self.sync(),
        }
    }

    fn order(&mut self, verb: OrderVerb) {
        let Some(revision) = self.current().and_then(Revision::hash) else { return };
        self.orders += 1;
        let text = format!("order {}", self.orders).into();
        let attribution = Attribution::default();
        self.world
            .change(|ds| ds.order = Some(Box::new(Order { verb, revision, text, attribution })));
    }

    /// Plans, checks the plan, and executes it.
    fn sync(&mut self) {
        let plan = self.world.plan();
        self.check(&plan);
        let before = self.world.server.daemon_set.rolled_back.clone();
        self.world.perform(&plan);
        let after = self.world.server.daemon_set.rolled_back.clone();
        if let Some(attempt) = after
            && Some(&attempt) != before.as_ref()
        {
            assert!(self.rolled_back.insert(attempt), "it was rolled back before: {plan}");
        }
        self.world.deliver();
    }

    fn check(&mut self, plan: &Plan) {
        let mut deleted = Vec::new();
        for write in &plan.writes {
            match write {
                Write::DeletePod(pod) => deleted.push(pod.name.clone()),
                Write::RollBack { attempt, .. } => {
                    assert!(self.rolls_back && plan.writes.len() == 1, "{plan}");
                    // The server refuses the write if the DaemonSet has changed since.
                    let seen = self.world.state.daemon_set();
                    let failed = self.revision_of(&seen.template);
                    let record = failed.and_then(|failed| failed.record.stored());
                    let phase = record.map(|record| record.phase);
                    assert_eq!(phase, Some(RolloutPhase::Failed), "{plan}");
                    assert_ne!(seen.rolled_back.as_ref(), Some(attempt), "{plan}");
                }
                Write::WriteRecord { .. } => {
                    let seen = self.world.state.daemon_set().update_strategy;
                    assert_eq!((plan.writes.len(), seen), (1, UpdateStrategy::OnDelete), "{plan}");
                }
                Write::UpdateConditions { .. } => {}
                other => panic!("{other} is not a write of G20: {plan}"),
            }
        }
        if !deleted.is_empty() {
            let deleted = deleted.iter().filter_map(|name| self.world.server.pods.get(name));
            self.check_deletions(deleted.collect(), plan);
        }
    }

    /// G18, G19: what is known of the DaemonSet allows the deletions, which are of outdated pods of
    /// open nodes.
    fn check_deletions(&self, deleted: Vec<&Pod>, plan: &Plan) {
        let seen = self.world.state.daemon_set();
        assert_eq!(seen.update_strategy, UpdateStrategy::OnDelete, "{plan}");
        assert!(seen.policy.valid().is_some() && !seen.paused, "{plan}");
        assert!(seen.status.observed_generation >= seen.generation, "{plan}");
        if *seen != self.world.server.daemon_set {
            return;
        }
        let Some(current) = self.current() else { panic!("no revision is stored: {plan}") };
        let others = self.world.server.revisions.values();
        let mut others = others.filter(|other| other.name != current.name);
        assert!(others.all(|other| other.number < current.number), "{plan}");
        let target = current.hash();
        assert!(deleted.iter().all(|pod| pod.revision_hash() != target), "{plan}");
        let Some(record) = current.record.stored() else { panic!("no record: {plan}") };
        if matches!(record.position, Position::Wave(_)) {
            let open = self.world.state.open_nodes(&self.world.nodes);
            let open: BTreeSet<&NodeName> = open.collect();
            assert!(open.len() <= 2, "{} nodes are open: {plan}", open.len());
            let nodes = deleted.iter().filter_map(|pod| pod.target_node_name());
            assert!(nodes.into_iter().all(|node| open.contains(node)), "{plan}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// G18, G19, G20: whatever happens, nothing but the writes of G20 is planned, and no pod is
    /// deleted that the policy, the strategy, the record and the built-in controller do not allow.
    #[test]
    fn nothing_else_is_written_beside_the_built_in_controller(
        rolls_back in any::<bool>(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut beside = Beside::new(rolls_back);
        for step in steps {
            beside.apply(step);
        }
    }

    /// G11, G19, G20: after any history, a new template is rolled out to the end once it is
    /// promoted, and all nodes have it.
    #[test]
    fn a_promoted_rollout_ends(
        rolls_back in any::<bool>(),
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut beside = Beside::new(rolls_back);
        for step in steps {
            beside.apply(step);
        }
        beside.world.faults.clear();
        beside.world.deliver_delayed();
        beside.world.change(|ds| {
            ds.policy = policy();
            ds.paused = false;
            ds.template = template(9);
            ds.update_strategy = UpdateStrategy::OnDelete;
        });
        beside.world.advance(Duration::from_secs(600));
        beside.world.settle();
        beside.order(OrderVerb::PromoteFull);
        // Pods that somebody has made unready are replaced with the others.
        beside.world.settle_all_deadlines();
        prop_assert_eq!(beside.phase(), Some(RolloutPhase::Complete));
        let target = beside.current().and_then(Revision::hash);
        let pods = &beside.world.server.pods;
        prop_assert!(pods.values().all(|pod| pod.revision_hash() == target));
        prop_assert_eq!(pods.len(), beside.world.nodes.len());
    }
}

/// G20: somebody replaces the failed template before the controller sees it. The rollback must not
/// overwrite theirs.
#[test]
fn a_rollback_from_a_stale_template_is_refused() {
    let mut beside = Beside::new(true);
    beside.apply(Step::Template(1));
    beside.apply(Step::BuiltIn);
    beside.sync();
    beside.order(OrderVerb::Abort);
    beside.sync();
    assert_eq!(beside.phase(), Some(RolloutPhase::Failed));
    beside.apply(Step::Delay(Kind::DaemonSets));
    beside.apply(Step::Template(2));
    let plan = beside.world.plan();
    assert!(matches!(plan.writes[..], [Write::RollBack { .. }]), "{plan}");
    beside.sync();
    assert_eq!(beside.world.server.daemon_set.template, template(2));
    assert_eq!(beside.world.server.daemon_set.rolled_back, None);
    assert!(beside.rolled_back.is_empty());
}
