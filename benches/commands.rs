//! The duration of each operators' command on a large cluster: at most [`WALL_MAX`] from the start
//! of the program to its end, or to the first screen of `watch`. The cluster is a sandbox with two
//! DaemonSets on every node: one is rolled out, the other has old pods on all nodes (`OnDelete`).
//!
//! `cargo bench -p everynode-cli --bench commands [-- NODES]`

#![forbid(unsafe_code)]

mod sandbox;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sandbox::{PROGRAM, Sandbox};

const NODES: u32 = 5_000;
const RUNS: usize = 5;
const WALL_MAX: Duration = Duration::from_secs(2);
/// Maximum time to wait; only a hanging process takes longer.
const PATIENCE: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    let asked = std::env::args().find_map(|argument| argument.parse().ok());
    let nodes = asked.unwrap_or(NODES);
    let directory = tempfile::tempdir()?;
    let cluster = Cluster::start(directory.path(), nodes)?;
    println!("{nodes} nodes, 2 DaemonSets, median of {RUNS} runs");
    println!("{:<32} | {:>8} | {:>8} | {:>8}", "command", "wall", "slowest", "CPU");
    let mut slow = Vec::new();
    for (name, call) in calls(nodes) {
        let cost = cluster.cost(&call).with_context(|| format!("everynode {name}"))?;
        let Cost { median, slowest, cpu } = cost;
        println!("{name:<32} | {:>8} | {:>8} | {:>8}", ms(median), ms(slowest), ms(cpu));
        if median > WALL_MAX {
            slow.push(name);
        }
    }
    ensure!(slow.is_empty(), "slower than {}: {}", ms(WALL_MAX), slow.join(", "));
    Ok(())
}

/// The command to run, and its expected exit code.
enum Call {
    Once(Vec<String>, i32),
    /// Run in a terminal until it shows this text.
    Screen(Vec<String>, &'static str),
    /// The answer to a shell that completes the last word.
    Completion(Vec<String>),
}

fn calls(nodes: u32) -> Vec<(&'static str, Call)> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let once = |line: &str| Call::Once(words(line), 0);
    let changes = |line: &str| Call::Once(words(line), 2);
    let one = format!("explain rolled -n infra --node node-{:04}", nodes / 2);
    vec![
        ("top", once("top")),
        ("status", once("status rolled -n infra")),
        ("status --no-wait, old pods", Call::Once(words("status old -n infra --no-wait"), 3)),
        ("watch, first screen", Call::Screen(words("watch old -n infra"), "done:")),
        ("watch --until-done, piped", once("watch rolled -n infra --until-done")),
        ("explain", once("explain old -n infra")),
        ("explain --node", once(&one)),
        ("plan, no change", once("plan -f rolled.yaml")),
        ("plan, new template, 1 at a time", changes("plan -f changed.yaml")),
        ("plan, new DaemonSet", changes("plan -f new.yaml")),
        ("history", once("history old -n infra")),
        ("diff", once("diff old -n infra")),
        ("undo --dry-run", once("undo old -n infra --dry-run")),
        ("undo", once("undo old -n infra")),
        ("restart", once("restart old -n infra")),
        ("completion of DaemonSets", Call::Completion(words("explain -n infra "))),
        ("completion of nodes", Call::Completion(words("explain old -n infra --node "))),
    ]
}

struct Cost {
    median: Duration,
    slowest: Duration,
    cpu: Duration,
}

struct Cluster<'a> {
    directory: &'a Path,
    sandbox: Sandbox,
}

impl Cluster<'_> {
    fn start(directory: &Path, nodes: u32) -> Result<Cluster<'_>> {
        let rolling = "{type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}";
        for (file, text) in [
            ("rolled.yaml", manifest("rolled", "v1", rolling)),
            ("changed.yaml", manifest("rolled", "v2", rolling)),
            ("new.yaml", manifest("new", "v1", rolling)),
            ("old.yaml", manifest("old", "v1", "{type: OnDelete}")),
            ("old-changed.yaml", manifest("old", "v2", "{type: OnDelete}")),
        ] {
            fs::write(directory.join(file), text)?;
        }
        let path = |file: &str| directory.join(file).display().to_string();
        let nodes = nodes.to_string();
        let (rolled, old) = (path("rolled.yaml"), path("old.yaml"));
        let arguments = ["--nodes", &nodes, "--apply", &rolled, "--apply", &old];
        let cluster = Cluster { directory, sandbox: Sandbox::start(&arguments)? };
        let mut apply = Command::new("kubectl");
        let applied =
            cluster.with_kubeconfig(apply.args(["apply", "-f", "old-changed.yaml"])).output()?;
        ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        let begun = Instant::now();
        while cluster.once(&["history", "old", "-n", "infra", "-o", "name"])?.lines().count() < 2 {
            ensure!(begun.elapsed() < PATIENCE, "the new template has no revision");
        }
        Ok(cluster)
    }

    fn cost(&self, call: &Call) -> Result<Cost> {
        let cpu = cpu_of_children()?;
        let mut times = (0..RUNS).map(|_| self.time(call)).collect::<Result<Vec<Duration>>>()?;
        let cpu = (cpu_of_children()? - cpu) / RUNS as u32;
        times.sort();
        Ok(Cost { median: times[RUNS / 2], slowest: times[RUNS - 1], cpu })
    }

    fn time(&self, call: &Call) -> Result<Duration> {
        let begun = Instant::now();
        match call {
            Call::Once(arguments, expected) => {
                let output =
                    self.with_kubeconfig(Command::new(PROGRAM).args(arguments)).output()?;
                if output.status.code() != Some(*expected) {
                    bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
                }
                Ok(begun.elapsed())
            }
            Call::Screen(arguments, expected) => self.first_screen(arguments, expected),
            Call::Completion(words) => {
                let mut shell = Command::new(PROGRAM);
                shell.args(["--", "everynode"]).args(words).env("EVERYNODE_COMPLETE", "bash");
                shell.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
                shell.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_IFS", "\n");
                let output = self.with_kubeconfig(&mut shell).output()?;
                ensure!(!output.stdout.is_empty(), "nothing is completed");
                Ok(begun.elapsed())
            }
        }
    }

    /// The time until a terminal shows the text; then a key ends the command.
    fn first_screen(&self, arguments: &[String], expected: &str) -> Result<Duration> {
        // A pseudoterminal has no size by default, and so nothing would be drawn.
        let size = "stty cols 120 rows 40";
        let line = format!("{size}; timeout --foreground 60 {PROGRAM} {}", arguments.join(" "));
        let begun = Instant::now();
        let mut terminal = self
            .with_kubeconfig(Command::new("script").args([
                "--quiet",
                "--command",
                &line,
                "/dev/null",
            ]))
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start script")?;
        let mut shown = terminal.stdout.take().context("it is piped")?;
        let (mut text, mut bytes) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&text).contains(expected) {
            let count = shown.read(&mut bytes)?;
            ensure!(count > 0, "it ended with {}", String::from_utf8_lossy(&text));
            text.extend_from_slice(&bytes[..count]);
        }
        let took = begun.elapsed();
        terminal.stdin.take().context("it is piped")?.write_all(b"q")?;
        shown.read_to_end(&mut text)?;
        terminal.wait()?;
        Ok(took)
    }

    fn once(&self, arguments: &[&str]) -> Result<String> {
        let output = self.with_kubeconfig(Command::new(PROGRAM).args(arguments)).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn with_kubeconfig<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(self.directory).env("KUBECONFIG", self.sandbox.kubeconfig())
    }
}

/// The CPU time of all ended children and their children: fields 16 and 17 of /proc/self/stat, in
/// ticks of 10 ms.
fn cpu_of_children() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("the form of stat")?;
    let ticks: u64 = fields.split_whitespace().skip(13).take(2).flat_map(str::parse::<u64>).sum();
    Ok(Duration::from_millis(ticks * 10))
}

fn ms(duration: Duration) -> String {
    format!("{:.0} ms", duration.as_secs_f64() * 1000.0)
}

fn manifest(name: &str, version: &str, strategy: &str) -> String {
    format!(
        "apiVersion: v1
kind: Namespace
metadata: {{name: infra}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {name}, namespace: infra}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  updateStrategy: {strategy}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - name: agent
        image: example.com/agent:{version}
        resources: {{requests: {{cpu: 100m, memory: 200Mi}}}}
"
    )
}
