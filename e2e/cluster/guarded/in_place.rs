//! Pods are changed in place instead of being replaced.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::json;

use crate::world::World;
use crate::world::guard::guarded;
use crate::world::manifest::{NEXT_IMAGE, image_patch};
use crate::world::pod::{HASH_LABEL, label, node_of, uid};

const POLICY: &str = "\
update: InPlaceIfPossible
steps:
- {name: canary, upTo: [1], bake: 2s}
failure: {}
";

const CHANGING: &str = "everynode.dev/changing";

/// G56: another image is changed in the running pods, which keep their place and address; of their
/// containers that one starts anew. A kubelet that does not state which generation of a pod it has
/// seen gets new pods. A restart replaces pods.
#[tokio::test(flavor = "multi_thread")]
async fn another_image_is_changed_in_the_running_pods() -> Result<()> {
    let world = World::cluster(4).await?;
    world.roll_out(&guarded("agent", POLICY)).await?;
    world.reaches("agent", "Complete").await?;
    let before = world.pods_of("agent").await?;
    let states_generation = |pod: &Pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.observed_generation).is_some_and(|seen| seen > 0)
    };
    let is_possible = before.iter().all(states_generation);

    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.is_updated_to(NEXT_IMAGE, before.len()).await?;
    let after = world.pods_of("agent").await?;
    ensure!((places(&after) == places(&before)) == is_possible, "{after:?} after {before:?}");
    let hashes: Vec<_> = after.iter().filter_map(|pod| label(pod, HASH_LABEL)).collect();
    ensure!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    for pod in &after {
        let annotations = pod.metadata.annotations.iter().flatten();
        ensure!(annotations.map(|(key, _)| key).all(|key| key != CHANGING), "{pod:?}");
        ensure!(!is_possible || restarts(pod) == [1], "{pod:?}");
    }

    let annotations = json!({ "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z" });
    let restart = json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } });
    world.patch_daemon_set("agent", restart).await?;
    world.reaches("agent", "Updating").await?;
    world.reaches("agent", "Complete").await?;
    let last = world.pods_of("agent").await?;
    let (kept, last) = (places(&after), places(&last));
    ensure!(last.iter().all(|(node, place)| kept[node].0 != place.0), "{last:?} after {kept:?}");
    Ok(())
}

impl World {
    async fn is_updated_to(&self, image: &str, pods: usize) -> Result<()> {
        crate::world::eventually("all pods are updated", async || {
            let images = self.images("agent").await?;
            ensure!(images == BTreeMap::from([(image.to_owned(), pods)]), "{images:?}");
            self.stated("agent", "Complete").await
        })
        .await
    }
}

/// UID and address of the pod of each node.
fn places(pods: &[Pod]) -> BTreeMap<String, (String, Option<String>)> {
    let address = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    pods.iter().map(|pod| (node_of(pod), (uid(pod), address(pod)))).collect()
}

fn restarts(pod: &Pod) -> Vec<i32> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.map(|status: &ContainerStatus| status.restart_count).collect()
}
