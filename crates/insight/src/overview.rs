//! A DaemonSet at a glance: how far it is, what each node does, by zone, what holds it up, and when it may end.
//!
//! What nodes do is [`explain`]'s answer, where the rollout stands [`Rollout`]'s; here they are only put together. What
//! could not be read is left out, and the rest still told.

mod estimate;

use std::collections::BTreeMap;

use everynode_core::api::{DaemonSetKey, NodeName, RevisionHash, Timestamp};

use crate::explain::{Explanation, Group, Situation, explain};
use crate::rollout::{self, Cause, Phase, Rollout};
use crate::snapshot::{PodState, Snapshot};

pub use estimate::{Basis, Estimate};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    pub update_strategy: String,
    pub phase: Phase,
    pub progress: Progress,
    /// In a phrase; empty if there is nothing to wait for.
    pub waits_for: String,
    /// Those that pods carry, and the current one; newest first.
    pub revisions: Vec<RevisionCount>,
    /// In the order of their names; nodes without a zone last. Empty if no nodes were read.
    pub zones: Vec<Zone>,
    /// Nodes that are not as they should be, the worst first.
    pub held_up: Vec<HeldUp>,
    pub estimate: Estimate,
    /// What is wrong with the DaemonSet itself, or could not be read.
    pub problems: Vec<String>,
}

/// Numbers of nodes: as counted here, or as the DaemonSet's status has them if nodes could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub desired: usize,
    pub updated: usize,
    pub ready: usize,
    pub available: usize,
    /// Have an available pod of the current revision: what the end of the rollout is measured by.
    pub done: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionCount {
    /// None if the revision itself was not read.
    pub number: Option<i64>,
    pub hash: String,
    pub is_current: bool,
    pub pods: usize,
    pub available: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// None: of nodes that name no zone.
    pub name: Option<String>,
    /// In the order of their names.
    pub nodes: Vec<Situation>,
}

/// Nodes that are held up by one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    pub situation: Situation,
    pub why: String,
    /// What comes next, or what to do.
    pub next: Option<String>,
    /// In the order of their names. Empty if it is not known where its pods are.
    pub nodes: Vec<String>,
    pub count: usize,
}

impl Overview {
    /// `None` if there is no such DaemonSet.
    pub fn of(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Option<Self> {
        let rollout = Rollout::of(snapshot, key, now)?;
        let explanation = explain(snapshot, key, now).filter(|_| !snapshot.nodes.is_empty());
        let progress = match &explanation {
            Some(explanation) => counted(explanation),
            None => reported(&rollout),
        };
        let held_up = match &explanation {
            Some(explanation) => of_nodes(explanation),
            None => of_pods(&rollout),
        };
        let daemon_set = &snapshot.daemon_sets.get(key)?.daemon_set;
        Some(Self {
            update_strategy: rollout::strategy_text(daemon_set.update_strategy),
            phase: rollout.phase,
            waits_for: rollout.waits_for(),
            revisions: revisions(snapshot, key, now),
            zones: explanation.as_ref().map(|it| zones(snapshot, it)).unwrap_or_default(),
            estimate: estimate::estimate(snapshot, key, &rollout, progress, &held_up, now),
            problems: explanation
                .map_or_else(|| snapshot.problems.clone(), |explanation| explanation.problems),
            progress,
            held_up,
        })
    }

    /// How many nodes are in each situation, the worst first.
    pub fn situations(&self) -> BTreeMap<Situation, usize> {
        let mut counts = BTreeMap::new();
        for situation in self.zones.iter().flat_map(|zone| &zone.nodes) {
            *counts.entry(*situation).or_default() += 1;
        }
        counts
    }
}

/// Pods and revisions are read, so all counts are there.
fn counted(explanation: &Explanation) -> Progress {
    let up_to_date =
        explanation.groups.iter().filter(|group| group.situation == Situation::UpToDate);
    Progress {
        desired: explanation.desired,
        updated: explanation.updated.unwrap_or_default(),
        ready: explanation.ready.unwrap_or_default(),
        available: explanation.available.unwrap_or_default(),
        done: up_to_date.map(|group| group.nodes.len()).sum(),
    }
}

fn reported(rollout: &Rollout) -> Progress {
    let [desired, updated, ready, available] =
        [rollout.desired, rollout.updated, rollout.ready, rollout.available]
            .map(|count| count as usize);
    Progress { desired, updated, ready, available, done: updated.min(available) }
}

fn of_nodes(explanation: &Explanation) -> Vec<HeldUp> {
    let groups = explanation.groups.iter().filter(|group| group.situation.holds_up());
    groups
        .map(|Group { situation, why, next, nodes, .. }| HeldUp {
            situation: *situation,
            why: why.clone(),
            next: next.clone(),
            nodes: nodes.clone(),
            count: nodes.len(),
        })
        .collect()
}

/// Without nodes it is still known what pods say.
fn of_pods(rollout: &Rollout) -> Vec<HeldUp> {
    let groups = rollout.groups().into_iter();
    groups
        .map(|group| HeldUp {
            situation: situation(&group.cause),
            why: group.cause.to_string(),
            next: None,
            nodes: group.nodes.iter().map(NodeName::to_string).collect(),
            count: group.pods,
        })
        .collect()
}

const fn situation(cause: &Cause) -> Situation {
    match cause {
        Cause::Failing(PodState::Unscheduled { .. }) => Situation::Unschedulable,
        Cause::Failing(_) => Situation::Failing,
        Cause::NodeNotReady => Situation::NodeNotReady,
        Cause::Starting(_) => Situation::NotReady,
        Cause::Settling { .. } => Situation::NotYetAvailable,
        Cause::Terminating => Situation::Terminating,
        Cause::AwaitsTurn | Cause::AwaitsDeletion => Situation::Outdated,
    }
}

fn revisions(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Vec<RevisionCount> {
    let Some(object) = snapshot.daemon_sets.get(key) else { return Vec::new() };
    let daemon_set = &object.daemon_set;
    let mut carried: BTreeMap<RevisionHash, (usize, usize)> = BTreeMap::new();
    for detail in snapshot.pods_of(key).filter(|detail| !detail.pod.terminating) {
        if let Some(hash) = detail.pod.revision_hash() {
            let (pods, available) = carried.entry(hash).or_default();
            *pods += 1;
            *available += usize::from(rollout::is_available(daemon_set, detail, now));
        }
    }
    let stored = snapshot.revisions_of(key).into_iter().filter_map(|revision| {
        let hash = revision.hash()?;
        let is_current = revision.stores(&daemon_set.template);
        let (pods, available) = carried.remove(&hash).unwrap_or_default();
        let number = Some(revision.number);
        let hash = hash.to_string();
        Some(RevisionCount { number, hash, is_current, pods, available })
    });
    let mut counts: Vec<_> =
        stored.filter(|revision| revision.is_current || revision.pods > 0).collect();
    counts.extend(carried.into_iter().map(|(hash, (pods, available))| RevisionCount {
        number: None,
        hash: hash.to_string(),
        is_current: false,
        pods,
        available,
    }));
    counts.sort_by_key(|revision| std::cmp::Reverse((revision.number, revision.pods)));
    counts
}

fn zones(snapshot: &Snapshot, explanation: &Explanation) -> Vec<Zone> {
    let groups = explanation.groups.iter();
    let situations: BTreeMap<&str, Situation> = groups
        .flat_map(|group| group.nodes.iter().map(|node| (node.as_str(), group.situation)))
        .collect();
    let mut zones: BTreeMap<(bool, Option<String>), Vec<Situation>> = BTreeMap::new();
    for (node, detail) in &snapshot.nodes {
        let zone = detail.zone().filter(|zone| !zone.is_empty()).map(str::to_owned);
        let situation = situations.get(node.as_str()).copied().unwrap_or(Situation::Excluded);
        zones.entry((zone.is_none(), zone)).or_default().push(situation);
    }
    zones.into_iter().map(|((_, name), nodes)| Zone { name, nodes }).collect()
}
