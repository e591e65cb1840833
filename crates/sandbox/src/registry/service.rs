//! Addresses and node ports of Services (S13): allocated as upstream does, except that the lowest
//! free ones are taken, so that two runs agree.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use everynode_core::api::Timestamp;
use serde_json::{Value, json};

use super::Registry;
use crate::kind::SERVICE;
use crate::status::{Status, StatusCause};
use crate::store::{Store, WriteOptions};
use crate::value::{array, integer, string};

/// The first and the last address for Services: 10.96.0.0/16 without its network and broadcast
/// addresses.
const ADDRESSES: (u32, u32) = (0x0a60_0001, 0x0a60_fffe);
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// Completes a Service on its way to the store. `current` is the object that it replaces.
///
/// # Errors
/// 422 for an address or a node port that is taken or out of range.
pub(super) fn allocate(
    store: &Store,
    object: &mut Value,
    current: Option<&Value>,
) -> Result<(), Status> {
    if string(object, "/spec/type") == "ExternalName" {
        return Ok(());
    }
    if let Some(current) = current {
        carry_over(object, current);
    }
    let others = Others::of(store, object);
    allocate_address(&others, object)?;
    if matches!(string(object, "/spec/type"), "NodePort" | "LoadBalancer") {
        allocate_node_ports(&others, object)?;
    }
    Ok(())
}

/// What other Services have.
#[derive(Default)]
struct Others {
    addresses: BTreeSet<String>,
    node_ports: BTreeSet<i64>,
}

impl Others {
    fn of(store: &Store, object: &Value) -> Self {
        let (namespace, name) =
            (string(object, "/metadata/namespace"), string(object, "/metadata/name"));
        let mut others = Self::default();
        for other in store.iter(&SERVICE, None) {
            if (other.namespace(), other.name()) == (namespace, name) {
                continue;
            }
            let other = other.read();
            others.addresses.insert(string(&other, "/spec/clusterIP").to_owned());
            let ports = array(&other, "/spec/ports").iter();
            others.node_ports.extend(ports.map(|port| integer(port, "/nodePort")));
            others.node_ports.insert(integer(&other, "/spec/healthCheckNodePort"));
        }
        others
    }
}

/// An update that names no address and no node ports keeps those that the Service has.
fn carry_over(object: &mut Value, current: &Value) {
    for field in ["clusterIP", "clusterIPs"] {
        if object["spec"].get(field).is_none_or(Value::is_null)
            && let Some(value) = current["spec"].get(field)
        {
            object["spec"][field] = value.clone();
        }
    }
    let before = array(current, "/spec/ports");
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        let is_same =
            |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        let known = before.iter().find(is_same).and_then(|other| other.get("nodePort"));
        if let (Some(known), true) = (known, integer(port, "/nodePort") == 0) {
            port["nodePort"] = known.clone();
        }
    }
}

fn allocate_address(others: &Others, object: &mut Value) -> Result<(), Status> {
    let given = string(object, "/spec/clusterIP").to_owned();
    let address = match given.as_str() {
        "None" => given,
        "" => {
            let free = |address: &String| !others.addresses.contains(address);
            let mut all = (ADDRESSES.0..=ADDRESSES.1).map(|bits| Ipv4Addr::from(bits).to_string());
            all.find(free).ok_or_else(|| {
                invalid(object, "spec.clusterIP", "", "failed to allocate IP: range is full")
            })?
        }
        _ => {
            check_address(others, object, &given)?;
            given
        }
    };
    let is_headless = address == "None";
    let has_selector = object["spec"].get("selector").is_some_and(|selector| !selector.is_null());
    object["spec"]["clusterIP"] = address.as_str().into();
    object["spec"]["clusterIPs"] = json!([address]);
    if object["spec"].get("ipFamilyPolicy").is_none_or(Value::is_null) {
        let any = is_headless && !has_selector;
        object["spec"]["ipFamilyPolicy"] =
            if any { "RequireDualStack" } else { "SingleStack" }.into();
        if object["spec"].get("ipFamilies").is_none_or(Value::is_null) {
            object["spec"]["ipFamilies"] =
                if any { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
        }
    }
    if object["spec"].get("ipFamilies").is_none_or(Value::is_null) {
        object["spec"]["ipFamilies"] = json!(["IPv4"]);
    }
    Ok(())
}

fn check_address(others: &Others, object: &Value, given: &str) -> Result<(), Status> {
    let in_range = given
        .parse::<Ipv4Addr>()
        .is_ok_and(|address| (ADDRESSES.0..=ADDRESSES.1).contains(&u32::from(address)));
    let detail = if !in_range {
        "failed to allocate IP GIVEN: the provided network does not match the current range"
    } else if others.addresses.contains(given) {
        "failed to allocate IP GIVEN: provided IP is already allocated"
    } else {
        return Ok(());
    };
    let list = format!("[{given:?}]");
    Err(invalid_rendered(object, "spec.clusterIPs", &list, &detail.replace("GIVEN", given)))
}

fn allocate_node_ports(others: &Others, object: &mut Value) -> Result<(), Status> {
    if object["spec"]["allocateLoadBalancerNodePorts"] == Value::Bool(false) {
        return Ok(());
    }
    let ports = array(object, "/spec/ports");
    let mut taken: BTreeSet<i64> = ports.iter().map(|port| integer(port, "/nodePort")).collect();
    for (index, port) in ports.iter().enumerate() {
        let given = integer(port, "/nodePort");
        let detail = match given {
            0 => continue,
            _ if !NODE_PORTS.contains(&given) => {
                "provided port is not in the valid range. The range of valid ports is 30000-32767"
            }
            _ if others.node_ports.contains(&given) => "provided port is already allocated",
            _ => continue,
        };
        let field = format!("spec.ports[{index}].nodePort");
        return Err(invalid_rendered(object, &field, &given.to_string(), detail));
    }
    taken.extend(&others.node_ports);
    let mut free = NODE_PORTS.filter(|number| !taken.contains(number));
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if integer(port, "/nodePort") == 0 {
            port["nodePort"] = free.next().into();
        }
    }
    let is_local = string(object, "/spec/externalTrafficPolicy") == "Local";
    if is_local
        && string(object, "/spec/type") == "LoadBalancer"
        && integer(object, "/spec/healthCheckNodePort") == 0
    {
        object["spec"]["healthCheckNodePort"] = free.next().into();
    }
    Ok(())
}

fn invalid(object: &Value, field: &str, given: &str, detail: &str) -> Status {
    invalid_rendered(object, field, &format!("{given:?}"), detail)
}

fn invalid_rendered(object: &Value, field: &str, given: &str, detail: &str) -> Status {
    let cause = StatusCause {
        reason: "FieldValueInvalid".to_owned(),
        field: field.to_owned(),
        message: format!("Invalid value: {given}: {detail}"),
    };
    Status::invalid(&SERVICE, string(object, "/metadata/name"), vec![cause])
}

/// Creates the Service of the API server, which every cluster has.
///
/// # Errors
/// The registry refuses it.
pub(crate) fn seed(registry: &mut Registry, now: Timestamp) -> Result<(), Status> {
    let service = json!({
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    });
    registry.create(&SERVICE, "default", service, &WriteOptions::at(now)).map(drop)
}
