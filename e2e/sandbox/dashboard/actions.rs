//! Every action: the page before it says what will be done, and nothing is done without a yes.

use anyhow::{Context, Result, ensure};
use everynode_core::api::PAUSED_ANNOTATION;
use serde_json::json;

use super::{is_clean, opened};
use crate::world::browser::Browser;
use crate::world::guard::guarded;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, daemon_set, image_patch};
use crate::world::{Setup, World, eventually};

/// Opens the page of a DaemonSet by its path.
async fn look_at(world: &World, browser: &mut Browser, name: &str) -> Result<()> {
    let base = browser.value("document.baseURI").await?;
    let base = base.as_str().context("a base")?.to_owned();
    browser.open(&format!("{base}ds/{}/{name}", world.namespace)).await?;
    browser.holds("!!document.querySelector('#map svg.map')").await
}

/// Asks for an action, reads what it would do, and confirms it.
async fn act(
    world: &World,
    browser: &mut Browser,
    (name, action): (&str, &str),
    will: &str,
    done: &str,
) -> Result<()> {
    look_at(world, browser, name).await?;
    browser.click(&format!("#actions a[href$=\"/{action}\"]")).await?;
    browser.shows(will).await.with_context(|| format!("{action}: before"))?;
    browser.click("#confirm").await?;
    browser.holds("!!document.querySelector('#done')").await.with_context(|| action.to_owned())?;
    browser.shows(done).await.with_context(|| format!("{action}: after"))?;
    browser.click("#back").await?;
    browser.holds("!!document.querySelector('#map svg.map')").await
}

async fn image(world: &World, name: &str) -> Result<String> {
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    world.kubectl(&["get", &format!("ds/{name}"), "-o", path]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_paused_resumed_rolled_back_and_restarted() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.settled("agent").await?;
    let Some((dashboard, mut browser)) = opened(&world).await? else { return Ok(()) };
    let browser = &mut browser;

    // Without a yes nothing happens.
    look_at(&world, browser, "agent").await?;
    browser.click("#actions a[href$=\"/pause\"]").await?;
    browser.shows("No more pods are replaced").await?;
    browser.click("#back").await?;
    browser.holds("!!document.querySelector('#actions a[href$=\"/pause\"]')").await?;
    let annotations = world.daemon_sets().get("agent").await?.metadata.annotations;
    ensure!(!annotations.unwrap_or_default().contains_key(PAUSED_ANNOTATION), "it is paused");

    act(&world, browser, ("agent", "pause"), "No more pods are replaced", "paused").await?;
    world.patch_daemon_set("agent", image_patch("example.com/does-not-exist:1.0")).await?;
    browser.shows("paused: 0 of 3 pods updated").await?;
    act(&world, browser, ("agent", "resume"), "are replaced again", "resumed").await?;
    browser.shows("ImagePullBackOff").await?;
    let will = "The pod template of revision 2 is restored";
    act(&world, browser, ("agent", "undo"), will, "rolled back to revision 2").await?;
    ensure!(image(&world, "agent").await? == NEXT_IMAGE, "{}", image(&world, "agent").await?);
    world.settled("agent").await?;
    browser.shows("rolled out").await?;

    // To an older revision, from the list of revisions.
    browser.click("#revisions a").await?;
    browser.click("a[href$=\"/undo-1\"]").await?;
    browser.shows("The pod template of revision 1 is restored").await?;
    ensure!(browser.text().await?.contains(NEXT_IMAGE), "the difference is shown");
    browser.click("#confirm").await?;
    browser.shows("rolled back to revision 1").await?;
    ensure!(image(&world, "agent").await? == IMAGE, "{}", image(&world, "agent").await?);
    world.settled("agent").await?;
    let will = "All pods on 3 nodes are replaced";
    act(&world, browser, ("agent", "restart"), will, "restarted").await?;
    world.settled("agent").await?;
    ensure!(browser.errors.is_empty(), "{:?}", browser.errors);
    is_clean(&dashboard, browser)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guarded_rollout_is_approved_promoted_aborted_and_retried() -> Result<()> {
    let setup = Setup { nodes: 6, arguments: &["--zones", "3"], ..Setup::default() };
    let world = World::sandbox(setup).await?;
    let steps = "steps: [{name: canary, upTo: [1], approval: true}, \
                 {name: zones, by: topology.kubernetes.io/zone, approval: true}]";
    world.roll_out(&guarded("agent", steps)).await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    let Some((dashboard, mut browser)) = opened(&world).await? else { return Ok(()) };
    let browser = &mut browser;
    // The list leads to what it waits for, too, which stands first on the page.
    browser.click("td.reason a.primary[href$=\"/approve\"]").await?;
    browser.shows("Wave canary (1 node) is approved").await?;
    look_at(&world, browser, "agent").await?;
    browser
        .holds("!!document.querySelector('#actions li:first-child a.primary[href$=\"/approve\"]')")
        .await?;
    for expected in ["on hold", "AwaitingApproval", "canary", "wave 1 of"] {
        browser.shows(expected).await?;
    }
    let will = "Wave canary (1 node) is approved";
    act(&world, browser, ("agent", "approve"), will, "wave canary approved").await?;
    browser.shows("wave 2 of").await?;
    let will = "without waiting for wave zones";
    act(&world, browser, ("agent", "promote"), will, "promoted past wave zones").await?;
    browser.shows("wave 3 of").await?;
    act(&world, browser, ("agent", "abort"), "The rollout ends as failed", "aborted").await?;
    browser.shows("Failed").await?;
    let will = "This will be done in everynode-sandbox (https://127.0.0.1:";
    act(&world, browser, ("agent", "retry"), will, "begins again").await?;
    world.reaches("agent", "AwaitingApproval").await?;
    let will = "goes on to all 6 nodes";
    act(&world, browser, ("agent", "promote-full"), will, "promoted to all nodes").await?;
    world.settled("agent").await?;
    // What has no effect is not offered, also to those who have the page of before.
    look_at(&world, browser, "agent").await?;
    browser.holds("!document.querySelector('#actions a[href$=\"/abort\"]')").await?;
    let base = browser.value("document.baseURI").await?;
    let base = base.as_str().context("a base")?.to_owned();
    browser.open(&format!("{base}ds/{}/agent/do/abort", world.namespace)).await?;
    browser.shows("the rollout is not under way").await?;
    ensure!(browser.value("!document.querySelector('#confirm')").await? == true, "it is offered");
    is_clean(&dashboard, browser)
}

/// An action does what the page said, or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_means_something_else_by_now_is_not_done() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.settled("agent").await?;
    let Some((_dashboard, mut browser)) = opened(&world).await? else { return Ok(()) };
    look_at(&world, &mut browser, "agent").await?;
    browser.click("#actions a[href$=\"/undo\"]").await?;
    browser.shows("The pod template of revision 1 is restored").await?;
    let other = json!({"spec": {"minReadySeconds": 1}});
    world.patch_daemon_set("agent", other).await?;
    browser.click("#confirm").await?;
    browser.shows("has changed since the page was shown").await?;
    ensure!(image(&world, "agent").await? == NEXT_IMAGE, "it is rolled back");
    Ok(())
}

/// The rights are those of the kubeconfig: what is refused is said, and named.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_without_the_right_is_refused_by_the_cluster() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let Some(program) = crate::world::browser::program()? else { return Ok(()) };
    let directory = world.directory.path();
    world
        .kubectl(&["create", "clusterrolebinding", "viewer", "--clusterrole=view", "--user=eve"])
        .await?;
    let arguments = ["--as", "eve"];
    let dashboard = super::Dashboard::with(directory, &world.kubeconfig, &arguments).await?;
    let mut browser = Browser::start(&program).await?;
    browser.open(&dashboard.url).await?;
    eventually("eve sees the DaemonSet", async || {
        ensure!(browser.text().await?.contains("/agent"), "{}", browser.text().await?);
        Ok(())
    })
    .await?;
    let base = browser.value("document.baseURI").await?;
    let path = format!("ds/{}/agent/do/pause", world.namespace);
    browser.open(&format!("{}{path}", base.as_str().context("a base")?)).await?;
    browser.click("#confirm").await?;
    browser.shows("Not done: user \"eve\" may not patch daemonsets").await?;
    Ok(())
}
