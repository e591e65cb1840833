//! The property of overrides and copies of ConfigMaps that holds for other overrides, contents,
//! labels, templates, faults, crashes and handovers in any sequence: each pod is its template with
//! the override of its node, and has the copies of its revision (G57, G58). The check reads objects
//! only, and selects overrides by itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{
    CONFIG_LABEL, ConfigMapRule, ConfigObject, ConfigRule, HASH_LABEL, IntOrPercent, LabelOperator,
    LabelRequirement, LabelSelector, Node, NodeOverride, OVERRIDE_LABEL, OverriddenNodes,
    Overrides, Placement, Pod, PolicySource, Revision, RolloutPhase, RolloutPolicy, RolloutStep,
    StoredConfig, Template, UpdateStrategy, Wait, copy_hash, copy_name,
};
use everynode_core::plan::{NewPod, Outcome, Plan, PodReference, Write};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{Fault, World, daemon_set, node, with_label};

/// Nodes n0 to n5.
pub(super) const NODES: u8 = 6;
/// The labels of pools, each of which has an override.
const POOLS: [&str; 2] = ["big", "small"];
pub(super) const SETTLE: Duration = Duration::from_secs(300);
/// The ConfigMaps of the template. The second one may be missing.
const MAPS: [&str; 2] = ["settings", "rules"];
/// For how long they must not have changed.
const CONFIG_SETTLE: Duration = Duration::from_secs(30);

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
    /// ConfigMaps are copied from now on, or not.
    Copies(bool),
    /// A ConfigMap has another content; 0 means that there is none.
    Content(usize, u8),
    CopyGone(Index),
    /// The built-in controller merges the revisions of a template.
    Merge,
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
    let write = prop::sample::select(vec![
        "write record",
        "create pod",
        "create revision",
        "copy configmap",
        "delete copy",
    ]);
    prop_oneof![
        1 => (0u8..3).prop_map(Step::Template),
        2 => [0u8..3, 0u8..3].prop_map(Step::Overrides),
        1 => any::<bool>().prop_map(|is_invalid| Step::NoPolicy { is_invalid }),
        3 => (0..NODES, 0usize..3).prop_map(|(node, pool)| Step::Pool(node, pool)),
        1 => any::<bool>().prop_map(Step::Copies),
        3 => (0usize..2, 0u8..4).prop_map(|(map, content)| Step::Content(map, content)),
        1 => any::<Index>().prop_map(Step::CopyGone),
        1 => Just(Step::Merge),
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
            copies: None,
        })
    };
    let list: Vec<_> = all.map(one).collect();
    let tags: Vec<&str> = list.iter().map(|it| &*it.tag).collect();
    let text = tags.join(",").into();
    Arc::new(Overrides { list, text, copies: None })
}

/// A canary, then all nodes.
pub(super) fn policy(contents: [u8; 2], copies: bool) -> PolicySource {
    let config = ConfigRule {
        require: None,
        config_maps: copies.then_some(ConfigMapRule::Snapshot),
        settle: CONFIG_SETTLE,
        except: Vec::new(),
    };
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
        config: Some(config),
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

/// The tag of a pod of a revision on a node.
fn tag_on(revision: &Revision, node: &Node) -> Option<String> {
    let text = revision.overrides.as_ref().map_or("", |it| &it.text);
    let copies = revision.overrides.as_ref().and_then(|it| it.copies.as_ref());
    joined(stated_tag(text, node), copies.map(|copies| &*copies.tag))
}

fn joined(of_override: Option<&str>, of_copies: Option<&str>) -> Option<String> {
    match of_copies {
        None => of_override.map(ToOwned::to_owned),
        Some(tag) => Some(format!("{}/{tag}", of_override.unwrap_or_default())),
    }
}

fn template(letter: u8) -> Template {
    let object = |name: &str| ConfigObject::ConfigMap(name.into());
    let config = StoredConfig {
        objects: MAPS.into_iter().map(object).collect(),
        optional: BTreeSet::from([object(MAPS[1])]),
        ..StoredConfig::default()
    };
    Template::new(letter.to_string(), Placement::default()).with_config(Some(Arc::new(config)))
}

struct Overridden {
    world: World,
    contents: [u8; 2],
    copies: bool,
}

impl Overridden {
    fn new(budget: u32) -> Self {
        let mut world = World::new(daemon_set());
        let contents = [1, 0];
        world.change(|ds| {
            ds.template = template(0);
            ds.policy = policy(contents, true);
            ds.update_strategy = UpdateStrategy::RollingUpdate {
                max_unavailable: IntOrPercent::Int(budget),
                max_surge: IntOrPercent::Int(0),
            };
        });
        for number in 0..NODES {
            world.apply_node(labelled_node(number, usize::from(number % 3)));
        }
        world.put_config_map(MAPS[0], "1");
        world.settle();
        Self { world, contents, copies: true }
    }

    fn apply(&mut self, step: Step) {
        let world = &mut self.world;
        match step {
            Step::Template(letter) => world.change(|ds| ds.template = template(letter)),
            Step::Overrides(contents) => {
                self.contents = contents;
                let copies = self.copies;
                world.change(|ds| ds.policy = policy(contents, copies));
            }
            Step::Copies(copies) => {
                self.copies = copies;
                let contents = self.contents;
                world.change(|ds| ds.policy = policy(contents, copies));
            }
            Step::Content(map, 0) => drop(world.server.config_maps.maps.remove(MAPS[map])),
            Step::Content(map, content) => world.put_config_map(MAPS[map], &content.to_string()),
            Step::CopyGone(index) => {
                let maps = &mut world.server.config_maps.maps;
                let copies = maps.values().filter(|map| map.copy_of.is_some());
                let names: Vec<_> = copies.map(|map| map.name.clone()).collect();
                if !names.is_empty() {
                    maps.remove(index.get(&names));
                }
            }
            Step::Merge => merge(world),
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
                    let ours = [OVERRIDE_LABEL, CONFIG_LABEL];
                    let own = pod.labels.iter().filter(|(key, _)| !ours.contains(&&***key));
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
        let tag = new.r#override.as_ref().map(|it| it.tag.to_string());
        assert_eq!(tag, tag_on(revision, node), "{new:?}");
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
        let copies = match (policy.snapshots(), &state.copies) {
            (None, _) => None,
            (Some(_), Some(copies)) => Some(&*copies.tag).filter(|_| !copies.hashes.is_empty()),
            (Some(_), None) => return,
        };
        let tag = joined(stated_tag(&policy.overrides.text, node), copies);
        let fits = own.stores(&state.template) && pod.tag().as_deref() == tag.as_deref();
        assert!(!fits, "{pod:?}");
    }

    /// Ends all faults, and waits until nothing changes any more.
    fn finish(&mut self) {
        self.world.faults.clear();
        let (contents, copies) = (self.contents, self.copies);
        self.world.change(|ds| ds.policy = policy(contents, copies));
        if !self.world.server.config_maps.maps.contains_key(MAPS[0]) {
            self.world.put_config_map(MAPS[0], "1");
        }
        self.world.settle_all_deadlines();
        self.world.advance(SETTLE);
        self.world.settle_all_deadlines();
    }

    fn target(&self) -> &Revision {
        let text = &overrides(self.contents).text;
        let template = &self.world.server.daemon_set.template;
        let maps = &self.world.server.config_maps.maps;
        // The hash of no content stands for a ConfigMap that is missing.
        let digest = |name: &str| maps.get(name).map_or("", |map| &map.digest);
        let hash = |name: &str| format!("\"{name}\":\"{}\"", copy_hash("ds", digest(name)));
        // By their names.
        let copies = format!("{{{},{}}}", hash(MAPS[1]), hash(MAPS[0]));
        let copies = self.copies.then_some(&*copies);
        let is_target = |it: &&Revision| {
            let own = it.overrides.as_ref();
            it.stores(template)
                && own.map_or("", |it| &it.text) == &**text
                && own.and_then(|it| it.copies.as_ref()).map(|copies| &*copies.text) == copies
        };
        self.world.server.revisions.values().find(is_target).expect("the target is stored")
    }

    /// All nodes have one pod, of the template and of the override of their labels.
    fn assert_ended(&self) {
        let pods = self.world.pods_by_node();
        let template = &self.world.server.daemon_set.template;
        let target = self.target();
        let copies = target.overrides.iter().flat_map(|it| &it.copies);
        let maps = &self.world.server.config_maps.maps;
        for (source, hash) in copies.flat_map(|copies| &copies.hashes) {
            let copy = maps.get(&*copy_name(source, hash)).map(|copy| &copy.digest);
            assert_eq!(copy, maps.get(source).map(|source| &source.digest), "{source}");
        }
        for (_, node) in self.world.nodes.iter() {
            let [pod] = &pods.get(&node.name).expect("a pod")[..] else { panic!("{pods:?}") };
            let mut revisions = self.world.server.revisions.values();
            let own = revisions.find(|it| it.hash() == pod.revision_hash()).expect("stored");
            assert!(own.stores(template), "{pod:?}");
            assert_eq!(pod.tag().as_deref(), tag_on(target, node).as_deref(), "{pod:?}");
        }
        let record = self.target().record.stored().expect("a record");
        assert_eq!(record.phase, RolloutPhase::Complete, "{record}");
    }
}

/// Of the revisions that store one template the newest stays, and their pods get its hash.
fn merge(world: &mut World) {
    let mut all: Vec<Revision> = world.server.revisions.values().cloned().collect();
    all.sort_by_key(|revision| std::cmp::Reverse(revision.number));
    while let Some(newest) = all.first().cloned() {
        let same = |it: &Revision| newest.template.as_ref().is_ok_and(|of| it.stores(of));
        let merged: Vec<Revision> = all.extract_if(.., |it| same(it)).skip(1).collect();
        all.retain(|it| it.name != newest.name);
        for old in merged {
            let pods: Vec<Pod> = world.server.pods.values().cloned().collect();
            for mut pod in pods.into_iter().filter(|pod| pod.revision_hash() == old.hash()) {
                let hash = newest.pod_hash();
                pod.labels = with_label(&pod.labels, HASH_LABEL, hash.as_str());
                world.put_pod(pod);
            }
            world.remove_revision(&old.name);
        }
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

    /// G57, G58: whatever happens, a pod is created with the override that its revision states for
    /// its node, and with its copies; in the end each pod is the template with the override of its
    /// node and copies of the ConfigMaps as they are.
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
