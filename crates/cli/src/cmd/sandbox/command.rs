//! The command that runs in a sandbox, such as a test suite: the sandbox lives as long as it does.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// Runs the command with `KUBECONFIG` set, until it ends, and returns its exit code. SIGTERM is
/// passed on to it. SIGINT and SIGHUP are not: a terminal sends them to it, too.
///
/// # Errors
/// If the command can't be started.
pub(crate) async fn run(words: &[OsString], kubeconfig: &Path) -> anyhow::Result<ExitCode> {
    let Some((program, arguments)) = words.split_first() else { bail!("the command is empty") };
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", std::path::absolute(kubeconfig)?);
    let start = || format!("start {}", program.to_string_lossy());
    let mut child = command.kill_on_drop(true).spawn().with_context(start)?;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(exit_code(status?)),
            _ = terminate.recv() => pass_on_termination(&child)?,
        }
    }
}

fn pass_on_termination(child: &Child) -> anyhow::Result<()> {
    // A command that has ended has no ID any more.
    let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    id.map_or(Ok(()), |id| kill_process(id, Signal::TERM)).context("pass SIGTERM on")
}

/// The code of the command, or the one that a shell reports if a signal has ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
