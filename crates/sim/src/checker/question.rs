//! When the checks of a wave are asked: the first time after their `initialDelay` (G46), and then
//! at their interval (G5).

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::Timestamp;
use everynode_core::plan::CheckQuestion;

use super::history::History;
use super::model::{DaemonSet, Phase, Policy, Record, Revision};
use super::situation::Situation;
use super::{Property, Violation, violation};
use crate::view::{KnownAnswer, View};

/// Longer than a replica is behind with what the policy says.
const BEHIND_MS: i64 = 60_000;
/// Records have whole seconds.
const TOLERANCE_MS: i64 = 1_000;

/// How many answers were judged, by replica and DaemonSet.
#[derive(Debug, Default)]
pub(super) struct Questions(BTreeMap<(u64, String), usize>);

impl Questions {
    /// Judges when those questions were asked that were answered since the last plan.
    pub(super) fn check(
        &mut self,
        view: &View,
        situation: &Situation,
        history: &History,
    ) -> Option<Violation> {
        let judged = self.0.entry((view.replica, view.daemon_set.clone())).or_default();
        let since = std::mem::replace(judged, view.answers.len());
        let mut new = view.answers.iter().skip(since);
        new.find_map(|known| problem(known, situation.ds, view, history))
    }
}

/// Why a question was asked too early.
fn problem(
    known: &KnownAnswer,
    ds: &DaemonSet,
    view: &View,
    history: &History,
) -> Option<Violation> {
    let question = &known.question;
    if question.daemon_set.name.as_str() != ds.metadata.name
        || question.daemon_set.namespace.as_str() != ds.metadata.namespace
    {
        return None;
    }
    // The replica may have known another DaemonSet of that name then.
    history.daemon_sets(view.role).at(&ds.metadata.uid, known.daemon_sets)?;
    let is_asked = |revision: &Revision| {
        ds.owns(&revision.metadata) && revision.metadata.pod_hash() == question.revision.as_str()
    };
    let asked_of = history.revisions.states().filter(|(_, revision)| is_asked(revision));
    let uids: BTreeSet<&str> = asked_of.map(|(_, it)| it.metadata.uid.as_str()).collect();
    let states = history.revisions.states().filter(|(_, it)| uids.contains(&*it.metadata.uid));
    let records: Vec<(u64, &Record)> =
        states.filter_map(|(at, revision)| Some((at, revision.record.as_ref()?))).collect();
    // The policies that may have counted when it was asked.
    let since = history.version_before(Timestamp(known.answered_at.0 - BEHIND_MS));
    let daemon_sets = history.daemon_sets(view.role);
    let later = daemon_sets.of(&ds.metadata.uid).filter(|(at, _)| *at > since);
    let first = daemon_sets.at(&ds.metadata.uid, since);
    let all: Vec<&DaemonSet> = first.into_iter().chain(later.map(|(_, ds)| ds)).collect();
    let mut policies: Vec<&Policy> = all.iter().filter_map(|ds| ds.policy.valid()).collect();
    policies.dedup();
    // Then the checks of the next one are asked at once.
    let was_none_valid = all.iter().any(|ds| ds.policy.valid().is_none());
    let is_right = policies.iter().any(|policy| {
        let mut all = records.iter();
        all.any(|(at, record)| may_be_asked(known, (*at, *record), &records, policy, history))
    });
    let why = match is_right {
        true if !was_none_valid && is_too_soon(known, &policies, view) => "too often",
        true => return None,
        false => "too early",
    };
    let CheckQuestion { check, wave, .. } = question;
    let (name, check) = (&ds.metadata.name, &check.name);
    violation(Property::Check, format!("{name}: check {check} of wave {wave} is asked {why}"))
}

/// True if two other questions came before, within the interval of the check. One may: a check is
/// asked at the end of the bake time, too (G5).
fn is_too_soon(known: &KnownAnswer, policies: &[&Policy], view: &View) -> bool {
    let question = &known.question;
    let mut checks = policies.iter().map(|policy| policy.check(&question.check.name));
    // One that was changed is asked at once.
    let Some(Some(check)) = checks.next().filter(|first| checks.all(|other| other == *first))
    else {
        return false;
    };
    let is_same = |other: &&KnownAnswer| {
        let other = &other.question;
        (&other.daemon_set, &other.revision, &other.wave, other.since, &other.check.name)
            == (
                &question.daemon_set,
                &question.revision,
                &question.wave,
                question.since,
                &question.check.name,
            )
            && other.asked <= question.asked
    };
    let third = view.answers.iter().rev().filter(is_same).nth(2);
    third.is_some_and(|third| question.asked.0 - third.question.asked.0 < check.interval_ms)
}

/// True if the question may be asked while this record is stored: its delay begins with the wave,
/// or later.
fn may_be_asked(
    known: &KnownAnswer,
    (at, record): (u64, &Record),
    all: &[(u64, &Record)],
    policy: &Policy,
    history: &History,
) -> bool {
    let question = &known.question;
    let is_of_phase = match record.phase {
        Phase::Baking => record.since == question.since,
        Phase::Updating => record.began == question.since,
        _ => false,
    };
    let is_first = |(_, other): &&(u64, &Record)| {
        other.began == record.began && other.position == record.position
    };
    let begun = all.iter().find(is_first).map_or(at, |(at, _)| *at);
    let delay_ms = policy.check(&question.check.name).map_or(0, |check| check.initial_delay_ms);
    is_of_phase
        && policy.order_name(&record.position) == question.wave.as_str()
        && history.time_of(begun).0 + delay_ms <= known.answered_at.0 + TOLERANCE_MS
}
