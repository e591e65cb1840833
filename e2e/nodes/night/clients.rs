//! Other clients: who deletes, labels or evicts pods, refuses them, or deletes the DaemonSet.

use anyhow::{Result, ensure};
use serde_json::json;

use super::super::manifest::{Change, agent};
use super::super::state::{
    AGENT, State, all_nodes_updated, all_updated, event, first_running, phase, updated_count,
};
use super::super::story::{Run, story};
use crate::world::pod::{is_terminating, name_of, uid};

/// The name of the pod on a node.
fn pod_on(run: &Run<'_>, node: usize) -> String {
    run.record.look(|state| state.pod_on(node).map(name_of).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_deleted_in_a_rollout() -> Result<()> {
    story("somebody deletes an old pod in mid-rollout", async |run| {
        run.others_delete_pods();
        run.starts(agent().env(&[("READY_AFTER", "3")])).await?;
        run.image("2").await?;
        run.wait("a new pod runs", |state| first_running(state, "2").is_some()).await?;
        let new = run.record.look(|state| first_running(state, "2")).unwrap_or(1);
        let pod = pod_on(run, new % 3 + 1);
        run.kubectl(&["delete", "pod", &pod, "--wait=false"]).await?;
        run.within(60, "all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pods_are_deleted() -> Result<()> {
    story("somebody deletes all pods", async |run| {
        run.others_delete_pods();
        run.starts(agent()).await?;
        run.kubectl(&["delete", "pods", "-l", "app=agent", "--wait=false"]).await?;
        run.wait("they end", |state| state.agents().any(is_terminating)).await?;
        run.within(60, "all run", all_nodes_updated).await
    })
    .await
}

/// C23: a descheduler that does not want the pods
#[tokio::test(flavor = "multi_thread")]
async fn a_client_deletes_each_new_pod() -> Result<()> {
    story("for 30 s somebody deletes each new pod of a node before it is ready", async |run| {
        run.others_delete_pods();
        run.starts(agent().env(&[("READY_AFTER", "5")])).await?;
        let began = tokio::time::Instant::now();
        let before = run.record.count(|_| true);
        while began.elapsed().as_secs() < 30 {
            let pod = pod_on(run, 2);
            if pod.is_empty() {
                run.record.until(std::time::Duration::from_millis(200), |_| false).await;
            } else {
                let delete = ["delete", "pod", &pod, "--force", "--grace-period=0"];
                run.world.try_kubectl(&delete).await?;
            }
        }
        let pods = run.record.count(|_| true) - before;
        run.note(format!("{pods} new pods in 30 s"));
        run.kubectl(&["get", "ds"]).await?;
        run.within(120, "left alone, all run", all_nodes_updated).await
    })
    .await
}

/// C27: a pod that is taken out for a look keeps running, beside its successor
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_loses_its_label() -> Result<()> {
    story("somebody takes the label from a pod, and gives it back 5 s later", async |run| {
        run.others_create_pods();
        run.starts(agent()).await?;
        let pod = pod_on(run, 2);
        run.kubectl(&["label", "pod", &pod, "app-"]).await?;
        run.within(30, "the node has another pod", all_nodes_updated).await?;
        run.pass(5).await;
        run.kubectl(&["label", "pod", &pod, "app=agent"]).await?;
        run.reaches(30, "one of the two is deleted", |state| state.agents().count() == 3).await;
        run.kubectl(&["delete", "pod", &pod, "--ignore-not-found", "--wait=false"]).await?;
        run.within(60, "all run", all_nodes_updated).await
    })
    .await
}

/// C36: the pods of the former DaemonSet end first
#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_set_is_replaced() -> Result<()> {
    story("kubectl delete ds, and at once apply; the agent takes 4 s to end", async |run| {
        run.others_delete_pods();
        let grace = json!({ "terminationGracePeriodSeconds": 20 });
        let slow = agent().env(&[("STOP_AFTER", "4")]).pod(grace);
        run.starts(slow.clone()).await?;
        let old: Vec<String> = run.record.look(|state| state.agents().map(uid).collect());
        run.kubectl(&["delete", "ds", AGENT, "--wait=false"]).await?;
        run.apply(slow).await?;
        run.within(90, "all run anew", move |state| {
            all_nodes_updated(state) && !state.agents().any(|pod| old.contains(&uid(pod)))
        })
        .await
    })
    .await
}

/// C41: the pods are adopted
#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_set_is_replaced_over_its_pods() -> Result<()> {
    story("kubectl delete ds --cascade=orphan, and apply", async |run| {
        run.starts(agent()).await?;
        let old: Vec<String> = run.record.look(|state| state.agents().map(uid).collect());
        run.kubectl(&["delete", "ds", AGENT, "--cascade=orphan"]).await?;
        run.wait("it is gone", |state| state.daemon_set.is_none()).await?;
        run.apply(agent()).await?;
        run.within(60, "all run", all_nodes_updated).await?;
        let same =
            run.record.look(|state| state.agents().filter(|pod| old.contains(&uid(pod))).count());
        run.note(format!("{same} of 3 pods are the same"));
        ensure!(same == 3, "pods were replaced");
        Ok(())
    })
    .await
}

/// C72: pods that the API server refuses for a while
#[tokio::test(flavor = "multi_thread")]
async fn a_quota() -> Result<()> {
    story("a quota of 2 pods for 45 s, and another image meanwhile", async |run| {
        run.starts(agent()).await?;
        run.kubectl(&["create", "quota", "pods", "--hard=pods=2"]).await?;
        run.image("2").await?;
        run.told("exceeded quota", event("FailedCreate", "exceeded quota")).await?;
        run.stays(40, "two nodes have pods", |state| state.agents().count() <= 3).await?;
        run.kubectl(&["delete", "quota", "pods"]).await?;
        run.within(150, "the quota is gone, and all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_is_missing() -> Result<()> {
    story("the new version names a ServiceAccount that comes 15 s later", async |run| {
        run.starts(agent()).await?;
        run.apply(agent().image("2").pod(json!({ "serviceAccountName": "agent" }))).await?;
        run.told("serviceaccount \"agent\" not found", event("FailedCreate", "serviceaccount"))
            .await?;
        run.pass(15).await;
        run.kubectl(&["create", "serviceaccount", "agent"]).await?;
        run.within(150, "it is there, and all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_security() -> Result<()> {
    story("the namespace forbids hostNetwork (Pod Security) for 20 s", async |run| {
        run.starts(agent()).await?;
        let namespace = run.world.namespace.clone();
        let level = "pod-security.kubernetes.io/enforce";
        let label = |value: &str| format!("{level}={value}");
        let strict = ["label", "ns", &namespace, &label("baseline"), "--overwrite"];
        run.world.kubectl(&strict).await?;
        let probe = json!({ "httpGet": { "port": 9400 } });
        let probes = json!({ "readinessProbe": probe, "livenessProbe": probe });
        let network = agent().image("2").pod(json!({ "hostNetwork": true })).container(probes);
        run.apply(network.env(&[("PORT", "9400")])).await?;
        run.told("violates PodSecurity", event("FailedCreate", "PodSecurity")).await?;
        run.pass(20).await;
        let open = ["label", "ns", &namespace, &label("privileged"), "--overwrite"];
        run.kubectl(&open).await?;
        run.within(150, "it allows it, and all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_such_scheduler() -> Result<()> {
    story("the new version names a scheduler that does not exist; then a fix", async |run| {
        run.starts(agent()).await?;
        run.apply(agent().image("2").pod(json!({ "schedulerName": "mine" }))).await?;
        run.told("waiting for the scheduler mine", phase("Pending", "")).await?;
        run.stays(8, "the other nodes keep their pods", |state| updated_count(state) == 0).await?;
        run.apply(agent().image("3")).await?;
        run.within(60, "a fix updated all", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_readiness_gate() -> Result<()> {
    story("a readiness gate that nobody sets; then a fix", async |run| {
        run.starts(agent()).await?;
        let gate = json!({ "readinessGates": [{ "conditionType": "example.com/lb" }] });
        run.apply(agent().image("2").pod(gate)).await?;
        let is_gated = |state: &State| {
            let pods = state.agents().filter_map(|pod| pod.status.as_ref());
            let mut conditions = pods.flat_map(|status| status.conditions.iter().flatten());
            conditions.any(|it| it.reason.as_deref() == Some("ReadinessGatesNotReady"))
        };
        run.told("example.com/lb", is_gated).await?;
        run.stays(8, "the other nodes keep their pods", |state| updated_count(state) == 0).await?;
        run.apply(agent().image("3")).await?;
        run.within(60, "a fix updated all", all_updated).await
    })
    .await
}

/// A pod that nobody made for the DaemonSet, with its labels, is adopted
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_with_the_labels() -> Result<()> {
    story(
        "somebody creates a bare pod with the DaemonSet's labels on a node that has one",
        async |run| {
            run.others_create_pods();
            run.starts(agent()).await?;
            let mut pod = json!({ "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": "stranger", "labels": { "app": AGENT } } });
            pod["spec"] = agent()["spec"]["template"]["spec"].clone();
            pod["spec"]["nodeName"] = json!("node-2");
            run.world.kubectl_with_input(&["apply", "-f", "-"], &pod.to_string()).await?.ok()?;
            run.kubectl(&["get", "ds"]).await?;
            run.within(60, "each node has one pod", all_nodes_updated).await?;
            let left =
                run.record.look(|state| state.agents().any(|pod| name_of(pod) == "stranger"));
            run.note(if left { "the stranger stayed" } else { "the stranger went" });
            Ok(())
        },
    )
    .await
}
