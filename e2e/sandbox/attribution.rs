//! Who ordered what, and why.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::world::guard::guarded;
use crate::world::manifest::{NEXT_IMAGE, image_patch};
use crate::world::{Setup, World};

/// G49: who approved a wave and why is part of the course of its rollout, and of the history
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_states_who_gave_it_and_why() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await?;
    let policy = "steps: [{name: canary, upTo: [1], approval: true}]";
    world.roll_out(&guarded("agent", policy)).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;

    let history = world.everynode(&["history", "ds/agent"]).await?.ok()?;
    ensure!(history.contains("current, awaits approval"), "{history}");

    let reason = "the graphs are green";
    let refused = ["rollout", "approve", "ds/agent", "--reason", "two\nlines"];
    let refused = world.everynode(&refused).await?;
    ensure!(refused.code == 2 && refused.stderr.contains("must be one line"), "{refused:?}");
    let approve = ["rollout", "approve", "ds/agent", "--reason", reason];
    world.everynode(&approve).await?.ok()?;
    world.reaches("agent", "Complete").await?;

    let get = world.everynode(&["rollout", "get", "ds/agent", "-o", "json"]).await?.ok()?;
    let document: Value = serde_json::from_str(&get)?;
    let course = document["course"].as_array().context("a course")?;
    let current = course.iter().filter(|event| event["revision"] == document["revision"]);
    let current: Vec<&Value> = current.collect();
    let events: Vec<&str> = current.iter().filter_map(|event| event["event"].as_str()).collect();
    ensure!(events.starts_with(&["Begun", "WaveUpdated", "Approved", "WaveBegun"]), "{get}");
    ensure!(events.ends_with(&["Completed"]), "{get}");
    ensure!(course[0]["event"] == "Adopted", "{get}");
    let approved = current[2];
    let user = approved["user"].as_str().context("the server says who asks")?;
    ensure!(approved["wave"] == "canary" && approved["reason"] == reason, "{get}");
    let text = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    let line = text.lines().find(|line| line.starts_with("approved canary")).context("a line")?;
    ensure!(line.contains(user) && line.ends_with(reason), "{text}");
    let history = world.everynode(&["history", "ds/agent"]).await?.ok()?;
    ensure!(history.contains(&format!("approved canary ({user}, as claimed: ")), "{history}");

    // A pause, and an order that says nothing.
    let pause = ["rollout", "pause", "ds/agent", "--reason", "an outage"];
    world.everynode(&pause).await?.ok()?;
    let text = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    let line = text.lines().find(|line| line.starts_with("paused")).context("a line")?;
    ensure!(line.contains(user) && line.ends_with("an outage"), "{text}");
    Ok(())
}
