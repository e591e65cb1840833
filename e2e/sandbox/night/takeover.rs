//! A leader that is killed during a large rollout.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, ListParams};
use serde_json::json;

use super::super::leader::{another_leads, holder};
use super::super::separate_process::{bare, run};
use crate::observe::{Limits, Observer};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::{World, eventually};

const NODES: usize = 500;
const MAX_UNAVAILABLE: usize = 125;
const LEASE_DURATION: Duration = Duration::from_secs(5);
const FLAGS: [&str; 3] = [
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=500ms",
];

/// C34, C44, C62, C63: at 500 nodes, a standby takes over from a killed leader (SIGKILL) shortly
/// after the lease has expired, but not before; no node ever has two pods, no more than
/// maxUnavailable nodes have none, and no revision is lost
#[tokio::test]
async fn a_standby_takes_over_from_a_leader_killed_during_a_large_rollout() -> Result<()> {
    let world = bare(NODES).await?;
    let mut first = run(&world, &FLAGS)?;
    let leader = holder(&world).await?;
    let budget = json!({"rollingUpdate": {"maxUnavailable": MAX_UNAVAILABLE}});
    world.roll_out(&with(daemon_set("a"), json!({"spec": {"updateStrategy": budget}}))).await?;
    let mut second = run(&world, &FLAGS)?;
    let limits = Limits::without_surge(MAX_UNAVAILABLE);
    let observer = Observer::start(&world, "a", limits).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    let before = revisions(&world, 2).await?;
    eventually("the rollout has started", async || {
        let status = world.daemon_sets().get("a").await?.status.unwrap_or_default();
        let updated = status.updated_number_scheduled.unwrap_or(0);
        ensure!(updated > 0, "no pod is new");
        Ok(())
    })
    .await?;
    first.signal("KILL")?;
    first.ended().await?;
    let last = lease(&world).await?;
    ensure!(last.holder_identity.as_deref() == Some(&leader), "it was not the leader: {last:?}");
    another_leads(&world, &leader).await?;
    waited_for_expiry(&last, &lease(&world).await?)?;
    world.settled("a").await?;
    let report = observer.finish().await?;
    ensure!(report.created.len() == NODES, "{} pods for {NODES} nodes", report.created.len());
    let after = revisions(&world, 2).await?;
    ensure!(before == after, "revisions were {before:?}, and are {after:?}");
    second.check_running()
}

/// The lease contains both times: the last renewal by the old holder, and the acquisition by the
/// new one.
fn waited_for_expiry(last: &LeaseSpec, next: &LeaseSpec) -> Result<()> {
    let at = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime>| {
        time.as_ref().map(|time| time.0).context("the lease lacks a time")
    };
    let (renewed, acquired): (Timestamp, Timestamp) =
        (at(&last.renew_time)?, at(&next.acquire_time)?);
    let gap = Duration::try_from(acquired.duration_since(renewed))?;
    ensure!(gap >= LEASE_DURATION, "taken over after {gap:?}, before the lease had expired");
    ensure!(next.lease_transitions == last.lease_transitions.map(|count| count + 1), "{next:?}");
    Ok(())
}

async fn lease(world: &World) -> Result<LeaseSpec> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-system");
    leases.get("everynode").await?.spec.context("an empty lease")
}

/// The names and numbers of the revisions, when there is this number of them.
async fn revisions(world: &World, count: usize) -> Result<BTreeMap<String, i64>> {
    eventually("the revisions are there", async || {
        let list = world.revisions().list(&ListParams::default()).await?.items;
        let revisions: BTreeMap<String, i64> = list
            .into_iter()
            .map(|found| (found.metadata.name.unwrap_or_default(), found.revision))
            .collect();
        ensure!(revisions.len() == count, "{revisions:?}");
        Ok(revisions)
    })
    .await
}
