//! The records of guarded rollouts, as JSON in an annotation (G8).

mod course;

use std::sync::Arc;

use everynode_core::api::{
    FailedNode, FailedNodes, FailureCause, GroupValue, Position, RecordReason, RecordState,
    RevisionHash, RolloutPhase, RolloutRecord, Timestamp, Uid, WaveName, WavePosition,
};
use serde::{Deserialize, Serialize};

use course::WireCourse;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRecord {
    /// The UID of the revision that the record is about. Absent in records of the first edition.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<Arc<str>>,
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
    /// The first nodes by which the rollout has failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failed_nodes: Vec<WireNode>,
    /// The number of the others.
    #[serde(default, skip_serializing_if = "is_default")]
    more_failed_nodes: usize,
    /// True if its template was replaced with that of the base.
    #[serde(default, skip_serializing_if = "is_default")]
    rolled_back: bool,
    /// The hash of the revision that has the same template and was complete before.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Arc<str>>,
    #[serde(flatten)]
    course: WireCourse,
}

#[derive(Serialize, Deserialize)]
struct WireNode {
    node: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Arc<str>>,
    /// The cause that the containers of the pod state.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    cause: Arc<str>,
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
    Pending,
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
    Adopted,
    Aborted,
    Promoted,
    PromotedInFull,
    NodesFailed,
    NodesLost,
    NoProgress,
    CheckFailed,
}

impl From<&FailedNode> for WireNode {
    fn from(failed: &FailedNode) -> Self {
        Self {
            node: failed.node.as_str().into(),
            pod: failed.pod.as_ref().map(|pod| pod.as_str().into()),
            cause: failed.cause.to_string().into(),
        }
    }
}

impl From<WireNode> for FailedNode {
    fn from(wire: WireNode) -> Self {
        let WireNode { node, pod, cause } = wire;
        let pod = pod.map(|pod| (&*pod).into());
        Self { node: (&*node).into(), pod, cause: FailureCause::stated(&cause) }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Reason {
    /// The reason without its message, and that.
    fn parts(reason: &RecordReason) -> (Self, Option<Arc<str>>) {
        match reason {
            RecordReason::Adopted => (Self::Adopted, None),
            RecordReason::Aborted => (Self::Aborted, None),
            RecordReason::Promoted => (Self::Promoted, None),
            RecordReason::PromotedInFull => (Self::PromotedInFull, None),
            RecordReason::NodesFailed(_) => (Self::NodesFailed, None),
            RecordReason::NodesLost(_) => (Self::NodesLost, None),
            RecordReason::NoProgress => (Self::NoProgress, None),
            RecordReason::CheckFailed(why) => (Self::CheckFailed, Some(why.clone())),
        }
    }

    fn with(self, message: Option<Arc<str>>, nodes: FailedNodes) -> RecordReason {
        match self {
            Self::Adopted => RecordReason::Adopted,
            Self::Aborted => RecordReason::Aborted,
            Self::Promoted => RecordReason::Promoted,
            Self::PromotedInFull => RecordReason::PromotedInFull,
            Self::NodesFailed => RecordReason::NodesFailed(nodes),
            Self::NodesLost => RecordReason::NodesLost(nodes),
            Self::NoProgress => RecordReason::NoProgress,
            Self::CheckFailed => RecordReason::CheckFailed(message.unwrap_or_default()),
        }
    }
}

/// Decodes the value of the annotation of the revision with this UID, if there is one.
///
/// Whoever may change a DaemonSet may write such an annotation there, and the built-in controller
/// copies it to new revisions. Nobody can know their UIDs before, so a record counts if it names
/// that of its revision (G44). One of the first edition names none: of what it says only the part
/// counts that lets nothing go on.
pub fn record_state(annotation: Option<&str>, revision: &Uid) -> RecordState {
    let (named, record) = match annotation.map(read) {
        None => return RecordState::None,
        Some(Err(why)) => return RecordState::Malformed(why.into()),
        Some(Ok(read)) => read,
    };
    match (named, record.phase) {
        (Some(named), _) if *named != *revision.to_string() => RecordState::Foreign,
        (Some(_), _) | (None, RolloutPhase::Failed | RolloutPhase::Superseded) => {
            RecordState::Stored(record.into())
        }
        (None, RolloutPhase::Complete) => RecordState::Unproven(record.into()),
        (None, RolloutPhase::Pending | RolloutPhase::Updating | RolloutPhase::Baking) => {
            let pending = RolloutRecord {
                phase: RolloutPhase::Pending,
                position: Position::AllNodes,
                approvals: Vec::new(),
                reason: None,
                ..record
            };
            RecordState::Stored(pending.into())
        }
    }
}

/// The value of the annotation of the revision with this UID; without one, the record for people.
pub fn record_text(record: &RolloutRecord, revision: Option<&Uid>) -> String {
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
    let failed = record.reason.as_ref().and_then(RecordReason::failed_nodes);
    let wire = WireRecord {
        revision: revision.map(|uid| uid.to_string().into()),
        phase: Phase(record.phase),
        wave,
        began: time_text(record.began),
        since: time_text(record.since),
        approvals: record.approvals.iter().map(|wave| wave.as_str().to_owned()).collect(),
        steps: record.steps_hash.clone(),
        order: record.order.clone(),
        reason,
        message: message.flatten(),
        failed_nodes: failed.iter().flat_map(|nodes| nodes.first.iter().map(Into::into)).collect(),
        more_failed_nodes: failed.map_or(0, |nodes| nodes.more),
        rolled_back: record.is_rolled_back,
        base: record.base.as_ref().map(|base| base.as_str().into()),
        course: (&record.course).into(),
    };
    serde_json::to_string(&wire).expect("all keys are strings")
}

/// The UID that a record names, if it does, and the record.
fn read(text: &str) -> Result<(Option<Arc<str>>, RolloutRecord), String> {
    let wire: WireRecord = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let failed_nodes = FailedNodes {
        first: wire.failed_nodes.into_iter().map(Into::into).collect(),
        more: wire.more_failed_nodes,
    };
    let record = RolloutRecord {
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
        reason: wire.reason.map(|reason| reason.with(wire.message, failed_nodes)),
        is_rolled_back: wire.rolled_back,
        base: wire.base.map(RevisionHash::new),
        course: wire.course.into(),
    };
    Ok((wire.revision, record))
}

/// The time in this text.
///
/// # Errors
/// If it is none.
pub fn time(text: &str) -> Result<Timestamp, String> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(|time| Timestamp(time.as_millisecond())).map_err(|error| error.to_string())
}

/// The time as Kubernetes writes it.
pub fn time_text(time: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use everynode_core::api::{Attribution, Course, CourseEvent, CourseEventKind};

    use super::*;

    fn uid() -> Uid {
        "u".into()
    }

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
            is_rolled_back: false,
            base: None,
            course: Course::default(),
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
        let of_overrides = RolloutRecord { base: Some("5d4e".into()), ..record() };
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
            record_text(&checked, Some(&uid()))
                .ends_with(&format!("\"reason\":\"CheckFailed\",\"message\":\"{why}\"}}"))
        );
        let node = FailedNode {
            node: "n".into(),
            pod: Some("p".into()),
            cause: FailureCause::stated("container a: CrashLoopBackOff, exit code 1"),
        };
        let lost = FailedNode { node: "m".into(), pod: None, cause: FailureCause::stated("") };
        let nodes = FailedNodes { first: vec![node, lost], more: 7 };
        let by_nodes =
            RolloutRecord { reason: Some(RecordReason::NodesFailed(nodes)), ..failed.clone() };
        let rolled_back = RolloutRecord { is_rolled_back: true, ..failed.clone() };
        assert!(record_text(&by_nodes, Some(&uid())).ends_with(
            "\"failedNodes\":[{\"node\":\"n\",\"pod\":\"p\",\"cause\":\"container a: \
             CrashLoopBackOff, exit code 1\"},{\"node\":\"m\"}],\"moreFailedNodes\":7}"
        ));
        for record in [of_overrides, baking, failed, unlabelled, checked, by_nodes, rolled_back] {
            let text = record_text(&record, Some(&uid()));
            let read = record_state(Some(&text), &uid());
            assert_eq!(read, RecordState::Stored(record.into()), "{text}");
        }
        assert_eq!(
            record_text(&record(), Some(&uid())),
            "{\"revision\":\"u\",\"phase\":\"Baking\",\"wave\":{\"step\":1,\"group\":\"eu-1\",\"size\":0},\
             \"began\":\"1970-01-01T00:01:00Z\",\"since\":\"1970-01-01T00:01:30Z\",\
             \"approvals\":[\"canary\"],\"steps\":\"5d4f\",\"order\":\"approve 8c canary now\"}"
        );
    }

    /// G49: the course is read as it is written. What cannot be read of it is left out, and holds
    /// nothing up: a later version may know more events.
    #[test]
    fn a_course_is_read_as_far_as_it_can_be() {
        let event = |second, kind, wave: Option<&str>, attribution| CourseEvent {
            at: Timestamp::from_seconds(second),
            kind,
            wave: wave.map(Into::into),
            attribution,
        };
        let by = Attribution::new("alice", "the graphs are green");
        let events = vec![
            event(60, CourseEventKind::Begun, Some("canary"), Attribution::default()),
            event(90, CourseEventKind::Approved, Some("canary"), by),
            event(95, CourseEventKind::Completed, None, Attribution::default()),
        ];
        let whole = RolloutRecord { course: Course { events, omitted: 2 }, ..record() };
        let text = record_text(&whole, Some(&uid()));
        assert!(
            text.ends_with(
                "\"course\":[{\"at\":\"1970-01-01T00:01:00Z\",\"event\":\"Begun\",\"wave\":\"canary\"},\
                 {\"at\":\"1970-01-01T00:01:30Z\",\"event\":\"Approved\",\"wave\":\"canary\",\
                 \"user\":\"alice\",\"reason\":\"the graphs are green\"},\
                 {\"at\":\"1970-01-01T00:01:35Z\",\"event\":\"Completed\"}],\"courseOmitted\":2}"
            ),
            "{text}"
        );
        assert_eq!(record_state(Some(&text), &uid()), RecordState::Stored(whole.clone().into()));
        for (old, new, kept, omitted) in [
            ("\"event\":\"Begun\"", "\"event\":\"Postponed\"", 2, 2),
            ("\"at\":\"1970-01-01T00:01:30Z\"", "\"at\":\"noon\"", 2, 2),
            ("\"user\":\"alice\"", "\"user\":[\"alice\"]", 2, 2),
            ("\"courseOmitted\":2", "\"courseOmitted\":\"some\"", 3, 0),
        ] {
            let state = record_state(Some(&text.replace(old, new)), &uid());
            let read = state.stored().expect("the record counts");
            assert_eq!((read.course.events.len(), read.course.omitted), (kept, omitted), "{new}");
            let without = RolloutRecord { course: Course::default(), ..(**read).clone() };
            assert_eq!(without, record());
        }
        let none = text.replace("\"course\":[", "\"course\":{\"of\":[").replace("}],", "}]},");
        let state = record_state(Some(&none), &uid());
        assert_eq!(state.stored().map(|read| read.course.events.len()), Some(0), "{none}");
    }

    /// G44: a record that cannot be read is malformed, and one that names another revision foreign.
    #[test]
    fn a_malformed_or_foreign_record_is_recognized() {
        assert_eq!(record_state(None, &uid()), RecordState::None);
        let text = record_text(&record(), Some(&uid()));
        for bad in ["", "{}", "[]", &text.replace("Baking", "Frying"), &text.replace("1970", "x")] {
            let read = record_state(Some(bad), &uid());
            assert!(matches!(read, RecordState::Malformed(_)), "{bad}");
        }
        assert_eq!(record_state(Some(&text), &"other".into()), RecordState::Foreign);
    }

    /// G44: of a record of the first edition, which names no revision, a failure counts; one that
    /// was under way begins anew, and a complete one is for pods to prove.
    #[test]
    fn a_record_of_the_first_edition_means_what_is_safe() {
        let read = |phase: &str| {
            let record = RolloutRecord {
                reason: Some(RecordReason::Aborted),
                since: Timestamp::from_seconds(4_000_000_000),
                ..record()
            };
            let text = record_text(&record, None).replace("Baking", phase);
            record_state(Some(&text), &uid())
        };
        for phase in ["Updating", "Baking"] {
            let RecordState::Stored(record) = read(phase) else { panic!("{phase}") };
            let place = (record.phase, &record.position);
            assert_eq!(place, (RolloutPhase::Pending, &Position::AllNodes));
            assert!(record.approvals.is_empty() && record.reason.is_none());
            assert!(record.order.is_some(), "it is not carried out again");
        }
        for phase in ["Failed", "Superseded"] {
            let RecordState::Stored(record) = read(phase) else { panic!("{phase}") };
            assert_eq!(record.phase.as_str(), phase);
        }
        assert!(matches!(read("Complete"), RecordState::Unproven(_)));
    }
}
