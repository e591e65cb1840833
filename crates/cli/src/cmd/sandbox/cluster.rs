//! The sandbox as its user sees it: over HTTPS, through the kubeconfig that it wrote.

use std::path::Path;

use anyhow::Context;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

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

    pub async fn nodes(&self) -> anyhow::Result<Vec<Node>> {
        let api: Api<Node> = Api::all(self.client.clone());
        Ok(api.list(&ListParams::default()).await.context("list nodes")?.items)
    }

    pub async fn pods(&self) -> anyhow::Result<Vec<Pod>> {
        let api: Api<Pod> = Api::all(self.client.clone());
        Ok(api.list(&ListParams::default()).await.context("list pods")?.items)
    }
}
