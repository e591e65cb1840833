//! A node has at most one pod of a DaemonSet, or two with surge (C22, C26, C34).
//!
//! The plan was judged by what its replica knew. This is the standing invariant of the actual
//! state: beside the new pod there is no other one that the controller has created and that the
//! replica does not know. So no write of this or another replica is forgotten (C35, C62, C63).

use everynode_core::plan::{NewPod, Write};

use super::model::{DaemonSet, Pod};
use super::situation::Situation;
use super::{Checks, PendingWrite, Property, Violation, violation};
use crate::view::View;

pub(super) fn check(
    write: &PendingWrite,
    new: &NewPod,
    situation: &Situation,
    checks: &Checks,
) -> Option<Violation> {
    if write.is_of_former_leader {
        // A documented limit of C63.
        return None;
    }
    let ds = situation.ds;
    let surges = ds.strategy.surges();
    let has_surged_since = || {
        let planned_at = write.request.view.as_ref().map(|view| view.planned_at);
        let version = planned_at.map_or(0, |at| checks.history.version_before(at));
        let mut states = checks.history.daemon_sets(situation.role).of(&ds.metadata.uid);
        states.any(|(at, state)| at > version && state.strategy.surges())
    };
    if write.arrives_late
        && (surges || has_surged_since() || was_taken_by_other(write, new, situation, checks))
    {
        // The name belonged to another pod while the request was on its way, or surge created the
        // next pod beside the one that has the name. Both are among the documented limits of C35.
        return None;
    }
    let beside = checks.history.pods.all().find(|pod| {
        pod.node() == Some(new.node.as_str())
            && ds.owns(&pod.metadata)
            && !(pod.metadata.is_terminating && (surges || pod.has_ended()))
            && !situation.pods.contains_key(pod.metadata.uid.as_str())
            && is_created_by_controller(pod, ds, checks)
            && !checks.late_pods.get(&pod.metadata.name).is_some_and(|sender| {
                // With surge, the late one may come first: the same limit of C35. So may that of
                // another leader, after this one has listed the pods.
                surges || write.request.view.as_ref().is_some_and(|view| view.replica != *sender)
            })
            && !(write.arrives_late && replaces(pod, write, situation, checks))
    })?;
    let message = format!(
        "{}: a pod is created on {} beside {}, which the controller created and the replica does \
         not know",
        ds.metadata.name, new.node, beside.metadata.name
    );
    violation(Property::Duplicate, message)
}

/// True if a replica created the pod, and nobody else another one of its name.
fn is_created_by_controller(pod: &Pod, ds: &DaemonSet, checks: &Checks) -> bool {
    let first = checks.history.pods.first(&pod.metadata.uid);
    checks.created_pods.get(&pod.metadata.name).map(String::as_str) == pod.node()
        && first.is_some_and(|first| ds.owns(&first.metadata))
}

/// True if the pod was adopted, and the one that got the name of this creation was deleted as a
/// surplus one beside it: another documented limit of C35.
fn replaces(pod: &Pod, write: &PendingWrite, situation: &Situation, checks: &Checks) -> bool {
    let (pods, ds) = (&checks.history.pods, situation.ds);
    let name = write.body["metadata"]["name"].as_str();
    let was_adopted = pods
        .states()
        .any(|(_, old)| old.metadata.uid == pod.metadata.uid && !ds.owns(&old.metadata));
    let was_deleted = pods.states().any(|(_, old)| {
        Some(old.metadata.name.as_str()) == name
            && ds.owns(&old.metadata)
            && old.node() == pod.node()
            && pods.newest(&old.metadata.uid).is_none()
    });
    was_adopted && was_deleted
}

/// The planned creation that a request executes. A pod whose name is taken by another one gets
/// another name; any other name than the planned one could make a second pod (C35).
pub(super) fn planned<'a>(write: &PendingWrite, view: &'a View, node: &str) -> Option<&'a NewPod> {
    let mut planned = view.writes.iter().filter_map(|planned| match planned {
        Write::CreatePod(new) => Some(new),
        _ => None,
    });
    debug_assert!(write.target.name.is_empty(), "a creation has no name in its path");
    planned.find(|new| new.node.as_str() == node)
}

/// True if a pod that is not the DaemonSet's on this node has had the name since the plan.
pub(super) fn was_taken_by_other(
    write: &PendingWrite,
    new: &NewPod,
    situation: &Situation,
    checks: &Checks,
) -> bool {
    let names = [write.body["metadata"]["name"].as_str(), new.name.as_ref().map(|n| n.as_str())];
    checks.history.pods.states().any(|(_, pod)| {
        names.contains(&Some(pod.metadata.name.as_str()))
            && !(pod.metadata.is_controlled_by(&situation.ds.metadata.uid)
                && pod.node() == Some(new.node.as_str()))
    })
}
