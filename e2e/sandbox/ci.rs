//! `everynode sandbox -- COMMAND`, and the page about the sandbox in CI, whose blocks are executed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::world::command::{Output, finish, python};
use crate::world::process::{Process, everynode_program};
use crate::world::{eventually, manifest};

const PAGE: &str = include_str!("../../docs/ci.md");
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The command of a fixture.
const UNTIL_INPUT_ENDS: &str = "echo $KUBECONFIG; exec cat";

/// S26: the output and the exit code are those of the command, which runs in the sandbox
#[tokio::test]
async fn a_command_runs_in_a_sandbox() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let nodes = "kubectl --context everynode-sandbox get nodes -o name; exit 7";
    let arguments = ["sandbox", "--nodes", "2", "--", "sh", "-c", nodes];
    let mut command = Command::new(everynode_program());
    command.args(arguments).env("PATH", path(directory.path())?);
    let output = finish(command, directory.path(), "").await?;
    ensure!(output.code == 7, "{output:?}");
    ensure!(output.stdout == "node/node-0001\nnode/node-0002\n", "{output:?}");
    ensure!(output.stderr.contains("settled: 0 pods available"), "{output:?}");
    for (program, code, said) in
        [("/nothing", 1, "error: start /nothing: No such file"), ("false", 1, "")]
    {
        let output = sandbox(directory.path(), &["--", program]).await?;
        ensure!(output.code == code && output.stderr.contains(said), "{output:?}");
    }
    let killed = sandbox(directory.path(), &["--", "sh", "-c", "kill -KILL $$"]).await?;
    ensure!(killed.code == 128 + 9, "{killed:?}");
    Ok(())
}

/// S26: words of a command are passed on as they are, also those that everynode knows
#[tokio::test]
async fn the_words_of_a_command_stay() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let words = ["--", "echo", "rollout", "status", "ds", "agent", "--", "--nodes"];
    let output = sandbox(directory.path(), &words).await?;
    ensure!(output.stdout == "rollout status ds agent -- --nodes\n", "{output:?}");
    Ok(())
}

/// S26: a sandbox that does not settle, or is stopped before, runs no command, and fails
#[tokio::test]
async fn a_command_waits_for_the_sandbox() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut stuck = manifest::daemon_set("stuck");
    stuck["spec"]["template"]["metadata"]["annotations"] =
        json!({"sandbox.everynode.dev/lifecycle": "never-ready"});
    let file = directory.path().join("stuck.json");
    fs::write(&file, stuck.to_string())?;
    let file = file.to_string_lossy();
    let arguments = ["--apply", &file, "--timeout", "1s", "--", "echo", "run"];
    let output = sandbox(directory.path(), &arguments).await?;
    ensure!(output.code == 1 && output.stdout.is_empty(), "{output:?}");
    ensure!(output.stderr.contains("did not settle in 1s: "), "{output:?}");

    let arguments = ["sandbox", "--apply", &file, "--", "echo", "run"];
    let mut process = Process::everynode(directory.path(), "stopped", &arguments)?;
    eventually("it waits for pods", async || {
        ensure!(process.output().contains("0 of 3 pods available"), "{}", process.output());
        Ok(())
    })
    .await?;
    let (status, _) = process.terminate().await?;
    let said = process.output();
    ensure!(status.code() == Some(1) && said.contains("stopped by a signal"), "{status}: {said}");
    Ok(())
}

/// S26: the sandbox of a fixture ends when the test run does, which closes its standard input
#[tokio::test]
async fn a_sandbox_ends_with_the_input_of_its_command() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(everynode_program());
    command.args(["sandbox", "--", "sh", "-c", UNTIL_INPUT_ENDS]).env("TMPDIR", directory.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.kill_on_drop(true).spawn()?;
    let stdin = child.stdin.take().context("standard input is a pipe")?;
    let stdout = child.stdout.take().context("standard output is a pipe")?;
    let kubeconfig = BufReader::new(stdout).lines().next_line().await?.context("no line")?;
    ensure!(fs::exists(&kubeconfig)?, "there is no {kubeconfig}");
    drop(stdin);
    let status = child.wait().await?;
    ensure!(status.success() && !fs::exists(&kubeconfig)?, "{status}, {kubeconfig}");
    Ok(())
}

/// S26: SIGTERM is passed on to the command, whose exit code counts
#[tokio::test]
async fn a_command_gets_the_signal_that_ends_its_sandbox() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let waits = "trap 'exit 3' TERM; echo waiting; while :; do :; done";
    let arguments = ["sandbox", "--", "sh", "-c", waits];
    let mut process = Process::everynode(directory.path(), "terminated", &arguments)?;
    eventually("the command runs", async || {
        ensure!(process.output().contains("waiting"), "{}", process.output());
        Ok(())
    })
    .await?;
    let (status, _) = process.terminate().await?;
    ensure!(status.code() == Some(3), "{status}: {}", process.output());
    Ok(())
}

/// S26: the commands of the page work, and no sandbox stays behind
#[tokio::test]
async fn the_shell_commands_of_the_page_work() -> Result<()> {
    let directory = tempfile::tempdir()?;
    symlink(Path::new(REPOSITORY).join("examples"), directory.path().join("examples"))?;
    let scripts = blocks("sh");
    ensure!(scripts.len() == 3, "{scripts:?}");
    for script in scripts {
        let mut command = Command::new("sh");
        command.args(["-e", "-c", script]).current_dir(directory.path());
        command.env("PATH", path(directory.path())?);
        let output = finish(command, directory.path(), "").await?;
        ensure!(output.code == 0, "{script}: {output:?}");
        if script.contains("probability: 0") {
            ensure!(output.stdout.contains(r#""status":{"fired":0,"matched":1}"#), "{output:?}");
        }
    }
    eventually("the sandbox in the background ends", async || {
        ensure!(!fs::exists(directory.path().join("sandbox.conf"))?, "its kubeconfig is there");
        Ok(())
    })
    .await
}

/// S26: the fixture of the page works with pytest and the official client
#[tokio::test]
async fn the_python_of_the_page_works() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let [test] = blocks("python")[..] else { anyhow::bail!("the page has other blocks") };
    fs::write(directory.path().join("test_page.py"), test)?;
    let mut command = Command::new(python()?);
    command.args(["-m", "pytest", "--quiet"]).current_dir(directory.path());
    command.env("PATH", path(directory.path())?);
    let output = finish(command, directory.path(), "").await?;
    ensure!(output.code == 0 && output.stdout.contains("1 passed"), "{output:?}");
    Ok(())
}

/// S26: the page shows the test of a reconciler that runs with the sandbox's own tests
#[test]
fn the_rust_of_the_page_is_that_of_a_test() {
    const TEST: &str = include_str!("../../crates/sandbox/tests/it/reconciler.rs");
    let (_, code) = TEST.split_once("\n\n").expect("a first line about the file");
    assert_eq!(blocks("rust"), [code]);
}

/// Runs `everynode sandbox` with these arguments.
async fn sandbox(directory: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(everynode_program());
    command.arg("sandbox").args(arguments);
    finish(command, directory, "").await
}

/// The blocks of the page in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let parts = PAGE.split("```").skip(1).step_by(2);
    parts.filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n')).collect()
}

/// A `PATH` that begins with the program under test and the kubectl of the tests.
fn path(directory: &Path) -> Result<String> {
    let programs = directory.join("programs");
    if !programs.exists() {
        fs::create_dir(&programs)?;
        symlink(everynode_program(), programs.join("everynode"))?;
        let kubectl = std::env::var("KUBECTL").unwrap_or_default();
        if kubectl.contains('/') {
            symlink(kubectl, programs.join("kubectl"))?;
        }
    }
    let inherited = std::env::var("PATH").context("PATH")?;
    Ok(format!("{}:{inherited}", programs.display()))
}
