//! Options of `everynode run` that change its behaviour.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::separate_process::{bare, run};
use crate::world::eventually;
use crate::world::manifest::daemon_set;
use crate::world::process::unique;

/// C1: with --namespace the DaemonSets of other namespaces are ignored
#[tokio::test]
async fn the_controller_can_be_limited_to_one_namespace() -> Result<()> {
    let world = bare(2).await?;
    let other = unique("other");
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": other}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    let elsewhere = Api::namespaced(world.client.clone(), &other);
    let ds = serde_json::from_value(daemon_set("b"))?;
    let _: k8s_openapi::api::apps::v1::DaemonSet =
        elsewhere.create(&PostParams::default(), &ds).await?;
    let _controller = run(&world, &["--leader-elect=false", "--namespace", &world.namespace])?;
    world.roll_out(&daemon_set("a")).await?;
    let ds = elsewhere.get("b").await?;
    let observed = ds.status.and_then(|status| status.observed_generation);
    ensure!(observed.unwrap_or(0) == 0, "the DaemonSet of the other namespace was managed");
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &other);
    let pods = pods.list(&Default::default()).await?.items;
    ensure!(pods.is_empty(), "the other namespace has {} pods", pods.len());
    Ok(())
}

/// C71, C83: log lines are JSON on request, and events report the actions
#[tokio::test]
async fn logs_are_json_and_events_are_created() -> Result<()> {
    let world = bare(3).await?;
    let controller =
        run(&world, &["--leader-elect=false", "--log-format=json", "--log-level=debug"])?;
    world.roll_out(&daemon_set("a")).await?;
    eventually("the creations have events", async || {
        let events = world.events().list(&Default::default()).await?.items;
        let event = events.iter().find(|event| event.reason.as_deref() == Some("SuccessfulCreate"));
        let event = event.context("no SuccessfulCreate")?;
        let regarding = event.regarding.clone().unwrap_or_default();
        ensure!(regarding.kind.as_deref() == Some("DaemonSet"), "{regarding:?}");
        ensure!(regarding.name.as_deref() == Some("a"), "{regarding:?}");
        Ok(())
    })
    .await?;
    let output = controller.output();
    ensure!(!output.trim().is_empty(), "nothing was logged");
    for line in output.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        ensure!(line["level"].is_string(), "{line}");
    }
    Ok(())
}
