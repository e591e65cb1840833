//! Ways to run everynode: as its Deployment and as static pods on the nodes themselves, beside the
//! built-in controller, and without a scheduler. The agent is ready 3 s after its start.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::super::fixture::{Controller, node};
use super::super::manifest::{Change, agent};
use super::super::state::{
    all_nodes_updated, all_updated, event, exited, is_refused, node_ready, phase, progressing,
    updated, updated_count,
};
use super::super::story::{Run, story_of_everynode};
use crate::world::beside::{RollBack, apply, guard, rights_with, strategy};
use crate::world::process::everynode_program;
use crate::world::within;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");
const IMAGE: &str = "everynode:0.1.0";
const BASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/base");
/// The kubelet reads such files again after at most 20 s.
const STATIC_POD: &str = "/etc/kubernetes/manifests/everynode.yaml";

fn slow_agent() -> Value {
    agent().env(&[("READY_AFTER", "3")])
}

/// The number of the node whose replica leads; another one than `former`.
async fn leader(run: &Run<'_>, former: Option<usize>) -> Result<usize> {
    let deadline = std::time::Duration::from_secs(60);
    within(deadline, "a replica leads", async || {
        let path = "jsonpath={.spec.holderIdentity}";
        let get = ["get", "lease", "everynode", "-n", "kube-system", "-o", path];
        let holder = run.world.kubectl(&get).await?;
        let number = (1..=3).find(|number| holder.starts_with(&node(*number)));
        let number = number.with_context(|| format!("{holder:?} is on no node"))?;
        ensure!(Some(number) != former, "{holder} still leads");
        Ok(number)
    })
    .await
}

/// Runs the story with everynode as deploy/base installs it, and removes that in the end.
async fn deployed(run: &mut Run<'_>, play: impl AsyncFn(&mut Run<'_>) -> Result<()>) -> Result<()> {
    run.kill_controller();
    run.import(IMAGE, everynode_program()).await?;
    run.world.kubectl(&["apply", "--namespace=", "-k", BASE]).await?;
    let played = async {
        let wait = ["rollout", "status", "deploy/everynode", "-n", "kube-system", "--timeout=50s"];
        run.world.kubectl(&wait).await?;
        run.starts(slow_agent()).await?;
        play(run).await
    };
    let played = played.await;
    run.repair().await?;
    let ended = match played {
        Ok(()) => run.wait("all run", all_nodes_updated).await,
        failed => failed,
    };
    let delete = ["delete", "--namespace=", "-k", BASE, "--wait=false"];
    run.world.kubectl(&delete).await?;
    run.ends_as_it_is();
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_loses_its_node() -> Result<()> {
    story_of_everynode("as a Deployment: the leader's node goes off in mid-rollout", async |run| {
        deployed(run, async |run| {
            let former = leader(run, None).await?;
            run.image("2").await?;
            run.pass(2).await;
            run.node("off", former).await?;
            leader(run, Some(former)).await?;
            let after = jiff::Timestamp::now().duration_since(run.since()).as_secs_f64();
            run.note(format!("another replica leads after {after:.1} s"));
            let others: Vec<usize> = (1..=3).filter(|number| *number != former).collect();
            run.reaches(40, "the other two updated", updated(&others)).await;
            run.node("on", former).await?;
            run.within(90, "the node is on, and all updated", all_nodes_updated).await
        })
        .await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_is_drained() -> Result<()> {
    story_of_everynode(
        "as a Deployment: the leader's node is drained; another image",
        async |run| {
            deployed(run, async |run| {
                let former = leader(run, None).await?;
                let name = node(former);
                run.kubectl(&["drain", &name, "--ignore-daemonsets", "--timeout=50s"]).await?;
                leader(run, Some(former)).await?;
                let after = jiff::Timestamp::now().duration_since(run.since()).as_secs_f64();
                run.note(format!("another replica leads {after:.1} s after the drain"));
                run.image("2").await?;
                run.within(60, "all updated", updated(&[1, 2, 3])).await?;
                run.kubectl(&["uncordon", &name]).await.map(drop)
            })
            .await
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deployment_is_restarted() -> Result<()> {
    story_of_everynode("as a Deployment, which is restarted in mid-rollout", async |run| {
        deployed(run, async |run| {
            run.image("2").await?;
            run.pass(1).await;
            let restart = ["rollout", "restart", "deploy/everynode", "-n", "kube-system"];
            run.world.kubectl(&restart).await?;
            run.within(120, "all updated", all_updated).await?;
            let pods = run.record.count(|_| true);
            run.note(format!("{pods} pods in all"));
            ensure!(pods == 6, "{pods} pods for two versions on three nodes");
            Ok(())
        })
        .await
    })
    .await
}

/// The kubelet starts it, so that it needs neither a scheduler nor a Deployment controller
#[tokio::test(flavor = "multi_thread")]
async fn static_pods() -> Result<()> {
    story_of_everynode(
        "as static pods on two nodes, of which the leader's reboots in mid-rollout",
        async |run| {
            run.kill_controller();
            run.import(IMAGE, everynode_program()).await?;
            let kubeconfig = std::fs::read_to_string(&run.world.kubeconfig)?;
            let pod = std::fs::read_to_string(format!("{DEPLOY}/static-pod.yaml"))?;
            for number in [1, 2] {
                let script = format!(
                    "cat > /etc/kubernetes/everynode.conf <<'END'\n{kubeconfig}\nEND\n\
                     chown 65532 /etc/kubernetes/everynode.conf; \
                     cat > {STATIC_POD} <<'END'\n{pod}\nEND\n"
                );
                run.inside(number, &script).await?;
            }
            run.starts(slow_agent()).await?;
            let former = leader(run, None).await?;
            run.image("2").await?;
            run.pass(2).await;
            // Its files are those of a fresh node then, without the static pod.
            run.node("reboot", former).await?;
            run.within(120, "all updated", all_nodes_updated).await
        },
    )
    .await
}

/// G20: the template itself is restored
#[tokio::test(flavor = "multi_thread")]
async fn beside_the_built_in_controller() -> Result<()> {
    story_of_everynode(
        "beside the built-in controller (OnDelete): a good image, one that crashes",
        async |run| {
            let policy = "steps: [{name: canary, nodes: {matchLabels: {kubernetes.io/hostname: \
                          node-2}}, bake: 5s}]\n\
                          failure: {maxNodes: 0, maxRestarts: 1, readyWithin: 30s, \
                          rollbackAfter: 0s}\n";
            run.kill_controller();
            run.start_controller(Controller::BuiltIn, &[])?;
            let beside = ["--beside", "--roll-back"];
            let _guard = run.another_controller(Controller::Everynode, &beside)?;
            let manifest =
                crate::world::manifest::with(agent().policy(policy), strategy("OnDelete"));
            run.ends_as_it_is();
            run.starts(manifest).await?;
            run.image("2").await?;
            run.within(90, "all updated", all_updated).await?;
            run.image("crash").await?;
            run.wait("the canary crashes", exited(1)).await?;
            run.within(120, "rolled back, with the template", |state| {
                updated_count(state) == 3 && progressing("Complete")(state)
            })
            .await
        },
    )
    .await
}

/// G20, G56: with exactly the rights of deploy/beside and of deploy/components/in-place-beside
#[tokio::test(flavor = "multi_thread")]
async fn beside_the_built_in_controller_in_place() -> Result<()> {
    story_of_everynode(
        "beside the built-in controller, as its ServiceAccount: images and CPU in place; then \
         without deploy/components/in-place-beside; and with it again",
        async |run| {
            run.kill_controller();
            run.start_controller(Controller::BuiltIn, &[])?;
            let component = ["in-place-beside"];
            let rights = rights_with(&run.world, &component).await?;
            apply(&run.world, &rights).await?;
            let guard = guard(&run.world, RollBack::No).await?;
            let played = in_place_beside(run, &rights).await;
            drop(guard);
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": rights }).to_string();
            let delete = ["delete", "--namespace=", "--ignore-not-found", "-f", "-"];
            run.world.kubectl_with_input(&delete, &list).await?.ok()?;
            played
        },
    )
    .await
}

async fn in_place_beside(run: &mut Run<'_>, rights: &[Value]) -> Result<()> {
    let policy = "update: InPlaceIfPossible\n\
                  steps: [{name: canary, nodes: {matchLabels: {kubernetes.io/hostname: node-2}}, \
                  bake: 2s}]\n";
    let manifest = crate::world::manifest::with(agent().policy(policy), strategy("OnDelete"));
    let next = |tag: &str, cpu: &str| {
        let resources = json!({ "resources": { "requests": { "cpu": cpu, "memory": "16Mi" } } });
        manifest.clone().image(tag).container(resources)
    };
    let pods = |run: &Run<'_>| run.record.count(|_| true);
    run.starts(next("1", "10m")).await?;
    run.apply(next("2", "20m")).await?;
    run.within(60, "all updated", all_updated).await?;
    ensure!(pods(run) == 3, "{} pods", pods(run));
    run.note("3 pods in all");
    let is_of = |right: &&Value| right["metadata"]["name"] == "everynode-beside-in-place";
    let component: Vec<Value> = rights.iter().filter(is_of).cloned().collect();
    ensure!(component.len() == 2, "{component:?}");
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": component }).to_string();
    run.world.kubectl_with_input(&["delete", "--namespace=", "-f", "-"], &list).await?.ok()?;
    run.apply(next("3", "30m")).await?;
    run.told("cannot patch resource", progressing("Updating")).await?;
    run.stays(8, "no pod is touched", |state| updated_count(state) == 0).await?;
    apply(&run.world, &component).await?;
    run.apply(next("3", "30m")).await?;
    run.within(120, "the right is back, and all updated", all_updated).await?;
    ensure!(pods(run) == 3, "{} pods", pods(run));
    Ok(())
}

/// C31: the kubelet decides, where no scheduler does
#[tokio::test(flavor = "multi_thread")]
async fn no_scheduler_and_a_host_port() -> Result<()> {
    story_of_everynode("--schedule-by=controller: maxSurge 1 with a host port", async |run| {
        run.kill_controller();
        run.start_controller(Controller::Everynode, &["--schedule-by=controller"])?;
        let ports = json!({ "ports": [{ "containerPort": 8080, "hostPort": 9100 }] });
        run.starts(agent().surge().container(ports.clone())).await?;
        run.image("2").await?;
        run.told("NodePorts", phase("Failed", "NodePorts")).await?;
        run.pass(15).await;
        let refused = run.record.count(is_refused);
        run.note(format!("{refused} pods were refused in 15 s"));
        run.apply(agent().image("2").container(ports)).await?;
        run.within(60, "with maxUnavailable 1 all updated", all_updated).await
    })
    .await
}

/// C24, C31: the kubelet refuses pods until there is room
#[tokio::test(flavor = "multi_thread")]
async fn no_scheduler_and_a_full_node() -> Result<()> {
    story_of_everynode("--schedule-by=controller: a node without room for 20 s", async |run| {
        run.kill_controller();
        run.start_controller(Controller::Everynode, &["--schedule-by=controller"])?;
        run.configure(3, "s/maxPods: .*/maxPods: 1/").await?;
        run.wait("node-3 is ready", node_ready(3, "True")).await?;
        let filler = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "filler" },
            "spec": { "nodeName": "node-3", "containers": [
                { "name": "main", "image": "everynode.test/agent:1" }] } });
        run.world.kubectl_with_input(&["apply", "-f", "-"], &filler.to_string()).await?.ok()?;
        run.wait("it runs", event("Started", "")).await?;
        run.apply(agent()).await?;
        run.told("OutOfpods", phase("Failed", "OutOfpods")).await?;
        run.pass(20).await;
        run.kubectl(&["delete", "pod", "filler", "--grace-period=1"]).await?;
        run.within(180, "there is room, and all run", all_nodes_updated).await
    })
    .await
}
