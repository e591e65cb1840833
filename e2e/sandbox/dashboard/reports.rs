//! `-o html` of `explain`, `status` and `plan`.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::world::browser::{self, Browser};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::{Setup, World};

/// A report is one file, which says what the document of the same command says.
#[tokio::test(flavor = "multi_thread")]
async fn reports_say_what_the_documents_say() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 4, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let Some(program) = browser::program()? else { return Ok(()) };
    let mut browser = Browser::start(&program).await?;
    let manifest = with(daemon_set("agent"), image_patch(NEXT_IMAGE)).to_string();
    let selector = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}});
    world.create_daemon_set(&with(daemon_set("elsewhere"), selector)).await?;
    for (arguments, fields) in [
        (&["explain", "ds/agent"][..], &["/rollout", "/groups/0/why"][..]),
        (&["explain", "ds/elsewhere"], &["/groups/0/why", "/groups/0/next"]),
        (&["explain", "ds/elsewhere", "--node", "node-0001"], &["/why", "/reasons/0/reason"]),
        (&["status", "ds/agent", "--no-wait"], &["/state", "/desired", "/updated"]),
        (
            &["plan", "-f", "-"],
            &["/items/0/changes/0/field", "/items/0/changes/0/to", "/items/0/risks/0/message"],
        ),
    ] {
        let output = async |format| {
            let arguments = [arguments, &["-o", format]].concat();
            let output = world.everynode_with_input(&arguments, &manifest).await?;
            ensure!(matches!(output.code, 0 | 2), "{output:?}");
            anyhow::Ok(output.stdout)
        };
        let (html, json) = (output("html").await?, output("json").await?);
        for other in ["<script", "src=", "href=", "url(", "@import"] {
            ensure!(!html.contains(other), "{arguments:?}: {other} in {html}");
        }
        let file = world.directory.path().join("report.html");
        std::fs::write(&file, &html)?;
        browser.open(&format!("file://{}", file.display())).await?;
        let document: Value = serde_json::from_str(&json)?;
        for field in fields {
            let value = document.pointer(field).with_context(|| format!("{field}: {json}"))?;
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            browser.shows(&text).await.with_context(|| format!("{arguments:?}: {field}"))?;
        }
        // The style sheet has the digest of the page's own policy.
        let border = browser.value("getComputedStyle(document.body).marginTop").await?;
        ensure!(border == "0px", "the page has no style: {border}");
    }
    ensure!(browser.errors.is_empty(), "{:?}", browser.errors);
    let foreign = browser.requests.iter().find(|url| !url.starts_with("file://"));
    ensure!(foreign.is_none(), "{foreign:?}");
    Ok(())
}
