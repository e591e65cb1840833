//! Validates the spec of a pod or template (upstream's `ValidatePodSpec`).

use std::collections::HashSet;

use crate::json::Value;

use super::{affinity, container, resources, scheduling, security, volume};
use crate::format;
use crate::kind::rules::{Causes, Field, metadata};

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_BYTES_MAX: usize = 2048;

/// `is_pod` distinguishes a pod, whose host ports must be set already, from a template.
pub(super) fn pod_spec(spec: &Field, is_pod: bool, causes: &mut Causes) {
    let grace_period = spec.child("terminationGracePeriodSeconds");
    if !grace_period.is_set() {
        causes.required(&grace_period, "");
    }
    let volumes = volume::volumes(&spec.child("volumes"), causes);
    resource_claims(&spec.child("resourceClaims"), causes);
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
    dns_config(&spec.child("dnsConfig"), spec.child("dnsPolicy").text(), causes);
    for gate in spec.child("readinessGates").items() {
        let condition_type = gate.child("conditionType");
        causes.invalid_each(&condition_type, format::label_key(condition_type.text()));
    }
    scheduling_gates(&spec.child("schedulingGates"), causes);
    scheduling::topology_spread_constraints(&spec.child("topologySpreadConstraints"), causes);
    host_users(spec, causes);
    names(spec, causes);
    scheduling::tolerations(&spec.child("tolerations"), causes);
    host_aliases(&spec.child("hostAliases"), causes);
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
    let overhead = spec.child("overhead");
    if overhead.is_set() {
        let as_limits = crate::json::json!({"limits": overhead.value()});
        resources::requirements(
            &overhead.with_value(&as_limits),
            &spec.child("resourceClaims"),
            causes,
        );
    }
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

fn dns_config(config: &Field, policy: &str, causes: &mut Causes) {
    let (nameservers, searches) = (config.child("nameservers"), config.child("searches"));
    if policy == "None" && !config.is_set() {
        return causes.required(config, "must provide `dnsConfig` when `dnsPolicy` is None");
    }
    if policy == "None" && nameservers.is_empty() {
        return causes.required(
            &nameservers,
            "must provide at least one DNS nameserver when `dnsPolicy` is None",
        );
    }
    if nameservers.len() > NAMESERVERS_MAX {
        causes.invalid(
            &nameservers,
            &format!("must not have more than {NAMESERVERS_MAX} nameservers"),
        );
    }
    for nameserver in nameservers.items() {
        causes.invalid_each(&nameserver, format::ip(nameserver.text()));
    }
    if searches.len() > SEARCHES_MAX {
        causes.invalid(&searches, &format!("must not have more than {SEARCHES_MAX} search paths"));
    }
    let joined =
        searches.items().map(|search| search.text().len() + 1).sum::<usize>().saturating_sub(1);
    if joined > SEARCH_BYTES_MAX {
        let detail = format!(
            "must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the \
             search list"
        );
        causes.invalid(&searches, &detail);
    }
    for search in searches.items() {
        let domain = search.text().strip_suffix('.').unwrap_or(search.text());
        causes.text_format(&search, domain, dns_search);
    }
    for option in config.child("options").items() {
        if option.child("name").text().is_empty() {
            causes.required(&option, "must not be empty");
        }
    }
}

/// A search domain: a subdomain that may contain underscores, or the root.
fn dns_search(domain: &str) -> Vec<String> {
    if domain.is_empty() { Vec::new() } else { format::dns_subdomain(&domain.replace('_', "a")) }
}

fn scheduling_gates(gates: &Field, causes: &mut Causes) {
    let mut seen: HashSet<String> = HashSet::new();
    for gate in gates.items() {
        let name = gate.value().get("name").unwrap_or(&Value::Null);
        let named = gate.with_value(name);
        causes.invalid_each(&named, format::label_key(named.text()));
        if !seen.insert(name.to_string()) {
            causes.duplicate(&named);
        }
    }
}

fn resource_claims(claims: &Field, causes: &mut Causes) {
    let mut seen: HashSet<String> = HashSet::new();
    for claim in claims.items() {
        let name = claim.child("name");
        if name.text().is_empty() {
            causes.required(&name, "");
        } else if !seen.insert(name.text().to_owned()) {
            causes.duplicate(&name);
        } else {
            causes.invalid_each(&name, format::dns_label(name.text()));
        }
        let sources = [claim.child("resourceClaimName"), claim.child("resourceClaimTemplateName")];
        match sources.each_ref().map(Field::is_set) {
            [true, true] => causes.invalid(
                &claim,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be \
                 specified",
            ),
            [false, false] => {
                causes.invalid(
                    &claim,
                    "must specify one of: `resourceClaimName`, \
                    `resourceClaimTemplateName`",
                );
            }
            _ => {}
        }
        for source in sources.iter().filter(|source| source.is_set()) {
            causes.invalid_each(source, format::dns_subdomain(source.text()));
        }
    }
}

/// A pod with its own user namespace can't share the other namespaces of the host.
fn host_users(spec: &Field, causes: &mut Causes) {
    if spec.child("hostUsers").value() != &Value::Bool(false) {
        return;
    }
    for (name, path) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if spec.child(name).is_true() {
            causes.forbidden(&spec.child(path), "when `pod.Spec.HostUsers` is false");
        }
    }
}

fn host_aliases(aliases: &Field, causes: &mut Causes) {
    for alias in aliases.items() {
        let ip = alias.child("ip");
        causes.text_format(&ip, ip.text(), format::ip);
        for hostname in alias.child("hostnames").items() {
            causes.invalid_each(&hostname, format::dns_subdomain(hostname.text()));
        }
    }
}
