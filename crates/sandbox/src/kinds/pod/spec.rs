//! Validates the spec of a pod or template (upstream's `ValidatePodSpec`).

use super::{affinity, container, scheduling, security, volume};
use crate::format;
use crate::kind::rules::{Causes, Field, metadata};

/// `is_pod` distinguishes a pod, whose host ports must be set already, from a template.
pub(super) fn pod_spec(spec: &Field, is_pod: bool, causes: &mut Causes) {
    let grace_period = spec.child("terminationGracePeriodSeconds");
    if !grace_period.is_set() {
        causes.required(&grace_period, "");
    }
    let volumes = volume::volumes(&spec.child("volumes"), causes);
    container::containers(spec, &volumes, causes);
    if spec.child("hostNetwork").is_true() {
        host_ports(&spec.child("containers"), is_pod, causes);
    }
    causes.required_choice(&spec.child("restartPolicy"), &["Always", "OnFailure", "Never"]);
    causes.required_choice(
        &spec.child("dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    metadata::labels(&spec.child("nodeSelector"), causes);
    security::pod_security_context(spec, causes);
    affinity::affinity(&spec.child("affinity"), causes);
    for gate in spec.child("readinessGates").items() {
        let condition_type = gate.child("conditionType");
        causes.invalid_each(&condition_type, format::label_key(condition_type.text()));
    }
    scheduling::topology_spread_constraints(&spec.child("topologySpreadConstraints"), causes);
    names(spec, causes);
    scheduling::tolerations(&spec.child("tolerations"), causes);
    other_fields(spec, causes);
}

/// The fields that contain a name.
fn names(spec: &Field, causes: &mut Causes) {
    for name in ["serviceAccountName", "nodeName"] {
        causes.optional_format(&spec.child(name), format::dns_subdomain);
    }
    let deadline = spec.child("activeDeadlineSeconds");
    if deadline.is_set() {
        causes.invalid_each(&deadline, format::in_range(deadline.int(), 1, i64::from(i32::MAX)));
    }
    for name in ["hostname", "subdomain"] {
        causes.optional_format(&spec.child(name), format::dns_label);
    }
}

fn other_fields(spec: &Field, causes: &mut Causes) {
    causes.optional_format(&spec.child("priorityClassName"), format::dns_subdomain);
    let runtime_class = spec.child("runtimeClassName");
    if runtime_class.is_set() {
        causes.invalid_each(&runtime_class, format::dns_subdomain(runtime_class.text()));
    }
    causes.optional_choice(&spec.child("preemptionPolicy"), &["PreemptLowerPriority", "Never"]);
    let os = spec.child("os");
    if os.is_set() {
        causes.required_choice(&os.child("name"), &["linux", "windows"]);
    }
}

fn host_ports(containers: &Field, is_pod: bool, causes: &mut Causes) {
    for container in containers.items() {
        for port in container.child("ports").items() {
            let (host, inner) = (port.child("hostPort"), port.child("containerPort"));
            if (is_pod || host.int() != 0) && host.int() != inner.int() {
                let value = host.int().to_string();
                causes.invalid_rendered(
                    &host,
                    value,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}
