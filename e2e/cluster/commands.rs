//! The operators' commands during a successful rollout and during a stuck one.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::observe::uids;
use crate::world::command::Output;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, daemon_set, image_patch, never_ready_patch, with};
use crate::world::process::everynode_program;
use crate::world::{World, deadline, eventually};

/// C50, C52, C70: `plan`, `status`, `history`, `diff`, `undo`, `watch` and `restart` agree with the
/// state of the cluster during a successful rollout
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_planned_watched_compared_and_undone() -> Result<()> {
    let world = World::cluster(4).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let pods = uids(&world, "agent").await?;
    let next = with(daemon_set("agent"), image_patch(NEXT_IMAGE)).to_string();
    let planned = run(&world, &["plan", "-f", "-"], &next).await?;
    ensure!(planned.code == 2 && planned.stdout.contains(NEXT_IMAGE), "plan: {planned:?}");
    ensure!(uids(&world, "agent").await? == pods, "plan changed something");
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    let timeout = format!("{}s", deadline().as_secs());
    let status = run(&world, &["status", "ds/agent", "--timeout", &timeout], "").await?.ok()?;
    ensure!(status.contains("rolled out"), "status: {status}");
    let history = run(&world, &["history", "ds/agent", "-o", "json"], "").await?.ok()?;
    let history: Value = serde_json::from_str(&history)?;
    ensure!(history["items"].as_array().is_some_and(|all| all.len() == 2), "{history}");
    let diff = run(&world, &["diff", "ds/agent"], "").await?;
    ensure!(diff.stdout.contains(IMAGE) && diff.stdout.contains(NEXT_IMAGE), "diff: {diff:?}");
    run(&world, &["undo", "ds/agent"], "").await?.ok()?;
    let watched =
        run(&world, &["watch", "ds/agent", "--no-tty", "--until-done"], "").await?.ok()?;
    ensure!(watched.contains("rolled out"), "watch: {watched}");
    let undone = uids(&world, "agent").await?;
    run(&world, &["restart", "ds/agent"], "").await?.ok()?;
    run(&world, &["status", "ds/agent", "--timeout", &timeout], "").await?.ok()?;
    let restarted = uids(&world, "agent").await?;
    ensure!(restarted.is_disjoint(&undone) && restarted.len() == pods.len(), "{restarted:?}");
    Ok(())
}

/// C52, C70: `top`, `explain` and `status` report the same cause of a stuck rollout
#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_rollout_is_reported_by_every_command() -> Result<()> {
    let world = World::cluster(4).await?;
    world.roll_out(&daemon_set("agent")).await?;
    world.patch_daemon_set("agent", never_ready_patch()).await?;
    eventually("explain names the node that holds up the rollout", async || {
        let text = run(&world, &["explain", "ds/agent"], "").await?.ok()?;
        ensure!(text.contains("1 of maxUnavailable 1 used up by"), "{text}");
        Ok(())
    })
    .await?;
    let top = run(&world, &["top"], "").await?.ok()?;
    ensure!(top.lines().any(|line| line.contains("agent") && !line.contains("done")), "{top}");
    let status = run(&world, &["status", "ds/agent", "--timeout", "1s"], "").await?;
    ensure!(status.code == 3 || status.code == 4, "status: {status:?}");
    world.kubectl(&["rollout", "undo", "ds/agent"]).await?;
    world.settled("agent").await?;
    Ok(())
}

/// C70: what the API server warns of in a dry run is part of the plan
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_shows_the_servers_warnings() -> Result<()> {
    let world = World::cluster(2).await?;
    let selector = json!({"beta.kubernetes.io/os": "linux"});
    let deprecated = json!({"spec": {"template": {"spec": {"nodeSelector": selector}}}});
    let manifest = with(daemon_set("agent"), deprecated).to_string();
    let warning = "! the server warns: \
                   spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; \
                   use \"kubernetes.io/os\" instead";
    let planned = run(&world, &["plan", "-f", "-"], &manifest).await?;
    ensure!(planned.stdout.contains(warning), "{planned:?}");
    Ok(())
}

/// C71: a plan says that the server refuses the pods, unless the manifest creates what is missing
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_that_pods_are_refused() -> Result<()> {
    let world = World::cluster(2).await?;
    let class = format!("{}-high", world.namespace);
    let spec = json!({"spec": {"template": {"spec": {"priorityClassName": class}}}});
    let manifest = with(daemon_set("agent"), spec).to_string();
    let planned = run(&world, &["plan", "-f", "-"], &manifest).await?;
    let refusal = format!("no PriorityClass with name {class} was found");
    let risk = planned.stdout.lines().find(|line| line.contains(&refusal));
    let risk = risk.with_context(|| format!("{planned:?}"))?;
    ensure!(risk.starts_with("! the API server refuses its pods: "), "{risk}");
    let defined = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": class}, "value": 1000});
    let planned = run(&world, &["plan", "-f", "-"], &format!("{defined}\n---\n{manifest}")).await?;
    ensure!(!planned.stdout.contains("refuses"), "{planned:?}");
    Ok(())
}

/// C21: a plan names another DaemonSet that selects the same pods
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_names_a_shared_selector() -> Result<()> {
    let world = World::cluster(2).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let manifest = with(daemon_set("agent"), json!({"metadata": {"name": "twin"}})).to_string();
    let planned = run(&world, &["plan", "-f", "-"], &manifest).await?;
    let named = format!("! daemonset {}/agent selects its pods as well", world.namespace);
    ensure!(planned.stdout.contains(&named), "{planned:?}");
    let manifest = daemon_set("other").to_string();
    let planned = run(&world, &["plan", "-f", "-"], &manifest).await?;
    ensure!(!planned.stdout.contains("as well"), "{planned:?}");
    Ok(())
}

/// C12: a plan names the reasons if no node gets a pod
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_without_nodes_names_the_reasons() -> Result<()> {
    let world = World::cluster(2).await?;
    let selector = json!({"spec": {"template": {"spec": {"nodeSelector": {"disktype": "sdd"}}}}});
    let manifest = with(daemon_set("agent"), selector).to_string();
    let planned = run(&world, &["plan", "-f", "-"], &manifest).await?;
    let why =
        "! no node should run it: nodeSelector wants disktype=sdd, the node has no such label";
    ensure!(planned.stdout.contains(why), "{planned:?}");
    Ok(())
}

async fn run(world: &World, arguments: &[&str], input: &str) -> Result<Output> {
    let mut command = Command::new(everynode_program());
    command.args(arguments).args(["--namespace", &world.namespace]);
    world.finish(command, input).await
}
