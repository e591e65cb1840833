//! A client that deploys DaemonSets.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::agent;
use crate::case::Case;

const NAMESPACE: &str = "bench";
/// The owner of the pods that belong to no DaemonSet.
const REPLICA_SET: &str = "web-5d8f6c9b7c";
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time to wait; only a hanging process takes longer.
const PATIENCE: Duration = Duration::from_secs(1800);
const REQUESTS_AT_ONCE: usize = 32;

pub(crate) struct Cluster {
    client: kube::Client,
}

impl Cluster {
    pub(crate) async fn connect(kubeconfig: &Path) -> anyhow::Result<Cluster> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options).await?;
        Ok(Cluster { client: kube::Client::try_from(config)? })
    }

    pub(crate) async fn create_namespace(&self) -> anyhow::Result<()> {
        self.send(Method::POST, "/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}}))
            .await
    }

    /// Creates pods of a ReplicaSet. They stay pending on their nodes, which saves the sandbox work
    /// and makes no difference to the controller: it drops them while decoding (C3).
    pub(crate) async fn create_foreign_pods(
        &self,
        nodes: u32,
        per_node: u32,
    ) -> anyhow::Result<u32> {
        let path = &format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let names = self.node_names().await?;
        ensure!(names.len() == nodes as usize, "{} nodes, not {nodes}", names.len());
        // Pods without their owner would be garbage-collected.
        let replica_sets = format!("/apis/apps/v1/namespaces/{NAMESPACE}/replicasets");
        self.send(Method::POST, &replica_sets, &replica_set()).await?;
        let owner = &self.get(&format!("{replica_sets}/{REPLICA_SET}")).await?["metadata"]["uid"];
        let pod = |node| foreign_pod(node, owner);
        let pods = names.iter().flat_map(|node| (0..per_node).map(move |_| pod(node)));
        stream::iter(pods)
            .map(|pod| async move { self.send(Method::POST, path, &pod).await })
            .buffer_unordered(REQUESTS_AT_ONCE)
            .try_for_each(|()| std::future::ready(Ok(())))
            .await?;
        Ok(nodes * per_node)
    }

    /// The number of all pods.
    pub(crate) async fn pod_count(&self) -> anyhow::Result<u64> {
        let page = self.get("/api/v1/pods?limit=1").await?;
        let items = page["items"].as_array().context("no list of pods")?.len() as u64;
        Ok(items + page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
    }

    pub(crate) async fn create_daemon_sets(&self, count: u32) -> anyhow::Result<()> {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets");
        for number in 0..count {
            self.send(Method::POST, &path, &daemon_set(number)).await?;
        }
        Ok(())
    }

    /// Changes the template of all DaemonSets.
    pub(crate) async fn roll_out(
        &self,
        daemon_sets: u32,
        round: usize,
        max_unavailable: &str,
    ) -> anyhow::Result<()> {
        let max_unavailable =
            max_unavailable.parse::<u32>().map_or_else(|_| json!(max_unavailable), Value::from);
        let patch = json!({"spec": {
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": max_unavailable}},
            "template": {"metadata": {"annotations": {"round": round.to_string()}}},
        }});
        for number in 0..daemon_sets {
            let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/agent-{number}");
            self.send(Method::PATCH, &path, &patch).await?;
        }
        Ok(())
    }

    /// Waits until the status of every DaemonSet reports its current template as available on every
    /// node.
    pub(crate) async fn wait_until_settled(&self, case: &Case, phase: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let list =
                self.get(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets")).await?;
            let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            let settled = items.iter().filter(|d| is_settled(d, case.nodes)).count();
            if settled == case.daemon_sets as usize {
                return Ok(());
            }
            let last = items.last().map(|d| &d["status"]);
            ensure!(started.elapsed() < PATIENCE, "{phase}: {settled} settled, the last: {last:?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn node_names(&self) -> anyhow::Result<Vec<String>> {
        let list = self.get("/api/v1/nodes").await?;
        let items = list["items"].as_array().context("no list of nodes")?;
        let names = items.iter().filter_map(|node| node["metadata"]["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(self.client.request(Request::get(path).body(Vec::new())?).await?)
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<()> {
        let content = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        self.client.request_text(request.body(serde_json::to_vec(body)?)?).await?;
        Ok(())
    }
}

fn is_settled(daemon_set: &Value, nodes: u32) -> bool {
    let status = &daemon_set["status"];
    status["observedGeneration"] == daemon_set["metadata"]["generation"]
        && ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"]
            .iter()
            .all(|count| status[count] == nodes)
}

fn daemon_set(number: u32) -> Value {
    let name = format!("agent-{number}");
    json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"name": name}},
            "template": agent::template(&name),
        },
    })
}

fn replica_set() -> Value {
    json!({
        "metadata": {"name": REPLICA_SET},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.29"}]},
            },
        },
    })
}

fn foreign_pod(node: &str, owner: &Value) -> Value {
    json!({
        "metadata": {
            "generateName": "web-",
            "labels": {"app": "web", "pod-template-hash": "5d8f6c9b7c"},
            "annotations": {"sandbox.everynode.dev/lifecycle": "[{stage: pull, delay: 10h}]"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": REPLICA_SET,
                "uid": owner, "controller": true,
            }],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "web", "image": "nginx:1.29"}],
        },
    })
}
