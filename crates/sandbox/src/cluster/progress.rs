//! How far the cluster is, for a progress bar: counted from change to change.

use std::sync::Arc;

use serde_json::Value;

use crate::store::{Action, Change, Object, text};

/// How many nodes and pods are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub nodes: usize,
    pub nodes_ready: usize,
    pub pods: usize,
    /// Bound to no node.
    pub pods_unscheduled: usize,
    /// Bound, and their containers are not up.
    pub pods_starting: usize,
    /// Running, and not ready.
    pub pods_unready: usize,
    pub pods_ready: usize,
    pub pods_terminating: usize,
    pub pods_succeeded: usize,
    pub pods_failed: usize,
}

impl Progress {
    pub(super) fn count_node(&mut self, change: &Change) {
        if let Some(previous) = &change.previous {
            self.nodes -= 1;
            self.nodes_ready -= usize::from(is_ready(&previous.read()));
        }
        if change.action != Action::Deleted {
            self.nodes += 1;
            self.nodes_ready += usize::from(is_ready(&change.object.read()));
        }
    }

    pub(super) fn count_pod(&mut self, change: &Change) {
        if let Some(previous) = &change.previous {
            self.pods -= 1;
            *self.of(previous) -= 1;
        }
        if change.action != Action::Deleted {
            self.pods += 1;
            *self.of(&change.object) += 1;
        }
    }

    pub(super) fn recount_nodes(&mut self, nodes: &[Arc<Object>]) {
        self.nodes = nodes.len();
        self.nodes_ready = nodes.iter().filter(|node| is_ready(&node.read())).count();
    }

    pub(super) fn recount_pods(&mut self, pods: &[Arc<Object>]) {
        let (nodes, nodes_ready) = (self.nodes, self.nodes_ready);
        *self = Progress { nodes, nodes_ready, pods: pods.len(), ..Progress::default() };
        for pod in pods {
            *self.of(pod) += 1;
        }
    }

    fn of(&mut self, pod: &Object) -> &mut usize {
        let value = pod.read();
        match text(&value, &["status", "phase"]) {
            _ if pod.is_terminating() => &mut self.pods_terminating,
            "Succeeded" => &mut self.pods_succeeded,
            "Failed" => &mut self.pods_failed,
            "Running" if is_ready(&value) => &mut self.pods_ready,
            "Running" => &mut self.pods_unready,
            _ if pod.node_name().is_empty() => &mut self.pods_unscheduled,
            _ => &mut self.pods_starting,
        }
    }
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}
