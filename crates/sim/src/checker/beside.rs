//! The writes beside the built-in controller: those that G20 lists and no other, and deletions of
//! old pods while it is known what replaces them (G18–G20).

use everynode_core::api::{RECORD_ANNOTATION, ROLLED_BACK_ANNOTATION};
use everynode_core::plan::Write;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{CONTROLLER_REVISION, DAEMON_SET, POD};

use super::coverage::Coverage;
use super::guard::Governing;
use super::history::History;
use super::judged_plan::JudgedPlan;
use super::model::Revision;
use super::plan::Judge;
use super::reason::Uncertainty;
use super::rolled_back::attempt_of;
use super::situation::Situation;
use super::stage::Stage;
use super::{PendingWrite, Property, Violation, rolled_back, violation};
use crate::role::{Installation, Role};
use crate::view::View;

/// Judges a plan that is made beside the built-in controller.
pub(super) fn judge(
    view: &View,
    situation: &Situation,
    history: &History,
    coverage: &mut Coverage,
) -> Result<JudgedPlan, Violation> {
    let judge = Judge { view, situation, history };
    let unknown = what_is_unknown(situation);
    let mut judged = JudgedPlan::default();
    for write in &view.writes {
        let Write::DeletePod(reference) = write else { continue };
        let (pod, on_node) = judge.pod(reference)?;
        let Some(reason) = situation.old(on_node, pod, Uncertainty::Allows) else {
            return judge.without_reason(reference, pod, on_node);
        };
        if let Some(unknown) = unknown {
            let message = format!("pod {} is deleted, although {unknown}", reference.name);
            return Err(situation.violation(Property::Beside, message));
        }
        judged.deletions.insert(reference.uid.to_string(), reason);
    }
    judge.budgets(&judged, coverage)?;
    Ok(judged)
}

/// Why it is not known what the built-in controller puts in the place of a deleted pod (G18, G19).
pub(super) fn what_is_unknown(situation: &Situation) -> Option<&'static str> {
    let (ds, revisions) = (situation.ds, &situation.revisions);
    let observed = ds.status["observedGeneration"].as_i64().unwrap_or_default();
    let current = revisions.current.last().filter(|current| current.metadata.hash().is_some());
    match current {
        _ if !ds.is_on_delete => Some("the strategy is not OnDelete"),
        _ if ds.policy.valid().is_none() => Some("there is no valid policy"),
        _ if observed < ds.generation => Some("the newest generation is not observed"),
        _ if !revisions.orphans.is_empty() => Some("a revision has no owner"),
        None => Some("no revision stores the template"),
        Some(current) => {
            let mut others = revisions.current.iter().rev().skip(1).chain(&revisions.old);
            let is_newest = others.all(|other| other.number < current.number);
            (!is_newest).then_some("the revision of the template is not the newest one")
        }
    }
}

/// Judges whether a replica may make a request (G20).
pub(super) fn check(
    write: &PendingWrite,
    view: &View,
    installation: Installation,
    history: &History,
) -> Option<Violation> {
    let (kind, method) = (write.target.kind.kind, write.request.method.as_str());
    let is_daemon_set = kind == DAEMON_SET.kind;
    let problem = match (view.role, method, write.target.is_status) {
        (Role::Controller | Role::BuiltIn, ..) => {
            (is_daemon_set && !write.target.is_status).then_some("is not its to change")
        }
        (Role::Beside, "DELETE", false) if kind == POD.kind => {
            write.uid_precondition().is_none().then_some("is deleted whatever its UID")
        }
        (Role::Beside, "PATCH", true) if is_daemon_set => {
            let uid = &write.body["metadata"]["uid"];
            let conditions = &write.body["status"]["conditions"];
            let only = json!({"metadata": {"uid": uid}, "status": {"conditions": conditions}});
            match *write.body == only {
                true => unstated_wait(conditions, view, history),
                false => Some("gets more than conditions"),
            }
        }
        (Role::Beside, "PATCH", false) if kind == CONTROLLER_REVISION.kind => {
            let metadata = &write.body["metadata"];
            let record = &metadata["annotations"][RECORD_ANNOTATION];
            let only = json!({"metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "annotations": {RECORD_ANNOTATION: record},
            }});
            (*write.body != only).then_some("gets more than a record")
        }
        (Role::Beside, "PATCH", false) if is_daemon_set => match installation {
            Installation::BesideRollingBack => roll_back_problem(write.body, view, history),
            Installation::Beside | Installation::Controller => Some("is not its to change"),
        },
        (Role::Beside, ..) => Some("is not its to write"),
    }?;
    let name = &write.target.name;
    violation(Property::Beside, format!("{:?}: {method}: {kind} {name} {problem}", view.role))
}

/// Why the conditions do not say that the rollout waits for the built-in controller, although that
/// one has not acted on the newest template: none of its revisions is the newest one (G19).
fn unstated_wait(conditions: &Value, view: &View, history: &History) -> Option<&'static str> {
    let situation = Situation::of(view, history)?;
    let conditions = conditions.as_array().into_iter().flatten();
    let progressing =
        conditions.into_iter().find(|condition| condition["type"] == "Progressing")?;
    let (reason, message) = (progressing["reason"].as_str()?, progressing["message"].as_str()?);
    let is_held = matches!(reason, "Paused" | "InvalidPolicy" | "InvalidRecord" | "NotGuarded");
    let has_not_acted = situation.revisions.current.is_empty() && situation.is_guarded();
    (has_not_acted && !is_held && !message.contains("the built-in controller"))
        .then_some("does not say that the rollout waits for the built-in controller")
}

/// Why the template must not be replaced like this (G20).
fn roll_back_problem(body: &Value, view: &View, history: &History) -> Option<&'static str> {
    let situation = Situation::of(view, history)?;
    let attempt = body["metadata"]["annotations"][ROLLED_BACK_ANNOTATION].as_str();
    let current = situation.revisions.current.last().copied();
    let base = match situation.base() {
        Governing::Old(base) => base,
        Governing::Target => return Some("has no other revision to go back to"),
        // The template of any revision that was used may be that of the base.
        Governing::Unknown => return None,
    };
    let template = Revision::parse(&json!({"data": body})).template;
    match () {
        () if view.writes.len() != 1 => Some("is rolled back beside other writes"),
        () if !body["metadata"]["resourceVersion"].is_string() => {
            Some("is rolled back whatever its version")
        }
        () if !matches!(situation.stage, Stage::Failed { goes_back: true }) => {
            Some("is rolled back, although it has not failed or is not to go back")
        }
        () if situation.ds.is_paused() => Some("is rolled back, although it is paused"),
        () if template != base.template => Some("is rolled back to another template than the base"),
        () if attempt.is_none()
            || attempt.map(ToOwned::to_owned) != current.and_then(attempt_of) =>
        {
            Some("is rolled back without the name of the attempt")
        }
        () if situation.ds.rolled_back.as_deref() == attempt
            || !current.is_some_and(is_to_roll_back) =>
        {
            Some("is rolled back twice")
        }
        () => None,
    }
}

/// True if the record does not say that the template was replaced.
fn is_to_roll_back(revision: &Revision) -> bool {
    revision.record.as_ref().is_some_and(|record| !record.is_rolled_back)
}

/// The work left to do beside the built-in controller, at rest: a failed rollout is rolled back
/// once, and its record says so (G20).
pub(super) fn left_out(
    situation: &Situation,
    installation: Installation,
) -> Option<(Property, String)> {
    if situation.role != Role::Beside || !situation.ds.is_on_delete || !situation.is_guarded() {
        return None;
    }
    let current = situation.revisions.current.last()?;
    let mut all = situation.revisions.old_and_target();
    if let Some(unmarked) = all.find(|it| rolled_back::marked(situation, it).is_some()) {
        let name = &unmarked.metadata.name;
        let message = format!("the record of {name} does not say that it was rolled back");
        return Some((Property::Beside, message));
    }
    let is_due = is_to_roll_back(current)
        && installation == Installation::BesideRollingBack
        && matches!(situation.stage, Stage::Failed { goes_back: true })
        && !situation.ds.is_paused()
        && matches!(situation.base(), Governing::Old(_))
        && situation.ds.rolled_back != attempt_of(current);
    is_due.then(|| (Property::Beside, "the failed rollout is not rolled back".to_owned()))
}
