//! Resizes of pods, which may change CPU and memory of containers.

use everynode_k8s::resources::qos_class;

use super::{resources, rules};
use crate::json::{Map, Value};
use crate::kind::Kind;
use crate::kind::rules::{Cause, Causes, Field, metadata};
use crate::kind::strategy::{Resize, bump_generation};
use crate::value::string;

const LISTS: [&str; 2] = ["containers", "initContainers"];

/// The rules of `pods/resize` (S4, S10).
pub(super) static RESIZE: Resize = Resize {
    prepare,
    check: on_resize,
    fields: &[
        &["spec", "containers", "*", "resources"],
        &["spec", "containers", "*", "resizePolicy"],
        &["spec", "initContainers", "*", "resources"],
        &["spec", "initContainers", "*", "resizePolicy"],
    ],
};

/// Restores all but resources and resize policies, and counts a change. Containers that were added,
/// removed or renamed stay, for validation to refuse. Upstream: `podResizeStrategy`.
fn prepare(object: &mut Value, current: &Value) {
    let mut spec = current["spec"].clone();
    let sent = &object["spec"];
    if !LISTS.iter().all(|list| take_list(&mut spec, sent, list)) {
        return;
    }
    copy_field(&mut spec, sent, "resources");
    object["spec"] = spec;
    for field in ["metadata", "status"] {
        copy_field(object, current, field);
    }
    if object["spec"] != current["spec"] {
        bump_generation(object, current);
    }
}

/// Takes what a resize can change; false for other containers.
fn take_list(spec: &mut Value, sent: &Value, list: &str) -> bool {
    let none = Vec::new();
    let sent = sent[list].as_array().unwrap_or(&none);
    let Some(known) = spec.get_mut(list).and_then(Value::as_array_mut) else {
        return sent.is_empty();
    };
    if sent.len() != known.len()
        || sent.iter().zip(&*known).any(|(it, was)| it["name"] != was["name"])
    {
        return false;
    }
    for (container, sent) in known.iter_mut().zip(sent) {
        copy_field(container, sent, "resources");
        copy_field(container, sent, "resizePolicy");
    }
    true
}

fn copy_field(to: &mut Value, from: &Value, field: &str) {
    let Some(fields) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => fields.insert(field, value.clone()),
        None => fields.remove(field),
    };
}

/// True if the pod stays in its QoS class.
fn keeps_class(object: &Value, current: &Value) -> bool {
    let class = match string(current, "/status/qosClass") {
        "" => qos_class(current),
        class => class,
    };
    class == qos_class(object)
}

/// The errors that prevent the resize of the pod `old` to `new` (upstream's `ValidatePodResize`).
fn on_resize(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    check(kind, &Field::root(new), &Field::root(old), &mut causes);
    causes.into_vec()
}

fn check(kind: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    let annotations = &old.value()["metadata"]["annotations"];
    let refused = if annotations.get(rules::MIRROR_ANNOTATION).is_some() {
        Some("static pods cannot be resized")
    } else if old.value()["spec"]["os"]["name"] == "windows" {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(detail) = refused {
        // Upstream forgets what it has found before.
        return causes.forbidden(&Field::root(object.value()), detail);
    }
    metadata::on_update(object, old, causes);
    rules::metadata_and_spec(kind, object, causes);
    let (spec, old_spec) = (object.child("spec"), old.child("spec"));
    if !keeps_class(object.value(), old.value()) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        causes.invalid(&spec.with_value(&old.value()["status"]["qosClass"]), detail);
    }
    if !is_supported_by_node(old.value()) {
        causes.forbidden(&spec, "Pod running on node without support for resize");
    }
    if spec.child("resources").value() != old_spec.child("resources").value() {
        let detail = "the sandbox does not resize pod-level resources";
        causes.forbidden(&spec.child("resources"), detail);
    }
    if !same_containers(&spec, &old_spec, causes) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (container, was) in spec.child(list).items().zip(old_spec.child(list).items()) {
            nothing_removed(&container.child("resources"), &was.child("resources"), causes);
        }
    }
    for (container, was) in spec.child(LISTS[0]).items().zip(old_spec.child(LISTS[0]).items()) {
        if changes_others(container.value(), was.value()) {
            causes.forbidden(&spec, "only cpu and memory resources are mutable");
        }
    }
    for (container, was) in spec.child(LISTS[1]).items().zip(old_spec.child(LISTS[1]).items()) {
        init_container(&container, &was, causes);
    }
}

/// A kubelet that can resize states the resources of running containers.
fn is_supported_by_node(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let mut running = statuses.filter(|status| !status["state"]["running"].is_null());
    running.next().is_none_or(|status| status.get("resources").is_some())
}

/// No container may be added, removed, renamed or moved.
fn same_containers(spec: &Field, old_spec: &Field, causes: &mut Causes) -> bool {
    let mut same = true;
    for list in LISTS {
        let (containers, were) = (spec.child(list), old_spec.child(list));
        if containers.len() != were.len() {
            causes.forbidden(&containers, &format!("{list} may not be added or removed on resize"));
            same = false;
            continue;
        }
        for (container, was) in containers.items().zip(were.items()) {
            if container.child("name").text() != was.child("name").text() {
                let detail = format!("{list} may not be renamed or reordered on resize");
                causes.forbidden(&container.child("name"), &detail);
                same = false;
            }
        }
    }
    same
}

fn nothing_removed(resources: &Field, were: &Field, causes: &mut Causes) {
    for (list, what) in [("requests", "requests"), ("limits", "limits")] {
        let now = resources.child(list);
        if were.child(list).entries().any(|(name, _)| !now.key(name).is_set()) {
            causes.forbidden(&now, &format!("resource {what} cannot be removed"));
        }
    }
}

fn init_container(container: &Field, was: &Field, causes: &mut Causes) {
    if changes_others(container.value(), was.value()) {
        let detail = "only cpu and memory resources for init or sidecar containers are mutable";
        causes.forbidden(container, detail);
    }
    let restarts = |policy: &Field| policy.child("restartPolicy").text() == "RestartContainer";
    let is_sidecar = container.child("restartPolicy").text() == "Always";
    if !is_sidecar
        && container.value() != was.value()
        && container.child("resizePolicy").items().any(|policy| restarts(&policy))
    {
        let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot \
                      be resized";
        causes.forbidden(container, detail);
    }
}

/// True if anything but CPU and memory changes. As upstream, a container with claims can't be
/// resized.
fn changes_others(container: &Value, was: &Value) -> bool {
    let rest = |container: &Value| {
        let fields = container.as_object().cloned().unwrap_or_default();
        fields.into_iter().filter(|(name, _)| *name != "resources").collect::<Map>()
    };
    let (resources, were) = (&container["resources"], &was["resources"]);
    rest(container) != rest(was)
        || !were["claims"].is_null()
        || ["limits", "requests"].iter().any(|list| {
            let others = |of: &Value| {
                let entries = of[*list].as_object().cloned().unwrap_or_default();
                entries
                    .into_iter()
                    .filter(|(name, _)| !resources::is_resizable(name))
                    .collect::<Map>()
            };
            others(resources) != others(were)
        })
}
