//! No revision goes that a live pod carries, terminal ones included (C44).
//!
//! A duplicate may go: another revision of the same data stays. A pod that the DaemonSet does not select is being let
//! go of, and counts no more than one that is terminating. One whose creation landed late may not have been seen yet.

use everynode_sandbox::kind::CONTROLLER_REVISION;

use super::{Before, Checks, Property, Violation, violation};
use crate::truth;

pub fn check(before: &Before, checks: &Checks) -> Option<Violation> {
    if !before.deletes(&CONTROLLER_REVISION) {
        return None;
    }
    let (object, truth) = (before.object()?, &checks.truth);
    let version = before.body["preconditions"]["resourceVersion"].as_str();
    if version.is_some_and(|version| version != object.resource_version().to_string()) {
        // The server refuses it.
        return None;
    }
    let going = truth.revision(object.namespace(), object.name())?;
    let (owner, hash) = (going.controller.as_ref()?, going.hash()?);
    let ds = truth.daemon_set(owner)?;
    let carrier = truth.pods_of(owner).find(|pod| {
        !pod.terminating
            && !checks.landed_late.is_recent(pod.name.as_str(), before.now)
            && truth::selects(ds, pod)
            && pod.revision_hash().is_some_and(|carried| carried == hash)
    })?;
    let mut others = truth.revisions_of(owner).filter(|other| other.uid != going.uid);
    if others.any(|other| other.template.is_ok() && other.template == going.template) {
        return None;
    }
    let message = format!("revision {} is deleted, pod {} carries it", going.name, carrier.name);
    violation(Property::Revision, message)
}
