//! Connections that are open but transfer nothing any more, as after a firewall has dropped their
//! state.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

use super::leader::holder;
use super::separate_process::bare;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};
use crate::world::process::{Process, SHORT_PINGS};
use crate::world::tcp_proxy::{Condition, TcpProxy};
use crate::world::{World, eventually};

async fn renewals(world: &World) -> Result<Option<jiff::Timestamp>> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-system");
    let spec = leases.get("everynode").await?.spec;
    Ok(spec.and_then(|spec| spec.renew_time).map(|time| time.0))
}

/// C64: connections that transfer nothing cost neither the lease nor the rollout: both continue on
/// new connections
#[tokio::test]
async fn a_leader_keeps_its_lease_when_a_connection_stalls() -> Result<()> {
    let world = bare(3).await?;
    let proxy = TcpProxy::to(&world.kubeconfig).await?;
    let kubeconfig = proxy.kubeconfig(&world.kubeconfig)?;
    let arguments = [
        "run",
        "--leader-elect-lease-duration=6s",
        "--leader-elect-renew-deadline=4s",
        "--leader-elect-retry-period=500ms",
    ];
    let arguments = [&arguments[..], &SHORT_PINGS].concat();
    let directory = world.directory.path();
    let mut controller = Process::everynode_with(directory, "run", &arguments, Some(&kubeconfig))?;
    let leader = holder(&world).await?;
    world.roll_out(&daemon_set("a")).await?;
    proxy.break_existing(Condition::Stalled);
    let existing = renewals(&world).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    // Longer than the renew deadline.
    let later = existing.context("no renewal")? + jiff::SignedDuration::from_secs(5);
    eventually("the lease is renewed", async || {
        controller.check_running()?;
        let renewed = renewals(&world).await?;
        ensure!(
            renewed > Some(later),
            "{renewed:?}, and was at {existing:?}\n{}",
            controller.output()
        );
        Ok(())
    })
    .await?;
    ensure!(holder(&world).await? == leader, "another replica leads");
    world.settled("a").await.with_context(|| controller.output())?;
    controller.check_running()
}
