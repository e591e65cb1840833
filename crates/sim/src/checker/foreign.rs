//! Nothing is touched that has another owner, or that is not what was meant (C21, C61).

use everynode_core::name::Uid;
use everynode_sandbox::kind::DAEMON_SET;
use http::Method;

use super::{Before, Property, Violation, is_owned, violation};
use crate::truth;

pub fn check(before: &Before) -> Option<Violation> {
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
    let owner = object.owner_references().find(|owner| owner.controller);
    let is_ours = match &owner {
        Some(owner) => owner.kind == "DaemonSet" && owner.api_version == "apps/v1",
        None => {
            let adopts = body["metadata"]["ownerReferences"].is_array();
            let labels = object.value()["metadata"]["labels"].clone();
            adopts
                && before
                    .store
                    .iter(&DAEMON_SET, None)
                    .any(|ds| selects(&truth::daemon_set(ds), &labels))
        }
    };
    if is_ours {
        return None;
    }
    let owner = owner.map_or("nobody".to_owned(), |owner| format!("{} {}", owner.kind, owner.name));
    let (method, kind) = (&before.request.method, before.target.kind.kind);
    let message = format!(
        "{method} of {kind} {} {}, which is {owner}'s",
        object.name(),
        Uid::new(object.uid())
    );
    violation(Property::Foreign, message)
}

fn selects(ds: &everynode_core::object::DaemonSet, labels: &serde_json::Value) -> bool {
    let entries = labels.as_object().into_iter().flatten();
    let labels = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    ds.selector.as_ref().is_some_and(|selector| selector.matches(&labels.collect()))
}
