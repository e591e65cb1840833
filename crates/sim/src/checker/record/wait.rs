//! The conditions on which a rollout goes on from a wave, or is complete (G5, G39, G45).

use everynode_core::api::Timestamp;
use everynode_core::plan::{Outcome, Write};

use crate::checker::model::{Eligibility, Node, Pod, Policy, Position, Record, Revision, Wait};
use crate::checker::situation::NodeView;
use crate::view::WriteOutcome;

use super::{Judge, TOLERANCE_MS};

impl Judge<'_> {
    /// The conditions on which the rollout goes on from the position of a record. Where they are
    /// not known, each of these may be the right one.
    pub(super) fn waits(&self, record: &Record, policy: &Policy) -> Vec<Wait> {
        let nothing = Wait::default();
        if record.position != Position::AllNodes {
            let step = policy.step(&record.position);
            return vec![step.map_or(nothing, |step| step.wait.clone())];
        }
        if record.is_promoted_in_full() {
            return vec![nothing];
        }
        let mut waits = vec![policy.finally.clone().unwrap_or_else(|| policy.wait_as_last_step())];
        if policy.finally.is_none() && !self.has_nodes_after_steps(policy) {
            waits.push(nothing.clone());
        }
        // A first template awaits nothing.
        if self.may_be_first(record) {
            waits.push(nothing);
        }
        waits
    }

    /// True if no other revision may have been stored when the rollout began.
    fn may_be_first(&self, record: &Record) -> bool {
        let Some(current) = self.situation.revisions.current.last() else { return true };
        let mut records = self.history.records(&current.metadata.uid);
        let begun = records.find(|(_, other)| other.began == record.began);
        let Some((begun, _)) = begun else { return true };
        let mut all = self.history.revisions.histories();
        !all.any(|(uid, _)| {
            let then = self.history.revisions.at(uid, begun);
            *uid != current.metadata.uid
                && then.is_some_and(|then| self.situation.ds.owns(&then.metadata))
        })
    }

    /// True if there surely are nodes that are in no step. One whose labels changed may still be
    /// one of its wave (G11), and one that is set aside may count or not.
    fn has_nodes_after_steps(&self, policy: &Policy) -> bool {
        let is_outside = |node: &Node| policy.groups(&node.metadata.labels).is_empty();
        self.members(&Position::AllNodes).any(|(_, on_node)| {
            on_node.by_target == Eligibility::ShouldRun
                && !on_node.is_aside()
                && self.states(on_node).all(is_outside)
        })
    }

    /// All states that a node has had.
    fn states(&self, on_node: &NodeView) -> impl Iterator<Item = &Node> {
        let uid = on_node.node.map_or("", |node| &node.metadata.uid);
        self.history.nodes.of(uid).map(|(_, node)| node)
    }

    /// The condition that the rollout still awaits at a wave that bakes.
    pub(super) fn awaited(&self, record: &Record, wait: &Wait, policy: &Policy) -> Option<String> {
        let wave = policy.order_name(&record.position);
        if wait.needs_approval && !record.approvals.contains(&wave) {
            return Some("moves on without an approval".to_owned());
        }
        if let Some(name) = self.unpassed(record, wait, policy) {
            return Some(format!("moves on although check {name} has not passed"));
        }
        let why = self.unbaked(record, wait).filter(|_| !self.was_clock_set(record, policy))?;
        Some(format!("moves on before the wave has baked: {why}"))
    }

    /// Why the bake time of a wave is not over.
    fn unbaked(&self, record: &Record, wait: &Wait) -> Option<String> {
        let bake_ms = wait.bake_ms;
        let uid = |revision: &&&Revision| revision.record.as_ref() == Some(record);
        let current = self.situation.revisions.current.iter().rev().find(uid)?;
        let stored = self.history.phase_stored_at(&current.metadata.uid, record)?;
        let by_clock_ms = self.view.followed_clock.0 - record.since.0;
        let in_truth_ms = self.view.planned_at.0 - stored.0;
        let longest_ms = by_clock_ms.max(in_truth_ms) + TOLERANCE_MS;
        if longest_ms < bake_ms {
            return Some(format!("{longest_ms} of {bake_ms} ms"));
        }
        let is_wrong = |clock: Timestamp, time: Timestamp| (clock.0 - time.0).abs() > TOLERANCE_MS;
        let is_clock_wrong = is_wrong(self.view.followed_clock, self.view.planned_at)
            || is_wrong(record.since, stored);
        let policy = self.situation.ds.policy.valid()?;
        let tolerates = policy.failure.is_some();
        let has_failed = |outcome: &WriteOutcome| {
            matches!(outcome.result.write, Write::WriteRecord { .. })
                && !matches!(outcome.result.outcome, Outcome::Written { .. })
        };
        let was_tried = self.view.outcomes.iter().any(has_failed);
        let waits_for_more = wait.needs_approval || !wait.checks.is_empty();
        if is_clock_wrong || waits_for_more || tolerates || was_tried {
            // A record has the time of the clock of its writer. A bake time that was over before
            // the approval or the answer to a check came, while a tolerated node had failed, or
            // when the next record could not be written, remains so.
            return None;
        }
        let min_ready_ms = self.situation.ds.min_ready_seconds * 1000;
        let is_too_young = |pod: &Pod| {
            pod.ready_since.filter(|_| pod.is_ready).is_some_and(|since| {
                self.view.planned_at.0 - since.0 - min_ready_ms + TOLERANCE_MS < bake_ms
            })
        };
        // What becomes of a node that is down or leaves, or that has joined beside others, does not
        // matter.
        let is_only = self.open_nodes(&record.position) == 1;
        let was_there = |on_node: &NodeView| {
            let uid = on_node.node.map(|node| &*node.metadata.uid);
            (is_only || !self.may_have_joined(on_node, record))
                && uid
                    .is_some_and(|uid| self.was_present(policy, uid, Timestamp(stored.0 - bake_ms)))
        };
        let young = self.members(&record.position).filter_map(|(name, on_node)| {
            let mut pods = on_node.pods.iter().filter(|our| !our.is_going).map(|our| our.pod);
            pods.find(|pod| is_too_young(pod) && self.is_open(name) && was_there(on_node))
        });
        let young: Vec<&Pod> = young.collect();
        let first = young.get(self.tenth_of_open_nodes(&record.position))?;
        Some(format!("pod {} became available too recently", first.metadata.name))
    }

    /// True if the replica may take a node for one that has joined: no pod of another revision was
    /// there, or the node is younger than the attempt by its record.
    pub(super) fn may_have_joined(&self, on_node: &NodeView, record: &Record) -> bool {
        let Some(node) = on_node.node else { return true };
        let mut pods = self.history.pods.states().map(|(_, pod)| pod);
        let had_other = pods.any(|pod| {
            self.situation.ds.owns(&pod.metadata)
                && pod.node() == Some(&node.metadata.name)
                && pod.created() >= node.created()
                && !self.situation.is_updated(pod)
        });
        !had_other || node.created().is_some_and(|at| at.0 + TOLERANCE_MS > record.began.0)
    }

    /// How many of the open nodes of a wave may be unavailable again: a tenth (G39).
    pub(super) fn tenth_of_open_nodes(&self, position: &Position) -> usize {
        self.open_nodes(position) / 10
    }

    /// How many nodes of a wave are open.
    fn open_nodes(&self, position: &Position) -> usize {
        let nodes = self.situation.nodes.iter();
        let open = nodes.filter(|(name, on_node)| {
            self.is_open(name) && self.situation.is_in(position, on_node)
        });
        open.count()
    }

    /// True if a node has been there since this time, and neither down nor leaving.
    fn was_present(&self, policy: &Policy, uid: &str, since: Timestamp) -> bool {
        let version = self.history.version_before(since);
        let versions = (version, self.history.version());
        self.history.nodes.was_always(uid, versions, |node| !policy.is_absent(node))
    }
}
