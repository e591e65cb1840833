//! Changes of a created pod by admission, so that it does not count for its node (C28).
//!
//! A mutating webhook may remove a label or set a node. The controller releases, deletes or ignores
//! such a pod, and the node still needs one.

use crate::api::{AdmissionChange, LabelSelector, Pod, Uid};
use crate::ownership::Ownership;
use crate::plan::NewPod;

/// The change of a created pod by admission, or `None` if the pod counts for its node.
///
/// `stored` is the pod that the API server answered with; `None` if it belongs to another kind of
/// controller. `uid` and `selector` are those of the DaemonSet.
pub fn change(
    new: &NewPod,
    stored: Option<&Pod>,
    uid: &Uid,
    selector: Option<&LabelSelector>,
) -> Option<AdmissionChange> {
    let Some(pod) = stored else { return Some(AdmissionChange::Controller) };
    let controller = pod.controller.as_ref();
    match Ownership::determine_for(uid, selector, controller, &pod.labels, pod.terminating) {
        Ownership::Owned | Ownership::Orphan => {}
        Ownership::Foreign if controller.is_some() => return Some(AdmissionChange::Controller),
        Ownership::Released | Ownership::Foreign => return Some(AdmissionChange::Labels),
    }
    if pod.target_node_name() != Some(&new.node) {
        return Some(AdmissionChange::Node(pod.target_node_name().cloned()));
    }
    // The values may be those of an earlier template: an earlier request may have created the pod.
    let has_revision = pod.revision_hash().is_some() || pod.template_generation().is_some();
    let mut labels = new.r#override.iter().flat_map(|it| it.labels());
    let has_override = labels.all(|(key, _)| pod.labels.get(key).is_some());
    (!has_revision || !has_override).then_some(AdmissionChange::RevisionLabels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{
        HASH_LABEL, LabelOperator, LabelRequirement, Labels, PodPhase, Readiness,
        TEMPLATE_GENERATION_LABEL, Timestamp,
    };
    use crate::plan::ScheduleBy;

    fn stored(edit: impl FnOnce(&mut Pod)) -> Pod {
        let mut pod = Pod {
            namespace: "ns".into(),
            name: "d-a".into(),
            uid: "pod".into(),
            labels: Labels::from_iter([("app", "d"), (HASH_LABEL, "h")]),
            controller: Some("d".into()),
            controller_name: Some("d".into()),
            creation_timestamp: Timestamp(0),
            changed_after: None,
            terminating: false,
            deleted_at: None,
            node_name: None,
            affinity_node_name: Some("a".into()),
            phase: PodPhase::Pending,
            readiness: Readiness::NotReady,
            restarts: 0,
            trouble: None,
            unschedulable: false,
            replacement: None,
            change: None,
        };
        edit(&mut pod);
        pod
    }

    /// C28: what decides is whether the DaemonSet selects the stored pod, on the node for which it
    /// was created, and knows its revision; other changes do not matter.
    #[test]
    fn a_change_of_labels_owner_or_node_is_found() {
        use AdmissionChange::{Controller, Labels as Selected, Node, RevisionLabels};
        let app = LabelRequirement { key: "app".into(), operator: LabelOperator::Exists };
        let selector = LabelSelector { requirements: vec![app] };
        let new = NewPod {
            name: Some("d-a".into()),
            node: "a".into(),
            hash: "h".into(),
            template_generation: None,
            template: None,
            r#override: None,
            schedule_by: ScheduleBy::Scheduler,
        };
        let labels = |labels: &[(&'static str, &'static str)]| {
            let labels = Labels::from_iter(labels.iter().copied());
            stored(|pod| pod.labels = labels)
        };
        for (pod, expected) in [
            (stored(|_| ()), None),
            (labels(&[("app", "d"), (HASH_LABEL, "h"), ("other", "x")]), None),
            (labels(&[("app", "d"), (TEMPLATE_GENERATION_LABEL, "1")]), None),
            (labels(&[("app", "d")]), Some(RevisionLabels)),
            (labels(&[(HASH_LABEL, "h")]), Some(Selected)),
            (stored(|pod| pod.controller = None), None),
            (stored(|pod| pod.controller = Some("e".into())), Some(Controller)),
            (stored(|pod| pod.node_name = Some("a".into())), None),
            (stored(|pod| pod.node_name = Some("b".into())), Some(Node(Some("b".into())))),
            (stored(|pod| pod.affinity_node_name = None), Some(Node(None))),
        ] {
            assert_eq!(change(&new, Some(&pod), &"d".into(), Some(&selector)), expected, "{pod:?}");
        }
        let mut orphan = labels(&[(HASH_LABEL, "h")]);
        orphan.controller = None;
        assert_eq!(change(&new, Some(&orphan), &"d".into(), Some(&selector)), Some(Selected));
        assert_eq!(change(&new, None, &"d".into(), Some(&selector)), Some(Controller));
    }
}
