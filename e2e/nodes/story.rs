//! How a story is played: with each controller, recorded, checked, and written to the page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use super::budget::{self, Deleters};
use super::fixture::{Controller, NODES, Nodes};
use super::manifest::Change;
use super::page;
use super::record::Record;
use super::state::{AGENT, State, all_nodes_updated};
use crate::world::World;
use crate::world::pod::{is_terminating, name_of, node_of};
use crate::world::process::Process;

/// For the parts of a story that are no part of its outcome, however slow the machine is.
const PATIENCE: u64 = 120;

/// Plays a story with each controller.
pub(crate) async fn story<P>(does: &str, play: P) -> Result<()>
where
    P: AsyncFn(&mut Run<'_>) -> Result<()>,
{
    play_with(&Controller::ALL, does, play).await
}

/// Plays a story about what only everynode does.
pub(crate) async fn story_of_everynode<P>(does: &str, play: P) -> Result<()>
where
    P: AsyncFn(&mut Run<'_>) -> Result<()>,
{
    play_with(&[Controller::Everynode], does, play).await
}

async fn play_with<P>(controllers: &[Controller], does: &str, play: P) -> Result<()>
where
    P: AsyncFn(&mut Run<'_>) -> Result<()>,
{
    let Some(nodes) = Nodes::acquire().await? else {
        eprintln!("left out, because no program starts nodes: EVERYNODE_NODES");
        return Ok(());
    };
    let name = name_of_test::<P>();
    let mut failures = Vec::new();
    for controller in controllers.iter().copied().filter(|controller| controller.is_wanted()) {
        let (outcome, result) = Run::play(&nodes, controller, &name, &play).await?;
        page::write(&name, does, controller, &outcome)?;
        println!("{name}: {}: {outcome}", controller.name());
        failures.extend(result.err().map(|error| format!("{}: {error:#}", controller.name())));
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// `rollout::an_image` for the closure of that test.
fn name_of_test<P>() -> String {
    let path = std::any::type_name::<P>();
    let path = path.rsplit_once("night::").map_or(path, |(_, path)| path);
    path.split_once("::{{").map_or(path, |(path, _)| path).to_owned()
}

/// How a story leaves the DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// When all nodes are up, each has one available pod of the latest template.
    Updated,
    AsItIs,
}

/// A story while it is played with one controller.
pub(crate) struct Run<'a> {
    pub world: World,
    pub controller: Controller,
    pub(super) nodes: &'a Nodes,
    pub(super) process: Option<Process>,
    pub record: Record,
    /// The DaemonSet as it was applied last.
    pub manifest: Value,
    /// When the story did something last.
    pub(super) since: Timestamp,
    /// The outcome, in order.
    notes: Vec<String>,
    /// The promises that were broken.
    faults: Vec<String>,
    deleters: Deleters,
    ending: Ending,
    /// The commands that repair what the story broke, by the node, 0 for the API server.
    pub(super) repairs: BTreeMap<usize, &'static str>,
    /// The nodes on which files or processes are not those of a fresh one.
    pub(super) changed: BTreeSet<usize>,
}

impl<'a> Run<'a> {
    /// Plays the story; returns its outcome, and the failure if there is one.
    async fn play<P>(
        nodes: &'a Nodes,
        controller: Controller,
        name: &str,
        play: &P,
    ) -> Result<(String, Result<()>)>
    where
        P: AsyncFn(&mut Run<'_>) -> Result<()>,
    {
        let world = match World::on(&nodes.kubeconfig).await {
            Ok(world) => world,
            // An earlier story has broken more than could be repaired.
            Err(_) => {
                nodes.start().await?;
                World::on(&nodes.kubeconfig).await?
            }
        };
        let mut run = Run {
            process: Some(nodes.controller(&world, controller, &[])?),
            record: Record::start(&world),
            world,
            controller,
            nodes,
            manifest: Value::Null,
            since: Timestamp::now(),
            notes: Vec::new(),
            faults: Vec::new(),
            deleters: Deleters::TheController,
            ending: Ending::Updated,
            repairs: BTreeMap::new(),
            changed: BTreeSet::new(),
        };
        let played = play(&mut run).await;
        let mut result = match run.repair().await.and(played) {
            Ok(()) => run.ends_well().await,
            failed => failed,
        };
        let violations = budget::violations(&run.record.entries(), run.deleters);
        violations.into_iter().for_each(|violation| run.fault(violation));
        if let Err(error) = &result {
            run.note(format!("**failed: {error:#}**"));
        } else if controller == Controller::Everynode && !run.faults.is_empty() {
            result = Err(anyhow::anyhow!("{}", run.faults.join("; ")));
        }
        run.keep(&format!("{}.{}", name.replace("::", "."), controller.name()), result.is_err())
            .await?;
        let outcome = run.notes.join("; ");
        if run.clean().await.is_err() {
            nodes.start().await?;
        }
        Ok((outcome, result))
    }

    /// Checks that nothing is lost: when all nodes are up, each has its pod.
    async fn ends_well(&mut self) -> Result<()> {
        let holds = |state: &State| match self.ending {
            Ending::Updated => all_nodes_updated(state),
            Ending::AsItIs => true,
        };
        let ended = self.record.until(Duration::from_secs(PATIENCE), holds).await.is_some();
        if !ended && self.controller == Controller::BuiltIn {
            self.note(format!("not whole again within {PATIENCE} s"));
            return Ok(());
        }
        ensure!(ended, "not whole again within {PATIENCE} s: {}", self.picture());
        Ok(())
    }

    /// Saves the record, the log of the controller, and of a failed story those of the nodes.
    async fn keep(&self, name: &str, failed: bool) -> Result<()> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real-nodes");
        self.record.save(&folder.join(format!("{name}.jsonl")))?;
        let mut log = self.process.as_ref().map(Process::output).unwrap_or_default();
        for number in (1..=NODES).filter(|_| failed) {
            log += &self.nodes.call(&["logs", &number.to_string(), "200"]).await?;
        }
        Ok(std::fs::write(folder.join(format!("{name}.log")), log)?)
    }

    /// When the story did something last.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }

    /// Adds to the outcome.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Adds a broken promise to the outcome. With everynode the story fails in the end.
    pub(crate) fn fault(&mut self, text: String) {
        self.notes.push(format!("**{text}**"));
        self.faults.push(text);
    }

    /// The DaemonSet's pods may be deleted by others than its controller: no budget binds these.
    pub(crate) fn others_delete_pods(&mut self) {
        self.deleters = Deleters::Others;
    }

    /// Others also give a node a second pod, of which the controller has to delete one.
    pub(crate) fn others_create_pods(&mut self) {
        self.deleters = Deleters::OthersWithMore;
    }

    /// The story does not end with an available pod of the latest template on each node.
    pub(crate) fn ends_as_it_is(&mut self) {
        self.ending = Ending::AsItIs;
    }

    /// Creates the DaemonSet, and waits until it runs on every node.
    pub(crate) async fn starts(&mut self, manifest: Value) -> Result<()> {
        self.apply(manifest).await?;
        self.wait("it runs on every node", all_nodes_updated).await
    }

    /// Applies the DaemonSet.
    pub(crate) async fn apply(&mut self, manifest: Value) -> Result<()> {
        let parameters = PatchParams::apply("story").force();
        self.since = Timestamp::now();
        self.world.daemon_sets().patch(AGENT, &parameters, &Patch::Apply(&manifest)).await?;
        self.manifest = manifest;
        self.is_recorded().await
    }

    /// Waits until the record has the DaemonSet as it is now.
    pub(super) async fn is_recorded(&self) -> Result<()> {
        let Some(ds) = self.world.daemon_sets().get_opt(AGENT).await? else { return Ok(()) };
        let generation = ds.metadata.generation;
        let has = |state: &State| {
            state.daemon_set.as_ref().is_some_and(|it| it.metadata.generation >= generation)
        };
        let at = self.record.until(Duration::from_secs(PATIENCE), has).await;
        at.map(drop).context("no watch shows the DaemonSet as it is")
    }

    /// Gives the container another image.
    pub(crate) async fn image(&mut self, tag: &str) -> Result<()> {
        let manifest = self.manifest.clone().image(tag);
        self.apply(manifest).await
    }

    /// Waits for what is no part of the outcome.
    pub(crate) async fn wait(&mut self, what: &str, holds: impl Fn(&State) -> bool) -> Result<()> {
        let at = self.record.until(Duration::from_secs(PATIENCE), holds).await;
        at.map(drop).with_context(|| format!("not in {PATIENCE} s: {what}: {}", self.picture()))
    }

    /// Waits until something holds, and adds to the outcome how long after the story's last deed
    /// that was. The built-in controller need not get there.
    pub(crate) async fn within(
        &mut self,
        seconds: u64,
        what: &str,
        holds: impl Fn(&State) -> bool,
    ) -> Result<()> {
        let is_there = self.reaches(seconds, what, holds).await;
        let is_free = self.controller == Controller::BuiltIn;
        ensure!(is_there || is_free, "now there is {}", self.picture());
        Ok(())
    }

    /// The same, where no controller need get there.
    pub(crate) async fn reaches(
        &mut self,
        seconds: u64,
        what: &str,
        holds: impl Fn(&State) -> bool,
    ) -> bool {
        match self.record.until(Duration::from_secs(seconds), holds).await {
            Some(at) => {
                let after = at.duration_since(self.since).as_secs_f64();
                self.note(format!("{what} after {after:.1} s"));
                true
            }
            None => {
                self.note(format!("not within {seconds} s: {what}"));
                false
            }
        }
    }

    /// Waits for this time, in which something holds throughout.
    pub(crate) async fn stays(
        &mut self,
        seconds: u64,
        what: &str,
        holds: impl Fn(&State) -> bool,
    ) -> Result<()> {
        let ended = self.record.until(Duration::from_secs(seconds), |state| !holds(state)).await;
        match ended {
            None => self.note(format!("{what} for {seconds} s")),
            Some(at) => {
                let after = at.duration_since(self.since).as_secs_f64();
                self.note(format!("no longer after {after:.1} s: {what}"));
                let is_free = self.controller == Controller::BuiltIn;
                ensure!(is_free, "{what}: {}", self.picture());
            }
        }
        Ok(())
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, seconds: u64) {
        self.record.until(Duration::from_secs(seconds), |_| false).await;
    }

    /// The pods and nodes as they are now, for messages.
    pub(super) fn picture(&self) -> String {
        let pods = self.record.look(|state| {
            let pods = state.agents().map(|pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                let ends = if is_terminating(pod) { " terminating" } else { "" };
                let ready = if state.is_available(pod) { " available" } else { "" };
                let (name, node) = (name_of(pod), node_of(pod));
                format!("{name} on {node}: {}{ready}{ends}", phase.unwrap_or_default())
            });
            pods.collect::<Vec<_>>()
        });
        if pods.is_empty() { "no pod".to_owned() } else { pods.join(", ") }
    }

    /// Removes what the story left.
    async fn clean(mut self) -> Result<()> {
        let all = ["delete", "ds,deploy,pods", "--all", "--force", "--grace-period=0"];
        self.world.kubectl(&all).await?;
        self.process = None;
        self.restore_nodes().await?;
        self.wait("the pods are gone", |state| state.pods.is_empty()).await
    }
}
