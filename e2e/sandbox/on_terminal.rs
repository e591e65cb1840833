//! The output of the operators' commands on a terminal: columns within its width, and colours. The
//! output into a pipe is covered by the transcripts and by `insight.rs`; `watch` has its own tests.

use anyhow::{Context, Result, ensure};
use expect_test::expect_file;
use kube::api::ListParams;
use serde_json::json;

use super::conversation::normalize::answer;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::terminal::Terminal;
use crate::world::{Setup, World, eventually};

/// No line is broken sooner or later with the length of the namespace.
const SIZE: (u16, u16) = (98, 40);

/// C41, C46: every command on a rollout that waits until somebody deletes the old pods.
#[tokio::test(flavor = "multi_thread")]
async fn each_command_prints_colours_and_fits_the_terminal() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    let manifest = awaits_deletion(&world).await?;
    let mut transcript = String::new();
    for arguments in [
        &["top"][..],
        &["status", "agent", "--no-wait"],
        &["explain", "agent"],
        &["explain", "agent", "--node", "node-0002"],
        &["plan", "-f", &manifest, "--start-up", "20s"],
        &["history", "agent"],
        &["diff", "agent"],
        &["undo", "agent", "--dry-run"],
        &["undo", "agent"],
        &["restart", "agent"],
    ] {
        let mut terminal = Terminal::start(&world, arguments, SIZE)?;
        let code = terminal.finished()?.code().context("no signal ended it")?;
        let colours = if terminal.has_colours() { "colours" } else { "no colours" };
        let line = arguments.join(" ").replace(&manifest, "agent.json");
        let text = answer(&terminal.text(), &world.namespace);
        transcript += &format!("$ everynode {line}\n{text}({colours}, exit code {code})\n\n");
    }
    expect_file!["on_terminal.txt"].assert_eq(&transcript);
    Ok(())
}

/// Rolls out, and changes the template. Returns the path of the first manifest.
async fn awaits_deletion(world: &World) -> Result<String> {
    let strategy = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
    let agent = with(daemon_set("agent"), strategy);
    world.roll_out(&agent).await?;
    world.pods_have_aged("agent").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    eventually("the new template is observed", async || {
        let revisions = world.revisions().list(&ListParams::default()).await?.items.len();
        ensure!(revisions == 2, "{revisions} revisions");
        let found = world.daemon_sets().get("agent").await?;
        let observed = found.status.and_then(|status| status.observed_generation);
        ensure!(observed == found.metadata.generation, "the status is that of {observed:?}");
        Ok(())
    })
    .await?;
    let manifest = world.directory.path().join("agent.json");
    std::fs::write(&manifest, agent.to_string())?;
    Ok(manifest.to_str().context("a path of UTF-8")?.to_owned())
}
