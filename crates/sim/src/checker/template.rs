//! A pod is created from the template in the revision with its hash (C30, C40).
//!
//! Exemption: the revision may be missing if others have changed a revision within the last
//! 30 s, because the replica may not have observed that change.

use everynode_core::api::HASH_LABEL;
use everynode_sandbox::kind::{CONTROLLER_REVISION, POD};

use super::{Checks, PendingWrite, Property, Violation, is_recent, violation};

pub(super) fn check(write: &PendingWrite, checks: &Checks) -> Option<Violation> {
    if !write.creates(&POD) {
        return None;
    }
    // The garbage collector may delete the revisions of a terminating DaemonSet first.
    let ds = checks.cluster_state.daemon_set(&write.owner()?).filter(|ds| !ds.terminating)?;
    let pod = write.body;
    let hash = pod["metadata"]["labels"][HASH_LABEL].as_str().unwrap_or_default();
    let mut revisions = checks.cluster_state.revisions_of(&ds.uid);
    let revision = revisions
        .find(|revision| revision.labels.get(HASH_LABEL).is_some_and(|label| **label == *hash));
    let namespace = ds.key.namespace.as_str();
    let stored = revision
        .and_then(|found| write.store.find(&CONTROLLER_REVISION, namespace, found.name.as_str()));
    let Some(stored) = stored else {
        if checks.revisions_changed_at.is_some_and(|at| is_recent(at, write.now)) {
            return None;
        }
        let message =
            format!("{}: a pod is created with revision {hash}, which does not exist", ds.key);
        return violation(Property::Template, message);
    };
    let template = &stored.value()["data"]["spec"]["template"];
    let is_same = |field: &str| template["spec"][field] == pod["spec"][field];
    if is_same("containers") && is_same("nodeSelector") {
        return None;
    }
    violation(
        Property::Template,
        format!("{}: a pod with revision {} has another template", ds.key, stored.name()),
    )
}
