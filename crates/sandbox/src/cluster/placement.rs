//! Converts nodes and pod specs of the store to the types of the placement rules.

use everynode_core::api::{
    Labels, Node, NodeName, NodeReadiness, NodeSelectorOperator, NodeSelectorTerm, Placement,
    Taint, Timestamp, Toleration,
};
use everynode_k8s::convert::{self, taint_effect};

use crate::json::Value;
use crate::value::text;

/// Converts a node; taints with an unknown effect are left out.
pub(super) fn node(object: &Value) -> Node {
    let taints = object["spec"]["taints"].as_array().into_iter().flatten();
    Node {
        name: NodeName::new(text(object, &["metadata", "name"])),
        labels: labels(&object["metadata"]["labels"]),
        taints: taints.filter_map(taint).collect(),
        created: Timestamp(0),
        readiness: NodeReadiness::Ready,
        conditions: Box::default(),
        boot_id: "".into(),
        kubelet_version: None,
    }
}

/// The placement constraints in a pod's spec. A malformed constraint matches no node.
pub(super) fn placement(spec: &Value) -> Placement {
    convert::placement(spec, "spec").0
}

/// The only node that a pod with this spec may run on, by matchFields; `None` if there may be
/// several.
pub(super) fn pinned_node(placement: &Placement) -> Option<&str> {
    let [NodeSelectorTerm::Parsed(term)] = placement.required_node_affinity.as_deref()? else {
        return None;
    };
    term.match_fields.iter().find_map(|requirement| match &requirement.operator {
        NodeSelectorOperator::In(values) if &*requirement.key == "metadata.name" => {
            values.first().filter(|_| values.len() == 1).map(|name| &**name)
        }
        _ => None,
    })
}

fn labels(map: &Value) -> Labels {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

/// Converts a taint; `None` if its effect is unknown.
pub(super) fn taint(value: &Value) -> Option<Taint> {
    Some(Taint {
        key: text(value, &["key"]).into(),
        value: text(value, &["value"]).into(),
        effect: taint_effect(text(value, &["effect"]))?,
    })
}

/// Converts a toleration; `None` if its operator or effect is unknown.
pub(super) fn toleration(value: &Value) -> Option<Toleration> {
    convert::toleration(value).ok()
}
