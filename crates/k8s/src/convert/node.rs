//! Nodes: name, labels, taints, and what their conditions say.

use std::sync::Arc;

use bytes::Bytes;
use everynode_core::api::{KubeletVersion, Node, NodeReadiness, Taint, TaintEffect, Timestamp};
use prost::Message;
use serde::Deserialize;

use super::wire::{Condition, Metadata, Text, Time, text};
use super::{Error, Interner};
use crate::{go_json, protobuf};

#[derive(Deserialize)]
struct WireNode<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Option<WireSpec<'a>>,
    #[serde(borrow)]
    status: Option<WireStatus<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus<'a> {
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow)]
    node_info: Option<WireSystemInfo<'a>>,
}

#[derive(Deserialize)]
struct WireSystemInfo<'a> {
    #[serde(borrow, rename = "bootID")]
    boot_id: Option<Text<'a>>,
    #[serde(borrow, rename = "kubeletVersion")]
    kubelet_version: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
struct WireSpec<'a> {
    #[serde(borrow)]
    taints: Option<Vec<WireTaint<'a>>>,
}

#[derive(Deserialize)]
struct WireTaint<'a> {
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    value: Option<Text<'a>>,
    #[serde(borrow)]
    effect: Option<Text<'a>>,
}

/// Decodes a Node. Taints with an unknown effect are left out.
///
/// # Errors
/// If a field has a wrong type, or the name is missing.
pub fn node(json: &[u8], interner: &mut Interner) -> Result<Node, Error> {
    let text_of_json = go_json::text(json);
    let wire: WireNode =
        serde_json::from_str(&text_of_json).map_err(|e| Error::new("Node", json, e))?;
    wire.convert(interner).map_err(|e| Error::new("Node", json, e))
}

/// The same of a Node's protobuf message.
///
/// # Errors
/// If the message is malformed, or the name is missing.
pub fn node_of_protobuf(message: &Bytes, interner: &mut Interner) -> Result<Node, Error> {
    let node = protobuf::Node::decode(message.clone())
        .map_err(|e| Error::of_protobuf("Node", message, e))?;
    let wire = WireNode::from(&node);
    wire.convert(interner).map_err(|e| Error::of_protobuf("Node", message, e))
}

impl<'a> From<&'a protobuf::Node> for WireNode<'a> {
    fn from(message: &'a protobuf::Node) -> Self {
        let spec = message.spec.as_ref();
        let taints = spec.map(|spec| spec.taints.iter().map(Into::into).collect());
        Self {
            metadata: message.metadata.as_ref().map(Into::into).unwrap_or_default(),
            spec: Some(WireSpec { taints }),
            status: message.status.as_ref().map(|status| WireStatus {
                conditions: Some(status.conditions.iter().map(Into::into).collect()),
                node_info: status.node_info.as_ref().map(|info| WireSystemInfo {
                    boot_id: Text::of_field(&info.boot_id),
                    kubelet_version: Text::of_field(&info.kubelet_version),
                }),
            }),
        }
    }
}

impl<'a> From<&'a protobuf::Taint> for WireTaint<'a> {
    fn from(message: &'a protobuf::Taint) -> Self {
        Self {
            key: Text::of_field(&message.key),
            value: Text::of_field(&message.value),
            effect: Text::of_field(&message.effect),
        }
    }
}

impl WireNode<'_> {
    fn convert(self, interner: &mut Interner) -> Result<Node, &'static str> {
        let taints = self.spec.unwrap_or_default().taints.unwrap_or_default();
        let status = self.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let info = status.node_info;
        let (boot_id, kubelet_version) =
            info.map(|info| (info.boot_id, info.kubelet_version)).unwrap_or_default();
        Ok(Node {
            name: interner.text(self.metadata.name()?).into(),
            labels: self.metadata.labels(interner),
            taints: taints.iter().filter_map(|taint| taint.convert(interner)).collect(),
            created: self
                .metadata
                .creation_timestamp
                .as_ref()
                .and_then(Time::timestamp)
                .unwrap_or(Timestamp(i64::MIN)),
            readiness: conditions.iter().find_map(readiness).unwrap_or_default(),
            conditions: conditions.iter().filter_map(|it| true_condition(it, interner)).collect(),
            // Each boot of each machine has its own.
            boot_id: text(boot_id.as_ref()).into(),
            kubelet_version: KubeletVersion::parse(text(kubelet_version.as_ref())),
        })
    }
}

/// The readiness that this condition states, if it is the one of that. Without a valid time it has
/// always been so.
fn readiness(condition: &Condition<'_>) -> Option<NodeReadiness> {
    if text(condition.kind.as_ref()) != "Ready" {
        return None;
    }
    let since = condition.last_transition_time.as_ref().and_then(Time::timestamp);
    let since = since.unwrap_or(Timestamp(i64::MIN));
    Some(match text(condition.status.as_ref()) {
        "True" => NodeReadiness::Ready,
        "Unknown" => NodeReadiness::Unreachable { since },
        _ => NodeReadiness::NotReady { since },
    })
}

/// The type of a condition that is true, and not `Ready`.
fn true_condition(condition: &Condition<'_>, interner: &mut Interner) -> Option<Arc<str>> {
    let kind = text(condition.kind.as_ref());
    let is_true = text(condition.status.as_ref()) == "True";
    (is_true && kind != "Ready").then(|| interner.text(kind))
}

impl WireTaint<'_> {
    /// `None` for an unknown effect, which cannot be evaluated.
    fn convert(&self, interner: &mut Interner) -> Option<Taint> {
        Some(Taint {
            key: interner.text(text(self.key.as_ref())),
            value: interner.text(text(self.value.as_ref())),
            effect: taint_effect(text(self.effect.as_ref()))?,
        })
    }
}

/// The effect of a taint by its name; `None` if it is unknown.
pub fn taint_effect(effect: &str) -> Option<TaintEffect> {
    match effect {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_core::api::Labels;

    /// G13: a node states since when it is not ready.
    #[test]
    fn a_node_states_since_when_it_is_not_ready() {
        let since = |conditions: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"n"}},"status":{{"conditions":[{conditions}]}}}}"#
            );
            node(json.as_bytes(), &mut Interner::default()).unwrap().not_ready_since()
        };
        let ready = |status: &str| {
            let time = "1970-01-01T00:01:00Z";
            format!(r#"{{"type":"Ready","status":"{status}","lastTransitionTime":"{time}"}}"#)
        };
        let other = r#"{"type":"DiskPressure","status":"False"}"#;
        assert_eq!(since(&ready("True")), None);
        assert_eq!(since(other), None);
        assert_eq!(since(""), None);
        for status in ["False", "Unknown"] {
            let conditions = format!("{other},{}", ready(status));
            assert_eq!(since(&conditions), Some(Timestamp::from_seconds(60)));
        }
        assert_eq!(since(r#"{"type":"Ready","status":"False"}"#), Some(Timestamp(i64::MIN)));
    }

    /// G33: a node states when it was created, and which conditions but `Ready` are true.
    #[test]
    fn a_node_states_its_age_and_its_other_conditions() {
        let json = r#"{"metadata":{"name":"n","creationTimestamp":"1970-01-01T00:01:00Z"},
            "status":{"conditions":[{"type":"Ready","status":"True"},
            {"type":"DrainInProgress","status":"True"},{"type":"DiskPressure","status":"False"}]}}"#;
        let node = node(json.as_bytes(), &mut Interner::default()).unwrap();
        assert_eq!(node.created, Timestamp::from_seconds(60));
        assert_eq!(*node.conditions, ["DrainInProgress".into()]);
    }

    /// C24: a node states which boot of its machine it is, as JSON and as protobuf.
    #[test]
    fn a_node_states_its_boot_id() {
        let json = br#"{"metadata":{"name":"n"},"status":{"nodeInfo":{"bootID":"b1"}}}"#;
        assert_eq!(&*node(json, &mut Interner::default()).unwrap().boot_id, "b1");
        let node_info = Some(protobuf::NodeSystemInfo {
            boot_id: "b2".into(),
            kubelet_version: "v1.36.2".into(),
        });
        let message = protobuf::Node {
            metadata: Some(protobuf::ObjectMeta { name: "n".into(), ..Default::default() }),
            status: Some(protobuf::NodeStatus { conditions: Vec::new(), node_info }),
            ..protobuf::Node::default()
        };
        let message = message.encode_to_vec().into();
        let node = node_of_protobuf(&message, &mut Interner::default()).unwrap();
        assert_eq!(&*node.boot_id, "b2");
    }

    /// C3, C16: only what decisions read of a node is kept, so a heartbeat changes nothing.
    #[test]
    fn a_heartbeat_changes_nothing() {
        let node_at = |time: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"n1","resourceVersion":"7","labels":{{"a":"b"}}}},
                "spec":{{"podCIDR":"10.0.0.0/24","taints":[
                    {{"key":"k","effect":"NoExecute","timeAdded":"{time}"}},
                    {{"key":"x","effect":"NeverHeard"}}]}},
                "status":{{"conditions":[{{"lastHeartbeatTime":"{time}"}}]}}}}"#
            );
            node(json.as_bytes(), &mut Interner::default()).unwrap()
        };
        let node = node_at("2026-01-01T00:00:00Z");
        assert_eq!(node, node_at("2026-01-01T00:00:10Z"));
        assert_eq!(node.labels, Labels::from_iter([("a", "b")]));
        let taint = Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoExecute };
        assert_eq!(node.taints, [taint]);
    }

    /// C4: a malformed node is an error that states the cause.
    #[test]
    fn a_node_without_a_name_is_an_error() {
        let error = node(br#"{"metadata":{}}"#, &mut Interner::default()).unwrap_err();
        assert_eq!(error.to_string(), "Node : metadata.name is missing");
        assert!(node(b"[]", &mut Interner::default()).is_err());
    }
}
