//! The controller writes no object of another owner and no object other than the intended one (C21,
//! C61).
//!
//! What counts is what the replica had seen: an object that was released, or whose labels changed,
//! after the plan may still be written. Another object of the same name may not.

use everynode_core::api::{CHANGING_ANNOTATION, HASH_LABEL};
use everynode_sandbox::kinds::{CONTROLLER_REVISION, POD};
use http::Method;

use super::model::Metadata;
use super::situation::Situation;
use super::{Checks, PendingWrite, Property, Violation, violation};
use crate::view::View;

pub(super) fn check(
    write: &PendingWrite,
    view: &View,
    situation: &Situation,
    checks: &Checks,
) -> Option<Violation> {
    let is_pod = write.target.kind.kind == POD.kind;
    let is_revision = write.target.kind.kind == CONTROLLER_REVISION.kind;
    if write.request.method == Method::POST || !(is_pod || is_revision) {
        return None;
    }
    let object = write.object()?;
    let uid = object.uid();
    if write.uid_precondition().is_some_and(|wanted| wanted != uid) {
        // The server refuses a write whose precondition fails (C61).
        return None;
    }
    let seen = if is_pod {
        situation.pods.get(uid).map(|pod| &pod.metadata)
    } else {
        situation.all_revisions.get(uid).map(|revision| &revision.metadata)
    };
    let problem = match seen {
        None => Some("which the replica has not seen"),
        Some(seen) if write.request.method == Method::DELETE => {
            let is_owned = situation.ds.owns(seen);
            (!is_owned).then_some("which the DaemonSet does not own")
        }
        Some(seen) => patch_problem(write, view, situation, seen, checks),
    }?;
    let (method, kind) = (&write.request.method, write.target.kind.kind);
    let message =
        format!("{}: {method} of {kind} {}, {problem}", situation.ds.metadata.name, object.name());
    violation(Property::Foreign, message)
}

/// Why an object that looks like this must not be patched.
fn patch_problem(
    write: &PendingWrite,
    view: &View,
    situation: &Situation,
    seen: &Metadata,
    checks: &Checks,
) -> Option<&'static str> {
    let ds = situation.ds;
    let metadata = &write.body["metadata"];
    let owner = &metadata["ownerReferences"][0];
    if !owner.is_object() {
        let hash = &metadata["labels"][HASH_LABEL];
        return match () {
            () if !ds.owns(seen) => Some("which the DaemonSet does not own"),
            () if write.target.kind.kind != POD.kind || hash.is_null() => None,
            // That the change is done is judged by its effect (G56).
            () if write.body["metadata"]["annotations"].get(CHANGING_ANNOTATION).is_some() => None,
            () if is_relabelled(situation, seen, hash.as_str()?) => None,
            () => Some("which does not have the hash of a duplicate"),
        };
    }
    if owner["uid"] != ds.metadata.uid.as_str() {
        return Some("for another owner than the DaemonSet");
    }
    if owner["$patch"] == "delete" {
        return (!ds.releases(seen)).then_some("which the DaemonSet must not release");
    }
    // A live GET precedes the adoption, and follows the plan (C21).
    let version = checks.history.version_before(view.planned_at);
    let live = checks.history.daemon_sets(view.role).at(&ds.metadata.uid, version);
    match live {
        None => Some("which is adopted by a DaemonSet that does not exist"),
        Some(live) if live.metadata.is_terminating => {
            Some("which is adopted by a DaemonSet that is terminating")
        }
        Some(_) if !ds.adopts(seen) => Some("which the DaemonSet must not adopt"),
        Some(_) => None,
    }
}

/// True if a pod with the hash of a duplicate gets that of the current revision (C42).
fn is_relabelled(situation: &Situation, seen: &Metadata, hash: &str) -> bool {
    let Some((current, duplicates)) = situation.revisions.current.split_last() else {
        return false;
    };
    current.metadata.hash() == Some(hash)
        && duplicates.iter().any(|other| other.metadata.hash() == seen.hash())
}
