//! Where a guarded rollout is: its wave, the steps of its policy, and what it waits for (G22).

mod event;

use std::collections::BTreeMap;

use everynode_core::api::{
    CheckVerdict, DaemonSet, DaemonSetKey, FINALLY, IntOrPercent, PolicySource, Position, Revision,
    RolloutPhase, RolloutPolicy, RolloutReason, RolloutRecord, StatedCheck, Wait, WaveName,
    stated_checks,
};
use everynode_k8s::convert::label_selector_text;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::copies::{ConfigMapCopy, config_map_copies};
use crate::history::RevisionEntry;
use crate::overridden::{OverriddenNodes, overridden_nodes};
use crate::rollout::of_reason;
use crate::rollout_nodes::RolloutNodes;
use crate::snapshot::Snapshot;
pub use event::{EventKind, RolloutEvent, last_order};

pub use crate::rollout_nodes::StepState;

/// A guarded rollout: the steps of its policy, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardedRollout {
    /// The DaemonSet's namespace.
    pub namespace: String,
    /// The DaemonSet's name.
    pub name: String,
    /// The reason of the condition `Progressing`; empty if no controller has stated one.
    #[serde(serialize_with = "serialize_reason")]
    #[schemars(with = "String")]
    pub reason: Option<RolloutReason>,
    /// The message of the condition.
    pub message: String,
    /// The policy that counts, such as `RolloutPolicy infra/agents`; `null` if none counts.
    pub policy: Option<String>,
    /// The hash of the current revision; `null` if it is not stored yet.
    pub revision: Option<String>,
    /// The hash of the revision that was rolled out to the end before; `null` if there is none.
    pub base: Option<String>,
    /// The numbers of these two revisions, as other commands take them.
    #[serde(skip)]
    pub numbers: [Option<i64>; 2],
    /// The phase of the record; `null` if there is none yet.
    #[serde(serialize_with = "serialize_phase")]
    #[schemars(with = "Option<String>")]
    pub phase: Option<RolloutPhase>,
    /// The wave that the rollout is at; `null` before the first and after the last one.
    #[serde(serialize_with = "serialize_wave")]
    #[schemars(with = "Option<String>")]
    pub wave: Option<WaveName>,
    /// The steps of the policy.
    pub steps: Vec<StepProgress>,
    /// The checks of the policy.
    pub checks: Vec<CheckProgress>,
    /// The overrides of the policy, with the nodes on which they count; absent if it has none, or
    /// if nodes could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<OverriddenNodes>,
    /// The ConfigMaps of which pods have copies; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub config_maps: Vec<ConfigMapCopy>,
    /// What happened to this rollout and to earlier ones whose records are stored, in order, and
    /// the last pause.
    pub course: Vec<RolloutEvent>,
    /// The number of events that the records leave out.
    pub omitted_events: usize,
    /// Its nodes by their state; absent without a valid policy, or if nodes, pods or revisions
    /// could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<RolloutNodes>,
    /// The operator's next step; `None` if there is nothing to do.
    #[serde(skip)]
    pub next: Option<String>,
}

/// A check of a policy, and its last answer for the wave that the rollout is at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckProgress {
    /// The name of the check.
    pub name: String,
    /// What it asks: the field of the policy, such as `http`.
    pub kind: &'static str,
    /// The question in words.
    pub question: String,
    /// How often it is asked, in seconds.
    pub interval_seconds: u64,
    /// How many answers in a row must fail until the rollout fails.
    pub failures: u8,
    /// The last answer that the controller states; `null` if it is not asked, or not answered yet.
    pub last: Option<LastAnswer>,
}

/// The last answer to a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastAnswer {
    /// What it says: `passed`, `failed` or `unknown`.
    #[serde(serialize_with = "serialize_verdict")]
    #[schemars(with = "String")]
    pub answer: CheckVerdict,
    /// When it was asked for, such as `14:03:05 UTC`: of answers that are the same, the first one.
    pub asked: String,
    /// What was answered, or why nothing was.
    pub text: String,
}

/// The checks of a policy, as they were made once from the machine of the person who asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutChecks {
    /// The DaemonSet's namespace.
    pub namespace: String,
    /// The DaemonSet's name.
    pub name: String,
    /// The checks, in the order of the policy.
    pub checks: Vec<CheckResult>,
}

/// A check that was made once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckResult {
    /// The name of the check.
    pub name: String,
    /// What it asks: the field of the policy, such as `http`.
    pub kind: &'static str,
    /// The question in words.
    pub question: String,
    /// What the answer says: `passed`, `failed` or `unknown`.
    #[serde(serialize_with = "serialize_verdict")]
    #[schemars(with = "String")]
    pub answer: CheckVerdict,
    /// What was answered, or why nothing was.
    pub text: String,
}

/// A step of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepProgress {
    /// The name of the step.
    pub name: String,
    /// The label selector of its nodes; empty for all nodes.
    pub nodes: String,
    /// The label that divides the nodes into groups; `null` if none does.
    pub by: Option<String>,
    /// The label of which each wave has `upTo` nodes of every value; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// The sizes of the waves.
    pub up_to: Vec<String>,
    /// The bake time in seconds.
    pub bake_seconds: u64,
    /// Whether each wave must be approved.
    pub approval: bool,
    /// The names of the checks that each wave must pass.
    pub checks: Vec<String>,
    /// Whether the rollout has reached it.
    pub state: StepState,
}

/// A revision, oldest first, and the record of its rollout.
struct RecordedRevision<'a> {
    number: i64,
    hash: Option<String>,
    record: Option<&'a RolloutRecord>,
    is_current: bool,
}

impl GuardedRollout {
    /// The rollout of a DaemonSet; `None` if no policy guards it and no controller has stated
    /// anything. `name_of_policy` is the name of the policy that counts, and `revisions` is the
    /// DaemonSet's history.
    pub fn of(
        daemon_set: &DaemonSet,
        name_of_policy: Option<String>,
        revisions: &[RevisionEntry],
    ) -> Option<Self> {
        let recorded = revisions.iter().map(|entry| RecordedRevision {
            number: entry.revision,
            hash: entry.hash.clone(),
            record: entry.rollout.as_deref(),
            is_current: entry.current,
        });
        Self::of_records(daemon_set, name_of_policy, &recorded.collect::<Vec<_>>())
    }

    /// The rollout of a DaemonSet of the snapshot; `None` as in [`of`](Self::of), or if the
    /// snapshot lacks it.
    pub fn of_snapshot(snapshot: &Snapshot, key: &DaemonSetKey) -> Option<Self> {
        let object = snapshot.daemon_sets.get(key)?;
        let revisions = snapshot.revisions_of(key);
        // If two revisions store the template, the one with the higher number is current (C42).
        let current =
            Revision::by_content(&object.daemon_set, revisions.clone(), None).current.pop();
        let recorded = revisions.iter().map(|revision| RecordedRevision {
            number: revision.number,
            hash: revision.hash().map(|hash| hash.to_string()),
            record: revision.record.stored().map(|record| &**record),
            is_current: current.is_some_and(|current| current.uid == revision.uid),
        });
        let policy = snapshot.policies.counting(&object.raw);
        let rollout = Self::of_records(&object.daemon_set, policy, &recorded.collect::<Vec<_>>());
        let overrides = overridden_nodes(snapshot, &object.daemon_set);
        let rollout = rollout?.with_pause(&object.raw.annotations);
        let config_maps = config_map_copies(snapshot, key, rollout.base.as_deref());
        Some(Self { overrides, config_maps, ..rollout })
    }

    fn of_records(
        daemon_set: &DaemonSet,
        name_of_policy: Option<String>,
        revisions: &[RecordedRevision<'_>],
    ) -> Option<Self> {
        let stated = daemon_set.status.rollout.as_ref();
        let current = revisions.iter().rev().find(|entry| entry.is_current);
        let record = current.and_then(|entry| entry.record);
        // It needs no policy, and has no condition without one (G43).
        let is_promoted = record.is_some_and(RolloutRecord::is_promoted_in_full);
        let policy = match &daemon_set.policy {
            PolicySource::None if stated.is_none() && !is_promoted => return None,
            PolicySource::None | PolicySource::Invalid(_) => None,
            PolicySource::Valid(policy) => Some(policy),
        };
        let completed = |entry: &&RecordedRevision<'_>| {
            let record = entry.record.filter(|_| !entry.is_current)?;
            (record.phase == RolloutPhase::Complete).then_some(record.since)
        };
        let base =
            revisions.iter().filter(|entry| completed(entry).is_some()).max_by_key(completed);
        let position = record.map(|record| &record.position);
        let steps = policy.map(|policy| steps(policy, record)).unwrap_or_default();
        let message = match stated {
            Some(stated) => &*stated.message,
            None if is_promoted => "somebody has promoted the rollout to all nodes",
            None => "",
        };
        let checks = policy.map(|policy| checks(policy, message)).unwrap_or_default();
        let wave = policy.zip(position).and_then(|(policy, at)| policy.wave_name(at));
        Some(Self {
            namespace: daemon_set.key.namespace.to_string(),
            name: daemon_set.key.name.to_string(),
            reason: stated.map(|stated| stated.reason),
            message: message.to_owned(),
            policy: name_of_policy,
            revision: current.and_then(|entry| entry.hash.clone()),
            base: base.and_then(|entry| entry.hash.clone()),
            numbers: [current, base].map(|entry| entry.map(|entry| entry.number)),
            phase: record.map(|record| record.phase),
            steps,
            checks,
            overrides: Vec::new(),
            config_maps: Vec::new(),
            course: course(revisions),
            omitted_events: revisions
                .iter()
                .filter_map(|entry| Some(entry.record?.course.omitted))
                .sum(),
            nodes: None,
            next: stated.and_then(|stated| {
                of_reason(stated.reason, wave.as_ref().map(WaveName::as_str), daemon_set)
            }),
            wave,
        })
    }

    /// The current revision, and the one that was rolled out to the end before.
    pub fn revisions_text(&self) -> String {
        let text = |hash: &Option<String>, number: Option<i64>| match (hash, number) {
            (Some(hash), Some(number)) => format!("{number} ({hash})"),
            (None, Some(number)) => number.to_string(),
            (_, None) => "none".to_owned(),
        };
        let [current, base] = self.numbers;
        let (current, base) = (text(&self.revision, current), text(&self.base, base));
        format!("revision {current}; completed before: {base}")
    }

    /// The rollout with the last pause in its course, if the annotations of the DaemonSet say who
    /// ordered it or why (G49).
    fn with_pause(mut self, annotations: &BTreeMap<String, String>) -> Self {
        self.course.extend(RolloutEvent::of_pause(annotations));
        self.course.sort_by_key(|event| event.time);
        self
    }
}

/// The events of all records, in order.
fn course(revisions: &[RecordedRevision<'_>]) -> Vec<RolloutEvent> {
    let of = |entry: &RecordedRevision<'_>| -> Vec<RolloutEvent> {
        let events = entry.record.iter().flat_map(|record| &record.course.events);
        events.map(|event| RolloutEvent::recorded(event, entry.hash.as_deref())).collect()
    };
    let mut course: Vec<_> = revisions.iter().flat_map(of).collect();
    course.sort_by_key(|event| event.time);
    course
}

fn steps(policy: &RolloutPolicy, record: Option<&RolloutRecord>) -> Vec<StepProgress> {
    // One that has yet to begin is at no step.
    let begun = record.filter(|record| record.phase != RolloutPhase::Pending);
    let position = begun.map(|record| &record.position);
    let state = |index: usize| match position {
        None => StepState::Ahead,
        Some(Position::AllNodes) => StepState::Done,
        Some(Position::Wave(wave)) => match index.cmp(&wave.step) {
            std::cmp::Ordering::Less => StepState::Done,
            std::cmp::Ordering::Equal => StepState::Current,
            std::cmp::Ordering::Greater => StepState::Ahead,
        },
    };
    let steps = policy.steps.iter().enumerate().map(|(index, step)| StepProgress {
        nodes: label_selector_text(&step.nodes),
        by: step.by.as_ref().map(ToString::to_string),
        each: step.each.as_ref().map(ToString::to_string),
        up_to: step.up_to.iter().map(IntOrPercent::to_string).collect(),
        ..progress(&step.name, &step.wait, state(index))
    });
    let last = policy.finally.as_ref().map(|wait| {
        let is_current = record.is_some_and(|record| record.phase != RolloutPhase::Complete);
        let state = match position {
            Some(Position::AllNodes) if is_current => StepState::Current,
            Some(Position::AllNodes) => StepState::Done,
            Some(Position::Wave(_)) | None => StepState::Ahead,
        };
        progress(FINALLY, wait, state)
    });
    steps.chain(last).collect()
}

/// A step of all nodes.
fn progress(name: &str, wait: &Wait, state: StepState) -> StepProgress {
    StepProgress {
        name: name.to_owned(),
        nodes: String::new(),
        by: None,
        each: None,
        up_to: vec![IntOrPercent::Percent(100).to_string()],
        bake_seconds: wait.bake.as_secs(),
        approval: wait.approval,
        checks: wait.checks.iter().map(ToString::to_string).collect(),
        state,
    }
}

/// The checks of a policy, with what the message of the condition states of them.
fn checks(policy: &RolloutPolicy, message: &str) -> Vec<CheckProgress> {
    let stated: Vec<StatedCheck<'_>> = stated_checks(message).collect();
    let checks =
        policy.checks.iter().map(|check| {
            let last = stated.iter().find(|stated| *stated.name == *check.name);
            CheckProgress {
                name: check.name.to_string(),
                kind: check.kind.field(),
                question: check.kind.to_string(),
                interval_seconds: check.interval.as_secs(),
                failures: check.failures_needed(),
                last: last.and_then(|stated| stated.last).map(|(verdict, asked, text)| {
                    LastAnswer { answer: verdict, asked: asked.to_owned(), text: text.to_owned() }
                }),
            }
        });
    checks.collect()
}

fn serialize_wave<S: Serializer>(wave: &Option<WaveName>, to: S) -> Result<S::Ok, S::Error> {
    wave.as_ref().map(WaveName::as_str).serialize(to)
}

fn serialize_reason<S: Serializer>(
    reason: &Option<RolloutReason>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_str(reason.map_or("", RolloutReason::as_str))
}

fn serialize_phase<S: Serializer>(phase: &Option<RolloutPhase>, to: S) -> Result<S::Ok, S::Error> {
    phase.map(RolloutPhase::as_str).serialize(to)
}

fn serialize_verdict<S: Serializer>(verdict: &CheckVerdict, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(verdict.as_str())
}
