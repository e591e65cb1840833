//! Requests for writes that change existing objects. Sans-IO.

use everynode_core::api::{DaemonSetKey, Namespace, PodName, RevisionName, Uid};
use everynode_core::plan::{PodReference, RevisionReference, Write};
use everynode_k8s::convert::{self, PolicyReference};
use everynode_k8s::patch::{self, Owner};
use http::Method;
use serde_json::Value;

use crate::api::Content;
use crate::config_maps;
use crate::observation::WatchedResource;

/// A request with the object that it changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub method: Method,
    pub path: String,
    pub content: Content,
    pub body: Value,
    /// The path of the object, to read it.
    pub object: String,
    pub uid: Uid,
    /// True if a conflict is resolved by sending the request again with the live
    /// resourceVersion, because its content does not depend on other changes.
    repeats: bool,
}

impl Request {
    /// The request for a write; `None` for those that need more than the write contains.
    pub(super) fn for_write(write: &Write, owner: &Owner) -> Option<Self> {
        let pod = |pod: &PodReference, content, body| {
            let path = object(WatchedResource::Pod, owner.namespace, pod.name.as_str());
            Self::patch(path, &pod.uid, content, body)
        };
        let revision = |revision: &RevisionReference, content, body| {
            let path = object(WatchedResource::Revision, owner.namespace, revision.name.as_str());
            Self::patch(path, &revision.uid, content, body)
        };
        let status = |body, repeats| {
            let object = object(WatchedResource::DaemonSet, owner.namespace, owner.name);
            let path = format!("{object}/status");
            let content = if patch::has_conditions(&body) {
                Content::StrategicMergePatch
            } else {
                Content::MergePatch
            };
            let (method, uid) = (Method::PATCH, owner.uid.clone());
            Self { method, path, content, body, object, uid, repeats }
        };
        Some(match write {
            Write::CreatePod(_)
            | Write::CreateRevision(_)
            | Write::PullImages(_)
            | Write::CopyConfigMap(_)
            | Write::ChangePod(_)
            | Write::RollBack { .. } => return None,
            Write::AdoptPod(p)
            | Write::ReleasePod(p)
            | Write::RelabelPod { pod: p, .. }
            | Write::AskForReplacement { pod: p, .. }
            | Write::MarkReplaced { pod: p, .. }
            | Write::FinishChange { pod: p, .. } => {
                let (content, body) = pod_patch(write, owner)?;
                pod(p, content, body)
            }
            Write::DeletePod(p) | Write::DeletePuller(p) => {
                Self::delete(object(WatchedResource::Pod, owner.namespace, p.name.as_str()), &p.uid)
            }
            Write::DeleteCopy(copy) => {
                Self::delete(config_map(&owner.namespace.into(), &copy.name), &copy.uid)
            }
            Write::AdoptRevision(r) => {
                revision(r, Content::StrategicMergePatch, patch::adopt_revision(owner, &r.uid))
            }
            Write::ReleaseRevision(r) => {
                revision(r, Content::StrategicMergePatch, patch::release(owner, &r.uid))
            }
            Write::LabelRevision { revision: r, hash } => {
                revision(r, Content::MergePatch, patch::label_revision(r, hash.as_str()))
                    .repeating()
            }
            Write::RaiseRevision { revision: r, number, template_generation: of } => {
                revision(r, Content::MergePatch, patch::raise_revision(r, *number, *of)).repeating()
            }
            Write::WriteRecord { revision: r, record } => {
                revision(r, Content::MergePatch, patch::write_record(r, record))
            }
            Write::DeleteRevision(r) => {
                revision(r, Content::Json, delete_revision(r)).with_method(Method::DELETE)
            }
            Write::UpdateStatus { resource_version: version, status: new, ends_rollout } => {
                status(patch::status(owner.uid, &version.to_string(), new, *ends_rollout), true)
            }
            Write::UpdateConditions { rollout } => {
                status(patch::conditions(owner.uid, rollout.as_ref()), false)
            }
            Write::RaiseCollisionCount { resource_version: version, collision_count: count } => {
                status(patch::collision_count(owner.uid, &version.to_string(), *count), false)
            }
        })
    }

    /// The same request for the live object, if it may be repeated. `live` is its JSON.
    ///
    /// A status does not set `observedGeneration` back: an earlier status without an answer may
    /// have raised it (C70).
    pub(super) fn repeated_on(&self, resource_version: &str, live: &[u8]) -> Option<Self> {
        if !self.repeats {
            return None;
        }
        let mut again = self.clone();
        again.body["metadata"]["resourceVersion"] = resource_version.into();
        if let Some(observed) = again.body.pointer_mut("/status/observedGeneration") {
            let live = convert::daemon_set(live, None).ok()?.daemon_set.status.observed_generation;
            *observed = live.max(observed.as_i64().unwrap_or_default()).into();
        }
        Some(again)
    }

    fn patch(path: String, uid: &Uid, content: Content, body: Value) -> Self {
        let (method, object, uid) = (Method::PATCH, path.clone(), uid.clone());
        Self { method, path, content, body, object, uid, repeats: false }
    }

    fn delete(path: String, uid: &Uid) -> Self {
        Self::patch(path, uid, Content::Json, patch::delete_options(uid))
            .with_method(Method::DELETE)
    }

    fn with_method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    fn repeating(self) -> Self {
        Self { repeats: true, ..self }
    }
}

/// The patch of a pod of its DaemonSet, if the write is one.
fn pod_patch(write: &Write, owner: &Owner) -> Option<(Content, Value)> {
    let content = match write {
        Write::AdoptPod(_) | Write::ReleasePod(_) => Content::StrategicMergePatch,
        _ => Content::MergePatch,
    };
    let body = match write {
        Write::AdoptPod(pod) => patch::adopt(owner, &pod.uid),
        Write::ReleasePod(pod) => patch::release(owner, &pod.uid),
        Write::RelabelPod { pod, hash } => patch::relabel_pod(pod, hash.as_str()),
        Write::AskForReplacement { pod, hash, since, withdraws } => {
            patch::ask_for_replacement(pod, hash.as_str(), *since, *withdraws)
        }
        Write::MarkReplaced { pod, hash } => patch::mark_replaced(pod, hash.as_str()),
        Write::FinishChange { pod, resource_version, hash, template_generation, tag } => {
            let (version, hash) = (*resource_version, hash.as_str());
            patch::finish_change(pod, version, hash, *template_generation, tag.as_deref())
        }
        _ => return None,
    };
    Some((content, body))
}

/// The server refuses this deletion once the revision has changed. Otherwise a request that takes
/// effect late could delete a revision that an undo has made the current one in the meantime: an
/// undo raises the revision's number (C42, C44, C61).
fn delete_revision(revision: &RevisionReference) -> Value {
    let mut options = patch::delete_options(&revision.uid);
    options["preconditions"]["resourceVersion"] = revision.resource_version.to_string().into();
    options
}

/// The path of the objects in a namespace.
pub(super) fn collection(resource: WatchedResource, namespace: &Namespace) -> String {
    resource.path(Some(namespace.as_str()))
}

pub(super) fn pod(namespace: &Namespace, name: &PodName) -> String {
    object(WatchedResource::Pod, namespace.as_str(), name.as_str())
}

pub(super) fn revision(namespace: &Namespace, name: &RevisionName) -> String {
    object(WatchedResource::Revision, namespace.as_str(), name.as_str())
}

pub(super) fn config_map(namespace: &Namespace, name: &str) -> String {
    format!("{}/{name}", config_maps::path(namespace))
}

pub(super) fn daemon_set(key: &DaemonSetKey) -> String {
    object(WatchedResource::DaemonSet, key.namespace.as_str(), key.name.as_str())
}

fn object(resource: WatchedResource, namespace: &str, name: &str) -> String {
    format!("{}/{name}", resource.path(Some(namespace)))
}

/// The path of the status of a policy object.
pub(super) fn policy_status(policy: &PolicyReference) -> String {
    let namespace = policy.namespace.as_ref().map(Namespace::as_str);
    let resource = match namespace {
        Some(_) => WatchedResource::RolloutPolicy,
        None => WatchedResource::ClusterRolloutPolicy,
    };
    format!("{}/{}/status", resource.path(namespace), policy.name)
}

/// The label `verb` of the metrics.
pub(super) fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    }
}

/// The label `resource` of the metrics: the plural with its subresource.
pub(super) fn resource(path: &str) -> &'static str {
    match () {
        () if path.contains("rolloutpolicies/") => "rolloutpolicies/status",
        () if path.ends_with("/status") => "daemonsets/status",
        () if path.split('?').next().is_some_and(|path| path.ends_with("/resize")) => "pods/resize",
        () if path.contains("/controllerrevisions") => "controllerrevisions",
        () if path.contains("/daemonsets/") => "daemonsets",
        () if path.contains("/configmaps") => "configmaps",
        () if path.starts_with("/api/v1/") => "pods",
        () => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use everynode_core::api::{
        Course, Position, ResourceVersion, RolloutPhase, RolloutRecord, Status, Timestamp,
    };

    fn of(write: &Write) -> Request {
        let uid = Uid::new("ds-uid");
        Request::for_write(write, &Owner { namespace: "ns", name: "d", uid: &uid }).unwrap()
    }

    fn pod() -> PodReference {
        PodReference { name: "p".into(), uid: Uid::new("pod-uid"), node: None }
    }

    fn revision() -> RevisionReference {
        RevisionReference {
            name: "r".into(),
            uid: Uid::new("rev-uid"),
            resource_version: ResourceVersion(7),
        }
    }

    fn record() -> Arc<RolloutRecord> {
        Arc::new(RolloutRecord {
            phase: RolloutPhase::Updating,
            position: Position::AllNodes,
            began: Timestamp(0),
            since: Timestamp(0),
            approvals: Vec::new(),
            steps_hash: "".into(),
            order: None,
            reason: None,
            is_rolled_back: false,
            base: None,
            course: Course::default(),
        })
    }

    /// C21, C61: every write that changes an existing object carries its UID, a deletion as a
    /// precondition.
    #[test]
    fn every_request_carries_the_uid() {
        for write in [
            Write::AdoptPod(pod()),
            Write::ReleasePod(pod()),
            Write::RelabelPod { pod: pod(), hash: "h".into() },
            Write::AdoptRevision(revision()),
            Write::ReleaseRevision(revision()),
            Write::LabelRevision { revision: revision(), hash: "h".into() },
            Write::RaiseRevision { revision: revision(), number: 4, template_generation: Some(2) },
            Write::WriteRecord { revision: revision(), record: record() },
        ] {
            let request = of(&write);
            assert_eq!(request.body["metadata"]["uid"], request.uid.to_string(), "{write}");
            assert_eq!(request.method, Method::PATCH);
        }
        for write in [Write::DeletePod(pod()), Write::DeleteRevision(revision())] {
            let request = of(&write);
            assert_eq!(request.body["preconditions"]["uid"], request.uid.to_string(), "{write}");
            assert_eq!(request.method, Method::DELETE);
        }
    }

    /// C44, C61: the deletion of a revision names the version that was read, and is not sent again
    /// with the live one. A pod's status changes all the time, so the deletion of a pod does not.
    #[test]
    fn only_the_version_that_was_read_of_a_revision_is_deleted() {
        let request = of(&Write::DeleteRevision(revision()));
        let preconditions = &request.body["preconditions"];
        assert_eq!(*preconditions, serde_json::json!({ "uid": "rev-uid", "resourceVersion": "7" }));
        assert_eq!(request.repeated_on("9", LIVE), None);
        let request = of(&Write::DeletePod(pod()));
        assert_eq!(request.body["preconditions"], serde_json::json!({ "uid": "pod-uid" }));
    }

    const LIVE: &[u8] = br#"{"metadata": {"namespace": "ns", "name": "d", "uid": "ds-uid",
        "resourceVersion": "9"}, "spec": {}, "status": {"observedGeneration": 4}}"#;

    /// C61, C70: a status with an old resourceVersion is sent again with the live one, and does not
    /// set `observedGeneration` back; a collision
    /// count, which depends on what was read, is not (C43).
    #[test]
    fn only_independent_writes_are_repeated_after_a_conflict() {
        let resource_version = ResourceVersion(7);
        let status = of(&Write::UpdateStatus {
            resource_version,
            status: Status::default(),
            ends_rollout: false,
        });
        assert_eq!(status.path, "/apis/apps/v1/namespaces/ns/daemonsets/d/status");
        assert_eq!(status.object, "/apis/apps/v1/namespaces/ns/daemonsets/d");
        assert_eq!(status.body["metadata"]["resourceVersion"], "7");
        let again = status.repeated_on("9", LIVE).unwrap();
        assert_eq!(again.body["metadata"]["resourceVersion"], "9");
        assert_eq!(again.body["status"]["observedGeneration"], 4, "that of the live object");
        let behind = Status { observed_generation: 5, ..Status::default() };
        let status =
            of(&Write::UpdateStatus { resource_version, status: behind, ends_rollout: false });
        let again = status.repeated_on("9", LIVE).unwrap();
        assert_eq!(again.body["status"], status.body["status"]);
        let count = Write::RaiseCollisionCount { resource_version, collision_count: 1 };
        assert_eq!(of(&count).repeated_on("9", LIVE), None);
        assert_eq!(of(&Write::AdoptPod(pod())).repeated_on("9", LIVE), None);
        // A record is decided from the record that it replaces (G9).
        let record = of(&Write::WriteRecord { revision: revision(), record: record() });
        assert_eq!(record.body["metadata"]["resourceVersion"], "7");
        assert_eq!(record.repeated_on("9", LIVE), None);
    }
}
