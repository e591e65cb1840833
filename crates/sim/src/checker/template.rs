//! A pod is made of the template that the revision with its hash holds (C30, C40).

use everynode_core::object::HASH_LABEL;
use everynode_sandbox::kind::{CONTROLLER_REVISION, POD};

use super::{Before, Property, Violation, violation};

pub fn check(before: &Before, revisions_disturbed: bool) -> Option<Violation> {
    if !before.creates(&POD) {
        return None;
    }
    // What is deleted loses its revisions first.
    let ds = before.owner().filter(|ds| !ds.terminating)?;
    let pod = before.body;
    let hash = pod["metadata"]["labels"][HASH_LABEL].as_str().unwrap_or_default();
    let revision =
        before.store.iter(&CONTROLLER_REVISION, Some(ds.key.namespace.as_str())).find(|revision| {
            let mut owners = revision.owner_references();
            revision.label(HASH_LABEL) == Some(hash)
                && owners.any(|owner| owner.uid == ds.uid.to_string())
        });
    let Some(revision) = revision else {
        let message =
            format!("{}: a pod is created of revision {hash}, which is not there", ds.key);
        return if revisions_disturbed { None } else { violation(Property::Template, message) };
    };
    let template = &revision.value()["data"]["spec"]["template"];
    if template["spec"]["containers"] == pod["spec"]["containers"]
        && template["spec"]["nodeSelector"] == pod["spec"]["nodeSelector"]
    {
        return None;
    }
    violation(
        Property::Template,
        format!("{}: a pod of revision {} is not made of its template", ds.key, revision.name()),
    )
}
