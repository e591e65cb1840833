//! The taint eviction controller (S23): deletes pods that don't tolerate a NoExecute taint of their
//! node, at once or after their tolerationSeconds.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{Taint, TaintEffect, Timestamp, Toleration};

use super::PodKey;
use super::component_context::ComponentContext;
use super::event::{EventSubject, EventText};
use super::placement;
use super::timer::Timer;
use crate::condition;
use crate::json::Value;
use crate::object::Object;

#[derive(Debug, Default)]
pub(super) struct TaintEviction {
    /// The NoExecute taints of each node that has any.
    taints: BTreeMap<Arc<str>, Vec<Taint>>,
    /// Scheduled evictions, with the pod's UID and the time.
    planned: BTreeMap<PodKey, (Arc<str>, Timestamp)>,
}

impl TaintEviction {
    pub(super) fn apply_node(&mut self, context: &mut ComponentContext<'_>, node: &Object) {
        let all = node.value()["spec"]["taints"].as_array().into_iter().flatten();
        let taints: Vec<Taint> = all
            .filter_map(placement::taint)
            .filter(|taint| taint.effect == TaintEffect::NoExecute)
            .collect();
        let before = if taints.is_empty() {
            self.taints.remove(node.name())
        } else {
            self.taints.insert(node.name().into(), taints.clone())
        };
        let before = before.unwrap_or_default();
        if before != taints {
            for pod in context.pods_on(node.name()).collect::<Vec<_>>() {
                self.apply_pod(context, &pod);
            }
        }
    }

    pub(super) fn delete_node(&mut self, name: &str) {
        self.taints.remove(name);
    }

    pub(super) fn apply_pod(&mut self, context: &mut ComponentContext<'_>, pod: &Arc<Object>) {
        let time = match self.taints.get(pod.node_name()) {
            Some(taints) if !pod.is_terminating() => toleration_time(pod.value(), taints),
            Some(_) | None => None,
        };
        if self.planned.is_empty() && time.is_none() {
            return;
        }
        let key = PodKey::of(pod);
        match time {
            None => drop(self.planned.remove(&key)),
            Some(0) => {
                self.planned.remove(&key);
                evict(context, pod);
            }
            Some(ms) => {
                let at = Timestamp(context.now.0.saturating_add(ms));
                // An earlier eviction time stays: time that has passed counts.
                let planned = self.planned.get(&key).filter(|(uid, _)| **uid == *pod.uid());
                if planned.is_none_or(|(_, planned)| at < *planned) {
                    self.planned.insert(key.clone(), (pod.uid().into(), at));
                    context.timers.set(at, Timer::Evict { pod: key });
                }
            }
        }
    }

    pub(super) fn delete_pod(&mut self, pod: &Object) {
        if !self.planned.is_empty() {
            self.planned.remove(&PodKey::of(pod));
        }
    }

    pub(super) fn fire(&mut self, context: &mut ComponentContext<'_>, key: &PodKey) {
        let due = self.planned.get(key).is_some_and(|(_, at)| *at <= context.now);
        if !due {
            return;
        }
        if let Some((uid, _)) = self.planned.remove(key)
            && let Some(pod) = context.pod(key).filter(|pod| pod.uid() == &*uid)
        {
            evict(context, &pod);
        }
    }
}

/// The shortest time in milliseconds for which the pod tolerates all taints; `None` if it tolerates
/// them for ever.
fn toleration_time(pod: &Value, taints: &[Taint]) -> Option<i64> {
    let tolerations: Vec<(Toleration, Option<i64>)> = pod["spec"]["tolerations"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|t| Some((placement::toleration(t)?, t["tolerationSeconds"].as_i64())))
        .collect();
    let mut shortest: Option<i64> = None;
    for taint in taints {
        let mut tolerating = tolerations.iter().filter(|(t, _)| t.tolerates(taint)).peekable();
        if tolerating.peek().is_none() {
            return Some(0);
        }
        for seconds in tolerating.filter_map(|(_, seconds)| *seconds) {
            let seconds = seconds.max(0);
            shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)));
        }
    }
    shortest.map(|seconds| seconds.saturating_mul(1000))
}

fn evict(context: &mut ComponentContext<'_>, pod: &Arc<Object>) {
    let message = "Taint manager: deleting due to NoExecute taint";
    let status = condition::disrupted(pod, "DeletionByTaintManager", message, context.now);
    let message = format!("Marking for deletion Pod {}/{}", pod.namespace(), pod.name());
    let component = "taint-eviction-controller";
    let text = EventText::normal(component, "TaintManagerEviction", &message);
    context.record(EventSubject::pod(pod), text);
    if let Some(pod) = context.set_pod_status(pod, status) {
        context.delete_pod(&pod);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    /// S23: the shortest tolerationSeconds over all taints applies.
    #[test]
    fn the_shortest_toleration_counts() {
        let taint =
            |key: &str| Taint { key: key.into(), value: "".into(), effect: TaintEffect::NoExecute };
        let check = |tolerations: Value, taints: &[&str], expected: Option<i64>| {
            let pod = json!({"spec": {"tolerations": tolerations}});
            let taints: Vec<Taint> = taints.iter().map(|key| taint(key)).collect();
            assert_eq!(toleration_time(&pod, &taints), expected, "{pod}");
        };
        let forever = json!({"key": "a", "operator": "Exists"});
        let minute = json!({"key": "a", "operator": "Exists", "tolerationSeconds": 60});
        let second = json!({"key": "b", "operator": "Exists", "tolerationSeconds": 1});
        check(json!([]), &["a"], Some(0));
        check(json!([forever]), &["a"], None);
        check(json!([forever, minute]), &["a"], Some(60_000));
        check(json!([minute, second]), &["a", "b"], Some(1_000));
        check(json!([minute]), &["a", "b"], Some(0));
        check(json!([{"operator": "Exists"}]), &["a", "b"], None);
        check(json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]), &["a"], Some(0));
    }
}
