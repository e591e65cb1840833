//! `everynode dashboard` in a real browser.

mod actions;
mod attacks;
mod hostile;
mod live;
mod reports;
mod views;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::world::browser::{self, Browser};
use crate::world::process::Process;
use crate::world::{World, eventually};

/// A running dashboard.
struct Dashboard {
    process: Process,
    /// With the token.
    url: String,
}

impl Dashboard {
    async fn start(world: &World) -> Result<Self> {
        Self::with(world.directory.path(), &world.kubeconfig, &[]).await
    }

    async fn with(directory: &Path, kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let arguments = [&["dashboard"], arguments].concat();
        let mut process =
            Process::everynode_with(directory, "dashboard", &arguments, Some(kubeconfig))?;
        let url = eventually("the dashboard prints its URL", async || {
            process.check_running()?;
            let output = process.output();
            let url = output.lines().find(|line| line.starts_with("http://127.0.0.1:"));
            url.map(str::to_owned).with_context(|| output.clone())
        });
        let url = url.await?;
        Ok(Self { process, url })
    }

    /// `127.0.0.1:PORT`.
    fn host(&self) -> &str {
        let rest = self.url.trim_start_matches("http://");
        rest.split_once('/').map_or(rest, |(host, _)| host)
    }
}

/// A browser that shows the list of a new dashboard; `None` if these tests are left out.
async fn opened(world: &World) -> Result<Option<(Dashboard, Browser)>> {
    let Some(program) = browser::program()? else { return Ok(None) };
    let dashboard = Dashboard::start(world).await?;
    let mut browser = Browser::start(&program).await?;
    browser.open(&dashboard.url).await?;
    browser.holds("document.title.startsWith('DaemonSets')").await?;
    Ok(Some((dashboard, browser)))
}

/// Opens the page of a DaemonSet from the list.
async fn open_daemon_set(world: &World, browser: &mut Browser, name: &str) -> Result<()> {
    let path = format!("ds/{}/{name}", world.namespace);
    browser.click(&format!("a[href=\"{path}\"]")).await?;
    browser.holds("!!document.querySelector('#map svg.map')").await
}

/// Fails if a page has asked another host for anything, or a script or style was blocked.
fn is_clean(dashboard: &Dashboard, browser: &Browser) -> Result<()> {
    let own = format!("http://{}/", dashboard.host());
    let foreign: Vec<&String> = browser
        .requests
        .iter()
        .filter(|url| !url.starts_with(&own) && !url.starts_with("data:") && *url != "about:blank")
        .collect();
    ensure!(foreign.is_empty(), "requests to others: {foreign:?}");
    ensure!(browser.errors.is_empty(), "errors: {:?}", browser.errors);
    Ok(())
}
