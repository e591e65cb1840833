//! A snapshot that watches keep up to date, also across lost connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everynode_controller::environment::Environment;
use everynode_controller::outage_log::OutageLog;
use everynode_controller::watch::{
    self, Change, ConnectionState, Decode, Encoded, RequestFailure, Watch, WatchContext,
};
use everynode_core::api::{DaemonSetKey, NodeName};
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use everynode_k8s::convert;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::refusals::Refusals;
use super::{Cluster, Error, Permission, Resource, Selection};

/// The number of changes that are buffered. Watches wait while the buffer is full.
const BUFFER_SIZE: usize = 1000;

/// A snapshot and the watches that update it.
pub(crate) struct Watcher {
    pub snapshot: Snapshot,
    server: String,
    events: mpsc::Receiver<Event>,
    context: Arc<WatchContext<Event>>,
    /// The watched selections, and whether they have been read.
    watched: BTreeMap<ObjectKind, (Selection, ReadState)>,
    /// The names of the watches that have no connection.
    lost: BTreeSet<&'static str>,
    refusals: Refusals,
}

/// The progress of reading the objects of one kind.
#[derive(Debug)]
enum ReadState {
    Pending,
    Complete,
    /// The permission is missing.
    Forbidden,
}

/// A change that the watches have seen.
#[derive(Debug)]
pub(crate) enum Update {
    /// The snapshot has changed.
    Changed,
    /// The permission to watch these objects is missing. Reported once for each kind.
    Forbidden(ObjectKind, Error),
    /// A connection is lost; the watch retries.
    ConnectionLost(Error),
    /// All watches have a connection again.
    Reconnected,
}

enum Event {
    Changed(ObjectKind, Change<Box<str>>),
    Connection(ConnectionState),
}

impl Cluster {
    /// Starts to watch the selections.
    pub(crate) fn watch(
        &self,
        selections: impl IntoIterator<Item = (ObjectKind, Selection)>,
    ) -> Watcher {
        let (sender, events) = mpsc::channel(BUFFER_SIZE);
        let context = WatchContext {
            client: self.client.clone(),
            sender,
            wrap_connection: |state| Some(Event::Connection(state)),
            outages: OutageLog::default(),
            environment: Environment::default(),
            metrics: Arc::default(),
        };
        let mut watcher = Watcher {
            snapshot: Snapshot::default(),
            server: self.server.clone(),
            events,
            context: Arc::new(context),
            watched: BTreeMap::new(),
            lost: BTreeSet::new(),
            refusals: Refusals::default(),
        };
        for (kind, selection) in selections {
            watcher.follow(kind, selection);
        }
        watcher
    }
}

impl Watcher {
    /// Starts to watch the warnings about pods of the namespace of a DaemonSet that is not rolled
    /// out. Events have no labels, so the others are sorted out here.
    pub(crate) fn follow_pod_warnings(&mut self, key: &DaemonSetKey) {
        if !self.watched.contains_key(&ObjectKind::PodWarning) {
            let (kind, selection) = Selection::pod_warnings(key);
            self.follow(kind, selection);
        }
    }

    /// Starts to watch the pods that pull images for a DaemonSet, if its policy has any.
    pub(crate) fn follow_image_pullers(&mut self, key: &DaemonSetKey) {
        let is_wanted = self.snapshot.pulls_images(key);
        if is_wanted && !self.watched.contains_key(&ObjectKind::ImagePuller) {
            let (kind, selection) = Selection::image_pullers(key);
            self.follow(kind, selection);
        }
    }

    /// Starts to watch all pods of a node, unless those of another one are watched.
    pub(crate) fn follow_node(&mut self, node: &NodeName) {
        if !self.watched.contains_key(&ObjectKind::PodOnNode) {
            self.follow(ObjectKind::PodOnNode, Selection::all().on_node(node));
        }
    }

    fn follow(&mut self, kind: ObjectKind, selection: Selection) {
        let resource = Resource::from(kind);
        let watch = Watch {
            resource: watch::Resource {
                name: watch_name(kind),
                path: selection.path(resource, None, None),
            },
            decoder: RawDecoder,
            wrap: Box::new(wrap(kind)),
            is_optional: matches!(
                kind,
                ObjectKind::RolloutPolicy | ObjectKind::ClusterRolloutPolicy
            ),
            context: self.context.clone(),
        };
        tokio::spawn(watch.run());
        self.watched.insert(kind, (selection, ReadState::Pending));
    }

    /// True if every kind has been read, except those without permission.
    pub(crate) fn is_complete(&self) -> bool {
        self.watched.values().all(|(_, state)| match state {
            ReadState::Pending => false,
            ReadState::Complete | ReadState::Forbidden => true,
        })
    }

    /// True if a watch has no connection.
    pub(crate) fn is_disconnected(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Waits for the next event and applies it to the snapshot.
    pub(crate) async fn next(&mut self) -> Update {
        loop {
            // The watches end only with the watcher.
            let Some(event) = self.events.recv().await else { std::future::pending().await };
            match event {
                Event::Changed(kind, change) => {
                    self.apply(kind, change);
                    return Update::Changed;
                }
                Event::Connection(ConnectionState::Lost(failure)) => {
                    if let Some(update) = self.update_of(&failure) {
                        return update;
                    }
                }
                Event::Connection(ConnectionState::Connected(resource)) => {
                    if self.lost.remove(resource) && self.lost.is_empty() {
                        return Update::Reconnected;
                    }
                }
            }
        }
    }

    fn apply(&mut self, kind: ObjectKind, change: Change<Box<str>>) {
        match change {
            Change::Reset { items, .. } => {
                self.snapshot.clear(kind);
                for item in items {
                    self.snapshot.add(kind, item.as_bytes());
                }
            }
            Change::Applied { item, .. } => self.snapshot.add(kind, item.as_bytes()),
            Change::Deleted { item, .. } => match convert::meta(item.as_bytes()) {
                Ok(meta) => {
                    let namespace = meta.namespace.unwrap_or_default();
                    self.snapshot.remove(kind, &namespace, &meta.name);
                }
                Err(error) => self.snapshot.problems.push(error.to_string()),
            },
            Change::Reached(_) => {}
        }
        self.refusals.end(kind);
        if let Some((_, state)) = self.watched.get_mut(&kind) {
            *state = ReadState::Complete;
        }
    }

    /// The update that a failed request means; `None` if it has been reported.
    fn update_of(&mut self, failure: &RequestFailure) -> Option<Update> {
        let is_failed = |kind: &&ObjectKind| watch_name(**kind) == failure.resource;
        let kind = *self.watched.keys().find(is_failed)?;
        let (selection, state) = &self.watched[&kind];
        let permission = Permission::new("watch", kind.into(), selection.namespace());
        let message = failure.message.clone();
        let error = match failure.code {
            Some(code) => Error::of_status(&permission, &self.server, code, message),
            None => Error::Unreachable { server: self.server.clone(), cause: message },
        };
        let was_read = matches!(state, ReadState::Complete);
        if !error.is_forbidden() || self.refusals.may_pass(kind, was_read, Instant::now()) {
            self.lost.insert(failure.resource);
            return Some(Update::ConnectionLost(error));
        }
        let namespace = selection.namespace().map(str::to_owned);
        let mut is_known = false;
        for (other, (selection, state)) in &mut self.watched {
            let is_same = Resource::from(*other) == kind.into();
            if is_same && selection.namespace() == namespace.as_deref() {
                self.snapshot.unread.insert(*other);
                is_known |= matches!(state, ReadState::Forbidden);
                *state = ReadState::Forbidden;
            }
        }
        (!is_known).then_some(Update::Forbidden(kind, error))
    }
}

/// The name of the watch of a kind: two of them are of one resource, and fail apart.
fn watch_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::PodOnNode => "pods of a node",
        ObjectKind::ImagePuller => "pods that pull images",
        ObjectKind::PodWarning => "warnings about pods",
        ObjectKind::ControllerRevision
        | ObjectKind::DaemonSet
        | ObjectKind::Event
        | ObjectKind::Namespace
        | ObjectKind::Node
        | ObjectKind::Pod
        | ObjectKind::RolloutPolicy
        | ObjectKind::ClusterRolloutPolicy => Resource::from(kind).name(),
    }
}

/// A decoder that keeps the object's JSON text.
struct RawDecoder;

impl Decode for RawDecoder {
    type Item = Box<str>;

    fn decode(&mut self, object: Encoded<'_>) -> Result<Box<str>, convert::Error> {
        Ok(String::from_utf8_lossy(object.json("object")?).into())
    }

    fn key(object: &Box<str>) -> String {
        match convert::meta(object.as_bytes()) {
            Ok(meta) => meta.uid.to_string(),
            Err(_) => String::new(),
        }
    }
}

fn wrap(kind: ObjectKind) -> fn(Change<Box<str>>) -> Event {
    match kind {
        ObjectKind::ControllerRevision => {
            |change| Event::Changed(ObjectKind::ControllerRevision, change)
        }
        ObjectKind::DaemonSet => |change| Event::Changed(ObjectKind::DaemonSet, change),
        ObjectKind::Event => |change| Event::Changed(ObjectKind::Event, change),
        ObjectKind::PodWarning => |change| Event::Changed(ObjectKind::PodWarning, change),
        ObjectKind::Namespace => |change| Event::Changed(ObjectKind::Namespace, change),
        ObjectKind::Node => |change| Event::Changed(ObjectKind::Node, change),
        ObjectKind::Pod => |change| Event::Changed(ObjectKind::Pod, change),
        ObjectKind::ImagePuller => |change| Event::Changed(ObjectKind::ImagePuller, change),
        ObjectKind::PodOnNode => |change| Event::Changed(ObjectKind::PodOnNode, change),
        ObjectKind::RolloutPolicy => |change| Event::Changed(ObjectKind::RolloutPolicy, change),
        ObjectKind::ClusterRolloutPolicy => {
            |change| Event::Changed(ObjectKind::ClusterRolloutPolicy, change)
        }
    }
}
