//! The subresources of pods that are no part of an object: binding and eviction (S4, S10).

use crate::json::{Value, json};

use super::Registry;
use super::apiserver::{check_preconditions, refuse_too_large};
use crate::clock::rfc3339;
use crate::condition;
use crate::kinds::POD;
use crate::object::Object;
use crate::status::{Reason, Status};
use crate::store::{DeleteOptions, WriteOptions};
use crate::value::text;

impl Registry {
    /// `pods/binding`: binds a pod to the node in `binding.target.name`. A binding is final.
    ///
    /// # Errors
    /// 404 if there is no such pod, 409 if it is bound, terminating or has another UID, 422 if the
    /// binding names no node.
    pub fn bind(
        &mut self,
        namespace: &str,
        name: &str,
        binding: &Value,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let node = text(binding, &["target", "name"]);
        let Some(current) = self.store().find_with_tree(&POD, namespace, name) else {
            return Err(Status::not_found(&POD, name));
        };
        check_binding(&current, binding, node)?;
        let mut object = current.value().clone();
        object["spec"]["nodeName"] = Value::from(node);
        if let Some(annotations) = binding["metadata"]["annotations"].as_object() {
            for (key, value) in annotations.iter().filter(|(_, value)| value.is_string()) {
                object["metadata"]["annotations"][key] = value.clone();
            }
        }
        let condition = json!({
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": rfc3339(options.now),
        });
        condition::set(&mut object["status"], condition);
        refuse_too_large(&object)?;
        let managed_fields = current.managed_fields().clone();
        self.write(&POD, &current, object, managed_fields, options)?;
        Ok(())
    }

    /// `pods/eviction`: deletes a pod as `kubectl drain` does, unless its PodDisruptionBudget
    /// refuses it (S13).
    ///
    /// # Errors
    /// 404 if there is no such pod, 409 if a precondition of the deletion does not hold, 429 if the
    /// pod's budget allows no disruption.
    pub fn evict(
        &mut self,
        namespace: &str,
        name: &str,
        eviction: &Value,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let named = text(eviction, &["metadata", "name"]);
        if !named.is_empty() && named != name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let mut deletion = DeleteOptions::parse(&eviction["deleteOptions"])?;
        let found = self.store().find_with_tree(&POD, namespace, name);
        if let Some(pod) = &found {
            check_preconditions(&POD, pod, &deletion)?;
            self.spend_budget(pod, options)?;
        }
        let running = found
            .filter(|pod| pod.text(&["status", "phase"]) == "Running" && !pod.is_terminating());
        if let Some(pod) = running {
            let mut object = pod.value().clone();
            let message = "Eviction API: evicting";
            object["status"] =
                condition::disrupted(&pod, "EvictionByEvictionAPI", message, options.now);
            let managed_fields = pod.managed_fields().clone();
            self.write(&POD, &pod, object, managed_fields, options)?;
            // The status write above changed the resourceVersion, so that precondition is dropped.
            deletion.preconditions.resource_version = None;
        }
        self.delete(&POD, namespace, name, &deletion, options)?;
        Ok(())
    }
}

fn check_binding(current: &Object, binding: &Value, node: &str) -> Result<(), Status> {
    let name = current.name();
    let kind = text(binding, &["target", "kind"]);
    if node.is_empty() || !matches!(kind, "" | "Node") {
        return Err(Status::new(
            Reason::Invalid,
            format!("Binding \"{name}\" is invalid: target.name: Required value"),
        ));
    }
    let conflict = |cause: &str| {
        Status::new(
            Reason::Conflict,
            format!("Operation cannot be fulfilled on pods/binding \"{name}\": {cause}"),
        )
    };
    let uid = text(binding, &["metadata", "uid"]);
    if !uid.is_empty() && uid != current.uid() {
        return Err(conflict(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            current.uid()
        )));
    }
    if current.is_terminating() {
        return Err(conflict(&format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        )));
    }
    if !current.node_name().is_empty() {
        return Err(conflict(&format!(
            "pod {name} is already assigned to node \"{}\"",
            current.node_name()
        )));
    }
    Ok(())
}
