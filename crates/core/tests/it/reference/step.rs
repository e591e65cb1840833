//! Events of a cluster between two plans.

use std::time::Duration;

use everynode_core::api::{
    Node, NodeReadiness, Pod, PodPhase, Readiness, Revision, Taint, Template, Timestamp,
    UpdateStrategy,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::case::{HASHES, any_pod, any_strategy, any_unreachable, placed, stored};
use super::placement::any_taint;
use crate::support::World;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Advance(Duration),
    /// Kubelets start pods and end the terminating ones.
    Kubelets,
    Pod(Index, PodChange),
    NewPod(Index, Pod),
    Taints(Index, Vec<Taint>),
    DeleteNode(Index),
    Node(Index, NodeChange),
    /// Somebody changes the annotation that ends back-offs.
    Retry,
    Template(&'static str),
    Strategy(UpdateStrategy),
    /// Somebody stores the template once more, under the name and hash with this index, with this
    /// number.
    Duplicate(usize, i64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PodChange {
    Ready,
    NotReady,
    Fails,
    Succeeds,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NodeChange {
    Is(NodeReadiness),
    Boots,
    GetsDiskPressure,
    LosesDiskPressure,
}

/// One or two plans and what happens after the first.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// True if the watch of pods shows nothing until the second plan is made.
    pub is_watch_stopped: bool,
    pub steps: Vec<Step>,
}

pub(super) fn any_round() -> impl Strategy<Value = Round> {
    let steps = prop::collection::vec(any_step(), 0..3);
    (prop::bool::weighted(0.2), steps)
        .prop_map(|(is_watch_stopped, steps)| Round { is_watch_stopped, steps })
}

fn any_step() -> impl Strategy<Value = Step> {
    let seconds = prop_oneof![0u64..3, select(vec![5, 50, 100])];
    let change = select(
        &[
            PodChange::Ready,
            PodChange::NotReady,
            PodChange::Fails,
            PodChange::Fails,
            PodChange::Succeeds,
        ][..],
    );
    prop_oneof![
        4 => seconds.prop_map(|seconds| Step::Advance(Duration::from_secs(seconds))),
        4 => Just(Step::Kubelets),
        4 => (any::<Index>(), change).prop_map(|(pod, change)| Step::Pod(pod, change)),
        1 => (any::<Index>(), any_pod()).prop_map(|(node, pod)| Step::NewPod(node, pod)),
        1 => (any::<Index>(), prop::collection::vec(any_taint(), 0..2))
            .prop_map(|(node, taints)| Step::Taints(node, taints)),
        1 => any::<Index>().prop_map(Step::DeleteNode),
        2 => (any::<Index>(), any_node_change()).prop_map(|(node, it)| Step::Node(node, it)),
        1 => Just(Step::Retry),
        1 => select(vec!["A", "B", "C"]).prop_map(Step::Template),
        1 => any_strategy().prop_map(Step::Strategy),
        1 => (0..HASHES.len(), 0i64..20).prop_map(|(at, number)| Step::Duplicate(at, number)),
    ]
}

fn any_node_change() -> impl Strategy<Value = NodeChange> {
    let not_ready = NodeReadiness::NotReady { since: Timestamp(0) };
    let readiness = prop_oneof![Just(NodeReadiness::Ready), Just(not_ready), any_unreachable()];
    let others = [NodeChange::Boots, NodeChange::GetsDiskPressure, NodeChange::LosesDiskPressure];
    prop_oneof![readiness.prop_map(NodeChange::Is), select(others.to_vec())]
}

impl Step {
    /// Takes the step; `number` names what it adds.
    pub(super) fn take(self, world: &mut World, number: usize) {
        match self {
            Self::Advance(duration) => world.advance(duration),
            Self::Kubelets => {
                world.kubelets();
            }
            Self::Pod(index, change) => {
                let pods: Vec<Pod> = world.server.pods.values().cloned().collect();
                if !pods.is_empty() {
                    world.put_pod(change.of(index.get(&pods), world.now));
                }
            }
            Self::NewPod(index, pod) => {
                let name = format!("new-{number}");
                let node = any_of(world, index).map_or_else(|| "n0".into(), |node| node.name);
                world.put_pod(placed(&pod, &name, node.as_str()));
            }
            Self::Taints(index, taints) => {
                if let Some(node) = any_of(world, index) {
                    world.apply_node(Node { taints, ..node });
                }
            }
            Self::DeleteNode(index) => {
                if let Some(node) = any_of(world, index) {
                    world.delete_node(node.name.as_str());
                }
            }
            Self::Node(index, change) => {
                if let Some(node) = any_of(world, index) {
                    world.apply_node(change.of(node, number));
                }
            }
            Self::Retry => world.change(|it| it.retry = Some(number.to_string().into())),
            Self::Template(text) => world.change(|it| {
                it.template = Template { canonical: text.into(), ..it.template.clone() };
            }),
            Self::Strategy(strategy) => world.change(|it| it.update_strategy = strategy),
            Self::Duplicate(at, number) => {
                let template = Ok(world.server.daemon_set.template.clone());
                let new = Revision { template, ..stored(at, "", number) };
                // With two duplicates of one hash the core plans to relabel a pod twice.
                if world.server.revisions.values().all(|it| it.hash() != new.hash()) {
                    world.put_revision(new);
                }
            }
        }
    }
}

impl PodChange {
    fn of(self, pod: &Pod, now: Timestamp) -> Pod {
        let (phase, readiness) = match self {
            Self::Ready => (PodPhase::Running, Readiness::ReadySince(now)),
            Self::NotReady => (PodPhase::Running, Readiness::NotReady),
            Self::Fails => (PodPhase::Failed, Readiness::NotReady),
            Self::Succeeds => (PodPhase::Succeeded, Readiness::NotReady),
        };
        Pod { phase, readiness, ..pod.clone() }
    }
}

impl NodeChange {
    fn of(self, mut node: Node, number: usize) -> Node {
        match self {
            Self::Is(readiness) => node.readiness = readiness,
            Self::Boots => node.boot_id = number.to_string().into(),
            Self::GetsDiskPressure => node.conditions = ["DiskPressure".into()].into(),
            Self::LosesDiskPressure => node.conditions = Box::default(),
        }
        node
    }
}

fn any_of(world: &World, index: Index) -> Option<Node> {
    let nodes: Vec<Node> = world.nodes.iter().map(|(_, node)| node.clone()).collect();
    (!nodes.is_empty()).then(|| index.get(&nodes).clone())
}
