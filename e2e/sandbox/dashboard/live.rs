//! The pages follow the cluster, and say so when they cannot.

use anyhow::{Result, ensure};

use super::{Dashboard, is_clean, open_daemon_set, opened};
use crate::world::browser::{self, Browser};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};
use crate::world::tcp_proxy::{Condition, TcpProxy};
use crate::world::{Setup, World};

/// How soon a change is visible is measured by `benches/dashboard.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_visible_without_a_reload() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 6, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let Some((dashboard, mut browser)) = opened(&world).await? else { return Ok(()) };
    // In the list: it is not rolled out any more.
    browser.shows("1 done").await?;
    changes(&world, &mut browser, NEXT_IMAGE).await?;
    world.settled("agent").await?;
    // On the page of the DaemonSet.
    open_daemon_set(&world, &mut browser, "agent").await?;
    browser.shows("rolled out").await?;
    changes(&world, &mut browser, "example.com/does-not-exist:1").await?;
    browser.shows("ImagePullBackOff").await?;
    // A screen reader says so, once.
    browser.holds("document.getElementById('announcer').innerText == 'stuck'").await?;
    is_clean(&dashboard, &browser)
}

/// Changes the image, and waits until the page shows another state.
async fn changes(world: &World, browser: &mut Browser, image: &str) -> Result<()> {
    browser.watch_state().await?;
    world.patch_daemon_set("agent", image_patch(image)).await?;
    browser.state_changed().await
}

/// The content stays while the API server does not answer, with a note of its age.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_go_away_and_come_back() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let Some(program) = browser::program()? else { return Ok(()) };
    let proxy = TcpProxy::to(&world.kubeconfig).await?;
    let kubeconfig = proxy.kubeconfig(&world.kubeconfig)?;
    let mut dashboard = Dashboard::with(world.directory.path(), &kubeconfig, &[]).await?;
    let mut browser = Browser::start(&program).await?;
    for opens in [false, true] {
        browser.open(&dashboard.url).await?;
        browser.shows("1 done").await?;
        if opens {
            open_daemon_set(&world, &mut browser, "agent").await?;
        }
        proxy.break_all(Condition::Reset);
        browser.shows("Connection to the cluster lost").await?;
        let text = browser.text().await?;
        ensure!(text.contains("agent") && text.contains("done"), "it keeps what it had: {text}");
        proxy.restore();
        browser
            .holds("!document.body.innerText.includes('Connection to the cluster lost')")
            .await?;
    }
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    browser.shows("rolling").await?;
    browser.shows("rolled out").await?;
    // The dashboard itself ends.
    dashboard.process.terminate().await?;
    browser.shows("The dashboard does not answer").await?;
    Ok(())
}
