//! The metadata of all kinds.

use std::collections::BTreeMap;
use std::time::Duration;

use everynode_core::api::{HASH_LABEL, Timestamp};
use everynode_sandbox::json::Value;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

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

    /// True if the object with this UID is the controller.
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
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(time.as_millisecond()))
}

/// Decodes such a time.
pub(super) fn at<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    time(&String::deserialize(from)?).ok_or_else(|| Error::custom("is not a time"))
}

/// A duration such as `30s` or `10m`, in milliseconds. The simulated users write no other unit.
pub(super) fn duration<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<i64>,
{
    let text = String::deserialize(from)?;
    let number = |unit| text.strip_suffix(unit)?.parse::<i64>().ok();
    let seconds = number('s').or_else(|| Some(number('m')? * 60));
    seconds.map(|it| (it * 1000).into()).ok_or_else(|| Error::custom("is not a duration"))
}
