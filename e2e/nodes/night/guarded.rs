//! Guarded rollouts: node-2 is the canary, which bakes for 10 s. Only everynode has them.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::manifest::{Change, agent, image};
use super::super::state::{
    State, all_nodes_updated, all_updated, event, first_running, node_ready, progressing, ready,
    runs, updated, updated_count, waiting,
};
use super::super::story::{Run, story_of_everynode};
use crate::world::guard::image_of;
use crate::world::pod::name_of;

/// The second restart fails the canary, and it goes back at once.
const POLICY: &str = "\
    steps: [{name: canary, nodes: {matchLabels: {kubernetes.io/hostname: node-2}}, bake: 10s}]\n\
    failure: {maxNodes: 0, maxRestarts: 1, readyWithin: 30s, rollbackAfter: 0s}\n\
    maxUnavailable: 1\n";

fn guarded() -> Value {
    agent().policy(POLICY)
}

/// Every node has an available pod of image 1.
fn all_are_back(state: &State) -> bool {
    let first = image("1");
    ready(3)(state) && state.agents().filter(|pod| image_of(pod) == first).count() == 3
}

/// The number of nodes that ever had a pod of this image.
fn touched(run: &Run<'_>, tag: &str) -> usize {
    run.record.count(|pod| image_of(pod) == image(tag))
}

/// Rolls out a version that fails on the canary. Everything goes back, and no other node has had
/// it.
async fn fails(run: &mut Run<'_>, broken: Value, reason: &str) -> Result<()> {
    run.ends_as_it_is();
    run.starts(guarded()).await?;
    let old: Vec<String> = run
        .record
        .look(|state| [1, 3].iter().filter_map(|node| state.pod_on(*node)).map(name_of).collect());
    run.apply(broken).await?;
    run.within(120, "it fails", progressing("RollingBack")).await?;
    run.within(120, "every node has the old version", all_are_back).await?;
    let now: Vec<String> = run
        .record
        .look(|state| [1, 3].iter().filter_map(|node| state.pod_on(*node)).map(name_of).collect());
    ensure!(old == now, "only the canary may be touched: {old:?}, {now:?}");
    run.note("only the canary was touched");
    run.wait("the failure is stated", progressing("Failed")).await?;
    run.told(reason, progressing("Failed")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_image() -> Result<()> {
    story_of_everynode("another image", async |run| {
        run.starts(guarded()).await?;
        run.image("2").await?;
        run.within(30, "the canary is updated", updated(&[2])).await?;
        run.stays(8, "no other node is", |state| updated_count(state) == 1).await?;
        run.within(90, "all updated", all_updated).await
    })
    .await
}

/// G15, G34: restarts fail the canary
#[tokio::test(flavor = "multi_thread")]
async fn a_crash() -> Result<()> {
    story_of_everynode("an image that exits with 1 after 2 s", async |run| {
        fails(run, guarded().image("crash"), "node-2").await?;
        run.apply(guarded().image("2")).await?;
        run.within(90, "a fix updated all", all_updated).await
    })
    .await
}

/// G34: it cannot start
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_image() -> Result<()> {
    story_of_everynode("an image that no registry has", async |run| {
        fails(run, guarded().image("nowhere"), "node-2").await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_start() -> Result<()> {
    story_of_everynode("an image that is ready after 20 s; readyWithin 30 s", async |run| {
        run.starts(guarded()).await?;
        run.image("slow").await?;
        run.within(180, "all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_takes_too_long() -> Result<()> {
    story_of_everynode("an image that is ready after 45 s; readyWithin 30 s", async |run| {
        let slow = guarded().image("2").env(&[("READY_AFTER", "45")]);
        run.ends_as_it_is();
        run.starts(guarded()).await?;
        run.apply(slow).await?;
        run.within(120, "it fails", progressing("RollingBack")).await?;
        run.within(60, "every node has the old version", all_are_back).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_liveness_probe() -> Result<()> {
    story_of_everynode(
        "the new version is ready, then its liveness probe fails in the bake",
        async |run| {
            let script = "(sleep 3; rm /www/alive) & exec /bin/agent";
            fails(run, guarded().image("3").script(script), "node-2").await
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_container() -> Result<()> {
    story_of_everynode("an init container of the new version exits with 7", async |run| {
        let init = json!({ "name": "setup", "command": ["sh", "-c", "exit 7"] });
        fails(run, guarded().image("2").init(init), "node-2").await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar() -> Result<()> {
    story_of_everynode("a sidecar of the new version exits with 1 again and again", async |run| {
        let sidecar = json!({ "name": "proxy", "restartPolicy": "Always",
            "image": "everynode.test/agent:crash",
            "env": [{ "name": "PORT", "value": "8081" }] });
        fails(run, guarded().image("2").init(sidecar), "node-2").await
    })
    .await
}

/// C26: a surge goes back without a gap
#[tokio::test(flavor = "multi_thread")]
async fn a_surge() -> Result<()> {
    story_of_everynode("maxSurge 1: a good image, then one that crashes", async |run| {
        run.ends_as_it_is();
        run.starts(guarded().surge()).await?;
        run.image("2").await?;
        run.within(90, "all updated", all_updated).await?;
        run.image("crash").await?;
        run.within(120, "the crash fails", progressing("RollingBack")).await?;
        run.wait("it is back", |state| updated_count(state) == 0 && ready(3)(state)).await?;
        run.stays(5, "three are ready", |state| {
            state.agents().filter(|pod| state.is_available(pod)).count() >= 3
        })
        .await
    })
    .await
}

/// G33: the node went down after the rollout began on it
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_dies_under_its_new_pod() -> Result<()> {
    story_of_everynode("the canary's kubelet is killed before its new pod is ready", async |run| {
        run.starts(guarded().env(&[("READY_AFTER", "6")])).await?;
        run.image("2").await?;
        run.wait("the canary has a new pod", runs(2, "2")).await?;
        run.node("kill-kubelet", 2).await?;
        run.wait("it is not ready", node_ready(2, "Unknown")).await?;
        run.stays(20, "no other node is updated", |state| updated_count(state) <= 1).await?;
        run.node("start-kubelet", 2).await?;
        run.within(120, "the kubelet is back, and all updated", all_nodes_updated).await
    })
    .await
}

/// G33: no canary, no rollout
#[tokio::test(flavor = "multi_thread")]
async fn the_canary_is_down_before() -> Result<()> {
    story_of_everynode("the only canary is down before; the new image crashes", async |run| {
        run.ends_as_it_is();
        run.starts(guarded()).await?;
        run.node("kill-kubelet", 2).await?;
        run.wait("it is not ready", node_ready(2, "Unknown")).await?;
        run.image("crash").await?;
        run.stays(30, "no node gets it", |state| first_running(state, "crash").is_none()).await?;
        run.told("node-2", progressing("WaveNotTried")).await?;
        run.image("2").await?;
        run.node("start-kubelet", 2).await?;
        run.within(120, "the canary is back, a fix updated all", all_nodes_updated).await
    })
    .await
}

/// G33: another node is down
#[tokio::test(flavor = "multi_thread")]
async fn another_node_is_down_before() -> Result<()> {
    story_of_everynode("a node that is no canary is down before", async |run| {
        run.starts(guarded()).await?;
        run.node("kill-kubelet", 1).await?;
        run.wait("it is not ready", node_ready(1, "Unknown")).await?;
        run.image("2").await?;
        run.within(90, "the other two updated", updated(&[2, 3])).await?;
        run.node("start-kubelet", 1).await?;
        run.within(60, "the kubelet is back, and all updated", all_nodes_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_canary_reboots() -> Result<()> {
    story_of_everynode("the canary reboots in its bake", async |run| {
        run.starts(guarded()).await?;
        run.image("2").await?;
        run.wait("the canary bakes", updated(&[2])).await?;
        run.pass(3).await;
        run.node("reboot", 2).await?;
        run.within(120, "all updated", all_nodes_updated).await
    })
    .await
}

/// A restart is a restart, whatever the reason
#[tokio::test(flavor = "multi_thread")]
async fn the_canary_reboots_and_may_not_restart() -> Result<()> {
    story_of_everynode("the same with maxRestarts 0", async |run| {
        run.ends_as_it_is();
        run.starts(agent().policy(&POLICY.replace("maxRestarts: 1", "maxRestarts: 0"))).await?;
        run.image("2").await?;
        run.wait("the canary bakes", updated(&[2])).await?;
        run.pass(3).await;
        run.node("reboot", 2).await?;
        run.within(60, "the restart fails it", progressing("RollingBack")).await?;
        run.within(60, "every node has the old version", all_are_back).await
    })
    .await
}

/// The bake of a wave is that of its pods
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_deleted_in_its_bake() -> Result<()> {
    story_of_everynode(
        "the canary's new pod is deleted in the middle of a bake of 30 s",
        async |run| {
            run.others_delete_pods();
            run.starts(agent().policy(&POLICY.replace("bake: 10s", "bake: 30s"))).await?;
            run.image("2").await?;
            run.wait("the canary bakes", updated(&[2])).await?;
            run.pass(20).await;
            let pod = run.record.look(|state| state.pod_on(2).map(name_of).unwrap_or_default());
            run.kubectl(&["delete", "pod", &pod]).await?;
            run.stays(25, "no other node is updated", |state| updated_count(state) <= 1).await?;
            run.within(60, "all updated", all_updated).await
        },
    )
    .await
}

/// G33: a node whose kubelet says that it is not ready, and whose agent is down, is repaired
#[tokio::test(flavor = "multi_thread")]
async fn a_fix_of_a_network_agent() -> Result<()> {
    story_of_everynode(
        "no network plugin on node-3, whose agent crashes; the fix has to get in",
        async |run| {
            run.ends_as_it_is();
            run.others_delete_pods();
            let host = json!({ "hostNetwork": true });
            let probe = json!({ "httpGet": { "port": 9300 } });
            let probes = json!({ "readinessProbe": probe, "livenessProbe": probe });
            let network = guarded().pod(host).container(probes).env(&[("PORT", "9300")]);
            run.starts(network).await?;
            run.inside(3, "mv /etc/cni/net.d/10-pods.conflist /root/").await?;
            run.wait("node-3 is not ready", node_ready(3, "False")).await?;
            run.image("2").await?;
            run.within(150, "the canary and node-1 updated", updated(&[1, 2])).await?;
            run.inside(3, "cat /root/10-pods.conflist > /etc/cni/net.d/10-pods.conflist").await?;
            run.within(120, "the plugin is back, and all updated", all_nodes_updated).await
        },
    )
    .await
}

/// G20: everynode undo in a rollout that fails
#[tokio::test(flavor = "multi_thread")]
async fn an_abort() -> Result<()> {
    story_of_everynode("everynode rollout abort in the bake", async |run| {
        run.ends_as_it_is();
        run.starts(guarded()).await?;
        run.image("2").await?;
        run.wait("the canary bakes", updated(&[2])).await?;
        run.everynode(&["rollout", "abort"]).await?;
        run.within(60, "every node has the old version", all_are_back).await?;
        ensure!(touched(run, "2") == 1, "more than the canary");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_dies_in_a_bake() -> Result<()> {
    story_of_everynode("everynode is killed in the bake, and started 5 s later", async |run| {
        run.starts(guarded()).await?;
        run.image("2").await?;
        run.wait("the canary bakes", updated(&[2])).await?;
        run.kill_controller();
        run.pass(5).await;
        run.start_controller(run.controller, &[])?;
        run.within(90, "all updated", all_updated).await
    })
    .await
}

/// A version that fills its emptyDir, so that the kubelet evicts it
#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_in_the_bake() -> Result<()> {
    story_of_everynode(
        "the new version exceeds the limit of its emptyDir; bake 60 s",
        async |run| {
            let volume =
                json!({ "volumes": [{ "name": "v", "emptyDir": { "sizeLimit": "5Mi" } }] });
            let mount = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
            let policy = POLICY.replace("bake: 10s", "bake: 60s");
            let manifest = agent().policy(&policy).pod(volume).container(mount);
            run.ends_as_it_is();
            run.others_delete_pods();
            run.starts(manifest.clone()).await?;
            let script = "(sleep 5; dd if=/dev/zero of=/v/x bs=1M count=20) & exec /bin/agent";
            run.apply(manifest.image("2").script(script)).await?;
            run.wait("the kubelet evicts it", event("Evicted", "EmptyDir")).await?;
            run.stays(60, "no other node gets it", |state| {
                !runs(1, "2")(state) && !runs(3, "2")(state)
            })
            .await?;
            run.image("1").await?;
            run.wait("nothing waits", |state| !waiting("ContainerCreating")(state)).await
        },
    )
    .await
}
