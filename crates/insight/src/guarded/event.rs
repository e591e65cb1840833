//! The course of guarded rollouts for people: what happened when, who ordered it and why (G49).

use std::collections::BTreeMap;

use everynode_core::api::{
    Attribution, CourseEvent, CourseEventKind, PAUSE_REASON_ANNOTATION, PAUSED_ANNOTATION,
    RolloutRecord, Timestamp, WaveName,
};
use everynode_k8s::convert::attribution;
use everynode_k8s::record::{self, time_text};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// An event in the course of a guarded rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutEvent {
    /// When it happened.
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String")]
    pub time: Timestamp,
    /// What happened: `Adopted`, `Begun`, `WaveUpdated`, `WaveBegun`, `Failed`, `GoingBack`,
    /// `Completed` or `Superseded`; by an order `Approved`, `Promoted`, `PromotedInFull`, `Aborted`
    /// or `Retried`; `Paused` or `Resumed`.
    #[schemars(with = "String")]
    pub event: EventKind,
    /// The hash of the revision that was rolled out; absent for a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The wave that it is about; absent if it is about all nodes or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<String>,
    /// The user who ordered it, as the command claims that gave the order; absent if none is
    /// stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The person's reason for an order, or the cause of a failure; absent if none is stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum EventKind {
    /// Somebody paused the rollout.
    Paused,
    /// Somebody resumed it.
    Resumed,
    /// An event that a record states.
    #[serde(untagged)]
    Recorded(CourseEventKind),
}

impl RolloutEvent {
    pub(super) fn recorded(event: &CourseEvent, revision: Option<&str>) -> Self {
        let kind = EventKind::Recorded(event.kind);
        let wave = event.wave.as_ref().map(WaveName::to_string);
        Self {
            revision: revision.map(ToOwned::to_owned),
            wave,
            ..Self::new(event.at, kind, &event.attribution)
        }
    }

    /// The last pause, or its end, if the annotations of the DaemonSet say who gave it or why.
    /// What they say of a pause while there is none is about an earlier one.
    pub(super) fn of_pause(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let (order, attribution) = attribution(annotations.get(PAUSE_REASON_ANNOTATION)?)?;
        let is_paused = annotations.get(PAUSED_ANNOTATION).is_some_and(|value| value != "false");
        let (kind, time) = match order.split_once(' ')? {
            ("pause", time) if is_paused => (EventKind::Paused, time),
            ("resume", time) if !is_paused => (EventKind::Resumed, time),
            _ => return None,
        };
        Some(Self::new(record::time(time).ok()?, kind, &attribution))
    }

    fn new(time: Timestamp, event: EventKind, attribution: &Attribution) -> Self {
        let Attribution { user, reason } = attribution;
        let [user, reason] = [user, reason].map(|text| text.as_deref().map(ToOwned::to_owned));
        Self { time, event, revision: None, wave: None, user, reason }
    }

    /// The order in words, such as `approved canary`; `None` if nobody ordered it.
    pub fn order(&self) -> Option<String> {
        match self.event {
            EventKind::Recorded(kind) => words(kind, self.wave.as_deref()),
            EventKind::Paused => Some("paused".to_owned()),
            EventKind::Resumed => Some("resumed".to_owned()),
        }
    }
}

/// The last order that a record states with its user or reason, in one clause.
pub fn last_order(record: &RolloutRecord) -> Option<String> {
    let last = record.course.last_order()?;
    let words = words(last.kind, last.wave.as_ref().map(WaveName::as_str))?;
    let is_stated = last.attribution != Attribution::default();
    is_stated.then(|| format!("{words}{}", last.attribution))
}

/// The words for an order.
fn words(kind: CourseEventKind, wave: Option<&str>) -> Option<String> {
    let wave = wave.unwrap_or_default();
    match kind {
        CourseEventKind::Approved => Some(format!("approved {wave}")),
        CourseEventKind::Promoted => Some(format!("promoted past {wave}")),
        CourseEventKind::PromotedInFull => Some("promoted to all nodes".to_owned()),
        CourseEventKind::Aborted => Some("aborted".to_owned()),
        CourseEventKind::Retried => Some("retried".to_owned()),
        CourseEventKind::Adopted
        | CourseEventKind::Begun
        | CourseEventKind::WaveUpdated
        | CourseEventKind::WaveBegun
        | CourseEventKind::Failed
        | CourseEventKind::GoingBack
        | CourseEventKind::Completed
        | CourseEventKind::Superseded => None,
    }
}

fn serialize_time<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&time_text(*time))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G49: who paused or resumed a rollout is known while the annotation of the pause agrees.
    #[test]
    fn a_pause_is_attributed_while_it_lasts() {
        let of = |paused: Option<&str>, stated: &str| {
            let paused = paused.map(|value| (PAUSED_ANNOTATION.to_owned(), value.to_owned()));
            let stated = (PAUSE_REASON_ANNOTATION.to_owned(), stated.to_owned());
            RolloutEvent::of_pause(&paused.into_iter().chain([stated]).collect())
        };
        let paused = r#"{"order":"pause 2026-01-01T00:00:00.5Z","user":"alice","reason":"outage"}"#;
        let resumed = r#"{"order":"resume 2026-01-01T00:00:00Z","reason":"it is over"}"#;
        let event = of(Some("true"), paused).expect("it is paused");
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"time":"2026-01-01T00:00:00.5Z","event":"Paused","user":"alice","reason":"outage"}"#
        );
        assert_eq!(event.order().as_deref(), Some("paused"));
        let event = of(None, resumed).expect("it is resumed");
        assert_eq!((event.event, event.user), (EventKind::Resumed, None));
        assert_eq!(of(None, paused), None);
        assert_eq!(of(Some("true"), resumed), None);
        for bad in ["", "{}", r#"{"order":"pause"}"#, r#"{"order":"pause now"}"#] {
            assert_eq!(of(Some("true"), bad), None, "{bad}");
        }
    }
}
