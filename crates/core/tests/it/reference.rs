//! Compares plans with the reference (`everynode-reference`), which computes everything anew from
//! whole objects, by the text of the rules.

mod case;
mod memory;
mod placement;
mod step;

use std::collections::BTreeSet;

use everynode_core::api::{
    DaemonSet, LabelSelector, Labels, Node, NodeReadiness, Pod, Problem, Template,
};
use everynode_core::daemon_set::{Config, UnreachableNodes};
use everynode_core::plan::{Notice, Plan, ScheduleBy, Write};
use everynode_reference::{Counts, Effect, Memory, NewPod, Objects, decide, hash_of_new_pods};
use proptest::prelude::*;

use crate::support::{Kind, World, daemon_set, node};
use case::{AnyDaemonSet, Case, SelectorKind, any_case, placed};
use memory::History;
use step::{Round, any_round};

/// A cluster, and what the reference knows of it.
struct Compared {
    world: World,
    case: Case,
    history: History,
    /// The pods that the controller sees while its watch of pods is stopped.
    stale_pods: Option<Vec<Pod>>,
    /// True if it has written a pod since then.
    awaits_pods: bool,
}

impl Compared {
    fn new(case: Case) -> Self {
        let config = Config {
            burst_replicas: case.burst_replicas,
            schedule_by: case.schedule_by,
            unreachable_nodes: case.unreachable_nodes,
            ..Config::default()
        };
        let mut world = World::with_config(config, daemon_set_of(&case.daemon_set));
        let selector: Labels = case.namespace_zone.map(|zone| ("zone", zone)).into_iter().collect();
        world.state.apply_namespace_node_selector(selector.into(), &world.nodes);
        case.revisions.iter().cloned().for_each(|revision| world.put_revision(revision));
        for (number, any) in case.nodes.iter().enumerate() {
            let name = format!("n{number}");
            let labels = Labels::from_iter([("zone", any.zone)]);
            let (taints, readiness) = (any.taints.clone(), any.readiness);
            world.apply_node(Node { labels, taints, readiness, ..node(&name) });
            for (number, pod) in any.pods.iter().enumerate() {
                world.put_pod(placed(pod, &format!("{name}-p{number}"), &name));
            }
        }
        for (number, pod) in case.lost_pods.iter().enumerate() {
            world.put_pod(placed(pod, &format!("lost-{number}"), "n11"));
        }
        let mut history = History::default();
        history.see_nodes(world.nodes.iter().map(|(_, node)| node));
        Self { world, case, history, stale_pods: None, awaits_pods: false }
    }

    fn pods(&self) -> Vec<Pod> {
        self.world.server.pods.values().cloned().collect()
    }

    /// A node as it counts: one whose kubelet does not answer may be one that is not ready (C58).
    fn as_counted(&self, node: &Node) -> Node {
        let readiness = match (self.case.unreachable_nodes, node.readiness) {
            (UnreachableNodes::Wait, NodeReadiness::Unreachable { since }) => {
                NodeReadiness::NotReady { since }
            }
            (_, readiness) => readiness,
        };
        Node { readiness, ..node.clone() }
    }

    /// The objects as the reference reads them. It adds the default tolerations itself.
    fn objects(&self) -> Objects {
        let (server, case) = (&self.world.server, &self.case);
        let template = Template {
            placement: case.daemon_set.placement.clone().into(),
            ..server.daemon_set.template.clone()
        };
        Objects {
            daemon_set: DaemonSet { template, ..server.daemon_set.clone() },
            nodes: self.world.nodes.iter().map(|(_, node)| self.as_counted(node)).collect(),
            pods: self.stale_pods.clone().unwrap_or_else(|| self.pods()),
            revisions: server.revisions.values().cloned().collect(),
            namespace_node_selector: case.namespace_zone.map(|z| ("zone", z)).into_iter().collect(),
            burst_replicas: case.burst_replicas,
            binds_pods: case.schedule_by == ScheduleBy::Controller,
            memory: Memory::default(),
        }
    }
}

impl Compared {
    /// Plans, and compares the plan with the reference.
    fn plan(&mut self) -> Result<Plan, TestCaseError> {
        let now = self.world.now;
        let mut objects = self.objects();
        self.history.see(&objects, now);
        let memory = self.history.memory(&objects.daemon_set);
        objects.memory = Memory { awaits_writes: self.awaits_pods, ..memory };
        let demanded = decide(&objects, now);
        let plan = self.world.plan();
        if self.awaits_pods && hash_of_new_pods(&objects).is_none() {
            // Until the template is stored, the core counts by the one before.
            let is_status = |write: &Write| matches!(write, Write::UpdateStatus { .. });
            prop_assert!(plan.writes.iter().all(is_status), "{}", plan);
        } else {
            assert_equal(&plan, &demanded, self.case.burst_replicas)?;
        }
        self.history.record(&plan, &objects.daemon_set, now);
        Ok(plan)
    }

    /// Plans, compares, and executes the writes.
    fn sync(&mut self) -> Result<(), TestCaseError> {
        let plan = self.plan()?;
        let writes_pod = plan.writes.iter().any(|write| write.verb().ends_with(" pod"));
        self.awaits_pods |= self.stale_pods.is_some() && writes_pod;
        self.world.perform(&plan);
        self.world.deliver();
        Ok(())
    }

    fn stop_watch(&mut self) {
        self.stale_pods = Some(self.pods());
        self.world.delay(Kind::Pods);
    }

    fn continue_watch(&mut self) {
        self.world.deliver_delayed();
        (self.stale_pods, self.awaits_pods) = (None, false);
    }
}

fn daemon_set_of(any: &AnyDaemonSet) -> DaemonSet {
    let selector = match any.selector {
        SelectorKind::App => daemon_set().selector,
        SelectorKind::Everything => Some(LabelSelector::default()),
        SelectorKind::Malformed => None,
    };
    let malformed = Problem::Template { message: "no template".into() };
    DaemonSet {
        terminating: any.terminating,
        problems: any.is_template_malformed.then_some(malformed).into_iter().collect(),
        selector,
        update_strategy: any.strategy,
        min_ready_seconds: any.min_ready_seconds,
        template_generation: any.template_generation,
        revision_history_limit: any.revision_history_limit,
        template: Template::new("A", any.placement.clone()),
        ..daemon_set()
    }
}

/// The effects of a plan. Problems are not compared.
fn effects_of(plan: &Plan) -> BTreeSet<Effect> {
    let writes = plan.writes.iter().map(|write| match write {
        Write::AdoptPod(pod) => Effect::AdoptPod(pod.name.clone()),
        Write::ReleasePod(pod) => Effect::ReleasePod(pod.name.clone()),
        Write::RelabelPod { pod, hash } => Effect::RelabelPod(pod.name.clone(), hash.clone()),
        Write::DeletePod(pod) => Effect::DeletePod(pod.name.clone()),
        Write::CreatePod(new) => {
            assert_eq!(new.template, None, "it is not of the current template in\n{plan}");
            let new_pod = NewPod {
                hash: new.hash.clone(),
                template_generation: new.template_generation,
                is_bound: new.schedule_by == ScheduleBy::Controller,
            };
            Effect::CreatePod(new.node.clone(), new_pod)
        }
        Write::CopyConfigMap(_) | Write::DeleteCopy(_) => panic!("without a policy: {write}"),
        Write::AdoptRevision(revision) => Effect::AdoptRevision(revision.uid.clone()),
        Write::ReleaseRevision(revision) => Effect::ReleaseRevision(revision.uid.clone()),
        Write::CreateRevision(new) => Effect::CreateRevision(new.number),
        Write::LabelRevision { revision, hash } => {
            Effect::LabelRevision(revision.uid.clone(), hash.clone())
        }
        Write::RaiseRevision { revision, number, .. } => {
            Effect::RaiseRevision(revision.uid.clone(), *number)
        }
        Write::DeleteRevision(revision) => Effect::DeleteRevision(revision.uid.clone()),
        Write::UpdateStatus { status, .. } => Effect::UpdateStatus(Counts::from(status)),
        Write::WriteRecord { .. }
        | Write::AskForReplacement { .. }
        | Write::MarkReplaced { .. }
        | Write::ChangePod(_)
        | Write::FinishChange { .. }
        | Write::RaiseCollisionCount { .. }
        | Write::UpdateConditions { .. }
        | Write::PullImages(_)
        | Write::DeletePuller(_)
        | Write::RollBack { .. } => panic!("{write} in\n{plan}"),
    });
    let notices = plan.notices.iter().filter_map(|notice| match notice {
        Notice::FailedDaemonPod { pod, .. } => Some(Effect::ReportFailed(pod.clone())),
        Notice::SucceededDaemonPod { pod, .. } => Some(Effect::ReportSucceeded(pod.clone())),
        Notice::SelectingAll => Some(Effect::ReportSelectingAll),
        Notice::Problem(_) => None,
        other => panic!("{other:?}"),
    });
    let effects: Vec<Effect> = writes.chain(notices).collect();
    let set: BTreeSet<Effect> = effects.iter().cloned().collect();
    assert_eq!(set.len(), effects.len(), "a write is there twice in\n{plan}");
    set
}

/// Asserts that the plan does what the rules demand. Of the changes of pods it may do as many as
/// the limit allows, in any order (C28).
fn assert_equal(
    plan: &Plan,
    demanded: &BTreeSet<Effect>,
    limit: usize,
) -> Result<(), TestCaseError> {
    let is_patch = |effect: &&Effect| {
        matches!(effect, Effect::AdoptPod(_) | Effect::ReleasePod(_) | Effect::RelabelPod(..))
    };
    let planned = effects_of(plan);
    let (planned_patches, planned): (BTreeSet<&Effect>, BTreeSet<&Effect>) =
        planned.iter().partition(is_patch);
    let (patches, demanded): (BTreeSet<&Effect>, BTreeSet<&Effect>) =
        demanded.iter().partition(is_patch);
    prop_assert_eq!(planned, demanded, "{}", plan);
    prop_assert!(planned_patches.is_subset(&patches), "{:?}\n{}", patches, plan);
    prop_assert_eq!(planned_patches.len(), patches.len().min(limit), "{:?}\n{}", patches, plan);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// C4, C10, C11, C12, C13, C14, C15, C20, C21, C22, C23, C24, C25, C26, C27, C28, C31, C32,
    /// C33, C40, C42, C44, C45, C50, C51, C52, C53, C54, C55, C57, C58, C70: the first plan does
    /// what the rules demand.
    #[test]
    fn a_plan_equals_the_reference(case in any_case()) {
        Compared::new(case).plan()?;
    }

    /// C24, C42, C54, C56, C60: so does each later plan, whatever has happened in between.
    #[test]
    fn later_plans_equal_the_reference(
        case in any_case(),
        rounds in prop::collection::vec(any_round(), 0..12),
    ) {
        let mut compared = Compared::new(case);
        let mut number = 0..;
        for Round { is_watch_stopped, steps } in rounds {
            if is_watch_stopped {
                compared.stop_watch();
            }
            compared.sync()?;
            for (step, number) in steps.into_iter().zip(&mut number) {
                step.take(&mut compared.world, number);
                compared.history.see_nodes(compared.world.nodes.iter().map(|(_, node)| node));
            }
            if is_watch_stopped {
                compared.sync()?;
                compared.continue_watch();
            }
        }
    }
}
