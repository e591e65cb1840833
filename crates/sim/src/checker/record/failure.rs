//! When a rollout fails: too many nodes have failed, a check has, or it makes no progress (G15).

use everynode_core::api::{CheckVerdict, Timestamp};
use everynode_core::plan::Write;

use crate::checker::history::History;
use crate::checker::model::{DaemonSet, Phase, Policy, Position, Record, Wait};
use crate::checker::situation::{NodeView, Situation};
use crate::checker::stage::Stage;
use crate::checker::{Property, Violation, violation};
use crate::view::{KnownAnswer, View, WriteOutcome};

use super::{Judge, TOLERANCE_MS};

/// How long after a failed write a record may be written again: five seconds.
const RETRIED_AFTER_MS: i64 = 6_000;

impl Judge<'_> {
    /// Why the rollout is not stuck: it may do nothing, or it has just begun with its wave (G15,
    /// G47).
    pub(super) fn unstuck(&self, record: &Record, policy: &Policy) -> Option<String> {
        let Some(ready_within_ms) = policy.failure.as_ref().and_then(|rule| rule.ready_within_ms)
        else {
            return Some("fails without a limit of time".to_owned());
        };
        let is_held = self.situation.ds.is_paused() || self.situation.awaits_window;
        if record.phase != Phase::Updating || is_held {
            return Some("fails for want of progress while nothing may be done".to_owned());
        }
        let current = self.situation.revisions.current.last()?;
        let grace_s = current.template["spec"]["terminationGracePeriodSeconds"].as_i64();
        // The next pod may wait for a minute.
        let pace_ms = if policy.pods_per_minute.is_some() { 60_000 } else { 0 };
        let limit_ms = ready_within_ms
            + pace_ms
            + 1_000 * (self.situation.ds.min_ready_seconds + grace_s.unwrap_or(30));
        let begun = self.history.phase_stored_at(&current.metadata.uid, record)?;
        (begun.0 > self.view.planned_at.0 - limit_ms + TOLERANCE_MS)
            .then(|| "fails for want of progress too early in its phase".to_owned())
    }

    /// Why the rollout has not failed: too few nodes may be lost (G15).
    pub(super) fn unlost(&self, policy: &Policy) -> Option<String> {
        let Some(rule) = &policy.failure else { return Some("fails without a rule".to_owned()) };
        let nodes = self.situation.nodes.values();
        let gone = self.gone().count();
        let lost = nodes.filter(|on_node| on_node.is_lost()).count() + gone;
        // Whether a lost node has the target depends on when its pod went.
        let max = rule.max_lost(self.situation.nodes_with_target() + gone);
        (lost <= max)
            .then(|| format!("fails, although at most {lost} nodes are lost, {max} may be"))
    }

    /// The names of the nodes that were deleted in this attempt: they count if they had failed or
    /// were lost before, which the replica knows (G15).
    fn gone(&self) -> impl Iterator<Item = &str> {
        let gone = self.history.nodes.removed_after(self.situation.attempt(self.history));
        gone.map(|node| node.metadata.name.as_str())
    }

    /// Why the rollout has not failed: too few nodes may have (G15).
    pub(super) fn unfailed(&self, policy: &Policy) -> Option<String> {
        let Some(rule) = &policy.failure else { return Some("fails without a rule".to_owned()) };
        let has_target = |on_node: &NodeView| {
            let mut ours = on_node.pods.iter().filter(|our| !our.is_going && !our.is_orphan);
            ours.any(|our| self.situation.is_target(our.pod))
        };
        // A held node counts that has the target (G33).
        let members = || self.all_members(&Position::AllNodes);
        let touched = members().filter(|(_, on_node)| has_target(on_node)).count();
        let gone = self.gone().count();
        let failed = members().filter(|(_, on_node)| on_node.has_failed()).count() + gone;
        let max = rule.max_nodes(touched + gone);
        (failed <= max).then(|| format!("fails, although at most {failed} nodes have, {max} may"))
    }

    /// The check of a wave whose last answer is no pass to a question after the end of the bake
    /// time, as far as the clocks tell (G5).
    pub(super) fn unpassed<'a>(
        &self,
        record: &Record,
        wait: &'a Wait,
        policy: &Policy,
    ) -> Option<&'a String> {
        let mut current = self.situation.revisions.current.iter();
        let stored = current.find_map(|it| self.history.phase_stored_at(&it.metadata.uid, record));
        // A bake time that begins in the future by the record begins when it is read, which is not
        // before the record was stored.
        let began = stored.map_or(record.since, |stored| stored.min(record.since));
        let asked_after = |known: &KnownAnswer| known.question.asked_wall.0 - began.0;
        let clock = self.view.followed_clock.0 - self.view.planned_at.0;
        let is_doubtful = clock.abs() > TOLERANCE_MS || self.was_clock_set(record, policy);
        let has_passed = |name: &String| {
            let last = self.answers(record, policy).filter(|known| known.is_of(name)).last();
            last.is_some_and(|known| {
                let is_late = asked_after(known) + TOLERANCE_MS >= wait.bake_ms;
                known.verdict == CheckVerdict::Passed && (is_late || is_doubtful)
            })
        };
        wait.checks.iter().find(|name| !has_passed(name))
    }

    /// Why a rollout does not fail by a check: while its wave is updated or bakes, none has failed
    /// as often in a row as it may (G15, G46).
    pub(super) fn unchecked_failure(&self, record: &Record, policy: &Policy) -> Option<String> {
        if !record.has_begun() {
            return Some("fails by a check, although no wave is tried".to_owned());
        }
        let has_failed = |name: &String| {
            let mut in_a_row = 0;
            let mut limit = usize::MAX;
            for known in self.answers(record, policy).filter(|known| known.is_of(name)) {
                in_a_row = match known.verdict {
                    CheckVerdict::Passed => 0,
                    CheckVerdict::Failed => in_a_row + 1,
                    CheckVerdict::Unknown => in_a_row,
                };
                limit = known.question.check.failures_needed().into();
            }
            in_a_row >= limit
        };
        let waits = self.waits(record, policy);
        let is_known = waits.iter().flat_map(|wait| &wait.checks).any(has_failed);
        (!is_known).then(|| "fails although no check has failed as often as it may".to_owned())
    }

    /// The check by which the rollout must fail: its last answers, to questions about this phase
    /// under this policy, all say so (G15, G46).
    fn failed_check(&self, record: &Record, policy: &Policy) -> Option<String> {
        let is_known_since = |known: &KnownAnswer| {
            let asked = Timestamp(known.answered_at.0 - TOLERANCE_MS);
            let version = self.history.version_before(asked);
            let seen = self.view.feeds.daemon_sets;
            let daemon_sets = self.history.daemon_sets(self.situation.role);
            let uid = &self.situation.ds.metadata.uid;
            let is_it = |ds: &DaemonSet| ds.policy.valid() == Some(policy);
            let mut later = daemon_sets.of(uid).filter(|(at, _)| *at > version && *at <= seen);
            daemon_sets.at(uid, version).is_some_and(is_it) && later.all(|(_, ds)| is_it(ds))
        };
        let has_failed = |name: &String| {
            let answers: Vec<&KnownAnswer> =
                self.answers(record, policy).filter(|known| known.is_of(name)).collect();
            let (Some(last), Some(check)) = (answers.last(), policy.check(name)) else {
                return false;
            };
            let count = check.failures();
            let row = answers.iter().rev().take(count);
            answers.len() >= count
                && row.into_iter().all(|known| {
                    known.verdict == CheckVerdict::Failed
                        && known.question.since == last.question.since
                        && is_known_since(known)
                })
        };
        let waits = self.waits(record, policy);
        let is_awaited = |name: &&String| waits.iter().all(|wait| wait.checks.contains(name));
        let names = waits.iter().flat_map(|wait| &wait.checks).filter(is_awaited);
        names.into_iter().find(|name| has_failed(name)).cloned()
    }

    /// True if the replica's clock was set after its start, as the questions of this wave show. A
    /// bake time that was over by the earlier clock, while a check had not passed, remains so.
    pub(super) fn was_clock_set(&self, record: &Record, policy: &Policy) -> bool {
        self.answers(record, policy).any(|known| {
            let question = &known.question;
            (question.asked.0 - question.asked_wall.0).abs() > TOLERANCE_MS
        })
    }

    /// The answers that the replica has got to checks of this attempt at a wave, while it was
    /// updated and while it baked.
    fn answers(&self, record: &Record, policy: &Policy) -> impl Iterator<Item = &KnownAnswer> {
        let (wave, since, began) =
            (policy.order_name(&record.position), record.since, record.began);
        self.view.answers.iter().filter(move |known| {
            let question = &known.question;
            question.wave.as_str() == wave
                && (question.since == since || question.since == began)
                && self.is_target(question.revision.as_str())
        })
    }
}

impl Situation<'_> {
    /// Number of nodes that have a pod of the target, or had one and await the next (G15).
    fn nodes_with_target(&self) -> usize {
        let awaits_next = |on: &NodeView| {
            on.occupants().next().is_none() && (on.has_failed() || on.is_lost() || on.was_passed())
        };
        let has_target =
            |on: &&NodeView| on.pods.iter().any(|it| self.is_updated(it.pod)) || awaits_next(on);
        self.nodes.values().filter(has_target).count()
    }
}

/// Why a plan without a record must hold one: more nodes have surely failed, or are surely lost,
/// than the policy tolerates, or a check has failed too often (G15).
pub(in crate::checker) fn left_out(
    view: &View,
    situation: &Situation,
    history: &History,
) -> Option<Violation> {
    let (Stage::Moving(record), Some(policy)) = (&situation.stage, situation.ds.policy.valid())
    else {
        return None;
    };
    if !record.is_under_way() {
        return None;
    }
    let is_recent = |outcome: &WriteOutcome| {
        matches!(outcome.result.write, Write::WriteRecord { .. })
            && view.planned_at.0 - outcome.arrived_at.0 <= RETRIED_AFTER_MS
    };
    if view.outcomes.iter().any(is_recent) {
        return None;
    }
    let name = &situation.ds.metadata.name;
    let judge = Judge { situation, view, history };
    if let Some(check) = judge.failed_check(record, policy) {
        let message = format!("{name}: the rollout goes on although check {check} has failed");
        return violation(Property::Record, message);
    }
    let rule = policy.failure.as_ref()?;
    let nodes = || situation.nodes.values();
    let failed = nodes().filter(|on| on.has_failed()).count();
    let lost = nodes().filter(|on| on.is_lost()).count();
    let with_target = situation.nodes_with_target();
    let (max_nodes, max_lost) = (rule.max_nodes(with_target), rule.max_lost(with_target));
    let message = format!(
        "{name}: the rollout goes on with {failed} failed nodes, {max_nodes} may fail, and {lost} \
         lost ones, {max_lost} may be lost"
    );
    let must_fail = failed > max_nodes || lost > max_lost;
    must_fail.then_some(Violation { property: Property::Record, message })
}
