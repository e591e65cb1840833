//! Validates containers: regular, init and ephemeral ones.

use std::collections::HashSet;

use crate::json::{SmolStr, Value};

use super::{environment, probe, resources, security};
use crate::format;
use crate::kind::rules::{Causes, Field, go_quote};

/// Maximum number of containers in each list of a pod spec. The API has no limit, but the work of a
/// kubelet grows with the square of their number.
const CONTAINERS_MAX: usize = 250;

/// All containers of a pod spec.
pub(super) fn containers(spec: &Field, volumes: &HashSet<String>, causes: &mut Causes) {
    let regular = spec.child("containers");
    let mut names: HashSet<String> = HashSet::new();
    if regular.is_empty() {
        causes.required(&regular, "");
    } else {
        regular_containers(spec, &regular, volumes, &mut names, causes);
    }
    for container in spec.child("initContainers").items() {
        init_container(spec, &container, volumes, &mut names, causes);
    }
    for container in spec.child("ephemeralContainers").items() {
        common(&container, volumes, causes);
        unique_name(&container, &mut names, causes);
    }
    for name in ["containers", "initContainers", "ephemeralContainers"] {
        let list = spec.child(name);
        if list.len() > CONTAINERS_MAX {
            let detail = format!("the sandbox supports at most {CONTAINERS_MAX} containers");
            causes.forbidden(&list, &detail);
        }
    }
}

fn regular_containers(
    spec: &Field,
    regular: &Field,
    volumes: &HashSet<String>,
    names: &mut HashSet<String>,
    causes: &mut Causes,
) {
    let grace_period = spec.child("terminationGracePeriodSeconds");
    for container in regular.items() {
        common(&container, volumes, causes);
        unique_name(&container, names, causes);
        probe::lifecycle(&container.child("lifecycle"), &grace_period, causes);
        probe::probes(&container, &grace_period, causes);
        let restart_policy = container.child("restartPolicy");
        if restart_policy.is_set() {
            causes.required_choice(&restart_policy, &["Always", "OnFailure", "Never"]);
        }
    }
    unique_host_ports(regular, causes);
}

fn init_container(
    spec: &Field,
    container: &Field,
    volumes: &HashSet<String>,
    names: &mut HashSet<String>,
    causes: &mut Causes,
) {
    common(container, volumes, causes);
    let restart_policy = container.child("restartPolicy");
    if restart_policy.is_set() {
        causes.required_choice(&restart_policy, &["Always", "OnFailure", "Never"]);
    }
    unique_name(container, names, causes);
    let is_sidecar = restart_policy.text() == "Always";
    if is_sidecar {
        let grace_period = spec.child("terminationGracePeriodSeconds");
        probe::lifecycle(&container.child("lifecycle"), &grace_period, causes);
        probe::probes(container, &grace_period, causes);
    } else {
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let field = container.child(name);
            if field.is_set() {
                causes.forbidden(
                    &field,
                    "may not be set for init containers without restartPolicy=Always",
                );
            }
        }
    }
}

fn unique_name(container: &Field, names: &mut HashSet<String>, causes: &mut Causes) {
    let name = container.child("name");
    if !name.text().is_empty() && !names.insert(name.text().to_owned()) {
        causes.duplicate(&name);
    }
}

/// The rules of every container.
fn common(container: &Field, volumes: &HashSet<String>, causes: &mut Causes) {
    causes.required_format(&container.child("name"), format::dns_label);
    causes.required_text(&container.child("image"));
    causes.required_choice(
        &container.child("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    ports(&container.child("ports"), causes);
    environment::env(&container.child("env"), causes);
    environment::env_from(&container.child("envFrom"), causes);
    volume_mounts(container, volumes, causes);
    causes
        .required_choice(&container.child("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    resources::requirements(&container.child("resources"), causes);
    resize_policies(&container.child("resizePolicy"), causes);
    security::security_context(&container.child("securityContext"), causes);
}

fn ports(ports: &Field, causes: &mut Causes) {
    let mut names: HashSet<String> = HashSet::new();
    for port in ports.items() {
        let name = port.child("name");
        if !name.text().is_empty() {
            let wrong = format::port_name(name.text());
            if !wrong.is_empty() {
                causes.invalid_each(&name, wrong);
            } else if !names.insert(name.text().to_owned()) {
                causes.duplicate(&name);
            }
        }
        let inner = port.child("containerPort");
        if inner.int() == 0 {
            causes.required(&inner, "");
        } else {
            causes.invalid_each(&inner, format::port_number(inner.int()));
        }
        let host = port.child("hostPort");
        if host.int() != 0 {
            causes.invalid_each(&host, format::port_number(host.int()));
        }
        causes.required_choice(&port.child("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

/// No two regular containers can use the same port of the host.
fn unique_host_ports(containers: &Field, causes: &mut Causes) {
    let mut seen: HashSet<String> = HashSet::new();
    for container in containers.items() {
        for port in container.child("ports").items() {
            let host = port.child("hostPort");
            if host.int() == 0 {
                continue;
            }
            let (protocol, ip) = (port.child("protocol"), port.child("hostIP"));
            let identity = format!("{}/{}/{}", protocol.text(), ip.text(), host.int());
            if !seen.insert(identity.clone()) {
                causes.duplicate_rendered(&host, go_quote(&identity), "");
            }
        }
    }
}

fn volume_mounts(container: &Field, volumes: &HashSet<String>, causes: &mut Causes) {
    let mounts = container.child("volumeMounts");
    let mut paths: HashSet<String> = HashSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.child("name"), mount.child("mountPath"));
        causes.required_text(&name);
        if !volumes.contains(name.text()) {
            causes.not_found(&text_of(&name), "");
        }
        causes.required_text(&path);
        if !paths.insert(path.text().to_owned()) {
            causes.invalid(&path, "must be unique");
        }
        mount_options(container, &mounts, &mount, causes);
    }
}

/// The field, with an empty string instead of an absent value.
fn text_of<'a>(field: &'a Field<'a>) -> Field<'a> {
    static EMPTY: Value = Value::String(SmolStr::new_static(""));
    if field.is_set() { *field } else { field.with_value(&EMPTY) }
}

/// Upstream reports these fields without the index of the mount.
fn mount_options(container: &Field, mounts: &Field, mount: &Field, causes: &mut Causes) {
    let at_mounts = mounts.with_value(mount.value());
    let sub_path = at_mounts.child("subPath");
    causes.invalid_each(&sub_path, format::descending_path(sub_path.text()));
    let expression = mount.child("subPathExpr");
    if !expression.text().is_empty() {
        if !sub_path.text().is_empty() {
            causes.invalid(&expression, "subPathExpr and subPath are mutually exclusive");
        }
        let path = at_mounts.child("subPathExpr");
        causes.invalid_each(&path, format::descending_path(path.text()));
    }
    let propagation = at_mounts.child("mountPropagation");
    causes.optional_choice(&propagation, &["Bidirectional", "HostToContainer", "None"]);
    let privileged = container.child("securityContext").child("privileged").is_true();
    if propagation.text() == "Bidirectional" && !privileged {
        causes.forbidden(
            &propagation,
            "Bidirectional mount propagation is available only to privileged containers",
        );
    }
}

fn resize_policies(policies: &Field, causes: &mut Causes) {
    for policy in policies.items() {
        let (resource, restart) = (policy.child("resourceName"), policy.child("restartPolicy"));
        causes.required_choice(&policies.with_value(resource.value()), &["cpu", "memory"]);
        causes.required_choice(
            &policies.with_value(restart.value()),
            &["NotRequired", "RestartContainer"],
        );
    }
}
