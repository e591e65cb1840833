//! Guarded rollouts while the controller is killed, and their pace.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;
use serde_json::{Value, json};

use super::separate_process::{bare, run};
use crate::observe::{Limits, Observer, uids};
use crate::world::guard::guarded;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, image_patch, with};
use crate::world::process::Process;
use crate::world::{Setup, World, eventually, within};

/// Longer than a minute, after which the rollout may go on.
pub(super) const PACED_WITHIN: Duration = Duration::from_secs(120);
const RECORD: &str = "everynode.dev/rollout";

/// G8, G9, G11: a controller that is killed in any phase of a rollout goes on where the other one
/// was: the attempt is the same, no approval is needed twice, and the budget holds
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_in_any_phase_goes_on() -> Result<()> {
    let world = bare(4).await?;
    let mut controller = start(&world)?;
    let policy = "steps: [{name: canary, upTo: [1], bake: 3s, approval: true}, \
                  {name: half, upTo: ['50%']}]";
    // Each new pod takes some seconds to be available, so that there is time to kill.
    let slow = json!({"spec": {"minReadySeconds": 2,
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}});
    world.create_daemon_set(&with(guarded("agent", policy), slow)).await?;
    world.reaches("agent", "Complete").await?;
    let limits = Limits::ONE_BY_ONE.with_min_ready_seconds(2);
    let observer = Observer::start(&world, "agent", limits).await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    for reason in ["Updating", "Baking", "AwaitingApproval"] {
        world.reaches("agent", reason).await?;
        kill(&mut controller).await?;
        controller = start(&world)?;
    }
    let first = record(&world).await?;
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    kill(&mut controller).await?;
    let updated = world.images("agent").await?[NEXT_IMAGE];
    ensure!(updated <= 2, "{updated} of 4 nodes were updated at once");
    controller = start(&world)?;
    world.reaches("agent", "Complete").await?;
    let complete = record(&world).await?;
    ensure!(complete["began"] == first["began"], "{complete} is another attempt than {first}");
    ensure!(complete["approvals"] == json!(["canary"]), "{complete}");
    observer.finish().await?;

    // An abort, which the next controller carries out to its end.
    let third = json!({"spec": {"template": {"metadata": {"annotations": {"third": "yes"}}}}});
    world.patch_daemon_set("agent", third).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    let (aborted, goes_back) = tokio::join!(
        world.everynode(&["rollout", "abort", "ds/agent"]),
        world.reaches("agent", "RollingBack"),
    );
    goes_back?;
    aborted?.ok()?;
    kill(&mut controller).await?;
    controller = start(&world)?;
    world.reaches("agent", "Failed").await?;
    eventually("the canary has gone back", async || world.all_available("agent").await).await?;
    let before = uids(&world, "agent").await?;
    kill(&mut controller).await?;
    controller = start(&world)?;
    let approve = world.everynode(&["rollout", "approve", "ds/agent"]).await?;
    ensure!(approve.code == 1 && approve.stderr.contains("its phase is Failed"), "{approve:?}");
    world.everynode(&["rollout", "retry", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "AwaitingApproval").await?;
    let same = before.intersection(&uids(&world, "agent").await?).count();
    ensure!(same == 3, "{same} of 4 pods were left alone until the retry reached its canary");
    controller.check_running()
}

/// G5: the rollout begins on no more nodes within a minute than its policy allows: at first the
/// pods count that are younger than the controller has known them
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_keeps_its_pace() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    let all_at_once = json!({"spec": {"updateStrategy": {"rollingUpdate": {
        "maxUnavailable": "100%"}}}});
    world.roll_out(&with(guarded("agent", "podsPerMinute: 2"), all_at_once)).await?;
    world.reaches("agent", "Complete").await?;
    let first = last_creation(&world).await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    within(PACED_WITHIN, "two of three nodes are updated", async || {
        let images = world.images("agent").await?;
        let expected = [(IMAGE.to_owned(), 1), (NEXT_IMAGE.to_owned(), 2)];
        ensure!(images == expected.into(), "{images:?}");
        Ok(())
    })
    .await?;
    let apart = last_creation(&world).await?.duration_since(first).as_secs();
    ensure!(apart >= 59, "the last pods were created {apart} s after the first ones");
    Ok(())
}

/// When the youngest pod was created.
async fn last_creation(world: &World) -> Result<jiff::Timestamp> {
    let pods = world.pods_of("agent").await?.into_iter();
    let created = pods.filter_map(|pod| pod.metadata.creation_timestamp);
    created.map(|created| created.0).max().context("there are pods")
}

pub(super) fn start(world: &World) -> Result<Process> {
    run(world, &["--leader-elect=false"])
}

pub(super) async fn kill(controller: &mut Process) -> Result<()> {
    controller.signal("KILL")?;
    controller.ended().await.map(drop)
}

/// The record of the newest revision.
async fn record(world: &World) -> Result<Value> {
    let revisions = world.revisions().list(&ListParams::default()).await?.items;
    let newest = revisions.into_iter().max_by_key(|revision| revision.revision);
    let annotations = newest.and_then(|revision| revision.metadata.annotations);
    let record = annotations.and_then(|mut annotations| annotations.remove(RECORD));
    Ok(serde_json::from_str(&record.context("the newest revision has no record")?)?)
}
