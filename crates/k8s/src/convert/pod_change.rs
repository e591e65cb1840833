//! Changes of pods in place (G56): how far a kubelet is, by what the pod states of its containers
//! before the change and since.

use bytes::Bytes;
use everynode_core::api::{
    CHANGED_ANNOTATION, CHANGING_ANNOTATION, ChangeGoal, ChangeState, PodChange, Readiness,
    Timestamp,
};
use prost::Message;
use serde::Deserialize;

use super::resource_version;
use super::wire::{Text, Time, text, timestamp};
use crate::in_place::{ChangeStatement, ChangedStatement};
use crate::json_path::read_first;
use crate::protobuf;

/// The annotations of a pod about its change in place.
#[derive(Default)]
pub(super) struct Stated {
    change: Option<ChangeStatement>,
    changed: Option<ChangedStatement>,
}

/// A pod that was changed in place, or is being changed.
#[derive(Default)]
pub(super) struct Changed {
    /// The change that is under way.
    pub change: Option<Box<PodChange>>,
    /// True if it was changed before.
    pub was_changed: bool,
    /// When the last change of more than its override began.
    pub at: Option<Timestamp>,
    /// The restarts of containers since, without those that the change has caused.
    restarts: u8,
    /// When the last of its containers started.
    started: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta<'a> {
    generation: Option<i64>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus<'a> {
    observed_generation: Option<i64>,
    #[serde(borrow)]
    conditions: Option<Vec<WireCondition<'a>>>,
    #[serde(borrow)]
    container_statuses: Option<Vec<WireContainer<'a>>>,
    #[serde(borrow)]
    init_container_statuses: Option<Vec<WireContainer<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCondition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    status: Option<Text<'a>>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    #[serde(borrow)]
    last_transition_time: Option<Time<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireContainer<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow, rename = "containerID")]
    container_id: Option<Text<'a>>,
    #[serde(default)]
    restart_count: i64,
    #[serde(borrow)]
    state: Option<WireState<'a>>,
}

#[derive(Deserialize)]
struct WireState<'a> {
    #[serde(borrow)]
    running: Option<WireRunning<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRunning<'a> {
    #[serde(borrow)]
    started_at: Option<Time<'a>>,
}

impl Stated {
    /// Those of these annotations; `None` without one. Malformed values count as none.
    pub(super) fn of<'a>(annotations: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let mut stated = Self::default();
        for (key, value) in annotations {
            match key {
                CHANGING_ANNOTATION => stated.change = serde_json::from_str(value).ok(),
                CHANGED_ANNOTATION => stated.changed = serde_json::from_str(value).ok(),
                _ => {}
            }
        }
        (stated.change.is_some() || stated.changed.is_some()).then_some(stated)
    }

    /// The change of the pod with this JSON.
    pub(super) fn of_json(self, json: &str) -> Changed {
        let metadata: Option<Option<WireMeta>> = read_first(json, &["metadata"]).ok().flatten();
        let status: Option<Option<WireStatus>> = read_first(json, &["status"]).ok().flatten();
        self.changed(&metadata.flatten().unwrap_or_default(), &status.flatten().unwrap_or_default())
    }

    /// The same of the protobuf messages of its metadata and status.
    pub(super) fn of_protobuf(
        self,
        metadata: Bytes,
        status: Bytes,
    ) -> Result<Changed, prost::DecodeError> {
        let metadata = protobuf::ChangedMeta::decode(metadata)?;
        let status = protobuf::ChangedPodStatus::decode(status)?;
        Ok(self.changed(&(&metadata).into(), &(&status).into()))
    }

    fn changed(self, metadata: &WireMeta<'_>, status: &WireStatus<'_>) -> Changed {
        let change = self.change.map(|stated| {
            Box::new(PodChange {
                state: status.state(&stated, metadata.generation.unwrap_or(0)),
                version: resource_version(text(metadata.resource_version.as_ref())),
                to: ChangeGoal {
                    hash: stated.to.as_str().into(),
                    tag: stated.tag.as_deref().map(Into::into),
                },
                since: timestamp(&stated.since).unwrap_or(Timestamp(0)),
            })
        });
        let was_changed = self.changed.is_some();
        let changed = self.changed.unwrap_or_default();
        let (before, since_text) = (changed.restarts, changed.since);
        let since = |it: &WireContainer<'_>| {
            it.restart_count - before.get(text(it.name.as_ref())).copied().unwrap_or(0)
        };
        let restarts = status.containers().map(since).max().unwrap_or(0).max(0);
        let started = status.containers().filter_map(WireContainer::started).max();
        let restarts = u8::try_from(restarts).unwrap_or(u8::MAX);
        Changed { change, was_changed, at: timestamp(&since_text), restarts, started }
    }
}

impl Changed {
    /// The restarts that count for a rollout (G34).
    pub(super) const fn restarts(&self) -> u8 {
        self.restarts
    }

    /// Since when the pod is ready. A container that starts anew within a second may not make it
    /// unready in between.
    pub(super) fn readiness(&self, stated: Readiness) -> Readiness {
        match (stated, self.started) {
            (Readiness::ReadySince(since), Some(at)) => Readiness::ReadySince(since.max(at)),
            (stated, _) => stated,
        }
    }
}

impl WireStatus<'_> {
    fn containers(&self) -> impl Iterator<Item = &WireContainer<'_>> {
        self.container_statuses.iter().chain(&self.init_container_statuses).flatten()
    }

    /// How far the kubelet is with the change that is stated.
    fn state(&self, stated: &ChangeStatement, generation: i64) -> ChangeState {
        // A generation of zero is none, as protobuf has it.
        if self.observed_generation.unwrap_or(0) < generation.max(1) {
            return ChangeState::UnderWay;
        }
        if stated.resizes {
            if let Some(pending) = self.condition("PodResizePending") {
                return match text(pending.reason.as_ref()) {
                    "Infeasible" => ChangeState::ResizeInfeasible,
                    _ => ChangeState::ResizeDeferred { since: pending.since() },
                };
            }
            if let Some(in_progress) = self.condition("PodResizeInProgress") {
                return match text(in_progress.reason.as_ref()) {
                    "Error" => ChangeState::ResizeFails { since: in_progress.since() },
                    _ => ChangeState::UnderWay,
                };
            }
        }
        let runs_anew = |(name, before): (&String, &String)| {
            let mut containers = self.containers();
            let container = containers.find(|it| text(it.name.as_ref()) == name);
            container.is_some_and(|it| it.runs() && text(it.container_id.as_ref()) != before)
        };
        match stated.containers.iter().all(runs_anew) {
            true => ChangeState::Done,
            false => ChangeState::UnderWay,
        }
    }

    /// The condition of this type, if it is true.
    fn condition(&self, kind: &str) -> Option<&WireCondition<'_>> {
        let mut conditions = self.conditions.iter().flatten();
        conditions.find(|it| text(it.kind.as_ref()) == kind && text(it.status.as_ref()) == "True")
    }
}

impl WireCondition<'_> {
    /// Since when; the change itself says so if this does not.
    fn since(&self) -> Timestamp {
        let since = self.last_transition_time.as_ref().and_then(Time::timestamp);
        since.unwrap_or(Timestamp(0))
    }
}

impl WireContainer<'_> {
    fn runs(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.running.is_some())
    }

    fn started(&self) -> Option<Timestamp> {
        self.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.timestamp()
    }
}

impl<'a> From<&'a protobuf::ChangedMeta> for WireMeta<'a> {
    fn from(message: &'a protobuf::ChangedMeta) -> Self {
        let resource_version = Text::of_field(&message.resource_version);
        Self { generation: Some(message.generation), resource_version }
    }
}

impl<'a> From<&'a protobuf::ChangedPodStatus> for WireStatus<'a> {
    fn from(message: &'a protobuf::ChangedPodStatus) -> Self {
        let containers = |messages: &'a [protobuf::ChangedContainer]| {
            Some(messages.iter().map(Into::into).collect())
        };
        let conditions = message.conditions.iter().map(|it| WireCondition {
            kind: Text::of_field(&it.kind),
            status: Text::of_field(&it.status),
            reason: Text::of_field(&it.reason),
            last_transition_time: Time::of_field(it.last_transition_time),
        });
        Self {
            observed_generation: Some(message.observed_generation),
            conditions: Some(conditions.collect()),
            container_statuses: containers(&message.container_statuses),
            init_container_statuses: containers(&message.init_container_statuses),
        }
    }
}

impl<'a> From<&'a protobuf::ChangedContainer> for WireContainer<'a> {
    fn from(message: &'a protobuf::ChangedContainer) -> Self {
        let running = message.state.as_ref().and_then(|state| state.running.as_ref());
        let running = running.map(|it| WireRunning { started_at: Time::of_field(it.started_at) });
        Self {
            name: Text::of_field(&message.name),
            container_id: Text::of_field(&message.container_id),
            restart_count: message.restart_count.into(),
            state: Some(WireState { running }),
        }
    }
}

#[cfg(test)]
mod tests;
