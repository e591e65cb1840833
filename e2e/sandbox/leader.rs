//! Several controllers, of which one acts: election, release on SIGTERM, health and metrics.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

use super::separate_process::{bare, run};
use crate::observe::{Limits, Observer};
use crate::world::account::{LOG_REQUESTS, LoggedRequest};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};
use crate::world::process::{Process, get};
use crate::world::{Setup, World, eventually, within};

/// Long enough to distinguish a released lease from an expired one; see the deadline below.
const FLAGS: [&str; 3] = [
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=10s",
    "--leader-elect-retry-period=200ms",
];

/// C63: of two replicas one acts; on SIGTERM it releases the lease at once, and the rollout
/// continues
#[tokio::test]
async fn the_second_replica_takes_over_when_the_first_stops() -> Result<()> {
    let setup = Setup { nodes: 4, controller: false, arguments: &LOG_REQUESTS };
    let world = World::sandbox(setup).await?;
    let (one, other) = (world.administrator("first").await?, world.administrator("second").await?);
    let start = |kubeconfig: &Path| {
        let arguments = [&["run"], &FLAGS[..]].concat();
        Process::everynode_with(world.directory.path(), "run", &arguments, Some(kubeconfig))
    };
    let mut first = start(&one)?;
    let leader = holder(&world).await?;
    let mut second = start(&other)?;
    eventually("the second replica has read the lease", async || {
        let requests = world.requests_of(&world.namespace, "second")?;
        ensure!(requests.iter().any(|request| request.verb == "get"), "{requests:?}");
        Ok(())
    })
    .await?;
    world.roll_out(&daemon_set("a")).await?;
    let mut writes = world.requests_of(&world.namespace, "second")?;
    writes.retain(LoggedRequest::is_write);
    ensure!(writes.is_empty(), "the standby writes: {writes:?}");
    let limits = Limits::ONE_BY_ONE;
    let observer = Observer::start(&world, "a", limits).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    let (status, time) = first.terminate().await?;
    ensure!(status.success() && time < Duration::from_secs(5), "{status} after {time:?}");
    // A third of the lease's duration: the lease was released, and did not expire.
    within(Duration::from_secs(5), "the second replica leads", async || {
        let now = holder(&world).await?;
        ensure!(now != leader, "still {now}");
        Ok(())
    })
    .await
    .with_context(|| format!("{}{}", first.output(), second.output()))?;
    world.settled("a").await?;
    observer.finish().await?;
    second.check_running()
}

/// C62, C63: when a replica is killed, the other one takes over after the lease has expired,
/// without duplicate pods
#[tokio::test]
async fn a_standby_takes_over_when_the_lease_of_a_killed_leader_expires() -> Result<()> {
    let world = bare(4).await?;
    let flags = [
        "--leader-elect-lease-duration=2s",
        "--leader-elect-renew-deadline=1500ms",
        "--leader-elect-retry-period=200ms",
    ];
    let mut first = run(&world, &flags)?;
    let leader = holder(&world).await?;
    world.roll_out(&daemon_set("a")).await?;
    let limits = Limits::ONE_BY_ONE;
    let observer = Observer::start(&world, "a", limits).await?;
    let _second = run(&world, &flags)?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    first.signal("KILL")?;
    first.ended().await?;
    another_leads(&world, &leader).await?;
    world.settled("a").await?;
    observer.finish().await?;
    Ok(())
}

/// C1, C60, C63, C70: /livez, /readyz and /metrics report the state of a leader and of a standby,
/// also after the standby has taken over
#[tokio::test]
async fn health_and_metrics_report_the_state_of_each_replica() -> Result<()> {
    let world = bare(2).await?;
    let (mut leader, leader_address) = serving(&world).await?;
    holder(&world).await?;
    let (mut standby, standby_address) = serving(&world).await?;
    world.roll_out(&daemon_set("a")).await?;
    for address in [&leader_address, &standby_address] {
        eventually("the replica lives", async || {
            ensure!(get(address, "/livez").await?.0 == 200);
            Ok(())
        })
        .await?;
        ensure!(get(address, "/nothing").await?.0 == 404);
    }
    leads(&world, &leader_address).await.with_context(|| leader.output())?;
    stands_by(&standby_address).await.with_context(|| standby.output())?;
    leader.terminate().await?;
    leads(&world, &standby_address).await.with_context(|| standby.output())?;
    standby.check_running()
}

/// Waits until the replica reports that it leads, and the state of the DaemonSet.
async fn leads(world: &World, address: &str) -> Result<()> {
    eventually("the replica reports that it leads", async || {
        let (code, body) = get(address, "/readyz").await?;
        ensure!(code == 200 && body.ends_with("[+] caches complete\n[+] leading\n"), "{body}");
        let (_, metrics) = get(address, "/metrics").await?;
        let labels = format!("{{namespace=\"{}\",daemonset=\"a\"}}", world.namespace);
        for (name, value) in
            [("desired", 2), ("ready", 2), ("available", 2), ("updated", 2), ("down", 0)]
        {
            has_line(&metrics, &format!("everynode_daemonset_{name}{labels} {value}"))?;
        }
        for line in [
            "everynode_leader 1",
            "everynode_expectations_lapsed_total 0",
            "workqueue_depth{name=\"daemonset\"} 0",
        ] {
            has_line(&metrics, line)?;
        }
        for counter in [
            "everynode_syncs_total{result=\"success\"} ",
            "workqueue_adds_total{name=\"daemonset\"} ",
            "workqueue_queue_duration_seconds_count{name=\"daemonset\"} ",
        ] {
            let count = metrics.lines().find_map(|line| line.strip_prefix(counter));
            ensure!(count.is_some_and(|count| count != "0"), "{counter}{count:?}");
        }
        Ok(())
    })
    .await
}

/// Waits until the replica reports that another one leads.
async fn stands_by(address: &str) -> Result<()> {
    eventually("the replica reports that it is a standby", async || {
        let (code, body) = get(address, "/readyz").await?;
        ensure!(code == 200 && body.ends_with("[+] standby: another replica leads\n"), "{body}");
        let (_, metrics) = get(address, "/metrics").await?;
        has_line(&metrics, "everynode_leader 0")?;
        ensure!(!metrics.contains("everynode_daemonset_desired{"), "{metrics}");
        Ok(())
    })
    .await
}

fn has_line(metrics: &str, line: &str) -> Result<()> {
    ensure!(metrics.lines().any(|found| found == line), "{line:?} is not in\n{metrics}");
    Ok(())
}

/// A controller that serves HTTP, and its address.
pub(crate) async fn serving(world: &World) -> Result<(Process, String)> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let flags: Vec<&str> = FLAGS.into_iter().chain(["--http", &address]).collect();
    Ok((run(world, &flags)?, address))
}

pub(crate) async fn another_leads(world: &World, leader: &str) -> Result<()> {
    eventually("another replica leads", async || {
        let now = holder(world).await?;
        ensure!(now != leader, "still {now}");
        Ok(())
    })
    .await
}

/// The holder of the lease.
pub(crate) async fn holder(world: &World) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-system");
    eventually("a replica leads", async || {
        let lease = leases.get("everynode").await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        ensure!(!holder.is_empty(), "nobody");
        Ok(holder)
    })
    .await
}
