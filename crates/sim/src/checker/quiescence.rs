//! The state at rest: no rule demands another write, and the status is correct (C21, C23, C42, C44,
//! C53, C70).

use std::collections::BTreeSet;

use super::answer::Answer;
use super::demands::{Demands, Problem};
use super::history::History;
use super::model::{Eligibility, Metadata, Phase, Pod, Position, Record, Revision};
use super::situation::{Clocks, NodeView, Seen, Situation};
use super::stage::{Stage, Wanted};
use super::{Property, Violation, beside, in_place, late, status};
use crate::feeds::Feeds;
use crate::role::{Installation, Role};
use crate::statement::Statement;
use everynode_core::api::Timestamp;

/// A replica that does nothing for longer neither waits until ConfigMaps settle nor until it writes
/// or deletes a copy again (G58).
const COPIES_WITHIN_MS: i64 = 60_000;

/// Checks all DaemonSets that are not terminating.
pub(super) fn check(
    history: &History,
    installation: Installation,
    now: Timestamp,
    stated: impl Fn(&str) -> Statement,
) -> Option<Violation> {
    let newest = history.version();
    let feeds = Feeds {
        nodes: newest,
        namespaces: newest,
        daemon_sets: newest,
        pods: newest,
        pods_listed: newest,
        revisions: newest,
        config_maps: newest,
    };
    let of_role = |role: Role| {
        let alive = history.daemon_sets(role).all().filter(|ds| !ds.metadata.is_terminating);
        alive.into_iter().find_map(|ds| {
            let seen = Seen { role, feeds, known: None, in_doubt: Vec::new() };
            let (uid, clocks) = (&ds.metadata.uid, Clocks::right(now));
            let situation = Situation::seen(uid, &seen, clocks, stated(uid), history)?;
            let (property, message) = problem(&situation, installation)?;
            Some(situation.violation(property, message))
        })
    };
    installation.roles().iter().find_map(|role| of_role(*role))
}

/// The work left to do for the replicas with a role.
fn problem(situation: &Situation, installation: Installation) -> Problem {
    let guarded = || guard(situation).or_else(|| beside::left_out(situation, installation));
    let controlled = || {
        ownership(situation)
            .or_else(|| placement(situation))
            .or_else(|| status(situation))
            .or_else(|| revisions(situation))
            .or_else(|| copies(situation))
    };
    match situation.role {
        Role::Controller => guarded().or_else(controlled),
        Role::BuiltIn => controlled(),
        Role::Beside => guarded(),
    }
    .or_else(|| rollout(situation))
}

/// The work left undone by a controller that has nothing to do, besides pods and records: owners,
/// revisions and, unless it may wait with it, the status.
pub(super) fn unfinished_work(
    situation: &Situation,
    has_status: bool,
    waited_ms: i64,
) -> Option<Violation> {
    // A revision that somebody deletes is created again after a delay, and the rest waits (C40). So
    // do duplicates, before they are deleted (C42).
    let count = situation.revisions.current.len();
    let (property, message) = ownership(situation)
        .or_else(|| revisions(situation).filter(|_| count == 1))
        .or_else(|| status(situation).filter(|_| count > 0 && has_status))
        .or_else(|| copies(situation).filter(|_| waited_ms > COPIES_WITHIN_MS))?;
    Some(situation.violation(property, message))
}

/// Every orphan that the DaemonSet selects is adopted, and what it does not select is released
/// (C21).
fn ownership(situation: &Situation) -> Problem {
    let ds = situation.ds;
    let pods = situation.pods.values().map(|pod| &pod.metadata);
    let revisions = situation.all_revisions.values().map(|revision| &revision.metadata);
    let is_wrong = |metadata: &&Metadata| ds.adopts(metadata) || ds.releases(metadata);
    let wrong = pods.chain(revisions).find(is_wrong)?;
    let message = format!("{} is neither adopted nor released", wrong.name);
    Some((Property::Placement, message))
}

fn copies(situation: &Situation) -> Problem {
    Some((Property::Copies, situation.copies_left_undone()?))
}

fn placement(situation: &Situation) -> Problem {
    if situation.is_base_unknown() {
        return None;
    }
    for (name, on_node) in &situation.nodes {
        let here: Vec<&Pod> = on_node.deletable().collect();
        let is_right = match on_node.eligibility {
            Eligibility::ShouldRun => {
                let has_bad = here.iter().any(|pod| situation.has_bad_content(pod));
                here.len() == 1 || has_bad && is_stuck_surge(situation, &here)
            }
            Eligibility::MayKeep => here.len() <= 1 || is_stuck_surge(situation, &here),
            Eligibility::MustNotRun => here.iter().all(|pod| {
                situation.is_removal(on_node, pod) != Answer::No
                    || situation.is_target_left_alone(on_node, pod)
            }),
            Eligibility::NoNode => here.is_empty(),
        };
        let is_leaving = on_node.pods.iter().any(|our| our.is_going);
        if !is_right || is_leaving {
            let here: Vec<&str> =
                on_node.pods.iter().map(|our| our.pod.metadata.name.as_str()).collect();
            let message = format!("on {name} ({:?}): {here:?}", on_node.eligibility);
            return Some((Property::Placement, message));
        }
    }
    None
}

/// True if a surge is stuck: a taint appeared after the new pod was created and before it started,
/// or that pod has a bad ConfigMap. The new pod cannot start, and the old one remains until it does
/// (C26).
fn is_stuck_surge(situation: &Situation, here: &[&Pod]) -> bool {
    let ready = here.iter().filter(|pod| pod.is_ready).count();
    situation.ds.strategy.surges() && here.len() == 2 && ready == 1
}

/// The status is correct (C70).
fn status(situation: &Situation) -> Problem {
    let (ds, status) = (situation.ds, &situation.ds.status);
    let problem = status::counts_problem(situation, status).or_else(|| {
        let observed = &status["observedGeneration"];
        (*observed != ds.generation).then(|| format!("has observedGeneration {observed}"))
    });
    problem.map(|problem| (Property::Status, format!("the status {problem}")))
}

/// Every pod has the current revision, except those beyond the budget: nodes that must not run a
/// pod may use it up. If a taint appears between the creation of a new pod and its start, the pod
/// stays (C13), is not available, and counts as unavailable (C52, C53), as in upstream.
fn rollout(situation: &Situation) -> Problem {
    if situation.is_base_unknown() {
        return None;
    }
    if let Some(message) = in_place::left_over(situation) {
        return Some((Property::Template, message));
    }
    let demands = Demands::of(situation, |_| true, &BTreeSet::new(), true);
    demands.whatever_the_budget(situation, true).or_else(|| demands.within_the_budget(true, 0))
}

/// The template is stored once, in the newest revision, and the history is no longer than allowed
/// (C42, C44).
fn revisions(situation: &Situation) -> Problem {
    let revisions = &situation.revisions;
    let problem = |message: String| Some((Property::Revision, message));
    let [current] = &revisions.current[..] else {
        return problem(format!("{} revisions store the template", revisions.current.len()));
    };
    if let Some(newer) = revisions.old.iter().find(|old| old.number >= current.number) {
        let (newer, current) = (&newer.metadata.name, &current.metadata.name);
        return problem(format!("revision {newer} is not older than the current one, {current}"));
    }
    let mut all = revisions.all();
    if let Some(unlabelled) = all.find(|revision| revision.metadata.hash().is_none()) {
        return problem(format!("revision {} has no hash", unlabelled.metadata.name));
    }
    // One of those that no pod has may be the base.
    let spared = usize::from(situation.is_base_unknown());
    let kept = revisions.old.iter().filter(|old| !old.metadata.is_terminating);
    let unused = kept.clone().filter(|old| !situation.is_needed(old)).nth(spared);
    let limit = situation.ds.history_limit;
    let unused = unused.filter(|_| kept.count() > limit)?;
    problem(format!("revision {} is beyond the limit of {limit}", unused.metadata.name))
}

/// The problem at rest with the records of a DaemonSet, or with its condition (G11, G21).
fn guard(situation: &Situation) -> Problem {
    let older = situation.revisions.old.iter();
    let mut records = older.filter_map(|old| old.record.as_ref().filter(|r| r.is_under_way()));
    let is_responsible =
        situation.movement().is_some() && !matches!(situation.stage, Stage::NotGuarded);
    if records.next().is_some() && is_responsible {
        return Some((Property::Record, "an older rollout is not superseded".to_owned()));
    }
    if is_responsible && lacks_base(situation) {
        return Some((Property::Record, "no revision is recorded as the base".to_owned()));
    }
    if lacks_pending_record(situation) {
        return Some((Property::Record, "no record waits for a valid policy".to_owned()));
    }
    if situation.is_base_unknown() {
        return None;
    }
    let conditions = situation.ds.status["conditions"].as_array().into_iter().flatten();
    let progressing = conditions.into_iter().find(|condition| condition["type"] == "Progressing");
    let stated = progressing.and_then(|condition| condition["reason"].as_str());
    let is_stuck = |record: &Record| {
        record.phase == Phase::Updating
            && stated == Some("Updating")
            && !may_be_untried(situation, record)
            && !has_blocker(situation)
    };
    match situation.stage {
        Stage::Moving(record) if is_stuck(record) => {
            Some((Property::Record, "the rollout does not move on".to_owned()))
        }
        _ if is_true(situation, stated.unwrap_or_default()) => None,
        Stage::Pending => Some((Property::Record, "the rollout has not begun".to_owned())),
        stage => {
            let message =
                format!("the condition states {stated:?}, which is not true of {stage:?}");
            Some((Property::Condition, message))
        }
    }
}

/// True if the reason that the condition of a DaemonSet states is true (G21); it is empty if there
/// is none.
fn is_true(situation: &Situation, reason: &str) -> bool {
    let is_paused = situation.ds.is_paused();
    let target = situation.revisions.current.last();
    let is_recorded = || target.is_some_and(|it| it.is_recorded(|it| it.phase == Phase::Pending));
    let is_unreadable = target.is_some_and(|target| target.has_unreadable_record);
    match (situation.stage, reason) {
        (Stage::Unguarded, reason) => reason.is_empty(),
        (Stage::NotGuarded, "") => !situation.ds.is_to_be_guarded(),
        (Stage::NotGuarded, reason) => reason == "NotGuarded" && situation.ds.is_to_be_guarded(),
        (Stage::Pending, "Paused") => is_paused && is_recorded(),
        (Stage::Paused, reason) => reason == "Paused",
        (Stage::Moving(_), reason) if is_paused => reason == "Paused",
        (_, "RemovesNodes") => situation.may_await_removals(),
        (_, "ConfigNotReady") => situation.lacks_config_maps(),
        (_, "NotInPlace") => situation.may_not_be_in_place(),
        (Stage::Pending, "OutsideWindow") => situation.awaits_window && is_recorded(),
        (Stage::Halted { .. }, "InvalidRecord") => is_unreadable,
        (Stage::Halted { .. }, "InvalidPolicy") => !is_unreadable,
        (Stage::Failed { .. }, "Failed") => true,
        // A pod on a node that is down, leaves or is held may stay.
        (Stage::Failed { goes_back }, "RollingBack") => {
            goes_back && !is_paused && situation.role != Role::Beside && has_target_pod(situation)
        }
        (Stage::Moving(record), reason) => is_true_of(situation, record, reason),
        _ => false,
    }
}

/// The same of a rollout that is where its record says.
fn is_true_of(situation: &Situation, record: &Record, reason: &str) -> bool {
    let may_be_untried = || may_be_untried(situation, record);
    let awaits_window = situation.awaits_window;
    match (record.phase, reason) {
        (Phase::Complete, "Complete") => true,
        (Phase::Complete, "LateNodesFail") => late::may_be_held(situation),
        // Nodes that cannot have a pod lack the revision that was in use before, or are set aside
        // while no other has it. Beside the built-in controller, a pod on a node that is held may
        // stay.
        (Phase::Complete, "Updating") => {
            has_blocker(situation) || record.is_adoption() && may_be_untried()
        }
        (Phase::Complete, _) => false,
        (_, "WaveNotTried") => may_be_untried(),
        (Phase::Baking | Phase::Updating, "OutsideWindow") => awaits_window,
        // A node that cannot be updated may have joined the wave, also after its approval.
        (Phase::Baking, "Baking" | "Updating") => has_blocker(situation),
        (Phase::Baking, "AwaitingApproval") => !is_approved(situation, record),
        // One with `readyWithin` fails instead (G15, G47).
        (Phase::Baking | Phase::Updating, "ProgressDeadlineExceeded") => {
            let rule = situation.ds.policy.valid().and_then(|policy| policy.failure.as_ref());
            let fails = rule.is_some_and(|rule| rule.ready_within_ms.is_some());
            !fails && !awaits_window && has_blocker(situation)
        }
        (phase, reason) => phase != Phase::Baking && reason == "Updating" && !awaits_window,
    }
}

/// The nodes of the group of a position that are open or have the target, by name.
fn nodes_at<'s, 'a>(
    situation: &'s Situation<'a>,
    position: &'s Position,
) -> impl Iterator<Item = (&'s str, &'s NodeView<'a>)> {
    let nodes = situation.nodes.iter().map(|(name, on_node)| (*name, on_node));
    let open = nodes.filter(|(_, on)| on.is_member && on.wanted == Wanted::Target);
    open.filter(move |(_, on_node)| situation.is_in(position, on_node))
}

/// True if a wave may have tried nothing: it has nodes, none of which is done or has failed (G39);
/// that of all nodes if none is done (G40). One that got the target while its wave was closed is
/// none of the wave's. The built-in controller creates pods of the target in later waves, too, so
/// that beside it nodes that are done need not be of this part of their group.
fn may_be_untried(situation: &Situation, record: &Record) -> bool {
    let nodes = || nodes_at(situation, &record.position);
    let is_part = matches!(record.position, Position::Wave { .. });
    let any_is_aside = nodes().any(|(_, on_node)| on_node.is_aside());
    let is_tried = |(name, on_node): (&str, &NodeView)| {
        situation.open_nodes.contains(name)
            && (on_node.is_done() || is_part && on_node.has_failed())
    };
    !nodes().any(is_tried) || (situation.role == Role::Beside && is_part && any_is_aside)
}

/// True if a revision is in use that should be recorded as the base, because none is (G37).
fn lacks_base(situation: &Situation) -> bool {
    let Some(target) = situation.revisions.current.last() else { return false };
    let mut all = situation.revisions.old_and_target();
    situation.ds.is_to_be_guarded()
        && !all.clone().any(Revision::is_complete)
        && all.any(|it| !it.has_record() && situation.pods_of(it, target) > 0)
}

/// True if the target lacks the record that waits for a valid policy (G38).
fn lacks_pending_record(situation: &Situation) -> bool {
    let Some(target) = situation.revisions.current.last() else { return false };
    let record = target.record.as_ref();
    matches!(situation.stage, Stage::Halted { .. })
        && !target.has_unreadable_record
        && record.is_none_or(|record| situation.begins_anew(record))
}

/// True if the wave of a record needs no approval, or has it.
fn is_approved(situation: &Situation, record: &Record) -> bool {
    let Some(policy) = situation.ds.policy.valid() else { return false };
    !policy.needs_approval(&record.position)
        || record.approvals.contains(&policy.order_name(&record.position))
}

/// True if a pod of the target is left.
fn has_target_pod(situation: &Situation) -> bool {
    let pods = situation.nodes.values().flat_map(NodeView::deletable);
    pods.into_iter().any(|pod| situation.is_updated(pod))
}

/// True if a node of the rollout may hold it up: its pod cannot start, or cannot leave.
fn has_blocker(situation: &Situation) -> bool {
    nodes_at(situation, &Position::AllNodes).any(|(_, on_node)| !on_node.has_passed())
}
