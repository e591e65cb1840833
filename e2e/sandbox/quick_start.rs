//! Executes the commands of docs/quick-start.md.

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::world::process::everynode_program;
use crate::world::{Setup, World};

const PAGE: &str = include_str!("../../docs/quick-start.md");
/// The section with the commands in another terminal, after the start of the sandbox.
const BEGIN: &str = "The rest happens in another terminal";
const END: &str = "## Your own nodes";

#[tokio::test]
async fn the_commands_of_the_quick_start_work() -> Result<()> {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/fluentd-elasticsearch.yaml");
    let arguments = ["--zones", "3", "--apply", example];
    let setup = Setup { nodes: 20, arguments: &arguments, ..Setup::default() };
    ensure!(PAGE.contains(
        "everynode sandbox --nodes 20 --zones 3 --apply examples/fluentd-elasticsearch.yaml"
    ));
    let world = World::sandbox(setup).await?;
    let (_, part) = PAGE.split_once(BEGIN).context("the page has another beginning")?;
    let (part, _) = part.split_once(END).context("the page has another end")?;
    let commands: Vec<&str> = commands(part).collect();
    ensure!(commands.len() > 20, "only {commands:?}");
    for command in commands {
        let output = world.finish(shell(command), "").await?;
        let is_to_fail = command.ends_with("# times out");
        ensure!((output.code != 0) == is_to_fail, "{command}: {output:?}");
    }
    Ok(())
}

/// The lines of the shell blocks, except the one that sets KUBECONFIG, which the test does.
pub(super) fn commands(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .flat_map(str::lines)
        .map(str::trim_start)
        .filter(|line| ["kubectl ", "everynode "].iter().any(|program| line.starts_with(program)))
}

/// Runs a line with the kubectl of the tests and the program under test.
pub(super) fn shell(line: &str) -> Command {
    let kubectl = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let mut command = Command::new("sh");
    let line = match line.strip_prefix("everynode ") {
        Some(arguments) => format!("{} {arguments}", everynode_program()),
        None => line.replacen("kubectl", &kubectl, 1),
    };
    let line = line.replace("| everynode ", &format!("| {} ", everynode_program()));
    command.args(["-c", &line]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    command
}
