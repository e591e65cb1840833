//! One state: its commands are run, and their answers compared.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::interval;

use super::head::Head;
use super::{DEADLINE, FOLDER};
use crate::sandbox::conversation::normalize;
use crate::sandbox::conversation::script::{Entry, Script};
use crate::world::World;
use crate::world::command::finish;
use crate::world::older::OlderCluster;
use crate::world::process::everynode_program;
use crate::world::terminal::Terminal;

const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const SCREEN_INTERVAL: Duration = Duration::from_millis(300);
/// How often an answer must come in a row until it is taken for the last one: longer than the
/// controller waits between two statuses.
const LOOKS_MIN: u32 = 3;
/// The size of the terminal of `watch`: no line is cut.
const SIZE: (u16, u16) = (200, 40);

/// A state in its namespace, which has the name of the file.
pub(super) struct Session<'a> {
    world: &'a World,
    path: &'a Path,
    namespace: String,
    home: PathBuf,
    head: Head,
    script: Script,
}

impl<'a> Session<'a> {
    pub(super) async fn open(
        world: &'a World,
        older: &OlderCluster,
        path: &'a Path,
    ) -> Result<Self> {
        let namespace = path.file_stem().context("a name")?.to_string_lossy().into_owned();
        let home = world.directory.path().join(&namespace);
        let session = Session {
            world,
            path,
            head: Head::read(path)?,
            script: Script::read(path)?,
            home,
            namespace,
        };
        std::fs::create_dir_all(session.home.join("bin"))?;
        let mut kubeconfig: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(&world.kubeconfig)?)?;
        kubeconfig["contexts"][0]["context"]["namespace"] = session.namespace.as_str().into();
        std::fs::write(session.home.join("now"), kubeconfig.to_string())?;
        older.write_kubeconfig(&session.home.join("later"), &session.namespace)?;
        let kubectl = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
        let found = Command::new("sh").args(["-c", "command -v \"$0\"", &kubectl]).output().await?;
        let kubectl = String::from_utf8(found.stdout)?.trim().to_owned();
        session.wrap("kubectl", &kubectl, "now")?;
        session.wrap("everynode", everynode_program(), "later")?;
        session.wrap("everynode-now", everynode_program(), "now")?;
        world.create_namespace(&session.namespace).await?;
        Ok(session)
    }

    fn wrap(&self, name: &str, program: &str, kubeconfig: &str) -> Result<()> {
        let path = self.home.join("bin").join(name);
        let kubeconfig = self.home.join(kubeconfig);
        let text =
            format!("#!/bin/sh\nKUBECONFIG='{}' exec '{program}' \"$@\"\n", kubeconfig.display());
        std::fs::write(&path, text)?;
        Ok(std::fs::set_permissions(&path, Permissions::from_mode(0o755))?)
    }

    /// Brings the state about, and compares what the commands say.
    pub(super) async fn hold(mut self) -> Result<()> {
        let update = std::env::var_os("EVERYNODE_UPDATE").is_some();
        let mut entries = std::mem::take(&mut self.script.entries);
        let mut wrong = Vec::new();
        for entry in &mut entries {
            let answer = match entry.command.strip_prefix("everynode ") {
                None => self.run(&entry.command, &entry.input).await?,
                Some(_) => self.look(entry, update).await?,
            };
            if !entry.expects(&answer) {
                if update {
                    entry.answers = vec![answer.clone()];
                } else {
                    wrong.push(entry.difference(&answer));
                }
            }
            if entry.command.starts_with("everynode ")
                && let Err(error) = self.agrees(&entry.command, &answer)
            {
                wrong.push(format!("{error:#}"));
            }
        }
        self.script.entries = entries;
        if update {
            self.script.write(self.path)?;
        }
        ensure!(wrong.is_empty(), "{}\n\n{}", self.path.display(), wrong.join("\n"));
        Ok(())
    }

    /// Repeats a command until its answer is as expected. When the answers are updated, until it
    /// names the cause and no longer changes.
    async fn look(&self, entry: &Entry, update: bool) -> Result<String> {
        let started = Instant::now();
        let (mut last, mut times) = (String::new(), 0);
        let mut looks = interval(LOOK_INTERVAL);
        loop {
            looks.tick().await;
            let answer = match entry.command.as_str() {
                command if command.starts_with("everynode watch") => self.screen().await?,
                command => self.run(command, &entry.input).await?,
            };
            times = if answer == last { times + 1 } else { 1 };
            let is_last = times >= LOOKS_MIN && self.agrees(&entry.command, &answer).is_ok();
            let is_found = if update { is_last } else { entry.expects(&answer) };
            if is_found || started.elapsed() > DEADLINE {
                return Ok(answer);
            }
            last = answer;
        }
    }

    async fn run(&self, command: &str, input: &str) -> Result<String> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(&self.home);
        let rest = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{FOLDER}/bin:{rest}", self.home.join("bin").display()));
        let output = finish(shell, &self.home, input).await?;
        let mut answer = normalize::answer(&output.stdout, &self.world.namespace);
        if output.code != 0 {
            answer.push_str(&format!("! {}\n", output.code));
        }
        Ok(answer)
    }

    /// The rollout on the screen of `watch`, with what holds it up.
    async fn screen(&self) -> Result<String> {
        let program = self.home.join("bin/everynode");
        let program = program.to_str().context("a path of UTF-8")?;
        let mut terminal = Terminal::with(self.world, program, &["watch", "agent"], SIZE)?;
        let started = Instant::now();
        let mut shown = String::new();
        let mut looks = interval(SCREEN_INTERVAL);
        while started.elapsed() < DEADLINE {
            looks.tick().await;
            let text = terminal.text();
            let is_read = text.contains("live") && !text.contains("reading the cluster");
            if is_read && text == shown {
                break;
            }
            shown = text;
        }
        terminal.press("q")?;
        Ok(normalize::answer(&essence(&shown), &self.world.namespace))
    }

    /// Fails unless the answer has the state, the cause, the number of nodes and the next step of
    /// the head.
    fn agrees(&self, command: &str, answer: &str) -> Result<()> {
        let Head { state, cause, says, nodes, next, .. } = &self.head;
        let words = command.split_whitespace().nth(1).unwrap_or_default();
        let missing =
            |what: &str, text: &str| format!("$ {command}\nlacks the {what} {text:?}:\n{answer}");
        // A terminal breaks long lines.
        let flat = answer.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(flat.contains(cause.as_str()), missing("cause", cause));
        ensure!(flat.contains(says.as_str()), missing("words of a component", says));
        // `watch` has an arrow before it.
        let plain = next.strip_prefix("try: ").unwrap_or(next);
        let next = if words == "watch" { plain } else { next };
        ensure!(flat.contains(next), missing("next step", next));
        let shown = match words {
            "top" => format!("  {state}"),
            "status" => match state.as_str() {
                "stuck" | "deleting" | "unobserved" => "\n! 4\n".to_owned(),
                "done" => "rolled out".to_owned(),
                _ => "\n! 3\n".to_owned(),
            },
            "watch" if state == "stuck" => "stuck: ".to_owned(),
            "watch" | "explain" => String::new(),
            other => bail!("{other} is none of the commands that are compared"),
        };
        ensure!(answer.contains(&shown), missing("state", &shown));
        if *nodes == 0 {
            return Ok(());
        }
        let unit = if *nodes == 1 { "node" } else { "nodes" };
        let is_counted =
            answer.lines().filter(|line| line.contains(cause.as_str())).any(|line| match words {
                "explain" => line.trim_start().starts_with(&format!("{nodes} ")),
                "watch" => line.split_whitespace().nth(1) == Some(nodes.to_string().as_str()),
                _ => line.contains(&format!("{cause} on {nodes} {unit}")),
            });
        ensure!(is_counted, missing("number of nodes", &nodes.to_string()));
        Ok(())
    }
}

/// The lines of a screen about the rollout and about what holds it up; not the bar, the revisions,
/// the map and the events.
fn essence(screen: &str) -> String {
    let mut is_shown = true;
    let mut text = String::new();
    for line in screen.lines() {
        if let Some(section) = line.strip_prefix("── ") {
            is_shown = section.starts_with("held up");
        } else if is_shown && !line.starts_with(['█', '▒', '░']) && !line.starts_with("q quit")
        {
            text.push_str(&format!("{line}\n"));
        }
    }
    text
}
