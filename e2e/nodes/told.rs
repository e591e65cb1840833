//! The answers that people get in a story: four commands, each of which must name the true cause
//! within 5 seconds of the kubelet's knowing it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;

use super::fixture::Controller;
use super::state::{AGENT, State};
use super::story::Run;
use crate::world::process::Process;
use crate::world::{World, within};

/// The time within which each command must tell.
const WITHIN_SECONDS: f64 = 5.0;
/// The time after which a command is not asked any more.
const PATIENCE: Duration = Duration::from_secs(20);

/// The commands that are asked again and again. `watch` is the fourth, which tells by itself.
const COMMANDS: [&[&str]; 3] =
    [&["top"], &["explain", "ds/agent"], &["status", "ds/agent", "--no-wait"]];

impl Run<'_> {
    /// Waits until the kubelet, or the control plane, states what is known, and checks that all
    /// commands soon tell the cause. They read only objects, so they are asked with one controller.
    pub(crate) async fn told(&mut self, cause: &str, known: impl Fn(&State) -> bool) -> Result<()> {
        let at = self.record.until(Duration::from_secs(90), known).await;
        let at = at.with_context(|| {
            format!("nobody states in 90 s what leads to {cause:?}: {}", self.picture())
        })?;
        if self.controller == Controller::BuiltIn {
            return Ok(());
        }
        let directory = self.world.directory.path();
        let arguments = ["watch", "ds/agent", "--no-tty", "--namespace", &self.world.namespace];
        let kubeconfig = Some(&*self.world.kubeconfig);
        let watch = Process::everynode_with(directory, "watch", &arguments, kubeconfig)?;
        let [top, explain, status] = COMMANDS.map(|command| said(&self.world, command, cause));
        let (top, explain, status, watch) =
            tokio::join!(top, explain, status, shown(&watch, cause));
        let mut slowest = 0.0_f64;
        let answers = [("top", top), ("explain", explain), ("status", status), ("watch", watch)];
        for (name, told) in answers {
            match told.map(|told| told.duration_since(at).as_secs_f64()) {
                Ok(after) if after <= WITHIN_SECONDS => slowest = slowest.max(after),
                Ok(after) => self.fault(format!("{name} says \"{cause}\" after {after:.1} s only")),
                Err(error) => {
                    eprintln!("{name} does not say {cause:?}: {error:#}");
                    self.fault(format!("{name} does not say \"{cause}\""));
                }
            }
        }
        if slowest > 0.0 {
            self.note(format!("told after {slowest:.1} s: \"{cause}\""));
        }
        Ok(())
    }

    /// Runs a command about the DaemonSet, which must succeed.
    pub(crate) async fn everynode(&mut self, arguments: &[&str]) -> Result<String> {
        self.since = Timestamp::now();
        let daemon_set = format!("ds/{AGENT}");
        let output = self.world.everynode(&[arguments, &[&daemon_set]].concat()).await?.ok()?;
        self.is_recorded().await?;
        Ok(output)
    }
}

/// Asks a command until its answer has the cause. Returns when it had.
async fn said(world: &World, command: &[&str], cause: &str) -> Result<Timestamp> {
    within(PATIENCE, "its answer has the cause", async || {
        let output = world.everynode(command).await?;
        if output.stdout.contains(cause) {
            return Ok(Timestamp::now());
        }
        bail!("{}{}", output.stdout, output.stderr);
    })
    .await
}

/// Waits until what a command prints has the cause.
async fn shown(process: &Process, cause: &str) -> Result<Timestamp> {
    within(PATIENCE, "it prints the cause", async || {
        let output = process.output();
        if output.contains(cause) {
            return Ok(Timestamp::now());
        }
        bail!("{output}");
    })
    .await
}
