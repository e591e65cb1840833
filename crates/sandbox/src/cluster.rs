//! The simulated cluster: the registry, and the components that step over it like those of a real
//! cluster.
//!
//! There is no I/O and no clock: the caller passes the time and gets the time of the next step. The
//! components read the store's change log like any watcher, so that their work is proportional to
//! the changes. All randomness comes from one seed (S24).

mod autoscaler;
mod churn;
mod component_context;
mod disruption;
mod event;
pub mod garbage_collector;
mod kubelet;
pub mod lifecycle;
mod node_annotation;
mod node_lifecycle;
mod placement;
mod pod_collector;
mod requests;
mod role_aggregation;
mod scheduler;
mod served;
mod taint_eviction;
mod timer;

use std::collections::BTreeSet;
use std::sync::Arc;

use everynode_core::api::Timestamp;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::json::Value;

pub use self::node_annotation::{DOWN_ANNOTATION, SCALE_DOWN_ANNOTATION, SHUTDOWN_ANNOTATION};

use self::autoscaler::Autoscaler;
use self::churn::Churn;
use self::component_context::ComponentContext;
use self::event::{EventExpiry, Recorder};
use self::garbage_collector::GarbageCollector;
use self::kubelet::Kubelets;
use self::lifecycle::Lifecycles;
use self::node_lifecycle::NodeLifecycle;
use self::pod_collector::PodCollector;
use self::role_aggregation::RoleAggregation;
use self::scheduler::Scheduler;
use self::taint_eviction::TaintEviction;
use self::timer::{Timer, Timers};
use crate::kinds::{NODE, POD};
use crate::nodes;
use crate::object::Object;
use crate::registry::Registry;
use crate::status::Status;
use crate::store::{Action, Store, WriteOptions};

/// Maximum number of items of each sort in one step, if nothing else waits for the store.
pub const STEP_MAX: usize = 32;

/// Number of nodes that are created before the components process them.
const NODES_PER_BATCH: usize = 256;

/// How the simulated cluster behaves. Two periods are shorter than upstream's 40 s, so that users
/// don't have to wait: the node monitor's grace period and the delay of pod garbage collection.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed of all randomness (S24).
    pub seed: u64,
    /// The interval at which a kubelet renews its node's lease, in milliseconds.
    pub lease_renew_ms: i64,
    /// The age in milliseconds from which a lease is expired and its node not ready.
    pub node_monitor_grace_ms: i64,
    /// The time in milliseconds from the deletion of a node to the removal of its pods.
    pub pod_gc_delay_ms: i64,
    /// The time in milliseconds from the deletion of a namespace to that of its content. On a real
    /// cluster it takes seconds, in which `kubectl delete -f` deletes the content by name.
    pub namespace_delay_ms: i64,
    /// The time in milliseconds after its last write at which an event is deleted; 0 records no
    /// events.
    pub event_age_ms: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            lease_renew_ms: 10_000,
            node_monitor_grace_ms: 15_000,
            pod_gc_delay_ms: 1_000,
            namespace_delay_ms: 0,
            event_age_ms: 3_600_000,
        }
    }
}

/// A simulated cluster.
#[derive(Debug)]
pub struct Cluster {
    registry: Registry,
    settings: Settings,
    rng: Pcg64Mcg,
    timers: Timers,
    recorder: Recorder,
    event_expiry: EventExpiry,
    components: Components,
    garbage_collector: GarbageCollector,
    role_aggregation: RoleAggregation,
    nodes_seen: u64,
    pods_seen: u64,
}

#[derive(Debug)]
struct Components {
    nodes: BTreeSet<Arc<str>>,
    scheduler: Scheduler,
    kubelets: Kubelets,
    node_lifecycle: NodeLifecycle,
    taint_eviction: TaintEviction,
    pod_collector: PodCollector,
    autoscaler: Autoscaler,
    churn: Option<Churn>,
}

impl Cluster {
    /// A cluster over the objects that the registry has already.
    pub fn new(
        registry: Registry,
        settings: Settings,
        lifecycles: Lifecycles,
        now: Timestamp,
    ) -> Self {
        let mut timers = Timers::default();
        timers.set(Timestamp(now.0 + EXPIRE_EVENTS_MS), Timer::ExpireEvents);
        let mut cluster = Self {
            registry,
            rng: Pcg64Mcg::seed_from_u64(settings.seed),
            garbage_collector: GarbageCollector::new(settings.namespace_delay_ms),
            role_aggregation: RoleAggregation::default(),
            settings,
            timers,
            recorder: Recorder::default(),
            event_expiry: EventExpiry::default(),
            components: Components {
                nodes: BTreeSet::new(),
                scheduler: Scheduler::default(),
                kubelets: Kubelets::new(lifecycles),
                node_lifecycle: NodeLifecycle::default(),
                taint_eviction: TaintEviction::default(),
                pod_collector: PodCollector::default(),
                autoscaler: Autoscaler::default(),
                churn: None,
            },
            nodes_seen: 0,
            pods_seen: 0,
        };
        cluster.list_nodes(now);
        cluster.list_pods(now);
        cluster
    }

    /// True if the kubelet of this node has an image.
    pub fn has_image(&self, node: &str, image: &str) -> bool {
        self.components.kubelets.has_image(node, image)
    }

    /// The store, for reads.
    pub fn store(&self) -> &Store {
        self.registry.store()
    }

    /// The registry, for the writes of clients. Call [`step`](Cluster::step) soon after a write.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Adds nodes that are ready from the start.
    ///
    /// # Errors
    ///
    /// The first node that the registry refuses.
    pub fn add_nodes(&mut self, nodes: Vec<Value>, now: Timestamp) -> Result<(), Status> {
        for (count, mut node) in (1..).zip(nodes) {
            nodes::set_healthy(&mut node, now);
            self.registry.create(&NODE, "", node, &WriteOptions::at(now))?;
            // Process the nodes in batches, while the store still has their trees.
            if count % NODES_PER_BATCH == 0 {
                self.settle(now);
            }
        }
        Ok(())
    }

    /// From now on about this share of the nodes is in motion at all times.
    pub fn start_churn(&mut self, percent: u8, now: Timestamp) {
        let nodes = u32::try_from(self.components.nodes.len()).unwrap_or(u32::MAX);
        if self.components.churn.replace(Churn::new(percent, self.settings.seed, nodes)).is_none() {
            self.timers.set(now, Timer::Churn);
        }
    }

    /// Does a part of the due work: at most `items_max` items of each sort. Returns the time of the
    /// next step, which is `now` if more work is due; `None` if no work is scheduled.
    pub fn step(&mut self, now: Timestamp, items_max: usize) -> Option<Timestamp> {
        let nodes = self.follow_nodes(now, items_max);
        let pods = self.follow_pods(now, items_max);
        let (components, mut context) = self.split(now);
        let bindings = components.scheduler.step(&mut context, items_max);
        let budgets = disruption::step(&mut context, items_max);
        let timers = self.fire_timers(now, items_max);
        let garbage = self.garbage_collector.step(&mut self.registry, now, items_max);
        let roles = self.role_aggregation.step(&mut self.registry, now);
        // The next step reads what this step wrote.
        if nodes || pods || bindings || budgets || timers || garbage || roles || self.has_unread() {
            return Some(now);
        }
        [self.timers.next(), self.garbage_collector.next()].into_iter().flatten().min()
    }

    /// Steps until no work is due at `now`. Returns the time at which work is due next.
    pub fn settle(&mut self, now: Timestamp) -> Option<Timestamp> {
        loop {
            match self.step(now, STEP_MAX) {
                Some(next) if next <= now => {}
                next => return next,
            }
        }
    }

    fn has_unread(&self) -> bool {
        self.store().has_changes_since(&NODE, self.nodes_seen)
            || self.store().has_changes_since(&POD, self.pods_seen)
    }

    fn split(&mut self, now: Timestamp) -> (&mut Components, ComponentContext<'_>) {
        let context = ComponentContext {
            now,
            registry: &mut self.registry,
            rng: &mut self.rng,
            timers: &mut self.timers,
            recorder: &mut self.recorder,
            settings: &self.settings,
        };
        (&mut self.components, context)
    }

    /// Processes changes of nodes; returns whether there may be more.
    fn follow_nodes(&mut self, now: Timestamp, items_max: usize) -> bool {
        let Ok(changes) = self.store().changes_since(&NODE, self.nodes_seen, items_max) else {
            self.list_nodes(now);
            return true;
        };
        for change in &changes {
            self.nodes_seen = change.resource_version;
            // Components act on states, so they skip changes that others have followed.
            let is_last = self.store().is_newest(&NODE, &change.object);
            let (components, mut context) = self.split(now);
            match change.action {
                Action::Deleted => components.delete_node(&mut context, change.object.name()),
                Action::Added | Action::Modified if is_last => {
                    components.apply_node(&mut context, &change.object.with_tree());
                }
                Action::Added | Action::Modified => {}
            }
        }
        changes.len() == items_max
    }

    fn follow_pods(&mut self, now: Timestamp, items_max: usize) -> bool {
        let Ok(changes) = self.store().changes_since(&POD, self.pods_seen, items_max) else {
            self.list_pods(now);
            return true;
        };
        for change in &changes {
            self.pods_seen = change.resource_version;
            let is_last = self.store().is_newest(&POD, &change.object);
            let (components, mut context) = self.split(now);
            match change.action {
                Action::Deleted => components.delete_pod(&mut context, &change.object),
                Action::Added | Action::Modified if is_last => {
                    components.apply_pod(&mut context, &change.object.with_tree());
                }
                Action::Added | Action::Modified => {}
            }
        }
        changes.len() == items_max
    }

    /// Processes all nodes: at the start, and when changes were missed.
    fn list_nodes(&mut self, now: Timestamp) {
        self.nodes_seen = self.store().resource_version();
        let nodes: Vec<Arc<Object>> = self.store().iter(&NODE, None).cloned().collect();
        let existing: BTreeSet<&str> = nodes.iter().map(|node| node.name()).collect();
        let (components, mut context) = self.split(now);
        let gone: Vec<Arc<str>> =
            components.nodes.iter().filter(|name| !existing.contains(&***name)).cloned().collect();
        for name in gone {
            components.delete_node(&mut context, &name);
        }
        for node in &nodes {
            components.apply_node(&mut context, &node.with_tree());
        }
    }

    fn list_pods(&mut self, now: Timestamp) {
        self.pods_seen = self.store().resource_version();
        let pods: Vec<Arc<Object>> = self.store().iter(&POD, None).cloned().collect();
        let existing: BTreeSet<&str> = pods.iter().map(|pod| pod.uid()).collect();
        let (components, mut context) = self.split(now);
        components.scheduler.retain(&existing);
        components.kubelets.retain(&mut context, &existing);
        for pod in &pods {
            components.apply_pod(&mut context, &pod.with_tree());
        }
    }

    fn fire_timers(&mut self, now: Timestamp, items_max: usize) -> bool {
        for _ in 0..items_max {
            let Some((at, timer)) = self.timers.pop(now) else { return false };
            let (components, mut context) = self.split(now);
            match timer {
                Timer::Pod { uid } => components.kubelets.fire_pod(&mut context, at, &uid),
                Timer::Heartbeat { slot } => components.kubelets.fire_heartbeat(&mut context, slot),
                Timer::Node { node } => {
                    components.kubelets.fire_node(&mut context, &node);
                    components.autoscaler.fire(&mut context, &node);
                }
                Timer::Lease { node } => components.node_lifecycle.fire(&mut context, at, &node),
                Timer::Evict { pod } => components.taint_eviction.fire(&mut context, &pod),
                Timer::CollectPods { node } => components.pod_collector.fire(&mut context, &node),
                Timer::Budget { namespace, name } => {
                    context.registry.check_budget_again(&namespace, &name);
                }
                Timer::Churn => {
                    if let Some(churn) = &mut components.churn {
                        churn.fire(&mut context, at, &components.nodes);
                    }
                }
                Timer::ExpireEvents => {
                    self.event_expiry.expire(&mut self.registry, now, self.settings.event_age_ms);
                    let next = Timestamp(now.0 + EXPIRE_EVENTS_MS);
                    self.timers.set(next, Timer::ExpireEvents);
                }
            }
        }
        true
    }
}

/// Interval at which old events are deleted.
const EXPIRE_EVENTS_MS: i64 = 60_000;

impl Components {
    fn apply_node(&mut self, context: &mut ComponentContext<'_>, node: &Arc<Object>) {
        if !self.nodes.contains(node.name()) {
            self.nodes.insert(node.name().into());
        }
        self.kubelets.apply_node(context, node);
        if context.node_version(node.name()).is_some_and(|now| now != node.resource_version()) {
            // Its kubelet has just updated the node; that change follows.
            return;
        }
        self.scheduler.apply_node(node);
        self.node_lifecycle.apply_node(context, node);
        self.taint_eviction.apply_node(context, node);
        self.autoscaler.apply_node(context, node);
    }

    fn delete_node(&mut self, context: &mut ComponentContext<'_>, name: &str) {
        self.nodes.remove(name);
        self.scheduler.delete_node(name);
        self.node_lifecycle.delete_node(name);
        self.taint_eviction.delete_node(name);
        self.kubelets.delete_node(context, name);
        self.pod_collector.delete_node(context, name);
        self.autoscaler.delete_node(name);
    }

    fn apply_pod(&mut self, context: &mut ComponentContext<'_>, pod: &Arc<Object>) {
        self.scheduler.apply_pod(pod);
        self.taint_eviction.apply_pod(context, pod);
        self.kubelets.apply_pod(context, pod);
        self.pod_collector.apply_pod(context, pod);
    }

    fn delete_pod(&mut self, context: &mut ComponentContext<'_>, pod: &Object) {
        self.scheduler.delete_pod(pod.uid());
        self.taint_eviction.delete_pod(pod);
        self.kubelets.delete_pod(context, pod.uid());
    }
}

/// A pod's namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PodKey {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl PodKey {
    fn of(pod: &Object) -> Self {
        Self { namespace: pod.namespace().into(), name: pod.name().into() }
    }
}

#[cfg(test)]
mod tests;
