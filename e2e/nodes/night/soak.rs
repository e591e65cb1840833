//! A rollout every minute and a fault in each, for as long as `EVERYNODE_SOAK_MINUTES` says: does
//! the controller's memory grow, or the number of its files, requests or pods?

use std::net::TcpListener;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use super::super::fixture::Controller;
use super::super::manifest::agent;
use super::super::state::all_nodes_updated;
use super::super::story::{Run, story_of_everynode};
use crate::world::pod::name_of;
use crate::world::process::get;

const MINUTES: &str = "EVERYNODE_SOAK_MINUTES";
/// Chooses the faults: the same ones with the same number.
const SEED: &str = "EVERYNODE_SEED";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The use of memory and files by the controller, and its work since it started.
struct Usage {
    minute: u64,
    megabytes: f64,
    files: usize,
    /// To the API server, by the controller's own metrics.
    requests: f64,
    /// Pods of the DaemonSet, by whatever reason.
    pods: usize,
}

impl Usage {
    async fn now(run: &Run<'_>, address: &str, minute: u64) -> Result<Usage> {
        let process = run.controller_process().context("the controller runs")?;
        let folder = std::path::PathBuf::from(format!("/proc/{process}"));
        let status = std::fs::read_to_string(folder.join("status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.and_then(|text| text.trim().strip_suffix(" kB"));
        let kilobytes: f64 = kilobytes.context("no resident memory")?.parse()?;
        let files = std::fs::read_dir(folder.join("fd"))?.count();
        let (_, metrics) = get(address, "/metrics").await?;
        let requests =
            metrics.lines().filter(|line| line.starts_with("rest_client_requests_total{"));
        let requests =
            requests.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        let pods = run.record.count(|_| true);
        Ok(Usage { minute, megabytes: kilobytes / 1024.0, files, requests, pods })
    }

    /// Requests and pods per minute since an earlier time.
    #[allow(clippy::cast_precision_loss, reason = "minutes and pods of an hour")]
    fn rates(&self, since: &Usage) -> String {
        let minutes = (self.minute - since.minute).max(1) as f64;
        let requests = (self.requests - since.requests) / minutes;
        let pods = (self.pods - since.pods) as f64 / minutes;
        format!("{requests:.0} requests and {pods:.1} pods")
    }
}

/// The memory and files of the controller after two minutes, half of the time and all of it.
fn summary(usage: &[Usage]) -> Result<String> {
    let [first, half, last] = usage else { bail!("at least 6 minutes") };
    let all =
        |of: &dyn Fn(&Usage) -> String| format!("{}, {} and {}", of(first), of(half), of(last));
    let minutes = all(&|it| it.minute.to_string());
    let memory = all(&|it| format!("{:.1}", it.megabytes));
    let files = all(&|it| it.files.to_string());
    Ok(format!(
        "after {minutes} minutes {memory} MB of memory and {files} open files; per minute of the \
         first half {}, of the second {}",
        half.rates(first),
        last.rates(half),
    ))
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
    story_of_everynode(&does, async |run| {
        run.others_delete_pods();
        // The built-in controller would need a certificate to be asked for its metrics.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        run.kill_controller();
        run.start_controller(Controller::Everynode, &["--http", &address])?;
        run.starts(agent()).await?;
        let (mut usage, mut slowest) = (Vec::new(), 0.0_f64);
        let mut random = seed.as_secs();
        for minute in 1..=minutes {
            let began = tokio::time::Instant::now();
            let image = if minute % 2 == 0 { "1" } else { "2" };
            run.image(image).await?;
            // Knuth's generator: the lowest bits are the least random.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            run.pass(random >> 60).await;
            fault(run, random >> 33).await?;
            run.image(image).await?;
            run.wait("all updated after a fault", all_nodes_updated).await?;
            slowest = slowest.max(began.elapsed().as_secs_f64());
            let rest = Duration::from_secs(60).saturating_sub(began.elapsed());
            run.pass(rest.as_secs()).await;
            if [2, minutes / 2, minutes].contains(&minute) {
                usage.push(Usage::now(run, &address, minute).await?);
            }
        }
        run.note(summary(&usage)?);
        run.note(format!("the slowest rollout with its fault took {slowest:.0} s"));
        Ok(())
    })
    .await
}
