//! The metadata of all kinds.

use std::collections::BTreeMap;
use std::time::Duration;

use everynode_core::api::Timestamp;
use everynode_sandbox::json::Value;

/// The label with the hash of a pod's revision, or of the revision itself (C30, C40).
pub(in crate::checker) const HASH_LABEL: &str = "controller-revision-hash";
/// The label with a pod's template generation (C30).
pub(in crate::checker) const GENERATION_LABEL: &str = "pod-template-generation";

/// The metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Metadata {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// The owner that is marked as controller.
    pub controller: Option<Controller>,
    /// `creationTimestamp`, which sorts by time.
    pub created: String,
    pub is_terminating: bool,
    /// When the deletion was requested.
    pub deleted_at: Option<Timestamp>,
}

/// A reference to the controller of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Controller {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

impl Metadata {
    pub(super) fn parse(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let controller = owners.into_iter().find(|owner| owner["controller"] == true);
        Self {
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            labels: texts(&metadata["labels"]),
            controller: controller.map(|owner| Controller {
                kind: text(&owner["kind"]),
                name: text(&owner["name"]),
                uid: text(&owner["uid"]),
            }),
            created: text(&metadata["creationTimestamp"]),
            is_terminating: metadata["deletionTimestamp"].is_string(),
            deleted_at: time(&text(&metadata["deletionTimestamp"])).map(|at| {
                let grace = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or_default();
                at - Duration::from_secs(grace)
            }),
        }
    }

    /// Whether the object with this UID is the controller.
    pub(in crate::checker) fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.uid == uid)
    }

    /// The value of the hash label.
    pub(in crate::checker) fn hash(&self) -> Option<&str> {
        self.labels.get(HASH_LABEL).map(String::as_str)
    }

    /// The hash of a revision's pods: its label or, while that is missing, its name, which the
    /// label is then written from (C42).
    pub(in crate::checker) fn pod_hash(&self) -> &str {
        self.hash().unwrap_or(&self.name)
    }
}

/// The text of a JSON string; empty for anything else.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The members of a JSON object that are strings.
pub(super) fn texts(value: &Value) -> BTreeMap<String, String> {
    let members = value.as_object().into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned()))).collect()
}

/// Parses a time such as `2026-01-01T00:00:00Z`.
pub(super) fn time(text: &str) -> Option<Timestamp> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    // The year begins in March, so that a leap day is its last day.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    let seconds = (number(11..13)? * 60 + number(14..16)?) * 60 + number(17..19)?;
    Some(Timestamp((days * 86_400 + seconds) * 1000))
}
