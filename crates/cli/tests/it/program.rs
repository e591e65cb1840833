//! Runs of the program without a cluster.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_everynode");

/// Maximum time that a run takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Output {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `everynode` without the user's settings. `{dir}` in an argument stands for the directory.
pub(crate) async fn everynode(directory: &Path, arguments: &[&str], input: &str) -> Result<Output> {
    let directory_name = directory.to_string_lossy();
    let mut command = Command::new(PROGRAM);
    command.args(arguments.iter().map(|argument| argument.replace("{dir}", &directory_name)));
    command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
    command.env("HOME", directory).env("TMPDIR", directory).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("start everynode")?;
    let mut stdin = child.stdin.take().context("standard input is a pipe")?;
    let input = input.to_owned();
    tokio::spawn(async move {
        // A command that doesn't read its input may have ended already.
        let _ = stdin.write_all(input.as_bytes()).await;
    });
    let output = tokio::time::timeout(DEADLINE, child.wait_with_output());
    let output = output.await.with_context(|| format!("everynode {arguments:?} hangs"))??;
    Ok(Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
