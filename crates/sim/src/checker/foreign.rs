//! The controller writes no object of another owner and no object other than the intended one (C21,
//! C61).
//!
//! An existing DaemonSet may adopt an object without a controller that it selects. Every other
//! write to such an object is a violation.
//!
//! Exemptions: the object lost its controller, the labels changed, or the DaemonSet was deleted
//! within the last 30 s, so that a replica may not have observed it.

use everynode_core::api::Uid;
use everynode_sandbox::kind::POD;
use everynode_sandbox::object::Object;
use http::Method;

use super::{Checks, PendingWrite, Property, Violation, is_owned, violation};
use crate::cluster_state::{self, ClusterState};

pub(super) fn check(write: &PendingWrite, checks: &Checks) -> Option<Violation> {
    let is_new = write.request.method == Method::POST;
    if is_new || !is_owned(write.target.kind) {
        return None;
    }
    let object = write.object()?;
    let body = write.body;
    let wanted = [&body["metadata"]["uid"], &body["preconditions"]["uid"]]
        .into_iter()
        .find_map(|uid| uid.as_str());
    if wanted.is_some_and(|uid| uid != object.uid()) {
        // The server refuses a write whose precondition fails (C61).
        return None;
    }
    let problem = match object.owner_references().find(|owner| owner.controller) {
        Some(owner) if owner.kind == "DaemonSet" && owner.api_version == "apps/v1" => return None,
        Some(owner) => format!("is controlled by {} {}", owner.kind, owner.name),
        None => orphan_problem(write, checks, object)?,
    };
    let (method, kind) = (&write.request.method, write.target.kind.kind);
    let name = object.name();
    violation(Property::Foreign, format!("{method} of {kind} {name}, which {problem}"))
}

/// Why an object without a controller must not be written.
fn orphan_problem(write: &PendingWrite, checks: &Checks, object: &Object) -> Option<String> {
    let (uid, now) = (Uid::new(object.uid()), write.now);
    let Some(owner) = write.owner() else {
        return (!checks.released.is_recent(&uid, now)).then(|| "has no controller".to_owned());
    };
    if checks.deleted_daemon_sets.is_recent(&owner, now)
        || checks.ambiguous_pods.is_recent(&uid, now)
    {
        return None;
    }
    match checks.cluster_state.daemon_set(&owner) {
        Some(ds) if !ds.terminating && is_selected(write, &checks.cluster_state, ds) => None,
        Some(ds) if ds.terminating => {
            Some(format!("is adopted by {}, which is terminating", ds.key))
        }
        Some(ds) => Some(format!("is adopted by {}, which does not select it", ds.key)),
        None => Some("is adopted by a DaemonSet that does not exist".to_owned()),
    }
}

fn is_selected(
    write: &PendingWrite,
    cluster: &ClusterState,
    ds: &everynode_core::api::DaemonSet,
) -> bool {
    let (namespace, name) = (&write.target.namespace, &write.target.name);
    let selector = ds.selector.as_ref();
    if write.target.kind.kind == POD.kind {
        cluster.pod(namespace, name).is_some_and(|pod| cluster_state::selects(ds, pod))
    } else {
        let revision = cluster.revision(namespace, name);
        revision
            .zip(selector)
            .is_some_and(|(revision, selector)| selector.matches(&revision.labels))
    }
}
