//! The controller deletes no revision that a live pod uses, terminal pods included (C44).
//!
//! Exemptions:
//!
//! - A duplicate may be deleted: the controller merges duplicates (C42), and another revision with
//!   the same data remains.
//! - A pod that the DaemonSet does not select does not count: the DaemonSet must release it (C21),
//!   so it is no longer one of its pods.
//! - A terminating pod does not count: C44 protects the revisions of live pods.
//! - A pod that a delayed request has just created does not count: the replica may not have
//!   observed it yet.

use everynode_sandbox::kind::CONTROLLER_REVISION;

use super::{Checks, PendingWrite, Property, Violation, violation};
use crate::cluster_state;

pub(super) fn check(write: &PendingWrite, checks: &Checks) -> Option<Violation> {
    if !write.deletes(&CONTROLLER_REVISION) {
        return None;
    }
    let (object, cluster) = (write.object()?, &checks.cluster_state);
    let version = write.body["preconditions"]["resourceVersion"].as_str();
    if version.is_some_and(|version| version != object.resource_version().to_string()) {
        // The server refuses a write whose precondition fails.
        return None;
    }
    let revision = cluster.revision(object.namespace(), object.name())?;
    let (owner, hash) = (revision.controller.as_ref()?, revision.hash()?);
    let ds = cluster.daemon_set(owner)?;
    let user = cluster.pods_of(owner).find(|pod| {
        !pod.terminating
            && !checks.late_pod_names.is_recent(pod.name.as_str(), write.now)
            && cluster_state::selects(ds, pod)
            && pod.revision_hash().is_some_and(|hash_of_pod| hash_of_pod == hash)
    })?;
    let mut others = cluster.revisions_of(owner).filter(|other| other.uid != revision.uid);
    if others.any(|other| other.template.is_ok() && other.template == revision.template) {
        return None;
    }
    let message = format!("revision {} is deleted, pod {} uses it", revision.name, user.name);
    violation(Property::Revision, message)
}
