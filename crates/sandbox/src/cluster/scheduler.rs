//! The scheduler (S21): binds pending pods to nodes in the order of their priority.
//!
//! The work is proportional to the changes: a pod that is pinned to one node, as those of a
//! DaemonSet are, is tried on that node only, and an unschedulable pod is retried only when a node
//! changes or a pod leaves it. A pinned pod preempts pods with a lower priority; other
//! unschedulable pods wait.

mod preemption;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::json::json;

use super::PodKey;
use super::component_context::ComponentContext;
use super::event::{EventSubject, EventText};
use super::placement::{self, pinned_node, placement};
use super::requests;
use crate::condition;
use crate::object::Object;
use everynode_k8s::fit::{Misfit, PodNeeds, Room, Usage};

const NAME: &str = "default-scheduler";

#[derive(Debug, Default)]
pub(super) struct Scheduler {
    nodes: BTreeMap<Arc<str>, NodeState>,
    /// Number of the nodes that exist.
    nodes_known: usize,
    pods: HashMap<Arc<str>, PodState>,
    queue: BTreeSet<QueueKey>,
    /// Unschedulable pods that are not pinned to a node.
    waiting: BTreeSet<Arc<str>>,
}

/// A node; without `room` it does not exist, and pods refer to it.
#[derive(Debug, Default)]
struct NodeState {
    room: Option<Room>,
    bound: BTreeSet<Arc<str>>,
    /// Unschedulable pods that are pinned to this node.
    waiting: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
enum PodState {
    Pending { needs: PodNeeds, pinned: Option<Arc<str>>, queue_key: QueueKey },
    Bound { node: Arc<str>, usage: Usage, queue_key: QueueKey },
}

/// The position in the queue: by priority, then by age.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QueueKey {
    priority: Reverse<i64>,
    created: Arc<str>,
    key: PodKey,
    uid: Arc<str>,
}

impl Scheduler {
    pub(super) fn apply_node(&mut self, object: &Object) {
        let core = placement::node(object.value());
        let node = self.nodes.entry(object.name().into()).or_default();
        let changed = match &mut node.room {
            Some(room) => room.update(core, object.value()),
            None => {
                let mut room = Room::new(core, object.value());
                for uid in &node.bound {
                    if let Some(PodState::Bound { usage, .. }) = self.pods.get(uid) {
                        room.add(usage);
                    }
                }
                node.room = Some(room);
                self.nodes_known += 1;
                true
            }
        };
        if changed {
            self.requeue_waiting(object.name());
        }
    }

    pub(super) fn delete_node(&mut self, name: &str) {
        if let Some(node) = self.nodes.get_mut(name)
            && node.room.take().is_some()
        {
            self.nodes_known -= 1;
        }
        self.remove_if_unused(name);
    }

    pub(super) fn apply_pod(&mut self, object: &Object) {
        let done = matches!(object.text(&["status", "phase"]), "Succeeded" | "Failed");
        match (self.pods.get(object.uid()), object.node_name()) {
            (_, _) if done => self.delete_pod(object.uid()),
            (Some(PodState::Bound { .. }), _) => self.update_usage(object),
            (Some(PodState::Pending { .. }), "") if object.is_terminating() => {
                self.delete_pod(object.uid());
            }
            (Some(PodState::Pending { needs, .. }), "") => {
                let pod = object.value();
                let is_resized =
                    requests::may_have_changed(pod) && needs.usage != Usage::of_pod(pod);
                if is_resized || needs.placement != placement(&pod["spec"]) {
                    self.delete_pod(object.uid());
                    self.enqueue(object);
                }
            }
            (Some(PodState::Pending { .. }) | None, node) if !node.is_empty() => {
                self.delete_pod(object.uid());
                self.bind(queue_key(object), node.into(), requests::of_bound(object.value()));
            }
            (_, _) if is_schedulable(object) => self.enqueue(object),
            (_, _) => {}
        }
    }

    fn enqueue(&mut self, object: &Object) {
        let spec = &object.value()["spec"];
        let queue_key = queue_key(object);
        let needs = PodNeeds { placement: placement(spec), usage: Usage::of_pod(object.value()) };
        let pinned = pinned_node(&needs.placement).map(Arc::from);
        self.queue.insert(queue_key.clone());
        self.pods.insert(queue_key.uid.clone(), PodState::Pending { needs, pinned, queue_key });
    }

    fn bind(&mut self, queue_key: QueueKey, name: Arc<str>, usage: Usage) {
        let node = self.nodes.entry(name.clone()).or_default();
        if let Some(room) = &mut node.room {
            room.add(&usage);
        }
        node.bound.insert(queue_key.uid.clone());
        self.pods.insert(queue_key.uid.clone(), PodState::Bound { node: name, usage, queue_key });
    }

    /// A bound pod may have been resized.
    fn update_usage(&mut self, object: &Object) {
        if !requests::may_have_changed(object.value()) {
            return;
        }
        let Some(PodState::Bound { node, usage, .. }) = self.pods.get_mut(object.uid()) else {
            return;
        };
        let now = requests::of_bound(object.value());
        if *usage == now {
            return;
        }
        let before = std::mem::replace(usage, now.clone());
        let name = node.clone();
        if let Some(room) = self.nodes.get_mut(&name).and_then(|node| node.room.as_mut()) {
            room.remove(&before);
            room.add(&now);
        }
        self.requeue_waiting(&name);
    }

    /// The pod is gone or has ended, and uses no resources any more.
    pub(super) fn delete_pod(&mut self, uid: &str) {
        match self.pods.remove(uid) {
            None => {}
            Some(PodState::Pending { pinned, queue_key, .. }) => {
                self.queue.remove(&queue_key);
                self.waiting.remove(uid);
                if let Some(name) = pinned {
                    if let Some(node) = self.nodes.get_mut(&name) {
                        node.waiting.remove(uid);
                    }
                    self.remove_if_unused(&name);
                }
            }
            Some(PodState::Bound { node: name, usage, .. }) => {
                if let Some(node) = self.nodes.get_mut(&name) {
                    node.bound.remove(uid);
                    if let Some(room) = &mut node.room {
                        room.remove(&usage);
                    }
                }
                self.requeue_waiting(&name);
                self.remove_if_unused(&name);
            }
        }
    }

    /// Forgets all pods except these.
    pub(super) fn retain(&mut self, uids: &BTreeSet<&str>) {
        let mut gone: Vec<Arc<str>> =
            self.pods.keys().filter(|uid| !uids.contains(&***uid)).cloned().collect();
        gone.sort_unstable();
        for uid in gone {
            self.delete_pod(&uid);
        }
    }

    fn remove_if_unused(&mut self, name: &str) {
        let empty = |node: &NodeState| {
            node.room.is_none() && node.bound.is_empty() && node.waiting.is_empty()
        };
        if self.nodes.get(name).is_some_and(empty) {
            self.nodes.remove(name);
        }
    }

    /// Retries the waiting pods, because a node has changed.
    fn requeue_waiting(&mut self, name: &str) {
        let pinned = self.nodes.get_mut(name).map(|node| std::mem::take(&mut node.waiting));
        let free = std::mem::take(&mut self.waiting);
        for uid in pinned.into_iter().flatten().chain(free) {
            if let Some(PodState::Pending { queue_key, .. }) = self.pods.get(&uid) {
                self.queue.insert(queue_key.clone());
            }
        }
    }

    /// Tries up to `limit` pods. Returns whether the queue has more.
    pub(super) fn step(&mut self, context: &mut ComponentContext<'_>, limit: usize) -> bool {
        for _ in 0..limit {
            let Some(queue_key) = self.queue.pop_first() else { return false };
            self.try_to_bind(context, &queue_key.uid);
        }
        !self.queue.is_empty()
    }

    fn try_to_bind(&mut self, context: &mut ComponentContext<'_>, uid: &Arc<str>) {
        let Some(PodState::Pending { needs, pinned, queue_key }) = self.pods.get(uid) else {
            return;
        };
        let (queue_key, pinned) = (queue_key.clone(), pinned.clone());
        let Some(object) = context.pod(&queue_key.key).filter(|object| object.uid() == &**uid)
        else {
            return;
        };
        let reasons = match self.choose(needs, pinned.as_deref()) {
            Ok(node) => {
                let usage = needs.usage.clone();
                if context.bind(&object, &node) {
                    let (namespace, name) = (object.namespace(), object.name());
                    let message = format!("Successfully assigned {namespace}/{name} to {node}");
                    let text = EventText::normal(NAME, "Scheduled", &message);
                    context.record(EventSubject::pod(&object), text);
                    self.bind(queue_key, node, usage);
                }
                return;
            }
            Err(reasons) => reasons,
        };
        let Some(name) = pinned else {
            self.waiting.insert(uid.clone());
            return report_unschedulable(context, &object, &reasons.message(), None);
        };
        let preempted = self.preempt(context, &object, uid, &name);
        self.nodes.entry(name.clone()).or_default().waiting.insert(uid.clone());
        match preempted {
            PreemptionResult::NoVictims => {
                report_unschedulable(context, &object, &reasons.message(), None);
            }
            PreemptionResult::Evicted => {
                report_unschedulable(context, &object, &reasons.nodes_message(), Some(&name));
            }
            PreemptionResult::AlreadyEvicted => {}
        }
    }

    /// Preempts pods with a lower priority on the node that the pod is pinned to.
    fn preempt(
        &self,
        context: &mut ComponentContext<'_>,
        object: &Object,
        uid: &Arc<str>,
        name: &str,
    ) -> PreemptionResult {
        let Some(PodState::Pending { needs, queue_key, .. }) = self.pods.get(uid) else {
            return PreemptionResult::NoVictims;
        };
        let Some(node) = self.nodes.get(name) else { return PreemptionResult::NoVictims };
        let Some(room) = &node.room else { return PreemptionResult::NoVictims };
        if object.text(&["spec", "preemptionPolicy"]) == "Never" {
            return PreemptionResult::NoVictims;
        }
        let bound = node.bound.iter().filter_map(|uid| match self.pods.get(uid) {
            Some(PodState::Bound { usage, queue_key, .. }) => Some((queue_key, usage)),
            Some(PodState::Pending { .. }) | None => None,
        });
        let Some(victims) = preemption::victims(room, needs, queue_key, bound.collect()) else {
            return PreemptionResult::NoVictims;
        };
        let mut evicted = false;
        for victim in &victims {
            evicted |= preemption::evict(context, victim, object.uid(), name);
        }
        if evicted { PreemptionResult::Evicted } else { PreemptionResult::AlreadyEvicted }
    }

    /// The node for a pod, or the reasons that it fits none.
    fn choose(
        &self,
        needs: &PodNeeds,
        pinned: Option<&str>,
    ) -> Result<Arc<str>, UnschedulableReasons> {
        let mut reasons =
            UnschedulableReasons { nodes: self.nodes_known, ..UnschedulableReasons::default() };
        if let Some(name) = pinned {
            let room = self
                .nodes
                .get_key_value(name)
                .and_then(|(name, node)| Some((name, node.room.as_ref()?)));
            if let Some((name, room)) = room {
                let misfits = room.misfits(needs);
                if misfits.is_empty() {
                    return Ok(name.clone());
                }
                reasons.add(&misfits);
            }
            reasons.add_others();
            return Err(reasons);
        }
        let mut best: Option<(i64, &Arc<str>)> = None;
        for (name, node) in &self.nodes {
            let Some(room) = &node.room else { continue };
            let misfits = room.misfits(needs);
            if !misfits.is_empty() {
                reasons.add(&misfits);
            } else if best.is_none_or(|(pods, _)| room.pods() < pods) {
                best = Some((room.pods(), name));
            }
        }
        best.map(|(_, name)| name.clone()).ok_or(reasons)
    }
}

/// The result of an attempt to preempt pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreemptionResult {
    NoVictims,
    Evicted,
    /// All victims are terminating already.
    AlreadyEvicted,
}

fn queue_key(pod: &Object) -> QueueKey {
    QueueKey {
        priority: Reverse(pod.value()["spec"]["priority"].as_i64().unwrap_or(0)),
        created: pod.text(&["metadata", "creationTimestamp"]).into(),
        key: PodKey::of(pod),
        uid: pod.uid().into(),
    }
}

/// True if this scheduler should schedule the pod.
fn is_schedulable(pod: &Object) -> bool {
    let spec = &pod.value()["spec"];
    let gated = spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    pod.node_name().is_empty()
        && !pod.is_terminating()
        && !gated
        && matches!(pod.text(&["spec", "schedulerName"]), "" | NAME)
}

/// Reports why a pod is not scheduled; `nominated` is the node on which pods are being preempted
/// for it.
fn report_unschedulable(
    context: &mut ComponentContext<'_>,
    pod: &Arc<Object>,
    message: &str,
    nominated: Option<&str>,
) {
    let old = condition::find(&pod.value()["status"], "PodScheduled");
    if old.is_some_and(|old| old["status"] == "False" && old["message"] == message) {
        return;
    }
    let generation = pod.value()["metadata"].get("generation");
    let condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "observedGeneration": generation.cloned().unwrap_or(json!(1)),
        "lastProbeTime": null,
    });
    let mut status = pod.value()["status"].clone();
    condition::transition(&mut status, condition, context.now);
    if let Some(node) = nominated {
        status["nominatedNodeName"] = json!(node);
    }
    context.set_pod_status(pod, status);
    let text = EventText::warning(NAME, "FailedScheduling", message);
    context.record(EventSubject::pod(pod), text);
}

/// The reasons that a pod fits no node, with the number of nodes for each.
#[derive(Debug, Default)]
struct UnschedulableReasons {
    nodes: usize,
    examined: usize,
    counts: BTreeMap<String, usize>,
    without_victims: usize,
}

impl UnschedulableReasons {
    fn add(&mut self, misfits: &[Misfit]) {
        self.examined += 1;
        self.without_victims += usize::from(misfits.iter().all(Misfit::could_be_resolved));
        for misfit in misfits {
            *self.counts.entry(misfit.reason()).or_default() += 1;
        }
    }

    /// Counts the nodes that are ruled out because the pod is pinned to another one.
    fn add_others(&mut self) {
        let others = self.nodes - self.examined;
        if others > 0 {
            self.counts
                .insert("node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned(), others);
        }
    }

    /// The reasons alone.
    fn nodes_message(&self) -> String {
        self.count(&self.counts)
    }

    /// The message of kube-scheduler 1.36 if there is no one to preempt.
    fn message(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let unhelpful = self.nodes - self.without_victims;
        let mut preemption = BTreeMap::new();
        if self.without_victims > 0 {
            let text = "No preemption victims found for incoming pod";
            preemption.insert(text.to_owned(), self.without_victims);
        }
        if unhelpful > 0 {
            preemption.insert("Preemption is not helpful for scheduling".to_owned(), unhelpful);
        }
        let (reasons, preemption) = (self.nodes_message(), self.count(&preemption));
        format!("{reasons} no new claims to deallocate, preemption: {preemption}")
    }

    fn count(&self, counts: &BTreeMap<String, usize>) -> String {
        let mut parts: Vec<String> =
            counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        format!("0/{} nodes are available: {}.", self.nodes, parts.join(", "))
    }
}
