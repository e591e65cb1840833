//! Addresses and node ports of Services (S13): allocated as upstream does, except that the lowest
//! free ones are taken, so that two runs agree.

mod taken;

use std::collections::HashMap;
use std::net::Ipv4Addr;

use everynode_core::api::Timestamp;

use super::Registry;
use crate::json::{Value, json};
use crate::kinds::SERVICE;
use crate::status::{Reason, Status, StatusCause};
use crate::store::WriteOptions;
use crate::value::{array, integer, string};

pub(super) use self::taken::Taken;

/// Completes a Service on its way to the store. `current` is the object that it replaces.
///
/// # Errors
/// 422 for an address or a node port that is taken or out of range, 500 if none is free.
pub(super) fn allocate(
    taken: &mut Taken,
    object: &mut Value,
    current: Option<&Value>,
) -> Result<(), Status> {
    if string(object, "/spec/type") == "ExternalName" {
        return Ok(());
    }
    let Some(current) = current else { return allocate_free(taken, object) };
    carry_over(object, current);
    // What the Service has itself, it may keep.
    taken.remove(current);
    let allocated = allocate_free(taken, object);
    taken.add(current);
    allocated
}

fn allocate_free(taken: &mut Taken, object: &mut Value) -> Result<(), Status> {
    allocate_address(taken, object)?;
    let has_node_ports = matches!(string(object, "/spec/type"), "NodePort" | "LoadBalancer")
        && object["spec"]["allocateLoadBalancerNodePorts"] != Value::Bool(false);
    if !has_node_ports {
        return Ok(());
    }
    check_node_ports(taken, object)?;
    // The ports that it names itself are not free for its others.
    let named = object.clone();
    taken.add(&named);
    let mut allocated = Vec::new();
    let result = allocate_node_ports(taken, object, &mut allocated);
    allocated.into_iter().for_each(|port| taken.node_ports.release(port));
    taken.remove(&named);
    result
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
    let before: HashMap<_, _> = array(current, "/spec/ports")
        .iter()
        .rev()
        .map(|port| ((integer(port, "/port"), string(port, "/protocol")), &port["nodePort"]))
        .collect();
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        let known = before.get(&(integer(port, "/port"), string(port, "/protocol")));
        if let (Some(known), 0) = (known, integer(port, "/nodePort"))
            && !known.is_null()
        {
            port["nodePort"] = (*known).clone();
        }
    }
}

fn allocate_address(taken: &mut Taken, object: &mut Value) -> Result<(), Status> {
    let given = string(object, "/spec/clusterIP").to_owned();
    let address = match given.as_str() {
        "None" => given,
        "" => match taken.addresses.lowest_free() {
            Some(free) => Ipv4Addr::from(free).to_string(),
            None => return Err(internal("failed to allocate a serviceIP: range is full")),
        },
        _ => {
            check_address(taken, object, &given)?;
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

fn check_address(taken: &Taken, object: &Value, given: &str) -> Result<(), Status> {
    let address = taken::address(given).filter(|address| taken.addresses.contains(*address));
    let detail = match address {
        None => {
            "failed to allocate IP GIVEN: the provided network does not match the current range"
        }
        Some(address) if taken.addresses.is_taken(address) => {
            "failed to allocate IP GIVEN: provided IP is already allocated"
        }
        Some(_) => return Ok(()),
    };
    let list = format!("[{given:?}]");
    Err(invalid_rendered(object, "spec.clusterIPs", &list, &detail.replace("GIVEN", given)))
}

fn check_node_ports(taken: &Taken, object: &Value) -> Result<(), Status> {
    for (index, port) in array(object, "/spec/ports").iter().enumerate() {
        let given = integer(port, "/nodePort");
        let number = u32::try_from(given).ok().filter(|port| taken.node_ports.contains(*port));
        let detail = match number {
            _ if given == 0 => continue,
            None => {
                "provided port is not in the valid range. The range of valid ports is 30000-32767"
            }
            Some(number) if taken.node_ports.is_taken(number) => {
                "provided port is already allocated"
            }
            Some(_) => continue,
        };
        let field = format!("spec.ports[{index}].nodePort");
        return Err(invalid_rendered(object, &field, &given.to_string(), detail));
    }
    Ok(())
}

/// Gives a node port to each port that names none. `allocated` are those that it took.
fn allocate_node_ports(
    taken: &mut Taken,
    object: &mut Value,
    allocated: &mut Vec<u32>,
) -> Result<(), Status> {
    let mut allocate = |what: &str| -> Result<Value, Status> {
        let free = taken.node_ports.lowest_free();
        let free =
            free.ok_or_else(|| internal(&format!("failed to allocate {what}: range is full")))?;
        taken.node_ports.take(free);
        allocated.push(free);
        Ok(Value::from(free))
    };
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if integer(port, "/nodePort") == 0 {
            port["nodePort"] = allocate("a nodePort")?;
        }
    }
    let is_local = string(object, "/spec/externalTrafficPolicy") == "Local";
    if is_local
        && string(object, "/spec/type") == "LoadBalancer"
        && integer(object, "/spec/healthCheckNodePort") == 0
    {
        object["spec"]["healthCheckNodePort"] = allocate("a HealthCheck NodePort 0")?;
    }
    Ok(())
}

fn internal(cause: &str) -> Status {
    Status::new(Reason::InternalError, format!("Internal error occurred: {cause}"))
}

fn invalid_rendered(object: &Value, field: &str, given: &str, detail: &str) -> Status {
    let message = format!("Invalid value: {given}: {detail}");
    let cause = StatusCause::new("FieldValueInvalid", field, message);
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
