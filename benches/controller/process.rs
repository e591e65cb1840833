//! The controller's process and its resource usage.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::sandbox::{PROGRAM, end};

const PATIENCE: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running `everynode run`, which ends when dropped.
pub struct Controller {
    process: Child,
    started: Instant,
    /// When the controller reported that it is ready.
    ready: Instant,
}

/// The resource usage of a process.
#[derive(Clone, Copy)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    pub memory_kilobytes: u64,
    pub memory_kilobytes_max: u64,
}

impl Controller {
    /// Returns when all lists are complete.
    pub async fn start(kubeconfig: &Path) -> anyhow::Result<Controller> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let started = Instant::now();
        let process = Command::new(PROGRAM)
            .args(["run", "--leader-elect=false", "--log-level=warn"])
            .arg(format!("--http={address}"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .spawn()?;
        let mut controller = Controller { process, started, ready: started };
        while !is_ready(address) {
            ensure!(started.elapsed() < PATIENCE, "the controller is not ready");
            if let Some(status) = controller.process.try_wait()? {
                bail!("the controller ended: {status}");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        controller.ready = Instant::now();
        Ok(controller)
    }

    /// The time from the start until readiness.
    pub fn time_to_ready(&self) -> Duration {
        self.ready - self.started
    }

    /// The current usage.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        let status = self.proc("status")?;
        Ok(Usage {
            cpu: cpu_time(&self.proc("stat")?).context("the form of stat")?,
            memory_kilobytes: kilobytes(&status, "VmRSS:"),
            memory_kilobytes_max: kilobytes(&status, "VmHWM:"),
        })
    }

    /// The CPU time as `usage().cpu`, but in nanoseconds instead of ticks, and only of existing
    /// threads.
    pub fn run_time(&self) -> anyhow::Result<Duration> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            nanoseconds += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    fn proc(&self, file: &str) -> anyhow::Result<String> {
        Ok(fs::read_to_string(format!("/proc/{}/{file}", self.process.id()))?)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// The CPU time from fields 14 and 15 of /proc/PID/stat, in ticks of 10 ms. The second field may
/// contain spaces.
fn cpu_time(stat: &str) -> Option<Duration> {
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

fn kilobytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}
