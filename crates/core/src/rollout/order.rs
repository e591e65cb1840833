//! The record that an order of a person makes, or why the order has no effect (G10, G43).

use crate::api::{
    Order, OrderVerb, Position, RecordReason, RolloutPhase, RolloutRecord, UpdateStrategy, WaveName,
};
use crate::plan::Transition;

use super::stage::{Halt, Stage};
use super::transition::{Change, TransitionInput};

/// Why an order about another revision than the target has no effect.
const ANOTHER_REVISION: &str = "it names another revision";

impl TransitionInput<'_> {
    /// The order that names another revision than the target.
    pub(super) fn foreign_order(&self) -> Option<&Order> {
        let order = self.daemon_set.order.as_deref()?;
        (!self.revisions.current_hashes().contains(&order.revision)).then_some(order)
    }

    /// Carries out an order that has not been carried out (G10).
    pub(super) fn apply_operator_order(&self, record: &RolloutRecord) -> Option<Change> {
        let order = self.daemon_set.order.as_deref()?;
        if record.order.as_ref() == Some(&order.text) || self.was_given_before(order) {
            return None;
        }
        if self.is_reported(order) {
            let order = Some(order.text.clone());
            return Some((RolloutRecord { order, ..record.clone() }, None));
        }
        let changed = match self.foreign_order() {
            Some(_) => Err(ANOTHER_REVISION),
            None => self.effect(record, &order.verb),
        };
        let (changed, why) = match changed {
            Ok(changed) => (changed, Transition::Ordered(order.clone())),
            Err(why) => (record.clone(), Transition::OrderIgnored { order: order.clone(), why }),
        };
        Some((RolloutRecord { order: Some(order.text.clone()), ..changed }, Some(why)))
    }

    /// The order that has no effect on a record that comes next: it names another revision, or was
    /// reported before there was a record (G10).
    pub(super) fn idle_order(&self) -> Option<&Order> {
        let reported = || self.daemon_set.order.as_deref().filter(|order| self.is_reported(order));
        self.foreign_order().or_else(reported)
    }

    /// True if the order was reported as one without effect: it has none later either (G10).
    fn is_reported(&self, order: &Order) -> bool {
        self.reported_order == Some(&order.text)
    }

    /// True if the record of an earlier template states the order.
    fn was_given_before(&self, order: &Order) -> bool {
        let records = self.revisions.old.iter().filter_map(|old| old.record.stored());
        records.filter_map(|record| record.order.as_ref()).any(|text| *text == order.text)
    }

    /// Why an order has no effect of which no record can tell (G43).
    pub(crate) fn unrecorded(&self, stage: &Stage<'_>, order: &Order) -> Option<&'static str> {
        let target = self.revisions.current?;
        let stored = target.record.stored();
        let is_stated = stored.is_some_and(|record| record.order.as_ref() == Some(&order.text));
        if self.was_given_before(order) || is_stated {
            return None;
        }
        match stage {
            // Its record comes next.
            _ if *stage != Stage::NotGuarded && stored.is_some() => None,
            Stage::NotGuarded => Some("the built-in controller rolls out by itself"),
            Stage::Unguarded | Stage::Paused { .. } => {
                Some("no rollout policy guards the DaemonSet")
            }
            Stage::Halted { why: Halt::RecordUnreadable, .. } => {
                match self.replace_unreadable(target) {
                    Some(_) => None,
                    None => Some("the record of the rollout cannot be read; a retry begins anew"),
                }
            }
            // The record that comes next states it.
            Stage::Halted { .. } | Stage::Pending | Stage::Failed { .. } | Stage::Moving(_) => {
                self.foreign_order().map(|_| ANOTHER_REVISION)
            }
        }
    }

    fn effect(
        &self,
        record: &RolloutRecord,
        verb: &OrderVerb,
    ) -> Result<RolloutRecord, &'static str> {
        let is_under_way = record.phase.is_under_way();
        let waves = self.waves.ok_or("there is no valid rollout policy");
        let wave = waves.map(|waves| waves.policy().order_name(&record.position));
        let is_wave = |named: &WaveName| record.has_begun() && wave.as_ref() == Ok(named);
        match verb {
            OrderVerb::Approve(named) if !is_wave(named) => Err("the rollout is not at this wave"),
            OrderVerb::Approve(named) => {
                let mut changed = record.clone();
                if !changed.approvals.contains(named) {
                    changed.approvals.push(named.clone());
                }
                Ok(changed)
            }
            OrderVerb::Promote(named) if !is_wave(named) => Err("the rollout is not at this wave"),
            OrderVerb::Promote(_) if record.position == Position::AllNodes => {
                self.effect(record, &OrderVerb::PromoteFull)
            }
            OrderVerb::Promote(_) if self.daemon_set.is_paused() => Err("the rollout is paused"),
            OrderVerb::Promote(_) => Ok(RolloutRecord {
                reason: Some(RecordReason::Promoted),
                ..self.at(record, waves?.steps.after(&record.position), RolloutPhase::Updating)
            }),
            OrderVerb::PromoteFull if record.phase == RolloutPhase::Complete => {
                Err("the rollout is complete")
            }
            OrderVerb::PromoteFull if self.daemon_set.strategy() == UpdateStrategy::OnDelete => {
                Err("without a policy, the update strategy OnDelete replaces no pod")
            }
            OrderVerb::PromoteFull => Ok(RolloutRecord {
                reason: Some(RecordReason::PromotedInFull),
                // It begins now, or after a failure anew, and measures all times from then.
                began: match record.phase {
                    RolloutPhase::Pending | RolloutPhase::Failed => self.wall,
                    RolloutPhase::Updating
                    | RolloutPhase::Baking
                    | RolloutPhase::Complete
                    | RolloutPhase::Superseded => record.began,
                },
                ..self.at(record, Position::AllNodes, RolloutPhase::Updating)
            }),
            OrderVerb::Abort if !is_under_way => Err("the rollout is not under way"),
            OrderVerb::Abort => Ok(RolloutRecord {
                reason: Some(RecordReason::Aborted),
                ..self.with_phase(record, RolloutPhase::Failed)
            }),
            OrderVerb::Retry if record.phase != RolloutPhase::Failed => {
                Err("the rollout has not failed")
            }
            OrderVerb::Retry => {
                let first = waves?.steps.first();
                let is_held = self.daemon_set.is_paused()
                    || self.opening.is_some()
                    || waves?.forbidden_removals(&first).is_some()
                    || self.unmet_requirement.is_some();
                let begun = match is_held {
                    false => self.at(record, first, RolloutPhase::Updating),
                    true => self.at(record, Position::AllNodes, RolloutPhase::Pending),
                };
                let steps_hash = waves?.policy().steps_hash.clone();
                let (began, approvals) = (self.wall, Vec::new());
                let (reason, is_rolled_back) = (None, false);
                Ok(RolloutRecord { began, approvals, reason, is_rolled_back, steps_hash, ..begun })
            }
        }
    }
}
