//! Which nodes pull the images of the target (G55).

use std::collections::BTreeSet;

use crate::api::{ImagePuller, NodeName, PrepareImages, RolloutPhase};
use crate::config::Clocks;
use crate::node::{Health, NodeState, Scheduling, SlotFlags, Wave};
use crate::node_table::{NodeId, NodeTable};
use crate::revisions::RevisionLabels;

use super::super::images::{Need, PullProgress};
use super::super::input::RolloutInput;
use super::super::stage::PhaseKey;
use super::super::wave::failing_pull_limit;
use super::RolloutState;
use super::candidate::rank;

impl RolloutState {
    /// How nodes pull the images of the target, while the rollout goes forward.
    pub(crate) fn image_rule(&self) -> Option<PrepareImages> {
        self.facts.last().images.filter(|_| self.moving().is_some())
    }

    /// True if more nodes may begin to pull: the rollout is not held.
    pub(crate) fn may_pull(&self) -> bool {
        self.rules().replaces
    }

    /// True if the puller pulls the images of the target.
    pub(crate) fn is_of_target(puller: &ImagePuller, labels: &RevisionLabels) -> bool {
        labels.current_hashes().any(|hash| *hash == puller.revision)
    }

    /// How far the node has the images, as its pullers show; `None` if nothing waits for them. A
    /// reader of snapshots assumes that nodes without a puller have the images.
    pub(super) fn observe_images(
        &mut self,
        id: NodeId,
        input: &RolloutInput<'_>,
        nodes: &NodeTable,
    ) -> Option<PullProgress> {
        self.image_rule()?;
        let node = nodes.node(id)?;
        let is_of_target = |puller: &ImagePuller| Self::is_of_target(puller, input.labels);
        let progress = self.images.observe(node, input.now.steady, is_of_target);
        (input.clocks == Clocks::Observed || progress.since.is_some()).then_some(progress)
    }

    /// Determines whether the node needs the images, by its state.
    pub(super) fn refresh_need(&mut self, id: NodeId, input: &RolloutInput<'_>, nodes: &NodeTable) {
        if self.facts.last().images.is_none() && self.images.is_idle() {
            return;
        }
        let name = nodes.name(id);
        let need = self.need(id, name, input);
        self.images.need(name, need);
        if need.is_none() {
            self.images.stop_clocks(name);
        }
    }

    fn need(&self, id: NodeId, name: &NodeName, input: &RolloutInput<'_>) -> Option<Need> {
        let rule = self.image_rule()?;
        let waves = self.waves.as_deref()?;
        let slot = &input.slots[id.index()];
        let progress = self.images.progress(name);
        let health = match slot.assessment.scheduling {
            _ if slot.flags.contains(SlotFlags::LOSES_POD) || progress.are_present => None,
            Scheduling::Scheduled { health, is_updated: false } => Some(health),
            _ => None,
        };
        // Without an available pod nothing is lost while the new one pulls them.
        let lacks = health == Some(Health::Available);
        let limit = failing_pull_limit(Some(waves.policy()));
        let overdue_at = progress.overdue_at(rule.within, limit);
        let is_late = || overdue_at.is_some_and(|at| at <= input.now.steady);
        match (waves.wave(id), waves.state(id)) {
            (Wave::Open, NodeState::Pulling { is_overdue: false, .. }) => Some(Need::Now),
            (Wave::Open, NodeState::Pulling { is_overdue: true, .. }) => Some(Need::Overdue),
            // Another one has failed for another reason than its images.
            (Wave::Open, NodeState::Failed) if health.is_some() && is_late() => Some(Need::Overdue),
            (Wave::Open, NodeState::Asked { .. }) if health.is_some() => {
                Some(if is_late() { Need::Overdue } else { Need::Now })
            }
            (Wave::Open, NodeState::Waiting { .. }) if lacks => {
                Some(if is_late() { Need::Overdue } else { Need::Now })
            }
            (Wave::Closed, NodeState::Waiting { .. })
                if lacks && self.images.is_of_next_wave(name) =>
            {
                Some(if is_late() { Need::Overdue } else { Need::Next })
            }
            (Wave::Open | Wave::Closed | Wave::Held | Wave::HeldTooLate, _) => None,
        }
    }

    /// Determines the nodes of the next wave, while the current one bakes: they pull meanwhile.
    /// Nodes that come or go change them.
    pub(super) fn refresh_next_wave(&mut self, input: &RolloutInput<'_>, nodes: &NodeTable) {
        let is_moving = self.image_rule().is_some();
        let baking = self.record().filter(|it| is_moving && it.phase == RolloutPhase::Baking);
        let key = baking.map(|record| PhaseKey::new(record));
        let counted = baking.zip(self.waves.as_deref());
        let is_unchanged =
            counted.is_none_or(|(record, waves)| waves.counted(&record.position).is_some());
        if is_unchanged && self.images.knows_next_wave(key.as_ref()) {
            return;
        }
        let bad = input.bad_revisions();
        let next = baking.zip(self.waves.as_deref()).zip(key).map(|((record, waves), key)| {
            let position = waves.next(&record.position);
            let rank = |waves: &_, id| rank(waves, id, &bad, input, nodes);
            let chosen = waves.chosen_at(&position, |id| nodes.name(id).clone(), rank);
            let names: BTreeSet<_> = chosen.into_iter().map(|id| nodes.name(id).clone()).collect();
            (key, names)
        });
        for node in self.images.set_next_wave(next) {
            if let Some(id) = nodes.id(&node) {
                self.refresh_need(id, input, nodes);
            }
        }
    }
}
