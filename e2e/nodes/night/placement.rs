//! Labels, taints and cordons of nodes, in a rollout and without one.

use anyhow::{Result, ensure};
use serde_json::json;

use super::super::fixture::Controller;
use super::super::manifest::{Change, agent};
use super::super::state::{
    all_nodes_updated, all_updated, empty, first_running, is_refused, ready, updated, updated_count,
};
use super::super::story::story;
use crate::world::pod::name_of;

/// C16: a node changes, and so do its pods
#[tokio::test(flavor = "multi_thread")]
async fn a_taint() -> Result<()> {
    story("a NoExecute taint on a node, and away again", async |run| {
        run.others_delete_pods();
        run.starts(agent()).await?;
        run.kubectl(&["taint", "node", "node-2", "dedicated=gpu:NoExecute"]).await?;
        run.within(30, "its pod is gone", empty(2)).await?;
        run.kubectl(&["taint", "node", "node-2", "dedicated-"]).await?;
        run.within(60, "it is back", all_nodes_updated).await
    })
    .await
}

/// A race between the controller and the kubelet, whose view of its node may be older
#[tokio::test(flavor = "multi_thread")]
async fn a_taint_comes_and_goes() -> Result<()> {
    story("a NoExecute taint on a node and away again, six times", async |run| {
        run.others_delete_pods();
        run.starts(agent()).await?;
        for _ in 0..6 {
            run.kubectl(&["taint", "node", "node-2", "dedicated=gpu:NoExecute"]).await?;
            run.wait("its pod is gone", empty(2)).await?;
            run.kubectl(&["taint", "node", "node-2", "dedicated-"]).await?;
            run.wait("it is back", all_nodes_updated).await?;
        }
        let refused = run.record.count(is_refused);
        run.note(format!("six times gone and back; the kubelet refused {refused} pods"));
        Ok(())
    })
    .await
}

/// A pod whose toleration ends is created again for ever
#[tokio::test(flavor = "multi_thread")]
async fn a_taint_is_tolerated_for_3_seconds() -> Result<()> {
    story("a NoExecute taint that pods tolerate for 3 s", async |run| {
        run.others_delete_pods();
        let toleration = json!({ "key": "a", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 3 });
        run.starts(agent().pod(json!({ "tolerations": [toleration] }))).await?;
        run.kubectl(&["taint", "node", "node-2", "a=b:NoExecute"]).await?;
        run.pass(30).await;
        let pods = run.record.count(|_| true) - 3;
        run.note(format!("{pods} new pods in 30 s"));
        run.kubectl(&["taint", "node", "node-2", "a-"]).await?;
        run.within(60, "the taint is gone, and all run", all_nodes_updated).await
    })
    .await
}

/// C57: an update takes no pod that the node can't have back
#[tokio::test(flavor = "multi_thread")]
async fn a_node_takes_no_new_pods() -> Result<()> {
    story("a NoSchedule taint on a node, then another image; the taint goes", async |run| {
        run.starts(agent()).await?;
        run.kubectl(&["taint", "node", "node-2", "dedicated=gpu:NoSchedule"]).await?;
        run.image("2").await?;
        run.within(30, "the other two updated", updated(&[1, 3])).await?;
        run.pass(3).await;
        let keeps = run.record.look(|state| state.pod_on(2).is_some());
        run.note(if keeps { "the node keeps its pod" } else { "the node has no pod" });
        ensure!(keeps || run.controller == Controller::BuiltIn, "its pod is gone");
        run.kubectl(&["taint", "node", "node-2", "dedicated-"]).await?;
        run.within(60, "the taint is gone, and all updated", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_cordoned() -> Result<()> {
    story("another image while a node is cordoned", async |run| {
        run.starts(agent()).await?;
        run.kubectl(&["cordon", "node-2"]).await?;
        run.image("2").await?;
        run.within(60, "all updated, the cordoned one too", updated(&[1, 2, 3])).await?;
        run.kubectl(&["uncordon", "node-2"]).await.map(drop)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_drained() -> Result<()> {
    story("kubectl drain --ignore-daemonsets in mid-rollout, and uncordon", async |run| {
        run.starts(agent().env(&[("READY_AFTER", "3")])).await?;
        run.image("2").await?;
        run.wait("a new pod runs", |state| first_running(state, "2").is_some()).await?;
        run.kubectl(&["drain", "node-2", "--ignore-daemonsets", "--timeout=40s"]).await?;
        run.within(60, "drained, and all updated", updated(&[1, 2, 3])).await?;
        run.kubectl(&["uncordon", "node-2"]).await.map(drop)
    })
    .await
}

/// An update goes by its own budget, not by that of evictions
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_disruption_budget() -> Result<()> {
    story("a PodDisruptionBudget that allows no eviction; drain, and another image", async |run| {
        run.starts(agent()).await?;
        run.kubectl(&["create", "pdb", "agent", "--selector=app=agent", "--min-available=3"])
            .await?;
        let pod = run.record.look(|state| state.pod_on(1).map(name_of).unwrap_or_default());
        let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", run.world.namespace);
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": pod } });
        let arguments = ["create", "--raw", &path, "-f", "-"];
        let refused = run.world.kubectl_with_input(&arguments, &eviction.to_string()).await?;
        ensure!(refused.code != 0, "the eviction is not refused");
        run.note("an eviction is refused");
        run.kubectl(&["drain", "node-2", "--ignore-daemonsets", "--timeout=40s"]).await?;
        run.note("a drain goes through");
        run.image("2").await?;
        run.within(60, "all updated", updated(&[1, 2, 3])).await?;
        run.kubectl(&["uncordon", "node-2"]).await.map(drop)
    })
    .await
}

/// C11, C16: nodes by their labels
#[tokio::test(flavor = "multi_thread")]
async fn a_label_in_a_rollout() -> Result<()> {
    story(
        "in mid-rollout one node loses the label of the node selector, and gets it again",
        async |run| {
            run.others_delete_pods();
            run.kubectl(&["label", "nodes", "--all", "disk=ssd"]).await?;
            let selector = json!({ "nodeSelector": { "disk": "ssd" } });
            run.starts(agent().pod(selector).env(&[("READY_AFTER", "3")])).await?;
            run.image("2").await?;
            run.wait("a new pod runs", |state| first_running(state, "2").is_some()).await?;
            run.kubectl(&["label", "node", "node-3", "disk-"]).await?;
            run.within(30, "its pod is gone", empty(3)).await?;
            run.within(60, "the other two updated", updated(&[1, 2])).await?;
            run.kubectl(&["label", "node", "node-3", "disk=ssd"]).await?;
            run.within(60, "the label is back, and all updated", all_nodes_updated).await
        },
    )
    .await
}

/// A race between the controller and the kubelet, whose view of its node may be older
#[tokio::test(flavor = "multi_thread")]
async fn a_label_comes_and_goes() -> Result<()> {
    story("a node gets the label of the node selector and loses it, six times", async |run| {
        run.others_delete_pods();
        run.apply(agent().pod(json!({ "nodeSelector": { "disk": "ssd" } }))).await?;
        for _ in 0..6 {
            run.kubectl(&["label", "node", "node-2", "disk=ssd"]).await?;
            run.wait("its pod runs", ready(1)).await?;
            run.kubectl(&["label", "node", "node-2", "disk-"]).await?;
            run.wait("its pod is gone", empty(2)).await?;
        }
        let refused = run.record.count(is_refused);
        run.note(format!("six times there and gone; the kubelet refused {refused} pods"));
        run.kubectl(&["label", "nodes", "--all", "disk=ssd"]).await?;
        run.within(60, "all nodes have the label, and run it", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_in_a_rollout() -> Result<()> {
    story("a node joins in mid-rollout", async |run| {
        run.starts(agent().env(&[("READY_AFTER", "3")])).await?;
        run.node("off", 3).await?;
        run.kubectl(&["delete", "node", "node-3"]).await?;
        run.wait("its pod is gone", empty(3)).await?;
        run.image("2").await?;
        run.wait("a new pod runs", |state| first_running(state, "2").is_some()).await?;
        run.node("on", 3).await?;
        run.within(90, "all updated", all_nodes_updated).await
    })
    .await
}

/// A node selector that no node has: the DaemonSet runs nowhere, and comes back
#[tokio::test(flavor = "multi_thread")]
async fn a_selector_of_no_node() -> Result<()> {
    story("a node selector that no node has, then the old one", async |run| {
        run.others_delete_pods();
        run.starts(agent()).await?;
        run.apply(agent().pod(json!({ "nodeSelector": { "kubernetes.io/os": "linus" } }))).await?;
        run.within(60, "no node has a pod", |state| state.agents().next().is_none()).await?;
        run.told("nodeSelector wants kubernetes.io/os=linus", |state| updated_count(state) == 0)
            .await?;
        run.apply(agent()).await?;
        run.within(60, "all run again", all_updated).await
    })
    .await
}
