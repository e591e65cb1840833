//! Child processes that end with their test, and a limit for the number of concurrent sandboxes.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum number of concurrent sandboxes; more would only slow each other down.
const SANDBOXES_MAX: usize = 6;

/// Names the program under test. Without it the tests build the program themselves.
const PROGRAM: &str = "EVERYNODE_PROGRAM";

/// Options of `everynode run` that soon replace a connection that transfers nothing any more.
pub(crate) const SHORT_PINGS: [&str; 2] = ["--http2-ping-interval=1s", "--http2-ping-timeout=1s"];

/// The path of the program under test.
pub(crate) fn everynode_program() -> &'static str {
    static PATH: LazyLock<String> = LazyLock::new(|| match std::env::var(PROGRAM) {
        Ok(path) => path,
        Err(_) => build().expect("cargo builds the program under test"),
    });
    &PATH
}

/// Builds the program in the profile of this test, whose path is `PROFILE/deps/e2e-…`.
fn build() -> Result<String> {
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).context("a test is in a folder of its profile")?;
    let profile = match folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "everynode-cli", "--profile", profile]);
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    ensure!(status.success(), "{cargo:?}: {status}");
    Ok(folder.join("everynode").to_string_lossy().into_owned())
}

pub(crate) struct Process {
    child: Child,
    output: PathBuf,
}

impl Process {
    /// Starts `everynode` with its output in a file of the directory.
    pub(crate) fn everynode(directory: &Path, name: &str, arguments: &[&str]) -> Result<Process> {
        Process::everynode_with(directory, name, arguments, None)
    }

    /// Starts `everynode` with KUBECONFIG set.
    pub(crate) fn everynode_with(
        directory: &Path,
        name: &str,
        arguments: &[&str],
        kubeconfig: Option<&Path>,
    ) -> Result<Process> {
        let variables = kubeconfig.map(|path| ("KUBECONFIG", path.as_os_str()));
        Process::everynode_in(directory, name, arguments, variables.as_slice())
    }

    /// Starts `everynode` with these environment variables.
    pub(crate) fn everynode_in(
        directory: &Path,
        name: &str,
        arguments: &[&str],
        variables: &[(&str, &OsStr)],
    ) -> Result<Process> {
        let mut command = Command::new(everynode_program());
        command.args(arguments).env_remove("KUBECONFIG").envs(variables.iter().copied());
        Process::start(directory, name, command)
    }

    /// Starts any program with its output in a file of the directory.
    pub(crate) fn start(directory: &Path, name: &str, mut command: Command) -> Result<Process> {
        let output = directory.join(format!("{}.log", unique(name)));
        let file = File::create(&output)?;
        let child = command
            .env("HOME", directory)
            .env("TMPDIR", directory)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        Ok(Process { child, output })
    }

    /// Starts `everynode` with another destination for standard error.
    pub(crate) fn everynode_with_stderr(
        directory: &Path,
        arguments: &[&str],
        kubeconfig: &Path,
        stderr: Stdio,
    ) -> Result<Process> {
        let output = directory.join(format!("{}.log", unique("run")));
        let mut command = Command::new(everynode_program());
        command.args(arguments).env("KUBECONFIG", kubeconfig).env("HOME", directory);
        command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(stderr);
        Ok(Process { child: command.spawn().context("start everynode")?, output })
    }

    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("everynode ended with {status}:\n{}", self.output()),
            None => Ok(()),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The output so far.
    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let status =
            Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status()?;
        if status.success() { Ok(()) } else { bail!("kill -s {name} failed") }
    }

    /// Sends SIGTERM; returns the exit status and the time until the end.
    pub(crate) async fn terminate(&mut self) -> Result<(ExitStatus, Duration)> {
        self.signal("TERM")?;
        self.ended().await
    }

    pub(crate) async fn ended(&mut self) -> Result<(ExitStatus, Duration)> {
        let started = Instant::now();
        let status = super::eventually("the process ends", async || {
            self.child.try_wait()?.with_context(|| format!("it runs on:\n{}", self.output()))
        });
        Ok((status.await?, started.elapsed()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {}:\n{}", self.output.display(), self.output());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills a process of this test, which has not been waited for.
pub(crate) fn end(id: u32) {
    // To `kill`, zero means the whole group.
    assert_ne!(id, 0, "the process has started");
    let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
}

/// A name that no other test uses on the same cluster.
pub(crate) fn unique(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The permission to use a cluster.
pub(crate) struct Permit;

static IN_USE: Mutex<usize> = Mutex::new(0);
static RETURNED: Condvar = Condvar::new();

impl Permit {
    /// Waits for a permit; blocks the test's own thread.
    pub(crate) fn acquire() -> Permit {
        let in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        // On a shared cluster, the taints of one test would affect the others.
        let shared = std::env::var_os(super::EXTERNAL).is_some();
        let clusters_max = if shared { 1 } else { SANDBOXES_MAX };
        let full = |in_use: &mut usize| *in_use >= clusters_max;
        *RETURNED.wait_while(in_use, full).unwrap_or_else(PoisonError::into_inner) += 1;
        Permit
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *IN_USE.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        RETURNED.notify_one();
    }
}

/// Sends a minimal GET request; returns the code and the complete answer.
pub(crate) async fn get(address: &str, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let code = answer.split_whitespace().nth(1).context("no status line")?.parse()?;
    Ok((code, answer))
}
