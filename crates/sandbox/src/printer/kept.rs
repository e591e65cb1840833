//! Tables of the kinds that are kept (S13), as data: the columns, and where the cells come from.

use everynode_core::api::Timestamp;
use serde_json::{Value, json};

use super::daemon_set::{labels, selector};
use super::{AGE, Column, NAME, age, name, or_none};
use crate::kind::Kind;
use crate::value::{array, boolean, integer, is_set, string, string_map};

/// The table of a kind.
pub(super) struct Table {
    group: &'static str,
    kind: &'static str,
    pub columns: &'static [Column],
    cells: &'static [Cell],
}

/// Where a cell comes from. Paths are JSON pointers.
enum Cell {
    Name,
    Age,
    /// A text, or another one if it is empty.
    Text(&'static str, &'static str),
    Integer(&'static str),
    Boolean(&'static str),
    /// The number of elements of a list.
    Count(&'static str),
    /// The keys and values of a map.
    Labels(&'static str),
    /// `spec.selector`, with expressions.
    Selector,
    /// A field of all containers of the template at `spec.template`.
    Containers(&'static str),
    /// A field of all containers of the template of a CronJob.
    JobContainers(&'static str),
    /// What depends on several fields.
    Special(fn(&Value) -> Value),
}

const fn text(title: &'static str) -> Column {
    Column::new(title, "")
}

const fn number(title: &'static str) -> Column {
    Column::new(title, "").integer()
}

const fn wide(title: &'static str) -> Column {
    Column::new(title, "").wide()
}

const REPLICAS: &[Column] = &[
    NAME,
    number("Desired"),
    number("Current"),
    number("Ready"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

static TABLES: &[Table] = &[
    Table {
        group: "",
        kind: "Service",
        columns: &[
            NAME,
            text("Type"),
            text("Cluster-IP"),
            text("External-IP"),
            text("Port(s)"),
            AGE,
            wide("Selector"),
        ],
        cells: &[
            Cell::Name,
            Cell::Text("/spec/type", ""),
            Cell::Text("/spec/clusterIP", "<none>"),
            Cell::Special(external_ip),
            Cell::Special(service_ports),
            Cell::Age,
            Cell::Labels("/spec/selector"),
        ],
    },
    Table {
        group: "",
        kind: "PersistentVolume",
        columns: &[
            NAME,
            text("Capacity"),
            text("Access Modes"),
            text("Reclaim Policy"),
            text("Status"),
            text("Claim"),
            text("StorageClass"),
            text("VolumeAttributesClass"),
            text("Reason"),
            AGE,
            wide("VolumeMode"),
        ],
        cells: &[
            Cell::Name,
            Cell::Text("/spec/capacity/storage", ""),
            Cell::Special(access_modes),
            Cell::Text("/spec/persistentVolumeReclaimPolicy", ""),
            Cell::Text("/status/phase", ""),
            Cell::Special(claim),
            Cell::Text("/spec/storageClassName", ""),
            Cell::Text("/spec/volumeAttributesClassName", "<unset>"),
            Cell::Text("/status/reason", ""),
            Cell::Age,
            Cell::Text("/spec/volumeMode", "<unset>"),
        ],
    },
    Table {
        group: "",
        kind: "PersistentVolumeClaim",
        columns: &[
            NAME,
            text("Status"),
            text("Volume"),
            text("Capacity"),
            text("Access Modes"),
            text("StorageClass"),
            text("VolumeAttributesClass"),
            AGE,
            wide("VolumeMode"),
        ],
        cells: &[
            Cell::Name,
            Cell::Text("/status/phase", ""),
            Cell::Text("/spec/volumeName", ""),
            Cell::Text("/status/capacity/storage", ""),
            // Only a bound claim has modes here.
            Cell::Text("/status/accessModes/0", ""),
            Cell::Text("/spec/storageClassName", ""),
            Cell::Text("/spec/volumeAttributesClassName", "<unset>"),
            Cell::Age,
            Cell::Text("/spec/volumeMode", "<unset>"),
        ],
    },
    Table {
        group: "",
        kind: "ReplicationController",
        columns: REPLICAS,
        cells: &[
            Cell::Name,
            Cell::Integer("/spec/replicas"),
            Cell::Integer("/status/replicas"),
            Cell::Integer("/status/readyReplicas"),
            Cell::Age,
            Cell::Containers("/name"),
            Cell::Containers("/image"),
            Cell::Labels("/spec/selector"),
        ],
    },
    Table {
        group: "apps",
        kind: "ReplicaSet",
        columns: REPLICAS,
        cells: &[
            Cell::Name,
            Cell::Integer("/spec/replicas"),
            Cell::Integer("/status/replicas"),
            Cell::Integer("/status/readyReplicas"),
            Cell::Age,
            Cell::Containers("/name"),
            Cell::Containers("/image"),
            Cell::Selector,
        ],
    },
    Table {
        group: "apps",
        kind: "Deployment",
        columns: &[
            NAME,
            text("Ready"),
            text("Up-to-date"),
            text("Available"),
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ],
        cells: &[
            Cell::Name,
            Cell::Special(ready),
            Cell::Integer("/status/updatedReplicas"),
            Cell::Integer("/status/availableReplicas"),
            Cell::Age,
            Cell::Containers("/name"),
            Cell::Containers("/image"),
            Cell::Selector,
        ],
    },
    Table {
        group: "apps",
        kind: "StatefulSet",
        columns: &[NAME, text("Ready"), AGE, wide("Containers"), wide("Images")],
        cells: &[
            Cell::Name,
            Cell::Special(ready),
            Cell::Age,
            Cell::Containers("/name"),
            Cell::Containers("/image"),
        ],
    },
    Table {
        group: "batch",
        kind: "Job",
        columns: &[
            NAME,
            text("Status"),
            text("Completions"),
            text("Duration"),
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ],
        cells: &[
            Cell::Name,
            Cell::Special(job_status),
            Cell::Special(completions),
            Cell::Text("", ""),
            Cell::Age,
            Cell::Containers("/name"),
            Cell::Containers("/image"),
            Cell::Selector,
        ],
    },
    Table {
        group: "batch",
        kind: "CronJob",
        columns: &[
            NAME,
            text("Schedule"),
            text("Timezone"),
            text("Suspend"),
            number("Active"),
            text("Last Schedule"),
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ],
        cells: &[
            Cell::Name,
            Cell::Text("/spec/schedule", ""),
            Cell::Text("/spec/timeZone", "<none>"),
            Cell::Special(suspended),
            Cell::Count("/status/active"),
            Cell::Text("/status/lastScheduleTime", "<none>"),
            Cell::Age,
            Cell::JobContainers("/name"),
            Cell::JobContainers("/image"),
            Cell::Text("", "<none>"),
        ],
    },
    Table {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        columns: &[
            NAME,
            text("Reference"),
            text("Targets"),
            text("MinPods"),
            text("MaxPods"),
            text("Replicas"),
            AGE,
        ],
        cells: &[
            Cell::Name,
            Cell::Special(scale_target),
            Cell::Text("", "<unknown>"),
            Cell::Integer("/spec/minReplicas"),
            Cell::Integer("/spec/maxReplicas"),
            Cell::Integer("/status/currentReplicas"),
            Cell::Age,
        ],
    },
    Table {
        group: "networking.k8s.io",
        kind: "Ingress",
        columns: &[NAME, text("Class"), text("Hosts"), text("Address"), text("Ports"), AGE],
        cells: &[
            Cell::Name,
            Cell::Text("/spec/ingressClassName", "<none>"),
            Cell::Special(hosts),
            Cell::Text("", ""),
            Cell::Special(|object| {
                if array(object, "/spec/tls").is_empty() { "80" } else { "80, 443" }.into()
            }),
            Cell::Age,
        ],
    },
    Table {
        group: "networking.k8s.io",
        kind: "IngressClass",
        columns: &[NAME, text("Controller"), text("Parameters"), AGE],
        cells: &[
            Cell::Name,
            Cell::Text("/spec/controller", ""),
            Cell::Text("/spec/parameters/name", "<none>"),
            Cell::Age,
        ],
    },
    Table {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        columns: &[NAME, text("Pod-Selector"), AGE],
        cells: &[Cell::Name, Cell::Labels("/spec/podSelector/matchLabels"), Cell::Age],
    },
    Table {
        group: "policy",
        kind: "PodDisruptionBudget",
        columns: &[
            NAME,
            text("Min Available"),
            text("Max Unavailable"),
            number("Allowed Disruptions"),
            AGE,
        ],
        cells: &[
            Cell::Name,
            Cell::Special(|object| amount(object, "/spec/minAvailable")),
            Cell::Special(|object| amount(object, "/spec/maxUnavailable")),
            Cell::Integer("/status/disruptionsAllowed"),
            Cell::Age,
        ],
    },
    Table {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        columns: &[NAME, number("Value"), text("Global-Default"), AGE, text("PreemptionPolicy")],
        cells: &[
            Cell::Name,
            Cell::Integer("/value"),
            Cell::Boolean("/globalDefault"),
            Cell::Age,
            Cell::Text("/preemptionPolicy", ""),
        ],
    },
    Table {
        group: "storage.k8s.io",
        kind: "StorageClass",
        columns: &[
            NAME,
            text("Provisioner"),
            text("ReclaimPolicy"),
            text("VolumeBindingMode"),
            text("AllowVolumeExpansion"),
            AGE,
        ],
        cells: &[
            Cell::Special(storage_class_name),
            Cell::Text("/provisioner", ""),
            Cell::Text("/reclaimPolicy", "Delete"),
            Cell::Text("/volumeBindingMode", "Immediate"),
            Cell::Boolean("/allowVolumeExpansion"),
            Cell::Age,
        ],
    },
    Table {
        group: "storage.k8s.io",
        kind: "CSIDriver",
        columns: &[
            NAME,
            text("AttachRequired"),
            text("PodInfoOnMount"),
            text("StorageCapacity"),
            text("TokenRequests"),
            text("RequiresRepublish"),
            text("Modes"),
            AGE,
        ],
        cells: &[
            Cell::Name,
            Cell::Boolean("/spec/attachRequired"),
            Cell::Boolean("/spec/podInfoOnMount"),
            Cell::Boolean("/spec/storageCapacity"),
            Cell::Special(|object| joined(object, "/spec/tokenRequests", "/audience", "<unset>")),
            Cell::Boolean("/spec/requiresRepublish"),
            Cell::Special(|object| joined(object, "/spec/volumeLifecycleModes", "", "<none>")),
            Cell::Age,
        ],
    },
    Table {
        group: "storage.k8s.io",
        kind: "CSINode",
        columns: &[NAME, number("Drivers"), AGE],
        cells: &[Cell::Name, Cell::Count("/spec/drivers"), Cell::Age],
    },
    Table {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingWebhookConfiguration",
        columns: &[NAME, number("Webhooks"), AGE],
        cells: &[Cell::Name, Cell::Count("/webhooks"), Cell::Age],
    },
    Table {
        group: "admissionregistration.k8s.io",
        kind: "MutatingWebhookConfiguration",
        columns: &[NAME, number("Webhooks"), AGE],
        cells: &[Cell::Name, Cell::Count("/webhooks"), Cell::Age],
    },
    Table {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        columns: &[NAME, text("Created At")],
        cells: &[Cell::Name, Cell::Text("/metadata/creationTimestamp", "")],
    },
    Table {
        group: "apiregistration.k8s.io",
        kind: "APIService",
        columns: &[NAME, text("Service"), text("Available"), AGE],
        cells: &[
            Cell::Name,
            Cell::Special(api_service_target),
            Cell::Text("", "Unknown"),
            Cell::Age,
        ],
    },
    Table {
        group: "node.k8s.io",
        kind: "RuntimeClass",
        columns: &[NAME, text("Handler"), AGE],
        cells: &[Cell::Name, Cell::Text("/handler", ""), Cell::Age],
    },
];

pub(super) fn table_of(kind: &Kind) -> Option<&'static Table> {
    TABLES.iter().find(|table| (table.group, table.kind) == (kind.group, kind.kind))
}

impl Table {
    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.cells.iter().map(|cell| cell.of(object, now)).collect()
    }
}

impl Cell {
    fn of(&self, object: &Value, now: Timestamp) -> Value {
        let or = |text: &str, other: &str| if text.is_empty() { other } else { text }.into();
        let containers = |path: &str, field: &str| joined(object, path, field, "");
        match self {
            Self::Name => name(object).into(),
            Self::Age => age(object, now).into(),
            Self::Text("", other) => (*other).into(),
            Self::Text(path, other) => or(string(object, path), other),
            Self::Integer(path) => json!(integer(object, path)),
            Self::Boolean(path) => boolean(object, path).into(),
            Self::Count(path) => json!(array(object, path).len()),
            Self::Labels(path) => or_none(&labels(object, path)).into(),
            Self::Selector => or_none(&selector(object)).into(),
            Self::Containers(field) => containers("/spec/template/spec/containers", field),
            Self::JobContainers(field) => {
                containers("/spec/jobTemplate/spec/template/spec/containers", field)
            }
            Self::Special(cell) => cell(object),
        }
    }
}

/// A field of each element of a list, or the elements themselves.
fn joined(object: &Value, path: &str, field: &str, otherwise: &str) -> Value {
    let items = array(object, path).iter();
    let texts: Vec<&str> = items
        .map(
            |item| if field.is_empty() { item.as_str().unwrap_or("") } else { string(item, field) },
        )
        .collect();
    if texts.is_empty() { otherwise.into() } else { texts.join(",").into() }
}

fn ready(object: &Value) -> Value {
    let (ready, wanted) =
        (integer(object, "/status/readyReplicas"), integer(object, "/spec/replicas"));
    format!("{ready}/{wanted}").into()
}

fn external_ip(object: &Value) -> Value {
    let own = joined(object, "/spec/externalIPs", "", "");
    match (string(object, "/spec/type"), own.as_str().unwrap_or("")) {
        ("ExternalName", _) => string(object, "/spec/externalName").into(),
        ("LoadBalancer", "") => joined(object, "/status/loadBalancer/ingress", "/ip", "<pending>"),
        (_, "") => "<none>".into(),
        _ => own,
    }
}

fn service_ports(object: &Value) -> Value {
    let ports: Vec<String> = array(object, "/spec/ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (integer(port, "/port"), string(port, "/protocol"));
            match integer(port, "/nodePort") {
                0 => format!("{number}/{protocol}"),
                node_port => format!("{number}:{node_port}/{protocol}"),
            }
        })
        .collect();
    or_none(&ports.join(",")).into()
}

fn access_modes(object: &Value) -> Value {
    let modes = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = array(object, "/spec/accessModes");
    let short = modes.iter().filter(|(mode, _)| given.iter().any(|given| given == mode));
    short.map(|(_, short)| *short).collect::<Vec<_>>().join(",").into()
}

fn claim(object: &Value) -> Value {
    if !is_set(object, "/spec/claimRef") {
        return "".into();
    }
    let part = |field: &str| string(object, &format!("/spec/claimRef/{field}"));
    format!("{}/{}", part("namespace"), part("name")).into()
}

fn job_status(object: &Value) -> Value {
    if boolean(object, "/spec/suspend") { "Suspended" } else { "Running" }.into()
}

fn completions(object: &Value) -> Value {
    let done = integer(object, "/status/succeeded");
    if is_set(object, "/spec/completions") {
        format!("{done}/{}", integer(object, "/spec/completions")).into()
    } else {
        match integer(object, "/spec/parallelism") {
            parallel if parallel > 1 => format!("{done}/1 of {parallel}").into(),
            _ => format!("{done}/1").into(),
        }
    }
}

fn suspended(object: &Value) -> Value {
    if boolean(object, "/spec/suspend") { "True" } else { "False" }.into()
}

fn scale_target(object: &Value) -> Value {
    let part = |field: &str| string(object, &format!("/spec/scaleTargetRef/{field}"));
    format!("{}/{}", part("kind"), part("name")).into()
}

fn hosts(object: &Value) -> Value {
    let rules = array(object, "/spec/rules").iter();
    let hosts: Vec<&str> =
        rules.map(|rule| string(rule, "/host")).filter(|host| !host.is_empty()).collect();
    match hosts.as_slice() {
        [] => "*".into(),
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first},{second},{third} + {} more...", rest.len()).into()
        }
        all => all.join(",").into(),
    }
}

fn amount(object: &Value, path: &str) -> Value {
    match object.pointer(path) {
        None | Some(Value::Null) => "N/A".into(),
        Some(Value::String(text)) => text.as_str().into(),
        Some(other) => other.to_string().into(),
    }
}

fn storage_class_name(object: &Value) -> Value {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    let annotations = string_map(object, "/metadata/annotations");
    let is_default = annotations.contains(&(DEFAULT, "true"));
    if is_default { format!("{} (default)", name(object)).into() } else { name(object).into() }
}

fn api_service_target(object: &Value) -> Value {
    if !is_set(object, "/spec/service") {
        return "Local".into();
    }
    let part = |field: &str| string(object, &format!("/spec/service/{field}"));
    format!("{}/{}", part("namespace"), part("name")).into()
}
