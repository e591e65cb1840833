//! No revision goes that a live pod carries, terminal ones included (C44).

use everynode_core::object::Pod;
use everynode_sandbox::kind::{CONTROLLER_REVISION, DAEMON_SET};

use super::{Before, Property, Violation, violation};
use crate::truth;

pub fn check(before: &Before) -> Option<Violation> {
    if !before.deletes(&CONTROLLER_REVISION) {
        return None;
    }
    let object = before.object()?;
    let going = truth::revision(object)?;
    let owner = going.controller.clone()?;
    let hash = object.label(everynode_core::object::HASH_LABEL)?;
    let same = truth::revisions_of(before.store, &owner);
    let data = &object.value()["data"];
    let has_twin = same.iter().filter(|twin| twin.uid != going.uid).any(|twin| {
        let stored =
            before.store.find(&CONTROLLER_REVISION, object.namespace(), twin.name.as_str());
        stored.is_some_and(|stored| stored.value()["data"] == *data)
    });
    let pods = truth::pods_of(before.store, &owner);
    let ds = before.store.iter(&DAEMON_SET, None).find(|ds| ds.uid() == owner.to_string());
    let ds = truth::daemon_set(ds?);
    // One that does not match any more is being released.
    let selects = |pod: &Pod| ds.selector.as_ref().is_some_and(|s| s.matches(&pod.labels));
    let carrier = pods.iter().find(|pod| {
        !pod.terminating
            && selects(pod)
            && pod.revision_hash().is_some_and(|carried| carried.as_str() == hash)
    })?;
    if has_twin {
        return None;
    }
    let message = format!("revision {} is deleted, pod {} carries it", object.name(), carrier.name);
    violation(Property::Revision, message)
}
