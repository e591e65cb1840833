//! Reason and message of the condition `Progressing` of a guarded or paused rollout (G21). Pure
//! functions.

use std::sync::Arc;

use crate::api::{
    CANNOT_CHANGE, CheckStatement, ConfigObject, DaemonSet, FailedNodes, Opening,
    PAUSED_ANNOTATION, PAUSES_ROLLOUT, PolicySource, ReasonClass, RecordReason, RolloutPhase,
    RolloutReason, RolloutRecord, Timestamp, WaveName, is_updated, must_be_approved, nodes_of,
    unrestored, utc_text, with_statements, without_override,
};

use crate::copying::ConfigWait;

use super::details::{OverridesProgress, StartingNodes, WaveProgress};
use super::hindrance::{Hindrance, WaveBlocker};
use super::rollback::RollbackProgress;
use super::stage::{Halt, Stage};
use super::wave::Waves;

/// The parts of the headline that the stage does not determine.
pub(super) struct ConditionInput<'a> {
    /// `None` without a valid policy.
    pub waves: Option<&'a Waves>,
    /// The reason for which a wave that bakes still waits.
    pub blocker: Option<WaveBlocker>,
    pub hindrance: Option<Hindrance>,
    /// The configuration that going back does not restore.
    pub unrestored: &'a [ConfigObject],
    /// Why the rollout does not begin, as far as ConfigMaps are concerned.
    pub config_wait: Option<&'a ConfigWait>,
    pub rollback: RollbackProgress,
    /// When the next window opens, if the rollout waits for it.
    pub opening: Option<&'a Opening>,
    /// True if the rollout was done with no node for too long.
    pub is_stuck: bool,
    /// True if nodes lack a revision that is complete.
    pub has_nodes_left: bool,
    /// The nodes that have failed since the rollout was complete, if these are too many (G40).
    pub late: Option<&'a FailedNodes>,
    /// Why the record cannot be written, so that nothing follows (G9).
    pub record_failure: Option<&'a str>,
}

/// The reason of the condition, and the parts of its message that count no nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Headline {
    reason: RolloutReason,
    /// The beginning of the message.
    text: String,
    /// The text after the numbers of nodes.
    note: Option<String>,
}

/// The statement of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stated {
    pub reason: RolloutReason,
    pub message: Arc<str>,
    /// The length of the beginning of the message that counts no nodes, in bytes.
    pub headline: usize,
    /// True if the message says why pods of the wave cannot be changed in place.
    has_change_failure: bool,
}

impl Stated {
    /// The headline with the numbers of the wave's nodes, those that have gone `back` and have no
    /// available pod, the last answers to the wave's checks, and the number of nodes that have the
    /// target although their wave is closed.
    pub(super) fn new(
        headline: &Headline,
        wave: Option<&WaveProgress>,
        back: &StartingNodes,
        checks: &[CheckStatement],
        leaked: usize,
    ) -> Self {
        let Headline { reason, text, note } = headline;
        let has_counts = matches!(reason.class(), ReasonClass::WaitsForNodes | ReasonClass::Stuck);
        let counts = wave.filter(|_| has_counts);
        let mut message = text.clone();
        if let Some(wave) = counts {
            wave.write(&mut message).expect("a String takes any text");
        }
        back.write(&mut message).expect("a String takes any text");
        if let Some(note) = note {
            message += &format!("; {note}");
        }
        message = with_statements(&message, checks.iter());
        match leaked {
            0 => {}
            1 => message += "; 1 node of a later wave got the new template already",
            leaked => {
                message += &format!("; {leaked} nodes of later waves got the new template already");
            }
        }
        let headline = if counts.is_some() { text.len() } else { message.len() };
        let has_change_failure = counts.is_some_and(|wave| wave.change_failure.is_some());
        Self { reason: *reason, message: message.into(), headline, has_change_failure }
    }

    /// The statement with the pods that are without their override.
    pub(super) fn with_overrides(mut self, overrides: &OverridesProgress) -> Self {
        let mut message = self.message.to_string();
        if !overrides.named.is_empty() {
            let named = overrides.named.iter().map(|(node, why)| (node, &**why));
            message += &format!("; {}", without_override(named));
        }
        if overrides.more > 0 {
            message += &format!(", {} more", overrides.more);
        }
        let failure = overrides.failure.as_ref().filter(|_| !self.has_change_failure);
        if let Some(why) = failure {
            message += &format!("; {CANNOT_CHANGE}{why}");
        }
        self.message = message.into();
        self
    }
}

/// The headline of the condition; `None` if there is none.
pub(super) fn headline(
    daemon_set: &DaemonSet,
    stage: &Stage<'_>,
    input: &ConditionInput<'_>,
) -> Option<Headline> {
    let (reason, text) = beginning(daemon_set, stage, input)?;
    // Before it goes beyond its first wave, and when it goes back (G53).
    let is_first = |record: &RolloutRecord| {
        record.phase.is_under_way()
            && input.waves.is_some_and(|waves| waves.steps.first() == record.position)
    };
    let says_unrestored = match stage {
        Stage::Moving(record) => !daemon_set.is_paused() && is_first(record),
        Stage::Failed { goes_back, .. } => reason == RolloutReason::RollingBack && *goes_back,
        Stage::Unguarded
        | Stage::NotGuarded
        | Stage::Paused { .. }
        | Stage::Pending
        | Stage::Halted { .. } => false,
    };
    let unwritten =
        input.record_failure.map(|why| format!("the record of the rollout is not written: {why}"));
    let unrestored = says_unrestored.then(|| unrestored(input.unrestored)).flatten();
    let is_paused = daemon_set.is_paused() && reason != RolloutReason::Paused;
    let paused = is_paused.then(|| paused_by(daemon_set));
    let notes: Vec<String> = paused.into_iter().chain(unwritten).chain(unrestored).collect();
    Some(Headline { reason, text, note: (!notes.is_empty()).then(|| notes.join("; ")) })
}

/// The reason of the condition, and the beginning of its message.
fn beginning(
    daemon_set: &DaemonSet,
    stage: &Stage<'_>,
    input: &ConditionInput<'_>,
) -> Option<(RolloutReason, String)> {
    let ConditionInput { waves, blocker, hindrance, rollback, opening, .. } = *input;
    let name = |record: &RolloutRecord| waves.and_then(|waves| waves.steps.name(&record.position));
    Some(match stage {
        Stage::Unguarded => return None,
        Stage::NotGuarded if !daemon_set.is_guarded() => return None,
        Stage::NotGuarded => (
            RolloutReason::NotGuarded,
            "the built-in controller rolls out by itself, because spec.updateStrategy.type is not \
             OnDelete"
                .to_owned(),
        ),
        // Nobody goes back while it is paused.
        Stage::Failed { record, .. } if daemon_set.is_paused() => {
            failed(record, None, false, rollback)
        }
        Stage::Failed { record, back_at, goes_back } => {
            let stated = failed(record, back_at.filter(|_| !goes_back), *goes_back, rollback);
            // If other content is about to be rolled out, the rollout is not done.
            let has_failed = stated.0 == RolloutReason::Failed;
            soon_ready(input).filter(|_| has_failed).unwrap_or(stated)
        }
        Stage::Halted { why, .. } => halted(*why, &daemon_set.policy, waves),
        _ if daemon_set.is_paused() => (RolloutReason::Paused, paused_by(daemon_set)),
        Stage::Moving(record)
            if record.phase == RolloutPhase::Complete && rollback == RollbackProgress::UnderWay =>
        {
            let message = "nodes go back to this revision, which was complete before";
            (RolloutReason::Updating, message.to_owned())
        }
        Stage::Moving(record)
            if record.reason == Some(RecordReason::Adopted) && input.has_nodes_left =>
        {
            (RolloutReason::Updating, "nodes get the revision that is in use".to_owned())
        }
        Stage::Moving(_) if input.late.is_some() => {
            let nodes = input.late.map(named).unwrap_or_default();
            let message = format!(
                "the rollout is complete, but too many nodes that got the new template later have \
                 failed or are lost, so no further one gets it{nodes}"
            );
            (RolloutReason::LateNodesFail, message)
        }
        Stage::Moving(record)
            if record.phase == RolloutPhase::Complete
                && let Some(stated) = soon_ready(input) =>
        {
            stated
        }
        Stage::Moving(record)
            if record.phase == RolloutPhase::Complete
                && matches!(input.config_wait, Some(ConfigWait::NotReady(_))) =>
        {
            hindered(Hindrance::ConfigNotReady, None, input)
        }
        Stage::Moving(record) if record.phase == RolloutPhase::Complete => {
            (RolloutReason::Complete, "the rollout is complete".to_owned())
        }
        Stage::Paused { .. } | Stage::Pending => match (hindrance, opening) {
            (Some(hindrance), _) => hindered(hindrance, None, input),
            (None, Some(opening)) => outside(opening, "the rollout begins"),
            (None, None) => (RolloutReason::Updating, "the rollout begins".to_owned()),
        },
        Stage::Moving(record) => match (hindrance, blocker) {
            (Some(hindrance), None | Some(WaveBlocker::Nodes | WaveBlocker::Nothing)) => {
                hindered(hindrance, name(record).as_ref(), input)
            }
            (_, _) => moving(name(record).as_ref(), blocker, opening, input.is_stuck),
        },
    })
}

/// The condition of a rollout whose ConfigMaps have changed a moment ago.
fn soon_ready(input: &ConditionInput<'_>) -> Option<(RolloutReason, String)> {
    let settles = matches!(input.config_wait, Some(ConfigWait::Settles(_)));
    settles.then(|| hindered(Hindrance::ConfigSoonReady, None, input))
}

/// The condition of a rollout that does this, and has been done with no node for too long.
fn stuck(does: &str) -> (RolloutReason, String) {
    let message = format!("{does}, without progress for too long");
    (RolloutReason::ProgressDeadlineExceeded, message)
}

/// The condition of a rollout that is under way, at the wave of this name.
fn moving(
    wave: Option<&WaveName>,
    blocker: Option<WaveBlocker>,
    opening: Option<&Opening>,
    is_stuck: bool,
) -> (RolloutReason, String) {
    let its = if wave.is_some() { "its" } else { "the" };
    match (blocker, opening) {
        (Some(WaveBlocker::Nodes), _) => {
            let of_wave = wave.map(|name| format!(" of wave {name}")).unwrap_or_default();
            let left = format!("not all nodes{of_wave} are updated and available");
            match is_stuck {
                true => stuck(&left),
                false => {
                    (RolloutReason::Baking, format!("{left}, so {its} bake time does not end"))
                }
            }
        }
        (Some(WaveBlocker::Bake), _) => (
            RolloutReason::Baking,
            format!("{}, and {its} bake time is not over", is_updated(wave)),
        ),
        (Some(WaveBlocker::Checks), _) => {
            let message = format!("{}, and {its} checks have not passed yet", is_updated(wave));
            (RolloutReason::AwaitingChecks, message)
        }
        (Some(WaveBlocker::Approval), _) => {
            (RolloutReason::AwaitingApproval, must_be_approved(wave))
        }
        (Some(WaveBlocker::Nothing) | None, None) => {
            let nodes = nodes_of(wave);
            match is_stuck {
                true => stuck(&format!("updating {nodes}")),
                false => (RolloutReason::Updating, format!("updating {nodes}")),
            }
        }
        (None, Some(opening)) => {
            outside(opening, &format!("the update of {} goes on", nodes_of(wave)))
        }
        (Some(WaveBlocker::Nothing), Some(opening)) => {
            outside(opening, &format!("{}; the next one begins", is_updated(wave)))
        }
    }
}

/// The reason for which ConfigMaps hold the rollout, in words.
fn config_wait(input: &ConditionInput<'_>) -> String {
    match input.config_wait {
        Some(ConfigWait::Settles(why) | ConfigWait::Copying(why) | ConfigWait::NotReady(why)) => {
            why.to_string()
        }
        Some(ConfigWait::Unlisted) | None => "the ConfigMaps have yet to be listed".to_owned(),
    }
}

/// The condition of a rollout that nodes of this wave, or of the next one, hinder.
fn hindered(
    hindrance: Hindrance,
    wave: Option<&WaveName>,
    input: &ConditionInput<'_>,
) -> (RolloutReason, String) {
    match hindrance {
        Hindrance::Removals { pods, is_beside } => {
            let pods = if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
            let removes = match is_beside {
                true => "so the built-in controller removes",
                false => "and would remove",
            };
            let message = format!(
                "the new template may not run on nodes that have a pod, {removes} {pods}; promote \
                 the rollout, or allow that with failure.maxRemoved"
            );
            (RolloutReason::RemovesNodes, message)
        }
        Hindrance::MutableConfig => {
            let message = format!(
                "{}: a checksum has changed, and the names stay; let names change with the \
                 content, promote the rollout in full, or take config.require out of the policy",
                unrestored(input.unrestored).unwrap_or_default()
            );
            (RolloutReason::MutableConfig, message)
        }
        Hindrance::ConfigNotReady => (RolloutReason::ConfigNotReady, config_wait(input)),
        Hindrance::ConfigSoonReady => (RolloutReason::Updating, config_wait(input)),
        Hindrance::NotInPlace => {
            let message = "the policy has update: InPlaceOnly, and the new template differs in \
                           more than images, CPU and memory of containers, labels and \
                           annotations; set update: InPlaceIfPossible, or promote the rollout in \
                           full";
            (RolloutReason::NotInPlace, message.to_owned())
        }
        Hindrance::BuiltIn => (
            RolloutReason::Updating,
            "waiting for the built-in controller, which has not acted on the newest template yet"
                .to_owned(),
        ),
        Hindrance::NotTried { nodes: 0 } => (
            RolloutReason::WaveNotTried,
            "no node can get the new template: all are held".to_owned(),
        ),
        Hindrance::NotTried { nodes: number } => {
            let nodes = match number {
                1 => "the only node".to_owned(),
                number => format!("none of the {number} nodes"),
            };
            let nodes = match (number, wave) {
                (1, Some(wave)) => format!("{nodes} of wave {wave} is not done"),
                (1, None) => format!("{nodes} is not done"),
                (_, Some(wave)) => format!("{nodes} of wave {wave} is done"),
                (_, None) => format!("{nodes} is done"),
            };
            (RolloutReason::WaveNotTried, format!("{nodes}: set aside, or failed"))
        }
    }
}

/// The condition of a rollout that is held until somebody acts.
fn halted(why: Halt, policy: &PolicySource, waves: Option<&Waves>) -> (RolloutReason, String) {
    let invalid = |why: &str| {
        (
            RolloutReason::InvalidPolicy,
            format!("the rollout policy is invalid, so no pod is replaced: {why}"),
        )
    };
    match (why, policy) {
        (Halt::RecordUnreadable, _) => (
            RolloutReason::InvalidRecord,
            "the record of the rollout cannot be read, so no pod is replaced".to_owned(),
        ),
        (Halt::PolicyInvalid, PolicySource::Invalid(why)) => invalid(why),
        (Halt::TooManyWaves, _) => {
            invalid(waves.and_then(Waves::excess).map_or("too many waves", |why| why))
        }
        (Halt::Surge { field }, _) => invalid(&format!(
            "{field}: not with maxSurge, which starts new pods beside old ones: set \
             updateStrategy.rollingUpdate.maxSurge of the DaemonSet to 0",
        )),
        (Halt::PolicyInvalid | Halt::PolicyRemoved, _) => (
            RolloutReason::InvalidPolicy,
            "the rollout policy was removed before the rollout was complete; no pod is replaced"
                .to_owned(),
        ),
    }
}

/// The condition of a rollout that waits for a window.
fn outside(opening: &Opening, what: &str) -> (RolloutReason, String) {
    (RolloutReason::OutsideWindow, format!("{what} in the next window, at {opening}"))
}

const NO_BASE: &str = "there is no complete revision to go back to";

/// The condition of a failed rollout. `back_at` is when nodes go back, if that is yet to come.
fn failed(
    record: &RolloutRecord,
    back_at: Option<Timestamp>,
    goes_back: bool,
    rollback: RollbackProgress,
) -> (RolloutReason, String) {
    let reason = match &record.reason {
        Some(RecordReason::Aborted) => "was aborted".to_owned(),
        Some(RecordReason::NodesFailed(nodes)) => {
            format!("has failed: too many nodes failed{}", named(nodes))
        }
        Some(RecordReason::NodesLost(nodes)) => format!(
            "has failed: too many nodes went down after they got the new template{}",
            named(nodes)
        ),
        Some(RecordReason::NoProgress) => "has failed: it made no progress".to_owned(),
        Some(RecordReason::CheckFailed(why)) => format!("has failed: {why}"),
        Some(RecordReason::Adopted | RecordReason::Promoted | RecordReason::PromotedInFull)
        | None => "has failed".to_owned(),
    };
    let (is_over, message) = match (rollback, back_at) {
        (RollbackProgress::None, Some(_)) => (true, NO_BASE.to_owned()),
        (RollbackProgress::Barred(why), Some(_)) => (true, why.to_owned()),
        (RollbackProgress::UnderWay, Some(at)) => {
            (true, format!("nodes go back at {}", utc_text(at)))
        }
        (RollbackProgress::UnderWay, None) if !goes_back => {
            (true, "nodes keep what they have".to_owned())
        }
        (RollbackProgress::Barred(why), _) => (true, why.to_owned()),
        (RollbackProgress::None, _) => (true, NO_BASE.to_owned()),
        (RollbackProgress::UnderWay, _) => {
            (false, "nodes go back to the last complete revision".to_owned())
        }
        (RollbackProgress::Done { kept: 0 }, _) => (true, "no node has its revision".to_owned()),
        (RollbackProgress::Done { kept: 1 }, _) => {
            (true, "1 node keeps its revision: it is held, or tainted".to_owned())
        }
        (RollbackProgress::Done { kept }, _) => {
            (true, format!("{kept} nodes keep its revision: they are held, or tainted"))
        }
    };
    let state = if is_over { RolloutReason::Failed } else { RolloutReason::RollingBack };
    (state, format!("the rollout {reason}; {message}"))
}

/// The names of nodes after a colon; nothing without nodes.
fn named(nodes: &FailedNodes) -> String {
    let text = nodes.to_string();
    if text.is_empty() { text } else { format!(": {text}") }
}

fn paused_by(daemon_set: &DaemonSet) -> String {
    let by = match daemon_set.paused {
        true => format!("the annotation {PAUSED_ANNOTATION}"),
        false => "the rollout policy".to_owned(),
    };
    by + PAUSES_ROLLOUT
}

#[cfg(test)]
mod tests {
    use super::super::wave::StateCounts;
    use super::*;
    use crate::api::{
        CANNOT_PULL, CheckVerdict, NodeName, StatedAnswer, is_about_wave, is_pulling_stated,
        stated_after, stated_checks, stated_wave, stated_without_override, statements_of_checks,
    };

    /// G21: what others read from a message stands beside all of its other parts.
    #[test]
    fn every_part_of_a_message_is_read_as_it_is_written() {
        let wave = Some(&"a".into());
        let (reason, note) = (RolloutReason::Updating, Some("a note".to_owned()));
        let headline = Headline { reason, text: is_updated(wave), note };
        let wave = WaveProgress {
            states: StateCounts { pulling: 2, ..StateCounts::default() },
            starting: StartingNodes::default(),
            not_agreed: vec!["node-3".into()],
            question_refusal: Some("no question".into()),
            overdue: vec![("node-4".into(), None)],
            pull_refusal: Some("no pull".into()),
            change_failure: Some("no change".into()),
            awaited_outages: 1,
        };
        let asked = Timestamp::from_seconds(3_723);
        let last = StatedAnswer { verdict: CheckVerdict::Failed, asked, text: "0.5".into() };
        let checks = [CheckStatement { name: "errors".into(), last: Some(last) }];
        let nodes: [NodeName; 2] = ["node-1".into(), "node-2".into()];
        let [first, second] = nodes.clone();
        let overrides = OverridesProgress {
            named: vec![(first, "no CPU (1)".into()), (second, "no memory".into())],
            more: 1,
            failure: Some("it is stated already".into()),
        };
        let stated = Stated::new(&headline, Some(&wave), &StartingNodes::default(), &checks, 1);
        let message = stated.with_overrides(&overrides).message;

        assert_eq!(stated_wave(&message), Some("a"));
        assert!(is_about_wave(&message, Some("a")) && !is_about_wave(&message, None));
        assert!(is_pulling_stated(&message));
        assert_eq!(stated_after(&message, CANNOT_PULL), Some("no pull"));
        assert_eq!(stated_after(&message, CANNOT_CHANGE), Some("no change"));
        assert_eq!(message.matches(CANNOT_CHANGE).count(), 1);
        let answer = (CheckVerdict::Failed, "01:02:03 UTC", "0.5");
        assert_eq!(stated_checks(&message).map(|it| it.last).collect::<Vec<_>>(), [Some(answer)]);
        assert!(statements_of_checks(&message).starts_with("; check errors failed at 01:02:03"));
        let whys = nodes.each_ref().map(|node| stated_without_override(&message, node));
        assert_eq!(whys, [Some("no CPU (1)"), Some("no memory")]);
    }
}
