//! Watches the pods of a DaemonSet during a scenario and reports every violation of its limits: too
//! many pods on a node, or too many nodes without an available pod (C22, C26, C52, C53, C54).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::world::pod::{
    HASH_LABEL, controller_of, is_available, is_terminal, is_terminating, label, name_of, node_of,
    uid,
};
use crate::world::{World, eventually};

/// The limits that hold at every moment.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Maximum number of pods per node.
    pods_per_node: PodsPerNode,
    /// Maximum number of nodes without an available pod, of those that had one at the start.
    nodes_down_max: usize,
    /// How long a pod must be ready to be available.
    min_ready_seconds: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodsPerNode {
    /// One, and none beside a terminating pod of the same DaemonSet whose containers may still run
    /// (C22).
    One,
    /// One of each revision, at most two, besides terminating ones (C26).
    OneOfTwoRevisions,
}

impl Limits {
    /// The limits of a rollout that replaces one pod after the other.
    pub(crate) const ONE_BY_ONE: Limits = Limits::without_surge(1);

    /// The limits of a DaemonSet that does not surge.
    pub(crate) const fn without_surge(nodes_down_max: usize) -> Limits {
        Limits { pods_per_node: PodsPerNode::One, nodes_down_max, min_ready_seconds: 0 }
    }

    /// The limits of a DaemonSet that surges.
    pub(crate) const fn with_surge(nodes_down_max: usize) -> Limits {
        Limits {
            pods_per_node: PodsPerNode::OneOfTwoRevisions,
            nodes_down_max,
            min_ready_seconds: 0,
        }
    }

    /// The same for a DaemonSet with minReadySeconds.
    pub(crate) const fn with_min_ready_seconds(self, min_ready_seconds: i32) -> Limits {
        Limits { min_ready_seconds, ..self }
    }
}

/// The observations and violations.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub violations: Vec<String>,
    pub created: BTreeSet<String>,
    pub deleted: BTreeSet<String>,
    pub nodes_down_most: usize,
}

pub(crate) struct Observer {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<Report>>,
}

impl Observer {
    /// Starts with the pods that the DaemonSet has now.
    pub(crate) async fn start(world: &World, name: &str, limits: Limits) -> Result<Observer> {
        Observer::start_by_label(world, "app", name, limits).await
    }

    /// Starts with the pods that have the given label instead of the tests' own.
    pub(crate) async fn start_by_label(
        world: &World,
        key: &str,
        value: &str,
        limits: Limits,
    ) -> Result<Observer> {
        let label = format!("{key}={value}");
        let pods = world.pods();
        let list = pods.list(&ListParams::default().labels(&label)).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        // The clocks of an external cluster may differ by a second.
        let tolerance = if world.sandbox.is_some() { 0 } else { 1 };
        let min_ready_seconds = (limits.min_ready_seconds - tolerance).max(0);
        let state = State::new(list.items, Limits { min_ready_seconds, ..limits });
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(watch(pods, label, version, state, stopped));
        Ok(Observer { stop, task })
    }

    /// The observations so far.
    pub(crate) async fn report(self) -> Result<Report> {
        // The task's own result reports its failure.
        let _ = self.stop.send(());
        self.task.await?
    }

    /// The observations; fails on any violation.
    pub(crate) async fn finish(self) -> Result<Report> {
        let report = self.report().await?;
        ensure!(report.violations.is_empty(), "violations: {:#?}", report.violations);
        Ok(report)
    }
}

struct State {
    limits: Limits,
    pods: BTreeMap<String, Pod>,
    nodes: BTreeSet<String>,
    report: Report,
}

impl State {
    fn new(pods: Vec<Pod>, limits: Limits) -> State {
        let is_up = |pod: &&Pod| is_available(pod, limits.min_ready_seconds);
        let nodes = pods.iter().filter(is_up).map(node_of).collect();
        let pods = pods.into_iter().map(|pod| (uid(&pod), pod)).collect();
        State { limits, pods, nodes, report: Report::default() }
    }

    fn apply(&mut self, event: WatchEvent<Pod>) -> Result<()> {
        match event {
            WatchEvent::Added(pod) => {
                self.report.created.insert(name_of(&pod));
                self.pods.insert(uid(&pod), pod);
            }
            WatchEvent::Modified(pod) => {
                self.pods.insert(uid(&pod), pod);
            }
            WatchEvent::Deleted(pod) => {
                self.report.deleted.insert(name_of(&pod));
                self.pods.remove(&uid(&pod));
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(error) => anyhow::bail!("the observer's watch failed: {error:?}"),
        }
        self.check();
        Ok(())
    }

    fn check(&mut self) {
        let mut by_node: BTreeMap<String, Vec<&Pod>> = BTreeMap::new();
        for pod in self.pods.values() {
            by_node.entry(node_of(pod)).or_default().push(pod);
        }
        for (node, pods) in by_node.iter().filter(|(node, _)| !node.is_empty()) {
            if !self.limits.pods_per_node.allows(pods) {
                let names: Vec<String> = pods.iter().map(|pod| name_of(pod)).collect();
                self.report.violations.push(format!("node {node} has {names:?}"));
            }
        }
        let is_up = |node: &String| {
            let pods = by_node.get(node).into_iter().flatten();
            pods.into_iter().any(|pod| is_available(pod, self.limits.min_ready_seconds))
        };
        let down: Vec<&String> = self.nodes.iter().filter(|node| !is_up(node)).collect();
        self.report.nodes_down_most = self.report.nodes_down_most.max(down.len());
        if down.len() > self.limits.nodes_down_max {
            self.report.violations.push(format!("nodes without an available pod: {down:?}"));
        }
    }
}

impl PodsPerNode {
    pub(crate) fn allows(self, pods: &[&Pod]) -> bool {
        let running = || pods.iter().filter(|pod| !is_terminating(pod));
        match self {
            PodsPerNode::One => {
                // The terminating pods of another DaemonSet, or of none, do not count.
                let ending = pods.iter().filter(|pod| is_terminating(pod) && !is_terminal(pod));
                let owners: BTreeSet<&str> = ending.filter_map(|pod| controller_of(pod)).collect();
                let is_beside = |uid: &str| owners.contains(uid);
                running().count() <= 1
                    && !running().filter_map(|pod| controller_of(pod)).any(is_beside)
            }
            PodsPerNode::OneOfTwoRevisions => {
                let revisions: BTreeSet<_> = running().map(|pod| label(pod, HASH_LABEL)).collect();
                let count = running().count();
                count <= 2 && revisions.len() == count
            }
        }
    }
}

async fn watch(
    pods: Api<Pod>,
    label: String,
    mut version: String,
    mut state: State,
    mut stopped: oneshot::Receiver<()>,
) -> Result<Report> {
    loop {
        let parameters = WatchParams::default().labels(&label);
        let mut stream = pods.watch(&parameters, &version).await?.boxed();
        loop {
            let event = tokio::select! {
                // Events first: those that have arrived already belong to the report.
                biased;
                event = stream.next() => event,
                _ = &mut stopped => return drain(stream, state).await,
            };
            let Some(event) = event.transpose().context("the observer's watch")? else { break };
            if let Some(seen) = resource_version(&event) {
                version = seen;
            }
            state.apply(event)?;
        }
    }
}

/// Reads events until none arrives for a moment.
async fn drain(
    mut stream: impl futures::Stream<Item = kube::Result<WatchEvent<Pod>>> + Unpin,
    mut state: State,
) -> Result<Report> {
    let quiet = std::time::Duration::from_millis(300);
    while let Ok(Some(event)) = tokio::time::timeout(quiet, stream.next()).await {
        state.apply(event?)?;
    }
    Ok(state.report)
}

fn resource_version(event: &WatchEvent<Pod>) -> Option<String> {
    match event {
        WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
            pod.metadata.resource_version.clone()
        }
        WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version.clone()),
        WatchEvent::Error(_) => None,
    }
}

/// Waits until the pods have exactly these UIDs.
pub(crate) async fn same_pods(
    world: &World,
    name: &str,
    expected: &BTreeSet<String>,
) -> Result<()> {
    eventually("the same pods are there", async || {
        let found: BTreeSet<String> = world.pods_of(name).await?.iter().map(uid).collect();
        ensure!(found == *expected, "there are {found:?}, not {expected:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn uids(world: &World, name: &str) -> Result<BTreeSet<String>> {
    Ok(world.pods_of(name).await?.iter().map(uid).collect())
}
