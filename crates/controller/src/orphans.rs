//! One live list of the pods that a new DaemonSet may adopt: orphans that nobody selected before were
//! dropped as they were decoded (C3, C21).

use std::time::Duration;

use everynode_core::api::ResourceVersion;
use everynode_k8s::convert::{self, Interner, PodObject, label_selector_text};
use everynode_k8s::go_json;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::api::{Error, Server};
use crate::backoff::ExponentialBackoff;
use crate::event::Event;
use crate::observation::{OrphanList, Orphans};
use crate::outage_log::{self, FailureKind, OutageLog};

/// Short: a list of one selector's pods costs the server little, and a DaemonSet waits for it (C64).
const BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_millis(200), max: Duration::from_secs(2) };

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
pub(crate) async fn list(
    api: impl Server,
    list: OrphanList,
    events: mpsc::Sender<Event>,
    outages: OutageLog,
) {
    let subject = format!("list of orphan pods for daemonset {}", list.key);
    let mut failures = 0;
    let orphans = loop {
        match read(&api, &list).await {
            Ok(orphans) => break orphans,
            Err(error) => {
                let kind = match &error {
                    Error::Transport(_) => FailureKind::Unreachable,
                    Error::Refused { code, .. } => outage_log::failure_kind(Some(*code)),
                    Error::Fenced => FailureKind::Refused,
                };
                outages.failed(&subject, kind, &error.to_string());
                sleep(BACKOFF.delay(failures)).await;
                failures += 1;
            }
        }
    };
    outages.recovered(&subject);
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
    let text = go_json::text(&body);
    let wire: WireList =
        serde_json::from_str(&text).map_err(|error| Error::Transport(error.to_string()))?;
    let mut interner = Interner::default();
    let mut orphans =
        Orphans { key: list.key.clone(), pods: Vec::new(), version: ResourceVersion::default() };
    for item in wire.items.unwrap_or_default() {
        orphans.version = orphans.version.max(version(item));
        match convert::pod(item.get().as_bytes(), &mut interner) {
            Ok(PodObject::Pod(pod)) => orphans.pods.push(*pod),
            Ok(PodObject::Foreign { .. }) => {}
            Err(error) => tracing::error!("orphan pods: {error}; it is passed over"),
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
