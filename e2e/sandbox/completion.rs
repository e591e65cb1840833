//! Shell completion in real shells, at a prompt, with the Tab key.

use std::path::Path;

use anyhow::{Context, Result};

use crate::world::manifest::daemon_set;
use crate::world::process::everynode_program;
use crate::world::terminal::Terminal;
use crate::world::{Setup, World};

const SIZE: (u16, u16) = (120, 30);

/// How to start a shell without the user's settings, and the line that enables completion.
struct Shell {
    program: &'static str,
    /// True if the tests do without it where it is not installed.
    is_optional: bool,
    arguments: &'static [&'static str],
    settings: &'static str,
}

const SHELLS: [Shell; 3] = [
    Shell {
        program: "bash",
        is_optional: false,
        arguments: &["--norc", "--noprofile", "-i"],
        settings: "source <(everynode completion bash)",
    },
    Shell {
        program: "zsh",
        is_optional: true,
        arguments: &["-f", "-i"],
        settings: "autoload -U compinit; compinit -u; source <(everynode completion zsh)",
    },
    Shell {
        program: "fish",
        is_optional: true,
        arguments: &["--no-config"],
        settings: "everynode completion fish | source",
    },
];

/// Names of DaemonSets and nodes come from the cluster, and the completed line can be executed.
#[tokio::test]
async fn every_shell_completes_names_of_the_cluster_on_tab() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    for shell in SHELLS {
        if shell.is_optional && is_missing(shell.program) {
            eprintln!(
                "skipped: {} is not installed, so its completion is not tried",
                shell.program
            );
            continue;
        }
        completes(&world, &shell).await.with_context(|| format!("in {}", shell.program))?;
    }
    Ok(())
}

async fn completes(world: &World, shell: &Shell) -> Result<()> {
    let mut terminal = Terminal::with(world, shell.program, shell.arguments, SIZE)?;
    let directory =
        Path::new(everynode_program()).parent().context("a program is in a directory")?;
    let path = format!("export PATH={}:$PATH", directory.display());
    // The quotes distinguish the typed text from the expected output.
    terminal.press(&format!("{path}; {}; echo 're'ady\r", shell.settings))?;
    terminal.shows("ready").await?;
    let namespace = &world.namespace;
    // Only one name, and no option, so it is inserted at once.
    terminal.press(&format!("everynode status -n {namespace} \t"))?;
    terminal.shows(&format!("status -n {namespace} agent")).await?;
    terminal.press("--no-wait\r")?;
    terminal.shows("rolled out").await?;
    terminal.press(&format!("everynode expl\t-n {namespace} ds/ag\t"))?;
    terminal.shows(&format!("explain -n {namespace} ds/agent")).await?;
    terminal.press("--node no\t")?;
    terminal.shows("ds/agent --node node-0001").await?;
    terminal.press("\r")?;
    terminal.shows("node node-0001 (zone zone-a) should run a pod").await
}

fn is_missing(program: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    });
    !found
}
