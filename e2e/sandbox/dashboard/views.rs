//! Every page, and that it says what the commands say.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Dashboard, is_clean, open_daemon_set, opened};
use crate::cluster::causes::shows;
use crate::world::browser::Browser;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::{Setup, World, eventually};

const BROKEN: &str = "example.com/does-not-exist:1.0";

/// Set to write the pictures of docs/dashboard.md.
const UPDATE: &str = "EVERYNODE_UPDATE";

/// Twelve nodes in three zones: `agent` is stuck in the middle of a rollout, `calm` is rolled out,
/// and `elsewhere` wants a label that no node has.
async fn world() -> Result<World> {
    let setup = Setup { nodes: 12, arguments: &["--zones", "3"], ..Setup::default() };
    let mut world = World::sandbox(setup).await?;
    // For the pictures.
    world.kubectl(&["create", "namespace", "infra"]).await?;
    world.namespace = "infra".to_owned();
    world.roll_out(&daemon_set("calm")).await?;
    let budget = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}});
    world.roll_out(&with(daemon_set("agent"), budget)).await?;
    let selector = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}});
    world.create_daemon_set(&with(daemon_set("elsewhere"), selector)).await?;
    world.patch_daemon_set("agent", image_patch(BROKEN)).await?;
    eventually("the new pods fail", async || {
        let status = world.everynode(&["status", "ds/agent", "--no-wait"]).await?.stdout;
        ensure!(status.contains("ImagePullBackOff"), "{status}");
        Ok(())
    })
    .await?;
    Ok(world)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_says_what_the_commands_say() -> Result<()> {
    let world = world().await?;
    let Some((dashboard, mut browser)) = opened(&world).await? else { return Ok(()) };
    let browser = &mut browser;
    browser.resize(1000, 860).await?;
    list(&world, browser).await?;
    open_daemon_set(&world, browser, "agent").await?;
    one_daemon_set(&world, browser).await?;
    map(&world, browser).await?;
    revisions(&world, browser).await?;
    every_node(&world, browser).await?;
    ensure!(!browser.value("location.href").await?.to_string().contains("token"), "it is left");
    is_clean(&dashboard, browser)
}

/// A DaemonSet that is rolled out names the nodes whose pods ended and were replaced
#[tokio::test(flavor = "multi_thread")]
async fn replaced_pods_are_told_between_two_incidents() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let pods = world.pods_of("agent").await?;
    let pod = pods.first().context("it has pods")?;
    let node = pod.spec.as_ref().and_then(|it| it.node_name.as_deref()).context("it is bound")?;
    let name = format!("pod/{}", pod.metadata.name.as_deref().context("it has a name")?);
    let evicted = "{\"status\":{\"phase\":\"Failed\",\"reason\":\"Evicted\"}}";
    world.kubectl(&["patch", &name, "--subresource=status", "--type=merge", "-p", evicted]).await?;
    world.kubectl(&["wait", &name, "--for=delete", "--timeout=30s"]).await?;
    world.kubectl(&["rollout", "status", "ds/agent", "--timeout=30s"]).await?;
    let told =
        format!("pods that had ended were replaced within the last 10 min on 1 node: {node}");
    shows(&world, &told, false).await?;

    let Some((_dashboard, mut browser)) = opened(&world).await? else { return Ok(()) };
    open_daemon_set(&world, &mut browser, "agent").await?;
    browser.shows(&told).await?;
    let text = browser.text().await?;
    ensure!(text.matches(&told).count() == 1, "it stands there once: {text}");
    Ok(())
}

async fn json_of(world: &World, arguments: &[&str]) -> Result<Value> {
    let output = world.everynode(&[arguments, &["-o", "json"]].concat()).await?;
    Ok(serde_json::from_str(&output.stdout)?)
}

async fn list(world: &World, browser: &mut Browser) -> Result<()> {
    browser.shows("stuck").await?;
    let top = world.everynode(&["top", "-o", "name"]).await?.ok()?;
    let names =
        "[...document.querySelectorAll('table.daemonsets tbody th')].map(it => it.innerText)";
    let shown = browser.value(names).await?;
    let shown: Vec<&str> =
        shown.as_array().context("names")?.iter().flat_map(Value::as_str).collect();
    let expected: Vec<String> =
        top.lines().map(|line| line.replace("daemonset.apps", &world.namespace)).collect();
    ensure!(shown == expected, "{shown:?}, top has {expected:?}");
    picture(browser, "list").await?;
    // The key leads to the filter, which leaves one as soon as it is typed.
    browser.press("/").await?;
    browser.holds("document.activeElement.id == 'filter'").await?;
    for key in ["c", "a", "l", "m"] {
        browser.press(key).await?;
    }
    browser.holds("document.querySelectorAll('table.daemonsets tbody tr').length == 1").await?;
    // The field for nodes suggests names.
    browser.value("document.getElementById('node-name').focus()").await?;
    browser.press("2").await?;
    let names = "[...document.querySelectorAll('#node-names option')].map(it => it.value)";
    let expected = "[\"node-0002\",\"node-0012\"]";
    browser.holds(&format!("JSON.stringify({names}) == '{expected}'")).await?;
    // The number of each state leads to those, and back.
    browser.click("nav a").await?;
    browser.holds("document.querySelectorAll('a.state').length > 1").await?;
    let first = "document.querySelector('a.state').innerText.split(' ')[0] * 1";
    let rows = "document.querySelectorAll('table.daemonsets tbody tr').length";
    browser.click("a.state").await?;
    browser.holds(&format!("location.search && {rows} == {first}")).await?;
    browser.click("a.state[aria-current]").await?;
    browser.holds("document.querySelectorAll('table.daemonsets tbody tr').length == 3").await
}

async fn one_daemon_set(world: &World, browser: &mut Browser) -> Result<()> {
    let status = json_of(world, &["status", "ds/agent", "--no-wait"]).await?;
    let counts = browser
        .value(
            "Object.fromEntries([...document.querySelectorAll('dl.counts div')].map(it => \
                [it.children[0].innerText, it.children[1].innerText]))",
        )
        .await?;
    for (name, field) in [
        ("desired", "desired"),
        ("updated", "updated"),
        ("ready", "ready"),
        ("available", "available"),
        ("not created", "missing"),
    ] {
        let expected = status[field].to_string();
        ensure!(counts[name].as_str() == Some(&expected), "{name}: {counts}, {status}");
    }
    let text = browser.text().await?;
    for expected in
        ["What holds it up", "ImagePullBackOff", "zone-c: 4 nodes", "Course of the rollout"]
    {
        ensure!(text.contains(expected), "{expected}: {text}");
    }
    let explained = json_of(world, &["explain", "ds/agent"]).await?;
    for group in explained["groups"].as_array().context("groups")? {
        let why = group["why"].as_str().context("why")?;
        ensure!(text.contains(why), "{why}: {text}");
    }
    browser.shows("warning").await?;
    browser.value("window.scrollTo(0, 0)").await?;
    picture(browser, "daemonset").await?;
    Ok(())
}

/// One cell for each node; a click leads to the node.
async fn map(world: &World, browser: &mut Browser) -> Result<()> {
    let zones = browser
        .value("[...document.querySelectorAll('svg.map')].map(it => Number(it.dataset.nodes))")
        .await?;
    ensure!(zones == json!([4, 4, 4]), "{zones}");
    let place = browser
        .value(
            "(() => { const map = document.querySelectorAll('svg.map')[1]; \
             map.scrollIntoView({block: 'center'}); const box = map.getBoundingClientRect(); \
             return [box.x + box.width / 8 * 3, box.y + box.height / 2]; })()",
        )
        .await?;
    browser.click_at(&place[0], &place[1]).await?;
    browser.holds("document.title.startsWith('node-')").await?;
    let title = browser.value("document.title").await?;
    let node = title.as_str().and_then(|title| title.split(' ').next()).context("a name")?;
    node_page(world, browser, node).await
}

async fn node_page(world: &World, browser: &mut Browser, node: &str) -> Result<()> {
    let nodes = world.list_nodes().await?;
    let of_zone = |zone: &str| {
        let labels = |node: &k8s_openapi::api::core::v1::Node| node.metadata.labels.clone();
        let is_in = |node: &&k8s_openapi::api::core::v1::Node| {
            labels(node).is_some_and(|it| it.values().any(|value| value == zone))
        };
        World::node_names(&nodes.iter().filter(is_in).cloned().collect::<Vec<_>>())
    };
    browser.shows("2 of 3 DaemonSets should run here").await?;
    let text = browser.text().await?;
    let zone = text.split("Zone ").nth(1).and_then(|it| it.split('.').next()).context("a zone")?;
    // The second cell of the second zone.
    ensure!(of_zone(zone).get(1).map(String::as_str) == Some(node), "{node} in {zone}");
    for name in ["agent", "calm", "elsewhere"] {
        let explained = json_of(world, &["explain", &format!("ds/{name}"), "--node", node]).await?;
        for field in ["situation", "why"] {
            let expected = explained[field].as_str().context("text")?;
            browser.shows(expected).await.with_context(|| format!("{name}: {field}"))?;
        }
    }
    picture(browser, "node").await?;
    // By its name, too; and a node that does not exist.
    browser.value("document.getElementById('node-name').value = 'nobody'").await?;
    browser.click("header form button").await?;
    browser.shows("there is no node nobody").await?;
    browser.click("nav a").await
}

async fn revisions(world: &World, browser: &mut Browser) -> Result<()> {
    open_daemon_set(world, browser, "agent").await?;
    let ages = "document.querySelectorAll('#revisions td[data-label=\"Age\"]').length";
    browser.holds(&format!("{ages} > 0")).await?;
    browser.click("#revisions a").await?;
    browser.shows("What changed").await?;
    let diff = json_of(world, &["diff", "ds/agent"]).await?;
    let text = browser.text().await?;
    for change in diff["changes"].as_array().context("changes")? {
        let field = change["field"].as_str().context("a field")?;
        ensure!(text.contains(field), "{field}: {text}");
    }
    browser.value("document.getElementById('from').value = '2'").await?;
    browser.value("document.getElementById('to').value = '2'").await?;
    browser.click("main form button").await?;
    browser.shows("They mean the same").await?;
    browser.click("h1 a").await
}

async fn every_node(world: &World, browser: &mut Browser) -> Result<()> {
    browser.click("#all-nodes").await?;
    browser.holds("document.querySelectorAll('ul.nodes li').length == 12").await?;
    browser.click("h1 a").await?;
    browser.holds("!!document.querySelector('#map svg.map')").await?;
    ensure!(browser.text().await?.contains(&world.namespace), "it is the DaemonSet's page");
    Ok(())
}

/// Without scripts, on a narrow phone, in the dark, by keyboard, and for a screen reader.
#[tokio::test(flavor = "multi_thread")]
async fn the_pages_are_for_everybody() -> Result<()> {
    let world = world().await?;
    let Some((dashboard, mut browser)) = opened(&world).await? else { return Ok(()) };
    let browser = &mut browser;
    without_scripts(&world, browser).await?;
    for (width, dark) in [(1200, false), (1200, true), (360, true), (360, false)] {
        browser.resize(width, 800).await?;
        browser.set_dark(dark).await?;
        for path in ["", "ds/NS/agent", "ds/NS/agent/nodes", "ds/NS/agent/diff", "node/node-0001"] {
            open(browser, &path.replace("NS", &world.namespace)).await?;
            let wide = browser.value("document.documentElement.scrollWidth").await?;
            ensure!(wide.as_u64() <= Some(width.into()), "{path} at {width}: {wide} wide");
            contrast(browser).await.with_context(|| format!("{path}, dark: {dark}"))?;
            has_names(browser).await.with_context(|| path.to_owned())?;
        }
        if (width, dark) == (360, true) {
            open(browser, &format!("ds/{}/agent", world.namespace)).await?;
            picture(browser, "phone").await?;
        }
    }
    // The first key press leads to a link that skips the navigation.
    open(browser, "").await?;
    browser.press("Tab").await?;
    browser.holds("document.activeElement.className == 'skip'").await?;
    for _ in 0..20 {
        browser.press("Tab").await?;
        if browser.value("document.activeElement.closest('tbody') != null").await? == true {
            break;
        }
    }
    browser.press("Enter").await?;
    browser.holds("document.title.includes('/')").await?;
    is_clean(&dashboard, browser)
}

/// Opens a page by its path.
async fn open(browser: &mut Browser, path: &str) -> Result<()> {
    let base = browser.value("document.baseURI").await?;
    let base = base.as_str().context("a base")?.to_owned();
    browser.open(&format!("{base}{path}")).await?;
    browser.holds("!document.body.innerText.includes('Reading ')").await
}

async fn without_scripts(world: &World, browser: &mut Browser) -> Result<()> {
    let base = browser.value("document.baseURI").await?;
    let base = base.as_str().context("a base")?.to_owned();
    browser.set_scripts(false).await?;
    let path = format!("{base}ds/{}/agent", world.namespace);
    eventually("the page is complete", async || {
        browser.open(&path).await?;
        let text = browser.text().await?;
        ensure!(text.contains("ImagePullBackOff") && text.contains("Nodes by zone"), "{text}");
        Ok(())
    })
    .await?;
    let refresh = browser.value("!!document.querySelector('noscript meta')").await?;
    ensure!(refresh == true, "it is not read again");
    browser.set_scripts(true).await?;
    browser.open(&base).await
}

/// Every text has a contrast of at least 4.5 to 1 with its background (WCAG 2.1, AA).
async fn contrast(browser: &mut Browser) -> Result<()> {
    let worst = browser
        .value(
            "(() => { const light = (color) => { const [r, g, b] = color.match(/[\\d.]+/g) \
             .map(Number).map(it => it / 255) \
             .map(it => it <= .03928 ? it / 12.92 : ((it + .055) / 1.055) ** 2.4); \
             return .2126 * r + .7152 * g + .0722 * b; }; \
             let worst = [99, '']; \
             for (const element of document.querySelectorAll('body *')) { \
             const texts = [...element.childNodes].filter(it => it.nodeType == 3); \
             if (!texts.some(it => it.data.trim())) continue; \
             if (!element.checkVisibility() || element.closest('svg, noscript')) continue; \
             let behind = element; \
             while (behind && getComputedStyle(behind).backgroundColor == 'rgba(0, 0, 0, 0)') \
             behind = behind.parentElement; \
             const [a, b] = [getComputedStyle(element).color, \
             getComputedStyle(behind ?? document.body).backgroundColor].map(light); \
             const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05); \
             if (contrast < worst[0]) worst = [contrast, element.outerHTML.slice(0, 200)]; } \
             return worst; })()",
        )
        .await?;
    ensure!(worst[0].as_f64().context("a number")? >= 4.5, "{worst}");
    Ok(())
}

/// Everything that can be used has a name, and the page has landmarks.
async fn has_names(browser: &mut Browser) -> Result<()> {
    let tree = browser.call("Accessibility.getFullAXTree", json!({})).await?;
    let nodes = tree["nodes"].as_array().context("nodes")?;
    let with_role = |role: &str| {
        let all = nodes.iter().filter(|node| node["ignored"] != true);
        all.filter(|node| node["role"]["value"] == role).cloned().collect::<Vec<_>>()
    };
    for role in ["link", "button", "textbox", "combobox", "searchbox", "image"] {
        for node in with_role(role) {
            let name = node["name"]["value"].as_str().unwrap_or_default();
            ensure!(!name.trim().is_empty(), "a {role} has no name: {node}");
        }
    }
    for landmark in ["main", "banner", "navigation", "search"] {
        ensure!(!with_role(landmark).is_empty(), "there is no {landmark}");
    }
    Ok(())
}

/// Writes a picture of docs/dashboard.md if asked to; else only takes it.
async fn picture(browser: &mut Browser, name: &str) -> Result<()> {
    let picture = browser.picture().await?;
    ensure!(picture.starts_with(b"\x89PNG"), "it is no picture");
    if std::env::var_os(UPDATE).is_some() {
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dashboard"));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("{name}.png")), picture)?;
    }
    Ok(())
}

/// A reload in the middle of a rollout shows where it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_in_the_middle_of_a_rollout_shows_it() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 12, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let Some((dashboard, mut browser)) = opened(&world).await? else { return Ok(()) };
    open_daemon_set(&world, &mut browser, "agent").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    let updated = "Number(document.querySelectorAll('dl.counts dd')[1].innerText)";
    browser.holds(&format!("{updated} > 0 && {updated} < 12")).await?;
    let before = browser.value(updated).await?.as_u64().context("a number")?;
    browser.call("Page.reload", json!({})).await?;
    browser
        .holds("document.readyState == 'complete' && !!document.querySelector('dl.counts dd')")
        .await?;
    let after = browser.value(updated).await?.as_u64().context("a number")?;
    ensure!(after >= before, "{before}, then {after}");
    browser.shows("rolled out: 12 of 12").await?;
    is_clean(&dashboard, &browser)
}

/// The dashboard of one namespace shows no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_restricts_the_pages() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let Some(program) = crate::world::browser::program()? else { return Ok(()) };
    let directory = world.directory.path();
    let other = ["--namespace", "kube-system"];
    let dashboard = Dashboard::with(directory, &world.kubeconfig, &other).await?;
    let mut browser = Browser::start(&program).await?;
    browser.open(&dashboard.url).await?;
    browser.shows("namespace kube-system").await?;
    ensure!(!browser.text().await?.contains("/agent"), "{}", browser.text().await?);
    Ok(())
}
