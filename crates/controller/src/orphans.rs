//! One live list of the pods that a new DaemonSet may adopt: orphans that nobody selected before were
//! dropped as they were decoded (C3, C21).

use std::time::Duration;

use everynode_core::object::Pod;
use everynode_k8s::convert::{self, Interner, PodObject, label_selector_text};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::api::{Api, Error};
use crate::event::Event;
use crate::index::OrphanList;

const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct WireList<'a> {
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// Lists until that succeeds: until then the index keeps every orphan of the namespace.
pub(crate) async fn list(api: Api, list: OrphanList, events: mpsc::Sender<Event>) {
    let mut pause = PAUSE;
    let pods = loop {
        match read(&api, &list).await {
            Ok(pods) => break pods,
            Err(error) => {
                tracing::warn!(namespace = %list.namespace, %error, "can't list orphan pods");
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    };
    if events.send(Event::Orphans { namespace: list.namespace, pods }).await.is_err() {
        tracing::debug!("orphan pods were not reported: the loop has ended");
    }
}

async fn read(api: &Api, list: &OrphanList) -> Result<Vec<Pod>, Error> {
    let selector = label_selector_text(&list.selector);
    let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
    let path = format!("/api/v1/namespaces/{}/pods?labelSelector={selector}", list.namespace);
    let body = api.get(&path).await?;
    let wire: WireList =
        serde_json::from_slice(&body).map_err(|error| Error::Transport(error.to_string()))?;
    let mut interner = Interner::default();
    let mut pods = Vec::new();
    for item in wire.items.unwrap_or_default() {
        match convert::pod(item.get().as_bytes(), &mut interner) {
            Ok(PodObject::Pod(pod)) => pods.push(pod),
            Ok(PodObject::Foreign { .. }) => {}
            Err(error) => tracing::error!(%error, "object passed over"),
        }
    }
    Ok(pods)
}
