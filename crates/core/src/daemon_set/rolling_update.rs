//! Replacing pods of older revisions (C50–C53). Upstream: `rollingUpdate`.
//!
//! Which step a node is at is its [standing](super::assess); here the budget is shared out among the
//! nodes in [turn](super::turns) (C55). The steps of a plan may stand beside those of
//! [`manage`](super::manage): a node that it deletes from is left to it, and one that it creates on has
//! no pod and so uses the budget already.

use crate::name::RevisionHash;
use crate::object::UpdateStrategy;
use crate::time::Timestamp;

use super::DaemonSetState;
use super::assess::Judge;
use super::candidates::NodeSet;
use super::draft::Draft;

impl DaemonSetState {
    pub(super) fn rolling_update(&self, hash: &RevisionHash, now: Timestamp, draft: &mut Draft) {
        match self.daemon_set.update_strategy {
            UpdateStrategy::OnDelete | UpdateStrategy::Malformed => {}
            strategy @ UpdateStrategy::RollingUpdate { max_surge, .. } if strategy.surges() => {
                self.surge(max_surge.of(self.tally.desired), hash, now, draft);
            }
            UpdateStrategy::RollingUpdate { max_unavailable, .. } => {
                // C51: with both zero, one.
                self.replace(max_unavailable.of(self.tally.desired).max(1), now, draft);
            }
        }
    }

    /// C52
    fn replace(&self, max_unavailable: usize, now: Timestamp, draft: &mut Draft) {
        self.delete_old(&self.candidates.replace_now, usize::MAX, now, draft);
        let room = max_unavailable.saturating_sub(self.tally.uses_budget);
        self.delete_old(&self.candidates.replace, room, now, draft);
    }

    /// C53
    fn surge(&self, max_surge: usize, hash: &RevisionHash, now: Timestamp, draft: &mut Draft) {
        self.delete_old(&self.candidates.retire, usize::MAX, now, draft);
        let spare = self.tally.serves.saturating_sub(self.tally.desired);
        self.delete_old(&self.candidates.sunset, spare, now, draft);
        let room = max_surge.saturating_sub(self.tally.uses_budget);
        let at_once = self.turns.of(&self.candidates.surge_now);
        let in_turn = self.turns.of(&self.candidates.surge).take(room);
        for (name, id) in at_once.chain(in_turn) {
            if draft.creations_left() == 0 {
                break;
            }
            if !draft.touched.contains(&id) {
                draft.create(self.new_pod(name.clone(), hash));
            }
        }
    }

    /// Deletes the pods of older revisions on the first `count` of these nodes.
    fn delete_old(&self, nodes: &NodeSet, count: usize, now: Timestamp, draft: &mut Draft) {
        let judge = Judge::new(&self.daemon_set, &self.carried, now);
        for (name, id) in self.turns.of(nodes).take(count) {
            if !draft.may_delete() {
                break;
            }
            let old = judge.old_pod(&self.slots[id.index()]);
            if let Some(pod) = old.filter(|_| !draft.touched.contains(&id)) {
                draft.delete(name, id, pod);
            }
        }
    }
}
