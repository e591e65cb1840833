//! Nodes, kubelets, runtimes, networks, API servers and controllers that fail, before a rollout and
//! in it.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::super::fixture::Controller;
use super::super::manifest::{Change, agent};
use super::super::state::{
    State, all_nodes_updated, all_updated, empty, first_running, node_ready, ready, terminating,
    updated, updated_count,
};
use super::super::story::{Run, story};
use crate::world::pod::name_of;

/// An agent that is ready some seconds after its start, so that faults come in the middle.
fn ready_after(seconds: &str) -> Value {
    agent().env(&[("READY_AFTER", seconds)])
}

/// Waits until the first new pod of a rollout runs. Returns its node.
async fn first_new_pod(run: &mut Run<'_>, tag: &str) -> Result<usize> {
    run.wait("a new pod runs", |state| first_running(state, tag).is_some()).await?;
    run.record.look(|state| first_running(state, tag)).context("it is gone again")
}

/// The two other nodes.
fn others(node: usize) -> Vec<usize> {
    (1..=3).filter(|other| *other != node).collect()
}

/// C58: an update goes round a node that is down
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_down_before_a_rollout() -> Result<()> {
    story("a kubelet is killed, its node is not ready; another image", async |run| {
        run.starts(agent()).await?;
        run.node("kill-kubelet", 2).await?;
        run.wait("node-2 is not ready", node_ready(2, "Unknown")).await?;
        run.image("2").await?;
        run.within(30, "the other two updated", updated(&[1, 3])).await?;
        run.node("start-kubelet", 2).await?;
        run.within(90, "the kubelet is back, and all updated", all_nodes_updated).await
    })
    .await
}

/// C58, with maxSurge
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_down_before_a_surge() -> Result<()> {
    story("the same with maxSurge 1", async |run| {
        run.starts(agent().surge()).await?;
        run.node("kill-kubelet", 2).await?;
        run.wait("node-2 is not ready", node_ready(2, "Unknown")).await?;
        run.image("2").await?;
        run.within(40, "the other two updated", updated(&[1, 3])).await?;
        run.node("start-kubelet", 2).await?;
        run.within(90, "the kubelet is back, and all updated", all_nodes_updated).await
    })
    .await
}

/// C58: with tolerations for everything a node that is down is desired
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_down_and_all_is_tolerated() -> Result<()> {
    story("the same, of pods that tolerate every taint", async |run| {
        let tolerant = json!({ "tolerations": [{ "operator": "Exists" }] });
        run.starts(agent().pod(tolerant)).await?;
        run.node("kill-kubelet", 2).await?;
        run.wait("node-2 is not ready", node_ready(2, "Unknown")).await?;
        run.image("2").await?;
        run.within(30, "the other two updated", updated(&[1, 3])).await?;
        run.node("start-kubelet", 2).await?;
        run.within(90, "the kubelet is back, and all updated", all_nodes_updated).await
    })
    .await
}

/// C58: a kubelet dies while its old pod ends, so that it cannot say that it has
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_dies_before_its_pod_is_replaced() -> Result<()> {
    story("a kubelet is killed, and at once another image", async |run| {
        run.starts(ready_after("2")).await?;
        run.node("kill-kubelet", 1).await?;
        run.image("2").await?;
        run.wait("node-1 is not ready", node_ready(1, "Unknown")).await?;
        run.told("node not ready", node_ready(1, "Unknown")).await?;
        run.reaches(20, "the other two updated", updated(&[2, 3])).await;
        run.node("start-kubelet", 1).await?;
        run.within(120, "the kubelet is back, and all updated", all_nodes_updated).await
    })
    .await
}

/// C58: a node that went down with the new pod on it uses the budget: the update may be why
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_dies_under_its_new_pod() -> Result<()> {
    story("the first node with a new pod loses its kubelet before it is ready", async |run| {
        run.starts(ready_after("8")).await?;
        run.image("2").await?;
        let node = first_new_pod(run, "2").await?;
        run.node("kill-kubelet", node).await?;
        run.wait("the node is not ready", node_ready(node, "Unknown")).await?;
        run.told("node not ready", node_ready(node, "Unknown")).await?;
        run.stays(15, "the other two keep their old pods", |state: &State| {
            others(node).iter().all(|other| state.pod_on(*other).is_some())
                && updated_count(state) <= 1
        })
        .await?;
        run.node("start-kubelet", node).await?;
        run.within(120, "the kubelet is back, and all updated", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_reboots() -> Result<()> {
    story("the node of the first new pod reboots before that is ready", async |run| {
        run.starts(ready_after("4")).await?;
        run.image("2").await?;
        let node = first_new_pod(run, "2").await?;
        run.node("reboot", node).await?;
        run.within(120, "all updated", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_reboot_together() -> Result<()> {
    story("two nodes reboot at once in mid-rollout, one of them with a new pod", async |run| {
        run.starts(ready_after("4")).await?;
        run.image("2").await?;
        let node = first_new_pod(run, "2").await?;
        run.node("reboot", node).await?;
        run.node("reboot", node % 3 + 1).await?;
        run.within(120, "all updated", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_reboot() -> Result<()> {
    story("all three nodes are powered off in mid-rollout, and on 20 s later", async |run| {
        run.starts(ready_after("4")).await?;
        run.image("2").await?;
        first_new_pod(run, "2").await?;
        for node in 1..=3 {
            run.node("off", node).await?;
        }
        run.pass(20).await;
        for node in 1..=3 {
            run.node("on", node).await?;
        }
        run.within(120, "all updated", all_nodes_updated).await
    })
    .await
}

/// C16: a deleted node takes no part
#[tokio::test(flavor = "multi_thread")]
async fn a_node_goes_for_good() -> Result<()> {
    story("a node is powered off, another image; then its Node is deleted", async |run| {
        run.starts(agent()).await?;
        run.node("off", 2).await?;
        run.image("2").await?;
        run.wait("node-2 is not ready", node_ready(2, "Unknown")).await?;
        run.told("node not ready", node_ready(2, "Unknown")).await?;
        run.kubectl(&["delete", "node", "node-2"]).await?;
        run.within(90, "rolled out on the two that are left", all_updated).await?;
        run.node("on", 2).await?;
        run.within(90, "the node is back, and all updated", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_deleted_while_its_kubelet_runs() -> Result<()> {
    story("a Node is deleted, whose kubelet runs on", async |run| {
        run.starts(agent()).await?;
        run.others_delete_pods();
        run.kubectl(&["delete", "node", "node-2"]).await?;
        run.within(90, "its pod is gone", empty(2)).await?;
        run.node("kill-kubelet", 2).await?;
        run.node("start-kubelet", 2).await?;
        run.within(90, "the kubelet was restarted, and all run", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_cut() -> Result<()> {
    story("a node's network is cut in mid-rollout and mended 30 s later", async |run| {
        run.starts(ready_after("2")).await?;
        run.node("cut", 2).await?;
        run.image("2").await?;
        run.wait("node-2 is not ready", node_ready(2, "Unknown")).await?;
        run.told("node not ready", node_ready(2, "Unknown")).await?;
        run.pass(15).await;
        run.node("mend", 2).await?;
        run.within(120, "all updated", all_nodes_updated).await
    })
    .await
}

/// The control plane evicts the pod of a node that it does not reach; its container runs on
#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_cut_and_the_pod_evicted() -> Result<()> {
    story(
        "a node's network is cut in mid-rollout for 40 s; unreachable is tolerated for 5 s",
        async |run| {
            let toleration = json!({ "key": "node.kubernetes.io/unreachable",
                "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5 });
            run.starts(ready_after("2").pod(json!({ "tolerations": [toleration] }))).await?;
            run.others_delete_pods();
            run.node("cut", 2).await?;
            run.image("2").await?;
            run.wait("its pod is to end", terminating(2)).await?;
            run.reaches(30, "the other two updated", updated(&[1, 3])).await;
            run.node("mend", 2).await?;
            run.within(120, "all updated", all_nodes_updated).await
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_dies() -> Result<()> {
    story("containerd dies on a node in mid-rollout, and is back 20 s later", async |run| {
        run.starts(ready_after("2")).await?;
        run.node("kill-containerd", 2).await?;
        run.image("2").await?;
        run.told("runtime", |state: &State| node_ready(2, "False")(state)).await?;
        run.pass(10).await;
        run.node("start-containerd", 2).await?;
        run.within(120, "all updated", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_dies() -> Result<()> {
    story("the API server is killed in mid-rollout, and started 8 s later", async |run| {
        run.starts(ready_after("3")).await?;
        run.image("2").await?;
        first_new_pod(run, "2").await?;
        run.api_server("kill").await?;
        run.pass(8).await;
        run.api_server("start").await?;
        run.within(150, "all updated", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_dies() -> Result<()> {
    story("the controller is killed in mid-rollout, and started 5 s later", async |run| {
        run.starts(ready_after("3")).await?;
        run.image("2").await?;
        first_new_pod(run, "2").await?;
        run.kill_controller();
        run.pass(5).await;
        run.start_controller(run.controller, &[])?;
        run.within(90, "all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handover() -> Result<()> {
    story("the other controller takes over in mid-rollout, and back when it is done", async |run| {
        let (own, other) = match run.controller {
            Controller::Everynode => (Controller::Everynode, Controller::BuiltIn),
            Controller::BuiltIn => (Controller::BuiltIn, Controller::Everynode),
        };
        run.starts(ready_after("3")).await?;
        run.image("2").await?;
        first_new_pod(run, "2").await?;
        run.kill_controller();
        run.start_controller(other, &[])?;
        run.within(90, "all updated by the other one", all_updated).await?;
        let before = run.record.look(|state| state.pods.keys().cloned().collect::<Vec<_>>());
        run.kill_controller();
        run.start_controller(own, &[])?;
        run.stays(10, "every pod is the same", move |state| state.pods.keys().eq(before.iter()))
            .await
    })
    .await
}

/// Two faults at once
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_dies_and_a_node_reboots() -> Result<()> {
    story(
        "the controller and a node with a new pod die at once; both back after 5 s",
        async |run| {
            run.starts(ready_after("4")).await?;
            run.image("2").await?;
            let node = first_new_pod(run, "2").await?;
            run.kill_controller();
            run.node("off", node).await?;
            run.pass(5).await;
            run.node("on", node).await?;
            run.start_controller(run.controller, &[])?;
            run.within(120, "all updated", all_nodes_updated).await
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_superseded_while_a_node_is_down() -> Result<()> {
    story(
        "a node is down, a rollout to 2, in the middle one to 3; the node comes back",
        async |run| {
            run.starts(ready_after("3")).await?;
            run.node("kill-kubelet", 3).await?;
            run.wait("node-3 is not ready", node_ready(3, "Unknown")).await?;
            run.image("2").await?;
            run.reaches(20, "a new pod runs", |state| first_running(state, "2").is_some()).await;
            run.image("3").await?;
            run.within(40, "the other two have 3", updated(&[1, 2])).await?;
            run.node("start-kubelet", 3).await?;
            run.within(90, "the kubelet is back, and all have 3", all_nodes_updated).await
        },
    )
    .await
}

/// A pod is deleted by force on a node that does not answer; its container runs on
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_deleted_by_force_on_a_dead_node() -> Result<()> {
    story("a kubelet dies, its pod is deleted by force; the kubelet comes back", async |run| {
        run.starts(agent()).await?;
        run.others_delete_pods();
        run.node("kill-kubelet", 2).await?;
        run.wait("node-2 is not ready", node_ready(2, "Unknown")).await?;
        let pod = run.record.look(|state| state.pod_on(2).map(name_of).unwrap_or_default());
        run.kubectl(&["delete", "pod", &pod, "--force", "--grace-period=0"]).await?;
        run.pass(5).await;
        run.node("start-kubelet", 2).await?;
        run.within(60, "all run", all_nodes_updated).await?;
        let containers = run.inside(2, "ctr -n k8s.io tasks ls -q").await?;
        run.note(format!("node-2 has {} processes of containers", containers.lines().count()));
        Ok(())
    })
    .await
}

/// A kubelet that restarts leaves its pods alone
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_restarts() -> Result<()> {
    story("a kubelet restarts; minReadySeconds 10", async |run| {
        run.starts(agent().spec(json!({ "minReadySeconds": 10 }))).await?;
        run.node("kill-kubelet", 1).await?;
        run.node("start-kubelet", 1).await?;
        run.stays(15, "the pods are three", |state| state.agents().count() == 3).await?;
        run.within(60, "all available", ready(3)).await
    })
    .await
}
