//! The bodies of all writes except pods: adoption, release, labels, revisions, status, deletion.
//!
//! Every patch contains the UID of its object, so that it never changes a newer object of the same
//! name. A patch that depends on the content of its object also contains its resourceVersion (C21,
//! C61).

use std::collections::BTreeMap;

use everynode_core::api::{
    CHANGING_ANNOTATION, CONFIG_ANNOTATION, COPY_OF_ANNOTATION, HASH_LABEL, OVERRIDDEN_ANNOTATION,
    OVERRIDE_LABEL, OVERRIDES_ANNOTATION, RECORD_ANNOTATION, REPLACE_ANNOTATION,
    REPLACED_ANNOTATION, REPLACING_ANNOTATION, REPLACING_SINCE_ANNOTATION, ROLLED_BACK_ANNOTATION,
    ResourceVersion, RolloutCondition, RolloutRecord, Status, TEMPLATE_GENERATION_ANNOTATION,
    TEMPLATE_GENERATION_LABEL, Timestamp, Uid,
};
use everynode_core::plan::{NewCopy, NewRevision, PodReference, RevisionReference};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::policy_status::PolicyStatus;
use crate::record::{record_text, time_text};
use crate::revision_data::data_of_template;

/// The DaemonSet that a write is for.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`.
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

/// The strategic merge patch that makes the DaemonSet the controller of the object with this UID
/// (C21).
pub fn adopt(owner: &Owner, uid: &Uid) -> Value {
    json!({ "metadata": { "uid": uid.to_string(), "ownerReferences": [owner.reference()] } })
}

/// The strategic merge patch that makes the DaemonSet the controller of this revision. Its template
/// generation is a number of the former DaemonSet's (C21, C41).
pub fn adopt_revision(owner: &Owner, uid: &Uid) -> Value {
    let mut patch = adopt(owner, uid);
    patch["metadata"]["annotations"] = json!({ TEMPLATE_GENERATION_ANNOTATION: null });
    patch
}

/// The strategic merge patch that removes the DaemonSet from the owners of the object with this UID
/// (C21).
pub fn release(owner: &Owner, uid: &Uid) -> Value {
    let gone = json!({ "$patch": "delete", "uid": owner.uid.to_string() });
    json!({ "metadata": { "uid": uid.to_string(), "ownerReferences": [gone] } })
}

/// The merge patch that sets a pod's hash label (C42).
pub fn relabel_pod(pod: &PodReference, hash: &str) -> Value {
    json!({ "metadata": { "uid": pod.uid.to_string(), "labels": { HASH_LABEL: hash } } })
}

/// The merge patch that asks whether an old pod may go for the revision with this hash (G54).
pub fn ask_for_replacement(
    pod: &PodReference,
    hash: &str,
    since: Timestamp,
    withdraws: bool,
) -> Value {
    let mut annotations = json!({
        REPLACING_ANNOTATION: hash,
        REPLACING_SINCE_ANNOTATION: time_text(since),
        // It said so of an earlier rollout, and does no longer.
        REPLACED_ANNOTATION: null,
    });
    if withdraws {
        annotations[REPLACE_ANNOTATION] = Value::Null;
    }
    json!({ "metadata": { "uid": pod.uid.to_string(), "annotations": annotations } })
}

/// The merge patch that states on a new pod that its node is updated (G54). Nobody is asked about
/// it any more, if an undone rollout did.
pub fn mark_replaced(pod: &PodReference, hash: &str) -> Value {
    let annotations = json!({
        REPLACED_ANNOTATION: hash,
        REPLACING_ANNOTATION: null,
        REPLACING_SINCE_ANNOTATION: null,
        REPLACE_ANNOTATION: null,
    });
    json!({ "metadata": { "uid": pod.uid.to_string(), "annotations": annotations } })
}

/// The merge patch that gives a pod which was changed in place the labels of its revision and of
/// its override, unless anything has changed since this version of it (C61, G56).
pub fn finish_change(
    pod: &PodReference,
    version: ResourceVersion,
    hash: &str,
    template_generation: Option<i64>,
    tag: Option<&str>,
) -> Value {
    let labels = json!({
        HASH_LABEL: hash,
        TEMPLATE_GENERATION_LABEL: template_generation.map(|it| it.to_string()),
        OVERRIDE_LABEL: tag,
    });
    let mut annotations = json!({ CHANGING_ANNOTATION: null, OVERRIDE_LABEL: tag });
    if tag.is_none() {
        annotations[OVERRIDDEN_ANNOTATION] = Value::Null;
    }
    json!({ "metadata": {
        "uid": pod.uid.to_string(),
        "resourceVersion": version.to_string(),
        "labels": labels,
        "annotations": annotations,
    } })
}

/// The merge patch that sets a revision's hash label (C42).
pub fn label_revision(revision: &RevisionReference, hash: &str) -> Value {
    let mut patch = of_revision(revision);
    patch["metadata"]["labels"] = json!({ HASH_LABEL: hash });
    patch
}

/// The merge patch that sets a revision's number, and its template generation if that is known
/// (C41, C42).
pub fn raise_revision(
    revision: &RevisionReference,
    number: i64,
    template_generation: Option<i64>,
) -> Value {
    let mut patch = of_revision(revision);
    patch["revision"] = number.into();
    if let Some(generation) = template_generation {
        patch["metadata"]["annotations"] =
            json!({ TEMPLATE_GENERATION_ANNOTATION: generation.to_string() });
    }
    patch
}

/// The merge patch that sets a revision's record (G8).
pub fn write_record(revision: &RevisionReference, record: &RolloutRecord) -> Value {
    let mut patch = of_revision(revision);
    patch["metadata"]["annotations"] =
        json!({ RECORD_ANNOTATION: record_text(record, Some(&revision.uid)) });
    patch
}

/// The immutable copy of a ConfigMap, which the DaemonSet owns (G58). Labels stay behind: somebody
/// may select by them what is to be pruned.
pub fn config_copy(owner: &Owner, source: &Value, new: &NewCopy) -> Value {
    let mut copy = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": new.name(),
            "namespace": owner.namespace,
            "annotations": { COPY_OF_ANNOTATION: &*new.source },
            "ownerReferences": [owner.reference()],
        },
        "immutable": true,
    });
    for field in ["data", "binaryData"] {
        if let Some(content) = source.get(field) {
            copy[field] = content.clone();
        }
    }
    copy
}

fn of_revision(revision: &RevisionReference) -> Value {
    json!({ "metadata": {
        "uid": revision.uid.to_string(),
        "resourceVersion": revision.resource_version.to_string(),
    } })
}

/// The ControllerRevision that stores a template, with the annotations of the DaemonSet. The result
/// is text, because the bytes of the data matter (C40, C41). A record and overrides come from this
/// program only, so annotations of the DaemonSet that look like them are left out (G8, G57).
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
    let own = [RECORD_ANNOTATION, OVERRIDES_ANNOTATION, CONFIG_ANNOTATION];
    let copied = annotations.iter().filter(|(key, _)| !own.contains(&key.as_str()));
    let mut copied: BTreeMap<_, _> =
        copied.map(|(key, value)| (key.as_str(), value.as_str())).collect();
    if let Some(overrides) = &new.overrides {
        copied.insert(OVERRIDES_ANNOTATION, overrides);
    }
    if let Some(copies) = &new.copies {
        copied.insert(CONFIG_ANNOTATION, copies);
    }
    if !copied.is_empty() {
        metadata["annotations"] = json!(copied);
    }
    let data =
        RawValue::from_string(data_of_template(template)).expect("go_json writes valid JSON");
    let revision = Revision {
        api_version: "apps/v1",
        kind: "ControllerRevision",
        metadata,
        data,
        revision: new.number,
    };
    serde_json::to_string(&revision).expect("all keys are strings")
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

/// The type of the condition that states what a guarded or paused rollout does (G21).
pub const PROGRESSING: &str = "Progressing";
/// The type of the condition that is true while it has failed.
const STALLED: &str = "Stalled";

/// The patch of the status subresource that sets all counts, and the conditions of a guarded or
/// paused rollout, or removes them if it has ended.
///
/// It contains no other conditions, which other controllers write, and no `collisionCount`:
/// repeating the patch after a conflict could undo an increase (C43, C70, G21). It is a merge patch
/// unless it has conditions; see [`has_conditions`].
pub fn status(uid: &Uid, resource_version: &str, status: &Status, ends_rollout: bool) -> Value {
    let mut body = json!({
        "observedGeneration": status.observed_generation,
        "desiredNumberScheduled": status.desired_number_scheduled,
        "currentNumberScheduled": status.current_number_scheduled,
        "numberMisscheduled": status.number_misscheduled,
        "numberReady": status.number_ready,
        "numberAvailable": status.number_available,
        "numberUnavailable": status.number_unavailable,
        "updatedNumberScheduled": status.updated_number_scheduled,
    });
    match &status.rollout {
        Some(rollout) => body["conditions"] = rollout_conditions(rollout),
        None if ends_rollout => body["conditions"] = no_conditions(),
        None => {}
    }
    json!({ "metadata": version(uid, resource_version), "status": body })
}

/// The strategic merge patch of the status subresource that sets the conditions of a guarded or
/// paused rollout and nothing else, or removes them (G20, G21). It depends on no other field, so it
/// has no resourceVersion.
pub fn conditions(uid: &Uid, rollout: Option<&RolloutCondition>) -> Value {
    let conditions = rollout.map_or_else(no_conditions, rollout_conditions);
    json!({ "metadata": { "uid": uid.to_string() }, "status": { "conditions": conditions } })
}

/// The strategic merge patch of a DaemonSet that restores the template of a revision. `data` is
/// that of the revision, in which the template says that it replaces another one.
pub fn undo(uid: &str, data: &Value) -> Value {
    let mut patch = data.clone();
    patch["metadata"] = json!({ "uid": uid });
    patch
}

/// The patch that rolls a failed attempt back: the same, if the DaemonSet is still of this version,
/// and with the annotation that names the attempt (G20).
pub fn roll_back(uid: &Uid, resource_version: &str, data: &Value, attempt: &str) -> Value {
    let mut patch = undo(&uid.to_string(), data);
    patch["metadata"]["resourceVersion"] = resource_version.into();
    patch["metadata"]["annotations"] = json!({ ROLLED_BACK_ANNOTATION: attempt });
    patch
}

/// True if a patch of the status is a strategic merge patch: its list of conditions leaves those of
/// other types alone.
pub fn has_conditions(patch: &Value) -> bool {
    patch.pointer("/status/conditions").is_some()
}

fn rollout_conditions(rollout: &RolloutCondition) -> Value {
    let condition = |r#type: &str, status: &str| {
        json!({
            "type": r#type,
            "status": status,
            "reason": rollout.reason.as_str(),
            "message": &*rollout.message,
            "lastTransitionTime": time_text(rollout.since),
        })
    };
    let stalled =
        if rollout.reason.is_stalled() { condition(STALLED, "True") } else { gone(STALLED) };
    json!([condition(PROGRESSING, rollout.reason.status()), stalled])
}

fn no_conditions() -> Value {
    json!([gone(PROGRESSING), gone(STALLED)])
}

fn gone(r#type: &str) -> Value {
    json!({ "$patch": "delete", "type": r#type })
}

/// The merge patch of the status subresource that sets `collisionCount` (C43).
pub fn collision_count(uid: &Uid, resource_version: &str, count: i32) -> Value {
    json!({ "metadata": version(uid, resource_version), "status": { "collisionCount": count } })
}

/// The merge patch of a policy object's status (G21). Only this controller writes it.
pub fn policy_status(uid: &Uid, status: &PolicyStatus) -> Value {
    json!({ "metadata": { "uid": uid.to_string() }, "status": status })
}

fn version(uid: &Uid, resource_version: &str) -> Value {
    json!({ "uid": uid.to_string(), "resourceVersion": resource_version })
}

/// The options of a deletion, with the UID as precondition: no other object of the same name is
/// deleted (C61).
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
    use everynode_core::api::{RolloutReason, Timestamp};

    const OWNER_UID: &str = "11111111-2222-3333-4444-555555555555";

    fn with_owner<T>(f: impl FnOnce(&Owner) -> T) -> T {
        let uid = Uid::new(OWNER_UID);
        f(&Owner { namespace: "logging", name: "fluentd", uid: &uid })
    }

    /// C61, G56, G57: a pod that has changed since its change in place was done does not get the
    /// labels of the revision and the override. Those of an older revision have no template
    /// generation.
    #[test]
    fn the_end_of_a_change_contains_the_version() {
        let pod = PodReference { name: "p".into(), uid: Uid::new("u"), node: None };
        for (generation, tag) in [(Some(3), Some("big-1")), (None, None)] {
            let mut expected = json!({ "metadata": {
                "uid": "u",
                "resourceVersion": "7",
                "labels": {
                    "controller-revision-hash": "h2",
                    "pod-template-generation": generation.map(|it: i64| it.to_string()),
                    "everynode.dev/override": tag,
                },
                "annotations": { "everynode.dev/changing": null, "everynode.dev/override": tag },
            } });
            if tag.is_none() {
                expected["metadata"]["annotations"]["everynode.dev/overridden"] = Value::Null;
            }
            let patch = finish_change(&pod, ResourceVersion(7), "h2", generation, tag);
            assert_eq!(patch, expected);
        }
    }

    /// C21: adoption and release contain the UID of the patched object.
    #[test]
    fn adoption_and_release_contain_the_uid() {
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

    /// C2, C40, C41, G57: a new revision has the template's labels and the DaemonSet's annotations.
    /// Its data is encoded as in Go and keeps unknown fields.
    #[test]
    fn a_revision_stores_the_template_as_go_encodes_it() {
        let template = json!({
            "metadata": { "labels": { "app": "f" } },
            "spec": { "z": "<&>", "invented": { "b": 1, "a": null } },
        });
        let new = NewRevision {
            name: "fluentd-abc".into(),
            hash: "abc".into(),
            number: 3,
            overrides: None,
            copies: None,
            collision_count: None,
        };
        let note = ("note".to_owned(), "<x>".to_owned());
        let forged = (RECORD_ANNOTATION.to_owned(), "{}".to_owned());
        let forged_overrides = (OVERRIDES_ANNOTATION.to_owned(), "[]".to_owned());
        let annotations = BTreeMap::from([note, forged, forged_overrides]);
        let text = with_owner(|owner| revision(owner, &template, &annotations, &new));
        assert!(
            text.contains(concat!(
                r#""data":{"spec":{"template":{"$patch":"replace","#,
                r#""metadata":{"labels":{"app":"f"}},"#,
                r#""spec":{"invented":{"a":null,"b":1},"z":"\u003c\u0026\u003e"}}}}"#,
            )),
            "{text}"
        );
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["revision"], 3);
        assert_eq!(value["metadata"]["name"], "fluentd-abc");
        assert_eq!(value["metadata"]["labels"], json!({ "app": "f", HASH_LABEL: "abc" }));
        assert_eq!(value["metadata"]["annotations"], json!({ "note": "<x>" }));
        let with_overrides = NewRevision { overrides: Some("[1]".into()), ..new };
        let text = with_owner(|owner| revision(owner, &template, &annotations, &with_overrides));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["metadata"]["annotations"][OVERRIDES_ANNOTATION], "[1]", "G57");
    }

    /// C43, C70, G2: a status patch contains all counts, even zero, but no conditions and no
    /// collision count.
    #[test]
    fn a_status_patch_contains_no_conditions_and_no_collision_count() {
        let counts = Status { number_ready: 3, collision_count: Some(1), ..Status::default() };
        let patch = status(&Uid::new("u"), "42", &counts, false);
        assert_eq!(patch["metadata"], json!({ "uid": "u", "resourceVersion": "42" }));
        assert_eq!(patch["status"]["numberReady"], 3);
        assert_eq!(patch["status"]["numberUnavailable"], 0);
        assert_eq!(patch["status"].get("conditions"), None);
        assert_eq!(patch["status"].get("collisionCount"), None);
    }

    /// G21: the conditions of a rollout are set, and removed, by their types, so that conditions of
    /// other types stay.
    #[test]
    fn the_conditions_of_a_rollout_are_patched_by_their_types() {
        let rollout = |reason| RolloutCondition {
            reason,
            message: "why".into(),
            since: Timestamp::from_seconds(60),
        };
        let conditions = |rollout: Option<RolloutCondition>, ends_rollout| {
            let status = Status { rollout, ..Status::default() };
            let patch = super::status(&Uid::new("u"), "42", &status, ends_rollout);
            assert!(has_conditions(&patch));
            patch["status"]["conditions"].clone()
        };
        let paused = conditions(Some(rollout(RolloutReason::Paused)), false);
        let stalled_gone = json!({ "$patch": "delete", "type": "Stalled" });
        let expected = json!({ "type": "Progressing", "status": "Unknown", "reason": "Paused",
            "message": "why", "lastTransitionTime": "1970-01-01T00:01:00Z" });
        assert_eq!(paused, json!([expected, stalled_gone]));
        let failed = conditions(Some(rollout(RolloutReason::Failed)), false);
        assert_eq!([&failed[0]["status"], &failed[1]["status"]], ["False", "True"]);
        let progressing_gone = json!({ "$patch": "delete", "type": "Progressing" });
        assert_eq!(conditions(None, true), json!([progressing_gone, stalled_gone]));
        // Beside the built-in controller the patch has nothing else, and no resourceVersion.
        let alone = super::conditions(&Uid::new("u"), None);
        let expected = json!([progressing_gone, stalled_gone]);
        let metadata = json!({ "uid": "u" });
        assert_eq!(alone, json!({ "metadata": metadata, "status": { "conditions": expected } }));
        let alone = super::conditions(&Uid::new("u"), Some(&rollout(RolloutReason::Failed)));
        assert!(has_conditions(&alone));
        assert_eq!(alone["status"]["conditions"], failed);
    }

    /// G20: rolling back restores the template of the revision as `undo` does, of this version of
    /// the DaemonSet only, and names the attempt in the same patch.
    #[test]
    fn rolling_back_names_the_attempt_and_the_version() {
        let data = json!({ "spec": { "template": { "$patch": "replace", "spec": { "a": {} } } } });
        let undo = super::undo("u", &data);
        assert_eq!(undo, json!({ "metadata": { "uid": "u" }, "spec": data["spec"] }));
        let patch = roll_back(&Uid::new("u"), "7", &data, "hash 60");
        let annotations = json!({ "everynode.dev/rolled-back": "hash 60" });
        let metadata = json!({ "uid": "u", "resourceVersion": "7", "annotations": annotations });
        assert_eq!(patch, json!({ "metadata": metadata, "spec": data["spec"] }));
    }

    /// C61: deletions contain the UID as precondition.
    #[test]
    fn deletions_contain_the_uid() {
        assert_eq!(delete_options(&Uid::new("u"))["preconditions"], json!({ "uid": "u" }));
    }
}
