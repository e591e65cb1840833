//! The property of overrides beside the built-in controller that holds for other overrides, labels,
//! templates, faults, answers of kubelets and restarts in any sequence: running pods get the
//! override of their node, and none is deleted for that (G57).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{
    ChangeState, PodChange, PodName, PolicySource, Template, Timestamp, UpdateStrategy,
};
use everynode_core::api::{Placement, Pod, Readiness, RolloutPhase};
use everynode_core::daemon_set::{Config, Mode};
use everynode_core::plan::{Outcome, Plan, Write};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::overrides::{NODES, SETTLE, any_pod, labelled_node, overrides, policy, stated_tag};
use crate::support::{Fault, World, daemon_set};

/// For how long a pod that is ready counts as one that starts.
const STARTING: Duration = Duration::from_secs(60);

/// The default of `readyWithin`.
const READY_WITHIN: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
enum Step {
    Template(u8),
    /// The contents of the overrides; 0 means that there is none.
    Overrides([u8; 2]),
    /// A policy that cannot be followed, or none.
    NoPolicy {
        is_invalid: bool,
    },
    /// A node gets this pool, or none.
    Pool(u8, usize),
    DeletePod(Index),
    Fault(&'static str, Answer),
    /// The kubelet of a pod that is being changed says how far it is.
    Kubelet(Index, ChangeState),
    Restart,
    Advance(u16),
    Kubelets,
    BuiltIn,
    Sync,
}

/// The answer to a write that does not succeed.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Fails,
    IsLost {
        takes_effect: bool,
    },
    /// The pod cannot be changed.
    Refuses,
}

fn step() -> impl Strategy<Value = Step> {
    let write = prop::sample::select(vec!["write record", "change pod", "finish change"]);
    let answer = prop::sample::select(vec![
        Answer::Fails,
        Answer::IsLost { takes_effect: true },
        Answer::IsLost { takes_effect: false },
        Answer::Refuses,
    ]);
    let state = prop::sample::select(vec![
        ChangeState::Done,
        ChangeState::Done,
        ChangeState::UnderWay,
        ChangeState::ResizeInfeasible,
        ChangeState::ResizeDeferred { since: Timestamp(0) },
        ChangeState::ResizeFails { since: Timestamp(0) },
    ]);
    prop_oneof![
        1 => (0u8..3).prop_map(Step::Template),
        2 => [0u8..3, 0u8..3].prop_map(Step::Overrides),
        1 => any::<bool>().prop_map(|is_invalid| Step::NoPolicy { is_invalid }),
        3 => (0..NODES, 0usize..3).prop_map(|(node, pool)| Step::Pool(node, pool)),
        1 => any::<Index>().prop_map(Step::DeletePod),
        1 => (write, answer).prop_map(|(write, answer)| Step::Fault(write, answer)),
        6 => (any::<Index>(), state).prop_map(|(pod, state)| Step::Kubelet(pod, state)),
        1 => Just(Step::Restart),
        2 => (0u16..400).prop_map(Step::Advance),
        8 => Just(Step::Kubelets),
        8 => Just(Step::BuiltIn),
        16 => Just(Step::Sync),
    ]
}

struct Beside {
    world: World,
    /// True if the API server has refused to change a pod.
    has_refused: bool,
    contents: [u8; 2],
    /// Since when pods are being changed, as far as plans have seen it.
    changing: BTreeMap<PodName, Timestamp>,
}

impl Beside {
    fn new() -> Self {
        let mode = Mode::Beside { rolls_back: false };
        let mut world = World::with_config(Config { mode, ..Config::default() }, daemon_set());
        let contents = [1, 0];
        world.change(|ds| {
            ds.policy = policy(contents, false);
            ds.update_strategy = UpdateStrategy::OnDelete;
        });
        for number in 0..NODES {
            world.apply_node(labelled_node(number, usize::from(number % 3)));
        }
        world.settle();
        let mut beside = Self { world, has_refused: false, contents, changing: BTreeMap::new() };
        beside.record_changes();
        beside
    }

    fn apply(&mut self, step: Step) {
        let world = &mut self.world;
        match step {
            Step::Template(letter) => world.change(|ds| {
                ds.template = Template::new(letter.to_string(), Placement::default());
            }),
            Step::Overrides(contents) => {
                self.contents = contents;
                world.change(|ds| ds.policy = policy(contents, false));
            }
            Step::NoPolicy { is_invalid: true } => {
                world.change(|ds| ds.policy = PolicySource::Invalid("it is wrong".into()));
            }
            Step::NoPolicy { is_invalid: false } => {
                world.change(|ds| ds.policy = PolicySource::None);
            }
            Step::Pool(number, pool) => world.apply_node(labelled_node(number, pool)),
            Step::DeletePod(index) => {
                if let Some(pod) = any_pod(world, index) {
                    world.remove_pod(&pod.name);
                }
            }
            Step::Fault(write, answer) => {
                let failed = || Outcome::Failed { message: "refused".to_owned() };
                let (outcome, takes_effect) = match answer {
                    Answer::Refuses if write == "change pod" => {
                        self.has_refused = true;
                        let message = "it is too old".to_owned();
                        (Outcome::CannotChange { message, written: None }, false)
                    }
                    Answer::Fails | Answer::Refuses => (failed(), false),
                    Answer::IsLost { takes_effect } => {
                        (Outcome::Unknown { message: "no answer".to_owned() }, takes_effect)
                    }
                };
                world.faults.push_back(Fault { write: write.to_owned(), outcome, takes_effect });
            }
            Step::Kubelet(index, state) => {
                if let Some(pod) = any_pod(world, index) {
                    set_state(world, pod, state);
                }
            }
            Step::Restart => world.restart(world.server.daemon_set.clone()),
            Step::Advance(seconds) => world.advance(Duration::from_secs(seconds.into())),
            Step::Kubelets => drop(world.kubelets()),
            Step::BuiltIn => drop(world.built_in()),
            Step::Sync => {
                let plan = world.plan();
                self.check(&plan);
                self.world.perform(&plan);
                self.world.deliver();
            }
        }
    }

    /// Records since when pods are being changed.
    fn record_changes(&mut self) {
        let now = self.world.now;
        let is_changing = |pod: &&Pod| pod.change.is_some();
        let changing = self.world.server.pods.values().filter(is_changing);
        let since = |pod: &Pod| self.changing.get(&pod.name).copied().unwrap_or(now);
        self.changing = changing.map(|pod| (pod.name.clone(), since(pod))).collect();
    }

    /// No revision and no pod is made, and no pod is deleted that has the template. Of pods that
    /// are available, and have not just started, one at most is taken away for another template or
    /// override, and none while another one is being changed: for another template that counts for
    /// `readyWithin` (G14).
    fn check(&mut self, plan: &Plan) {
        self.record_changes();
        let now = self.world.now;
        let pods = &self.world.server.pods;
        let is_old = |pod: &Pod| match pod.readiness {
            Readiness::ReadySince(since) => since + STARTING <= self.world.now,
            Readiness::NotReady | Readiness::Ready => pod.readiness.is_ready(),
        };
        let taken = plan.writes.iter().filter_map(|write| match write {
            Write::DeletePod(pod) => pods.get(&pod.name),
            Write::ChangePod(change) => pods.get(&change.pod.name),
            _ => None,
        });
        let taken = taken.filter(|pod| pod.change.is_none() && is_old(pod)).count();
        // A change is given up whose override is gone, or which the API server refuses.
        let policy = self.world.state.daemon_set().policy.valid();
        let overrides = policy.and_then(|policy| policy.stated_overrides());
        let is_known = |tag: &Arc<str>| overrides.is_some_and(|it| it.with_tag(tag).is_some());
        let goes_on = |change: &PodChange| {
            change.state == ChangeState::UnderWay
                && change.to.tag.as_ref().is_none_or(is_known)
                && !self.has_refused
        };
        let is_under_way =
            |pod: &&Pod| !pod.terminating && pod.change.as_deref().is_some_and(goes_on);
        assert!(taken <= 1, "{:?}", plan.writes);
        if taken == 1 {
            let is_for_template =
                plan.writes.iter().any(|write| matches!(write, Write::DeletePod(_)));
            let uses_budget = |pod: &&Pod| {
                let is_long = |since: &Timestamp| *since + READY_WITHIN <= now;
                !(is_for_template && self.changing.get(&pod.name).is_some_and(is_long))
            };
            let under_way: Vec<_> =
                pods.values().filter(is_under_way).filter(uses_budget).collect();
            assert!(under_way.is_empty(), "{under_way:?} {:?}", plan.writes);
        }
        for write in &plan.writes {
            match write {
                Write::DeletePod(pod) => {
                    let pod = self.world.server.pods.get(&pod.name).expect("a pod");
                    let mut revisions = self.world.server.revisions.values();
                    let own = revisions.find(|it| it.hash() == pod.revision_hash());
                    let template = &self.world.state.daemon_set().template;
                    assert!(!own.expect("stored").stores(template), "{pod:?}");
                }
                Write::CreateRevision(_) | Write::CreatePod(_) => panic!("{write}"),
                _ => {}
            }
        }
    }

    /// Ends all faults, lets all kubelets do what they are asked for, and waits until nothing
    /// changes any more.
    fn finish(&mut self) {
        let (world, contents) = (&mut self.world, self.contents);
        world.faults.clear();
        world.change(|ds| ds.policy = policy(contents, false));
        // A new controller asks again about pods that could not be changed.
        world.restart(world.server.daemon_set.clone());
        for _ in 0..10 * NODES {
            world.settle();
            let pods: Vec<_> = world.server.pods.values().cloned().collect();
            pods.into_iter().for_each(|pod| set_state(world, pod, ChangeState::Done));
            world.settle_all_deadlines();
            world.advance(SETTLE);
        }
    }

    /// All nodes have one pod, of the template, with the override of their labels.
    fn assert_ended(&self) {
        let pods = self.world.pods_by_node();
        let template = &self.world.server.daemon_set.template;
        let text = overrides(self.contents).text.clone();
        for (_, node) in self.world.nodes.iter() {
            let [pod] = &pods.get(&node.name).expect("a pod")[..] else { panic!("{pods:?}") };
            let mut revisions = self.world.server.revisions.values();
            let own = revisions.find(|it| it.hash() == pod.revision_hash()).expect("stored");
            assert!(own.stores(template), "{pod:?}");
            assert_eq!(pod.tag().as_deref(), stated_tag(&text, node), "{pod:?}");
            assert_eq!(pod.change, None, "{pod:?}");
        }
        let mut revisions = self.world.server.revisions.values();
        let target = revisions.find(|it| it.stores(template)).expect("the target is stored");
        let record = target.record.stored().expect("a record");
        assert_eq!(record.phase, RolloutPhase::Complete, "{record}");
    }
}

fn set_state(world: &mut World, mut pod: Pod, state: ChangeState) {
    if let Some(change) = &mut pod.change {
        change.state = state;
        world.put_pod(pod);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// G57: whatever happens, no pod is deleted for its override and no revision made, and in the
    /// end each running pod has the override of its node.
    #[test]
    fn every_running_pod_gets_the_override_of_its_node(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut beside = Beside::new();
        for step in steps {
            beside.apply(step);
        }
        beside.finish();
        beside.assert_ended();
    }
}
