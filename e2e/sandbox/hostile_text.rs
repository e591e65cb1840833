//! Text of pods, annotations and policies that would control a terminal, hide characters or fill
//! the screen: every command shows it as text, in every form of output.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::world::guard::POLICY;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, with};
use crate::world::process::Process;
use crate::world::terminal::Terminal;
use crate::world::{Setup, World, eventually};

/// Sets the title, erases the screen, conceals text, adds lines and cells, reverses text, and
/// hides a character.
const HOSTILE: &str =
    "a\u{1b}]0;PWNED\u{7}\u{1b}[2J\u{1b}[8m\r\n\t\tb   c\u{202e}d\u{200b}e\u{9b}f\u{7f}";
/// How the beginning is shown.
const SHOWN: &str = "a^[]0;PWNED^G^[[2J^[[8m b";
const PLAIN: &str = "plain";
/// No line of text is longer: a few pieces of 2,000 characters, each shown in up to eight.
const LINE_BYTES_MAX: usize = 50_000;

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_is_shown_as_text_by_every_command() -> Result<()> {
    let lifecycles = tempfile::NamedTempFile::new()?;
    let long = format!("{HOSTILE}{}", "x".repeat(2 * LINE_BYTES_MAX));
    let both = json!({"lifecycles": [fails("hostile", &long), fails("plain", PLAIN)]});
    std::fs::write(&lifecycles, ascii(&both))?;
    let arguments = ["--lifecycles", &lifecycles.path().to_string_lossy()];
    let world =
        World::sandbox(Setup { nodes: 2, arguments: &arguments, ..Setup::default() }).await?;
    let (hostile, plain) = (subject("hostile", HOSTILE), subject("plain", PLAIN));
    two_revisions(&world, [("hostile", &hostile), ("plain", &plain)]).await?;
    let whole = world.everynode(&["explain", "ds/hostile", "-o", "json"]).await?.ok()?;
    let whole: Value = serde_json::from_str(&whole)?;
    let detail = whole["groups"][0]["detail"].as_str().unwrap_or_default();
    ensure!(detail.contains(&long), "JSON has the whole message: {} bytes", detail.len());
    has_the_lines_of_plain_text(&world, &hostile, &plain).await?;
    let shows = async |arguments: &[&str]| {
        let shown = text(&world, arguments, "hostile", &hostile).await?;
        ensure!(shown.contains(SHOWN), "{arguments:?}: {}", head(&shown));
        anyhow::Ok(shown)
    };
    ensure!(shows(&["explain", "ds/hostile"]).await?.contains('…'), "nothing is cut");
    shows(&["explain", "ds/hostile", "--node", "node-0001"]).await?;
    shows(&["history", "ds/hostile"]).await?;
    shows(&["plan", "-f", "-"]).await?;
    every_output_is_harmless(&world, &hostile).await?;
    watched(&world).await?;
    listed(&world).await?;
    every_write_is_harmless(&world).await?;
    let log = world.sandbox.as_ref().context("it has a sandbox")?.output();
    harmless(&log).context("the log of the sandbox")
}

/// The lifecycle of a container that can't be started.
fn fails(name: &str, message: &str) -> Value {
    let stages = json!([{"stage": "start", "outcome": "fail", "message": message}]);
    json!({"name": name, "stages": stages})
}

/// Creates DaemonSets whose pods fail, each with a second revision that no pod gets, since its
/// policy is invalid.
async fn two_revisions(world: &World, subjects: [(&str, &Value); 2]) -> Result<()> {
    for (name, manifest) in subjects {
        let lifecycle = json!({"spec": {"template": {"metadata": {"annotations": {
            "sandbox.everynode.dev/lifecycle": name}}}}});
        world.create_daemon_set(&with(manifest.clone(), lifecycle)).await?;
    }
    eventually("the pods fail", async || {
        let top = world.everynode(&["top"]).await?.ok()?;
        ensure!(top.matches("stuck").count() == 2, "{top}");
        // Each pod has its own time to start.
        for (name, _) in subjects {
            let explained = world.everynode(&["explain", &format!("ds/{name}")]).await?.ok()?;
            ensure!(!explained.contains("not ready"), "{explained}");
        }
        Ok(())
    })
    .await?;
    for (name, _) in subjects {
        let patch = json!({"spec": {"template": {"metadata": {"labels": {"more": "labels"}}}}});
        world.patch_daemon_set(name, patch).await?;
        eventually("there is a second revision", async || {
            let name = format!("ds/{name}");
            let history = world.everynode(&["history", &name, "-o", "name"]).await?.ok()?;
            ensure!(history.lines().count() == 2, "{history}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn has_the_lines_of_plain_text(world: &World, hostile: &Value, plain: &Value) -> Result<()> {
    for arguments in [
        &["explain", "ds/SUBJECT"][..],
        &["explain", "ds/SUBJECT", "-o", "wide"],
        &["explain", "ds/SUBJECT", "--node", "node-0001"],
        &["explain", "ds/SUBJECT", "-o", "name"],
        &["status", "ds/SUBJECT", "--no-wait"],
        &["top", "-l", "subject=SUBJECT"],
        &["top", "-l", "subject=SUBJECT", "-o", "wide"],
        &["top", "-l", "subject=SUBJECT", "-o", "name"],
        &["history", "ds/SUBJECT"],
        &["history", "ds/SUBJECT", "-o", "wide"],
        &["history", "ds/SUBJECT", "-o", "name"],
        &["plan", "-f", "-"],
        &["plan", "-f", "-", "-o", "wide"],
        &["plan", "-f", "-", "-o", "name"],
        &["rollout", "get", "ds/SUBJECT"],
    ] {
        let shown = text(world, arguments, "hostile", hostile).await?;
        let expected = text(world, arguments, "plain", plain).await?;
        let lines = |text: &str| text.lines().count();
        ensure!(lines(&shown) == lines(&expected), "{arguments:?}: {expected}{}", head(&shown));
    }
    Ok(())
}

async fn every_output_is_harmless(world: &World, hostile: &Value) -> Result<()> {
    for arguments in [
        &["diff", "ds/hostile"][..],
        &["undo", "ds/hostile", "--dry-run"],
        &["history", "ds/hostile", "--revision", "1"],
        &["top", "-o", "json"],
        &["top", "-o", "yaml"],
        &["status", "ds/hostile", "--no-wait", "-o", "json"],
        &["status", "ds/hostile", "--no-wait", "-o", "yaml"],
        &["status", "ds/hostile", "--no-wait", "-o", "html"],
        &["status", "ds/hostile", "--fail-fast", "--timeout", "30s"],
        &["explain", "ds/hostile", "-o", "json"],
        &["explain", "ds/hostile", "-o", "yaml"],
        &["explain", "ds/hostile", "-o", "html"],
        &["explain", "ds/hostile", "--node", "node-0001", "-o", "json"],
        &["explain", "ds/hostile", "--node", "node-0001", "-o", "yaml"],
        &["explain", "ds/hostile", "--node", "node-0001", "-o", "html"],
        &["plan", "-f", "-", "-o", "json"],
        &["plan", "-f", "-", "-o", "yaml"],
        &["plan", "-f", "-", "-o", "html"],
        &["history", "ds/hostile", "--revision", "1", "-o", "json"],
        &["history", "ds/hostile", "-o", "json"],
        &["history", "ds/hostile", "-o", "yaml"],
        &["diff", "ds/hostile", "-o", "json"],
        &["diff", "ds/hostile", "-o", "yaml"],
        &["rollout", "get", "ds/hostile", "-o", "json"],
        &["rollout", "get", "ds/hostile", "-o", "yaml"],
    ] {
        let output = output(world, arguments, hostile).await?;
        harmless(&output).with_context(|| format!("{arguments:?}"))?;
    }
    Ok(())
}

/// The commands that write, and arguments that are no names.
async fn every_write_is_harmless(world: &World) -> Result<()> {
    for arguments in [
        &["rollout", "pause", "ds/hostile"][..],
        &["rollout", "resume", "ds/hostile"],
        &["rollout", "approve", "ds/hostile"],
        &["rollout", "promote", "ds/hostile"],
        &["rollout", "promote", "--full", "ds/hostile"],
        &["rollout", "abort", "ds/hostile"],
        &["rollout", "retry", "ds/hostile"],
        &["undo", "ds/hostile", "--to-revision", "1"],
        &["restart", "ds/hostile"],
        &["undo", HOSTILE],
        &["explain", "ds/hostile", "--node", HOSTILE],
    ] {
        let output = world.everynode(arguments).await?;
        let output = output.stdout + &output.stderr;
        ensure!(!output.is_empty(), "{arguments:?}");
        harmless(&output).with_context(|| format!("{arguments:?}"))?;
    }
    Ok(())
}

/// A DaemonSet with this text wherever the server accepts any.
fn subject(name: &str, text: &str) -> Value {
    let env = json!([{"name": "TEXT", "value": text}]);
    let annotations = json!({"kubernetes.io/change-cause": text, POLICY: text, "example": text});
    let patch = json!({
        "metadata": {"labels": {"subject": name}, "annotations": annotations},
        "spec": {"template": {"metadata": {"annotations": {"example": text}},
            "spec": {"containers": [{"name": "main", "image": NEXT_IMAGE, "env": env}]}}},
    });
    with(daemon_set(name), patch)
}

async fn text(world: &World, arguments: &[&str], name: &str, manifest: &Value) -> Result<String> {
    let arguments: Vec<String> =
        arguments.iter().map(|argument| argument.replace("SUBJECT", name)).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let text = output(world, &arguments, manifest).await?;
    harmless(&text).with_context(|| format!("{arguments:?}"))?;
    let longest = text.lines().map(str::len).max().unwrap_or_default();
    ensure!(longest < LINE_BYTES_MAX, "{arguments:?}: a line of {longest} bytes");
    Ok(text)
}

/// Both streams. `plan` is asked for another text than the DaemonSet has.
async fn output(world: &World, arguments: &[&str], manifest: &Value) -> Result<String> {
    let mut changed = manifest.clone();
    let value = &mut changed["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"];
    *value = format!("{} and more", value.as_str().unwrap_or_default()).into();
    let output = world.everynode_with_input(arguments, &ascii(&changed)).await?;
    ensure!(matches!(output.code, 0 | 2 | 4 | 5), "{arguments:?}: {}", head(&output.stderr));
    ensure!(!output.stdout.is_empty() || arguments[0] == "explain", "{arguments:?}");
    Ok(output.stdout + &output.stderr)
}

/// As JSON in which all other characters are escaped: YAML has no control characters.
fn ascii(value: &Value) -> String {
    let text = value.to_string();
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            ' '..='~' => escaped.push(letter),
            _ => escaped.push_str(&format!("\\u{:04x}", u32::from(letter))),
        }
    }
    escaped
}

/// Fails if the output has characters that a terminal acts on or hides.
fn harmless(output: &str) -> Result<()> {
    let is_harmful = |letter: char| {
        (letter.is_control() && letter != '\n')
            || matches!(letter, '\u{202e}' | '\u{200b}' | '\u{2028}')
    };
    let Some(at) = output.find(is_harmful) else { return Ok(()) };
    let context: String = output[at..].chars().take(80).collect();
    anyhow::bail!("{:?} in {context:?}", output[at..].chars().next())
}

fn head(text: &str) -> String {
    text.chars().take(5000).collect()
}

/// The live view, and its text in a pipe.
async fn watched(world: &World) -> Result<()> {
    let arguments = ["watch", "ds/hostile", "--namespace", &world.namespace];
    let directory = world.directory.path();
    let mut piped =
        Process::everynode_with(directory, "watch", &arguments, Some(&world.kubeconfig))?;
    let output = eventually("the text is printed", async || {
        let output = piped.output();
        ensure!(output.contains("node-0001"), "{}", head(&output));
        Ok(output)
    })
    .await?;
    harmless(&output)?;
    piped.terminate().await?;
    let mut terminal = Terminal::start(world, &["watch", "ds/hostile"], (100, 40))?;
    for expected in ["^[]0;PWNED", "held up", "q quit"] {
        terminal.shows(expected).await?;
    }
    harmless(&terminal.text())?;
    terminal.press("q")?;
    tokio::time::timeout(Duration::from_secs(30), terminal.ended()).await??;
    Ok(())
}

/// The live list.
async fn listed(world: &World) -> Result<()> {
    let mut terminal = Terminal::start(world, &["top", "-w"], (220, 40))?;
    for expected in ["^[]0;PWNED", "hostile", "plain"] {
        terminal.shows(expected).await?;
    }
    harmless(&terminal.text())?;
    terminal.press("q")?;
    tokio::time::timeout(Duration::from_secs(30), terminal.ended()).await??;
    Ok(())
}
