//! The writes of one sync (C20–C56, C70). Each part reads the index through a [`SyncInput`] and
//! adds writes to a [`Draft`]; none of them changes the state.

mod changes;
mod copies;
mod draft;
mod images;
mod manage;
mod ownership;
mod revisions;
mod rolling_update;
mod running;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::{
    DaemonSet, NodeName, NodeOverride, Now, Overrides, PodName, Replacement, RevisionHash, Uid,
};
use crate::copying::Copying;
use crate::node_table::{NodeId, NodeTable};
use crate::plan::{NewPod, Write};
use crate::pod_changes::PodChanges;
use crate::revisions::{RevisionHistory, RevisionLabels};
use crate::rollout::RolloutState;

use super::index::{Groups, NodeCounts, PendingNames, RetryOrder, Room, WorkSets};
use crate::config::Config;
use crate::node::{Assessor, Direction, PodView, RolloutRules, Slot};

pub(super) use changes::{finish_changes, override_with_tag};
pub(super) use copies::plan_copies;
pub(super) use draft::{Draft, notice_of_end};
pub(super) use images::{delete_pullers, pull_images};
pub(super) use manage::manage;
pub(super) use ownership::plan_ownership;
pub(super) use revisions::{PodRevision, plan_revisions, truncate_history};
pub(super) use rolling_update::{rolling_update, tell};
pub(super) use running::{override_running, override_starting};
pub(super) use status::{StatusState, plan_status};

/// The input of a sync. Counts and sets are up to date at `now`.
pub(super) struct SyncInput<'a> {
    pub now: Now,
    pub config: &'a Config,
    pub daemon_set: &'a DaemonSet,
    pub slots: &'a [Slot],
    /// Pods that neither run on a node nor are pinned to one.
    pub unplaced: &'a BTreeMap<Uid, PodView>,
    /// Owned pods that the selector does not match (C21).
    pub releases: &'a BTreeMap<PodName, Uid>,
    pub history: &'a RevisionHistory,
    pub labels: &'a RevisionLabels,
    pub replacements: &'a BTreeMap<Uid, Replacement>,
    pub changes: &'a PodChanges,
    pub copying: &'a Copying,
    pub rules: RolloutRules<'a>,
    pub rollout: &'a RolloutState,
    pub counts: &'a NodeCounts,
    pub work_sets: &'a WorkSets,
    /// Set if the policy limits each group of nodes.
    pub groups: Option<&'a Groups>,
    pub retry_order: &'a RetryOrder,
    pub pending_names: &'a PendingNames,
    /// True if the namespace is terminating, so that creations would be refused (C28).
    pub creations_suspended: bool,
    pub nodes: &'a NodeTable,
}

impl<'a> SyncInput<'a> {
    pub(super) fn assessor(&self) -> Assessor<'a> {
        Assessor::new(self.daemon_set, self.rules, self.labels, self.now)
    }

    /// The pod to create on a node from the target.
    pub(super) fn new_pod(&self, node: NodeName, id: NodeId, hash: &RevisionHash) -> NewPod {
        NewPod {
            r#override: self.override_of_node(id, self.labels.overrides()),
            name: self.pending_names.name_for(&node).cloned(),
            node,
            hash: hash.clone(),
            template_generation: self.daemon_set.template_generation,
            template: None,
            schedule_by: self.config.schedule_by,
        }
    }

    /// The pod to create on a node from the revision that governs it. One of an older revision does
    /// not have the current template generation, which would make it count as updated (G16).
    pub(super) fn governing_pod(
        &self,
        node: NodeName,
        id: NodeId,
        target: &RevisionHash,
    ) -> NewPod {
        let slot = &self.slots[id.index()];
        let pods = slot.pods.as_slice();
        match self.rollout.gate.governing(pods, slot.wave, self.labels).old {
            None => self.new_pod(node, id, target),
            Some((hash, template)) => NewPod {
                template_generation: None,
                template: Some(template.canonical.clone()),
                r#override: self.override_of_node(id, self.history.overrides(hash)),
                ..self.new_pod(node, id, hash)
            },
        }
    }

    /// The one of these overrides that counts on a node (G57).
    pub(super) fn override_of_node(
        &self,
        id: NodeId,
        overrides: Option<&Arc<Overrides>>,
    ) -> Option<Arc<NodeOverride>> {
        overrides?.of_node(self.nodes.node(id)?).cloned()
    }

    /// The question whether this old pod may go for the target, whose hash is `target` (G54).
    pub(super) fn question(&self, node: &NodeName, pod: &PodView, target: &RevisionHash) -> Write {
        // A clock that is behind must not make it a question of an earlier attempt.
        let began = self.rollout.moving().map(|record| record.began);
        let answered = self.replacements.get(&pod.uid).is_some_and(|known| known.is_agreed);
        Write::AskForReplacement {
            pod: pod.reference(Some(node)),
            hash: target.clone(),
            since: self.now.wall_seconds().max(began.unwrap_or_default()),
            withdraws: answered,
        }
    }

    /// On how many more nodes the rollout may begin, within this maximum.
    pub(super) fn room(&self, max: usize) -> Room {
        let room = |max| Room::new(self.rules.guarded, max, self.counts);
        match self.rules.guarded {
            Some(Direction::Forward) => room(max).or_one(self.counts),
            // A percentage of no desired node is 0, but the failed pods must go (G41).
            Some(Direction::Back) => room(max.max(1)),
            None => room(max),
        }
    }
}
