//! The messages, with the fields that decisions read. Texts stay bytes of the answer, since Go's
//! encoder does not require UTF-8; so do the parts of a pod that may not be needed.

use bytes::Bytes;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Unknown {
    #[prost(bytes = "bytes", tag = "2")]
    pub raw: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub content_encoding: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct List {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ListMeta>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub items: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListMeta {
    #[prost(bytes = "bytes", tag = "2")]
    pub resource_version: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub continue_token: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchEvent {
    #[prost(bytes = "bytes", tag = "1")]
    pub event: Bytes,
    #[prost(message, optional, tag = "2")]
    pub object: Option<RawExtension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    pub raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(bytes = "bytes", tag = "3")]
    pub message: Bytes,
    #[prost(message, optional, tag = "5")]
    pub details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    pub code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusDetails {
    #[prost(int32, tag = "5")]
    pub retry_after_seconds: i32,
}

/// An object of any kind.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionOnly {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<Version>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Version {
    #[prost(bytes = "bytes", tag = "6")]
    pub resource_version: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectMeta {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub namespace: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub uid: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    pub resource_version: Bytes,
    #[prost(message, optional, tag = "8")]
    pub creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    pub deletion_timestamp: Option<Time>,
    #[prost(int64, optional, tag = "10")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[prost(message, repeated, tag = "11")]
    pub labels: Vec<Entry>,
    #[prost(message, repeated, tag = "12")]
    pub annotations: Vec<Entry>,
    #[prost(message, repeated, tag = "13")]
    pub owner_references: Vec<OwnerReference>,
}

/// An entry of a map.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// Without seconds it is Go's zero time, which JSON has as null.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Time {
    #[prost(int64, optional, tag = "1")]
    pub seconds: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OwnerReference {
    #[prost(bytes = "bytes", tag = "1")]
    pub kind: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub uid: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub api_version: Bytes,
    #[prost(bool, optional, tag = "6")]
    pub controller: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Namespace {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ObjectMeta>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<NodeSpec>,
    #[prost(message, optional, tag = "3")]
    pub status: Option<NodeStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeStatus {
    #[prost(message, repeated, tag = "4")]
    pub conditions: Vec<Condition>,
    #[prost(message, optional, tag = "7")]
    pub node_info: Option<NodeSystemInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSystemInfo {
    #[prost(bytes = "bytes", tag = "3")]
    pub boot_id: Bytes,
    #[prost(bytes = "bytes", tag = "7")]
    pub kubelet_version: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSpec {
    #[prost(message, repeated, tag = "5")]
    pub taints: Vec<Taint>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Taint {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub effect: Bytes,
}

/// Its parts are decoded only if they are needed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pod {
    #[prost(bytes = "bytes", tag = "1")]
    pub metadata: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub spec: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub status: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSpec {
    #[prost(bytes = "bytes", tag = "10")]
    pub node_name: Bytes,
    #[prost(message, optional, tag = "18")]
    pub affinity: Option<Affinity>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Affinity {
    #[prost(message, optional, tag = "1")]
    pub node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeAffinity {
    #[prost(message, optional, tag = "1")]
    pub required: Option<NodeSelector>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSelector {
    #[prost(message, repeated, tag = "1")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSelectorTerm {
    #[prost(message, repeated, tag = "2")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSelectorRequirement {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub operator: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub values: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodStatus {
    #[prost(bytes = "bytes", tag = "1")]
    pub phase: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub conditions: Vec<Condition>,
    #[prost(message, repeated, tag = "8")]
    pub container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// The status of a pod that pulls images (G55).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullerStatus {
    #[prost(bytes = "bytes", tag = "1")]
    pub phase: Bytes,
    #[prost(message, repeated, tag = "8")]
    pub container_statuses: Vec<PullerContainerStatus>,
}

/// The metadata of a pod that was changed in place (G56).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ChangedMeta {
    #[prost(bytes = "bytes", tag = "6")]
    pub resource_version: Bytes,
    #[prost(int64, tag = "7")]
    pub generation: i64,
}

/// Its status.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ChangedPodStatus {
    #[prost(message, repeated, tag = "2")]
    pub conditions: Vec<ChangedCondition>,
    #[prost(message, repeated, tag = "8")]
    pub container_statuses: Vec<ChangedContainer>,
    #[prost(message, repeated, tag = "10")]
    pub init_container_statuses: Vec<ChangedContainer>,
    #[prost(int64, tag = "17")]
    pub observed_generation: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ChangedCondition {
    #[prost(bytes = "bytes", tag = "1")]
    pub kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub status: Bytes,
    #[prost(message, optional, tag = "4")]
    pub last_transition_time: Option<Time>,
    #[prost(bytes = "bytes", tag = "5")]
    pub reason: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ChangedContainer {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(message, optional, tag = "2")]
    pub state: Option<ChangedContainerState>,
    #[prost(int32, tag = "5")]
    pub restart_count: i32,
    #[prost(bytes = "bytes", tag = "8")]
    pub container_id: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ChangedContainerState {
    #[prost(message, optional, tag = "2")]
    pub running: Option<ContainerStateRunning>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStateRunning {
    #[prost(message, optional, tag = "1")]
    pub started_at: Option<Time>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullerContainerStatus {
    #[prost(message, optional, tag = "2")]
    pub state: Option<PullerContainerState>,
    #[prost(bytes = "bytes", tag = "7")]
    pub image_id: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullerContainerState {
    #[prost(message, optional, tag = "1")]
    pub waiting: Option<ContainerStateWaiting>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub running: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStatus {
    #[prost(message, optional, tag = "2")]
    pub state: Option<ContainerState>,
    #[prost(int32, tag = "5")]
    pub restart_count: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerState {
    #[prost(message, optional, tag = "1")]
    pub waiting: Option<ContainerStateWaiting>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStateWaiting {
    #[prost(bytes = "bytes", tag = "1")]
    pub reason: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Condition {
    #[prost(bytes = "bytes", tag = "1")]
    pub kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub status: Bytes,
    #[prost(message, optional, tag = "4")]
    pub last_transition_time: Option<Time>,
}
