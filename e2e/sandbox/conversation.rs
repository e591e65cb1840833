//! Transcripts of sessions with kubectl and the commands of everynode, compared word for word.
//!
//! Each file of e2e/sandbox/conversation is one session with its own sandbox. A shell runs each
//! line that starts with `$ ` (kubectl and everynode are in its path). `< ` lines are standard
//! input. The following lines are the output of both streams, and `! CODE` a nonzero exit code. `--
//! or --` separates outputs that depend on kubectl's version; `[1.28..]` or `[..1.27]` after the
//! `$` limits a command to versions of kubectl, and a line `# kubectl 1.32..` at the start all of
//! them. Ages, UIDs, ports and the like are replaced by their kind: `<age>`.
//! `EVERYNODE_UPDATE=replace` writes the actual output to the file; `=append` adds it as an
//! alternative.

pub(crate) mod normalize;
pub(crate) mod script;

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::world::process::everynode_program;
use crate::world::{Setup, World};
use script::{Entry, Script};

/// Maximum time for which a read command is repeated until its output is as expected.
const LOOK_DEADLINE: Duration = Duration::from_secs(20);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// S8: watch without a terminal, its errors, and missing permissions
#[tokio::test]
async fn watch_prints_changes_as_lines_without_a_terminal() -> Result<()> {
    hold("watch").await
}

/// S3, S4, S8: apply, create, replace, edit, patch and diff, with the errors of each
#[tokio::test]
async fn objects_are_applied_edited_and_compared() -> Result<()> {
    hold("apply").await
}

/// S4, S6, S7: get, in all its forms, with list and watch
#[tokio::test]
async fn objects_are_shown_in_every_form() -> Result<()> {
    hold("get").await
}

/// S4, S10, S23: describe, label, annotate, taint, cordon, drain
#[tokio::test]
async fn nodes_and_pods_are_described_and_drained() -> Result<()> {
    hold("describe").await
}

/// S4, S9: rollout status, history, undo, restart, and set
#[tokio::test]
async fn daemon_sets_are_rolled_out_and_back() -> Result<()> {
    hold("rollout").await
}

/// S8, S10, S11: delete in every way, and wait
#[tokio::test]
async fn objects_are_deleted_in_every_way() -> Result<()> {
    hold("delete").await
}

/// S3, S12: explain, api-resources, api-versions, auth can-i
#[tokio::test]
async fn the_server_explains_itself() -> Result<()> {
    hold("discover").await
}

/// S4, S8: roles, bindings, tokens, and what they let do
#[tokio::test]
async fn roles_decide_who_may_do_what() -> Result<()> {
    hold("authorize").await
}

/// C41, C46: top, status, history, diff, undo and restart, on a terminal and piped, with the exit
/// code of each
#[tokio::test]
async fn operators_see_what_holds_up_a_rollout_and_restore_templates() -> Result<()> {
    hold("operate").await
}

/// S8: errors name the missing permission and the user, and the commands print what they can
#[tokio::test]
async fn operators_without_a_permission_are_told_which_one() -> Result<()> {
    hold("rights").await
}

/// S8, S9, S12: the sandbox rejects what a real cluster rejects, with the same messages
#[tokio::test]
async fn invalid_requests_are_rejected_with_upstreams_messages() -> Result<()> {
    hold("refuse").await
}

async fn hold(name: &str) -> Result<()> {
    let setup = Setup { nodes: 3, ..Setup::default() };
    let world = World::sandbox(setup).await?;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/sandbox/conversation");
    hold_in(&world, &Path::new(root).join(format!("{name}.txt")), None).await
}

/// Holds the session of a file in a cluster, in a namespace other than that of the kubeconfig if
/// one is given.
pub(crate) async fn hold_in(world: &World, path: &Path, namespace: Option<&str>) -> Result<()> {
    let mut script = Script::read(path)?;
    let shell = Shell::new(world, namespace).await?;
    let update = std::env::var("EVERYNODE_UPDATE").ok();
    let is_for = script.is_for(shell.version);
    let mut wrong = Vec::new();
    for entry in &mut script.entries {
        if !is_for || !entry.is_for(shell.version) {
            continue;
        }
        let answer = shell.ask(world, entry).await?;
        if entry.expects(&answer) {
            continue;
        }
        match update.as_deref() {
            Some("append") => entry.answers.push(answer),
            Some(_) => entry.answers = vec![answer],
            None => wrong.push(entry.difference(&answer)),
        }
    }
    if update.is_some() {
        script.write(path)?;
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{}: {} answers are not as expected\n\n{}", path.display(), wrong.len(), wrong.join("\n"))
}

/// A shell with kubectl in its path, in its own directory.
struct Shell {
    path: String,
    home: PathBuf,
    /// The version of kubectl: (1, 32).
    version: (u32, u32),
}

impl Shell {
    async fn new(world: &World, namespace: Option<&str>) -> Result<Shell> {
        let program = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
        let found = Command::new("sh").args(["-c", "command -v \"$0\"", &program]).output().await?;
        let program = String::from_utf8(found.stdout)?.trim().to_owned();
        let home = world.directory.path().join("home");
        let binaries = home.join("bin");
        std::fs::create_dir_all(&binaries)?;
        let kubectl = binaries.join("kubectl");
        match namespace {
            None => symlink(&program, kubectl)?,
            Some(namespace) => {
                let text = format!("#!/bin/sh\nexec '{program}' --namespace={namespace} \"$@\"\n");
                std::fs::write(&kubectl, text)?;
                std::fs::set_permissions(&kubectl, Permissions::from_mode(0o755))?;
            }
        }
        for name in ["everynode", "kubectl-everynode", "kubectl_complete-everynode"] {
            symlink(everynode_program(), binaries.join(name))?;
        }
        let rest = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{rest}", binaries.display());
        let version = version(&program).await?;
        Ok(Shell { path, home, version })
    }

    /// Runs one line. A command that reads the cluster is repeated until its output is as expected,
    /// since the state may still be changing.
    async fn ask(&self, world: &World, entry: &Entry) -> Result<String> {
        let started = Instant::now();
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        loop {
            let answer = self.run(world, entry).await?;
            let is_look = [
                "kubectl get",
                "kubectl describe",
                "kubectl events",
                "everynode top",
                "everynode history",
                "cat ",
            ];
            let is_look = is_look.iter().any(|start| entry.command.starts_with(start));
            let expected = entry.expects(&answer) || entry.answers.is_empty();
            if expected || !is_look || started.elapsed() > LOOK_DEADLINE {
                return Ok(answer);
            }
            looks.tick().await;
        }
    }

    async fn run(&self, world: &World, entry: &Entry) -> Result<String> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{{ {}\n}} 2>&1", entry.command)]).current_dir(&self.home);
        command.env("PATH", &self.path);
        let output = world.finish(command, &entry.input).await?;
        let mut answer = normalize::answer(&output.stdout, &world.namespace);
        if output.code != 0 {
            answer.push_str(&format!("! {}\n", output.code));
        }
        Ok(answer)
    }
}

async fn version(program: &str) -> Result<(u32, u32)> {
    let arguments = ["version", "--client", "--output=json"];
    let output = Command::new(program).args(arguments).output().await?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let number = |field: &str| {
        let text = document["clientVersion"][field].as_str().unwrap_or_default();
        text.trim_end_matches('+').parse::<u32>().with_context(|| format!("kubectl's {field}"))
    };
    Ok((number("major")?, number("minor")?))
}
