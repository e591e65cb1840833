//! Pods: their controller, node, phase and readiness.

use std::ops::ControlFlow;

use bytes::Bytes;
use everynode_core::api::{
    AGREED, ImagePuller, Namespace, NodeName, Pod, PodName, PodPhase, PodTrouble,
    REPLACE_ANNOTATION, REPLACED_ANNOTATION, REPLACING_ANNOTATION, REPLACING_SINCE_ANNOTATION,
    Readiness, Replacement, Timestamp, Uid,
};
use memchr::memmem;
use prost::Message;
use serde::Deserialize;

use super::pod_change::{Changed, Stated};
use super::wire::{Condition, Metadata, Text, TextMap, Time, text, timestamp};
use super::{Controller, Error, Interner, image_puller};
use crate::json_path::read_first;
use crate::{go_json, protobuf};

/// A decoded Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodObject {
    /// A pod that a DaemonSet controls, or one without a controller.
    Pod(Box<Pod>),
    /// A pod that pulls the images of a DaemonSet's revision (G55).
    Puller(Box<ImagePuller>),
    /// A pod that another kind controls; only its identity is kept (C3).
    Foreign {
        /// `metadata.namespace`.
        namespace: Namespace,
        /// `metadata.uid`.
        uid: Uid,
    },
}

#[derive(Deserialize)]
struct WirePod<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Option<WireSpec<'a>>,
    #[serde(borrow)]
    status: Option<WireStatus<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
    #[serde(borrow)]
    affinity: Option<WireAffinity<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireAffinity<'a> {
    #[serde(borrow)]
    node_affinity: Option<WireNodeAffinity<'a>>,
}

#[derive(Deserialize)]
struct WireNodeAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<WireNodeSelector<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireNodeSelector<'a> {
    #[serde(borrow)]
    node_selector_terms: Option<Vec<WireTerm<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireTerm<'a> {
    #[serde(borrow)]
    match_fields: Option<Vec<WireRequirement<'a>>>,
}

#[derive(Deserialize)]
struct WireRequirement<'a> {
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    operator: Option<Text<'a>>,
    #[serde(borrow)]
    values: Option<Vec<Text<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow)]
    container_statuses: Option<Vec<WireContainerStatus<'a>>>,
    #[serde(borrow)]
    init_container_statuses: Option<Vec<WireContainerStatus<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireContainerStatus<'a> {
    restart_count: i32,
    #[serde(borrow)]
    state: Option<WireState<'a>>,
}

#[derive(Default, Deserialize)]
struct WireState<'a> {
    #[serde(borrow)]
    waiting: Option<WireWaiting<'a>>,
}

#[derive(Default, Deserialize)]
struct WireWaiting<'a> {
    #[serde(borrow)]
    reason: Option<Text<'a>>,
}

/// Decodes a Pod.
///
/// # Errors
/// If a field has a wrong type, or the name is missing.
pub fn pod(json: &[u8], interner: &mut Interner) -> Result<PodObject, Error> {
    let text_of_json = go_json::text(json);
    let wire: WirePod =
        serde_json::from_str(&text_of_json).map_err(|e| Error::new("Pod", json, e))?;
    let failed = |e| Error::new("Pod", json, e);
    match Identity::read(&wire.metadata, interner).map_err(failed)? {
        ControlFlow::Break(foreign) => {
            let is_puller = wire.metadata.is_puller();
            let puller =
                is_puller.then(|| image_puller::puller(&text_of_json, &wire.metadata, interner));
            Ok(puller.flatten().map_or(foreign, |puller| PodObject::Puller(Box::new(puller))))
        }
        ControlFlow::Continue(identity) => {
            let (spec, status) = (wire.spec.unwrap_or_default(), wire.status.unwrap_or_default());
            let annotations = own_annotations(&text_of_json);
            let replacement = replacement(annotations.iter());
            let changed = Stated::of(annotations.iter()).map(|it| it.of_json(&text_of_json));
            Ok(identity.pod(&wire.metadata, &spec, &status, (replacement, changed), interner))
        }
    }
}

/// The same of a Pod's protobuf message.
///
/// # Errors
/// If the message is malformed, or the name is missing.
pub fn pod_of_protobuf(message: &Bytes, interner: &mut Interner) -> Result<PodObject, Error> {
    let failed = |e: prost::DecodeError| Error::of_protobuf("Pod", message, e);
    let parts = protobuf::Pod::decode(message.clone()).map_err(failed)?;
    let bytes_of_metadata = parts.metadata.clone();
    let message_of_metadata = protobuf::ObjectMeta::decode(parts.metadata).map_err(failed)?;
    let metadata = Metadata::from(&message_of_metadata);
    let identity = Identity::read(&metadata, interner);
    match identity.map_err(|e| Error::of_protobuf("Pod", message, e))? {
        ControlFlow::Break(foreign) if metadata.is_puller() => {
            let (spec, status) = (parts.spec, parts.status);
            let puller = image_puller::puller_of_protobuf(&metadata, spec, status, interner);
            let puller = puller.map_err(failed)?;
            Ok(puller.map_or(foreign, |puller| PodObject::Puller(Box::new(puller))))
        }
        ControlFlow::Break(foreign) => Ok(foreign),
        ControlFlow::Continue(identity) => {
            let spec = protobuf::PodSpec::decode(parts.spec).map_err(failed)?;
            let status = protobuf::PodStatus::decode(parts.status.clone()).map_err(failed)?;
            let annotations = message_of_metadata.annotations.iter();
            let is_own = |it: &&protobuf::Entry| it.key.starts_with(OWN.as_bytes());
            let annotations: TextMap<'_> = annotations.filter(is_own).collect();
            let replacement = replacement(annotations.iter());
            let changed = Stated::of(annotations.iter());
            let changed = changed.map(|it| it.of_protobuf(bytes_of_metadata, parts.status));
            let stated = (replacement, changed.transpose().map_err(failed)?);
            Ok(identity.pod(&metadata, &(&spec).into(), &(&status).into(), stated, interner))
        }
    }
}

/// The identity of a pod that is kept whole.
struct Identity {
    namespace: Namespace,
    name: PodName,
    uid: Uid,
    controller: Option<Uid>,
}

impl Identity {
    /// Breaks with the pod of another kind of controller, of which no more is read.
    fn read(
        metadata: &Metadata<'_>,
        interner: &mut Interner,
    ) -> Result<ControlFlow<PodObject, Self>, &'static str> {
        let name = metadata.name()?.into();
        let namespace = interner.text(text(metadata.namespace.as_ref())).into();
        let uid = metadata.uid();
        let controller = match metadata.controller() {
            Controller::None => None,
            Controller::DaemonSet(controller) => Some(controller),
            Controller::Foreign => {
                return Ok(ControlFlow::Break(PodObject::Foreign { namespace, uid }));
            }
        };
        Ok(ControlFlow::Continue(Self { namespace, name, uid, controller }))
    }

    fn pod(
        self,
        metadata: &Metadata<'_>,
        spec: &WireSpec<'_>,
        status: &WireStatus<'_>,
        (replacement, changed): (Option<Box<Replacement>>, Option<Changed>),
        interner: &mut Interner,
    ) -> PodObject {
        let labels = metadata.labels(interner);
        let created = metadata.creation_timestamp.as_ref().and_then(Time::timestamp);
        let changed_at = changed.as_ref().and_then(|changed| changed.at).or(created);
        let changed_after = changed.as_ref().filter(|changed| changed.was_changed).map(|_| {
            changed_at.zip(created).map(|(at, created)| at.since(created)).unwrap_or_default()
        });
        PodObject::Pod(Box::new(Pod {
            namespace: self.namespace,
            name: self.name,
            uid: self.uid,
            labels: interner.labels(labels),
            controller: self.controller,
            controller_name: metadata.controller_name().map(|name| interner.text(name).into()),
            creation_timestamp: created.max(changed_at).unwrap_or(Timestamp(i64::MAX)),
            changed_after,
            terminating: metadata.deletion_timestamp.is_some(),
            deleted_at: metadata.deleted_at(),
            node_name: node_name(text(spec.node_name.as_ref()), interner),
            affinity_node_name: spec
                .affinity_node_name()
                .and_then(|name| node_name(name, interner)),
            phase: phase(text(status.phase.as_ref())),
            readiness: match &changed {
                Some(changed) => changed.readiness(status.readiness()),
                None => status.readiness(),
            },
            restarts: changed.as_ref().map_or_else(|| status.restarts(), Changed::restarts),
            trouble: status.trouble(),
            unschedulable: status.is_unschedulable(),
            replacement,
            change: changed.and_then(|changed| changed.change),
        }))
    }
}

/// The beginning of the keys of annotations of this program.
const OWN: &str = "everynode.dev/";

/// The beginning of those about a pod's replacement.
const REPLACEMENT: &str = "everynode.dev/replac";

/// The annotations about a pod's replacement, if it has one of them.
fn replacement<'a>(
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<Box<Replacement>> {
    let mut all =
        annotations.into_iter().filter(|(key, _)| key.starts_with(REPLACEMENT)).peekable();
    all.peek()?;
    let mut found = Replacement::default();
    for (key, value) in all {
        match key {
            REPLACING_ANNOTATION => found.replacing = Some(value.into()),
            REPLACING_SINCE_ANNOTATION => found.since = timestamp(value),
            REPLACE_ANNOTATION => found.is_agreed = value == AGREED,
            REPLACED_ANNOTATION => found.replaced = Some(value.into()),
            _ => {}
        }
    }
    Some(Box::new(found))
}

/// The annotations of a pod in JSON, if those of this program may be among them: most pods have
/// none, so that all annotations need not be parsed.
fn own_annotations(json: &str) -> TextMap<'_> {
    if memmem::find(json.as_bytes(), OWN.as_bytes()).is_none() {
        return TextMap::default();
    }
    let annotations: Option<Option<TextMap>> =
        read_first(json, &["metadata", "annotations"]).ok().flatten();
    annotations.flatten().unwrap_or_default()
}

impl<'a> From<&'a protobuf::PodSpec> for WireSpec<'a> {
    fn from(message: &'a protobuf::PodSpec) -> Self {
        let node_affinity = message.affinity.as_ref().and_then(|it| it.node_affinity.as_ref());
        let required = node_affinity.and_then(|it| it.required.as_ref()).map(|it| {
            let terms = it.node_selector_terms.iter().map(Into::into).collect();
            WireNodeSelector { node_selector_terms: Some(terms) }
        });
        let node_affinity = Some(WireNodeAffinity { required });
        Self {
            node_name: Text::of_field(&message.node_name),
            affinity: Some(WireAffinity { node_affinity }),
        }
    }
}

impl<'a> From<&'a protobuf::NodeSelectorTerm> for WireTerm<'a> {
    fn from(message: &'a protobuf::NodeSelectorTerm) -> Self {
        Self { match_fields: Some(message.match_fields.iter().map(Into::into).collect()) }
    }
}

impl<'a> From<&'a protobuf::NodeSelectorRequirement> for WireRequirement<'a> {
    fn from(message: &'a protobuf::NodeSelectorRequirement) -> Self {
        Self {
            key: Text::of_field(&message.key),
            operator: Text::of_field(&message.operator),
            values: Some(message.values.iter().map(|value| Text::of_bytes(value)).collect()),
        }
    }
}

impl<'a> From<&'a protobuf::PodStatus> for WireStatus<'a> {
    fn from(message: &'a protobuf::PodStatus) -> Self {
        Self {
            phase: Text::of_field(&message.phase),
            conditions: Some(message.conditions.iter().map(Into::into).collect()),
            container_statuses: Some(container_statuses(&message.container_statuses)),
            init_container_statuses: Some(container_statuses(&message.init_container_statuses)),
        }
    }
}

fn container_statuses(messages: &[protobuf::ContainerStatus]) -> Vec<WireContainerStatus<'_>> {
    messages.iter().map(Into::into).collect()
}

impl<'a> From<&'a protobuf::ContainerStatus> for WireContainerStatus<'a> {
    fn from(message: &'a protobuf::ContainerStatus) -> Self {
        let waiting = message.state.as_ref().and_then(|state| state.waiting.as_ref());
        let waiting = waiting.map(|it| WireWaiting { reason: Text::of_field(&it.reason) });
        Self { restart_count: message.restart_count, state: Some(WireState { waiting }) }
    }
}

fn node_name(name: &str, interner: &mut Interner) -> Option<NodeName> {
    (!name.is_empty()).then(|| interner.text(name).into())
}

fn phase(phase: &str) -> PodPhase {
    match phase {
        "" | "Pending" => PodPhase::Pending,
        "Running" => PodPhase::Running,
        "Succeeded" => PodPhase::Succeeded,
        "Failed" => PodPhase::Failed,
        _ => PodPhase::Unknown,
    }
}

impl WireSpec<'_> {
    /// The node that the required node affinity pins the pod to. Upstream: `GetTargetNodeName`
    /// (C20).
    fn affinity_node_name(&self) -> Option<&str> {
        let required = self.affinity.as_ref()?.node_affinity.as_ref()?.required.as_ref()?;
        let terms = required.node_selector_terms.iter().flatten();
        terms.flat_map(|term| term.match_fields.iter().flatten()).find_map(WireRequirement::node)
    }
}

impl WireRequirement<'_> {
    fn node(&self) -> Option<&str> {
        match self.values.as_deref() {
            Some([name])
                if text(self.key.as_ref()) == "metadata.name"
                    && text(self.operator.as_ref()) == "In" =>
            {
                Some(name)
            }
            _ => None,
        }
    }
}

impl WireStatus<'_> {
    fn all_containers(&self) -> impl Iterator<Item = &WireContainerStatus<'_>> {
        self.container_statuses.iter().chain(&self.init_container_statuses).flatten()
    }

    /// Why a container waits, if that is a trouble.
    fn trouble(&self) -> Option<PodTrouble> {
        let waiting = self.all_containers().filter_map(|it| it.state.as_ref()?.waiting.as_ref());
        waiting.filter_map(|waiting| PodTrouble::from_reason(text(waiting.reason.as_ref()))).max()
    }

    /// The highest number of restarts of a container (G34).
    fn restarts(&self) -> u8 {
        let counts = self.all_containers().map(|status| status.restart_count);
        counts.max().map_or(0, |count| u8::try_from(count.max(0)).unwrap_or(u8::MAX))
    }

    fn condition(&self, kind: &str) -> Option<&Condition<'_>> {
        let mut conditions = self.conditions.iter().flatten();
        conditions.find(|condition| text(condition.kind.as_ref()) == kind)
    }

    /// True if the scheduler has found no node for the pod, or must not look for one.
    fn is_unschedulable(&self) -> bool {
        let scheduled = self.condition("PodScheduled");
        scheduled.is_some_and(|condition| text(condition.status.as_ref()) == "False")
    }

    fn readiness(&self) -> Readiness {
        match self.condition("Ready") {
            Some(ready) if text(ready.status.as_ref()) == "True" => {
                let since = ready.last_transition_time.as_ref().and_then(Time::timestamp);
                since.map_or(Readiness::Ready, Readiness::ReadySince)
            }
            _ => Readiness::NotReady,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(value: &Value) -> PodObject {
        pod(value.to_string().as_bytes(), &mut Interner::default()).unwrap()
    }

    fn base() -> Value {
        json!({
            "metadata": {
                "name": "p", "namespace": "ns", "uid": "u", "labels": { "app": "f" },
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{ "manager": "kubelet" }],
                "ownerReferences": [
                    { "apiVersion": "v1", "kind": "Other", "name": "x", "uid": "o" },
                    { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d-uid",
                      "controller": true },
                ],
            },
            "spec": { "nodeName": "n1", "containers": [{ "name": "c", "env": [{ "name": "A" }] }] },
            "status": { "phase": "Running", "conditions": [
                { "type": "Initialized", "status": "True" },
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z" },
            ] },
        })
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({ "key": key, "operator": operator, "values": values })
    }

    fn pod_with(change: impl FnOnce(&mut Value)) -> Pod {
        let mut value = base();
        change(&mut value);
        match of(&value) {
            PodObject::Pod(pod) => *pod,
            PodObject::Puller(_) | PodObject::Foreign { .. } => panic!("foreign: {value}"),
        }
    }

    /// C3: only the parts of a pod that decisions read are kept.
    #[test]
    fn a_pod_is_read_narrowly() {
        let pod = pod_with(|_| ());
        assert_eq!(pod.controller, Some(Uid::new("d-uid")));
        assert_eq!(pod.controller_name, Some("d".into()));
        assert_eq!(pod.node_name, Some("n1".into()));
        assert_eq!(pod.phase, PodPhase::Running);
        let created = pod.creation_timestamp;
        assert_eq!(
            pod.readiness,
            Readiness::ReadySince(created + std::time::Duration::from_secs(5))
        );
        assert!(!pod.terminating);
    }

    /// G34: a pod states why a container waits, as far as that is a trouble.
    #[test]
    fn a_pod_states_the_trouble_of_its_containers() {
        let waits =
            |reason: &str| json!([{ "name": "c", "state": { "waiting": { "reason": reason } } }]);
        let trouble =
            |reason| pod_with(|pod| pod["status"]["containerStatuses"] = waits(reason)).trouble;
        assert_eq!(trouble("ContainerCreating"), None);
        assert_eq!(trouble("CrashLoopBackOff"), Some(PodTrouble::CrashLoopBackOff));
        let of_init =
            |pod: &mut Value| pod["status"]["initContainerStatuses"] = waits("ErrImagePull");
        assert_eq!(pod_with(of_init).trouble, Some(PodTrouble::ErrImagePull));
        let waiting = protobuf::ContainerStateWaiting { reason: "ErrImagePull".into() };
        let state = Some(protobuf::ContainerState { waiting: Some(waiting) });
        let status = protobuf::ContainerStatus { state, restart_count: 3 };
        let status = protobuf::PodStatus { container_statuses: vec![status], ..Default::default() };
        let wire = WireStatus::from(&status);
        assert_eq!((wire.trouble(), wire.restarts()), (Some(PodTrouble::ErrImagePull), 3));
    }

    /// C3: a pod of another kind of controller is dropped as it is decoded.
    #[test]
    fn a_pod_of_another_kind_of_controller_is_foreign() {
        for (api_version, kind) in [("apps/v1", "ReplicaSet"), ("example.com/v1", "DaemonSet")] {
            let mut value = base();
            value["metadata"]["ownerReferences"][1]["apiVersion"] = api_version.into();
            value["metadata"]["ownerReferences"][1]["kind"] = kind.into();
            let foreign = PodObject::Foreign { namespace: "ns".into(), uid: Uid::new("u") };
            assert_eq!(of(&value), foreign);
        }
    }

    /// C21, C34, C41: a pod created by Kubernetes 1.8 or older names its DaemonSet with the API
    /// group of that version.
    #[test]
    fn a_pod_whose_owner_has_the_old_api_group_belongs_to_the_daemon_set() {
        let pod = pod_with(|pod| {
            let owner = &mut pod["metadata"]["ownerReferences"][1];
            owner["apiVersion"] = "extensions/v1beta1".into();
        });
        assert_eq!(pod.controller, Some(Uid::new("d-uid")));
    }

    /// C21: a pod without a controller is an orphan, whatever other owners it has.
    #[test]
    fn a_pod_without_a_controller_is_an_orphan() {
        let pod =
            pod_with(|pod| pod["metadata"]["ownerReferences"][1]["controller"] = false.into());
        assert_eq!(pod.controller, None);
    }

    /// C20: an unscheduled pod is pinned to the node that its affinity names.
    #[test]
    fn the_affinity_names_the_node() {
        let pinned_to = |requirement: Value| {
            pod_with(|pod| {
                pod["spec"] = json!({ "affinity": { "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                        { "matchExpressions": [{ "key": "a", "operator": "Exists" }] },
                        { "matchFields": [requirement] },
                    ] },
                } } });
            })
            .affinity_node_name
        };
        assert_eq!(pinned_to(requirement("metadata.name", "In", &["n7"])), Some("n7".into()));
        assert_eq!(pinned_to(requirement("metadata.name", "NotIn", &["n7"])), None);
        assert_eq!(pinned_to(requirement("metadata.name", "In", &["n7", "n8"])), None);
        assert_eq!(pinned_to(requirement("metadata.uid", "In", &["n7"])), None);
    }

    /// C4, C22, C54: a pod with an unknown phase or readiness is kept.
    #[test]
    fn phases_and_conditions_are_read_leniently() {
        let phase = |phase: &str| pod_with(|pod| pod["status"]["phase"] = phase.into()).phase;
        assert_eq!(phase("Failed"), PodPhase::Failed);
        assert_eq!(phase("Succeeded"), PodPhase::Succeeded);
        assert_eq!(phase("Hibernating"), PodPhase::Unknown);
        assert_eq!(pod_with(|pod| pod["status"] = Value::Null).phase, PodPhase::Pending);
        let without_time = pod_with(|pod| {
            pod["status"]["conditions"] =
                json!([{ "type": "Ready", "status": "True", "lastTransitionTime": null }]);
        });
        assert_eq!(without_time.readiness, Readiness::Ready);
        let deleted = pod_with(|pod| {
            pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:01:09Z".into();
            pod["metadata"]["deletionGracePeriodSeconds"] = 9.into();
        });
        assert!(deleted.terminating);
        assert_eq!(deleted.deleted_at, Some(Timestamp::from_seconds(60)));
    }
}
