//! A client of the sandbox, which uses HTTPS and the sandbox's kubeconfig as its users do.

use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use everynode_controller::client::{self, Location, Pings};
use everynode_insight::explain::why_no_node;
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use everynode_sandbox::OWN_USER_AGENT;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

use super::settle::{NodeRow, PodRow};
use crate::clock;
use crate::cluster::PAGE_LIMIT;

/// A client of the sandbox's API server.
pub(crate) struct SandboxClient {
    client: kube::Client,
    /// The maximum time that the server may be unreachable, which rules of --faults can cause.
    outage_max: Duration,
}

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

    pub(crate) async fn nodes(&self) -> anyhow::Result<Vec<NodeRow>> {
        self.rows(|node: &Node| NodeRow::of(node)).await.context("list nodes")
    }

    pub(crate) async fn pods(&self) -> anyhow::Result<Vec<PodRow>> {
        self.rows(|pod: &Pod| PodRow::of(pod)).await.context("list pods")
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
        for node in self.rows(|node: &Node| serde_json::to_vec(node)).await.context("list nodes")? {
            snapshot.add(ObjectKind::Node, &node?);
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

    /// Lists all objects, and keeps a row of each: tens of thousands of complete objects would use
    /// more memory than the sandbox itself.
    async fn rows<T, Row>(&self, row: impl Fn(&T) -> Row) -> anyhow::Result<Vec<Row>>
    where
        T: kube::Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        let api: Api<T> = Api::all(self.client.clone());
        let mut rows = Vec::new();
        let mut page = ListParams::default().limit(PAGE_LIMIT);
        loop {
            let list = self.with_retries(async || api.list(&page).await).await?;
            rows.extend(list.items.iter().map(&row));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(rows),
            }
        }
    }
}
