//! Commands that run to completion: kubectl, scripts, `everynode` itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::{World, deadline};

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Output {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// The standard output; fails if the command failed.
    pub(crate) fn ok(self) -> Result<String> {
        ensure!(self.code == 0, "exit code {}: {}{}", self.code, self.stderr, self.stdout);
        Ok(self.stdout)
    }
}

impl World {
    /// Runs kubectl in the test's namespace; fails if kubectl fails.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = self.try_kubectl(arguments).await?;
        output.ok().with_context(|| format!("kubectl {}", arguments.join(" ")))
    }

    pub(crate) async fn try_kubectl(&self, arguments: &[&str]) -> Result<Output> {
        self.kubectl_with_input(arguments, "").await
    }

    pub(crate) async fn kubectl_with_input(
        &self,
        arguments: &[&str],
        input: &str,
    ) -> Result<Output> {
        let program = std::env::var_os("KUBECTL").unwrap_or_else(|| OsString::from("kubectl"));
        let mut command = Command::new(program);
        command.args(["--namespace", &self.namespace]).args(arguments);
        self.finish(command, input).await
    }

    /// Runs a command with this cluster's kubeconfig and a separate home directory.
    pub(crate) async fn finish(&self, mut command: Command, input: &str) -> Result<Output> {
        command.env("KUBECONFIG", &self.kubeconfig);
        finish(command, self.directory.path(), input).await
    }
}

/// Runs a command with a deadline, and without the user's settings.
pub(crate) async fn finish(mut command: Command, home: &Path, input: &str) -> Result<Output> {
    command.env("HOME", home).env("TMPDIR", home).env_remove("NO_COLOR").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = format!("{:?}", command.as_std());
    let mut child = command.spawn().with_context(|| format!("start {name}"))?;
    let mut stdin = child.stdin.take().context("standard input is a pipe")?;
    let input = input.to_owned();
    tokio::spawn(async move {
        // A command that doesn't read its input may have ended already.
        let _ = stdin.write_all(input.as_bytes()).await;
    });
    let output = tokio::time::timeout(deadline(), child.wait_with_output());
    let output = output.await.with_context(|| format!("{name} hangs"))??;
    Ok(Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The Python of the environment that make creates.
pub(crate) fn python() -> Result<PathBuf> {
    let made = || concat!(env!("CARGO_MANIFEST_DIR"), "/../target/venv/bin/python").into();
    let python = PathBuf::from(std::env::var_os("EVERYNODE_PYTHON").unwrap_or_else(made));
    ensure!(python.exists(), "{} is missing: `make tools` sets it up", python.display());
    Ok(python)
}
