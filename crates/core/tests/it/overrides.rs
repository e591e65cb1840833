//! The property of overrides that holds for other overrides, labels, templates, faults, crashes and
//! handovers in any sequence: each pod is its template with the override of its node (G57). The
//! check reads objects only, and selects overrides by itself.

use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{
    IntOrPercent, LabelOperator, LabelRequirement, LabelSelector, Node, NodeOverride,
    OVERRIDE_LABEL, OverriddenNodes, Overrides, Placement, Pod, PolicySource, Revision,
    RolloutPhase, RolloutPolicy, RolloutStep, Template, UpdateStrategy, Wait,
};
use everynode_core::plan::{NewPod, Outcome, Plan, PodReference, Write};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{Fault, World, daemon_set, node};

/// Nodes n0 to n5.
pub(super) const NODES: u8 = 6;
/// The labels of pools, each of which has an override.
const POOLS: [&str; 2] = ["big", "small"];
pub(super) const SETTLE: Duration = Duration::from_secs(300);

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
    /// Another controller creates the pod of a node, of the template alone.
    Foreign(Index),
    Fault(&'static str, Option<bool>),
    Restart,
    Advance(u16),
    Kubelets,
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let write = prop::sample::select(vec!["write record", "create pod", "create revision"]);
    prop_oneof![
        1 => (0u8..3).prop_map(Step::Template),
        2 => [0u8..3, 0u8..3].prop_map(Step::Overrides),
        1 => any::<bool>().prop_map(|is_invalid| Step::NoPolicy { is_invalid }),
        3 => (0..NODES, 0usize..3).prop_map(|(node, pool)| Step::Pool(node, pool)),
        1 => any::<Index>().prop_map(Step::DeletePod),
        1 => any::<Index>().prop_map(Step::Foreign),
        1 => (write, any::<Option<bool>>()).prop_map(|(write, lost)| Step::Fault(write, lost)),
        1 => Just(Step::Restart),
        2 => (0u16..400).prop_map(Step::Advance),
        8 => Just(Step::Kubelets),
        16 => Just(Step::Sync),
    ]
}

pub(super) fn overrides(contents: [u8; 2]) -> Arc<Overrides> {
    let all = POOLS.into_iter().zip(contents).filter(|(_, content)| *content > 0);
    let one = |(pool, content): (&str, u8)| {
        let has_label = LabelRequirement { key: pool.into(), operator: LabelOperator::Exists };
        Arc::new(NodeOverride {
            name: pool.into(),
            nodes: OverriddenNodes {
                labels: LabelSelector { requirements: vec![has_label] },
                ..OverriddenNodes::default()
            },
            containers: Vec::new(),
            settle: SETTLE,
            allow_larger: false,
            tag: format!("{pool}-{content}").into(),
        })
    };
    let list: Vec<_> = all.map(one).collect();
    let tags: Vec<&str> = list.iter().map(|it| &*it.tag).collect();
    let text = tags.join(",").into();
    Arc::new(Overrides { list, text })
}

/// A canary, then all nodes.
pub(super) fn policy(contents: [u8; 2]) -> PolicySource {
    let canary = RolloutStep {
        name: "canary".into(),
        nodes: LabelSelector::default(),
        by: None,
        each: None,
        up_to: vec![IntOrPercent::Int(1)],
        wait: Wait { bake: Duration::from_secs(60), ..Wait::default() },
    };
    PolicySource::Valid(Arc::new(RolloutPolicy {
        steps: vec![canary],
        steps_hash: "steps".into(),
        finally: Some(Wait::default()),
        overrides: overrides(contents),
        ..RolloutPolicy::default()
    }))
}

pub(super) fn labelled_node(number: u8, pool: usize) -> Node {
    let mut node = node(&format!("n{number}"));
    node.labels = POOLS.get(pool).map(|pool| (*pool, "")).into_iter().collect();
    node
}

/// The tag that a revision states for a node, by the text of its overrides.
pub(super) fn stated_tag<'a>(text: &'a str, node: &Node) -> Option<&'a str> {
    let is_there =
        |tag: &&str| tag.split_once('-').is_some_and(|(pool, _)| node.labels.get(pool).is_some());
    text.split(',').find(is_there)
}

struct Overridden {
    world: World,
    contents: [u8; 2],
}

impl Overridden {
    fn new(budget: u32) -> Self {
        let mut world = World::new(daemon_set());
        let contents = [1, 0];
        world.change(|ds| {
            ds.policy = policy(contents);
            ds.update_strategy = UpdateStrategy::RollingUpdate {
                max_unavailable: IntOrPercent::Int(budget),
                max_surge: IntOrPercent::Int(0),
            };
        });
        for number in 0..NODES {
            world.apply_node(labelled_node(number, usize::from(number % 3)));
        }
        world.settle();
        Self { world, contents }
    }

    fn apply(&mut self, step: Step) {
        let world = &mut self.world;
        match step {
            Step::Template(letter) => world.change(|ds| {
                ds.template = Template::new(letter.to_string(), Placement::default());
            }),
            Step::Overrides(contents) => {
                self.contents = contents;
                world.change(|ds| ds.policy = policy(contents));
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
            Step::Foreign(index) => {
                if let Some(mut pod) = any_pod(world, index) {
                    let own = pod.labels.iter().filter(|(key, _)| &***key != OVERRIDE_LABEL);
                    pod.labels = own.map(|(key, value)| (key.clone(), value.clone())).collect();
                    world.put_pod(pod);
                }
            }
            Step::Fault(write, lost) => {
                let outcome = match lost {
                    None => Outcome::Failed { message: "refused".to_owned() },
                    Some(_) => Outcome::Unknown { message: "no answer".to_owned() },
                };
                let (write, takes_effect) = (write.to_owned(), lost == Some(true));
                world.faults.push_back(Fault { write, outcome, takes_effect });
            }
            Step::Restart => world.restart(world.server.daemon_set.clone()),
            Step::Advance(seconds) => world.advance(Duration::from_secs(seconds.into())),
            Step::Kubelets => drop(world.kubelets()),
            Step::Sync => {
                let plan = world.plan();
                self.check(&plan);
                self.world.perform(&plan);
                self.world.deliver();
            }
        }
    }

    /// Each pod that a plan creates has the override that its revision states for its node, and no
    /// pod is deleted that has the template and the override of its node.
    fn check(&self, plan: &Plan) {
        for write in &plan.writes {
            match write {
                Write::CreatePod(new) => self.check_creation(new),
                Write::DeletePod(pod) => self.check_deletion(pod),
                _ => {}
            }
        }
    }

    fn check_creation(&self, new: &NewPod) {
        let id = self.world.nodes.id(&new.node).expect("a known node");
        let node = self.world.nodes.node(id).expect("a node");
        let mut revisions = self.world.server.revisions.values();
        let revision = revisions.find(|revision| revision.hash().as_ref() == Some(&new.hash));
        let revision = revision.expect("a stored revision");
        let text = revision.overrides.as_ref().map_or("", |it| &it.text);
        let tag = new.r#override.as_ref().map(|it| &*it.tag);
        assert_eq!(tag, stated_tag(text, node), "{new:?}");
    }

    /// A pod that is what its node should have stays.
    fn check_deletion(&self, deleted: &PodReference) {
        let state = self.world.state.daemon_set();
        let Some(policy) = state.policy.valid() else { return };
        let pod = self.world.server.pods.get(&deleted.name).expect("a pod");
        let id = pod.target_node_name().and_then(|name| self.world.nodes.id(name));
        let node = id.and_then(|id| self.world.nodes.node(id)).expect("a node");
        let mut revisions = self.world.server.revisions.values();
        let own = revisions.find(|it| it.hash() == pod.revision_hash()).expect("stored");
        let tag = pod.override_tag().map(|tag| &**tag);
        let fits = own.stores(&state.template) && tag == stated_tag(&policy.overrides.text, node);
        assert!(!fits, "{pod:?}");
    }

    /// Ends all faults, and waits until nothing changes any more.
    fn finish(&mut self) {
        self.world.faults.clear();
        let contents = self.contents;
        self.world.change(|ds| ds.policy = policy(contents));
        self.world.settle_all_deadlines();
        self.world.advance(SETTLE);
        self.world.settle_all_deadlines();
    }

    fn target(&self) -> &Revision {
        let text = &overrides(self.contents).text;
        let template = &self.world.server.daemon_set.template;
        let is_target = |it: &&Revision| {
            it.stores(template) && it.overrides.as_ref().map_or("", |it| &it.text) == &**text
        };
        self.world.server.revisions.values().find(is_target).expect("the target is stored")
    }

    /// All nodes have one pod, of the template and of the override of their labels.
    fn assert_ended(&self) {
        let pods = self.world.pods_by_node();
        let template = &self.world.server.daemon_set.template;
        let text = overrides(self.contents).text.clone();
        for (_, node) in self.world.nodes.iter() {
            let [pod] = &pods.get(&node.name).expect("a pod")[..] else { panic!("{pods:?}") };
            let mut revisions = self.world.server.revisions.values();
            let own = revisions.find(|it| it.hash() == pod.revision_hash()).expect("stored");
            assert!(own.stores(template), "{pod:?}");
            assert_eq!(pod.override_tag().map(|tag| &**tag), stated_tag(&text, node), "{pod:?}");
        }
        let record = self.target().record.stored().expect("a record");
        assert_eq!(record.phase, RolloutPhase::Complete, "{record}");
    }
}

pub(super) fn any_pod(world: &World, index: Index) -> Option<Pod> {
    let pods: Vec<_> = world.server.pods.values().filter(|pod| !pod.terminating).collect();
    if pods.is_empty() { None } else { Some((*index.get(&pods)).clone()) }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// G57: whatever happens, a pod is created with the override that its revision states for its
    /// node, and in the end each pod is the template with the override of its node.
    #[test]
    fn every_pod_is_the_template_with_the_override_of_its_node(
        budget in 1u32..3,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut overridden = Overridden::new(budget);
        for step in steps {
            overridden.apply(step);
        }
        overridden.finish();
        overridden.assert_ended();
    }
}
