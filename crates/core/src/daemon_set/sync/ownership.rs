//! Adopting orphans and releasing pods that the selector does not match (C21).

use crate::plan::{PodReference, Write};

use super::SyncInput;
use super::draft::Draft;

/// Adopts matching orphans, releases owned pods that do not match.
pub(in crate::daemon_set) fn plan_ownership(input: &SyncInput<'_>, draft: &mut Draft) {
    for (name, id) in &input.work_sets.has_orphans {
        for pod in input.slots[id.index()].pods.as_slice().iter().filter(|pod| pod.is_orphan()) {
            draft.patch(Write::AdoptPod(pod.reference(Some(name))));
        }
    }
    for pod in input.unplaced.values().filter(|pod| pod.is_orphan()) {
        draft.patch(Write::AdoptPod(pod.reference(None)));
    }
    for (name, uid) in input.releases {
        let pod = PodReference { name: name.clone(), uid: uid.clone(), node: None };
        draft.patch(Write::ReleasePod(pod));
    }
}
