//! The records of guarded rollouts, as JSON in an annotation (G8).

use std::sync::Arc;

use everynode_core::api::{
    GroupValue, Position, RecordReason, RecordState, RolloutPhase, RolloutRecord, Timestamp,
    WaveName, WavePosition,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRecord {
    phase: Phase,
    /// Absent after the last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    wave: Option<WireWave>,
    began: String,
    since: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    approvals: Vec<String>,
    steps: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    /// Which check has failed, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
struct WireWave {
    step: usize,
    /// Absent for the nodes without the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Arc<str>>,
    size: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RolloutPhase")]
enum PhaseDef {
    Updating,
    Baking,
    Complete,
    Failed,
    Superseded,
}

#[derive(Serialize, Deserialize)]
struct Phase(#[serde(with = "PhaseDef")] RolloutPhase);

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Reason {
    Aborted,
    PromotedInFull,
    NodesFailed,
    NoProgress,
    CheckFailed,
}

impl Reason {
    /// The reason without its message, and that.
    fn parts(reason: &RecordReason) -> (Self, Option<Arc<str>>) {
        match reason {
            RecordReason::Aborted => (Self::Aborted, None),
            RecordReason::PromotedInFull => (Self::PromotedInFull, None),
            RecordReason::NodesFailed => (Self::NodesFailed, None),
            RecordReason::NoProgress => (Self::NoProgress, None),
            RecordReason::CheckFailed(why) => (Self::CheckFailed, Some(why.clone())),
        }
    }

    fn with_message(self, message: Option<Arc<str>>) -> RecordReason {
        match self {
            Self::Aborted => RecordReason::Aborted,
            Self::PromotedInFull => RecordReason::PromotedInFull,
            Self::NodesFailed => RecordReason::NodesFailed,
            Self::NoProgress => RecordReason::NoProgress,
            Self::CheckFailed => RecordReason::CheckFailed(message.unwrap_or_default()),
        }
    }
}

/// Decodes the value of the annotation, if there is one.
pub fn record_state(annotation: Option<&str>) -> RecordState {
    match annotation.map(read) {
        None => RecordState::None,
        Some(Ok(record)) => RecordState::Stored(record.into()),
        Some(Err(why)) => RecordState::Malformed(why.into()),
    }
}

/// The value of the annotation.
pub fn record_text(record: &RolloutRecord) -> String {
    let wave = match &record.position {
        Position::AllNodes => None,
        Position::Wave(wave) => Some(WireWave {
            step: wave.step,
            group: match &wave.group {
                GroupValue::Value(value) => Some(value.clone()),
                GroupValue::Unlabelled => None,
            },
            size: wave.size,
        }),
    };
    let (reason, message) = record.reason.as_ref().map(Reason::parts).unzip();
    let wire = WireRecord {
        phase: Phase(record.phase),
        wave,
        began: time_text(record.began),
        since: time_text(record.since),
        approvals: record.approvals.iter().map(|wave| wave.as_str().to_owned()).collect(),
        steps: record.steps_hash.clone(),
        order: record.order.clone(),
        reason,
        message: message.flatten(),
    };
    serde_json::to_string(&wire).expect("all keys are strings")
}

fn read(text: &str) -> Result<RolloutRecord, String> {
    let wire: WireRecord = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let time = |text: &String| {
        let time: Result<jiff::Timestamp, _> = text.parse();
        time.map(|time| Timestamp(time.as_millisecond())).map_err(|error| error.to_string())
    };
    Ok(RolloutRecord {
        phase: wire.phase.0,
        position: wire.wave.map_or(Position::AllNodes, |wave| {
            Position::Wave(WavePosition {
                step: wave.step,
                group: wave.group.map_or(GroupValue::Unlabelled, GroupValue::Value),
                size: wave.size,
            })
        }),
        began: time(&wire.began)?,
        since: time(&wire.since)?,
        approvals: wire.approvals.iter().map(|wave| WaveName::from(wave.as_str())).collect(),
        steps_hash: wire.steps,
        order: wire.order,
        reason: wire.reason.map(|reason| reason.with_message(wire.message)),
    })
}

/// The time as Kubernetes writes it.
pub fn time_text(time: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> RolloutRecord {
        RolloutRecord {
            phase: RolloutPhase::Baking,
            position: Position::Wave(WavePosition {
                step: 1,
                group: GroupValue::Value("eu-1".into()),
                size: 0,
            }),
            began: Timestamp::from_seconds(60),
            since: Timestamp::from_seconds(90),
            approvals: vec!["canary".into()],
            steps_hash: "5d4f".into(),
            order: Some("approve 8c canary now".into()),
            reason: None,
        }
    }

    /// G8: a record is read as it is written.
    #[test]
    fn a_record_is_read_as_it_is_written() {
        let baking = record();
        let failed = RolloutRecord {
            phase: RolloutPhase::Failed,
            position: Position::AllNodes,
            approvals: Vec::new(),
            order: None,
            reason: Some(RecordReason::Aborted),
            ..record()
        };
        let unlabelled = RolloutRecord {
            position: Position::Wave(WavePosition {
                step: 0,
                group: GroupValue::Unlabelled,
                size: 2,
            }),
            ..record()
        };
        let why = "check errors: 0.5 is above max 0.01 (e at http://p)";
        let checked =
            RolloutRecord { reason: Some(RecordReason::CheckFailed(why.into())), ..failed.clone() };
        assert!(
            record_text(&checked)
                .ends_with(&format!("\"reason\":\"CheckFailed\",\"message\":\"{why}\"}}"))
        );
        for record in [baking, failed, unlabelled, checked] {
            let text = record_text(&record);
            assert_eq!(record_state(Some(&text)), RecordState::Stored(record.into()), "{text}");
        }
        assert_eq!(
            record_text(&record()),
            "{\"phase\":\"Baking\",\"wave\":{\"step\":1,\"group\":\"eu-1\",\"size\":0},\
             \"began\":\"1970-01-01T00:01:00Z\",\"since\":\"1970-01-01T00:01:30Z\",\
             \"approvals\":[\"canary\"],\"steps\":\"5d4f\",\"order\":\"approve 8c canary now\"}"
        );
    }

    /// G9: a record that cannot be read is reported, and counts as lost.
    #[test]
    fn a_malformed_record_is_reported() {
        assert_eq!(record_state(None), RecordState::None);
        let text = record_text(&record());
        for bad in ["", "{}", "[]", &text.replace("Baking", "Frying"), &text.replace("1970", "x")] {
            assert!(matches!(record_state(Some(bad)), RecordState::Malformed(_)), "{bad}");
        }
    }
}
