//! Pod garbage collection (S23): removes the pods of deleted nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use everynode_core::api::Timestamp;

use super::component_context::ComponentContext;
use super::timer::Timer;
use crate::condition;
use crate::json::json;
use crate::object::Object;

#[derive(Debug, Default)]
pub(super) struct PodCollector {
    /// The nodes with a pending timer.
    waiting: BTreeSet<Arc<str>>,
}

impl PodCollector {
    pub(super) fn delete_node(&mut self, context: &mut ComponentContext<'_>, name: &str) {
        self.wait(context, name);
    }

    pub(super) fn apply_pod(&mut self, context: &mut ComponentContext<'_>, pod: &Object) {
        let node = pod.node_name();
        if !node.is_empty() && !self.waiting.contains(node) && context.node_version(node).is_none()
        {
            self.wait(context, node);
        }
    }

    fn wait(&mut self, context: &mut ComponentContext<'_>, node: &str) {
        let node: Arc<str> = node.into();
        if self.waiting.insert(node.clone()) {
            let at = Timestamp(context.now.0 + context.settings.pod_gc_delay_ms);
            context.timers.set(at, Timer::CollectPods { node });
        }
    }

    /// Removes the pods of a node that was deleted some time ago, unless the node exists again.
    pub(super) fn fire(&mut self, context: &mut ComponentContext<'_>, node: &str) {
        self.waiting.remove(node);
        if context.node_version(node).is_some() {
            return;
        }
        for pod in context.pods_on(node).collect::<Vec<_>>() {
            collect(context, &pod);
        }
    }
}

/// Sets the pod to Failed, so that its controllers see why it ended, then removes it.
fn collect(context: &mut ComponentContext<'_>, pod: &Arc<Object>) {
    let mut current = pod.clone();
    if !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed") {
        let message = "PodGC: node no longer exists";
        let mut status = condition::disrupted(pod, "DeletionByPodGC", message, context.now);
        status["phase"] = json!("Failed");
        match context.set_pod_status(pod, status) {
            Some(updated) => current = updated,
            None => return,
        }
    }
    context.remove_pod(&current);
}
