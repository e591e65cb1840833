//! The revisions of a DaemonSet: which one is current, how many pods each has, and which one to
//! roll back to.
//!
//! As in the controller, the current revision is the one whose template has the same meaning as the
//! DaemonSet's (C41). Hashes are compared, but never computed again.

mod change_cause;

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{
    HASH_LABEL, RECORD_ANNOTATION, RolloutPhase, RolloutRecord, TEMPLATE_GENERATION_ANNOTATION,
    Timestamp,
};
use everynode_k8s::canonical::canonical;
use everynode_k8s::convert::timestamp;
use everynode_k8s::record::{record_state, record_text};
use everynode_k8s::revision_data;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::age;
use crate::json_type::AnyObject;
use change_cause::{CHANGE_CAUSE_ANNOTATION, Manager};

pub use change_cause::ChangeCause;

/// The fields of a ControllerRevision that a history needs, as the API server writes them.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredRevision {
    metadata: Metadata,
    #[serde(default)]
    revision: i64,
    #[serde(default)]
    data: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    uid: String,
    creation_timestamp: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Option<Vec<OwnerReference>>,
    #[serde(default)]
    managed_fields: Option<Vec<Manager>>,
}

#[derive(Clone, Debug, Deserialize)]
struct OwnerReference {
    uid: String,
    #[serde(default)]
    controller: Option<bool>,
}

/// One revision in the history of a DaemonSet.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionEntry {
    /// The revision's number.
    pub revision: i64,
    /// The name of the ControllerRevision.
    pub name: String,
    /// The value of its label `controller-revision-hash`; absent without the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Whether the revision stores the DaemonSet's current template.
    pub current: bool,
    /// `metadata.creationTimestamp` of the ControllerRevision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// The annotation `kubernetes.io/change-cause`: of the revision, or else of its template; of
    /// the current revision that of the DaemonSet, if somebody has set it since. Absent without
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_cause: Option<String>,
    /// The record of its guarded rollout; absent if it has none, or one that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize_record")]
    #[schemars(with = "Option<RecordDocument>")]
    pub rollout: Option<Arc<RolloutRecord>>,
    /// The number of pods of this revision; absent if pods could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<usize>,
    /// The pod template, without the defaults that only some versions write; `null` if the revision
    /// stores none.
    #[schemars(with = "Option<AnyObject>")]
    pub template: Option<Value>,
    /// The strategic merge patch that restores the template.
    #[serde(skip)]
    pub data: Value,
    /// When it became the current one, as far as that is known.
    #[serde(skip)]
    current_since: Option<Timestamp>,
}

/// The record of a guarded rollout, which the controller keeps in an annotation of the revision.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutRecord")]
struct RecordDocument {
    /// `Pending`, `Updating`, `Baking`, `Complete`, `Failed` or `Superseded`.
    phase: String,
    /// The wave that the rollout is at; absent after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    wave: Option<WaveDocument>,
    /// When the rollout began.
    began: String,
    /// When its phase began.
    since: String,
    /// The names of the approved waves.
    #[serde(default)]
    approvals: Vec<String>,
    /// A hash of the steps of its policy.
    steps: String,
    /// The last order that it has carried out; absent if it has carried out none.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<String>,
    /// Why it has left its waves; absent if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Which check has failed, what it asked, and what was answered; absent if none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The first nodes by which it has failed, at most ten; absent if it has not by nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failed_nodes: Vec<FailedNodeDocument>,
    /// The number of the others; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_failed_nodes: Option<usize>,
}

/// A node by which a rollout has failed.
#[derive(Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "FailedNode")]
struct FailedNodeDocument {
    /// Its name.
    node: String,
    /// The name of its new pod; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    /// What the containers of the pod stated when the rollout failed; absent if they stated
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

/// A wave in the record of a guarded rollout.
#[derive(Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "RecordedWave")]
struct WaveDocument {
    /// The index of its step in the policy, from 0.
    step: usize,
    /// The value of the step's label; absent for the nodes without the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The index of its size in the step, from 0.
    size: usize,
}

/// Why a revision was not found. The messages start as kubectl's do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevisionNotFound {
    /// There is no other revision.
    #[error("no last revision to roll back to")]
    NoPrevious,
    /// No other revision stores another template than the current one.
    #[error(
        "no last revision to roll back to: all have the present template; overrides and copies of \
         ConfigMaps come from the policy"
    )]
    SameTemplate,
    /// No revision has the given number.
    #[error("unable to find specified revision {number} in history: {}", list(.existing))]
    NoSuchNumber {
        /// The number that was asked for.
        number: i64,
        /// The numbers of the revisions that exist.
        existing: Vec<i64>,
    },
}

fn list(numbers: &[i64]) -> String {
    if numbers.is_empty() {
        return "it is empty".to_owned();
    }
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    format!("it has {}", numbers.join(", "))
}

/// The parts of a DaemonSet that its history depends on.
pub struct Stated<'a> {
    /// Its UID.
    pub uid: &'a str,
    /// Its template.
    pub template: &'a Value,
    /// Its template generation, from the annotation.
    pub template_generation: Option<&'a str>,
    /// Its change cause, from the annotation.
    pub cause: Option<&'a ChangeCause>,
}

/// The revisions of a DaemonSet, oldest first. `pods` maps hashes to numbers of pods.
pub fn history(
    stated: &Stated<'_>,
    revisions: Vec<StoredRevision>,
    pods: Option<&BTreeMap<String, usize>>,
) -> Vec<RevisionEntry> {
    let Stated { uid, template, template_generation, cause } = *stated;
    let current = canonical(template);
    let own = revisions.into_iter().filter(|revision| revision.is_controlled_by(uid));
    let mut own: Vec<StoredRevision> = own.collect();
    own.sort_by(|a, b| (a.revision, &a.metadata.name).cmp(&(b.revision, &b.metadata.name)));
    // The template may differ by a default that the API server has added (C41).
    let newest = own.len().checked_sub(1).filter(|&at| {
        template_generation.is_some() && own[at].template_generation() == template_generation
    });
    let mut entries: Vec<RevisionEntry> =
        own.into_iter().map(|revision| entry(revision, pods)).collect();
    // If two revisions store the template, the one with the higher number is current (C42).
    let stores =
        |entry: &RevisionEntry| entry.template.as_ref().is_some_and(|t| canonical(t) == current);
    if let Some(at) = entries.iter().rposition(stores).or(newest) {
        let entry = &mut entries[at];
        entry.current = true;
        if let Some(cause) = cause.filter(|cause| cause.is_later(entry.current_since)) {
            entry.change_cause = Some(cause.text.clone());
        }
    }
    entries
}

/// The revision with this number.
///
/// # Errors
/// [`RevisionNotFound::NoSuchNumber`] if there is none.
pub fn numbered(
    entries: &[RevisionEntry],
    number: i64,
) -> Result<&RevisionEntry, RevisionNotFound> {
    let found = entries.iter().rev().find(|entry| entry.revision == number);
    found.ok_or_else(|| RevisionNotFound::NoSuchNumber {
        number,
        existing: entries.iter().map(|entry| entry.revision).collect(),
    })
}

/// The revision to go back to: the one whose guarded rollout was completed last, unless another one
/// was rolled out without a guard since. Without any such record, or then, the newest one with
/// another template than the current one.
///
/// # Errors
/// [`RevisionNotFound::NoPrevious`] or [`RevisionNotFound::SameTemplate`] if there is none.
pub fn previous(entries: &[RevisionEntry]) -> Result<&RevisionEntry, RevisionNotFound> {
    let current =
        entries.iter().find(|entry| entry.current).and_then(|entry| entry.template.as_ref());
    let others = entries
        .iter()
        .rev()
        .filter(|entry| current.is_none() || entry.template.as_ref() != current);
    let others: Vec<_> = others.collect();
    let completed = |entry: &&&RevisionEntry| {
        let record = entry.rollout.as_ref()?;
        (record.phase == RolloutPhase::Complete).then_some(record.since)
    };
    let base = others.iter().filter(|entry| completed(entry).is_some()).max_by_key(completed);
    // A newer one without a record was rolled out without a guard since.
    let is_newer = |base: &RevisionEntry, entry: &RevisionEntry| {
        entry.revision > base.revision && entry.rollout.is_none()
    };
    let base = base.filter(|base| !others.iter().any(|entry| is_newer(base, entry)));
    let has_several = entries.len() > 1;
    base.or(others.first()).copied().ok_or(match has_several {
        true => RevisionNotFound::SameTemplate,
        false => RevisionNotFound::NoPrevious,
    })
}

impl StoredRevision {
    fn is_controlled_by(&self, uid: &str) -> bool {
        let owners = self.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.uid == uid && owner.controller == Some(true))
    }

    fn template_generation(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(TEMPLATE_GENERATION_ANNOTATION).map(String::as_str)
    }
}

impl RevisionEntry {
    /// The time since its creation, for people to read.
    pub fn age(&self, now: Timestamp) -> String {
        let created_at = self.creation_timestamp.as_deref().and_then(timestamp);
        let age = created_at.map(|at| age::duration(now.since(at).as_secs()));
        age.unwrap_or_else(|| "?".to_owned())
    }

    /// The images of the template's containers, init containers first.
    pub fn images(&self) -> Vec<&str> {
        let spec = self.template.as_ref().and_then(|template| template.get("spec"));
        let lists =
            ["initContainers", "containers"].map(|list| spec.and_then(|spec| spec.get(list)));
        let containers = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
        containers.filter_map(|container| container.get("image")?.as_str()).collect()
    }
}

fn serialize_record<S: Serializer>(
    record: &Option<Arc<RolloutRecord>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let read = |record: &Arc<RolloutRecord>| -> RecordDocument {
        serde_json::from_str(&record_text(record, None)).expect("a record is written as JSON")
    };
    record.as_ref().map(read).serialize(to)
}

fn entry(revision: StoredRevision, pods: Option<&BTreeMap<String, usize>>) -> RevisionEntry {
    let StoredRevision { metadata, revision, data } = revision;
    let mut annotations = metadata.annotations.unwrap_or_default();
    let record = annotations.get(RECORD_ANNOTATION).map(String::as_str);
    let uid = metadata.uid.as_str().into();
    let hash = metadata.labels.and_then(|mut labels| labels.remove(HASH_LABEL));
    let template = revision_data::template_of_data(&data).ok();
    let template: Option<Value> =
        template.map(|text| serde_json::from_str(&text).expect("the canonical form is JSON"));
    let rollout = record_state(record, &uid).stored().cloned();
    let written_at = change_cause::last(metadata.managed_fields.iter().flatten());
    let created_at = metadata.creation_timestamp.as_deref().and_then(timestamp);
    RevisionEntry {
        revision,
        current: false,
        creation_timestamp: metadata.creation_timestamp,
        // The record is written at each wave.
        current_since: rollout.as_ref().map(|it| it.began).or(written_at).or(created_at),
        rollout,
        change_cause: annotations
            .remove(CHANGE_CAUSE_ANNOTATION)
            .or_else(|| change_cause::of_template(template.as_ref()?)),
        pods: pods.map(|pods| hash.as_ref().and_then(|hash| pods.get(hash)).copied().unwrap_or(0)),
        template,
        name: metadata.name,
        hash,
        data,
    }
}

#[cfg(test)]
mod tests {
    use everynode_core::api::{Course, Position};

    use super::*;
    use serde_json::json;

    fn stated(template: &Value) -> Stated<'_> {
        Stated { uid: "u", template, template_generation: None, cause: None }
    }

    fn template(image: &str) -> Value {
        json!({ "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "image": image }] } })
    }

    fn revision(number: i64, owner: &str, data: Value) -> StoredRevision {
        let owners = json!([{ "kind": "DaemonSet", "uid": owner, "controller": true }]);
        let annotations = json!({ CHANGE_CAUSE_ANNOTATION: format!("cause {number}") });
        serde_json::from_value(json!({
            "metadata": { "name": format!("d-{number}"),
                "labels": { HASH_LABEL: format!("h{number}") },
                "annotations": annotations, "ownerReferences": owners },
            "revision": number,
            "data": data,
        }))
        .unwrap()
    }

    fn data(image: &str) -> Value {
        serde_json::from_str(&revision_data::data_of_template(&template(image))).unwrap()
    }

    fn numbers(entries: &[RevisionEntry]) -> Vec<(i64, bool)> {
        entries.iter().map(|entry| (entry.revision, entry.current)).collect()
    }

    /// C41: the current revision is the one whose template has the same meaning, whatever its
    /// number.
    #[test]
    fn the_current_revision_is_the_one_with_the_current_template() {
        let revisions = vec![
            revision(3, "u", data("v3")),
            revision(1, "u", data("v1")),
            revision(2, "u", data("v2")),
            revision(9, "other", data("v2")),
        ];
        let pods = BTreeMap::from([("h2".to_owned(), 5), ("h0".to_owned(), 1)]);
        let mut current = template("v2");
        current["metadata"]["creationTimestamp"] = Value::Null;
        let entries = history(&stated(&current), revisions, Some(&pods));
        assert_eq!(numbers(&entries), [(1, false), (2, true), (3, false)]);
        assert_eq!(entries[1].pods, Some(5));
        assert_eq!(entries[0].pods, Some(0));
        assert_eq!(entries[1].images(), ["v2"]);
        assert_eq!(entries[1].change_cause.as_deref(), Some("cause 2"));
        assert_eq!(previous(&entries).map(|entry| entry.revision), Ok(3));
        assert_eq!(numbered(&entries, 1).map(|entry| entry.name.as_str()), Ok("d-1"));
        let missing = numbered(&entries, 9).err().map(|missing| missing.to_string());
        let expected = "unable to find specified revision 9 in history: it has 1, 2, 3";
        assert_eq!(missing.as_deref(), Some(expected));
    }

    /// C41: the newest revision is current if the template has changed without a new generation.
    #[test]
    fn a_template_with_another_default_is_that_of_the_newest_revision() {
        let of_generation = |number| {
            let mut stored = revision(number, "u", data(&format!("v{number}")));
            let generation = (TEMPLATE_GENERATION_ANNOTATION.to_owned(), number.to_string());
            stored.metadata.annotations.get_or_insert_default().extend([generation]);
            stored
        };
        let of = |version: &str, generation: &str| {
            let template = template(version);
            let generation = Some(generation);
            let stated = Stated { template_generation: generation, ..stated(&template) };
            history(&stated, vec![of_generation(1), of_generation(2)], None)
        };
        let entries = of("v2+default", "2");
        assert_eq!(numbers(&entries), [(1, false), (2, true)]);
        let entries = of("v3", "3");
        assert_eq!(numbers(&entries), [(1, false), (2, false)]);
    }

    /// People set the annotation after `kubectl set image`, when the revision has a copy of the
    /// older one; one that was set before the template came back belongs to another revision.
    #[test]
    fn the_cause_is_the_one_that_was_set_for_the_revision() {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
        let of_daemon_set = |second| {
            let fields = json!({ "f:metadata": { "f:annotations": {
                format!("f:{CHANGE_CAUSE_ANNOTATION}"): {} } } });
            ChangeCause::of(&json!({ "annotations": { CHANGE_CAUSE_ANNOTATION: "set later" },
                "managedFields": [{ "time": at(second), "fieldsV1": fields },
                    { "time": at(59), "fieldsV1": { "f:spec": {} } }] }))
        };
        let cause = |written: u32, cause: Option<ChangeCause>| {
            let mut stored = revision(1, "u", data("v1"));
            let manager = json!([{ "time": at(written), "fieldsV1": {} }]);
            stored.metadata.managed_fields = serde_json::from_value(manager).unwrap();
            let template = template("v1");
            let stated = Stated { cause: cause.as_ref(), ..stated(&template) };
            history(&stated, vec![stored], None)[0].change_cause.clone()
        };
        assert_eq!(cause(10, of_daemon_set(20)).as_deref(), Some("set later"));
        assert_eq!(cause(30, of_daemon_set(20)).as_deref(), Some("cause 1"));
        assert_eq!(cause(10, None).as_deref(), Some("cause 1"));
    }

    #[test]
    fn a_cause_in_the_template_is_that_of_its_revision() {
        let mut with_cause = template("v1");
        with_cause["metadata"]["annotations"] = json!({ CHANGE_CAUSE_ANNOTATION: "why" });
        let text = revision_data::data_of_template(&with_cause);
        let mut stored = revision(1, "u", serde_json::from_str(&text).unwrap());
        stored.metadata.annotations = None;
        let entries = history(&stated(&with_cause), vec![stored], None);
        assert_eq!(entries[0].change_cause.as_deref(), Some("why"));
    }

    /// C42: a duplicate of the current template is no previous revision.
    #[test]
    fn there_is_nothing_before_the_only_template() {
        let twice = vec![revision(1, "u", data("v1")), revision(2, "u", data("v1"))];
        let entries = history(&stated(&template("v1")), twice, None);
        assert_eq!(numbers(&entries), [(1, false), (2, true)]);
        assert_eq!(entries[0].pods, None);
        assert_eq!(previous(&entries).err(), Some(RevisionNotFound::SameTemplate));
        let only = previous(&entries[1..]).err();
        assert_eq!(only, Some(RevisionNotFound::NoPrevious));
    }

    /// If no revision stores the template yet, the newest one is the previous one.
    #[test]
    fn the_newest_revision_comes_before_a_template_that_has_none() {
        let revisions = vec![revision(1, "u", data("v1")), revision(2, "u", data("v2"))];
        let entries = history(&stated(&template("v3")), revisions, None);
        assert_eq!(previous(&entries).map(|entry| entry.revision), Ok(2));
    }

    /// G22: the base comes before a guarded rollout; before one that came later without a guard,
    /// the newest revision.
    #[test]
    fn an_unguarded_rollout_is_no_reason_to_go_back_behind_it() {
        let template = template("v5");
        let of = |numbers: &[i64]| {
            let revisions =
                numbers.iter().map(|number| revision(*number, "u", data(&format!("v{number}"))));
            let mut entries = history(&stated(&template), revisions.collect(), None);
            let record = RolloutRecord {
                phase: RolloutPhase::Complete,
                position: Position::AllNodes,
                began: everynode_core::api::Timestamp(0),
                since: everynode_core::api::Timestamp(0),
                approvals: Vec::new(),
                steps_hash: "h".into(),
                order: None,
                reason: None,
                is_rolled_back: false,
                base: None,
                course: Course::default(),
            };
            let guarded = entries.iter_mut().filter(|entry| entry.revision <= 3);
            guarded.for_each(|entry| entry.rollout = Some(record.clone().into()));
            previous(&entries).map(|entry| entry.revision)
        };
        assert_eq!(of(&[3, 5]), Ok(3));
        assert_eq!(of(&[3, 4, 5]), Ok(4));
    }

    /// C4: a revision that stores no template is listed, but never current.
    #[test]
    fn a_revision_without_a_template_is_listed() {
        let entries =
            history(&stated(&template("v1")), vec![revision(1, "u", json!({ "spec": 3 }))], None);
        assert_eq!(numbers(&entries), [(1, false)]);
        assert_eq!(entries[0].template, None);
        assert!(entries[0].images().is_empty());
    }
}
