//! Watches the pods of a DaemonSet during a scenario and reports every violation of its limits: too
//! many pods on a node, or too many nodes without an available pod.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::world::{World, eventually};

/// The limits that hold at every moment.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of pods per node that are not terminating.
    pub pods_per_node_max: usize,
    /// Maximum number of nodes without an available pod, of those that had one at the start.
    pub nodes_down_max: usize,
}

/// The observations and violations.
#[derive(Debug, Default)]
pub struct Report {
    pub violations: Vec<String>,
    pub created: BTreeSet<String>,
    pub deleted: BTreeSet<String>,
    pub nodes_down_most: usize,
}

pub struct Observer {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<Report>>,
}

impl Observer {
    /// Starts with the pods that the DaemonSet has now.
    pub async fn start(world: &World, name: &str, limits: Limits) -> Result<Observer> {
        Observer::start_by_label(world, "app", name, limits).await
    }

    /// Starts with the pods that have the given label instead of the tests' own.
    pub async fn start_by_label(
        world: &World,
        key: &str,
        value: &str,
        limits: Limits,
    ) -> Result<Observer> {
        let label = format!("{key}={value}");
        let pods = world.pods();
        let list = pods.list(&ListParams::default().labels(&label)).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let state = State::new(list.items, limits);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(watch(pods, label, version, state, stopped));
        Ok(Observer { stop, task })
    }

    /// The observations so far.
    pub async fn report(self) -> Result<Report> {
        // The task's own result reports its failure.
        let _ = self.stop.send(());
        self.task.await?
    }

    /// The observations; fails on any violation.
    pub async fn finish(self) -> Result<Report> {
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
        let nodes = pods.iter().filter(|pod| is_available(pod)).map(node_of).collect();
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
        for pod in self.pods.values().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            by_node.entry(node_of(pod)).or_default().push(pod);
        }
        for (node, pods) in &by_node {
            if pods.len() > self.limits.pods_per_node_max && !node.is_empty() {
                let names: Vec<String> = pods.iter().map(|pod| name_of(pod)).collect();
                self.report.violations.push(format!("node {node} has {names:?}"));
            }
        }
        let is_up = |node: &String| {
            by_node.get(node).is_some_and(|pods| pods.iter().any(|pod| is_available(pod)))
        };
        let down: Vec<&String> = self.nodes.iter().filter(|node| !is_up(node)).collect();
        self.report.nodes_down_most = self.report.nodes_down_most.max(down.len());
        if down.len() > self.limits.nodes_down_max {
            self.report.violations.push(format!("nodes without an available pod: {down:?}"));
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

/// Whether the pod is ready and not terminating.
pub fn is_available(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.filter(|found| found.type_ == "Ready").any(|found| found.status == "True")
}

/// The node that the pod is on or requests.
pub fn node_of(pod: &Pod) -> String {
    let pinned = || {
        let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
        let fields = required.node_selector_terms.first()?.match_fields.as_ref()?;
        fields.first()?.values.as_ref()?.first().cloned()
    };
    let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    bound.filter(|name| !name.is_empty()).or_else(pinned).unwrap_or_default()
}

pub fn name_of(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

pub fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// Waits until the pods have exactly these UIDs.
pub async fn same_pods(world: &World, name: &str, expected: &BTreeSet<String>) -> Result<()> {
    eventually("the same pods are there", async || {
        let found: BTreeSet<String> = world.pods_of(name).await?.iter().map(uid).collect();
        ensure!(found == *expected, "there are {found:?}, not {expected:?}");
        Ok(())
    })
    .await
}

pub async fn uids(world: &World, name: &str) -> Result<BTreeSet<String>> {
    Ok(world.pods_of(name).await?.iter().map(uid).collect())
}
