//! A connection that is open and carries nothing any more, as a firewall leaves it that has forgotten it.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

use super::leader::holder;
use super::separate_process::bare;
use crate::world::cable::{Cable, Condition};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};
use crate::world::process::Process;
use crate::world::{World, eventually};

async fn renewals(world: &World) -> Result<Option<jiff::Timestamp>> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-system");
    let spec = leases.get("everynode").await?.spec;
    Ok(spec.and_then(|spec| spec.renew_time).map(|time| time.0))
}

/// C64: connections that carry nothing any more cost neither the lease nor the rollout: both go on by new ones
#[tokio::test]
async fn a_leader_keeps_its_lease_over_a_dead_connection() -> Result<()> {
    let Some(world) = bare(3).await? else { return Ok(()) };
    let cable = Cable::to(&world.kubeconfig).await?;
    let kubeconfig = cable.kubeconfig(&world.kubeconfig)?;
    let arguments = [
        "run",
        "--leader-elect-lease-duration=6s",
        "--leader-elect-renew-deadline=4s",
        "--leader-elect-retry-period=500ms",
        "--http2-ping-interval=1s",
        "--http2-ping-timeout=1s",
    ];
    let directory = world.directory.path();
    let mut controller = Process::everynode_with(directory, "run", &arguments, Some(&kubeconfig))?;
    let leader = holder(&world).await?;
    world.roll_out(&daemon_set("a")).await?;
    cable.strike(Condition::Clamped);
    let struck = renewals(&world).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    // Longer than the deadline after which it would have given up.
    let later = struck.context("no renewal")? + jiff::SignedDuration::from_secs(5);
    eventually("the lease is renewed", async || {
        controller.check_running()?;
        let renewed = renewals(&world).await?;
        ensure!(
            renewed > Some(later),
            "{renewed:?}, and was at {struck:?}\n{}",
            controller.output()
        );
        Ok(())
    })
    .await?;
    ensure!(holder(&world).await? == leader, "another replica leads");
    world.settled("a").await.with_context(|| controller.output())?;
    controller.check_running()
}
