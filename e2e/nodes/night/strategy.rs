//! Update strategies, changes of them and of the template in the middle of a rollout.

use anyhow::Result;
use serde_json::json;

use super::super::manifest::{Change, agent};
use super::super::state::{
    State, all_updated, backs_off, exited, first_running, is_ready, ready, runs, updated,
    updated_count, waiting,
};
use super::super::story::{story, story_of_everynode};
use crate::world::pod::name_of;

/// C51, C52: two nodes at any time
#[tokio::test(flavor = "multi_thread")]
async fn two_at_a_time() -> Result<()> {
    story("maxUnavailable 2; ready 3 s after the start", async |run| {
        let two = json!({ "updateStrategy": { "rollingUpdate": { "maxUnavailable": 2 } } });
        run.starts(agent().spec(two).env(&[("READY_AFTER", "3")])).await?;
        run.image("2").await?;
        run.within(60, "all updated", all_updated).await
    })
    .await
}

/// C51: percentages
#[tokio::test(flavor = "multi_thread")]
async fn all_at_once() -> Result<()> {
    story("maxUnavailable 100%; ready 3 s after the start", async |run| {
        let all = json!({ "updateStrategy": { "rollingUpdate": { "maxUnavailable": "100%" } } });
        run.starts(agent().spec(all).env(&[("READY_AFTER", "3")])).await?;
        run.image("2").await?;
        run.within(60, "all updated", all_updated).await
    })
    .await
}

/// C50: pods wait for somebody who deletes them
#[tokio::test(flavor = "multi_thread")]
async fn on_delete() -> Result<()> {
    story("OnDelete: another image, then one pod after the other is deleted", async |run| {
        run.others_delete_pods();
        let strategy = json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } });
        run.starts(agent().spec(strategy)).await?;
        run.image("2").await?;
        run.told("to be deleted manually (OnDelete)", |_| true).await?;
        run.stays(5, "no pod is replaced", |state| updated_count(state) == 0).await?;
        for node in 1..=3 {
            let pod = run.record.look(|state| state.pod_on(node).map(name_of).unwrap_or_default());
            run.kubectl(&["delete", "pod", &pod, "--wait=false"]).await?;
            run.wait("it is replaced", updated(&[node])).await?;
        }
        run.within(30, "the last pod deleted, and all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_superseded() -> Result<()> {
    story("image 2, 1 s later image 3, 1 s later image 2 again", async |run| {
        run.starts(agent().env(&[("READY_AFTER", "3")])).await?;
        run.image("2").await?;
        run.pass(1).await;
        run.image("3").await?;
        run.pass(1).await;
        run.image("2").await?;
        run.within(60, "all updated", all_updated).await?;
        let pods = run.record.count(|_| true);
        run.note(format!("{pods} pods in all"));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_taken_back() -> Result<()> {
    story("kubectl rollout undo in mid-rollout", async |run| {
        run.starts(agent().env(&[("READY_AFTER", "3")])).await?;
        run.image("2").await?;
        run.wait("a new pod runs", |state| first_running(state, "2").is_some()).await?;
        run.kubectl(&["rollout", "undo", "ds/agent"]).await?;
        run.within(60, "all have the old version", all_updated).await?;
        let pods = run.record.count(|_| true);
        run.note(format!("{pods} pods in all"));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_restarts() -> Result<()> {
    story("kubectl rollout restart, and again 4 s later", async |run| {
        run.starts(agent().env(&[("READY_AFTER", "3")])).await?;
        run.kubectl(&["rollout", "restart", "ds/agent"]).await?;
        run.pass(4).await;
        run.kubectl(&["rollout", "restart", "ds/agent"]).await?;
        let is_done = |state: &State| {
            let newest = state.daemon_set.as_ref().and_then(|ds| ds.status.as_ref());
            newest.and_then(|status| status.updated_number_scheduled) == Some(3)
        };
        run.within(90, "all updated", |state| all_updated(state) && is_done(state)).await?;
        let pods = run.record.count(|_| true);
        run.note(format!("{pods} pods in all"));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn undo_of_everynode() -> Result<()> {
    story_of_everynode(
        "everynode undo while an image crashes, then everynode restart",
        async |run| {
            run.starts(agent()).await?;
            run.image("crash").await?;
            run.wait("it crashes", exited(1)).await?;
            run.everynode(&["undo"]).await?;
            run.within(60, "all have the old version", all_updated).await?;
            run.everynode(&["restart"]).await?;
            let is_done = |state: &State| {
                let newest = state.daemon_set.as_ref().and_then(|ds| ds.status.as_ref());
                newest.and_then(|status| status.updated_number_scheduled) == Some(3)
            };
            run.within(60, "all are restarted", |state| all_updated(state) && is_done(state)).await
        },
    )
    .await
}

/// C52, C53: the old pods, which are ready, go within the budget
#[tokio::test(flavor = "multi_thread")]
async fn an_update_within_min_ready_seconds() -> Result<()> {
    story("a second image 3 s after the pods of the first one; minReadySeconds 15", async |run| {
        run.apply(agent().spec(json!({ "minReadySeconds": 15 }))).await?;
        run.wait("the pods are ready", |state| {
            state.agents().filter(|pod| is_ready(pod)).count() == 3
        })
        .await?;
        run.pass(3).await;
        run.image("2").await?;
        let mut least = 3;
        while run.record.until(std::time::Duration::from_millis(100), all_updated).await.is_none() {
            let ready = run.record.look(|state| state.agents().filter(|pod| is_ready(pod)).count());
            least = least.min(ready);
        }
        run.within(1, "all updated", all_updated).await?;
        run.note(format!("at least {least} of 3 pods were ready"));
        Ok(())
    })
    .await
}

/// Without a probe and minReadySeconds nothing stops a rollout of a crashing image
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_without_a_probe() -> Result<()> {
    story("no probes; the new version exits with 1 4 s after each start; then a fix", async |run| {
        let bare = agent().container(json!({ "readinessProbe": null, "livenessProbe": null }));
        run.starts(bare.clone()).await?;
        run.apply(bare.clone().image("2").env(&[("CRASH_AFTER", "4")])).await?;
        run.reaches(30, "the crashing version is on all nodes", |state| {
            (1..=3).all(|node| runs(node, "2")(state))
        })
        .await;
        run.told("exit code 1)", backs_off).await?;
        run.apply(bare.image("3")).await?;
        run.within(60, "a fix updated all", all_updated).await
    })
    .await
}

/// C54: with minReadySeconds the same stops on its first node
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_without_a_probe_and_min_ready_seconds() -> Result<()> {
    story("the same with minReadySeconds 8", async |run| {
        let bare = agent().container(json!({ "readinessProbe": null, "livenessProbe": null }));
        let bare = bare.spec(json!({ "minReadySeconds": 8 }));
        run.starts(bare.clone()).await?;
        run.apply(bare.clone().image("2").env(&[("CRASH_AFTER", "4")])).await?;
        run.told("exit code 1)", backs_off).await?;
        run.stays(30, "two nodes keep their pods", ready(2)).await?;
        run.apply(bare.image("3")).await?;
        run.within(90, "a fix updated all", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_grows_in_a_rollout() -> Result<()> {
    story(
        "a missing image stops at maxUnavailable 1; then maxUnavailable 3 with a fix",
        async |run| {
            run.starts(agent()).await?;
            run.image("nowhere").await?;
            run.stays(8, "at least two nodes keep their pods", |state| {
                state.agents().filter(|pod| state.is_available(pod)).count() >= 2
            })
            .await?;
            let three = json!({ "updateStrategy": { "rollingUpdate": { "maxUnavailable": 3 } } });
            run.apply(agent().image("2").spec(three)).await?;
            run.within(30, "all updated", all_updated).await
        },
    )
    .await
}

/// A surge that cannot start leaves the old pods alone
#[tokio::test(flavor = "multi_thread")]
async fn a_surge_of_a_crash() -> Result<()> {
    story("maxSurge 1 and an image that crashes; 20 s later a fix", async |run| {
        run.starts(agent().surge()).await?;
        run.image("crash").await?;
        run.told("CrashLoopBackOff of container agent", waiting("CrashLoopBackOff")).await?;
        run.stays(20, "three nodes keep their pods", ready(3)).await?;
        run.image("2").await?;
        run.within(60, "a fix updated all", all_updated).await
    })
    .await
}

/// C26: old pods that are not ready go at once
#[tokio::test(flavor = "multi_thread")]
async fn a_surge_over_broken_pods() -> Result<()> {
    story("the old version is ready nowhere; maxSurge 1 and a fix", async |run| {
        run.apply(agent().surge().env(&[("READY_AFTER", "3600")])).await?;
        run.wait("all run", |state| (1..=3).all(|node| runs(node, "1")(state))).await?;
        run.apply(agent().surge().image("2")).await?;
        run.within(60, "all updated", all_updated).await
    })
    .await
}

/// G6: nothing is replaced in a pause
#[tokio::test(flavor = "multi_thread")]
async fn a_pause() -> Result<()> {
    story_of_everynode("everynode rollout pause in mid-rollout, resume 8 s later", async |run| {
        run.starts(agent().env(&[("READY_AFTER", "3")])).await?;
        run.image("2").await?;
        run.wait("a node is updated", |state| updated_count(state) == 1).await?;
        run.everynode(&["rollout", "pause"]).await?;
        run.told("paused", |_| true).await?;
        run.stays(8, "at most two are updated", |state| updated_count(state) <= 2).await?;
        run.everynode(&["rollout", "resume"]).await?;
        run.within(60, "all updated", all_updated).await
    })
    .await
}
