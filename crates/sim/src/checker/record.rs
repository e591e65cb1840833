//! The record of a rollout: it comes first, and moves on by the rules only (G8–G11, G15).

mod adoption;
mod failure;
mod position;
mod wait;

use everynode_core::api::Timestamp;
use everynode_core::plan::{Outcome, Write};
use everynode_sandbox::kinds::CONTROLLER_REVISION;

use super::history::History;
use super::model::{Eligibility, Order, Phase, Policy, Position, Record, Revision, Verb, Wait};
use super::situation::{NodeView, Situation};
use super::stage::Stage;
use super::{PendingWrite, Property, Violation, removal, rolled_back};
use crate::role::Role;
use crate::view::View;

pub(super) use failure::left_out;

/// How long a replica waits for a record of unknown outcome: a minute and a half.
const UNKNOWN_FOR_MS: i64 = 90_000;
/// Clocks of replicas differ by up to 0.9 s, and records have whole seconds.
const TOLERANCE_MS: i64 = 3_000;

/// The record that a request writes, if it writes one.
pub(super) fn written(write: &PendingWrite) -> Option<Record> {
    let is_revision = write.target.kind.kind == CONTROLLER_REVISION.kind;
    let is_patch = write.request.method == http::Method::PATCH;
    let annotations = &write.body["metadata"]["annotations"];
    let uid = write.uid_precondition().or(write.object().map(|object| object.uid()));
    let written = || Record::parse(annotations, uid.unwrap_or_default()).ok()?;
    (is_revision && is_patch).then(written).flatten()
}

/// True if a plan holds a record and nothing else, or waits for one of unknown outcome (G9).
pub(super) fn comes_first(view: &View) -> bool {
    let is_record = |write: &Write| matches!(write, Write::WriteRecord { .. });
    let is_unknown = view.outcomes.iter().any(|outcome| {
        is_record(&outcome.result.write)
            && matches!(outcome.result.outcome, Outcome::Unknown { .. })
            && view.planned_at.0 - outcome.arrived_at.0 <= UNKNOWN_FOR_MS
    });
    is_unknown || view.writes.iter().any(is_record)
}

/// Judges the write of a record by the view of its plan.
pub(super) fn check(
    write: &PendingWrite,
    view: &View,
    situation: &Situation,
    history: &History,
) -> Option<Violation> {
    let new = written(write)?;
    let uid = write.uid_precondition().or(write.object().map(|object| object.uid()))?;
    let is_it = |revision: &&&Revision| revision.metadata.uid == uid;
    let judge = Judge { situation, view, history };
    let problem = match () {
        () if view.writes.len() != 1 => Some("is not the only write of its plan".to_owned()),
        // The built-in controller rolls out by itself, and knows no records (G18).
        () if matches!(situation.stage, Stage::NotGuarded) || view.role == Role::BuiltIn => {
            Some("is that of no guarded rollout".to_owned())
        }
        () if !write.body["metadata"]["resourceVersion"].is_string() => {
            Some("is written without a resourceVersion".to_owned())
        }
        // Which nodes are eligible is not known then, nor which waves have nodes.
        () if situation.is_base_unknown() => None,
        () => {
            let target = situation.revisions.current.last().filter(is_it);
            let old = situation.revisions.old.iter().find(is_it);
            match target.or(old) {
                None => Some("is written to another revision".to_owned()),
                Some(chosen) if judge.is_adopted(chosen, &new) => judge.adoption(chosen),
                Some(chosen) => match target {
                    Some(target) => judge.transition(target, &new),
                    None => judge.older(chosen, &new),
                },
            }
        }
    }?;
    Some(situation.violation(Property::Record, format!("the record {new:?} {problem}")))
}

/// The record of a template whose rollout has not begun (G38).
fn pending(new: &Record, order: Option<String>) -> Record {
    Record {
        revision: new.revision.clone(),
        phase: Phase::Pending,
        position: Position::AllNodes,
        began: new.began,
        since: new.since,
        approvals: Vec::new(),
        steps: new.steps.clone(),
        order,
        reason: None,
        is_rolled_back: false,
        base: None,
    }
}

struct Judge<'a> {
    situation: &'a Situation<'a>,
    view: &'a View,
    history: &'a History,
}

impl Judge<'_> {
    /// Why the record of an older template must not change like this: it is closed (G11), or states
    /// that the template was replaced by that of the base (G20), and nothing else.
    fn older(&self, chosen: &Revision, new: &Record) -> Option<String> {
        if rolled_back::marked(self.situation, chosen).as_ref() == Some(new) {
            return None;
        }
        let Some(old) = chosen.record.as_ref().filter(|old| old.is_under_way()) else {
            return Some("is that of an older template, whose rollout is not under way".to_owned());
        };
        let expected = Record { phase: Phase::Superseded, since: new.since, ..old.clone() };
        (*new != expected).then(|| "should be superseded".to_owned())
    }

    /// The text of an order without effect on an attempt that begins: it names another revision
    /// than the target, or may have been reported before, if the new record states it (G10, G43).
    fn idle_order(&self, new: &Record) -> Option<String> {
        let order = self.situation.ds.order.as_ref()?;
        let may_be_reported =
            || new.order.as_ref() == Some(&order.text) && self.may_be_reported(order);
        (!self.is_target(&order.hash) || may_be_reported()).then(|| order.text.clone())
    }

    /// True if a replica may have reported an order as one without effect: it came while nothing
    /// guarded the rollout, its record could not be read, or the target was another one (G10, G43).
    fn may_be_reported(&self, order: &Order) -> bool {
        let (ds, seen) = (self.situation.ds, self.view.feeds);
        let states = self.history.daemon_sets(self.situation.role).of(&ds.metadata.uid);
        let mut states = states.filter(|(at, ds)| {
            *at <= seen.daemon_sets && ds.order.as_ref().is_some_and(|it| it.text == order.text)
        });
        let is_stated = |record: &Record| record.order.as_ref() == Some(&order.text);
        let mut revisions = self.history.revisions.states().filter(|(_, it)| ds.owns(&it.metadata));
        states.any(|(_, ds)| {
            ds.policy.valid().is_none() || self.situation.role == Role::Beside && !ds.is_on_delete
        }) || revisions.any(|(_, it)| it.has_unreadable_record || it.is_recorded(is_stated))
    }

    /// Why the record of the target must not change like this.
    fn transition(&self, target: &Revision, new: &Record) -> Option<String> {
        let old = target.record.as_ref();
        if old == Some(new) {
            return Some("is the stored one".to_owned());
        }
        if rolled_back::marked(self.situation, target).as_ref() == Some(new) {
            return None;
        }
        let older = self.situation.revisions.old.iter().filter_map(|old| old.record.as_ref());
        if older.into_iter().any(Record::is_under_way) {
            return Some("changes before the older one is superseded".to_owned());
        }
        let policy = self.situation.ds.policy.valid();
        if let Some(why) = removal::unawaited(self.situation, self.history, old, new) {
            return Some(why);
        }
        match (&self.situation.stage, old, policy) {
            (Stage::Pending, old, Some(policy)) => self.beginning(old, new, policy),
            (Stage::Halted { .. }, Some(old), _) if self.situation.begins_anew(old) => {
                let order = old.order.clone().or_else(|| self.idle_order(new));
                self.differs(new, &pending(new, order))
            }
            (_, Some(old), _) if old.order != new.order => {
                self.order(old, new, self.policy_of_waves())
            }
            (Stage::Unguarded, Some(old), _)
                if old.is_promoted_in_full() || old.phase == Phase::Superseded =>
            {
                self.completion_without_policy(old, new)
            }
            (Stage::Unguarded | Stage::NotGuarded | Stage::Paused, ..) => {
                Some("is that of no guarded rollout".to_owned())
            }
            (Stage::Halted { .. }, None, _) if target.has_unreadable_record => {
                let failed = Record { phase: Phase::Failed, ..pending(new, None) };
                self.order(&failed, new, self.policy_of_waves())
            }
            (Stage::Halted { .. }, None, _) => {
                self.differs(new, &pending(new, self.idle_order(new)))
            }
            (Stage::Moving(old), _, Some(policy)) => self.progress(old, new, policy),
            (stage, ..) => Some(format!("changes in stage {stage:?}")),
        }
    }

    /// The record of a rollout that begins.
    fn beginning(&self, old: Option<&Record>, new: &Record, policy: &Policy) -> Option<String> {
        let order = old.and_then(|old| old.order.clone()).or_else(|| self.idle_order(new));
        let is_done = self.incomplete(&Position::AllNodes).is_none() && !self.is_undone();
        let has_begun = old.is_some_and(|old| old.phase != Phase::Pending);
        // Of a rollout that began by other steps, the end may be left.
        let is_at_end = has_begun && new.position == Position::AllNodes && self.may_be_at_end();
        let (phase, position) = match () {
            () if new.phase == Phase::Complete => (Phase::Complete, Position::AllNodes),
            () if self.situation.revisions.old.is_empty() => (Phase::Updating, Position::AllNodes),
            () if is_at_end => (Phase::Updating, Position::AllNodes),
            () => (Phase::Updating, self.next(policy, None, &new.position)),
        };
        if new.phase == Phase::Complete && !is_done {
            let why = self.incomplete(&Position::AllNodes);
            return Some(format!("is complete at once: {why:?}"));
        }
        let expected = Record { phase, position, ..pending(new, order) };
        let waits = self.situation.awaits_window || self.situation.ds.is_paused();
        let may_wait = self.situation.may_await_removals()
            || self.situation.may_not_be_in_place()
            || self.situation.may_await_config_maps();
        let may_begin = has_begun
            || is_done
            || new.is_promoted_in_full()
            || self.situation.was_complete_before(self.history);
        if self.situation.must_not_begin() && new.phase == Phase::Updating && !may_begin {
            return Some("begins, although pods cannot be changed in place".to_owned());
        }
        // It can be aborted and promoted in full, also once nothing holds it any more (G10, G38).
        let pending_before = old.filter(|old| old.phase == Phase::Pending);
        let is_ordered =
            |old: &Record| old.order != new.order && self.order(old, new, Some(policy)).is_none();
        match pending_before {
            Some(old) if is_ordered(old) => None,
            None if may_wait && new.phase == Phase::Pending => {
                self.differs(new, &pending(new, expected.order))
            }
            // Its end is awaited at any time (G45).
            _ if is_at_end && new.phase == Phase::Updating => self.differs(new, &expected),
            _ if !waits || phase == Phase::Complete => self.differs(new, &expected),
            None => self.differs(new, &pending(new, expected.order)),
            Some(_) => Some("begins while it is paused or outside of windows".to_owned()),
        }
    }

    /// The problem with the effect of an order (G10).
    fn order(&self, old: &Record, new: &Record, policy: Option<&Policy>) -> Option<String> {
        let order = self.situation.ds.order.as_ref();
        let Some(order) = order.filter(|order| Some(&order.text) == new.order.as_ref()) else {
            return Some("has an order that nobody gave".to_owned());
        };
        let mut records = self.situation.revisions.all().filter_map(|it| it.record.as_ref());
        if records.any(|record| record.order.as_ref() == Some(&order.text)) {
            return Some("carries out an order a second time".to_owned());
        }
        let idle = Record { order: new.order.clone(), ..old.clone() };
        let is_idle = !self.is_target(&order.hash) || *new == idle && self.may_be_reported(order);
        let changed = if is_idle { idle } else { self.ordered(old, new, order, policy) };
        self.differs(new, &Record { order: Some(order.text.clone()), ..changed })
    }

    fn ordered(
        &self,
        old: &Record,
        new: &Record,
        order: &Order,
        policy: Option<&Policy>,
    ) -> Record {
        let wave = policy.map(|policy| policy.order_name(&old.position));
        let is_at = |named: &String| old.has_begun() && wave.as_ref() == Some(named);
        let is_last = old.position == Position::AllNodes;
        let at = |position, phase| Record { position, phase, since: new.since, ..old.clone() };
        let promoted_in_full = || Record {
            reason: Some("PromotedInFull".to_owned()),
            // It begins now, or after a failure anew.
            began: match old.phase {
                Phase::Pending | Phase::Failed => new.began,
                _ => old.began,
            },
            ..at(Position::AllNodes, Phase::Updating)
        };
        match (&order.verb, policy) {
            (Verb::Approve(named), _) if is_at(named) && !old.approvals.contains(named) => {
                let mut approvals = old.approvals.clone();
                approvals.push(named.clone());
                Record { approvals, ..old.clone() }
            }
            // A paused rollout is not promoted past a wave (G6).
            (Verb::Promote(named), _)
                if is_at(named) && !is_last && self.situation.ds.is_paused() =>
            {
                old.clone()
            }
            (Verb::Promote(named), Some(policy)) if is_at(named) && !is_last => Record {
                reason: Some("Promoted".to_owned()),
                ..at(self.next(policy, Some(&old.position), &new.position), Phase::Updating)
            },
            // Nothing would replace the pods (C50).
            (Verb::PromoteFull, None) if self.situation.ds.is_on_delete => old.clone(),
            // Past the last wave nothing is awaited (G45).
            (Verb::Promote(named), _) if is_at(named) => promoted_in_full(),
            (Verb::PromoteFull, _) if old.phase != Phase::Complete => promoted_in_full(),
            (Verb::Abort, _) if old.is_under_way() => Record {
                reason: Some("Aborted".to_owned()),
                ..at(old.position.clone(), Phase::Failed)
            },
            (Verb::Retry, Some(policy)) if old.phase == Phase::Failed => Record {
                began: new.began,
                approvals: Vec::new(),
                reason: None,
                is_rolled_back: false,
                steps: new.steps.clone(),
                ..match new.phase == Phase::Pending && self.may_retry_wait() {
                    true => at(Position::AllNodes, Phase::Pending),
                    false => at(self.next(policy, None, &new.position), Phase::Updating),
                }
            },
            _ => old.clone(),
        }
    }

    /// True if a rollout that begins again may have to wait: for somebody who resumes it, or allows
    /// it to remove pods, or for a window (G5, G38, G42).
    fn may_retry_wait(&self) -> bool {
        let policy = self.situation.ds.policy.valid();
        self.situation.ds.is_paused()
            || policy.is_some_and(|policy| !policy.is_open(self.view.followed_clock))
            || self.situation.possible_removals() > 0
            || self.situation.may_not_be_in_place()
            || self.situation.may_await_config_maps()
    }

    /// How a rollout moves on by itself (G11).
    fn progress(&self, old: &Record, new: &Record, policy: &Policy) -> Option<String> {
        let at = |position, phase| Record { position, phase, since: new.since, ..old.clone() };
        if new.phase == Phase::Failed {
            let (reason, problem) = match new.reason.as_deref() {
                Some("NoProgress") => ("NoProgress", self.unstuck(old, policy)),
                Some("CheckFailed") => ("CheckFailed", self.unchecked_failure(old, policy)),
                Some("NodesLost") => ("NodesLost", self.unlost(policy)),
                _ => ("NodesFailed", self.unfailed(policy)),
            };
            let failed = at(old.position.clone(), Phase::Failed);
            let expected = Record { reason: Some(reason.to_owned()), ..failed };
            return problem.or_else(|| self.differs(new, &expected));
        }
        if !old.is_under_way() {
            return Some("changes, although the rollout is not under way".to_owned());
        }
        if self.situation.ds.is_paused() {
            return Some("moves on, although the rollout is paused".to_owned());
        }
        if let Some(why) = self.incomplete(&old.position) {
            return Some(format!("moves on from a wave that is not complete: {why}"));
        }
        let waits = self.waits(old, policy);
        let may_bake = waits.iter().any(|wait| !wait.is_nothing());
        let must_bake = !waits.iter().any(Wait::is_nothing);
        if old.phase == Phase::Updating && may_bake && (must_bake || new.phase == Phase::Baking) {
            return self.differs(new, &at(old.position.clone(), Phase::Baking));
        }
        if old.phase == Phase::Baking {
            let awaited = waits.iter().map(|wait| self.awaited(old, wait, policy));
            if let Some(why) = awaited.min_by_key(Option::is_some).flatten() {
                return Some(why);
            }
        }
        let expected = match old.position {
            Position::AllNodes if self.is_undone() => {
                return Some("is complete although no node is done".to_owned());
            }
            Position::AllNodes => at(Position::AllNodes, Phase::Complete),
            // Any other record differs from the stored one.
            Position::Wave { .. }
                if self.situation.awaits_window
                    && !(new.position == Position::AllNodes && self.are_all_open()) =>
            {
                old.clone()
            }
            Position::Wave { .. } => {
                let next = self.next(policy, Some(&old.position), &new.position);
                at(next, Phase::Updating)
            }
        };
        self.differs(new, &expected)
    }

    /// True if no node is left to be opened: the last wave begins without a window (G5).
    fn are_all_open(&self) -> bool {
        self.members(&Position::AllNodes).all(|(name, _)| self.is_open(name))
    }

    /// Why the wave at a position has surely not passed (G39).
    fn incomplete(&self, position: &Position) -> Option<String> {
        let members: Vec<_> = self.members(position).collect();
        let open: Vec<_> = members.iter().filter(|(name, _)| self.is_open(name)).collect();
        let is_beginning = matches!(self.situation.stage, Stage::Pending);
        let size = match (self.situation.ds.policy.valid(), position) {
            (Some(policy), Position::Wave { step, group, .. }) => {
                policy.size_at(position, (*step, group), members.len())
            }
            _ => members.len(),
        };
        // A node that is set aside may leave its place to another one.
        let is_aside =
            |(name, on_node): &&(&str, &NodeView)| !self.is_open(name) && on_node.is_aside();
        let aside = members.iter().filter(is_aside).count();
        // A held node counts that has the target, and beside the built-in controller each one that
        // has got it by itself (G17, G33).
        let has_target = |(name, on_node): &(&str, &NodeView)| {
            let is_held = !members.iter().any(|(member, _)| member == name);
            let is_beside = self.situation.role == Role::Beside;
            let may_count = is_held || is_beside && !on_node.is_aside();
            let mut pods = on_node.deletable();
            may_count && !self.is_open(name) && pods.any(|pod| self.situation.is_updated(pod))
        };
        let with_target = || self.all_members(position).filter(has_target);
        if open.len() + aside + with_target().count() < size && !is_beginning {
            return Some(format!("{} of {size} nodes are open", open.len()));
        }
        let waited = || members.iter().filter(|(name, _)| is_beginning || self.is_open(name));
        let left = waited().filter(|(_, on)| !on.has_passed() && !self.needs_nothing(on));
        let (done_before, left): (Vec<_>, Vec<_>) =
            left.partition(|(_, on_node)| on_node.was_passed());
        let tolerated = self.tenth_of_open_nodes(position);
        let blocker = left.first().or(done_before.get(tolerated));
        let blocker = blocker.map(|(name, _)| format!("node {name} is not done"));
        // A held node that has the target is one that is done (G33).
        let tried = waited().copied().chain(with_target());
        let is_tried = tried.into_iter().any(|(_, on)| on.is_tried() || self.needs_nothing(on));
        // None is open if all of them are set aside, held ones among them.
        let are_aside = members.iter().all(|(_, on_node)| on_node.is_aside());
        let has_held = members.is_empty() && self.all_members(position).next().is_some();
        let is_empty = waited().next().is_none()
            && (size == 0 && !has_held || with_target().next().is_some() || !are_aside);
        // A target that may run on no node is complete without one that is done (G40).
        let may_run = |(_, on): &(&str, &NodeView)| on.by_target == Eligibility::ShouldRun;
        let needs_trial = *position != Position::AllNodes || members.iter().any(may_run);
        blocker.or_else(|| {
            (!is_tried && !is_empty && needs_trial)
                .then(|| "none of its nodes is done or has failed".to_owned())
        })
    }

    fn is_open(&self, name: &str) -> bool {
        self.situation.open_nodes.contains(name)
    }

    /// True if a node is as it should be before its wave is open: it has no pod, and needs none.
    fn needs_nothing(&self, on_node: &NodeView) -> bool {
        matches!(self.situation.stage, Stage::Pending)
            && on_node.by_target != Eligibility::ShouldRun
            && on_node.occupants().next().is_none()
    }

    fn is_target(&self, hash: &str) -> bool {
        let mut current = self.situation.revisions.current.iter();
        current.any(|revision| revision.metadata.hash() == Some(hash))
    }

    /// True if surely no node is done, held ones included, although the target should run on some
    /// (G40).
    fn is_undone(&self) -> bool {
        let nodes = || self.situation.nodes.values().filter(|on_node| on_node.node.is_some());
        nodes().any(|on_node| on_node.by_target == Eligibility::ShouldRun)
            && !nodes().any(|on_node| on_node.is_done() || self.needs_nothing(on_node))
    }

    /// How the record differs from the one that the rules demand. Times are those of the replica's
    /// clock, and an attempt keeps its beginning. That nothing else than the base is gone back to
    /// is judged by its effect.
    fn differs(&self, new: &Record, expected: &Record) -> Option<String> {
        let expected = &Record { base: new.base.clone(), ..expected.clone() };
        let completed = self.situation.revisions.old.iter().filter_map(|old| old.record.as_ref());
        let completed = completed.filter(|old| old.phase == Phase::Complete);
        let last = completed.map(|old| old.since.0).max().unwrap_or_default();
        let is_now = |time: Timestamp| {
            let now = self.view.followed_clock.0;
            // The revision that is completed last must be the base, whatever the clock.
            (now - time.0).abs() < TOLERANCE_MS
                || new.phase == Phase::Complete && time.0 > now && time.0 <= last + 1_000
        };
        let is_kept = |old: Option<Timestamp>| old == Some(new.since);
        let current = self.situation.revisions.current.last();
        let since = current.and_then(|current| current.record.as_ref()).map(|old| old.since);
        if new != expected {
            return Some(format!("should be {expected:?}"));
        }
        (!is_now(new.since) && !is_kept(since)).then(|| "has another time".to_owned())
    }
}
