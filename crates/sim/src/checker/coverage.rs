//! The cases that the checkers have looked at.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The names of cases that count as judged or not, in the sections where not all do.
const JUDGED: [&str; 2] = ["not judged", "judged"];
/// The names of plans that use their whole budget or not.
const FULL: [&str; 2] = ["not full", "full"];

/// The cases that the checkers have looked at, in one run or in many: their numbers, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<Section, BTreeMap<Cow<'static, str>, u64>>);

/// A part of what the checkers look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Deletions of pods that arrived: those that were judged in their replica's view, and others.
    Deletions,
    /// The same for creations of pods.
    Creations,
    /// Judged writes of pods, by the rule that allows them.
    Reasons,
    /// All else that was judged: other writes, pods that the controller bound to their nodes (C31),
    /// Kubernetes Events, and replicas with nothing to do for a DaemonSet.
    Others,
    /// Judged records of guarded rollouts, by phase, and by reason for those that have one.
    Records,
    /// Plans that replace available pods: those that use the whole budget, and others.
    Budgets,
    /// Plans that create pods beside available ones, and those that use the whole `maxSurge`.
    Surges,
    /// Faults, by kind.
    Faults,
    /// Faults while pods of an older revision were being replaced, by kind.
    FaultsInRollouts,
}

impl Coverage {
    pub(super) fn count(&mut self, section: Section, kind: impl Into<Cow<'static, str>>) {
        self.add(section, kind.into(), 1);
    }

    /// Counts a write of a pod. It was judged if there is a reason.
    pub(super) fn count_judged(&mut self, section: Section, reason: Option<&'static str>) {
        self.count(section, JUDGED[usize::from(reason.is_some())]);
        reason.into_iter().for_each(|reason| self.count(Section::Reasons, reason));
    }

    /// Counts a plan with a budget.
    pub(super) fn count_budget(&mut self, section: Section, is_full: bool) {
        self.count(section, FULL[usize::from(is_full)]);
    }

    fn add(&mut self, section: Section, kind: Cow<'static, str>, number: u64) {
        *self.0.entry(section).or_default().entry(kind).or_default() += number;
    }

    /// The number of cases of a kind.
    pub fn number(&self, section: Section, kind: &str) -> u64 {
        self.0.get(&section).and_then(|counts| counts.get(kind).copied()).unwrap_or_default()
    }

    /// The number of all cases of a section.
    pub fn total(&self, section: Section) -> u64 {
        self.0.get(&section).into_iter().flat_map(BTreeMap::values).sum()
    }

    /// The share of the cases of a section that were judged, in percent; 100 if there are none.
    pub fn judged_percent(&self, section: Section) -> u64 {
        let judged = self.number(section, JUDGED[1]);
        (judged * 100).checked_div(self.total(section)).unwrap_or(100)
    }

    /// Adds what was looked at in another run.
    pub fn merge(&mut self, other: &Self) {
        for (section, counts) in &other.0 {
            counts.iter().for_each(|(kind, number)| self.add(*section, kind.clone(), *number));
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (section, counts) in &self.0 {
            let counts = counts.iter().map(|(kind, number)| format!("{kind}: {number}"));
            writeln!(f, "{section:?}: {}", counts.collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }
}
