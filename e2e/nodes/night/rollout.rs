//! New templates: how pods are replaced, by strategy and by how they start and end.

use anyhow::Result;
use serde_json::json;

use super::super::manifest::{Change, agent};
use super::super::state::{
    State, all_updated, first_running, is_ready, ready, terminating, waiting,
};
use super::super::story::story;

/// C52: one node after the other
#[tokio::test(flavor = "multi_thread")]
async fn an_image() -> Result<()> {
    story("another image, maxUnavailable 1", async |run| {
        run.starts(agent()).await?;
        run.image("2").await?;
        run.within(60, "all updated", all_updated).await
    })
    .await
}

/// C26, C53: the old pod goes when the new one is available
#[tokio::test(flavor = "multi_thread")]
async fn a_surge() -> Result<()> {
    story("another image, maxSurge 1; ready 3 s after the start", async |run| {
        run.starts(agent().surge().env(&[("READY_AFTER", "3")])).await?;
        run.image("2").await?;
        run.within(90, "all updated", all_updated).await
    })
    .await
}

/// C22: the next pod waits for the end of the old one
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_ends_slowly() -> Result<()> {
    story("the agent takes 3 s to end", async |run| {
        let slow = agent().env(&[("STOP_AFTER", "3")]);
        run.starts(slow.pod(json!({ "terminationGracePeriodSeconds": 20 }))).await?;
        run.image("2").await?;
        run.within(90, "all updated", all_updated).await
    })
    .await
}

/// C22: the next pod waits for the hook
#[tokio::test(flavor = "multi_thread")]
async fn a_pre_stop_hook() -> Result<()> {
    story("preStop sleeps for 8 s, of a grace period of 20", async |run| {
        let hook = json!({ "lifecycle": { "preStop": { "sleep": { "seconds": 8 } } } });
        let manifest = agent().container(hook);
        run.starts(manifest.pod(json!({ "terminationGracePeriodSeconds": 20 }))).await?;
        run.image("2").await?;
        run.told("terminating", |state| (1..=3).any(|node| terminating(node)(state))).await?;
        run.within(90, "all updated", all_updated).await
    })
    .await
}

/// C22: the kubelet ends the hook
#[tokio::test(flavor = "multi_thread")]
async fn a_pre_stop_hook_longer_than_the_grace_period() -> Result<()> {
    story("preStop sleeps for 60 s, of a grace period of 6", async |run| {
        let hook = json!({ "preStop": { "exec": { "command": ["sleep", "60"] } } });
        let manifest = agent().container(json!({ "lifecycle": hook }));
        run.starts(manifest.pod(json!({ "terminationGracePeriodSeconds": 6 }))).await?;
        run.image("2").await?;
        run.within(120, "all updated", all_updated).await
    })
    .await
}

/// C22: the kubelet kills it
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_ignores_sigterm() -> Result<()> {
    story("the agent ignores SIGTERM; grace period 10 s", async |run| {
        let deaf = agent().env(&[("STOP_AFTER", "60")]);
        run.starts(deaf.pod(json!({ "terminationGracePeriodSeconds": 10 }))).await?;
        run.image("2").await?;
        run.within(120, "all updated", all_updated).await
    })
    .await
}

/// C54: a pod is available some time after it is ready
#[tokio::test(flavor = "multi_thread")]
async fn min_ready_seconds() -> Result<()> {
    story("minReadySeconds 5", async |run| {
        run.starts(agent().spec(json!({ "minReadySeconds": 5 }))).await?;
        run.image("2").await?;
        let is_new_ready = |state: &State| {
            let pod = first_running(state, "2").and_then(|node| state.pod_on(node));
            pod.is_some_and(is_ready)
        };
        run.told("ready for less than 5 s (minReadySeconds)", is_new_ready).await?;
        run.within(90, "all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_start() -> Result<()> {
    story("an image that is ready 20 s after the start", async |run| {
        run.starts(agent()).await?;
        run.image("slow").await?;
        run.told("running, not ready (agent)", |state| first_running(state, "slow").is_some())
            .await?;
        run.within(150, "all updated", all_updated).await
    })
    .await
}

/// C52: a rollout of a broken image stops on its first node
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_and_a_fix() -> Result<()> {
    story("an image that exits with 1 after 2 s; 30 s later a fixed one", async |run| {
        run.starts(agent()).await?;
        run.image("crash").await?;
        run.told("CrashLoopBackOff of container agent", waiting("CrashLoopBackOff")).await?;
        run.stays(20, "two nodes keep their pods", ready(2)).await?;
        run.image("2").await?;
        run.within(60, "all updated", all_updated).await
    })
    .await
}

/// C52: the budget is used up by the first node
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_image_and_a_fix() -> Result<()> {
    story("an image that no registry has; 20 s later one that exists", async |run| {
        run.starts(agent()).await?;
        run.image("nowhere").await?;
        run.told("of container agent", |state| {
            waiting("ErrImagePull")(state) || waiting("ImagePullBackOff")(state)
        })
        .await?;
        run.stays(20, "two nodes keep their pods", ready(2)).await?;
        run.image("2").await?;
        run.within(60, "all updated", all_updated).await
    })
    .await
}
