//! A suggested policy: what it is, what `plan` says of it, and that rollouts follow it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::zones::updated_nodes;
use crate::observe::uids;
use crate::world::World;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};

/// G52, G57: a suggested policy is planned and applied as it is printed, and the next template
/// begins with its canary; with an override that the template does not allow, `plan` says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_suggested_policy_is_planned_applied_and_followed() -> Result<()> {
    let world = World::cluster(5).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let before = uids(&world, "agent").await?;
    let window = ["--window", "Mon-Sun 00:00-24:00 Europe/Berlin"];
    let suggested = world.everynode(&["rollout", "suggest", "ds/agent"]).await?;
    ensure!(suggested.stderr.contains("| everynode plan -f -"), "{suggested:?}");
    ensure!(suggested.stderr.lines().count() == 1, "{suggested:?}");
    let policy = suggested.ok()?;
    let planned = world.everynode_with_input(&["plan", "-f", "-"], &policy).await?;
    let restarts = format!("as if somebody restarted daemonset {}/agent", world.namespace);
    ensure!(planned.code == 2 && planned.stderr.contains(&restarts), "{planned:?}");
    let canary = planned.stdout.lines().find(|line| line.starts_with("canary"));
    let canary = canary.with_context(|| format!("no canary: {planned:?}"))?;
    ensure!(canary.contains("5m") && !planned.stdout.contains("! "), "{planned:?}");
    let wrong = format!(
        "{policy}  overrides: [{{name: big, nodes: {{}}, containers: [{{name: mian}}]}}]\n"
    );
    let wrong = world.everynode_with_input(&["plan", "-f", "-"], &wrong).await?;
    ensure!(wrong.stdout.contains("overrides[0].containers[0].name: Invalid value"), "{wrong:?}");
    ensure!(uids(&world, "agent").await? == before, "plan changed something");

    let json = ["rollout", "suggest", "ds/agent", "-o", "json", window[0], window[1]];
    let json: Value = serde_json::from_str(&world.everynode(&json).await?.ok()?)?;
    ensure!(json["spec"]["windows"][0]["timeZone"] == "Europe/Berlin", "{json}");
    world.kubectl_with_input(&["apply", "-f", "-"], &json.to_string()).await?.ok()?;
    world.kubectl_with_input(&["apply", "-f", "-"], &policy).await?.ok()?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "Baking").await?;
    let updated = updated_nodes(&world).await?;
    ensure!(updated.len() == 1, "{updated:?} are updated");

    let again = world.everynode(&["rollout", "suggest", "ds/agent"]).await?;
    ensure!(again.stderr.contains("already: this one would replace it"), "{again:?}");
    let wrong = ["rollout", "suggest", "ds/agent", "--window", "Mon 09:00-10:00 Europe/Bern"];
    let wrong = world.everynode(&wrong).await?;
    ensure!(wrong.code == 1 && wrong.stderr.contains("windows[0].timeZone"), "{wrong:?}");
    let missing = world.everynode(&["rollout", "suggest", "ds/agnt"]).await?;
    ensure!(missing.code == 1 && missing.stderr.contains("did you mean agent?"), "{missing:?}");
    Ok(())
}
