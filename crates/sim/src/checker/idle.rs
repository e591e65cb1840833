//! The work left undone by a replica that has nothing to do for a DaemonSet, as it believes: no
//! change and no timer is overlooked (C1, C72).

use everynode_core::plan::Outcome;

use super::backoff::Backoffs;
use super::demands::{Demands, Problem};
use super::history::History;
use super::lost_pods::LossDelays;
use super::plan::pending_surges;
use super::reason::Uncertainty;
use super::situation::{NodeView, Situation};
use super::{Violation, beside, creation_delay, quiescence, record};
use crate::role::Role;
use crate::view::{Idle, View, WriteOutcome};

/// The time without creations after a namespace has refused one, because it is being deleted (C28).
const PAUSE_MS: i64 = 60_000;

/// The demand of the rules that is left undone. `status_interval_ms` is how long a change of counts
/// may wait.
pub(super) fn unfinished_work(
    Idle { view, waited_ms }: &Idle,
    situation: &Situation,
    history: &History,
    backoffs: &Backoffs,
    status_interval_ms: i64,
) -> Option<Violation> {
    // Nothing is done until a watch shows whether a record was written (G9).
    if record::comes_first(view) {
        return None;
    }
    let is_known = match view.role {
        Role::Beside => beside::what_is_unknown(situation).is_none(),
        // The revision comes first (C40).
        Role::Controller | Role::BuiltIn => {
            let current = situation.revisions.current.last();
            current.is_some_and(|current| current.metadata.hash().is_some())
                && !situation.ds.selector.is_empty()
                && !situation.is_base_unknown()
        }
    };
    let rollout = || {
        record::left_out(view, situation, history).or_else(|| {
            let (property, problem) = pods(view, situation, history, backoffs)?;
            Some(situation.violation(property, problem))
        })
    };
    let found = if is_known { rollout() } else { None };
    let others =
        || quiescence::unfinished_work(situation, *waited_ms > status_interval_ms, *waited_ms);
    found.or_else(|| others().filter(|_| view.role != Role::Beside))
}

/// Which pod is not deleted or created.
fn pods(view: &View, situation: &Situation, history: &History, backoffs: &Backoffs) -> Problem {
    let is_refused = |outcome: &WriteOutcome| {
        outcome.result.outcome == Outcome::NamespaceTerminating
            && outcome.arrived_at.0 + PAUSE_MS > view.planned_at.0
    };
    let is_beside = view.role == Role::Beside;
    let may_create = !is_beside
        && !view.outcomes.iter().any(is_refused)
        && creation_delay::end(view, situation.ds, history).is_none();
    let has_no_backoff = |on_node: &NodeView| {
        let end = backoffs.end(view, situation, on_node, Uncertainty::Demands, history);
        end.is_none_or(|end| end <= view.planned_at)
    };
    let delayed = LossDelays::of(view, situation.ds, history).delayed_nodes();
    let demands = Demands::of(situation, has_no_backoff, &delayed, false);
    let seen = situation.nodes.values().filter(|on_node| on_node.has_seen_pending).count();
    let pending = pending_surges(view, situation, |_| false) + seen;
    let others = || demands.whatever_the_budget(situation, may_create);
    others().filter(|_| !is_beside).or_else(|| demands.within_the_budget(may_create, pending))
}
