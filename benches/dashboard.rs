//! The dashboard of a large cluster in a real browser: the time from a click to the first sight of
//! a page and to its content; during a rollout, the time from a change to its sight, and how long
//! the page is ever busy with an update.
//!
//! `cargo bench -p everynode-cli --bench dashboard [-- NODES]`

#![forbid(unsafe_code)]

#[path = "../e2e/world/browser.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod browser;
mod sandbox;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use browser::Browser;
use sandbox::{PROGRAM, Sandbox};
use serde_json::Value;

const NODES: u32 = 5_000;
const RUNS: usize = 5;
/// The maximum of the median time to the first sight.
const FIRST_SIGHT_MAX: Duration = Duration::from_millis(300);
/// The maximum of the median time from a change to its sight.
const VISIBLE_MAX: Duration = Duration::from_secs(1);
/// The time between two changes. An update may be under way when one comes, as for a person.
const CHANGE_INTERVAL: Duration = Duration::from_millis(1_700);
/// How long the page of a rollout is watched.
const WATCHED: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum time to wait; only a hanging browser takes longer.
const fn deadline() -> Duration {
    Duration::from_secs(120)
}

#[tokio::main]
async fn main() -> Result<()> {
    let asked = std::env::args().find_map(|argument| argument.parse().ok());
    let nodes: u32 = asked.unwrap_or(NODES);
    let Some(program) = browser::program()? else { return Ok(()) };
    let directory = tempfile::tempdir()?;
    let manifest = directory.path().join("agent.yaml");
    std::fs::write(&manifest, text("v1"))?;
    let manifest = manifest.display().to_string();
    let sandbox = Sandbox::start(&["--nodes", &nodes.to_string(), "--apply", &manifest])?;
    let (mut dashboard, url) = dashboard(&sandbox)?;
    let result = measure(nodes, &sandbox, directory.path(), &url, &program).await;
    sandbox::end(&mut dashboard);
    result
}

async fn measure(
    nodes: u32,
    sandbox: &Sandbox,
    directory: &Path,
    url: &str,
    program: &Path,
) -> Result<()> {
    let mut browser = Browser::start(program).await?;
    let begun = Instant::now();
    browser.open(url).await?;
    browser.shows("1 done").await?;
    println!("{nodes} nodes, 1 DaemonSet, median of {RUNS} loads");
    println!("list, first load: {}", ms(begun.elapsed()));
    let base = browser.value("document.baseURI").await?;
    let base = base.as_str().context("a base")?.to_owned();
    let page = format!("{base}ds/infra/agent");
    // The first visit: nothing of the DaemonSet has been read.
    let begun = Instant::now();
    browser.open(&page).await?;
    println!("DaemonSet, first load: {}", ms(first_paint(&mut browser).await?));
    browser.holds("!!document.querySelector('svg.map')").await?;
    println!("  with its map: {}", ms(begun.elapsed()));

    std::fs::write(directory.join("next.yaml"), text("v2"))?;
    let applied = Command::new("kubectl")
        .args(["apply", "-f", "next.yaml"])
        .current_dir(directory)
        .env("KUBECONFIG", sandbox.kubeconfig())
        .output()?;
    ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    browser.shows("rolling").await?;
    let mut slow = Vec::new();
    for (name, url) in [("list", &base), ("DaemonSet in a rollout", &page)] {
        let mut times = Vec::new();
        for _ in 0..RUNS {
            browser.open(url).await?;
            times.push(first_paint(&mut browser).await?);
        }
        times.sort();
        println!("{name}, first sight: {}, slowest {}", ms(times[RUNS / 2]), ms(times[RUNS - 1]));
        if times[RUNS / 2] > FIRST_SIGHT_MAX {
            slow.push(name);
        }
    }
    let mut late = Vec::new();
    for (name, url) in [("list", &base), ("DaemonSet in a rollout", &page)] {
        browser.open(url).await?;
        let mut times = Vec::new();
        for run in 0..2 * RUNS {
            tokio::time::sleep(CHANGE_INTERVAL).await;
            times.push(visible(&mut browser, sandbox, run % 2 == 0).await?);
        }
        times.sort();
        let (median, slowest) = (times[RUNS], times[2 * RUNS - 1]);
        println!("{name}, a change is visible after: {}, slowest {}", ms(median), ms(slowest));
        if median > VISIBLE_MAX {
            late.push(name);
        }
    }
    updates(&mut browser).await?;
    ensure!(late.is_empty(), "changes visible after {}: {}", ms(VISIBLE_MAX), late.join(", "));
    ensure!(slow.is_empty(), "first sight after {}: {}", ms(FIRST_SIGHT_MAX), slow.join(", "));
    Ok(())
}

/// Pauses or resumes the rollout. The time from the answer of the API server until the page shows
/// another state.
async fn visible(browser: &mut Browser, sandbox: &Sandbox, pauses: bool) -> Result<Duration> {
    browser.watch_state().await?;
    let annotation = if pauses { "everynode.dev/paused=true" } else { "everynode.dev/paused-" };
    let annotated = Command::new("kubectl")
        .args(["annotate", "daemonset", "agent", "--namespace", "infra", annotation])
        .env("KUBECONFIG", sandbox.kubeconfig())
        .output()?;
    let accepted = Instant::now();
    ensure!(annotated.status.success(), "{}", String::from_utf8_lossy(&annotated.stderr));
    browser.state_changed().await?;
    Ok(accepted.elapsed())
}

/// The time from the start of the navigation until the browser has painted content.
async fn first_paint(browser: &mut Browser) -> Result<Duration> {
    let paint = "performance.getEntriesByName('first-contentful-paint')";
    browser.holds(&format!("{paint}.length > 0")).await?;
    let at = browser.value(&format!("{paint}[0].startTime")).await?;
    Ok(Duration::from_secs_f64(at.as_f64().context("a time")? / 1000.0))
}

/// The number of updates, and the longest time for which the page was busy.
async fn updates(browser: &mut Browser) -> Result<()> {
    browser
        .value(
            "(() => { window.longest = 0; window.updates = 0; \
             new PerformanceObserver(list => list.getEntries().forEach(it => { \
             longest = Math.max(longest, it.duration); })).observe({type: 'longtask'}); \
             new MutationObserver(() => updates++).observe(document.getElementById('map'), \
             {childList: true}); })()",
        )
        .await?;
    tokio::time::sleep(WATCHED).await;
    let found: Value = browser.value("[updates, longest]").await?;
    let seconds = WATCHED.as_secs();
    println!(
        "map: {} updates in {seconds} s, the page busy for {} ms at most (0: less than 50)",
        found[0], found[1]
    );
    Ok(())
}

/// A running dashboard, and its URL.
fn dashboard(sandbox: &Sandbox) -> Result<(Child, String)> {
    let mut process = Command::new(PROGRAM)
        .arg("dashboard")
        .env("KUBECONFIG", sandbox.kubeconfig())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = process.stdout.take().context("its output is piped")?;
    let mut url = String::new();
    BufReader::new(output).read_line(&mut url)?;
    Ok((process, url.trim().to_owned()))
}

fn ms(duration: Duration) -> String {
    format!("{:.0} ms", duration.as_secs_f64() * 1000.0)
}

fn text(version: &str) -> String {
    format!(
        "apiVersion: v1
kind: Namespace
metadata: {{name: infra}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: agent, namespace: infra}}
spec:
  selector: {{matchLabels: {{app: agent}}}}
  updateStrategy: {{type: RollingUpdate, rollingUpdate: {{maxUnavailable: 10}}}}
  template:
    metadata: {{labels: {{app: agent}}}}
    spec:
      containers: [{{name: agent, image: \"example.com/agent:{version}\"}}]
"
    )
}
