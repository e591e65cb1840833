//! The performance targets of the program (S25), measured from outside: the built `everynode
//! sandbox` with its own controller, over HTTPS.
//!
//! `cargo bench -p everynode-cli --bench sizes [-- NODES DAEMONSETS]`

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

const PROGRAM: &str = env!("CARGO_BIN_EXE_everynode");
const SETTLE_MAX: &str = "15m";
const MEASURED: Duration = Duration::from_secs(5);
const WRITERS: usize = 8;
const WATCHERS: usize = 50;

fn main() -> Result<()> {
    let asked: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    if let [nodes, sets] = asked[..] {
        println!("{SETTLE_HEADER}");
        return settle(nodes, sets);
    }
    start_up()?;
    println!("\n{SETTLE_HEADER}");
    for (nodes, sets) in [(10, 1), (1_000, 1), (5_000, 1), (10_000, 3)] {
        settle(nodes, sets)?;
    }
    throughput()
}

/// The time until the API server with 10 nodes accepts connections.
fn start_up() -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..5 {
        let directory = tempfile::tempdir()?;
        let start = Instant::now();
        let sandbox = Sandbox::start(directory.path(), &["--no-controller", "--nodes", "10"])?;
        times.push(start.elapsed());
        drop(sandbox);
    }
    times.sort();
    println!(
        "start-up with 10 nodes: median {} of {} runs",
        ms(times[times.len() / 2]),
        times.len()
    );
    Ok(())
}

const SETTLE_HEADER: &str =
    " nodes daemonsets |      wall |       CPU |  peak RSS   (until all are available)";

/// The time from the start of the program until every DaemonSet is available on every node.
fn settle(nodes: u32, sets: u32) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(PROGRAM);
    command.args(["sandbox", "--exit-when-settled", "--timeout", SETTLE_MAX]);
    command.args(["--nodes", &nodes.to_string(), "--zones", "3"]);
    for set in 1..=sets {
        let manifest = directory.path().join(format!("agent-{set}.yaml"));
        fs::write(&manifest, daemon_set(set))?;
        command.arg("--apply").arg(manifest);
    }
    let errors = directory.path().join("stderr");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&errors)?);
    let start = Instant::now();
    let mut child = command.spawn().context("start everynode")?;
    let mut usage = Usage::default();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        usage = Usage::of(&child).unwrap_or(usage);
        std::thread::sleep(Duration::from_millis(5));
    };
    if !status.success() {
        bail!("{nodes} nodes, {sets} DaemonSets: {status}: {}", fs::read_to_string(errors)?);
    }
    let (wall, cpu) = (ms(start.elapsed()), ms(usage.cpu));
    println!(
        "{nodes:>6} {sets:>10} | {wall:>9} | {cpu:>9} | {:>5} MiB",
        usage.peak_kilobytes / 1024
    );
    Ok(())
}

/// The resource usage of a process so far.
#[derive(Clone, Copy, Default)]
struct Usage {
    cpu: Duration,
    peak_kilobytes: u64,
}

impl Usage {
    /// `None` if the process has ended.
    fn of(child: &Child) -> Option<Usage> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", child.id())).ok();
        let status = read("status")?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let stat = read("stat")?;
        // After the name in parentheses: state is field 3, user and system time are fields 14 and
        // 15, in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        Some(Usage {
            cpu: Duration::from_millis(ticks * 10),
            peak_kilobytes: peak.trim().strip_suffix(" kB")?.parse().ok()?,
        })
    }
}

/// The number of writes and watch events per second of the API server over HTTPS.
fn throughput() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let sandbox = Sandbox::start(directory.path(), &["--no-controller", "--nodes", "10"])?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (writes, events) = runtime.block_on(drive(&sandbox.kubeconfig))?;
    let per_second = |count: u64| count as f64 / MEASURED.as_secs_f64();
    println!("\nwrites, {WRITERS} clients: {:.0}/s", per_second(writes));
    println!("watch events, {WATCHERS} watchers of these writes: {:.0}/s", per_second(events));
    Ok(())
}

async fn drive(kubeconfig: &Path) -> Result<(u64, u64)> {
    let config = kube::Config::from_custom_kubeconfig(
        Kubeconfig::read_from(kubeconfig)?,
        &KubeConfigOptions::default(),
    )
    .await?;
    let client = || -> Result<Api<ConfigMap>> {
        Ok(Api::default_namespaced(kube::Client::try_from(config.clone())?))
    };
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..WATCHERS {
        let (maps, counts) = (client()?, counts.clone());
        tasks.spawn(async move { watch(&maps, &counts[1]).await });
    }
    for writer in 0..WRITERS {
        let (maps, counts) = (client()?, counts.clone());
        tasks.spawn(async move { write(&maps, writer, &counts[0]).await });
    }
    // The tasks end only with an error.
    let failed = tokio::time::timeout(MEASURED, tasks.join_next()).await;
    if let Ok(Some(result)) = failed {
        result??;
    }
    let [writes, events] = [0, 1].map(|n| counts[n].load(Ordering::Relaxed));
    Ok((writes, events))
}

async fn write(maps: &Api<ConfigMap>, writer: usize, count: &AtomicU64) -> Result<()> {
    for number in 0_u64.. {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("bench-{writer}-{number}"));
        map.data = Some([("key".to_owned(), "value".repeat(20))].into());
        maps.create(&PostParams::default(), &map).await?;
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn watch(maps: &Api<ConfigMap>, count: &AtomicU64) -> Result<()> {
    let mut events = maps.watch(&WatchParams::default(), "0").await?.boxed();
    while let Some(event) = events.next().await {
        if let WatchEvent::Added(_) = event? {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    bail!("the server ended a watch")
}

/// A running sandbox, which is stopped when dropped.
struct Sandbox {
    child: Child,
    kubeconfig: std::path::PathBuf,
}

impl Sandbox {
    /// Returns when the sandbox accepts connections.
    fn start(directory: &Path, arguments: &[&str]) -> Result<Sandbox> {
        let kubeconfig = directory.join("kubeconfig");
        let child = Command::new(PROGRAM)
            .arg("sandbox")
            .args(arguments)
            .arg("--kubeconfig-out")
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start everynode")?;
        let sandbox = Sandbox { child, kubeconfig };
        let start = Instant::now();
        while sandbox.connect().is_none() {
            if start.elapsed() > Duration::from_secs(30) {
                bail!("the sandbox does not come up");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(sandbox)
    }

    fn connect(&self) -> Option<TcpStream> {
        let text = fs::read_to_string(&self.kubeconfig).ok()?;
        let address = text.split_once("https://")?.1;
        let end = address.find(|c: char| c != ':' && c != '.' && !c.is_ascii_digit())?;
        TcpStream::connect(&address[..end]).ok()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ms(duration: Duration) -> String {
    format!("{:.0} ms", duration.as_secs_f64() * 1000.0)
}

fn daemon_set(number: u32) -> String {
    format!(
        "apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent-{number}
  namespace: kube-system
  labels: {{k8s-app: agent-{number}}}
spec:
  selector:
    matchLabels: {{name: agent-{number}}}
  template:
    metadata:
      labels: {{name: agent-{number}}}
    spec:
      tolerations:
      - {{key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}}
      containers:
      - name: agent
        image: quay.io/fluentd_elasticsearch/fluentd:v5.0.1
        resources:
          limits: {{memory: 200Mi}}
          requests: {{cpu: 100m, memory: 200Mi}}
        volumeMounts:
        - {{name: varlog, mountPath: /var/log}}
      terminationGracePeriodSeconds: 30
      volumes:
      - name: varlog
        hostPath: {{path: /var/log}}
"
    )
}
