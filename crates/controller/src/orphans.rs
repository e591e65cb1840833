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
use crate::observation::{OrphanListRequest, OrphanPods, WatchedResource};
use crate::outage_log::{self, FailureKind, OutageLog};

/// Short, because the list costs the server little and a DaemonSet waits for it (C64).
const BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_millis(200), max: Duration::from_secs(2) };

/// Maximum length of an encoded selector in a URI. Proxies and load balancers accept 8 KiB of
/// request line, API servers more; a longer selector is applied here, to all pods of the namespace.
pub const SELECTOR_BYTES_MAX: usize = 1536;

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
                    Error::Fenced => FailureKind::Unknown,
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
    let body = api.get(&path(request)).await?;
    let text = go_json::text(&body);
    let wire: WireList =
        serde_json::from_str(&text).map_err(|error| Error::Transport(error.to_string()))?;
    let mut interner = Interner::default();
    let mut unreadable = Vec::new();
    let mut orphans = OrphanPods {
        key: request.key.clone(),
        pods: Vec::new(),
        version: ResourceVersion::default(),
    };
    for item in wire.items.unwrap_or_default() {
        match convert::pod(item.get().as_bytes(), &mut interner) {
            Ok(PodObject::Pod(pod)) if request.selector.matches(&pod.labels) => {
                orphans.version = orphans.version.max(version(item));
                orphans.pods.push(*pod);
            }
            Ok(PodObject::Pod(_) | PodObject::Puller(_) | PodObject::Foreign { .. }) => {}
            Err(error) => unreadable.push(error),
        }
    }
    if let Some(error) = unreadable.first() {
        let count = unreadable.len();
        tracing::error!("orphan pods: {error}; {count} objects are ignored");
    }
    Ok(orphans)
}

/// The path of the pods that the selector matches, or of all pods of the namespace if the selector
/// is too long for a URI.
fn path(request: &OrphanListRequest) -> String {
    let pods = WatchedResource::Pod.path(Some(request.key.namespace.as_str()));
    let selector = label_selector_text(&request.selector);
    let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
    if selector.len() > SELECTOR_BYTES_MAX {
        return pods;
    }
    format!("{pods}?labelSelector={selector}")
}

/// The version of a listed pod; zero, which no watch has to reach, if it can't be read.
fn version(item: &RawValue) -> ResourceVersion {
    let pod = serde_json::from_str::<WirePod>(item.get()).ok();
    let version = pod.and_then(|pod| pod.metadata.resource_version.parse().ok());
    ResourceVersion(version.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use everynode_core::api::{DaemonSetKey, LabelOperator, LabelRequirement, LabelSelector};
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::api::Content;

    /// A server with the same pods for every request. It records the paths.
    #[derive(Clone, Default)]
    struct PodServer(Arc<Mutex<Vec<String>>>);

    impl Server for PodServer {
        async fn get(&self, path: &str) -> Result<Bytes, Error> {
            self.0.lock().unwrap().push(path.to_owned());
            let pod = |name: &str, version: &str, value: &str| {
                json!({ "metadata": { "name": name, "namespace": "ns", "uid": name,
                    "resourceVersion": version, "labels": { "app": value } } })
            };
            let list = json!({ "items": [pod("a", "7", "v0000"), pod("b", "9", "other")] });
            Ok(list.to_string().into())
        }

        async fn write(&self, _: Method, _: &str, _: Content, _: Bytes) -> Result<Bytes, Error> {
            unreachable!("orphans are only read")
        }
    }

    /// C21, C29: a selector that does not fit a URI is applied to all pods of the namespace.
    #[tokio::test]
    async fn a_selector_that_does_not_fit_a_uri_is_applied_here() {
        for (values, path) in [
            (1, "/api/v1/namespaces/ns/pods?labelSelector=app+in+%28v0000%29"),
            (20_000, "/api/v1/namespaces/ns/pods"),
        ] {
            let values = (0..values).map(|value| format!("v{value:04}").into()).collect();
            let operator = LabelOperator::In(values);
            let requirements = vec![LabelRequirement { key: "app".into(), operator }];
            let key = DaemonSetKey::new("ns", "d");
            let request = OrphanListRequest { key, selector: LabelSelector { requirements } };
            let server = PodServer::default();
            let orphans = read(&server, &request).await.unwrap();
            let names: Vec<&str> = orphans.pods.iter().map(|pod| pod.name.as_str()).collect();
            assert_eq!(names, ["a"]);
            assert_eq!(orphans.version, ResourceVersion(7));
            assert_eq!(*server.0.lock().unwrap(), [path]);
        }
    }
}
