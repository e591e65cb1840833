//! The limits on writes: how many one sync sends, how many at a time, and how many in a second.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::world::eventually;
use crate::world::faults::FaultSetup;
use crate::world::manifest::daemon_set;

const NODES: usize = 9;
const BURST_REPLICAS: usize = 7;

/// How long the watch of pods stalls: until a controller sees its own writes, it plans no others.
const STALL: Duration = Duration::from_secs(3);

/// The time that each creation takes.
const CREATION: SignedDuration = SignedDuration::from_millis(300);

/// C28: one sync creates at most --burst-replicas pods, in batches of 1, 2 and 4
#[tokio::test]
async fn a_sync_creates_at_most_burst_replicas_pods_in_growing_batches() -> Result<()> {
    let setup = FaultSetup::of(NODES).await?;
    let (controller, proxy) = setup.run_behind_proxy(&options()).await?;
    // The controller works, and is up to date.
    setup.world.roll_out(&daemon_set("first")).await.with_context(|| controller.output())?;
    let before = setup.requests("create", "pods")?.len();
    let slow = json!({
        "match": {"verbs": ["create"], "resources": ["pods"]},
        "fault": {"delay": {"lasts": format!("{}ms", CREATION.as_millis())}},
    });
    let stalled_until = setup.stall_pods(&proxy, STALL, &[slow]).await?;
    setup.world.roll_out(&daemon_set("second")).await.with_context(|| controller.output())?;
    let times = times(&setup, "create")?.split_off(before);
    ensure!(times.len() == NODES, "{} creations for {NODES} nodes", times.len());
    one_sync_ends_with_the_stall(&times, stalled_until)?;
    let batches = [&times[..1], &times[1..3], &times[3..BURST_REPLICAS]];
    for (batch, next) in batches.iter().zip(&batches[1..]) {
        let (last, first) = (batch[batch.len() - 1], next[0]);
        ensure!(
            first.duration_since(last) >= CREATION,
            "a batch of {} starts before the one of {} has ended: {times:?}",
            next.len(),
            batch.len()
        );
    }
    let took = times[BURST_REPLICAS - 1].duration_since(times[0]);
    ensure!(took < CREATION * 6, "one was created after the other: {times:?}");
    Ok(())
}

/// C28: one sync deletes at most --burst-replicas pods
#[tokio::test]
async fn a_sync_deletes_at_most_burst_replicas_pods() -> Result<()> {
    let setup = FaultSetup::of(NODES).await?;
    let world = &setup.world;
    let (controller, proxy) = setup.run_behind_proxy(&options()).await?;
    world.roll_out(&daemon_set("a")).await.with_context(|| controller.output())?;
    let stalled_until = setup.stall_pods(&proxy, STALL, &[]).await?;
    let nowhere = json!({"spec": {"template": {"spec": {"nodeSelector": {"is": "nowhere"}}}}});
    world.patch_daemon_set("a", nowhere).await?;
    eventually("no pod is left", async || {
        let left = world.pods_of("a").await?.len();
        ensure!(left == 0, "{left} are");
        Ok(())
    })
    .await
    .with_context(|| controller.output())?;
    let times = times(&setup, "delete")?;
    ensure!(times.len() == NODES, "{} deletions of {NODES} pods", times.len());
    one_sync_ends_with_the_stall(&times, stalled_until)
}

/// C28: --kube-api-qps limits the rate of requests, of which --kube-api-burst are free
#[tokio::test]
async fn requests_keep_to_the_configured_rate() -> Result<()> {
    let setup = FaultSetup::of(25).await?;
    let controller =
        setup.run(&["--leader-elect=false", "--kube-api-qps=10", "--kube-api-burst=5"])?;
    let started = Timestamp::now();
    setup.world.roll_out(&daemon_set("a")).await.with_context(|| controller.output())?;
    let times = times(&setup, "create")?;
    ensure!(times.len() == 25, "{} creations for 25 nodes", times.len());
    // 5 at once, and 20 at 10 a second.
    let took = times[24].duration_since(started);
    ensure!(took >= SignedDuration::from_secs(2), "25 pods were created within {took:?}");
    Ok(())
}

fn options() -> [&'static str; 2] {
    ["--leader-elect=false", "--burst-replicas=7"]
}

fn times(setup: &FaultSetup, verb: &str) -> Result<Vec<Timestamp>> {
    Ok(setup.requests(verb, "pods")?.into_iter().map(|request| request.at).collect())
}

/// Fails unless the writes beyond the limit of a sync come after the stall, when the controller has
/// seen the others.
fn one_sync_ends_with_the_stall(times: &[Timestamp], stalled_until: Timestamp) -> Result<()> {
    let next = times[BURST_REPLICAS];
    ensure!(
        next >= stalled_until,
        "one sync sends more than {BURST_REPLICAS} writes: {times:?}, stalled until {stalled_until}"
    );
    Ok(())
}
