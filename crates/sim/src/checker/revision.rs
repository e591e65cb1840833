//! No revision goes that a live pod carries, terminal ones included (C44).

use everynode_sandbox::kind::CONTROLLER_REVISION;

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
    let carrier = pods.iter().find(|pod| {
        !pod.terminating && pod.revision_hash().is_some_and(|carried| carried.as_str() == hash)
    })?;
    if has_twin {
        return None;
    }
    let message = format!("revision {} is deleted, pod {} carries it", object.name(), carrier.name);
    violation(Property::Revision, message)
}
