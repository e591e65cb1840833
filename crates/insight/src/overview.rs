//! A DaemonSet at a glance, as `watch` shows it: progress, the state of each node by zone, what
//! holds the rollout up, and an estimate of its end.
//!
//! It combines [`explain`](crate::explain) and [`Rollout`]. What could not be read is left out.

mod estimate;

use std::collections::BTreeMap;

use everynode_core::api::{DaemonSetKey, NodeName, ReasonClass, Revision, RevisionHash, Timestamp};

use crate::explain::{Explanation, NodeGroup, explain};
use crate::rollout::{GuardedWave, HeldUpNodes, Phase, Rollout, Strategy};
use crate::situation::Situation;
use crate::snapshot::Snapshot;

pub use estimate::{Estimate, EstimateBasis};

/// The state of a DaemonSet and its rollout at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The update strategy.
    pub update_strategy: Strategy,
    /// The state of the rollout.
    pub phase: Phase,
    /// The progress as numbers of nodes.
    pub progress: Progress,
    /// The reason why the rollout waits, as a phrase; empty if there is nothing to wait for.
    pub waits_for: String,
    /// The operator's next step for the DaemonSet as a whole; those for nodes are in `held_up`.
    pub next: Option<String>,
    /// A node whose pods should all be fetched, because a pod does not fit it.
    pub full_node: Option<NodeName>,
    /// The wave that a guarded rollout is at.
    pub wave: Option<GuardedWave>,
    /// The current revision and those that pods have; newest first.
    pub revisions: Vec<RevisionCount>,
    /// The zones by name; the nodes without a zone come last. Empty if no nodes were read.
    pub zones: Vec<Zone>,
    /// The nodes that hold up the rollout, the worst state first.
    pub held_up: Vec<HeldUpNodes>,
    /// When the rollout may end.
    pub estimate: Estimate,
    /// Problems of the DaemonSet itself, and objects that could not be read.
    pub problems: Vec<String>,
}

/// Numbers of nodes: counted in the snapshot, or taken from the DaemonSet's status if nodes could
/// not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Nodes that should run a pod.
    pub desired: usize,
    /// Nodes with a pod of the current revision.
    pub updated: usize,
    /// Nodes with a ready pod.
    pub ready: usize,
    /// Nodes with an available pod.
    pub available: usize,
    /// Nodes with an available pod of the current revision. The rollout ends when this reaches
    /// `desired`.
    pub done: usize,
}

/// A revision and its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionCount {
    /// The revision's number; `None` if the revision itself was not read.
    pub number: Option<i64>,
    /// The hash in the pods' label.
    pub hash: String,
    /// The revision stores the current template.
    pub is_current: bool,
    /// The number of pods.
    pub pods: usize,
    /// The number of available pods.
    pub available: usize,
    /// The time since its creation; `None` if the revision itself was not read.
    pub age_seconds: Option<u64>,
}

/// The nodes of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The zone's name; `None` for the nodes without a zone.
    pub name: Option<String>,
    /// The state of each node, in the order of the nodes' names.
    pub nodes: Vec<Situation>,
}

/// The nodes of one zone, with their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedZone {
    /// The zone's name; `None` for the nodes without a zone.
    pub name: Option<String>,
    /// Each node and its state, in the order of the nodes' names.
    pub nodes: Vec<(NodeName, Situation)>,
}

impl Overview {
    /// The overview of a DaemonSet of the snapshot at `now`; `None` if the snapshot lacks it.
    pub fn of(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Option<Self> {
        let rollout = Rollout::of(snapshot, key, now)?;
        Self::combined(snapshot, key, &rollout, explain(snapshot, key, now).as_ref(), now)
    }

    /// The overview of a DaemonSet whose rollout and explanation at `now` are at hand; `None` if
    /// the snapshot lacks it.
    pub fn combined(
        snapshot: &Snapshot,
        key: &DaemonSetKey,
        rollout: &Rollout,
        explanation: Option<&Explanation>,
        now: Timestamp,
    ) -> Option<Self> {
        let explanation = explanation.filter(|_| !snapshot.nodes.is_empty());
        let progress = match explanation {
            Some(explanation) => counted(explanation),
            None => reported(rollout),
        };
        let held_up = match explanation {
            Some(explanation) => held_up_nodes(explanation),
            None => held_up_pods(rollout),
        };
        let daemon_set = &snapshot.daemon_sets.get(key)?.daemon_set;
        let wave = rollout.guard.as_ref().and_then(|guard| guard.wave.clone());
        let class = rollout.class();
        let bakes = class == Some(ReasonClass::WaitsForTime);
        let waits = |wave: &GuardedWave| wave.number < wave.waves || bakes;
        let estimate = match &wave {
            // It may have failed while its pods still crash.
            _ if class.is_some_and(ReasonClass::awaits_person) => Estimate::Paused,
            // Bake times and approvals lie ahead.
            Some(wave) if waits(wave) && rollout.phase == Phase::Progressing => Estimate::Unknown,
            Some(_) | None => {
                estimate::estimate(snapshot, key, rollout.phase, &held_up, progress, now)
            }
        };
        Some(Self {
            update_strategy: Strategy(daemon_set.update_strategy),
            phase: rollout.phase,
            waits_for: rollout.waits_for(),
            next: rollout.next.clone(),
            full_node: rollout.full_node().cloned(),
            wave,
            revisions: revisions(snapshot, key, now),
            zones: explanation.map(|it| zones(snapshot, it)).unwrap_or_default(),
            estimate,
            problems: explanation.map_or(&snapshot.problems, |it| &it.problems).clone(),
            progress,
            held_up,
        })
    }

    /// The number of nodes in each situation, the worst first.
    pub fn situations(&self) -> BTreeMap<Situation, usize> {
        let mut counts = BTreeMap::new();
        for situation in self.zones.iter().flat_map(|zone| &zone.nodes) {
            *counts.entry(*situation).or_default() += 1;
        }
        counts
    }
}

/// Progress as counted by the core. Counts of objects that were not read are zero.
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

/// Progress as the DaemonSet's status reports it.
fn reported(rollout: &Rollout) -> Progress {
    let [desired, updated, ready, available] =
        [rollout.desired, rollout.updated, rollout.ready, rollout.available]
            .map(|count| count as usize);
    Progress { desired, updated, ready, available, done: updated.min(available) }
}

fn held_up_nodes(explanation: &Explanation) -> Vec<HeldUpNodes> {
    let groups = explanation.groups.iter().filter(|group| group.situation.holds_up());
    groups
        .map(|NodeGroup { situation, why, detail, next, nodes, .. }| HeldUpNodes {
            situation: *situation,
            why: why.clone(),
            detail: detail.clone(),
            next: next.clone(),
            nodes: nodes.clone(),
            count: nodes.len(),
        })
        .collect()
}

/// The held-up nodes as far as pods alone show them.
fn held_up_pods(rollout: &Rollout) -> Vec<HeldUpNodes> {
    rollout
        .groups()
        .into_iter()
        .map(|group| HeldUpNodes {
            situation: group.cause.situation(),
            why: group.cause.text,
            detail: group.cause.message,
            next: group.cause.next,
            nodes: group.nodes.iter().map(NodeName::to_string).collect(),
            count: group.pods,
        })
        .collect()
}

fn revisions(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Vec<RevisionCount> {
    let Some(object) = snapshot.daemon_sets.get(key) else { return Vec::new() };
    let daemon_set = &object.daemon_set;
    let mut by_hash: BTreeMap<RevisionHash, (usize, usize)> = BTreeMap::new();
    for detail in snapshot.pods_of(key).filter(|detail| !detail.pod.terminating) {
        if let Some(hash) = detail.pod.revision_hash() {
            let (pods, available) = by_hash.entry(hash).or_default();
            *pods += 1;
            *available += usize::from(detail.is_available(daemon_set, now));
        }
    }
    let revisions = Revision::by_content(daemon_set, snapshot.revisions_of(key), None);
    let current = revisions.current.into_iter().map(|revision| (revision, true));
    let all = current.chain(revisions.old.into_iter().map(|revision| (revision, false)));
    let stored = all.filter_map(|(revision, is_current)| {
        let hash = revision.hash()?;
        let (pods, available) = by_hash.remove(&hash).unwrap_or_default();
        let number = Some(revision.number);
        let hash = hash.to_string();
        let name = (key.namespace.clone(), revision.name.clone());
        let created_at = snapshot.revision_changes.get(&name).and_then(|it| it.created_at);
        let age_seconds = created_at.map(|at| now.since(at).as_secs());
        Some(RevisionCount { number, hash, is_current, pods, available, age_seconds })
    });
    let mut counts: Vec<_> =
        stored.filter(|revision| revision.is_current || revision.pods > 0).collect();
    counts.extend(by_hash.into_iter().map(|(hash, (pods, available))| RevisionCount {
        number: None,
        hash: hash.to_string(),
        is_current: false,
        pods,
        available,
        age_seconds: None,
    }));
    counts.sort_by_key(|revision| std::cmp::Reverse((revision.number, revision.pods)));
    counts
}

fn zones(snapshot: &Snapshot, explanation: &Explanation) -> Vec<Zone> {
    let zones = nodes_by_zone(snapshot, explanation).into_iter();
    let situations = |nodes: Vec<(NodeName, Situation)>| nodes.into_iter().map(|it| it.1).collect();
    zones.map(|NamedZone { name, nodes }| Zone { name, nodes: situations(nodes) }).collect()
}

/// The nodes of each zone with their states, both in the order of names; the nodes without a zone
/// come last.
pub fn nodes_by_zone(snapshot: &Snapshot, explanation: &Explanation) -> Vec<NamedZone> {
    let groups = explanation.groups.iter();
    let situations: BTreeMap<&str, Situation> = groups
        .flat_map(|group| group.nodes.iter().map(|node| (node.as_str(), group.situation)))
        .collect();
    let mut zones: BTreeMap<(bool, Option<String>), Vec<_>> = BTreeMap::new();
    for (node, detail) in &snapshot.nodes {
        let zone = detail.zone().filter(|zone| !zone.is_empty()).map(str::to_owned);
        let situation = situations.get(node.as_str()).copied().unwrap_or(Situation::Excluded);
        zones.entry((zone.is_none(), zone)).or_default().push((node.clone(), situation));
    }
    zones.into_iter().map(|((_, name), nodes)| NamedZone { name, nodes }).collect()
}
