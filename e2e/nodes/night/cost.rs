//! The seconds for which each node is without a ready pod in a rollout, by strategy. The agent is
//! ready 5 s after its start and takes 1 s to end.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::fixture::{NODES, node};
use super::super::manifest::{Change, agent};
use super::super::state::all_updated;
use super::super::story::{Run, story, story_of_everynode};

fn slow_agent() -> Value {
    let variables = [("READY_AFTER", "5"), ("STOP_AFTER", "1")];
    agent().env(&variables).pod(json!({ "terminationGracePeriodSeconds": 10 }))
}

/// Rolls out another image, and adds the times without a ready pod to the outcome.
async fn measured(run: &mut Run<'_>, manifest: Value) -> Result<()> {
    run.starts(manifest).await?;
    run.image("2").await?;
    run.within(120, "all updated", all_updated).await?;
    let since = run.since();
    let times = (1..=NODES).map(|number| {
        let seconds = run.record.without_ready_pod(&node(number), since).as_secs_f64();
        format!("{seconds:.1} s")
    });
    let times: Vec<String> = times.collect();
    run.note(format!("each node without a ready pod for {}", times.join(", ")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_max_unavailable_1() -> Result<()> {
    story("maxUnavailable 1", async |run| measured(run, slow_agent()).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_max_unavailable_3() -> Result<()> {
    let three = json!({ "updateStrategy": { "rollingUpdate": { "maxUnavailable": 3 } } });
    story("maxUnavailable 3, so all at once", async |run| {
        measured(run, slow_agent().spec(three.clone())).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_max_surge_1() -> Result<()> {
    story("maxSurge 1", async |run| measured(run, slow_agent().surge()).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_max_surge_3() -> Result<()> {
    let three = json!({ "updateStrategy": { "rollingUpdate": { "maxSurge": 3 } } });
    story("maxSurge 3, so all at once", async |run| {
        measured(run, slow_agent().surge().spec(three.clone())).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_guarded_rollout() -> Result<()> {
    story_of_everynode("a policy: node-2 first, baked for 10 s; maxUnavailable 1", async |run| {
        let policy = "steps: [{name: canary, nodes: {matchLabels: {kubernetes.io/hostname: \
                      node-2}}, bake: 10s}]";
        measured(run, slow_agent().policy(policy)).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_guarded_surge() -> Result<()> {
    story_of_everynode("the same policy with maxSurge 1", async |run| {
        let policy = "steps: [{name: canary, nodes: {matchLabels: {kubernetes.io/hostname: \
                      node-2}}, bake: 10s}]";
        measured(run, slow_agent().surge().policy(policy)).await
    })
    .await
}
