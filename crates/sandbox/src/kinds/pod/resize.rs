//! Validates resizes of pods, which may change CPU and memory of containers.

use super::{resources, rules};
use crate::json::{Map, Value};
use crate::kind::Kind;
use crate::kind::rules::{Cause, Causes, Field, metadata};

const LISTS: [&str; 2] = ["containers", "initContainers"];

/// The errors that prevent the resize of the pod `old` to `new` (upstream's `ValidatePodResize`).
/// `keeps_class`: the pod stays in its QoS class.
pub(crate) fn on_resize(kind: &Kind, new: &Value, old: &Value, keeps_class: bool) -> Vec<Cause> {
    let mut causes = Causes::default();
    check(kind, &Field::root(new), &Field::root(old), keeps_class, &mut causes);
    causes.into_vec()
}

fn check(kind: &Kind, object: &Field, old: &Field, keeps_class: bool, causes: &mut Causes) {
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
    if !keeps_class {
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

/// Whether anything but CPU and memory changes. As upstream, a container with claims can't be
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
