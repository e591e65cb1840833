//! When the checks of a wave are asked: from when a node of it is done, the first time after their
//! `initialDelay` (G46), and then at their interval (G5).

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::Timestamp;
use everynode_core::plan::CheckQuestion;

use super::history::History;
use super::model::{DaemonSet, Phase, Policy, Position, Record, Revision};
use super::situation::Situation;
use super::{Property, Violation, violation};
use crate::view::{KnownAnswer, View};

/// Longer than a replica is behind with what the policy says.
const BEHIND_MS: i64 = 60_000;
/// Pods are ready in whole seconds.
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
    let states = history.revisions.states();
    let states: Vec<(u64, &Revision)> =
        states.filter(|(_, it)| uids.contains(it.metadata.uid.as_str())).collect();
    let records: Vec<(u64, &Record)> =
        states.iter().filter_map(|(at, revision)| Some((*at, revision.record.as_ref()?))).collect();
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
    let hashes = states.iter().filter_map(|(_, revision)| revision.metadata.hash()).collect();
    let all = history.revisions.states().map(|(_, it)| &it.metadata);
    let others = all.filter(|it| ds.owns(it) && !uids.contains(it.uid.as_str()));
    let others = others.filter_map(|it| it.hash()).collect();
    let asked = Asked { question, at: known.answered_at, ds, hashes, others, history };
    let is_right = policies.iter().any(|policy| {
        records.iter().any(|(at, record)| asked.is_right(*at, record, &records, policy))
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

struct Asked<'a> {
    question: &'a CheckQuestion,
    at: Timestamp,
    ds: &'a DaemonSet,
    /// The hash labels that the revision has had. Pods with a former one are of it by their
    /// generation (C45).
    hashes: BTreeSet<&'a str>,
    /// Those that the other revisions of the DaemonSet have had.
    others: BTreeSet<&'a str>,
    history: &'a History,
}

impl Asked<'_> {
    /// True if the question may be asked while this record is stored.
    fn is_right(&self, at: u64, record: &Record, all: &[(u64, &Record)], policy: &Policy) -> bool {
        let since = self.question.since;
        let is_baking = record.phase == Phase::Baking && record.since == since;
        if !is_baking && (record.phase != Phase::Updating || record.began != since)
            || policy.order_name(&record.position) != self.question.wave.as_str()
        {
            return false;
        }
        let is_first = |(_, other): &&(u64, &Record)| {
            other.began == record.began && other.position == record.position
        };
        let begun = all.iter().find(is_first).map_or(at, |(at, _)| *at);
        let check = policy.check(&self.question.check.name);
        let delay_ms = check.map_or(0, |check| check.initial_delay_ms);
        let is_late =
            |version: u64| self.history.time_of(version).0 + delay_ms <= self.at.0 + TOLERANCE_MS;
        // Of a wave that bakes some node was tried: it may have failed.
        is_late(begun) && (is_baking || self.ready_since(policy, &record.position).any(is_late))
    }

    /// The versions at which pods of the revision were ready on nodes of a wave.
    fn ready_since(&self, policy: &Policy, position: &Position) -> impl Iterator<Item = u64> {
        let is_of = move |name: &str| {
            let mut nodes = self.history.nodes.states().map(|(_, node)| &node.metadata);
            *position == Position::AllNodes
                || nodes.any(|node| node.name == name && policy.is_in(position, &node.labels))
        };
        let pods = self.history.pods.states();
        // Without a hash, as admission may leave it, and with that of no revision of the
        // DaemonSet, as on an adopted pod, the generation tells the revision (C45).
        let is_it = |hash: &str| self.hashes.contains(hash) || !self.others.contains(hash);
        let ready = pods.filter(move |(_, pod)| {
            pod.is_ready
                && self.ds.owns(&pod.metadata)
                && pod.metadata.hash().is_none_or(is_it)
                && pod.node().is_some_and(is_of)
        });
        ready.map(|(at, _)| at)
    }
}
