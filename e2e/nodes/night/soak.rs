//! A rollout every minute and a fault in each, for as long as `EVERYNODE_SOAK_MINUTES` says: does
//! the controller's memory grow, or the number of its files?

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::super::manifest::agent;
use super::super::state::all_nodes_updated;
use super::super::story::{Run, story};
use crate::world::pod::name_of;

const MINUTES: &str = "EVERYNODE_SOAK_MINUTES";
/// Chooses the faults: the same ones with the same number.
const SEED: &str = "EVERYNODE_SEED";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The memory and the open files of the controller.
struct Usage {
    megabytes: f64,
    files: usize,
}

fn usage(run: &Run<'_>) -> Result<Usage> {
    let process = run.controller_process().context("the controller runs")?;
    let folder = std::path::PathBuf::from(format!("/proc/{process}"));
    let status = std::fs::read_to_string(folder.join("status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = resident.and_then(|text| text.trim().strip_suffix(" kB"));
    let kilobytes: f64 = kilobytes.context("no resident memory")?.parse()?;
    let files = std::fs::read_dir(folder.join("fd"))?.count();
    Ok(Usage { megabytes: kilobytes / 1024.0, files })
}

/// One of the faults, on one of the nodes.
async fn fault(run: &mut Run<'_>, choice: u64) -> Result<()> {
    let node = usize::try_from(choice / 8 % 3)? + 1;
    match choice % 8 {
        0 => run.node("reboot", node).await,
        1 => {
            run.node("kill-kubelet", node).await?;
            run.pass(choice / 24 % 20).await;
            run.node("start-kubelet", node).await
        }
        2 => {
            run.node("cut", node).await?;
            run.pass(choice / 24 % 20).await;
            run.node("mend", node).await
        }
        3 => {
            run.node("off", node).await?;
            run.pass(choice / 24 % 20).await;
            run.node("on", node).await
        }
        4 => {
            let pod = run.record.look(|state| state.pod_on(node).map(name_of));
            let pod = pod.unwrap_or_default();
            run.kubectl(&["delete", "pod", &pod, "--ignore-not-found", "--wait=false"])
                .await
                .map(drop)
        }
        5 => {
            run.kubectl(&["taint", "node", &format!("node-{node}"), "a=b:NoExecute"]).await?;
            run.pass(3).await;
            run.kubectl(&["taint", "node", &format!("node-{node}"), "a-"]).await.map(drop)
        }
        6 => {
            run.node("kill-kubelet", node).await?;
            run.node("start-kubelet", node).await
        }
        _ => run.image("crash").await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_every_minute() -> Result<()> {
    let minutes = number(MINUTES).unwrap_or(60);
    let seed = number(SEED)
        .map_or_else(|| SystemTime::UNIX_EPOCH.elapsed(), |seed| Ok(Duration::from_secs(seed)))?;
    let does = format!("{minutes} minutes: a rollout in each, and a fault at random");
    story(&does, async |run| {
        run.others_delete_pods();
        run.starts(agent()).await?;
        let (mut first, mut slowest) = (None, 0.0_f64);
        let mut random = seed.as_secs();
        for minute in 0..minutes {
            let began = tokio::time::Instant::now();
            run.image(if minute % 2 == 0 { "2" } else { "1" }).await?;
            // Knuth's generator: the lowest bits are the least random.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            run.pass(random >> 60).await;
            fault(run, random >> 33).await?;
            run.image(if minute % 2 == 0 { "2" } else { "1" }).await?;
            run.wait("all updated after a fault", all_nodes_updated).await?;
            slowest = slowest.max(began.elapsed().as_secs_f64());
            if minute == 1 {
                first = Some(usage(run)?);
            }
            let rest = Duration::from_secs(60).saturating_sub(began.elapsed());
            run.pass(rest.as_secs()).await;
        }
        let last = usage(run)?;
        let first = first.context("at least two minutes")?;
        let pods = run.record.count(|_| true);
        run.note(format!(
            "memory {:.1} MB after 2 minutes, {:.1} in the end; open files {}, {}; {pods} pods; \
             the slowest rollout with its fault took {slowest:.0} s",
            first.megabytes, last.megabytes, first.files, last.files
        ));
        Ok(())
    })
    .await
}
