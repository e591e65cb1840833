//! What `explain` and `plan` read, of a cluster or of files: a snapshot. What can't be read is told, and the rest goes on.

mod manifest;
mod proposed;

use everynode_core::api::{DaemonSetKey, Timestamp};
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cluster::{Cluster, Error, Resource, Selection};

pub use manifest::{nodes, read as read_manifest};
pub use proposed::{by_ourselves, by_the_server};

/// Which pods are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// Those that the DaemonSet selects.
    OfDaemonSet,
    /// Those of all namespaces: what nodes have left is known then.
    All,
}

pub fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

/// Whether there is an answer without the DaemonSet's pods and revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    WhatMayBeRead,
    PodsAndRevisions,
}

/// Nodes, and what there is of a DaemonSet besides itself. `daemon_set` says what it selects.
///
/// # Errors
/// If nodes can't be read, or what else is demanded: without them there is no answer.
pub async fn cluster(
    cluster: &Cluster,
    daemon_set: &Value,
    pods: Pods,
    demand: Demand,
) -> Result<Snapshot, Error> {
    let mut snapshot = Snapshot::default();
    let namespace = daemon_set["metadata"]["namespace"].as_str().unwrap_or_default();
    let selector = serde_json::from_value(daemon_set["spec"]["selector"].clone());
    let selected = Selection::namespace_of(namespace).matching(&selector.unwrap_or_default());
    let everywhere = Selection::all();
    let (nodes, revisions, of_namespace, pods) = tokio::join!(
        cluster.list(Resource::Nodes, &everywhere),
        cluster.list(Resource::ControllerRevisions, &selected),
        cluster.read(Resource::Namespaces, None, namespace),
        self::pods(cluster, &selected, pods),
    );
    take(&mut snapshot, ObjectKind::Node, nodes)?;
    optional(&mut snapshot, ObjectKind::Namespace, of_namespace.map(|namespace| vec![namespace]))?;
    let (pods, refused) = pods;
    match demand {
        Demand::WhatMayBeRead => {
            optional(&mut snapshot, ObjectKind::ControllerRevision, revisions)?;
            optional(&mut snapshot, ObjectKind::Pod, pods)?;
        }
        Demand::PodsAndRevisions => {
            take(&mut snapshot, ObjectKind::ControllerRevision, revisions)?;
            take(&mut snapshot, ObjectKind::Pod, pods)?;
        }
    }
    snapshot.problems.extend(
        refused.map(|error| format!("whether new pods fit their nodes is not known: {error}")),
    );
    Ok(snapshot)
}

/// What a file of nodes has.
pub fn offline(nodes: &[Value]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for node in nodes {
        snapshot.add(ObjectKind::Node, node.to_string().as_bytes());
    }
    snapshot.unread.insert(ObjectKind::Pod);
    snapshot.unread.insert(ObjectKind::ControllerRevision);
    snapshot
}

/// The key of a DaemonSet as JSON.
pub fn key(daemon_set: &Value) -> DaemonSetKey {
    let text = |field: &str| daemon_set["metadata"][field].as_str().unwrap_or_default();
    DaemonSetKey::new(text("namespace"), text("name"))
}

type Listed = Result<Vec<Box<RawValue>>, Error>;

/// The pods, and why there are only those of the DaemonSet if all were asked for.
async fn pods(cluster: &Cluster, selected: &Selection, pods: Pods) -> (Listed, Option<Error>) {
    let refused = match pods {
        Pods::OfDaemonSet => None,
        Pods::All => match cluster.list(Resource::Pods, &Selection::all()).await {
            Err(error) if error.is_forbidden() => Some(error),
            result => return (result, None),
        },
    };
    (cluster.list(Resource::Pods, selected).await, refused)
}

fn take(snapshot: &mut Snapshot, kind: ObjectKind, listed: Listed) -> Result<(), Error> {
    for object in listed? {
        snapshot.add(kind, object.get().as_bytes());
    }
    Ok(())
}

/// Answers without it are possible.
fn optional(snapshot: &mut Snapshot, kind: ObjectKind, listed: Listed) -> Result<(), Error> {
    match listed {
        Err(error) if error.is_forbidden() => {
            let lost = match kind {
                ObjectKind::Pod => "what pods are doing is not known",
                ObjectKind::ControllerRevision => "which pods are up to date is not known",
                ObjectKind::Namespace => "whether the namespace has a node selector is not known",
                ObjectKind::Node | ObjectKind::DaemonSet | ObjectKind::Event => "it is left out",
            };
            snapshot.unread.insert(kind);
            snapshot.problems.push(format!("{lost}: {error}"));
            Ok(())
        }
        // A namespace that is yet to be made has no selector.
        Err(Error::NotFound { .. }) if kind == ObjectKind::Namespace => Ok(()),
        listed => take(snapshot, kind, listed),
    }
}
