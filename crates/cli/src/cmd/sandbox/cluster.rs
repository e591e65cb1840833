//! The sandbox as its user sees it: over HTTPS, through the kubeconfig that it wrote.

use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use everynode_controller::client::{self, Location, Pings};
use everynode_sandbox::OWN_USER_AGENT;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

use super::settle::{NodeRow, PodRow};

/// Objects on a page of a list, as kubectl asks for them.
const PAGE_LIMIT: u32 = 500;

pub struct Cluster {
    client: kube::Client,
    /// How long the server may be away, as rules of --faults have it.
    outage_max: Duration,
}

/// Between two attempts to reach a server that is away.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

impl Cluster {
    pub fn connect(kubeconfig: &Path, outage_max: Duration) -> anyhow::Result<Cluster> {
        let location = Location { kubeconfig: Some(kubeconfig.to_owned()), ..Location::default() };
        let config = client::config(&location).context("read the kubeconfig just written")?;
        // No rule of --faults is used up by what the sandbox asks of itself.
        let config = config.with_user_agent(OWN_USER_AGENT);
        Ok(Cluster { client: client::client(&config, Pings::default())?, outage_max })
    }

    pub async fn daemon_sets(&self) -> anyhow::Result<Vec<DaemonSet>> {
        let api: Api<DaemonSet> = Api::all(self.client.clone());
        let all = ListParams::default();
        let list = self.patiently(async || api.list(&all).await).await;
        Ok(list.context("list daemonsets")?.items)
    }

    pub async fn nodes(&self) -> anyhow::Result<Vec<NodeRow>> {
        self.rows(|node: &Node| NodeRow::of(node)).await.context("list nodes")
    }

    pub async fn pods(&self) -> anyhow::Result<Vec<PodRow>> {
        self.rows(|pod: &Pod| PodRow::of(pod)).await.context("list pods")
    }

    /// Asks again while the server can't be reached: a rule of --faults may have taken it away.
    async fn patiently<T>(&self, ask: impl AsyncFn() -> kube::Result<T>) -> kube::Result<T> {
        let started = Instant::now();
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error @ kube::Error::Api(_)) => return Err(error),
                Err(error) if started.elapsed() >= self.outage_max => return Err(error),
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    }

    /// Keeps a row of each object: tens of thousands of whole ones would take more memory than the sandbox itself.
    async fn rows<T, Row>(&self, row: impl Fn(&T) -> Row) -> anyhow::Result<Vec<Row>>
    where
        T: kube::Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
    {
        let api: Api<T> = Api::all(self.client.clone());
        let mut rows = Vec::new();
        let mut page = ListParams::default().limit(PAGE_LIMIT);
        loop {
            let list = self.patiently(async || api.list(&page).await).await?;
            rows.extend(list.items.iter().map(&row));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(rows),
            }
        }
    }
}
