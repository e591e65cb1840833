//! Cells that depend on several fields.

use crate::json::Value;

use super::joined;
use crate::printer::{name, or_none};
use crate::value::{array, boolean, integer, is_set, string, string_map};

pub(super) fn ready(object: &Value) -> Value {
    let (ready, wanted) =
        (integer(object, "/status/readyReplicas"), integer(object, "/spec/replicas"));
    format!("{ready}/{wanted}").into()
}

pub(super) fn external_ip(object: &Value) -> Value {
    let own = joined(object, "/spec/externalIPs", "", "");
    match (string(object, "/spec/type"), own.as_str().unwrap_or("")) {
        ("ExternalName", _) => string(object, "/spec/externalName").into(),
        ("LoadBalancer", "") => joined(object, "/status/loadBalancer/ingress", "/ip", "<pending>"),
        (_, "") => "<none>".into(),
        _ => own,
    }
}

pub(super) fn service_ports(object: &Value) -> Value {
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

pub(super) fn access_modes(object: &Value) -> Value {
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

pub(super) fn claim(object: &Value) -> Value {
    if !is_set(object, "/spec/claimRef") {
        return "".into();
    }
    let part = |field: &str| string(object, &format!("/spec/claimRef/{field}"));
    format!("{}/{}", part("namespace"), part("name")).into()
}

pub(super) fn job_status(object: &Value) -> Value {
    if boolean(object, "/spec/suspend") { "Suspended" } else { "Running" }.into()
}

pub(super) fn completions(object: &Value) -> Value {
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

pub(super) fn suspended(object: &Value) -> Value {
    if boolean(object, "/spec/suspend") { "True" } else { "False" }.into()
}

pub(super) fn scale_target(object: &Value) -> Value {
    let part = |field: &str| string(object, &format!("/spec/scaleTargetRef/{field}"));
    format!("{}/{}", part("kind"), part("name")).into()
}

pub(super) fn hosts(object: &Value) -> Value {
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

pub(super) fn amount(object: &Value, path: &str) -> Value {
    match object.pointer(path) {
        None | Some(Value::Null) => "N/A".into(),
        Some(Value::String(text)) => text.as_str().into(),
        Some(other) => other.to_string().into(),
    }
}

pub(super) fn storage_class_name(object: &Value) -> Value {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    let annotations = string_map(object, "/metadata/annotations");
    let is_default = annotations.contains(&(DEFAULT, "true"));
    if is_default { format!("{} (default)", name(object)).into() } else { name(object).into() }
}

pub(super) fn api_service_target(object: &Value) -> Value {
    if !is_set(object, "/spec/service") {
        return "Local".into();
    }
    let part = |field: &str| string(object, &format!("/spec/service/{field}"));
    format!("{}/{}", part("namespace"), part("name")).into()
}
