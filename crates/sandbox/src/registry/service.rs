//! Addresses of Services (S13), which clients such as Helm wait for. Nothing listens there.

use std::net::Ipv4Addr;

use everynode_core::api::Timestamp;

use super::Registry;
use crate::json::{Value, json};
use crate::kinds::SERVICE;
use crate::status::Status;
use crate::store::WriteOptions;
use crate::value::string;

/// The address of the API server's Service: the first one of 10.96.0.0/16.
const FIRST: u32 = 0x0a60_0001;
/// The number of addresses in the range, after which they are given again.
const COUNT: u32 = 0xfffe;

/// Gives a Service an address, unless it names one or has none. `current` is the object that it
/// replaces, whose address it keeps; `given` is the number of addresses that were given.
pub(super) fn complete(given: &mut u32, object: &mut Value, current: Option<&Value>) {
    if string(object, "/spec/type") == "ExternalName" {
        return;
    }
    let known = current.map_or("", |current| string(current, "/spec/clusterIP"));
    let address = match (string(object, "/spec/clusterIP"), known) {
        ("", "") => {
            *given = (*given + 1) % COUNT;
            Ipv4Addr::from(FIRST + *given).to_string()
        }
        ("", known) => known.to_owned(),
        (named, _) => named.to_owned(),
    };
    let spec = &mut object["spec"];
    spec["clusterIP"] = address.as_str().into();
    spec["clusterIPs"] = json!([address]);
    for (name, value) in [("ipFamilyPolicy", json!("SingleStack")), ("ipFamilies", json!(["IPv4"]))]
    {
        if spec.get(name).is_none_or(Value::is_null) {
            spec[name] = value;
        }
    }
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
            "clusterIP": Ipv4Addr::from(FIRST).to_string(),
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    });
    registry.create(&SERVICE, "default", service, &WriteOptions::at(now)).map(drop)
}
