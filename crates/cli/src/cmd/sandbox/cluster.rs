//! The sandbox as its user sees it: over HTTPS, through the kubeconfig that it wrote.

use std::fmt::Debug;
use std::path::Path;

use anyhow::Context;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::de::DeserializeOwned;

use super::settle::{NodeRow, PodRow};

/// Objects on a page of a list, as kubectl asks for them.
const PAGE_LIMIT: u32 = 500;

pub struct Cluster {
    client: kube::Client,
}

impl Cluster {
    pub async fn connect(kubeconfig: &Path) -> anyhow::Result<Cluster> {
        let file = Kubeconfig::read_from(kubeconfig).context("read the kubeconfig just written")?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options).await?;
        Ok(Cluster { client: kube::Client::try_from(config)? })
    }

    pub async fn daemon_sets(&self) -> anyhow::Result<Vec<DaemonSet>> {
        let api: Api<DaemonSet> = Api::all(self.client.clone());
        Ok(api.list(&ListParams::default()).await.context("list daemonsets")?.items)
    }

    pub async fn nodes(&self) -> anyhow::Result<Vec<NodeRow>> {
        self.rows(|node: &Node| NodeRow::of(node)).await.context("list nodes")
    }

    pub async fn pods(&self) -> anyhow::Result<Vec<PodRow>> {
        self.rows(|pod: &Pod| PodRow::of(pod)).await.context("list pods")
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
            let list = api.list(&page).await?;
            rows.extend(list.items.iter().map(&row));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(rows),
            }
        }
    }
}
