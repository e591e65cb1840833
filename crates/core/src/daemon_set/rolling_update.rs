//! Replacing pods of older revisions (C50–C53). Upstream: `rollingUpdate`.
//!
//! Which step a node is at is its [standing](super::assess); here the budget is shared out among the
//! nodes in [turn](super::turns) (C55). The steps of a plan may stand beside those of
//! [`manage`](super::manage): a node that it deletes from is left to it, and one that it creates on has
//! no pod and so uses the budget already.

use crate::api::{Budget, RevisionHash, Timestamp};

use super::DaemonSetState;
use super::assess::Judge;
use super::candidates::NodeSet;
use super::draft::Draft;

impl DaemonSetState {
    pub(super) fn rolling_update(&self, hash: &RevisionHash, now: Timestamp, draft: &mut Draft) {
        match self.daemon_set.update_strategy.budget(self.tally.desired) {
            None => {}
            Some(Budget::Surge(max_surge)) => self.surge(max_surge, hash, now, draft),
            Some(Budget::Unavailable(max_unavailable)) => {
                self.replace(max_unavailable, now, draft);
            }
        }
    }

    /// C52. The nodes of a strategy that surges come here, too, while none is desired and a percentage comes to
    /// nothing (C51). None of them is eligible then, so those with an available old pod are all in `sunset`.
    fn replace(&self, max_unavailable: usize, now: Timestamp, draft: &mut Draft) {
        self.delete_old(&self.candidates.replace_now, usize::MAX, now, draft);
        let surges = self.daemon_set.update_strategy.surges();
        let candidates = if surges { &self.candidates.sunset } else { &self.candidates.replace };
        let room = max_unavailable.saturating_sub(self.tally.uses_unavailable);
        self.delete_old(candidates, room, now, draft);
    }

    /// C53
    fn surge(&self, max_surge: usize, hash: &RevisionHash, now: Timestamp, draft: &mut Draft) {
        self.delete_old(&self.candidates.retire, usize::MAX, now, draft);
        self.delete_old(&self.candidates.replace_now, usize::MAX, now, draft);
        let spare = self.tally.serves.saturating_sub(self.tally.desired);
        self.delete_old(&self.candidates.sunset, spare, now, draft);
        let room = max_surge.saturating_sub(self.tally.uses_surge);
        // A creation of unknown outcome may be a surge that is not seen yet: its room is given to no other node.
        let unseen = |nodes| self.pending_names.hold_surge_room(nodes, now);
        let (at_once, in_turn) = (&self.candidates.surge_now, &self.candidates.surge);
        let room = room.saturating_sub(unseen(at_once).len());
        let again = unseen(in_turn);
        let others = self.turns.of(in_turn).filter(|(name, _)| !again.contains_key(*name));
        let others = others.take(room.saturating_sub(again.len()));
        let again = again.iter().take(room).map(|(name, id)| (name, *id));
        for (name, id) in self.turns.of(at_once).chain(again).chain(others) {
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
