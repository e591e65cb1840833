//! When the rollout begins on nodes: in a window of its policy, and no faster than the policy says
//! (G5, G11). Without a policy, nothing here is done.

use std::time::Duration;

use crate::api::{Now, Opening, RevisionHash, RolloutPhase, Timestamp};
use crate::node::PodView;
use crate::node_table::{NodeId, NodeTable};
use crate::plan::{Outcome, Write};
use crate::revisions::RevisionSet;
use crate::rollout::{MINUTE, Pace, Stage};

use super::DaemonSetState;

/// By how much a pod may be younger than its creation time says: the API server rounds it down to a
/// second, and its clock and the controller's may differ by another one.
const CREATION_TIME_ERROR: Duration = Duration::from_secs(2);

impl DaemonSetState {
    /// Until when the policy's windows are open or closed, by the steady clock, and when the next
    /// one opens if the rollout must wait for it. The first template replaces nothing, and going
    /// back does not wait: neither to the base after a failure, nor to a revision that was complete
    /// before.
    pub(super) fn window(
        &self,
        stage: &Stage<'_>,
        revisions: &RevisionSet<'_>,
        now: Now,
    ) -> (Option<Timestamp>, Option<Opening>) {
        let policy = self.daemon_set.policy.valid();
        let state = policy.and_then(|policy| policy.windows.at(now.to_wall(now.steady)));
        let Some(state) = state else { return (None, None) };
        let waits = match stage {
            Stage::Pending => !revisions.old.is_empty(),
            Stage::Moving(record) if record.phase == RolloutPhase::Complete => {
                let is_live = |hash: &RevisionHash| self.labels.is_live(hash);
                !self.bad_revisions().iter().any(is_live)
            }
            Stage::Moving(_) => !revisions.old.is_empty(),
            Stage::Unguarded
            | Stage::NotGuarded
            | Stage::Paused
            | Stage::WithoutPolicy { .. }
            | Stage::Failed { .. } => false,
        };
        let opening = state.opening().filter(|_| waits).cloned();
        (Some(now.to_steady(state.until())), opening)
    }

    /// When a window opens or closes, if that matters: a rollout is under way, or has left nodes
    /// behind.
    pub(super) fn window_due_at(&self) -> Option<Timestamp> {
        let record = self.rollout.guarding.moving();
        let is_under_way = record.is_some_and(|record| record.phase.is_under_way());
        // On nodes that only keep their pods, too: no count of the status tells of those.
        let is_rolled_out = !self.labels.has_outdated_pods();
        let is_done = record.is_some() && !is_under_way && is_rolled_out;
        let waits = self.rollout.guarding.awaits_window() && !is_done;
        self.rollout.guarding.window_until.filter(|_| is_under_way || waits)
    }

    /// Brings the pace up to date: which nodes count, and how many may.
    pub(super) fn refresh_pace(&mut self, now: Timestamp) {
        let policy = self.daemon_set.policy.valid();
        let Some(limit) = policy.and_then(|policy| policy.pods_per_minute) else {
            self.rollout.pace = None;
            return;
        };
        let is_new = self.rollout.pace.is_none();
        let pace = self.rollout.pace.get_or_insert_with(|| Box::new(Pace::new(limit, now)));
        pace.set_limit(limit);
        // A request without an answer may still take effect.
        for pod in self.expectations.deletions_to_repeat() {
            pod.node.iter().for_each(|node| pace.prolong(node, now));
        }
        for node in self.pending_names.nodes_in_doubt(now) {
            pace.prolong(node, now);
        }
        pace.expire(now);
        if is_new {
            self.mark_all();
        }
    }

    /// Records when a write by which the rollout may have begun on a node took effect at the
    /// latest.
    pub(super) fn apply_result_to_pace(
        &mut self,
        write: &Write,
        outcome: &Outcome,
        now: Timestamp,
    ) {
        let is_of_pod = matches!(write, Write::CreatePod(_) | Write::DeletePod(_));
        let node = write.target().node().filter(|_| is_of_pod);
        let (Some(pace), Some(node)) = (&mut self.rollout.pace, node) else { return };
        let is_repeated = match write.deleted() {
            Some(uid) => self.expectations.is_outcome_unknown(uid),
            None => self.pending_names.unsettled_nodes().any(|unsettled| unsettled == node),
        };
        match outcome {
            _ if is_repeated => pace.finish(node, now),
            Outcome::Failed { .. } | Outcome::Skipped | Outcome::NamespaceTerminating => {
                pace.cancel(node);
            }
            Outcome::Written { .. }
            | Outcome::Changed { .. }
            | Outcome::Gone
            | Outcome::RevisionExists { .. }
            | Outcome::Unknown { .. } => pace.finish(node, now),
        }
    }

    /// Records what the pods of a node tell of a beginning within the last minute: an old pod ends,
    /// the node is without a pod, or a pod is new there.
    pub(super) fn recover_pace(&mut self, id: NodeId, now: Now, nodes: &NodeTable) {
        let Some(pace) = self.rollout.pace.as_mut().filter(|pace| pace.is_recovering(now.steady))
        else {
            return;
        };
        let slot = &self.slots[id.index()];
        let pods = slot.pods.as_slice();
        let is_empty = slot.eligibility.should_run() && !pods.iter().any(PodView::counts);
        let is_ending = is_empty || pods.iter().any(PodView::is_terminating);
        let created = pods.iter().map(|pod| pod.creation_timestamp + CREATION_TIME_ERROR).max();
        let at = match created.map(|at| now.to_steady(at)) {
            _ if is_ending => Some(now.steady),
            at => at.map(|at| at.min(now.steady)),
        };
        if let Some(at) = at.filter(|at| *at + MINUTE > now.steady) {
            pace.recover(nodes.name(id), at);
        }
    }
}
