//! Nothing is touched that has another owner, or that is not what was meant (C21, C61).
//!
//! What has no controller may be adopted: by a DaemonSet that is there and that selects it. Anything else may only be
//! done to it if it lost its controller so lately that a replica may not have seen it; labels and DaemonSets likewise.

use everynode_core::api::Uid;
use everynode_sandbox::kind::POD;
use everynode_sandbox::object::Object;
use http::Method;

use super::{Before, Checks, Property, Violation, is_owned, violation};
use crate::truth::{self, Truth};

pub fn check(before: &Before, checks: &Checks) -> Option<Violation> {
    let is_new = before.request.method == Method::POST;
    if is_new || !is_owned(before.target.kind) {
        return None;
    }
    let object = before.object()?;
    let body = before.body;
    let wanted = [&body["metadata"]["uid"], &body["preconditions"]["uid"]]
        .into_iter()
        .find_map(|uid| uid.as_str());
    if wanted.is_some_and(|uid| uid != object.uid()) {
        // The server refuses it.
        return None;
    }
    let wrong = match object.owner_references().find(|owner| owner.controller) {
        Some(owner) if owner.kind == "DaemonSet" && owner.api_version == "apps/v1" => return None,
        Some(owner) => format!("is {} {}'s", owner.kind, owner.name),
        None => wrong_about_orphan(before, checks, object)?,
    };
    let (method, kind) = (&before.request.method, before.target.kind.kind);
    let name = object.name();
    violation(Property::Foreign, format!("{method} of {kind} {name}, which {wrong}"))
}

/// Why this must not be done to something that has no controller.
fn wrong_about_orphan(before: &Before, checks: &Checks, object: &Object) -> Option<String> {
    let (uid, now) = (Uid::new(object.uid()), before.now);
    let Some(owner) = before.owner() else {
        return (!checks.let_go.is_recent(&uid, now)).then(|| "is nobody's".to_owned());
    };
    if checks.ended.is_recent(&owner, now) || checks.relabelled.is_recent(&uid, now) {
        return None;
    }
    match checks.truth.daemon_set(&owner) {
        Some(ds) if !ds.terminating && is_selected(before, &checks.truth, ds) => None,
        Some(ds) if ds.terminating => Some(format!("is adopted by {}, which is going", ds.key)),
        Some(ds) => Some(format!("is adopted by {}, which does not select it", ds.key)),
        None => Some("is adopted by a DaemonSet that is gone".to_owned()),
    }
}

fn is_selected(before: &Before, truth: &Truth, ds: &everynode_core::api::DaemonSet) -> bool {
    let (namespace, name) = (&before.target.namespace, &before.target.name);
    let selector = ds.selector.as_ref();
    if before.target.kind.kind == POD.kind {
        truth.pod(namespace, name).is_some_and(|pod| truth::selects(ds, pod))
    } else {
        let revision = truth.revision(namespace, name);
        revision
            .zip(selector)
            .is_some_and(|(revision, selector)| selector.matches(&revision.labels))
    }
}
