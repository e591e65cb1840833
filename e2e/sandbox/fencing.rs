//! A leader that is stopped for longer than its lease, and resumes with writes still to send.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::leader::{another_leads, holder};
use crate::observe::{Limits, Observer};
use crate::world::account::LOG_REQUESTS;
use crate::world::manifest::daemon_set;
use crate::world::process::Process;
use crate::world::{Setup, World, eventually};

const FLAGS: [&str; 4] = [
    "run",
    "--leader-elect-lease-duration=2s",
    "--leader-elect-renew-deadline=1500ms",
    "--leader-elect-retry-period=200ms",
];

/// A low rate, so that a write is always waiting.
const SLOW: [&str; 2] = ["--kube-api-qps=5", "--kube-api-burst=1"];

/// C63: a leader that was stopped (SIGSTOP) while another replica took over writes nothing after it
/// resumes, although it has writes to send, and ends with an error that names the lease
#[tokio::test]
async fn a_leader_that_was_stopped_does_not_act_when_it_resumes() -> Result<()> {
    let setup = Setup { nodes: 40, controller: false, arguments: &LOG_REQUESTS };
    let world = World::sandbox(setup).await?;
    let (one, other) = (world.administrator("first").await?, world.administrator("second").await?);
    let start = |flags: &[&str], kubeconfig: &Path| {
        Process::everynode_with(world.directory.path(), "run", flags, Some(kubeconfig))
    };
    let mut first = start(&[&FLAGS[..], &SLOW].concat(), &one)?;
    let leader = holder(&world).await?;
    let limits = Limits::without_surge(0);
    let observer = Observer::start(&world, "a", limits).await?;
    world.create_daemon_set(&daemon_set("a")).await?;
    eventually("the first replica is writing", async || {
        let pods = world.pods_of("a").await?.len();
        ensure!(pods > 7, "{pods} pods");
        Ok(())
    })
    .await?;
    first.signal("STOP")?;
    let created = world.pods_of("a").await?.len();
    ensure!(created < 32, "{created} pods: it has too few writes left");
    let mut second = start(&FLAGS, &other)?;
    another_leads(&world, &leader).await?;
    first.signal("CONT")?;
    let (status, _) = first.ended().await?;
    ensure!(!status.success(), "it ends with {status}");
    ensure!(first.output().contains("no longer leading"), "{}", first.output());
    world.settled("a").await?;
    observer.finish().await?;
    second.check_running()?;
    ensure!(holder(&world).await? != leader, "the first replica holds the lease again");

    let took_over = world.requests_of(&world.namespace, "second")?;
    let took_over = took_over.iter().find(|request| request.verb == "update");
    let took_over = took_over.context("the second replica never took the lease")?.number;
    let mut late = world.requests_of(&world.namespace, "first")?;
    // An event may report what was done before. A renewal that the process was sending when it was
    // stopped is refused, because it names an earlier version of the lease.
    let may_be_late = ["events", "leases.coordination.k8s.io"];
    late.retain(|request| {
        request.number > took_over
            && request.is_write()
            && !may_be_late.contains(&&*request.resource)
    });
    ensure!(late.is_empty(), "the first replica wrote after it was succeeded: {late:?}");
    let events = world.events().list(&Default::default()).await?.items;
    let failed = events.iter().find(|event| event.reason.as_deref() == Some("FailedCreate"));
    ensure!(
        failed.is_none(),
        "what was left to the second replica is reported as failed: {failed:?}"
    );
    Ok(())
}
