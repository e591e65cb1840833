//! The initial nodes (S20): generated, or read from the node list of a real cluster.
//!
//! Pure: the caller reads the file.

use std::collections::BTreeSet;

use everynode_core::api::Timestamp;

use crate::clock::rfc3339;
use crate::condition;
use crate::json::{Map, Value, json};
use crate::schema::kubernetes_version;
use everynode_k8s::quantity::Quantity;

/// Maximum number of nodes: each has its own range of pod addresses.
pub const NODES_MAX: u32 = 40_000;
/// The key of an autoscaler's taint on a node that it is about to remove.
pub const SCALE_DOWN_TAINT: &str = "ToBeDeletedByClusterAutoscaler";
/// Maximum number of zones.
pub const ZONES_MAX: u32 = 1_000;

/// An error in the options or the list of the initial nodes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// No nodes are requested.
    #[error("--nodes 0: a cluster needs at least one node")]
    NoNodes,
    /// More than [`NODES_MAX`] nodes are requested.
    #[error("--nodes {0}: at most {NODES_MAX} nodes are simulated")]
    TooManyNodes(u32),
    /// The number of zones is 0 or more than [`ZONES_MAX`].
    #[error("--zones {0}: must be between 1 and {ZONES_MAX}")]
    Zones(u32),
    /// The list is neither YAML nor JSON.
    #[error("the list of nodes is neither YAML nor JSON: {0}")]
    Syntax(String),
    /// The list contains no node.
    #[error("the list of nodes holds no node")]
    Empty,
    /// A document is neither a node nor a list of nodes.
    #[error("document {document}: expected a Node or a List of Nodes, found {found}")]
    Kind {
        /// The number of the document, starting at 1.
        document: usize,
        /// A description of its content.
        found: String,
    },
    /// A node has no name.
    #[error("item {item} has no metadata.name")]
    MissingName {
        /// The number of the node, starting at 1.
        item: usize,
    },
    /// A node is listed twice.
    #[error("node {node} is listed twice")]
    Duplicate {
        /// The name of the node.
        node: String,
    },
    /// A field of a node is invalid.
    #[error("node {node}: {field}: {problem}")]
    Field {
        /// The name of the node.
        node: String,
        /// The path of the field.
        field: String,
        /// The error in the field.
        problem: String,
    },
}

/// Generates `count` nodes named `node-0001` and so on, spread over `zones` zones in turn.
///
/// # Errors
///
/// The number of nodes or zones is out of range.
pub fn generate(count: u32, zones: u32) -> Result<Vec<Value>, Error> {
    match (count, zones) {
        (0, _) => Err(Error::NoNodes),
        (1..=NODES_MAX, 1..=ZONES_MAX) => {
            Ok((0..count).map(|index| generated_node(index, index % zones)).collect())
        }
        (1..=NODES_MAX, _) => Err(Error::Zones(zones)),
        _ => Err(Error::TooManyNodes(count)),
    }
}

/// The name of a generated node: `node-0001` is the first.
pub fn generated_name(number: u32) -> String {
    format!("node-{number:04}")
}

/// A new node with the labels, taints and capacity of another.
pub fn successor(node: &Value, name: &str) -> Value {
    let mut new = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": node["metadata"]["labels"].clone()},
        "spec": {},
        "status": {
            "capacity": node["status"]["capacity"].clone(),
            "allocatable": node["status"]["allocatable"].clone(),
        },
    });
    if let Some(labels) = new["metadata"]["labels"].as_object_mut() {
        labels.remove("kubernetes.io/hostname");
    }
    let is_own = |key: &str| is_condition_taint(key) || key == SCALE_DOWN_TAINT;
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let stays = |taint: &&Value| !is_own(taint["key"].as_str().unwrap_or_default());
    set_taints(&mut new, taints.filter(stays).cloned().collect());
    new
}

/// Replaces the taints of a node.
pub fn set_taints(node: &mut Value, taints: Vec<Value>) {
    if taints.is_empty() {
        object(node, "spec").remove("taints");
    } else {
        node["spec"]["taints"] = taints.into();
    }
}

fn generated_node(index: u32, zone: u32) -> Value {
    let name = generated_name(index + 1);
    let zone = format!("zone-{}", base26(zone));
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "topology.kubernetes.io/region": "sandbox",
                "topology.kubernetes.io/zone": zone,
                "node.kubernetes.io/instance-type": "sandbox.4x16",
            },
        },
        "spec": { "providerID": format!("everynode://{zone}/{name}") },
        "status": {},
    });
    complete(&mut node, index);
    node
}

/// `a` … `z`, `aa`, `ab` …
fn base26(mut index: u32) -> String {
    let mut reversed = Vec::new();
    loop {
        reversed.push(char::from(b'a' + u8::try_from(index % 26).expect("below 26")));
        if index < 26 {
            return reversed.into_iter().rev().collect();
        }
        index = index / 26 - 1;
    }
}

/// Adds what a kubelet reports, where it is absent: labels, capacity, addresses and versions. The
/// addresses depend on `index`.
pub fn complete(node: &mut Value, index: u32) {
    let name = name_of(node).to_owned();
    complete_metadata(object(node, "metadata"), &name);
    complete_spec(object(node, "spec"), index);
    complete_status(object(node, "status"), &name, index);
}

/// The address of a node without addresses.
pub fn default_address(index: u32) -> String {
    let host = index + 2;
    format!("172.{}.{}.{}", 16 + (host >> 16), (host >> 8) & 255, host & 255)
}

/// The first three bytes of a node's pod network: each node has its own /24.
pub fn default_pod_network(index: u32) -> String {
    format!("10.{}.{}.", 64 + (index >> 8) % 192, index & 255)
}

/// A node's name; empty if it has none.
pub fn name_of(node: &Value) -> &str {
    node["metadata"]["name"].as_str().unwrap_or_default()
}

/// The object in a field, created if it is absent.
fn object<'a>(parent: &'a mut Value, field: &str) -> &'a mut Map {
    let value = &mut parent[field];
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}

fn default_to(parent: &mut Map, field: &str, value: impl FnOnce() -> Value) {
    if parent.get(field).is_none_or(Value::is_null) {
        parent.insert(field.to_owned(), value());
    }
}

fn complete_metadata(metadata: &mut Map, name: &str) {
    default_to(metadata, "labels", || json!({}));
    default_to(metadata, "annotations", || json!({}));
    if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
        for (key, value) in [
            ("kubernetes.io/hostname", name),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", "amd64"),
        ] {
            default_to(labels, key, || json!(value));
        }
    }
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        default_to(annotations, "node.alpha.kubernetes.io/ttl", || json!("0"));
        default_to(annotations, "volumes.kubernetes.io/controller-managed-attach-detach", || {
            json!("true")
        });
    }
}

fn complete_spec(spec: &mut Map, index: u32) {
    let cidr = format!("{}0/24", default_pod_network(index));
    default_to(spec, "podCIDR", || json!(cidr));
    let cidr = spec["podCIDR"].clone();
    default_to(spec, "podCIDRs", || json!([cidr]));
}

fn complete_status(status: &mut Map, name: &str, index: u32) {
    default_to(status, "capacity", default_capacity);
    default_to(status, "allocatable", default_allocatable);
    default_to(status, "addresses", || {
        json!([
            {"type": "InternalIP", "address": default_address(index)},
            {"type": "Hostname", "address": name},
        ])
    });
    default_to(status, "daemonEndpoints", || json!({"kubeletEndpoint": {"Port": 10250}}));
    default_to(status, "nodeInfo", || default_node_info(index));
}

fn default_capacity() -> Value {
    json!({
        "cpu": "4", "memory": "16393244Ki", "ephemeral-storage": "101430960Ki",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": "110",
    })
}

/// The capacity without the default reservations of a kubelet: 100 Mi of memory and a tenth of the
/// disk.
fn default_allocatable() -> Value {
    json!({
        "cpu": "4", "memory": "16290844Ki", "ephemeral-storage": "93478772582",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": "110",
    })
}

fn default_node_info(index: u32) -> Value {
    let uuid = format!("00000000-0000-4000-8000-{index:012x}");
    json!({
        "machineID": uuid.replace('-', ""),
        "systemUUID": uuid,
        "bootID": uuid,
        "kernelVersion": "6.12.0-sandbox",
        "osImage": "everynode sandbox",
        "containerRuntimeVersion": "containerd://2.2.0",
        "kubeletVersion": kubernetes_version(),
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    })
}

/// Sets the conditions that a healthy kubelet reports. Conditions that have these values already
/// keep their times.
pub fn set_healthy(node: &mut Value, now: Timestamp) {
    let healthy = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let time = rfc3339(now);
    let old = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions: Vec<Value> = old
        .iter()
        .filter(|c| healthy.iter().all(|(kind, ..)| c["type"] != *kind))
        .cloned()
        .collect();
    for (kind, status, reason, message) in healthy {
        let same = old.iter().find(|c| c["type"] == kind && c["status"] == status);
        conditions.push(same.cloned().unwrap_or_else(|| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": time, "lastTransitionTime": time,
            })
        }));
    }
    node["status"]["conditions"] = conditions.into();
}

/// Sets the condition of a kubelet that has noticed the shutdown of its machine.
pub fn set_shutting_down(node: &mut Value, now: Timestamp) {
    let time = rfc3339(now);
    let ready = json!({
        "type": "Ready", "status": "False", "reason": "KubeletNotReady",
        "message": "node is shutting down",
        "lastHeartbeatTime": time, "lastTransitionTime": time,
    });
    condition::set(&mut node["status"], ready);
}

/// True if the status of a condition is Unknown, because the kubelet stopped reporting.
pub fn has_unknown_condition(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["status"] == "Unknown")
}

/// Updates the heartbeat time of the kubelet's conditions.
pub fn set_heartbeat(node: &mut Value, now: Timestamp) {
    let time = rfc3339(now);
    for condition in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
        if matches!(
            condition["type"].as_str(),
            Some("Ready" | "MemoryPressure" | "DiskPressure" | "PIDPressure")
        ) {
            condition["lastHeartbeatTime"] = json!(time);
        }
    }
}

/// Reads the output of `kubectl get nodes -o yaml` (or `-o json`).
///
/// Keeps names, labels, annotations, taints, capacity, allocatable, addresses and versions. Drops
/// the metadata of the other cluster's API server (uid, managedFields …), images and volumes, and
/// the conditions with their taints, because all nodes start healthy.
///
/// # Errors
///
/// The list is malformed, or a node is invalid or listed twice.
pub fn parse(text: &str) -> Result<Vec<Value>, Error> {
    let mut nodes = Vec::new();
    for (index, document) in documents(text)?.into_iter().enumerate() {
        collect(document, index + 1, &mut nodes)?;
    }
    if nodes.is_empty() {
        return Err(Error::Empty);
    }
    let mut names = BTreeSet::new();
    for (index, node) in (0u32..).zip(&mut nodes) {
        normalize(node, index)?;
        if !names.insert(name_of(node).to_owned()) {
            return Err(Error::Duplicate { node: name_of(node).to_owned() });
        }
    }
    Ok(nodes)
}

fn documents(text: &str) -> Result<Vec<Value>, Error> {
    if text.trim_start().starts_with('{') {
        serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|error| Error::Syntax(error.to_string()))
    } else {
        // The file is the user's own, so there is no limit on its size.
        let options = serde_saphyr::options! { budget: None };
        serde_saphyr::from_multiple_with_options(text, options)
            .map_err(|error| Error::Syntax(error.to_string().replace('\n', " ")))
    }
}

fn collect(document: Value, number: usize, nodes: &mut Vec<Value>) -> Result<(), Error> {
    let unexpected = |found: &str| Error::Kind { document: number, found: found.to_owned() };
    let Value::Object(mut fields) = document else {
        return if document.is_null() { Ok(()) } else { Err(unexpected("no object")) };
    };
    match fields.get("kind").and_then(Value::as_str) {
        Some(kind @ ("List" | "NodeList")) => {
            // An API server does not repeat the kind in the items of its lists.
            let is_typed = kind == "NodeList";
            let Some(Value::Array(items)) = fields.remove("items") else {
                return Err(unexpected("a List without items"));
            };
            items.into_iter().try_for_each(|mut item| {
                if let Some(fields) = item.as_object_mut().filter(|_| is_typed) {
                    default_to(fields, "apiVersion", || json!("v1"));
                    default_to(fields, "kind", || json!("Node"));
                }
                collect(item, number, nodes)
            })
        }
        Some("Node") => {
            nodes.push(Value::Object(fields));
            Ok(())
        }
        Some(kind) => Err(unexpected(&format!("kind {kind}"))),
        None => Err(unexpected("no kind")),
    }
}

/// Converts a listed node to the form of a generated one.
fn normalize(node: &mut Value, index: u32) -> Result<(), Error> {
    let name = match node["metadata"]["name"].as_str() {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => return Err(Error::MissingName { item: index as usize + 1 }),
    };
    check(node).map_err(|(field, problem)| Error::Field { node: name, field, problem })?;
    retain(object(node, "metadata"), &["name", "labels", "annotations"]);
    retain(object(node, "spec"), &["podCIDR", "podCIDRs", "providerID", "taints", "unschedulable"]);
    retain(
        object(node, "status"),
        &["capacity", "allocatable", "addresses", "daemonEndpoints", "nodeInfo"],
    );
    if let Some(Value::Array(taints)) = node["spec"].get_mut("taints") {
        taints.retain(|taint| !is_condition_taint(taint["key"].as_str().unwrap_or_default()));
    }
    node["apiVersion"] = json!("v1");
    complete(node, index);
    Ok(())
}

fn retain(fields: &mut Map, kept: &[&str]) {
    fields.retain(|field, value| kept.contains(&field.as_str()) && !value.is_null());
}

/// True if the node lifecycle controller manages taints with this key.
pub fn is_condition_taint(key: &str) -> bool {
    matches!(
        key,
        "node.kubernetes.io/not-ready"
            | "node.kubernetes.io/unreachable"
            | "node.kubernetes.io/memory-pressure"
            | "node.kubernetes.io/disk-pressure"
            | "node.kubernetes.io/pid-pressure"
            | "node.kubernetes.io/network-unavailable"
            | "node.kubernetes.io/unschedulable"
    )
}

type Problem = (String, String);

fn problem(field: impl Into<String>, problem: impl Into<String>) -> Problem {
    (field.into(), problem.into())
}

fn check(node: &Value) -> Result<(), Problem> {
    for field in ["labels", "annotations"] {
        check_strings(&node["metadata"][field], &format!("metadata.{field}"))?;
    }
    for field in ["capacity", "allocatable"] {
        check_quantities(&node["status"][field], &format!("status.{field}"))?;
    }
    check_taints(&node["spec"]["taints"])
}

fn check_strings(value: &Value, field: &str) -> Result<(), Problem> {
    match value {
        Value::Null => Ok(()),
        Value::Object(entries) => match entries.iter().find(|(_, value)| !value.is_string()) {
            Some((key, value)) => {
                Err(problem(format!("{field}[{key}]"), format!("{value} is not a string")))
            }
            None => Ok(()),
        },
        _ => Err(problem(field, "is not a map of strings")),
    }
}

fn check_quantities(value: &Value, field: &str) -> Result<(), Problem> {
    let entries = match value {
        Value::Null => return Ok(()),
        Value::Object(entries) => entries,
        _ => return Err(problem(field, "is not a map of quantities")),
    };
    for (resource, value) in entries {
        if Quantity::of_json(value).is_err() {
            return Err(problem(
                format!("{field}.{resource}"),
                format!("{value} is not a quantity"),
            ));
        }
    }
    Ok(())
}

fn check_taints(taints: &Value) -> Result<(), Problem> {
    let taints = match taints {
        Value::Null => return Ok(()),
        Value::Array(taints) => taints,
        _ => return Err(problem("spec.taints", "is not a list")),
    };
    for (index, taint) in taints.iter().enumerate() {
        if taint["key"].as_str().unwrap_or_default().is_empty() {
            return Err(problem(format!("spec.taints[{index}].key"), "is missing"));
        }
        if !matches!(
            taint["effect"].as_str(),
            Some("NoSchedule" | "PreferNoSchedule" | "NoExecute")
        ) {
            return Err(problem(
                format!("spec.taints[{index}].effect"),
                format!("{} is not a taint effect", taint["effect"]),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S20: generated nodes have the labels, capacity and addresses of real nodes.
    #[test]
    fn generated_nodes_look_like_real_ones() {
        let nodes = generate(5, 3).unwrap();
        let names: Vec<&str> = nodes.iter().map(name_of).collect();
        assert_eq!(names, ["node-0001", "node-0002", "node-0003", "node-0004", "node-0005"]);
        let zones: Vec<&Value> =
            nodes.iter().map(|n| &n["metadata"]["labels"]["topology.kubernetes.io/zone"]).collect();
        assert_eq!(zones, ["zone-a", "zone-b", "zone-c", "zone-a", "zone-b"]);
        let node = &nodes[1];
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "node-0002");
        assert_eq!(node["status"]["allocatable"]["pods"], "110");
        assert_eq!(node["spec"]["podCIDR"], "10.64.1.0/24");
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], kubernetes_version());
    }

    /// S20: no two of many nodes have the same address range.
    #[test]
    fn ten_thousand_nodes_have_distinct_address_ranges() {
        let nodes = generate(10_000, 26).unwrap();
        let ranges: BTreeSet<&str> =
            nodes.iter().filter_map(|node| node["spec"]["podCIDR"].as_str()).collect();
        assert_eq!(ranges.len(), 10_000);
        assert_eq!(name_of(&nodes[9_999]), "node-10000");
    }

    /// S20: impossible numbers are refused, and the error names the option.
    #[test]
    fn impossible_numbers_are_refused() {
        assert_eq!(generate(0, 1), Err(Error::NoNodes));
        assert_eq!(generate(1, 0), Err(Error::Zones(0)));
        assert_eq!(generate(1, ZONES_MAX + 1), Err(Error::Zones(ZONES_MAX + 1)));
        assert_eq!(generate(2, ZONES_MAX).map(|nodes| nodes.len()), Ok(2));
        assert_eq!(generate(NODES_MAX + 1, 1), Err(Error::TooManyNodes(NODES_MAX + 1)));
        assert_eq!((base26(25), base26(26), base26(701)), ("z".into(), "aa".into(), "zz".into()));
    }

    const LISTED: &str = "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: worker-1
    uid: 5e1c5e9c-0000-0000-0000-000000000000
    resourceVersion: '12345'
    creationTimestamp: '2025-01-01T00:00:00Z'
    managedFields: [{manager: kubelet}]
    labels: {kubernetes.io/hostname: worker-1, gpu: 'true'}
  spec:
    taints:
    - {key: dedicated, value: gpu, effect: NoSchedule}
    - {key: node.kubernetes.io/not-ready, effect: NoExecute}
  status:
    allocatable: {cpu: 3920m, memory: 7Gi, pods: '29', nvidia.com/gpu: '2'}
    capacity: {cpu: '4', memory: 8Gi, pods: '29', nvidia.com/gpu: '2'}
    conditions: [{type: Ready, status: 'False'}]
    images: [{names: [a, b]}]
";

    /// S20: a node of a real cluster keeps its taints, labels and allocatable, and loses the
    /// metadata of its server.
    #[test]
    fn a_listed_node_keeps_its_properties_and_loses_its_server_metadata() {
        let nodes = parse(LISTED).unwrap();
        let node = &nodes[0];
        assert_eq!(node["metadata"]["labels"]["gpu"], "true");
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
        assert_eq!(
            node["spec"]["taints"],
            json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}])
        );
        assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "2");
        for field in ["uid", "resourceVersion", "managedFields", "creationTimestamp"] {
            assert!(node["metadata"].get(field).is_none(), "{field}");
        }
        assert!(node["status"].get("images").is_none());
        assert!(node["status"].get("conditions").is_none());
    }

    /// S20: JSON, single nodes and several documents are read as well.
    #[test]
    fn json_and_single_documents_are_read() {
        let json = r#"{"kind":"Node","metadata":{"name":"a"}}"#;
        assert_eq!(name_of(&parse(json).unwrap()[0]), "a");
        let typed = r#"{"kind":"NodeList","items":[{"metadata":{"name":"a"}}]}"#;
        assert_eq!(parse(typed).unwrap()[0]["kind"], "Node");
        let yaml = "kind: Node\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: b}\n";
        assert_eq!(parse(yaml).unwrap().len(), 2);
    }

    /// S20: an error names the node and the field.
    #[test]
    fn errors_name_node_and_field() {
        for (text, expected) in [
            ("kind: List\nitems: []", "the list of nodes holds no node"),
            ("kind: Pod", "document 1: expected a Node or a List of Nodes, found kind Pod"),
            ("just a string", "document 1: expected a Node or a List of Nodes, found no object"),
            ("kind: Node", "item 1 has no metadata.name"),
            (
                "kind: List\nitems: [{kind: Node, metadata: {name: a}}, {kind: Node, metadata: \
                 {name: a}}]",
                "node a is listed twice",
            ),
            (
                "kind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: many}}",
                "node a: status.allocatable.cpu: \"many\" is not a quantity",
            ),
            (
                "kind: Node\nmetadata: {name: a, labels: {x: 1}}",
                "node a: metadata.labels[x]: 1 is not a string",
            ),
            (
                "kind: Node\nmetadata: {name: a}\nspec: {taints: [{key: k, effect: Never}]}",
                "node a: spec.taints[0].effect: \"Never\" is not a taint effect",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected);
        }
        let error = parse("{\"kind\": ").unwrap_err();
        assert!(matches!(error, Error::Syntax(_)), "{error}");
    }
}
