//! Bad content of a ConfigMap on simulated kubelets, and the rights of deploy/components/config.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::rights::{ACCOUNT, MANIFEST, NAMESPACE, apply, rights_in};
use crate::observe::uids;
use crate::world::account::LOG_REQUESTS;
use crate::world::guard::guarded;
use crate::world::manifest::with;
use crate::world::process::Process;
use crate::world::{Setup, World, eventually};

const COMPONENT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/components/config/rbac.yaml");
const POLICY: &str = "steps: [{name: canary, upTo: [1], bake: 5s}]\n\
                      failure: {maxNodes: 0, maxRestarts: 0, rollbackAfter: 0s}\n\
                      config: {configMaps: snapshot, settle: 0s}\n";

/// G58: content that lets agents crash fails on the canary, and going back heals it although the
/// ConfigMap itself stays bad. Without the rights of the component nothing begins, and the
/// condition names it; with them no other right is needed, and each of them is used.
#[tokio::test(flavor = "multi_thread")]
async fn bad_content_fails_on_the_canary_and_going_back_heals() -> Result<()> {
    let setup = Setup { nodes: 4, controller: false, arguments: &LOG_REQUESTS };
    let world = World::sandbox(setup).await?;
    apply(&world, &rights_in(std::path::Path::new(MANIFEST))?).await?;
    let kubeconfig = world.kubeconfig_of(NAMESPACE, ACCOUNT).await?;
    let directory = world.directory.path();
    let mut controller = Process::everynode_with(directory, "run", &["run"], Some(&kubeconfig))?;
    set_lifecycle(&world, "default").await?;
    let volume = json!({"name": "config", "configMap": {"name": "agent-cfg"}});
    let template = json!({"spec": {"template": {"spec": {"volumes": [volume]}}}});
    let without_copies = "steps: [{name: canary, upTo: [1], bake: 5s}]";
    world.roll_out(&with(guarded("agent", without_copies), template)).await?;

    world.set_policy("agent", json!(POLICY)).await?;
    world
        .patch_daemon_set(
            "agent",
            json!({"spec": {"template": {"metadata": {"annotations": {
        "next": "1"}}}}}),
        )
        .await?;
    world.reaches("agent", "ConfigNotReady").await?;
    let status = world.everynode(&["rollout", "get", "ds/agent"]).await?.stdout;
    ensure!(status.contains("component config"), "{status}");
    let component = std::fs::read_to_string(COMPONENT)?;
    world.kubectl_with_input(&["apply", "-f", "-"], &component).await?.ok()?;
    world.reaches("agent", "Complete").await?;

    let before = uids(&world, "agent").await?;
    set_lifecycle(&world, "crash-loop").await?;
    world.reaches("agent", "Failed").await?;
    eventually("all agents are available", async || world.all_available("agent").await).await?;
    let after = uids(&world, "agent").await?;
    ensure!(before.intersection(&after).count() == 3, "{after:?} after {before:?}");
    world.kubectl(&["-n", &world.namespace, "delete", "pods", "--all"]).await?;
    eventually("new pods have the good content", async || {
        ensure!(uids(&world, "agent").await?.is_disjoint(&after), "pods are left");
        world.all_available("agent").await
    })
    .await?;
    world
        .kubectl(&[
            "-n",
            &world.namespace,
            "patch",
            "ds/agent",
            "--type=merge",
            "-p",
            r#"{"spec":{"revisionHistoryLimit":0}}"#,
        ])
        .await?;
    set_lifecycle(&world, "default").await?;
    world.reaches("agent", "Complete").await?;
    eventually("the copy of the bad content is deleted", async || {
        let requests = world.requests_of(NAMESPACE, ACCOUNT)?;
        let refused: Vec<_> = requests
            .iter()
            .filter(|it| {
                it.resource == "configmaps" && !it.allowed && !matches!(&*it.verb, "list" | "watch")
            })
            .collect();
        ensure!(refused.is_empty(), "{refused:?}");
        for verb in ["get", "watch", "create", "delete"] {
            let is_used = |it: &&_| is_of(it, verb);
            ensure!(requests.iter().any(|it| is_used(&it)), "{verb} is not used");
        }
        Ok(())
    })
    .await?;
    controller.check_running()?;
    controller.terminate().await?;
    Ok(())
}

fn is_of(request: &crate::world::account::LoggedRequest, verb: &str) -> bool {
    request.resource == "configmaps" && request.verb == verb && request.allowed
}

/// Content with which agents go on like this.
async fn set_lifecycle(world: &World, lifecycle: &str) -> Result<()> {
    let map: Value = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "agent-cfg", "namespace": world.namespace},
        "data": {"sandbox.everynode.dev.lifecycle": lifecycle}});
    world.kubectl_with_input(&["apply", "-f", "-"], &map.to_string()).await?.ok()?;
    Ok(())
}
