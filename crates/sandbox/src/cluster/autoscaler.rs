//! The end of a node that an autoscaler removes (S23): it taints the node, and deletes it when the
//! time in the annotation is over. If the annotation is removed before, the node stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::component_context::ComponentContext;
use super::event::{EventSubject, EventText};
use super::node_annotation::{SCALE_DOWN_ANNOTATION, TimedAnnotation};
use crate::json::{Value, json};
use crate::nodes::{self, SCALE_DOWN_TAINT};
use crate::object::Object;

#[derive(Debug, Default)]
pub(super) struct Autoscaler {
    /// The annotations of the nodes that have one.
    nodes: BTreeMap<Arc<str>, TimedAnnotation>,
}

impl Autoscaler {
    pub(super) fn apply_node(&mut self, context: &mut ComponentContext<'_>, node: &Arc<Object>) {
        let is_annotated = node.annotation(SCALE_DOWN_ANNOTATION).is_some();
        if !is_annotated && !self.nodes.contains_key(node.name()) {
            return;
        }
        let new = || TimedAnnotation::new(SCALE_DOWN_ANNOTATION);
        let annotation = self.nodes.entry(node.name().into()).or_insert_with(new);
        if annotation.follow(context, node) {
            set_taint(context, node.name(), annotation.applies());
        }
        if !is_annotated {
            self.nodes.remove(node.name());
        }
    }

    pub(super) fn delete_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    pub(super) fn fire(&self, context: &mut ComponentContext<'_>, name: &str) {
        if self.nodes.get(name).is_some_and(|annotation| annotation.is_over(context.now)) {
            context.delete_node(name);
        }
    }
}

fn set_taint(context: &mut ComponentContext<'_>, name: &str, is_tainted: bool) {
    let Some(node) = context.node(name) else { return };
    let mut updated = node.value().clone();
    let old = updated["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let mut taints: Vec<Value> =
        old.into_iter().filter(|taint| taint["key"] != SCALE_DOWN_TAINT).collect();
    if is_tainted {
        let since = (context.now.0 / 1000).to_string();
        taints.push(json!({"key": SCALE_DOWN_TAINT, "value": since, "effect": "NoSchedule"}));
    }
    nodes::set_taints(&mut updated, taints);
    context.update_node(&node, updated);
    if is_tainted {
        let message = "marked the node as toBeDeleted/unschedulable";
        let text = EventText::normal("cluster-autoscaler", "ScaleDown", message);
        context.record(EventSubject::node(&node), text);
    }
}
