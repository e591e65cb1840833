//! What is special about pods: binding, eviction, quality of service (S4, S10).

use serde_json::{Value, json};

use super::{delete, update};
use crate::clock::rfc3339;
use crate::condition;
use crate::kind::POD;
use crate::object::Object;
use crate::status::Status;
use crate::store::{DeleteOptions, Store, WriteOptions};
use crate::value::text;

/// Puts a pod on a node, once and for all.
pub fn bind(
    store: &mut Store,
    namespace: &str,
    name: &str,
    binding: &Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    let node = text(binding, &["target", "name"]);
    let Some(current) = store.find_warm(&POD, namespace, name) else {
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
    let now = rfc3339(options.now);
    condition::set(
        &mut object["status"],
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}),
    );
    update::write(store, &POD, &current, object, options)?;
    Ok(())
}

fn check_binding(current: &Object, binding: &Value, node: &str) -> Result<(), Status> {
    let name = current.name();
    let kind = text(binding, &["target", "kind"]);
    if node.is_empty() || !matches!(kind, "" | "Node") {
        return Err(Status::new(
            crate::status::Reason::Invalid,
            format!("Binding \"{name}\" is invalid: target.name: Required value"),
        ));
    }
    let conflict = |cause: &str| {
        Status::new(
            crate::status::Reason::Conflict,
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

/// Deletes a pod as `kubectl drain` asks for it. No disruption budget can refuse: the kind is not served.
pub fn evict(
    store: &mut Store,
    namespace: &str,
    name: &str,
    eviction: &Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    let said = text(eviction, &["metadata", "name"]);
    if !said.is_empty() && said != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut deletion = DeleteOptions::parse(&eviction["deleteOptions"])?;
    let running = store
        .find_warm(&POD, namespace, name)
        .filter(|pod| pod.text(&["status", "phase"]) == "Running" && !pod.is_terminating());
    if let Some(pod) = running {
        delete::check_preconditions(&POD, &pod, &deletion)?;
        let mut object = pod.value().clone();
        let message = "Eviction API: evicting";
        object["status"] =
            condition::disrupted(&pod, "EvictionByEvictionAPI", message, options.now);
        update::write(store, &POD, &pod, object, options)?;
        // What was asked of the pod as it was holds no more of the one that says so.
        deletion.preconditions.resource_version = None;
    }
    delete::delete(store, &POD, namespace, name, &deletion, options)?;
    Ok(())
}

/// `Guaranteed` if every container's requests are its limits, for cpu and memory; `BestEffort` if there are none.
pub fn qos_class(pod: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for field in ["initContainers", "containers"] {
        for container in pod["spec"][field].as_array().into_iter().flatten() {
            for resource in ["cpu", "memory"] {
                let request = quantity(&container["resources"]["requests"][resource]);
                let limit = quantity(&container["resources"]["limits"][resource]);
                any |= request.is_some() || limit.is_some();
                guaranteed &= limit.is_some() && (request.is_none() || request == limit);
            }
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// A quantity that is set and not zero.
fn quantity(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| {
        text.trim_end_matches(|character: char| character.is_ascii_alphabetic())
            .chars()
            .any(|character| matches!(character, '1'..='9'))
    })
}
