//! What the checkers have looked at.

use std::collections::BTreeMap;
use std::fmt;

use super::model::Record;

/// What the checkers have looked at, in one run or in many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Deletions of pods that arrived, and those of them that were judged in their replica's view.
    pub deletions: Judged,
    /// Creations of pods that arrived, and those of them that were judged in their replica's view.
    pub creations: Judged,
    /// The judged creations of pods that the controller bound to their nodes (C31).
    pub bound: u64,
    /// Judged writes of pods, by the rule that allows them.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Judged writes of other kinds.
    pub others: BTreeMap<&'static str, u64>,
    /// Judged records of guarded rollouts, by phase, and by reason for those that have one.
    pub records: BTreeMap<String, u64>,
    /// Plans that replace available pods, and those of them that use the whole budget.
    pub budgets: Judged,
    /// Plans that create pods beside available ones, and those that use the whole `maxSurge`.
    pub surges: Judged,
    /// How often a replica with nothing to do for a DaemonSet was judged.
    pub idle: u64,
    /// Kubernetes Events that were judged.
    pub events: u64,
    /// Faults, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Faults while pods of an older revision were being replaced, by kind.
    pub faults_in_rollouts: BTreeMap<&'static str, u64>,
}

/// A number of cases, and of those that were judged or are of a certain kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// All cases.
    pub all: u64,
    /// Those of them that count.
    pub judged: u64,
}

impl Judged {
    fn record(&mut self, is_judged: bool) {
        self.all += 1;
        self.judged += u64::from(is_judged);
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.judged += other.judged;
    }

    /// The share of those that count, in percent; 100 if there are none.
    pub fn percent(self) -> u64 {
        (self.judged * 100).checked_div(self.all).unwrap_or(100)
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} ({} %)", self.judged, self.all, self.percent())
    }
}

impl Coverage {
    pub(super) fn record_deletion(&mut self, reason: Option<&'static str>) {
        self.deletions.record(reason.is_some());
        reason.into_iter().for_each(|reason| self.record_reason(reason));
    }

    pub(super) fn record_creation(&mut self, reason: Option<&'static str>, is_bound: bool) {
        self.creations.record(reason.is_some());
        self.bound += u64::from(is_bound && reason.is_some());
        reason.into_iter().for_each(|reason| self.record_reason(reason));
    }

    fn record_reason(&mut self, reason: &'static str) {
        *self.reasons.entry(reason).or_default() += 1;
    }

    pub(super) fn record_other(&mut self, write: &'static str) {
        *self.others.entry(write).or_default() += 1;
    }

    pub(super) fn record_rollout(&mut self, record: &Record) {
        let reason = record.reason.as_ref().map_or(String::new(), |reason| format!(" {reason}"));
        *self.records.entry(format!("{:?}{reason}", record.phase)).or_default() += 1;
    }

    pub(super) fn record_budget(&mut self, is_full: bool) {
        self.budgets.record(is_full);
    }

    pub(super) fn record_surge(&mut self, is_full: bool) {
        self.surges.record(is_full);
    }

    pub(super) fn record_fault(&mut self, kind: &'static str, is_in_rollout: bool) {
        *self.faults.entry(kind).or_default() += 1;
        if is_in_rollout {
            *self.faults_in_rollouts.entry(kind).or_default() += 1;
        }
    }

    /// Adds what was looked at in another run.
    pub fn merge(&mut self, other: &Self) {
        self.deletions.add(other.deletions);
        self.creations.add(other.creations);
        self.bound += other.bound;
        self.budgets.add(other.budgets);
        self.surges.add(other.surges);
        self.idle += other.idle;
        self.events += other.events;
        for (key, count) in &other.records {
            *self.records.entry(key.clone()).or_default() += count;
        }
        let pairs = [
            (&mut self.reasons, &other.reasons),
            (&mut self.others, &other.others),
            (&mut self.faults, &other.faults),
            (&mut self.faults_in_rollouts, &other.faults_in_rollouts),
        ];
        for (counts, others) in pairs {
            for (key, count) in others {
                *counts.entry(key).or_default() += count;
            }
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |counts: &BTreeMap<&'static str, u64>| {
            let counts = counts.iter().map(|(key, count)| format!("{key}: {count}"));
            counts.collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "pod deletions judged: {}", self.deletions)?;
        writeln!(f, "pod creations judged: {}", self.creations)?;
        writeln!(f, "pods bound by the controller: {}", self.bound)?;
        writeln!(f, "reasons: {}", list(&self.reasons))?;
        writeln!(f, "other writes judged: {}", list(&self.others))?;
        let records = self.records.iter().map(|(key, count)| format!("{key}: {count}"));
        writeln!(f, "records judged: {}", records.collect::<Vec<_>>().join(", "))?;
        writeln!(f, "rollouts with a full budget: {}", self.budgets)?;
        writeln!(f, "rollouts with a full maxSurge: {}", self.surges)?;
        writeln!(f, "replicas with nothing to do judged: {}", self.idle)?;
        writeln!(f, "events judged: {}", self.events)?;
        writeln!(f, "faults: {}", list(&self.faults))?;
        write!(f, "faults in rollouts: {}", list(&self.faults_in_rollouts))
    }
}
