//! A leader that stops for longer than its lease lasts, and wakes up in the middle of a rollout.

use anyhow::{Result, ensure};

use super::leader::holder;
use crate::observe::{Limits, Observer};
use crate::separate_process::{bare, run};
use crate::world::eventually;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};

const FLAGS: [&str; 3] = [
    "--leader-elect-lease-duration=2s",
    "--leader-elect-renew-deadline=1500ms",
    "--leader-elect-retry-period=200ms",
];

/// C63: a leader that was stopped (SIGSTOP) while another took over writes nothing when it goes on, and
/// ends with an error that names the lease
#[tokio::test]
async fn a_leader_that_was_stopped_does_not_act_when_it_goes_on() -> Result<()> {
    let Some(world) = bare(6).await? else { return Ok(()) };
    let mut first = run(&world, &FLAGS)?;
    let leader = holder(&world).await?;
    world.roll_out(&daemon_set("a")).await?;
    let limits = Limits { pods_per_node_max: 1, nodes_down_max: 1 };
    let observer = Observer::start(&world, "a", limits).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    first.signal("STOP")?;
    let mut second = run(&world, &FLAGS)?;
    eventually("the second replica leads", async || {
        let now = holder(&world).await?;
        ensure!(now != leader, "still {now}");
        Ok(())
    })
    .await?;
    first.signal("CONT")?;
    let (status, _) = first.ended().await?;
    ensure!(!status.success(), "it ends with {status}");
    ensure!(first.output().contains("no longer leading"), "{}", first.output());
    world.settled("a").await?;
    observer.finish().await?;
    second.check_running()
}
