//! Lists live the pods that a new DaemonSet may adopt. Orphans that no DaemonSet selected before
//! were dropped when they were decoded (C3, C21).

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
use crate::observation::{OrphanListRequest, OrphanPods};
use crate::outage_log::{self, FailureKind, OutageLog};

/// Short, because the list costs the server little and a DaemonSet waits for it (C64).
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

/// Lists until that succeeds. Until then the index keeps every orphan of the namespace and plans
/// nothing for the DaemonSet.
pub(crate) async fn list(
    api: impl Server,
    request: OrphanListRequest,
    events: mpsc::Sender<Event>,
    outages: OutageLog,
) {
    let subject = format!("list of orphan pods for daemonset {}", request.key);
    let mut failures = 0;
    let orphans = loop {
        match read(&api, &request).await {
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
    if events.send(Event::OrphansListed(orphans)).await.is_err() {
        tracing::debug!("orphan pods were not reported: the event loop has ended");
    }
}

/// Lists the orphan pods once. Pods that can't be read are logged and left out.
///
/// # Errors
/// As [`Server::get`].
pub async fn read(api: &impl Server, request: &OrphanListRequest) -> Result<OrphanPods, Error> {
    let selector = label_selector_text(&request.selector);
    let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
    let path =
        format!("/api/v1/namespaces/{}/pods?labelSelector={selector}", request.key.namespace);
    let body = api.get(&path).await?;
    let text = go_json::text(&body);
    let wire: WireList =
        serde_json::from_str(&text).map_err(|error| Error::Transport(error.to_string()))?;
    let mut interner = Interner::default();
    let mut orphans = OrphanPods {
        key: request.key.clone(),
        pods: Vec::new(),
        version: ResourceVersion::default(),
    };
    for item in wire.items.unwrap_or_default() {
        orphans.version = orphans.version.max(version(item));
        match convert::pod(item.get().as_bytes(), &mut interner) {
            Ok(PodObject::Pod(pod)) => orphans.pods.push(*pod),
            Ok(PodObject::Foreign { .. }) => {}
            Err(error) => tracing::error!("orphan pods: {error}; the object is ignored"),
        }
    }
    Ok(orphans)
}

/// The version of a listed pod; zero, which no watch has to reach, if it can't be read.
fn version(item: &RawValue) -> ResourceVersion {
    let pod = serde_json::from_str::<WirePod>(item.get()).ok();
    let version = pod.and_then(|pod| pod.metadata.resource_version.parse().ok());
    ResourceVersion(version.unwrap_or_default())
}
