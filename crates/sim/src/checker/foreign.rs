//! Nothing is touched that has another owner, or that is not what was meant (C21, C61).

use everynode_core::name::Uid;
use http::Method;

use super::{Before, Property, Violation, is_owned, violation};

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
        // Nobody's: to be adopted, or let go of already. Its labels may have changed at this very moment.
        None => true,
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
