//! A created pod is the one that its template and its node demand, and has the hash of the revision
//! that stores the template (C14, C30, C31, C40, C45).

use super::model::{BoundBy, HASH_LABEL, expected_pod, is_same, reduced};
use super::situation::Situation;
use super::{PendingWrite, Property, Violation, violation};

pub(super) fn check(
    write: &PendingWrite,
    situation: &Situation,
    node: &str,
    bound_by: BoundBy,
) -> Option<Violation> {
    let ds = situation.ds;
    let mut pod = reduced(write.body);
    let hash = pod["metadata"]["labels"][HASH_LABEL].as_str().unwrap_or_default().to_owned();
    let name = &ds.metadata.name;
    if !situation.current_hashes.contains(hash.as_str()) {
        let message = format!(
            "{name}: a pod is created with hash {hash}, the current ones are {:?}",
            situation.current_hashes
        );
        return violation(Property::Template, message);
    }
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("name");
    }
    let expected = expected_pod(ds, node, &hash, bound_by);
    if is_same(&pod, &expected) {
        return None;
    }
    violation(
        Property::Template,
        format!("{name}: a pod is created as {pod}, its template demands {expected}"),
    )
}
