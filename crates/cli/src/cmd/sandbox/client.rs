//! A client of the sandbox, which uses HTTPS and the sandbox's kubeconfig as its users do.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use everynode_controller::client::{self, Location, Pings};
use everynode_core::api::DaemonSetKey;
use everynode_insight::explain::why_no_node;
use everynode_insight::rollout::Rollout;
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use everynode_sandbox::OWN_USER_AGENT;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{Api, ListParams, Request};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::row::{NodeRow, PodRow};
use super::settle::Phases;
use crate::clock;
use crate::cluster::PAGE_LIMIT;

/// A client of the sandbox's API server.
pub(crate) struct SandboxClient {
    client: kube::Client,
    /// The maximum time that the server may be unreachable, which rules of --faults can cause.
    outage_max: Duration,
}

/// A page of a list.
#[derive(Deserialize)]
struct Page<T> {
    metadata: ListMeta,
    items: Vec<T>,
}

const NODES: &str = "/api/v1/nodes";

/// The time between two attempts to reach the server.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

impl SandboxClient {
    /// Creates a client. No request is sent yet.
    ///
    /// # Errors
    /// If the kubeconfig can't be used.
    pub(crate) fn connect(
        kubeconfig: &Path,
        outage_max: Duration,
    ) -> anyhow::Result<SandboxClient> {
        let location = Location { kubeconfig: Some(kubeconfig.to_owned()), ..Location::default() };
        let config = client::config(&location).context("read the kubeconfig just written")?;
        // Rules of --faults don't count the requests of this user agent.
        let config = config.with_user_agent(OWN_USER_AGENT);
        Ok(SandboxClient { client: client::client(&config, Pings::default())?, outage_max })
    }

    pub(crate) async fn daemon_sets(&self) -> anyhow::Result<Vec<DaemonSet>> {
        let api: Api<DaemonSet> = Api::all(self.client.clone());
        let all = ListParams::default();
        let list = self.with_retries(async || api.list(&all).await).await;
        Ok(list.context("list daemonsets")?.items)
    }

    /// The number of nodes.
    pub(crate) async fn node_count(&self) -> anyhow::Result<usize> {
        let one = ListParams::default().limit(1);
        let list: Page<IgnoredAny> = self.page(NODES, &one).await.context("count nodes")?;
        let rest = list.metadata.remaining_item_count.unwrap_or(0);
        Ok(list.items.len() + usize::try_from(rest).unwrap_or(0))
    }

    pub(crate) async fn nodes(&self) -> anyhow::Result<Vec<NodeRow>> {
        self.list(NODES).await.context("list nodes")
    }

    pub(crate) async fn pods(&self) -> anyhow::Result<Vec<PodRow>> {
        self.list("/api/v1/pods").await.context("list pods")
    }

    /// A sentence for each DaemonSet that no node should run, with the reasons.
    pub(crate) async fn daemon_sets_without_nodes(&self) -> anyhow::Result<Vec<String>> {
        let mut daemon_sets = self.daemon_sets().await?;
        let is_empty = |status: &DaemonSetStatus| status.desired_number_scheduled == 0;
        daemon_sets.retain(|daemon_set| daemon_set.status.as_ref().is_some_and(is_empty));
        if daemon_sets.is_empty() {
            return Ok(Vec::new());
        }
        let mut snapshot = Snapshot::default();
        let nodes: Vec<Box<RawValue>> = self.list(NODES).await.context("list nodes")?;
        for node in nodes {
            snapshot.add(ObjectKind::Node, node.get().as_bytes());
        }
        for daemon_set in &daemon_sets {
            snapshot.add(ObjectKind::DaemonSet, &serde_json::to_vec(daemon_set)?);
        }
        let keys = snapshot.daemon_sets.keys();
        let sentences = keys.filter_map(|key| {
            let why = why_no_node(&snapshot, key, clock::now())?;
            Some(format!("daemonset {key}: {why}"))
        });
        Ok(sentences.collect())
    }

    /// The states of all rollouts by all that `status` reads: counts may miss nodes that are set
    /// aside.
    pub(crate) async fn phases(&self) -> anyhow::Result<Phases> {
        let mut snapshot = Snapshot::default();
        for (kind, path) in [
            (ObjectKind::DaemonSet, "/apis/apps/v1/daemonsets"),
            (ObjectKind::ControllerRevision, "/apis/apps/v1/controllerrevisions"),
            (ObjectKind::Pod, "/api/v1/pods"),
            (ObjectKind::Node, NODES),
        ] {
            let objects: Vec<Box<RawValue>> = self.list(path).await.context(path)?;
            for object in objects {
                snapshot.add(kind, object.get().as_bytes());
            }
        }
        let now = clock::now();
        let phase =
            |key: &DaemonSetKey| Some((key.clone(), Rollout::of(&snapshot, key, now)?.phase));
        Ok(snapshot.daemon_sets.keys().filter_map(phase).collect())
    }

    /// Repeats the request while the server can't be reached.
    async fn with_retries<T>(&self, request: impl AsyncFn() -> kube::Result<T>) -> kube::Result<T> {
        let started = Instant::now();
        loop {
            match request().await {
                Ok(answer) => return Ok(answer),
                Err(error @ kube::Error::Api(_)) => return Err(error),
                Err(error) if started.elapsed() >= self.outage_max => return Err(error),
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    }

    /// All objects at a path, read page by page.
    async fn list<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Vec<T>> {
        let mut objects = Vec::new();
        let mut parameters = ListParams::default().limit(PAGE_LIMIT);
        loop {
            let page: Page<T> = self.page(path, &parameters).await?;
            objects.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(objects),
            }
        }
    }

    async fn page<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &ListParams,
    ) -> anyhow::Result<Page<T>> {
        let request = Request::new(path).list(parameters)?;
        Ok(self.with_retries(async || self.client.request(request.clone()).await).await?)
    }
}
