//! Pod garbage collection (S23): removes the pods of nodes that are gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use everynode_core::time::Timestamp;
use serde_json::json;

use super::timer::Timer;
use super::world::World;
use crate::condition;
use crate::object::Object;

#[derive(Debug, Default)]
pub struct PodCollector {
    /// The nodes for which a timer runs.
    waiting: BTreeSet<Arc<str>>,
}

impl PodCollector {
    pub fn delete_node(&mut self, world: &mut World<'_>, name: &str) {
        self.wait(world, name);
    }

    pub fn apply_pod(&mut self, world: &mut World<'_>, pod: &Object) {
        let node = pod.node_name();
        if !node.is_empty() && !self.waiting.contains(node) && world.node_version(node).is_none() {
            self.wait(world, node);
        }
    }

    fn wait(&mut self, world: &mut World<'_>, node: &str) {
        let node: Arc<str> = node.into();
        if self.waiting.insert(node.clone()) {
            let at = Timestamp(world.now.0 + world.settings.pod_gc_delay_ms);
            world.timers.set(at, Timer::CollectPods { node });
        }
    }

    /// The node has been gone for a while; unless it is back, its pods go with it.
    pub fn fire(&mut self, world: &mut World<'_>, node: &str) {
        self.waiting.remove(node);
        if world.node_version(node).is_some() {
            return;
        }
        for pod in world.pods_on(node).collect::<Vec<_>>() {
            collect(world, &pod);
        }
    }
}

/// Marks the pod as failed, for those who count pods, then removes it for good.
fn collect(world: &mut World<'_>, pod: &Arc<Object>) {
    let mut current = pod.clone();
    if !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed") {
        let message = "PodGC: node no longer exists";
        let mut status = condition::disrupted(pod, "DeletionByPodGC", message, world.now);
        status["phase"] = json!("Failed");
        match world.set_pod_status(pod, status) {
            Some(updated) => current = updated,
            None => return,
        }
    }
    world.remove_pod(&current);
}
