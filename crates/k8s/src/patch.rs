//! Bodies of the writes that are not pods: adoption, release, labels, revisions, status.
//!
//! Every patch of an object that exists carries its UID, so that one of the same name that came later
//! is never touched (C21, C61), and where a decision read the object its resourceVersion.

use std::collections::BTreeMap;

use everynode_core::api::{HASH_LABEL, Status, Uid};
use everynode_core::plan::{NewRevision, PodReference, RevisionReference};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::revision_data::data_of_template;

/// The DaemonSet on whose behalf something is written.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a Uid,
}

impl Owner<'_> {
    /// The owner reference that marks the DaemonSet as controller.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": self.name,
            "uid": self.uid.to_string(),
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }
}

/// Strategic merge patch that makes the DaemonSet the controller (C21).
pub fn adopt(owner: &Owner, uid: &Uid) -> Value {
    json!({ "metadata": { "uid": uid.to_string(), "ownerReferences": [owner.reference()] } })
}

/// Strategic merge patch that removes the DaemonSet from the owners (C21).
pub fn release(owner: &Owner, uid: &Uid) -> Value {
    let gone = json!({ "$patch": "delete", "uid": owner.uid.to_string() });
    json!({ "metadata": { "uid": uid.to_string(), "ownerReferences": [gone] } })
}

/// Merge patch of a pod's hash label (C42).
pub fn relabel_pod(pod: &PodReference, hash: &str) -> Value {
    json!({ "metadata": { "uid": pod.uid.to_string(), "labels": { HASH_LABEL: hash } } })
}

/// Merge patch of a revision's hash label (C42).
pub fn label_revision(revision: &RevisionReference, hash: &str) -> Value {
    let mut patch = of_revision(revision);
    patch["metadata"]["labels"] = json!({ HASH_LABEL: hash });
    patch
}

/// Merge patch of a revision's number (C42).
pub fn raise_revision(revision: &RevisionReference, number: i64) -> Value {
    let mut patch = of_revision(revision);
    patch["revision"] = number.into();
    patch
}

fn of_revision(revision: &RevisionReference) -> Value {
    json!({ "metadata": {
        "uid": revision.uid.to_string(),
        "resourceVersion": revision.resource_version.to_string(),
    } })
}

/// The ControllerRevision to create (C40), as text, for its data's bytes matter (C41).
pub fn revision(
    owner: &Owner,
    template: &Value,
    annotations: &BTreeMap<String, String>,
    new: &NewRevision,
) -> String {
    let labels = template.pointer("/metadata/labels").and_then(Value::as_object);
    let mut labels: Map<_, _> = labels.cloned().unwrap_or_default();
    labels.insert(HASH_LABEL.into(), new.hash.as_str().into());
    let mut metadata = json!({
        "name": new.name.as_str(),
        "namespace": owner.namespace,
        "labels": labels,
        "ownerReferences": [owner.reference()],
    });
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    let data = RawValue::from_string(data_of_template(template)).expect("what was encoded is JSON");
    let revision = Revision {
        api_version: "apps/v1",
        kind: "ControllerRevision",
        metadata,
        data,
        revision: new.number,
    };
    serde_json::to_string(&revision).expect("it has no keys that are no strings")
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Revision {
    api_version: &'static str,
    kind: &'static str,
    metadata: Value,
    data: Box<RawValue>,
    revision: i64,
}

/// Merge patch of the status subresource (C70). Conditions, which belong to others, are not in it, nor is
/// `collisionCount`: repeated after a conflict, the patch would lower one that was raised meanwhile (C43).
pub fn status(uid: &Uid, resource_version: &str, status: &Status) -> Value {
    let body = json!({
        "observedGeneration": status.observed_generation,
        "desiredNumberScheduled": status.desired_number_scheduled,
        "currentNumberScheduled": status.current_number_scheduled,
        "numberMisscheduled": status.number_misscheduled,
        "numberReady": status.number_ready,
        "numberAvailable": status.number_available,
        "numberUnavailable": status.number_unavailable,
        "updatedNumberScheduled": status.updated_number_scheduled,
    });
    json!({ "metadata": of(uid, resource_version), "status": body })
}

/// Merge patch of the status subresource that sets `collisionCount` (C43).
pub fn collision_count(uid: &Uid, resource_version: &str, count: i32) -> Value {
    json!({ "metadata": of(uid, resource_version), "status": { "collisionCount": count } })
}

fn of(uid: &Uid, resource_version: &str) -> Value {
    json!({ "uid": uid.to_string(), "resourceVersion": resource_version })
}

/// The options of a delete that must not hit another object of the same name (C61).
pub fn delete_options(uid: &Uid) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": { "uid": uid.to_string() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER_UID: &str = "11111111-2222-3333-4444-555555555555";

    fn with_owner<T>(f: impl FnOnce(&Owner) -> T) -> T {
        let uid = Uid::new(OWNER_UID);
        f(&Owner { namespace: "logging", name: "fluentd", uid: &uid })
    }

    /// C21: adoption and release carry the UID of what they patch.
    #[test]
    fn adoption_and_release_carry_the_uid() {
        let uid = Uid::new("pod-uid");
        let adopt = with_owner(|owner| adopt(owner, &uid));
        assert_eq!(adopt["metadata"]["uid"], "pod-uid");
        assert_eq!(adopt["metadata"]["ownerReferences"][0]["uid"], OWNER_UID);
        assert_eq!(adopt["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
        let release = with_owner(|owner| release(owner, &uid));
        let expected = json!({ "metadata": {
            "uid": "pod-uid",
            "ownerReferences": [{ "$patch": "delete", "uid": OWNER_UID }],
        } });
        assert_eq!(release, expected);
    }

    /// C2, C40, C41: a created revision has the template's labels, the DaemonSet's annotations, and data
    /// in which an invented field survives, in Go's bytes.
    #[test]
    fn a_revision_holds_the_template_in_gos_bytes() {
        let template = json!({
            "metadata": { "labels": { "app": "f" } },
            "spec": { "z": "<&>", "invented": { "b": 1, "a": null } },
        });
        let new = NewRevision {
            name: "fluentd-abc".into(),
            hash: "abc".into(),
            number: 3,
            collision_count: None,
        };
        let annotations = BTreeMap::from([("note".to_owned(), "<x>".to_owned())]);
        let text = with_owner(|owner| revision(owner, &template, &annotations, &new));
        assert!(
            text.contains(
                r#""data":{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"f"}},"spec":{"invented":{"a":null,"b":1},"z":"\u003c\u0026\u003e"}}}}"#
            ),
            "{text}"
        );
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["revision"], 3);
        assert_eq!(value["metadata"]["name"], "fluentd-abc");
        assert_eq!(value["metadata"]["labels"], json!({ "app": "f", HASH_LABEL: "abc" }));
        assert_eq!(value["metadata"]["annotations"], json!({ "note": "<x>" }));
    }

    /// C43, C70: a status patch names all counts, zero ones too, but neither conditions nor the collision count.
    #[test]
    fn a_status_patch_leaves_conditions_and_the_collision_count_alone() {
        let counts = Status { number_ready: 3, collision_count: Some(1), ..Status::default() };
        let patch = status(&Uid::new("u"), "42", &counts);
        assert_eq!(patch["metadata"], json!({ "uid": "u", "resourceVersion": "42" }));
        assert_eq!(patch["status"]["numberReady"], 3);
        assert_eq!(patch["status"]["numberUnavailable"], 0);
        assert_eq!(patch["status"].get("conditions"), None);
        assert_eq!(patch["status"].get("collisionCount"), None);
    }

    /// C61: deletes carry the UID as precondition.
    #[test]
    fn deletes_carry_the_uid() {
        assert_eq!(delete_options(&Uid::new("u"))["preconditions"], json!({ "uid": "u" }));
    }
}
