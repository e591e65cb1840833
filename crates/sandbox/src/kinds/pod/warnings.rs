//! Warnings about discouraged but valid fields, which kubectl prints (upstream's
//! `pkg/api/pod/warnings.go`).

use std::collections::{HashMap, HashSet};

use super::resources::quantity;
use crate::json::Value;
use crate::kind::rules::{Field, go_quote};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Deprecated node labels.
const OLD_NODE_LABELS: [(&str, &str); 6] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// Deprecated annotations, by prefix.
const OLD_ANNOTATIONS: [(&str, &str); 6] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "seccomp.security.alpha.kubernetes.io/pod",
        "non-functional in v1.27+; use the \"seccompProfile\" field instead",
    ),
    (
        "container.seccomp.security.alpha.kubernetes.io/",
        "non-functional in v1.27+; use the \"seccompProfile\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "container.apparmor.security.beta.kubernetes.io/",
        "deprecated since v1.30; use the \"appArmorProfile\" field instead",
    ),
];

/// Deprecated types of volumes.
const OLD_VOLUMES: [(&str, &str); 7] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The warnings about a pod; none if its spec is that of `old`, which it replaces.
pub(super) fn of_pod(new: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| old.get("spec") == new.get("spec")) {
        return Vec::new();
    }
    all(&Field::root(new))
}

/// The warnings about a pod or a template.
pub(super) fn all(pod: &Field) -> Vec<String> {
    let mut warnings = Warnings(Vec::new());
    let (metadata, spec) = (pod.child("metadata"), pod.child("spec"));
    node_labels(&spec, &mut warnings);
    spreading(&spec, &mut warnings);
    for (key, annotation) in metadata.child("annotations").entries() {
        let is_old = |prefix: &str| {
            if prefix.ends_with('/') { key.starts_with(prefix) } else { key == prefix }
        };
        if let Some((_, message)) = OLD_ANNOTATIONS.iter().find(|(prefix, _)| is_old(prefix)) {
            warnings.add(&annotation, message);
        }
    }
    for volume in spec.child("volumes").items() {
        for (name, message) in OLD_VOLUMES {
            if volume.child(name).is_set() {
                warnings.add(&volume.child(name), message);
            }
        }
    }
    containers(&spec, &mut warnings);
    pod_affinity(&spec.child("affinity"), &mut warnings);
    let grace_period = spec.child("terminationGracePeriodSeconds");
    if grace_period.int() < 0 {
        warnings.add(
            &grace_period,
            "must be >= 0; negative values are invalid and will be treated as 1",
        );
    }
    warnings.0
}

struct Warnings(Vec<String>);

/// Maximum number of warnings about an object.
const WARNINGS_MAX: usize = 20;

impl Warnings {
    fn add(&mut self, field: &Field, message: &str) {
        if self.0.len() >= WARNINGS_MAX {
            return;
        }
        self.0.push(format!("{}: {message}", field.path()));
    }
}

fn old_label(key: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, message)| *message)
}

fn node_labels(spec: &Field, warnings: &mut Warnings) {
    for (key, entry) in spec.child("nodeSelector").entries() {
        if let Some(message) = old_label(key) {
            warnings.add(&entry, message);
        }
    }
    let affinity = spec.child("affinity");
    let node = affinity.child("nodeAffinity");
    for term in node.child(REQUIRED).child("nodeSelectorTerms").items() {
        term_labels(&term, warnings);
    }
    for preferred in node.child(PREFERRED).items() {
        term_labels(&preferred.child("preference"), warnings);
    }
}

fn term_labels(term: &Field, warnings: &mut Warnings) {
    for expression in term.child("matchExpressions").items() {
        named_label(&expression.child("key"), warnings);
    }
}

fn named_label(key: &Field, warnings: &mut Warnings) {
    if let Some(message) = old_label(key.text()) {
        warnings.add(key, &format!("{} is {message}", key.text()));
    }
}

fn spreading(spec: &Field, warnings: &mut Warnings) {
    for constraint in spec.child("topologySpreadConstraints").items() {
        named_label(&constraint.child("topologyKey"), warnings);
        selects_something(&constraint, warnings);
    }
}

fn pod_affinity(affinity: &Field, warnings: &mut Warnings) {
    for name in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.child(name);
        for term in pods.child(REQUIRED).items() {
            selects_something(&term, warnings);
        }
        for preferred in pods.child(PREFERRED).items() {
            selects_something(&preferred.child("podAffinityTerm"), warnings);
        }
    }
}

fn selects_something(term: &Field, warnings: &mut Warnings) {
    let selector = term.child("labelSelector");
    if !selector.is_set() {
        warnings.add(&selector, "a null labelSelector results in matching no pod");
    }
}

fn containers(spec: &Field, warnings: &mut Warnings) {
    let mut ports: Vec<Port> = Vec::new();
    let mut names: HashMap<String, String> = HashMap::new();
    for list in ["initContainers", "containers"] {
        for container in spec.child(list).items() {
            for amounts in ["limits", "requests"] {
                for resource in ["memory", "ephemeral-storage"] {
                    whole_bytes(
                        &container.child("resources").child(amounts).key(resource),
                        warnings,
                    );
                }
            }
            environment(&container.child("env"), warnings);
            for port in container.child("ports").items() {
                overlaps(&port, &mut ports, warnings);
                // The name of a port of an init container that ends is no trouble.
                let restarts = container.child("restartPolicy").text() == "Always";
                if list == "containers" || restarts {
                    port_name(&port, &mut names, warnings);
                }
            }
        }
    }
}

/// A name that another container's port has as well.
fn port_name(port: &Field, seen: &mut HashMap<String, String>, warnings: &mut Warnings) {
    let field = port.child("name");
    let name = field.text();
    if name.is_empty() {
        return;
    }
    match seen.get(name) {
        Some(other) => warnings.add(
            port,
            &format!(
                "duplicate port name {} with {other}, services and probes that select ports by \
                 name will use {other}",
                go_quote(name)
            ),
        ),
        None => {
            seen.insert(name.to_owned(), port.path());
        }
    }
}

fn whole_bytes(amount: &Field, warnings: &mut Warnings) {
    if let Some(quantity) = quantity(amount).filter(|quantity| quantity.milli_value() % 1000 != 0) {
        let value = go_quote(&quantity.to_string());
        warnings
            .add(amount, &format!("fractional byte value {value} is invalid, must be an integer"));
    }
}

/// A variable that is defined twice, the second time without a reference to the first.
fn environment(variables: &Field, warnings: &mut Warnings) {
    let mut seen: HashSet<String> = HashSet::new();
    for variable in variables.items() {
        let name = variable.child("name").text().to_owned();
        let refers = variable.child("value").text().contains(&format!("$({name})"));
        if seen.contains(&name) && (variable.child("valueFrom").is_set() || !refers) {
            let name = go_quote(&name);
            warnings.add(
                &variable,
                &format!(
                    "hides previous definition of {name}, which may be dropped when using apply"
                ),
            );
        }
        seen.insert(name);
    }
}

/// Maximum number of ports with which the others are compared.
const COMPARED_PORTS_MAX: usize = 1_000;

/// A port, with its path.
struct Port {
    path: String,
    container_port: i64,
    protocol: String,
    host_ip: String,
    host_port: i64,
}

fn overlaps(port: &Field, seen: &mut Vec<Port>, warnings: &mut Warnings) {
    let this = Port {
        path: port.path(),
        container_port: port.child("containerPort").int(),
        protocol: port.child("protocol").text().to_owned(),
        host_ip: port.child("hostIP").text().to_owned(),
        host_port: port.child("hostPort").int(),
    };
    let same = |other: &&Port| {
        other.container_port == this.container_port && other.protocol == this.protocol
    };
    for other in seen.iter().filter(same) {
        let how = if (this.host_port, &this.host_ip) == (other.host_port, &other.host_ip) {
            "duplicate"
        } else if this.host_port == 0 || other.host_port == 0 {
            "overlapping"
        } else if this.host_port == other.host_port
            && this.host_ip.is_empty() != other.host_ip.is_empty()
        {
            "dangerously ambiguous"
        } else {
            continue;
        };
        warnings.add(port, &format!("{how} port definition with {}", other.path));
    }
    if seen.len() < COMPARED_PORTS_MAX {
        seen.push(this);
    }
}
