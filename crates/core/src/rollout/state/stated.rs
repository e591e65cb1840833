//! The statement of a rollout's condition, and its inputs that its stage does not determine.

use std::sync::Arc;

use crate::api::{
    FailedNode, FailedNodes, FailureCause, NAMED_NODES, Position, RolloutPhase, Timestamp,
};
use crate::node::{Direction, NodeState, PodView, SetAside};
use crate::node_table::{NodeId, NodeTable};

use super::super::beside::revision_beside;
use super::super::checks::ChecksVerdict;
use super::super::condition::{ConditionInput, Stated, headline};
use super::super::details::{OverridesProgress, StartingNodes, WaveProgress};
use super::super::facts::Motion;
use super::super::hindrance::{Hindrance, WaveBlocker, begins_at, hindrance, wave_blocker};
use super::super::input::RolloutInput;
use super::super::rollback::{OnTarget, RollbackProgress, has_nodes_left};
use super::super::stage::Stage;
use super::super::wave::{LONG_START, Waves};
use super::RolloutState;

/// The inputs of the headline that [`StageKey`](super::super::facts::StageKey) does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeadlineKey {
    blocker: Option<WaveBlocker>,
    /// Why the nodes of the wave keep the rollout waiting, beside the blocker.
    hindrance: Option<Hindrance>,
    /// Since when the rollout is stuck, if it is.
    stuck_since: Option<Timestamp>,
    /// True if nodes lack a revision that is complete.
    has_nodes_left: bool,
    on_target: OnTarget,
    /// The first wave, which may be another one when a node joins.
    first: Option<Position>,
    /// The nodes that have failed since the rollout was complete, if these are too many.
    late: Option<FailedNodes>,
    /// Why the record cannot be written.
    record_failure: Option<Arc<str>>,
}

/// The parts of the condition beside its headline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Details {
    /// How far the wave is, while the rollout is under way.
    wave: Option<WaveProgress>,
    /// The nodes of a failed rollout that goes back, as far as they have no available pod for long.
    back: StartingNodes,
    /// How often what is stated of the checks has changed.
    check_changes: u64,
    leaked: usize,
    /// The pods that are without their override, if any are named.
    overrides: Option<Box<OverridesProgress>>,
}

impl OverridesProgress {
    /// `None` if there is nothing to state.
    fn new(input: &RolloutInput<'_>, nodes: &NodeTable) -> Option<Box<Self>> {
        if input.keeps_override.is_empty() && input.override_failure.is_none() {
            return None;
        }
        let kept = input.keeps_override.iter();
        let named = kept.take(NAMED_NODES).map(|(id, why)| (nodes.name(*id).clone(), why.clone()));
        let named: Vec<_> = named.collect();
        Some(Box::new(Self {
            more: input.keeps_override.len() - named.len(),
            named,
            failure: input.override_failure.cloned(),
        }))
    }
}

impl RolloutState {
    /// Determines what the condition states, if that may have changed.
    pub(super) fn refresh_condition(&mut self, input: &RolloutInput<'_>, nodes: &NodeTable) {
        if self.gate.is_open() {
            (self.headline, self.condition) = Default::default();
            return;
        }
        let is_new = self.refresh_headline(input, nodes);
        let details = Details {
            wave: self.wave_progress(input, nodes),
            back: self.back(input, nodes),
            check_changes: self.checks.as_ref().map_or(0, |checks| checks.changes()),
            leaked: self.leaked_nodes(input.is_beside()),
            overrides: OverridesProgress::new(input, nodes),
        };
        if is_new || self.condition.get(&details).is_none() {
            let checks = self.checks.as_ref().map(|checks| checks.statements());
            let stated = self.headline.last().as_ref().map(|headline| {
                let wave = details.wave.as_ref();
                let checks = checks.unwrap_or_default();
                let stated = Stated::new(headline, wave, &details.back, &checks, details.leaked);
                match &details.overrides {
                    Some(overrides) => stated.with_overrides(overrides),
                    None => stated,
                }
            });
            self.condition.set(details, stated);
        }
    }

    /// Determines the headline, if it may have changed. Returns whether it may.
    fn refresh_headline(&mut self, input: &RolloutInput<'_>, nodes: &NodeTable) -> bool {
        let key = HeadlineKey {
            blocker: self.blocker(),
            hindrance: self.hindrance(input),
            stuck_since: self.progress.stuck_since(input.now.steady),
            has_nodes_left: has_nodes_left(self.moving(), self.waves.as_deref()),
            on_target: OnTarget::new(self.waves.as_deref(), self.goes_back(), input),
            first: self.waves.as_ref().map(|waves| waves.steps.first()),
            late: self.has_late_failures.then(|| {
                // A container that crashes in a loop must not write the status again and again.
                let states = [NodeState::Failed, NodeState::SetAside(SetAside::Lost)];
                let late = states.map(|state| self.nodes_in(state, input, nodes));
                FailedNodes::new(late.into_iter().flatten().collect()).without_causes()
            }),
            record_failure: self.record_writes.failure().cloned(),
        };
        if self.headline.get(&key).is_some() {
            return false;
        }
        let revisions = input.revisions();
        let stage = Stage::new(input, &revisions);
        let of = (self.gate.base(), key.on_target);
        let rollback = RollbackProgress::new(input, &stage, &revisions, of, key.has_nodes_left);
        let unrestored = self.unrestored(input, &revisions);
        let parts = ConditionInput {
            config_wait: input.config_wait,
            unrestored: &unrestored,
            waves: self.waves.as_deref(),
            blocker: key.blocker,
            hindrance: key.hindrance,
            rollback,
            opening: self.facts.last().opening.as_ref(),
            is_stuck: key.stuck_since.is_some(),
            has_nodes_left: key.has_nodes_left,
            late: key.late.as_ref(),
            record_failure: key.record_failure.as_deref(),
        };
        let headline = headline(input.daemon_set, &stage, &parts);
        self.headline.set(key, headline);
        true
    }

    /// The number of nodes that have the target although their wave is closed, while the rollout
    /// moves on beside the built-in controller (G17).
    pub(crate) fn leaked_nodes(&self, is_beside: bool) -> usize {
        let is_under_way = self.moving().is_some_and(|record| record.phase.is_under_way());
        let waves = self.waves.as_deref().filter(|_| is_under_way && is_beside);
        waves.map_or(0, |waves| waves.group(&Position::AllNodes).on_target_but_closed)
    }

    /// The nodes for which the rollout fails: those in this state, and those that were deleted in
    /// it (G35).
    pub(super) fn blamed(
        &self,
        state: NodeState,
        input: &RolloutInput<'_>,
        nodes: &NodeTable,
    ) -> FailedNodes {
        let gone = self.waves.iter().flat_map(|waves| waves.gone_in(state));
        let gone = gone.map(|node| FailedNode {
            node: node.clone(),
            pod: None,
            cause: FailureCause::stated("the node was deleted"),
        });
        FailedNodes::new(self.nodes_in(state, input, nodes).chain(gone).collect())
    }

    /// The nodes in this state, with their pods of the target.
    fn nodes_in(
        &self,
        state: NodeState,
        input: &RolloutInput<'_>,
        nodes: &NodeTable,
    ) -> impl Iterator<Item = FailedNode> {
        let failed = move |id: NodeId| {
            let pods = input.slots[id.index()].pods.as_slice().iter();
            let pod = pods.filter(|pod| pod.is_updated(input.labels)).max_by_key(|pod| pod.trouble);
            let node = nodes.name(id).clone();
            if let Some((pod, trouble)) = self.images.puller_of(&node).filter(|_| pod.is_none()) {
                let too_long = || FailureCause::stated("it has not pulled the images in time");
                let why = |_| FailureCause::Observed { trouble, restarts: 0 };
                return FailedNode {
                    node,
                    pod: Some(pod),
                    cause: trouble.map_or_else(too_long, why),
                };
            }
            let obstacle = input.obstacle(&input.slots[id.index()]);
            if let Some(why) = obstacle {
                let cause = FailureCause::stated(&format!("its pod cannot be changed: {why}"));
                return FailedNode { node, pod: pod.map(|pod| pod.name.clone()), cause };
            }
            FailedNode {
                node,
                pod: pod.map(|pod| pod.name.clone()),
                cause: match (pod, input.refusal) {
                    (None, Some(refusal)) => FailureCause::stated(refusal),
                    _ => FailureCause::Observed {
                        trouble: pod.and_then(|pod| pod.trouble),
                        restarts: pod.map_or(0, |pod| pod.restarts),
                    },
                },
            }
        };
        self.waves.iter().flat_map(move |waves| waves.nodes_in(state)).map(failed)
    }

    /// The reason for which a wave that bakes still waits.
    fn blocker(&self) -> Option<WaveBlocker> {
        let record = self.moving().filter(|record| record.phase == RolloutPhase::Baking)?;
        let have_checks_passed = self.checks_verdict() == ChecksVerdict::Passed;
        let is_baked = self.bake.ended_at().is_some();
        Some(wave_blocker(self.waves.as_deref()?, record, is_baked, have_checks_passed))
    }

    /// Why no wave begins or ends although nobody has to wait or decide by the policy's steps.
    fn hindrance(&self, input: &RolloutInput<'_>) -> Option<Hindrance> {
        let waves = self.waves.as_deref()?;
        let is_beside = input.is_beside();
        match self.facts.last().motion {
            Motion::None => None,
            Motion::Pending if awaits_built_in(input) => Some(Hindrance::BuiltIn),
            Motion::Pending => {
                let revisions = input.revisions();
                self.unmet_requirement(input, &revisions).or_else(|| {
                    let pods = waves.forbidden_removals(&begins_at(waves, &revisions))?;
                    Some(Hindrance::Removals { pods, is_beside })
                })
            }
            Motion::Forward => {
                let record = self.moving().filter(|record| record.phase.is_under_way())?;
                match awaits_built_in(input) {
                    true => Some(Hindrance::BuiltIn),
                    false => hindrance(waves, record, is_beside),
                }
            }
        }
    }

    /// True if pods of the target are replaced with those of the base.
    fn goes_back(&self) -> bool {
        self.gate.direction() == Direction::Back && self.gate.replaces()
    }

    /// The nodes that go back and have had no available pod for long (G41).
    fn back(&self, input: &RolloutInput<'_>, nodes: &NodeTable) -> StartingNodes {
        let waves = self.waves.as_deref().filter(|_| self.goes_back());
        waves.map(|waves| starting(waves, false, input, nodes)).unwrap_or_default()
    }

    /// How far the wave of a rollout that is under way is.
    fn wave_progress(&self, input: &RolloutInput<'_>, nodes: &NodeTable) -> Option<WaveProgress> {
        let record = self.moving().filter(|record| record.phase.is_under_way())?;
        let waves = self.waves.as_deref()?;
        let states = waves.states_at(&record.position);
        // They are looked for among all nodes, so only if there are any.
        let are_there = states.reasons().any(|(why, _)| why == SetAside::NotAgreed);
        let not_agreed =
            are_there.then(|| waves.nodes_in(NodeState::SetAside(SetAside::NotAgreed)));
        let not_agreed = not_agreed.into_iter().flatten().take(NAMED_NODES);
        Some(WaveProgress {
            states,
            starting: starting(waves, true, input, nodes),
            question_refusal: input.question_refusal.filter(|_| self.asks()).cloned(),
            overdue: self.images.overdue().take(NAMED_NODES).collect(),
            pull_refusal: self.images.refusal().cloned(),
            change_failure: input.changes.failure().filter(|_| self.changes_pods()).cloned(),
            not_agreed: not_agreed.map(|id| nodes.name(id).clone()).collect(),
            awaited_outages: waves.awaited_outages(&record.position),
        })
    }
}

/// The nodes that have had no available pod for long, with what troubles their pods of the target,
/// or those of the base.
fn starting(
    waves: &Waves,
    is_of_target: bool,
    input: &RolloutInput<'_>,
    nodes: &NodeTable,
) -> StartingNodes {
    let mut starting = waves.starting_since(input.now.steady - LONG_START);
    let trouble = |id: NodeId| {
        let pods = input.slots[id.index()].pods.as_slice().iter();
        let is_it = |pod: &&PodView| pod.is_updated(input.labels) == is_of_target;
        pods.filter(is_it).filter_map(|pod| pod.trouble).max()
    };
    let named = starting.by_ref().take(NAMED_NODES);
    let named = named.map(|id| (nodes.name(id).clone(), trouble(id))).collect();
    StartingNodes { named, more: starting.count() }
}

/// True if nothing is done because the built-in controller has yet to act on the target.
fn awaits_built_in(input: &RolloutInput<'_>) -> bool {
    input.is_beside()
        && input.policy().is_some()
        && !input.daemon_set.is_rolled_out_by_others()
        && revision_beside(input.daemon_set, &input.revisions()).is_none()
}
