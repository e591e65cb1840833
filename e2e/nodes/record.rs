//! The record of a story: every change of its pods, of the nodes, of its DaemonSet and its events,
//! with the time at which a watch told it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::state::{AGENT, State, is_ready};
use crate::world::World;
use crate::world::pod::{is_terminating, label};

/// A watch that fails, as while no API server runs, is tried again after this time.
const RETRY: Duration = Duration::from_millis(200);
/// Conditions about time alone are looked at so often.
const TICK: Duration = Duration::from_millis(200);

/// One change.
#[derive(Clone, Serialize)]
pub(crate) struct Entry {
    pub at: Timestamp,
    /// True if the object is gone.
    pub gone: bool,
    pub object: Object,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Object {
    Pod(Box<Pod>),
    Node(Box<Node>),
    DaemonSet(Box<DaemonSet>),
    Event(Box<Event>),
}

impl From<Pod> for Object {
    fn from(pod: Pod) -> Object {
        Object::Pod(Box::new(pod))
    }
}

impl From<Node> for Object {
    fn from(node: Node) -> Object {
        Object::Node(Box::new(node))
    }
}

impl From<DaemonSet> for Object {
    fn from(ds: DaemonSet) -> Object {
        Object::DaemonSet(Box::new(ds))
    }
}

impl From<Event> for Object {
    fn from(event: Event) -> Object {
        Object::Event(Box::new(event))
    }
}

impl State {
    /// The state after a change.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        self.at = entry.at;
        match &entry.object {
            Object::Pod(pod) if entry.gone => {
                drop(self.pods.remove(&pod.uid().unwrap_or_default()))
            }
            Object::Pod(pod) => {
                self.pods.insert(pod.uid().unwrap_or_default(), (**pod).clone());
            }
            Object::Node(node) if entry.gone => drop(self.nodes.remove(&node.name_any())),
            Object::Node(node) => {
                self.nodes.insert(node.name_any(), (**node).clone());
            }
            Object::DaemonSet(ds) if ds.name_any() != AGENT => {}
            Object::DaemonSet(_) if entry.gone => self.daemon_set = None,
            Object::DaemonSet(ds) => self.daemon_set = Some((**ds).clone()),
            Object::Event(_) if entry.gone => {}
            Object::Event(event) => self.events.push((**event).clone()),
        }
    }
}

#[derive(Default)]
struct Shared {
    entries: Vec<Entry>,
    state: State,
}

pub(crate) struct Record {
    shared: Arc<Mutex<Shared>>,
    changed: watch::Receiver<()>,
    tasks: Vec<JoinHandle<()>>,
}

impl Record {
    /// Starts four watches, of the story's namespace and of the nodes.
    pub(crate) fn start(world: &World) -> Record {
        let (sender, changed) = watch::channel(());
        let recorder = Recorder { shared: Arc::default(), changed: Arc::new(sender) };
        let tasks = vec![
            tokio::spawn(recorder.clone().follow(world.nodes())),
            tokio::spawn(recorder.clone().follow(world.pods())),
            tokio::spawn(recorder.clone().follow(world.daemon_sets())),
            tokio::spawn(recorder.clone().follow(world.events())),
        ];
        Record { shared: recorder.shared, changed, tasks }
    }

    /// Asks a question about the present state.
    pub(crate) fn look<T>(&self, question: impl FnOnce(&State) -> T) -> T {
        let mut shared = lock(&self.shared);
        shared.state.at = Timestamp::now();
        question(&shared.state)
    }

    /// Waits until something holds. Returns when a watch told it, or `None` at the deadline.
    pub(crate) async fn until(
        &self,
        deadline: Duration,
        holds: impl Fn(&State) -> bool,
    ) -> Option<Timestamp> {
        let mut changed = self.changed.clone();
        let ends = tokio::time::Instant::now() + deadline;
        loop {
            changed.mark_unchanged();
            if let Some(at) = self.look(|state| holds(state).then_some(state.at)) {
                return Some(at);
            }
            if tokio::time::Instant::now() >= ends {
                return None;
            }
            // At the latest after a tick: some conditions become true by time alone.
            let _ = tokio::time::timeout(TICK, changed.changed()).await;
        }
    }

    /// The changes so far.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        lock(&self.shared).entries.clone()
    }

    /// The number of pods of the DaemonSet of which this was true at some time.
    pub(crate) fn count(&self, holds: impl Fn(&Pod) -> bool) -> usize {
        let shared = lock(&self.shared);
        let pods = shared.entries.iter().filter_map(|entry| match &entry.object {
            Object::Pod(pod) if label(pod, "app") == Some(AGENT) && holds(pod) => pod.uid(),
            _ => None,
        });
        pods.collect::<BTreeSet<_>>().len()
    }

    /// The time since then in which no pod of the DaemonSet on the node was ready.
    pub(crate) fn without_ready_pod(&self, node: &str, since: Timestamp) -> SignedDuration {
        let (mut state, mut total) = (State::default(), SignedDuration::ZERO);
        for entry in &lock(&self.shared).entries {
            let pods = state.pods_on(node);
            if !pods.into_iter().any(|pod| is_ready(pod) && !is_terminating(pod)) {
                let began = state.at.max(since);
                total += entry.at.duration_since(began).max(SignedDuration::ZERO);
            }
            state.apply(entry);
        }
        total
    }

    /// Writes the changes of pods, of nodes and of the DaemonSet to a file, one on each line.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        for entry in &lock(&self.shared).entries {
            serde_json::to_writer(&mut file, entry)?;
            file.write_all(b"\n")?;
        }
        Ok(file.flush()?)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
struct Recorder {
    shared: Arc<Mutex<Shared>>,
    changed: Arc<watch::Sender<()>>,
}

impl Recorder {
    /// Records all changes of one resource, for ever.
    async fn follow<K>(self, api: Api<K>)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Into<Object>,
    {
        let mut known = BTreeMap::new();
        let mut ticks = tokio::time::interval(RETRY);
        loop {
            ticks.tick().await;
            // Its failure is an outage, as in some stories.
            let _ = self.follow_once(&api, &mut known).await;
            ticks.reset();
        }
    }

    /// Lists, then watches until the connection ends.
    async fn follow_once<K>(&self, api: &Api<K>, known: &mut BTreeMap<String, K>) -> Result<()>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Into<Object>,
    {
        let list = api.list(&ListParams::default()).await?;
        let mut left = std::mem::take(known);
        for object in list.items {
            left.remove(&object.uid().unwrap_or_default());
            self.add(known, object, false);
        }
        left.into_values().for_each(|object| self.add(known, object, true));
        let version = list.metadata.resource_version.unwrap_or_default();
        let mut stream = api.watch(&WatchParams::default(), &version).await?.boxed();
        while let Some(event) = stream.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.add(known, object, false);
                }
                WatchEvent::Deleted(object) => self.add(known, object, true),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(error) => anyhow::bail!("{error:?}"),
            }
        }
        Ok(())
    }

    fn add<K>(&self, known: &mut BTreeMap<String, K>, mut object: K, gone: bool)
    where
        K: Resource + Clone + Into<Object>,
    {
        object.meta_mut().managed_fields = None;
        let uid = object.uid().unwrap_or_default();
        if gone {
            known.remove(&uid);
        } else {
            known.insert(uid, object.clone());
        }
        let entry = Entry { at: Timestamp::now(), gone, object: object.into() };
        let mut shared = lock(&self.shared);
        shared.state.apply(&entry);
        shared.entries.push(entry);
        self.changed.send_replace(());
    }
}
