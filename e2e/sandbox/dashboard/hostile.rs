//! Text of the cluster that would be HTML, a script, or hide something, is shown as text.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{is_clean, open_daemon_set, opened};
use crate::world::guard::POLICY;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::{Setup, World, eventually};

/// An element, a script, the end of an attribute, of a style and of a title; escape sequences and a
/// line break; text that runs from right to left, and a character without width.
const HOSTILE: &str = "\"'><img src=x onerror=\"window.pwned=1\"><script>window.pwned=2</script>\
                       </title></style>\u{1b}[31m\u{9b}2J\n\u{202e}abc\u{200b}&lt;b&gt;";
/// How it is shown.
const SHOWN: &str = "\"'><img src=x onerror=\"window.pwned=1\"><script>window.pwned=2</script>\
                     </title></style>^[[31m<U+009B>2J <U+202E>abc<U+200B>&lt;b&gt;";

/// No page is longer: some pieces of 2,000 characters.
const PAGE_BYTES_MAX: usize = 100_000;

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_is_shown_as_text() -> Result<()> {
    let lifecycles = tempfile::NamedTempFile::new()?;
    std::fs::write(&lifecycles, lifecycle())?;
    let arguments = ["--lifecycles", &lifecycles.path().to_string_lossy()];
    let world =
        World::sandbox(Setup { nodes: 2, arguments: &arguments, ..Setup::default() }).await?;
    let texts = json!({
        "metadata": {"annotations": {"kubernetes.io/change-cause": HOSTILE, POLICY: HOSTILE}},
        "spec": {"template": {"metadata": {"annotations": {
            "sandbox.everynode.dev/lifecycle": "hostile", "example": HOSTILE}}}},
    });
    world.create_daemon_set(&with(daemon_set("agent"), texts)).await?;
    eventually("the pods fail", async || {
        let top = world.everynode(&["top"]).await?.ok()?;
        ensure!(top.contains("stuck"), "{top}");
        Ok(())
    })
    .await?;
    let mut next = image_patch(NEXT_IMAGE);
    next["spec"]["template"]["metadata"]["annotations"]["example"] = format!("{HOSTILE}2").into();
    world.patch_daemon_set("agent", next).await?;
    let Some((dashboard, mut browser)) = opened(&world).await? else { return Ok(()) };
    let browser = &mut browser;
    browser.shows("stuck").await?;
    browser.shows(SHOWN).await?;
    open_daemon_set(&world, browser, "agent").await?;
    browser.shows(SHOWN).await?;
    let base = browser.value("document.baseURI").await?;
    let base = base.as_str().unwrap_or_default().to_owned();
    let quoted: String = form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect();
    let page = format!("ds/{}/agent", world.namespace);
    for (path, shows) in [
        (format!("{page}/diff"), Some(SHOWN)),
        (format!("{page}/nodes"), None),
        ("node/node-0001".to_owned(), Some(SHOWN)),
        (format!("{page}/do/undo"), None),
        (format!("node?name={quoted}"), Some(SHOWN)),
        (format!("?filter={quoted}"), None),
        (format!("{page}/do/{}", quoted.replace('+', "%20")), None),
        (format!("{page}/diff?from={quoted}&to={quoted}"), None),
    ] {
        browser.open(&format!("{base}{path}")).await?;
        if let Some(text) = shows {
            browser.shows(text).await?;
        }
        let harmed = "'pwned' in window || !!document.querySelector('img, main b, main script')";
        ensure!(browser.value(harmed).await? == false, "{path}: {}", browser.text().await?);
        let hidden = browser.text().await?;
        let harmful = ['\u{202e}', '\u{200b}', '\u{1b}', '\u{9b}'];
        ensure!(!hidden.contains(harmful), "{path}: {hidden:?}");
        ensure!(hidden.len() < PAGE_BYTES_MAX, "{path}: {} bytes", hidden.len());
    }
    // Reports, too.
    for arguments in [
        &["explain", "ds/agent", "-o", "html"][..],
        &["explain", "ds/agent", "--node", "node-0001", "-o", "html"],
        &["status", "ds/agent", "--no-wait", "-o", "html"],
    ] {
        let html = world.everynode(arguments).await?.stdout;
        ensure!(!html.contains("<script") && !html.contains("<img"), "{arguments:?}: {html}");
        ensure!(!html.contains(['\u{202e}', '\u{200b}', '\u{1b}']), "{arguments:?}: {html}");
        let file = world.directory.path().join("report.html");
        std::fs::write(&file, &html)?;
        browser.open(&format!("file://{}", file.display())).await?;
        browser.shows(SHOWN).await?;
    }
    browser.requests.retain(|url| !url.starts_with("file:"));
    // A missing node is no error of a page.
    browser.errors.retain(|error| !error.contains("404"));
    is_clean(&dashboard, browser)
}

/// The lifecycle of a container that can't be started, with a message of a megabyte.
fn lifecycle() -> String {
    let megabyte = format!("{HOSTILE}{}", "x".repeat(1 << 20));
    let stages = json!([{"stage": "start", "outcome": "fail", "message": megabyte}]);
    let lifecycle = json!({"lifecycles": [{"name": "hostile", "stages": stages}]}).to_string();
    lifecycle.replace('\u{200b}', "\\u200b").replace('\u{9b}', "\\u009b")
}
