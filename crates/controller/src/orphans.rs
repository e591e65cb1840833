//! One live list of the pods that a new DaemonSet may adopt: orphans that nobody selected before were
//! dropped as they were decoded (C3, C21).

use std::time::Duration;

use everynode_core::name::ResourceVersion;
use everynode_k8s::convert::{self, Interner, PodObject, label_selector_text};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::api::{Error, Server};
use crate::event::Event;
use crate::index::{OrphanList, Orphans};

const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct WireList<'a> {
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct WirePod<'a> {
    #[serde(borrow)]
    metadata: WireMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMetadata<'a> {
    resource_version: &'a str,
}

/// Lists until that succeeds: until then the index keeps every orphan of the namespace, and plans
/// nothing for the DaemonSet.
pub(crate) async fn list(api: impl Server, list: OrphanList, events: mpsc::Sender<Event>) {
    let mut pause = PAUSE;
    let orphans = loop {
        match read(&api, &list).await {
            Ok(orphans) => break orphans,
            Err(error) => {
                tracing::warn!(daemonset = %list.key, %error, "can't list orphan pods");
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    };
    if events.send(Event::Orphans(orphans)).await.is_err() {
        tracing::debug!("orphan pods were not reported: the loop has ended");
    }
}

/// Lists once.
///
/// # Errors
/// As [`Server::get`].
pub async fn read(api: &impl Server, list: &OrphanList) -> Result<Orphans, Error> {
    let selector = label_selector_text(&list.selector);
    let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
    let path = format!("/api/v1/namespaces/{}/pods?labelSelector={selector}", list.key.namespace);
    let body = api.get(&path).await?;
    let wire: WireList =
        serde_json::from_slice(&body).map_err(|error| Error::Transport(error.to_string()))?;
    let mut interner = Interner::default();
    let mut orphans =
        Orphans { key: list.key.clone(), pods: Vec::new(), version: ResourceVersion::default() };
    for item in wire.items.unwrap_or_default() {
        orphans.version = orphans.version.max(version(item));
        match convert::pod(item.get().as_bytes(), &mut interner) {
            Ok(PodObject::Pod(pod)) => orphans.pods.push(*pod),
            Ok(PodObject::Foreign { .. }) => {}
            Err(error) => tracing::error!(%error, "object passed over"),
        }
    }
    Ok(orphans)
}

/// Zero, which waits for nothing, for one that we can't read.
fn version(item: &RawValue) -> ResourceVersion {
    let pod = serde_json::from_str::<WirePod>(item.get()).ok();
    let version = pod.and_then(|pod| pod.metadata.resource_version.parse().ok());
    ResourceVersion(version.unwrap_or_default())
}
