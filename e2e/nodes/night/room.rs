//! Nodes without room, ports that are taken, full disks, and pods that a kubelet refuses or evicts.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::manifest::{Change, agent, image};
use super::super::state::{
    State, all_nodes_updated, all_updated, event, is_refused, node_ready, phase, ready,
    terminating, updated, updated_count,
};
use super::super::story::{Run, story};
use crate::world::manifest::with;
use crate::world::pod::{is_terminal, name_of};

/// The runtime looks again only when a file there is written.
const MEND_NETWORK: &str = "rm -f /etc/cni/net.d/10-x.conflist; \
                            cat /root/10-pods.conflist > /etc/cni/net.d/10-pods.conflist";

/// A pod of somebody else on node-3.
async fn other_pod(run: &mut Run<'_>, name: &str, container: Value) -> Result<()> {
    let container = with(json!({ "name": "main", "image": image("1") }), container);
    let spec = json!({ "nodeName": "node-3", "terminationGracePeriodSeconds": 20,
        "containers": [container] });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": spec });
    run.world.kubectl_with_input(&["apply", "-f", "-"], &pod.to_string()).await?.ok()?;
    let name = name.to_owned();
    run.wait("it runs", move |state| {
        state.pods.values().any(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            pod.metadata.name.as_ref() == Some(&name) && phase == Some("Running")
        })
    })
    .await
}

fn host_port(manifest: Value) -> Value {
    manifest.container(json!({ "ports": [{ "containerPort": 8080, "hostPort": 9100 }] }))
}

/// A pod of the DaemonSet has no node yet, or none that takes it.
fn pending(state: &State) -> bool {
    event("FailedScheduling", "")(state) && phase("Pending", "")(state)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node() -> Result<()> {
    story("a node runs as many pods as it may (maxPods); 8 s later one of them goes", async |run| {
        run.configure(3, "s/maxPods: .*/maxPods: 2/").await?;
        run.wait("node-3 is ready", node_ready(3, "True")).await?;
        other_pod(run, "one", json!({})).await?;
        other_pod(run, "two", json!({ "env": [{ "name": "PORT", "value": "8081" }] })).await?;
        run.apply(agent()).await?;
        run.told("Too many pods", pending).await?;
        run.pass(8).await;
        run.kubectl(&["delete", "pod", "one", "--grace-period=1"]).await?;
        run.within(60, "there is room, and all run", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_restarts_with_less_room() -> Result<()> {
    story("a kubelet restarts with maxPods 2 while 3 pods run; then with 20", async |run| {
        run.others_delete_pods();
        run.starts(agent()).await?;
        other_pod(run, "one", json!({})).await?;
        other_pod(run, "two", json!({})).await?;
        run.configure(3, "s/maxPods: .*/maxPods: 2/").await?;
        run.pass(15).await;
        run.configure(3, "s/maxPods: .*/maxPods: 20/").await?;
        run.within(90, "all run", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn too_little_cpu() -> Result<()> {
    story("the new version asks for 64 CPUs; then a fix", async |run| {
        run.starts(agent()).await?;
        let greedy = json!({ "resources": { "requests": { "cpu": "64" } } });
        run.apply(agent().image("2").container(greedy)).await?;
        run.told("can't be scheduled: Insufficient cpu", pending).await?;
        run.stays(10, "two nodes keep their pods", ready(2)).await?;
        run.apply(agent().image("3")).await?;
        run.within(60, "a fix updated all", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preemption() -> Result<()> {
    story(
        "a DaemonSet with priority on a full node, whose other pod takes 8 s to end",
        async |run| {
            let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": { "name": "agents" }, "value": 100_000 });
            let arguments = ["apply", "-f", "-"];
            run.world.kubectl_with_input(&arguments, &class.to_string()).await?.ok()?;
            let victim = json!({ "env": [{ "name": "STOP_AFTER", "value": "8" }],
                "resources": { "requests": { "cpu": "1900m" } } });
            other_pod(run, "victim", victim).await?;
            let request = json!({ "resources": { "requests": { "cpu": "500m" } } });
            let priority = json!({ "priorityClassName": "agents" });
            run.apply(agent().container(request).pod(priority)).await?;
            run.told("waiting for the pods to end that it preempts", |state| {
                let mut pods = state.agents().filter_map(|pod| pod.status.as_ref());
                pods.any(|status| status.nominated_node_name.is_some())
            })
            .await?;
            run.within(60, "all run", all_nodes_updated).await
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_port_of_another_pod() -> Result<()> {
    story("another pod holds the host port; 8 s later it goes", async |run| {
        let ports = json!({ "ports": [{ "containerPort": 8080, "hostPort": 9100 }] });
        other_pod(run, "holder", ports).await?;
        run.apply(host_port(agent())).await?;
        run.told("host port in use", pending).await?;
        run.pass(8).await;
        run.kubectl(&["delete", "pod", "holder", "--grace-period=1"]).await?;
        run.within(60, "the port is free, and all run", all_nodes_updated).await
    })
    .await
}

/// The scheduler counts the port of a pod that ends
#[tokio::test(flavor = "multi_thread")]
async fn a_host_port_of_a_pod_that_ends() -> Result<()> {
    story("the host port is held by a pod that takes 10 s to end", async |run| {
        let holder = json!({ "ports": [{ "containerPort": 8080, "hostPort": 9100 }],
            "env": [{ "name": "STOP_AFTER", "value": "10" }] });
        other_pod(run, "holder", holder).await?;
        run.kubectl(&["delete", "pod", "holder", "--wait=false"]).await?;
        run.apply(host_port(agent())).await?;
        run.within(60, "all run", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_port_in_a_rollout() -> Result<()> {
    story("a host port; the agent takes 4 s to end", async |run| {
        let slow = host_port(agent()).env(&[("STOP_AFTER", "4")]);
        run.starts(slow.pod(json!({ "terminationGracePeriodSeconds": 20 }))).await?;
        run.image("2").await?;
        run.within(90, "all updated", all_updated).await
    })
    .await
}

/// Old and new pod want the same port
#[tokio::test(flavor = "multi_thread")]
async fn a_host_port_and_a_surge() -> Result<()> {
    story("maxSurge 1 with a host port; 15 s later maxUnavailable 1 instead", async |run| {
        run.starts(host_port(agent()).surge()).await?;
        run.image("2").await?;
        run.told("the old and the new pod can't run on the same node; use maxUnavailable", pending)
            .await?;
        run.stays(15, "nothing else moves", |state| updated_count(state) == 0).await?;
        run.apply(host_port(agent()).image("2")).await?;
        run.within(60, "all updated", all_updated).await
    })
    .await
}

/// The kubelet can't know of the conflict: the old program answers the new one's probe
#[tokio::test(flavor = "multi_thread")]
async fn a_host_network_and_a_surge() -> Result<()> {
    story("maxSurge 1 with hostNetwork and a port that is not declared", async |run| {
        let probe = json!({ "httpGet": { "port": 9200 } });
        let probes = json!({ "readinessProbe": probe, "livenessProbe": probe });
        let network = json!({ "hostNetwork": true });
        run.starts(agent().pod(network).container(probes).env(&[("PORT", "9200")]).surge()).await?;
        run.image("2").await?;
        run.reaches(90, "all updated", all_updated).await;
        let restarts =
            run.record.look(|state| (1..=3).map(|it| state.restarts_on(it)).sum::<i32>());
        run.note(format!("{restarts} restarts, as the port is in use"));
        run.within(90, "all are ready", ready(3)).await
    })
    .await
}

/// C24: pods that are refused come with a back-off, which ends with the pressure
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk() -> Result<()> {
    story("the disk of a node fills up, another image, 15 s later there is space", async |run| {
        run.others_delete_pods();
        run.starts(agent()).await?;
        run.inside(1, "fallocate -l 900M /var/lib/kubelet/fill").await?;
        run.wait("its pod is evicted", phase("Failed", "Evicted")).await?;
        run.told("DiskPressure", phase("Failed", "Evicted")).await?;
        run.image("2").await?;
        run.reaches(30, "the other two updated", updated(&[2, 3])).await;
        run.pass(15).await;
        run.inside(1, "rm /var/lib/kubelet/fill").await?;
        run.within(180, "there is space, and all updated", all_nodes_updated).await?;
        let refused = run.record.count(is_refused);
        run.note(format!("{refused} pods were refused or evicted"));
        Ok(())
    })
    .await
}

/// C24: as `Succeeded` or `Failed`, by chance
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_dir_over_its_limit() -> Result<()> {
    story("the agent exceeds the limit of its emptyDir 5 s after each start", async |run| {
        run.others_delete_pods();
        let volume = json!({ "volumes": [{ "name": "v", "emptyDir": { "sizeLimit": "5Mi" } }] });
        let mount = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
        let script = "(sleep 5; dd if=/dev/zero of=/v/x bs=1M count=20) & exec /bin/agent";
        run.starts(agent()).await?;
        run.apply(agent().image("2").pod(volume).container(mount).script(script)).await?;
        run.wait("the kubelet evicts it", event("Evicted", "EmptyDir")).await?;
        run.pass(90).await;
        let evicted = run.record.count(is_refused);
        run.note(format!("{evicted} pods evicted in some 90 s"));
        run.apply(agent().image("3")).await?;
        run.within(90, "a fix updated all", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_ephemeral_storage() -> Result<()> {
    story("the new version exceeds its limit of ephemeral storage", async |run| {
        run.others_delete_pods();
        let limit = json!({ "resources": { "limits": { "ephemeral-storage": "10Mi" } } });
        let script = "(sleep 4; dd if=/dev/zero of=/big bs=1M count=30) & exec /bin/agent";
        run.starts(agent()).await?;
        run.apply(agent().image("2").container(limit).script(script)).await?;
        run.wait("the kubelet evicts it", event("Evicted", "ephemeral")).await?;
        run.note("the kubelet evicts it");
        run.apply(agent().image("3")).await?;
        run.within(90, "a fix updated all", all_updated).await
    })
    .await
}

/// The node says `Ready` False, for a cause that a person can repair
#[tokio::test(flavor = "multi_thread")]
async fn no_network_plugin() -> Result<()> {
    story("a node has no network plugin when the DaemonSet comes; 20 s later it has", async |run| {
        run.inside(2, "mv /etc/cni/net.d/10-pods.conflist /root/").await?;
        run.wait("node-2 is not ready", node_ready(2, "False")).await?;
        run.apply(agent()).await?;
        run.within(30, "the other two run", updated(&[1, 3])).await?;
        run.pass(15).await;
        run.inside(2, MEND_NETWORK).await?;
        run.within(60, "the plugin is there, and all run", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_plugin_that_fails() -> Result<()> {
    story(
        "a node's network plugin fails, also when a pod ends; another image; then it is repaired",
        async |run| {
            run.starts(agent()).await?;
            let broken = r#"{"cniVersion":"1.0.0","name":"x","plugins":[{"type":"nope"}]}"#;
            let script = format!(
                "mv /etc/cni/net.d/10-pods.conflist /root/; \
                 echo '{broken}' > /etc/cni/net.d/10-x.conflist"
            );
            run.inside(2, &script).await?;
            run.pass(2).await;
            run.image("2").await?;
            run.told("FailedKillPod", event("FailedKillPod", "nope")).await?;
            run.inside(2, MEND_NETWORK).await?;
            run.within(120, "the plugin works, and all updated", all_nodes_updated).await
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_namespace() -> Result<()> {
    story("pods with a user namespace of their own (hostUsers false)", async |run| {
        run.starts(agent()).await?;
        run.apply(agent().image("2").pod(json!({ "hostUsers": false }))).await?;
        if !run.reaches(40, "all updated", all_updated).await {
            let said = run.record.look(|state| {
                let mut warnings = state.events.iter().rev();
                let warning = warnings.find(|it| it.type_.as_deref() == Some("Warning"));
                warning.and_then(|it| it.note.clone()).unwrap_or_default()
            });
            let said: String = said.chars().take(160).collect();
            run.note(format!("these nodes can't: {said}"));
        }
        run.apply(agent().image("3")).await?;
        run.within(60, "without it all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminating_pod_and_a_finalizer() -> Result<()> {
    story("pods with a finalizer, which somebody removes 8 s later", async |run| {
        let finalizers =
            json!({ "template": { "metadata": { "finalizers": ["example.com/hold"] } } });
        run.starts(agent().spec(finalizers)).await?;
        run.apply(agent().image("2")).await?;
        run.wait("a pod ends", |state| (1..=3).any(|node| terminating(node)(state))).await?;
        run.told("example.com/hold", |state| {
            let mut pods = state.agents();
            pods.any(|pod| pod.metadata.deletion_timestamp.is_some() && is_terminal(pod))
        })
        .await?;
        run.pass(8).await;
        for _ in 0..6 {
            let pods: Vec<String> = run.record.look(|state| {
                let held = state.agents().filter(|pod| pod.metadata.finalizers.is_some());
                held.map(name_of).collect()
            });
            for pod in pods {
                let none = r#"{"metadata":{"finalizers":null}}"#;
                run.world.try_kubectl(&["patch", "pod", &pod, "--type=merge", "-p", none]).await?;
            }
            run.pass(2).await;
        }
        run.within(90, "all updated", all_updated).await
    })
    .await
}
