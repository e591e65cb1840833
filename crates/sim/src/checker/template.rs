//! A created pod is the one that its template and its node demand, and has the hash of the revision
//! that stores the template: the target's, or in a guarded rollout the one that governs the node
//! (C14, C30, C31, C40, C45, G1, G16).

use super::guard::Governing;
use super::model::{BoundBy, expected_pod, is_same, named, reduced, take_tag};
use super::situation::Situation;
use super::{PendingWrite, Property, Violation, violation};
use everynode_core::api::{CONFIG_LABEL, HASH_LABEL};
use everynode_sandbox::json::Value;

pub(super) fn check(
    write: &PendingWrite,
    situation: &Situation,
    node: &str,
    bound_by: BoundBy,
) -> Option<Violation> {
    let ds = situation.ds;
    let mut pod = write.body.clone();
    let tag = take_tag(&mut pod);
    let mut pod = reduced(&pod);
    let hash = pod["metadata"]["labels"][HASH_LABEL].as_str().unwrap_or_default().to_owned();
    let name = &ds.metadata.name;
    let governing = situation.governing(node);
    let is_governing = match governing {
        Governing::Target => situation.current_hashes.contains(hash.as_str()),
        Governing::Old(revision) => revision.metadata.pod_hash() == hash,
        Governing::Unknown => true,
    };
    if !is_governing {
        let message = format!(
            "{name}: a pod of {hash} is created on {node}, which {governing:?} governs; the \
             current hashes are {:?}",
            situation.current_hashes
        );
        // A pod of the target where the target does not govern is one of a closed wave (G1).
        let is_target = situation.current_hashes.contains(hash.as_str());
        let property = if is_target { Property::Gate } else { Property::Template };
        return violation(property, message);
    }
    let old = situation.revisions.old.iter();
    let older = old.copied().find(|old| old.metadata.pod_hash() == hash);
    let older = older.filter(|_| !matches!(governing, Governing::Target));
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("name");
    }
    let expected = expected_pod(ds, older, node, &hash, bound_by);
    if is_same(&pod, &expected) {
        let copies = older.map_or(&ds.copies, |older| &older.copies);
        let is_right = tag.is_some() != copies.is_empty() && !is_mistaken(situation, &pod, tag);
        let message =
            || format!("{name}: a pod of {hash} has the copies {copies:?} and another tag");
        return (!is_right).then(|| Violation { property: Property::Template, message: message() });
    }
    violation(
        Property::Template,
        format!("{name}: a pod is created as {pod}, its template demands {expected}"),
    )
}

/// True if another pod has the tag and other copies, or another tag and the same copies (G58).
fn is_mistaken(situation: &Situation, pod: &Value, tag: Option<String>) -> bool {
    let Some(tag) = tag else { return false };
    let names = named(pod);
    let tagged =
        situation.our_pods().filter_map(|pod| Some((pod, pod.metadata.labels.get(CONFIG_LABEL)?)));
    tagged.into_iter().any(|(other, of_other)| (*of_other == tag) != (other.config_maps == names))
}
