//! Webhooks and quotas that refuse or change the pods that are created, for a while.

use everynode_core::api::Timestamp;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::POD;
use everynode_sandbox::store::Store;
use http::Method;

use crate::network::Request;
use crate::response::Refusal;
use crate::serve::Target;

/// The admission of created pods until some time.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    /// Until when.
    pub until: Timestamp,
    /// The effect on them.
    pub effect: Effect,
}

/// The effect of a webhook or a quota on created pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A webhook denies the pods of a node.
    DenyNode(String),
    /// A webhook denies all pods.
    DenyAll,
    /// The webhook does not answer.
    FailToCall,
    /// A quota is used up.
    ExceedQuota,
    /// A webhook denies changes in place of the pods of a node, or of all.
    DenyChanges(Option<String>),
    /// A webhook adds a label, an annotation and a container.
    Extend,
    /// A webhook removes all labels.
    RemoveLabels,
    /// A webhook removes one label.
    RemoveLabel(&'static str),
    /// A webhook sets the node on which the pod runs.
    SetNode(String),
    /// A webhook removes the affinity, which pins the pod to its node.
    RemoveAffinity,
}

impl Admission {
    /// Returns the refusal of a request, or `None` if it is admitted.
    pub(crate) fn refusal(
        &self,
        request: &Request,
        target: &Target,
        now: Timestamp,
        store: &Store,
    ) -> Option<Refusal> {
        if let Effect::DenyChanges(node) = &self.effect {
            return self.denied_change(request, target, now, (node.as_deref(), store));
        }
        if !self.concerns(request, target, now) {
            return None;
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let forbidden = |message: String| Some(Refusal::new(403, "Forbidden", message));
        match &self.effect {
            Effect::DenyNode(node) if target_node(&body) != Some(node) => None,
            Effect::DenyNode(_) | Effect::DenyAll => forbidden(
                "admission webhook \"sim.example.com\" denied the request: no pods here".to_owned(),
            ),
            Effect::FailToCall => {
                let message = "Internal error occurred: failed calling webhook \
                               \"sim.example.com\": context deadline exceeded";
                Some(Refusal::new(500, "InternalError", message))
            }
            Effect::ExceedQuota => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                forbidden(format!(
                    "pods {name:?} is forbidden: exceeded quota: sim, requested: pods=1, used: \
                     pods=1, limited: pods=1"
                ))
            }
            Effect::DenyChanges(_)
            | Effect::Extend
            | Effect::RemoveLabels
            | Effect::RemoveLabel(_)
            | Effect::SetNode(_)
            | Effect::RemoveAffinity => None,
        }
    }

    /// Changes the pod of an admitted request. Returns whether it may no longer count for its node.
    pub(crate) fn change(
        &self,
        request: &Request,
        target: &Target,
        now: Timestamp,
        pod: &mut Value,
    ) -> bool {
        if !self.concerns(request, target, now) {
            return false;
        }
        match &self.effect {
            Effect::Extend => {
                pod["metadata"]["labels"]["sim/injected"] = json!("true");
                pod["metadata"]["annotations"]["sim/injected"] = json!("true");
                if let Some(containers) = pod["spec"]["containers"].as_array_mut() {
                    containers.push(json!({"name": "sidecar", "image": "sidecar"}));
                }
                return false;
            }
            Effect::RemoveLabels => remove(&mut pod["metadata"], "labels"),
            Effect::RemoveLabel(key) => remove(&mut pod["metadata"]["labels"], key),
            Effect::SetNode(node) => pod["spec"]["nodeName"] = json!(node),
            Effect::RemoveAffinity => remove(&mut pod["spec"], "affinity"),
            Effect::DenyChanges(_)
            | Effect::DenyNode(_)
            | Effect::DenyAll
            | Effect::FailToCall
            | Effect::ExceedQuota => return false,
        }
        true
    }

    /// The refusal of a change of images or resources of a pod.
    fn denied_change(
        &self,
        request: &Request,
        target: &Target,
        now: Timestamp,
        (node, store): (Option<&str>, &Store),
    ) -> Option<Refusal> {
        let is_pod = request.method == Method::PATCH && target.kind.kind == POD.kind;
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if now >= self.until || !is_pod || !body["spec"].is_object() {
            return None;
        }
        let stored = store.find(&POD, &target.namespace, &target.name)?;
        let is_it = node.is_none_or(|node| stored.value()["spec"]["nodeName"] == *node);
        let message = "admission webhook \"sim.example.com\" denied the request: no changes here";
        is_it.then(|| Refusal::new(403, "Forbidden", message))
    }

    fn concerns(&self, request: &Request, target: &Target, now: Timestamp) -> bool {
        now < self.until && request.method == Method::POST && target.kind.kind == POD.kind
    }
}

fn remove(object: &mut Value, key: &str) {
    object.as_object_mut().and_then(|members| members.remove(key));
}

/// The node that a DaemonSet's pod is made for.
fn target_node(pod: &Value) -> Option<&str> {
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
    let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let pinned = &terms[0]["matchFields"][0]["values"][0];
    pod["spec"]["nodeName"].as_str().or_else(|| pinned.as_str())
}
