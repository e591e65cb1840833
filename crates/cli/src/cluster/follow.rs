//! A DaemonSet with all that belongs to it, followed: a snapshot that keeps up with the cluster, through lost connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everynode_controller::metrics::Metrics;
use everynode_controller::outage_log::OutageLog;
use everynode_controller::watch::{self, Change, ConnectionState, Decode, RequestFailure, Watch};
use everynode_insight::snapshot::{Kind, Snapshot};
use everynode_k8s::convert;
use tokio::sync::mpsc;

use super::{Cluster, Error, Resource, Right, Selection};

/// Changes that wait to be taken; more slow the watch down.
const CHANGES_MAX: usize = 1000;

/// What is known, and how well.
pub struct Follower {
    pub snapshot: Snapshot,
    events: mpsc::Receiver<Event>,
    server: String,
    /// What is followed, and whether it is known yet.
    followed: BTreeMap<Kind, (Selection, Knowledge)>,
    /// Those whose watches have no connection, by their names.
    lost: BTreeSet<&'static str>,
}

#[derive(Debug)]
enum Knowledge {
    Awaited,
    Known,
    /// It may not be read: whatever depends on it stays unknown.
    Refused,
}

/// What a change was about.
#[derive(Debug)]
pub enum News {
    Changed,
    /// Something may not be read; told once.
    Refused(Kind, Error),
    /// The connection is lost, and being tried again.
    Lost(Error),
    /// It is there again, and nothing is missing.
    Regained,
}

enum Event {
    Changed(Kind, Change<Box<str>>),
    Contact(ConnectionState),
}

impl Cluster {
    /// Starts to follow the selections.
    pub fn follow(&self, selections: impl IntoIterator<Item = (Kind, Selection)>) -> Follower {
        let (sender, events) = mpsc::channel(CHANGES_MAX);
        let (metrics, outages) = (Arc::new(Metrics::default()), OutageLog::default());
        let mut followed = BTreeMap::new();
        for (kind, selection) in selections {
            let resource = Resource::from(kind);
            let watch = Watch {
                client: self.client.clone(),
                resource: watch::Resource {
                    name: resource.name(),
                    path: selection.path(resource, None, None),
                },
                decoder: Raw,
                sender: sender.clone(),
                wrap: wrap(kind),
                wrap_connection: |contact| Some(Event::Contact(contact)),
                outages: outages.clone(),
                metrics: metrics.clone(),
            };
            tokio::spawn(watch.run());
            followed.insert(kind, (selection, Knowledge::Awaited));
        }
        let server = self.server.clone();
        let (snapshot, lost) = (Snapshot::default(), BTreeSet::new());
        Follower { snapshot, events, server, followed, lost }
    }
}

impl Follower {
    /// Whether everything that may be read has been.
    pub fn is_complete(&self) -> bool {
        self.followed.values().all(|(_, knowledge)| match knowledge {
            Knowledge::Awaited => false,
            Knowledge::Known | Knowledge::Refused => true,
        })
    }

    /// Whether a watch has no connection.
    pub fn is_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Waits for the next change, and takes it into the snapshot.
    pub async fn next(&mut self) -> News {
        loop {
            // The watches end only with the follower.
            let Some(event) = self.events.recv().await else { std::future::pending().await };
            match event {
                Event::Changed(kind, change) => {
                    self.take(kind, change);
                    return News::Changed;
                }
                Event::Contact(ConnectionState::Lost(trouble)) => {
                    if let Some(news) = self.trouble(&trouble) {
                        return news;
                    }
                }
                Event::Contact(ConnectionState::Connected(resource)) => {
                    if self.lost.remove(resource) && self.lost.is_empty() {
                        return News::Regained;
                    }
                }
            }
        }
    }

    fn take(&mut self, kind: Kind, change: Change<Box<str>>) {
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
        if let Some((_, knowledge)) = self.followed.get_mut(&kind) {
            *knowledge = Knowledge::Known;
        }
    }

    fn trouble(&mut self, trouble: &RequestFailure) -> Option<News> {
        let found = self
            .followed
            .iter_mut()
            .find(|(kind, _)| Resource::from(**kind).name() == trouble.resource);
        let (kind, (selection, knowledge)) = found?;
        let right = Right::new("watch", (*kind).into(), selection.namespace());
        let message = trouble.message.clone();
        let error = match trouble.code {
            Some(code) => Error::refusal(&right, &self.server, code, message),
            None => Error::Unreachable { server: self.server.clone(), cause: message },
        };
        if !error.is_forbidden() {
            self.lost.insert(trouble.resource);
            return Some(News::Lost(error));
        }
        match std::mem::replace(knowledge, Knowledge::Refused) {
            Knowledge::Refused => None,
            Knowledge::Awaited | Knowledge::Known => Some(News::Refused(*kind, error)),
        }
    }
}

/// The object's text, to be read later.
struct Raw;

impl Decode for Raw {
    type Item = Box<str>;

    fn decode(&mut self, json: &[u8]) -> Result<Box<str>, convert::Error> {
        Ok(String::from_utf8_lossy(json).into())
    }

    fn key(object: &Box<str>) -> String {
        match convert::meta(object.as_bytes()) {
            Ok(meta) => meta.uid.to_string(),
            Err(_) => String::new(),
        }
    }
}

fn wrap(kind: Kind) -> fn(Change<Box<str>>) -> Event {
    match kind {
        Kind::ControllerRevision => |change| Event::Changed(Kind::ControllerRevision, change),
        Kind::DaemonSet => |change| Event::Changed(Kind::DaemonSet, change),
        Kind::Event => |change| Event::Changed(Kind::Event, change),
        Kind::Namespace => |change| Event::Changed(Kind::Namespace, change),
        Kind::Node => |change| Event::Changed(Kind::Node, change),
        Kind::Pod => |change| Event::Changed(Kind::Pod, change),
    }
}
