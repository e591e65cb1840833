//! The decisions of upstream's controller, written after its code. This module uses only the types
//! of core's `api`: it computes placement, percentages, budgets and availability itself.
//!
//! Where everynode differs on purpose (docs/upstream-differences.md), a comment states "unlike
//! upstream".

mod placement;

use std::collections::BTreeSet;

use everynode_core::api::{
    DaemonSet, IntOrPercent, Node, NodeName, Pod, PodName, PodPhase, Readiness, Status, Timestamp,
    UpdateStrategy,
};

/// The pods to create, by node, and to delete, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub create: BTreeSet<NodeName>,
    pub delete: BTreeSet<PodName>,
}

/// One cluster, scanned node by node.
pub(crate) struct Upstream<'a> {
    pub daemon_set: &'a DaemonSet,
    /// The hash of the current revision.
    pub hash: &'a str,
    pub nodes: Vec<&'a Node>,
    pub pods: Vec<&'a Pod>,
    pub now: Timestamp,
}

/// `findUpdatedPodsOnNode`
enum Found<'p> {
    One { new: Option<&'p Pod>, old: Option<&'p Pod> },
    Excess,
}

impl Upstream<'_> {
    /// `updateDaemonSet`. Unlike upstream, the rolling update does not wait until `manage` has
    /// nothing to do: in the same sync it updates the nodes on which `manage` deletes no pod (C29).
    pub(crate) fn sync(&self) -> Verdict {
        let mut verdict = self.manage();
        let rolled = self.rolling_update();
        let touched: BTreeSet<String> = verdict.delete.iter().map(node_of).collect();
        let is_free = |node: &str| !touched.contains(node);
        verdict.create.extend(rolled.create.into_iter().filter(|node| is_free(node.as_str())));
        verdict.delete.extend(rolled.delete.into_iter().filter(|pod| is_free(&node_of(pod))));
        verdict
    }

    /// `updateDaemonSetStatus`
    pub(crate) fn status(&self) -> Status {
        let mut status = Status::default();
        for node in &self.nodes {
            let pods = self.daemon_pods(node);
            let oldest = pods.first().copied();
            if !placement::should_run(&self.daemon_set.template.placement, node) {
                status.number_misscheduled += u32::from(oldest.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            let Some(pod) = oldest else { continue };
            status.current_number_scheduled += 1;
            status.number_ready += u32::from(is_ready(pod));
            status.number_available += u32::from(self.is_available(pod));
            status.updated_number_scheduled += u32::from(self.is_updated(pod));
        }
        status.number_unavailable = status.desired_number_scheduled - status.number_available;
        status.observed_generation = self.daemon_set.generation;
        status
    }

    /// `manage` and `podsShouldBeOnNode`.
    fn manage(&self) -> Verdict {
        let mut verdict = Verdict::default();
        for node in &self.nodes {
            self.manage_node(node, &mut verdict);
        }
        verdict
    }

    fn manage_node(&self, node: &Node, verdict: &mut Verdict) {
        let placement = &self.daemon_set.template.placement;
        let should_run = placement::should_run(placement, node);
        let pods = self.daemon_pods(node);
        if should_run && pods.is_empty() {
            verdict.create.insert(node.name.clone());
            return;
        }
        let live: Vec<&Pod> = pods.into_iter().filter(|pod| !pod.terminating).collect();
        if !placement::should_continue_running(placement, node) {
            verdict.delete.extend(live.iter().map(|pod| pod.name.clone()));
            return;
        }
        let (ended, running): (Vec<&Pod>, Vec<&Pod>) = live.into_iter().partition(has_ended);
        verdict.delete.extend(ended.iter().map(|pod| pod.name.clone()));
        if self.allows_surge() {
            // Unlike upstream, an ended pod is deleted before another one is created (C24).
            if running.is_empty() && ended.is_empty() && should_run {
                verdict.create.insert(node.name.clone());
            }
            verdict.delete.extend(self.excess_of_pair(&running).iter().map(|pod| pod.name.clone()));
        } else {
            verdict.delete.extend(running.iter().skip(1).map(|pod| pod.name.clone()));
        }
    }

    /// Two pods may stay: the oldest new one, and the oldest old one if it is ready and the new one
    /// is not available.
    fn excess_of_pair<'p>(&self, running: &[&'p Pod]) -> Vec<&'p Pod> {
        let mut excess = Vec::new();
        let (mut oldest_new, mut oldest_old): (Option<&Pod>, Option<&Pod>) = (None, None);
        for pod in running {
            let oldest = if self.is_updated(pod) { &mut oldest_new } else { &mut oldest_old };
            if oldest.is_some() {
                excess.push(*pod);
            } else {
                *oldest = Some(pod);
            }
        }
        if let (Some(new), Some(old)) = (oldest_new, oldest_old)
            && (!is_ready(old) || self.is_available(new))
        {
            excess.push(old);
        }
        excess
    }

    /// `rollingUpdate`
    fn rolling_update(&self) -> Verdict {
        let UpdateStrategy::RollingUpdate { max_unavailable, max_surge } =
            self.daemon_set.update_strategy
        else {
            return Verdict::default();
        };
        let placement = &self.daemon_set.template.placement;
        let is_desired = |node: &&&Node| placement::should_run(placement, node);
        let desired = self.nodes.iter().filter(is_desired).count();
        let (max_surge, mut max_unavailable) =
            (scaled(max_surge, desired), scaled(max_unavailable, desired));
        if desired > 0 && max_unavailable == 0 && max_surge == 0 {
            max_unavailable = 1;
        }
        match max_surge {
            0 => self.replace(max_unavailable),
            max_surge => self.surge(max_surge, desired),
        }
    }

    fn replace(&self, max_unavailable: usize) -> Verdict {
        let mut unavailable = 0;
        let (mut allowed, mut candidates) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            let pods = self.daemon_pods(node);
            if pods.is_empty() && !placement::should_run(&self.daemon_set.template.placement, node)
            {
                continue;
            }
            match self.find(node, &pods) {
                Found::Excess
                | Found::One { new: None, old: None }
                | Found::One { new: Some(_), old: Some(_) } => unavailable += 1,
                Found::One { new: Some(new), old: None } => {
                    unavailable += usize::from(!self.is_available(new));
                }
                Found::One { new: None, old: Some(old) } if !self.is_available(old) => {
                    allowed.push(old);
                    unavailable += 1;
                }
                Found::One { new: None, old: Some(old) } => candidates.push(old),
            }
        }
        candidates.truncate(max_unavailable.saturating_sub(unavailable));
        let delete = allowed.into_iter().chain(candidates);
        Verdict { delete: delete.map(|pod| pod.name.clone()).collect(), ..Verdict::default() }
    }

    fn surge(&self, max_surge: usize, desired: usize) -> Verdict {
        let placement = &self.daemon_set.template.placement;
        let (mut surging, mut available) = (0, 0usize);
        let (mut delete, mut misplaced) = (Vec::new(), Vec::new());
        let (mut allowed, mut candidates) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            let Found::One { new, old } = self.find(node, &self.daemon_pods(node)) else {
                surging += 1;
                continue;
            };
            available += usize::from(old.or(new).is_some_and(|pod| self.is_available(pod)));
            let Some(old) = old else { continue };
            let should_run = placement::should_run(placement, node);
            match new {
                Some(new) if self.is_available(new) => delete.push(old),
                Some(_) => surging += 1,
                None => match (self.is_available(old), should_run) {
                    (false, false) => delete.push(old),
                    (false, true) => allowed.push(node.name.clone()),
                    (true, false) => misplaced.push(old),
                    (true, true) => candidates.push(node.name.clone()),
                },
            }
        }
        misplaced.truncate(available.saturating_sub(desired));
        candidates.truncate(max_surge.saturating_sub(surging));
        Verdict {
            create: allowed.into_iter().chain(candidates).collect(),
            delete: delete.into_iter().chain(misplaced).map(|pod| pod.name.clone()).collect(),
        }
    }

    /// Unlike upstream, pods on a node that must not run one count as terminating: the same sync
    /// deletes them, while upstream would start the rolling update in the next sync only.
    fn find<'p>(&self, node: &Node, pods: &[&'p Pod]) -> Found<'p> {
        let (mut new, mut old) = (None, None);
        if !placement::should_continue_running(&self.daemon_set.template.placement, node) {
            return Found::One { new, old };
        }
        for pod in pods.iter().filter(|pod| !pod.terminating) {
            let place = if self.is_updated(pod) { &mut new } else { &mut old };
            if place.replace(*pod).is_some() {
                return Found::Excess;
            }
        }
        Found::One { new, old }
    }

    /// `getNodesToDaemonPods` without pods that are terminating and have ended, in the order of
    /// `podByCreationTimestampAndPhase`: oldest first.
    fn daemon_pods(&self, node: &Node) -> Vec<&Pod> {
        let is_here = |pod: &&Pod| {
            let name = pod.node_name.as_ref().or(pod.affinity_node_name.as_ref());
            name == Some(&node.name)
        };
        let is_over = |pod: &Pod| pod.terminating && has_ended(&pod);
        let mut pods: Vec<&Pod> =
            self.pods.iter().copied().filter(is_here).filter(|pod| !is_over(pod)).collect();
        // Unlike upstream, pods of the same age are sorted by name (C55).
        pods.sort_by_key(|pod| (pod.node_name.is_none(), pod.creation_timestamp, pod.name.clone()));
        pods
    }

    /// `AllowsSurge`: whether maxSurge of one node is greater than zero.
    fn allows_surge(&self) -> bool {
        match self.daemon_set.update_strategy {
            UpdateStrategy::RollingUpdate { max_surge, .. } => scaled(max_surge, 1) > 0,
            UpdateStrategy::OnDelete | UpdateStrategy::Malformed => false,
        }
    }

    /// `IsPodUpdated`
    fn is_updated(&self, pod: &Pod) -> bool {
        let label = |key: &str| pod.labels.get(key).map(|value| value.to_string());
        let generation = self.daemon_set.template_generation.map(|number| number.to_string());
        label("controller-revision-hash").as_deref() == Some(self.hash)
            || (generation.is_some() && label("pod-template-generation") == generation)
    }

    /// `IsPodAvailable`
    fn is_available(&self, pod: &Pod) -> bool {
        let wait = 1000 * i64::from(self.daemon_set.min_ready_seconds);
        match pod.readiness {
            Readiness::NotReady => false,
            Readiness::Ready => wait == 0,
            Readiness::ReadySince(since) => wait == 0 || since.0 + wait <= self.now.0,
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    pod.readiness != Readiness::NotReady
}

fn has_ended(pod: &&Pod) -> bool {
    pod.phase == PodPhase::Failed || pod.phase == PodPhase::Succeeded
}

/// Pods are named after their nodes: `n1-p2`.
fn node_of(pod: &PodName) -> String {
    pod.as_str().split('-').next().expect("a part").to_owned()
}

/// `GetScaledValueFromIntOrPercent`, rounding up.
fn scaled(amount: IntOrPercent, total: usize) -> usize {
    match amount {
        IntOrPercent::Int(number) => number as usize,
        IntOrPercent::Percent(percent) => {
            (f64::from(percent) * total as f64 / 100.0).ceil() as usize
        }
    }
}
