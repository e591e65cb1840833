//! Nodes pull images before their pods are replaced.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use tokio::sync::oneshot;

use crate::world::guard::guarded;
use crate::world::manifest::{NEXT_IMAGE, image_patch};
use crate::world::pod::{is_terminating, label, name_of, node_of};
use crate::world::{World, eventually};

const POLICY: &str = "\
steps:
- {name: canary, upTo: [1], bake: 3s}
prepare: {images: {parallel: 2, within: 2m}}
failure: {}
";

const PULLER: &str = "everynode.dev/pulls-images-for";

/// G55: each node has the image before its old pod goes, and no puller is left
#[tokio::test(flavor = "multi_thread")]
async fn nodes_pull_the_images_before_their_pods_go() -> Result<()> {
    let world = World::cluster(4).await?;
    world.roll_out(&guarded("agent", POLICY)).await?;
    world.reaches("agent", "Complete").await?;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let lists = |node: &Node| {
        let images = node.status.iter().flat_map(|status| status.images.iter().flatten());
        images.flat_map(|image| image.names.iter().flatten()).any(|name| name == NEXT_IMAGE)
    };
    let listed = nodes.list(&ListParams::default()).await?.items.into_iter().filter(lists);
    let warm: BTreeSet<String> = listed.filter_map(|node| node.metadata.name).collect();
    let version = world.pods().list(&ListParams::default()).await?.metadata.resource_version;
    let (stop, stopped) = oneshot::channel();
    let seen = Seen { warm, early: Vec::new(), most: 0, pulling: BTreeSet::new() };
    let version = version.context("a list has a version")?;
    let task = tokio::spawn(watch(world.pods(), version, seen, stopped));

    let all = world.pods_of("agent").await?.len();
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    eventually("all pods are updated", async || {
        let images = world.images("agent").await?;
        ensure!(images == BTreeMap::from([(NEXT_IMAGE.to_owned(), all)]), "{images:?}");
        world.stated("agent", "Complete").await
    })
    .await?;
    eventually("no puller is left", async || {
        let left = world.pods().list(&ListParams::default().labels(PULLER)).await?.items;
        ensure!(left.is_empty(), "{:?}", left.iter().map(name_of).collect::<Vec<_>>());
        Ok(())
    })
    .await?;
    // The task's own result reports its failure.
    let _ = stop.send(());
    let seen = task.await??;
    ensure!(seen.early.is_empty(), "pods that went before the image was there: {:?}", seen.early);
    ensure!(seen.most <= 2, "{} nodes pulled at the same time", seen.most);
    Ok(())
}

struct Seen {
    /// Nodes that have the image.
    warm: BTreeSet<String>,
    /// Pods that were deleted on other nodes.
    early: Vec<String>,
    /// Pullers that are not done.
    pulling: BTreeSet<String>,
    /// How many there were at the same time.
    most: usize,
}

impl Seen {
    fn apply(&mut self, pod: &Pod) {
        let node = node_of(pod);
        if label(pod, PULLER).is_some() {
            if has_image(pod) {
                self.warm.insert(node);
                self.pulling.remove(&name_of(pod));
            } else if !is_terminating(pod) {
                self.pulling.insert(name_of(pod));
                self.most = self.most.max(self.pulling.len());
            }
        } else if is_terminating(pod) && !self.warm.contains(&node) {
            self.early.push(name_of(pod));
        }
    }
}

async fn watch(
    pods: Api<Pod>,
    version: String,
    mut seen: Seen,
    mut stopped: oneshot::Receiver<()>,
) -> Result<Seen> {
    let mut events = pods.watch(&WatchParams::default(), &version).await?.boxed();
    loop {
        tokio::select! {
            _ = &mut stopped => return Ok(seen),
            event = events.next() => match event.context("the watch ended")?? {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                    seen.apply(&pod);
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(error) => anyhow::bail!("the watch failed: {error:?}"),
            },
        }
    }
}

fn has_image(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let statuses: Vec<&ContainerStatus> = statuses.collect();
    !statuses.is_empty() && statuses.iter().all(|status| !status.image_id.is_empty())
}
