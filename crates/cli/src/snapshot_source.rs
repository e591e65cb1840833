//! The snapshots of `explain` and `plan`, from a cluster or from files. Missing permissions become
//! problems of the snapshot where an answer without the objects is possible.

mod manifest;
mod proposed;

use everynode_controller::{Mode, lease_name};
use everynode_core::api::{DaemonSetKey, NodeName};
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use everynode_k8s::convert::{self, DaemonSetObject};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cluster::{Cluster, Error, Resource, Selection, parsed};

pub(crate) use manifest::{Manifest, read as read_manifest, read_nodes};
pub(crate) use proposed::{apply_locally, dry_run_on_server, patch_locally, settable};

/// Which pods are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodScope {
    /// The pods that the DaemonSet selects.
    OfDaemonSet,
    /// The pods of all namespaces, so that the free resources of nodes are known.
    AllNamespaces,
}

/// The data without which there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredData {
    /// None.
    Nothing,
    /// The nodes.
    Nodes,
    /// The DaemonSet's pods and revisions.
    PodsAndRevisions,
}

/// A snapshot with the nodes, and the pods and revisions that `daemon_set` selects. The caller adds
/// the DaemonSet itself.
///
/// # Errors
/// If required data can't be read, or the cluster can't be reached.
pub(crate) async fn from_cluster(
    cluster: &Cluster,
    daemon_set: &Value,
    pods: PodScope,
    required: RequiredData,
) -> Result<Snapshot, Error> {
    let mut snapshot = Snapshot::default();
    let namespace = daemon_set["metadata"]["namespace"].as_str().unwrap_or_default();
    let selector = serde_json::from_value(daemon_set["spec"]["selector"].clone());
    let selected = Selection::in_namespace(namespace).matching(&selector.unwrap_or_default());
    let all = Selection::all();
    let (nodes, revisions, policies, pods, runs_beside) = tokio::join!(
        cluster.list(Resource::Nodes, &all),
        cluster.list(Resource::ControllerRevisions, &selected),
        add_policies(&mut snapshot, cluster, namespace),
        read_pods(cluster, &selected, pods),
        runs_beside(cluster),
    );
    policies?;
    snapshot.set_runs_beside(runs_beside?);
    match required {
        RequiredData::Nodes => add_required(&mut snapshot, ObjectKind::Node, nodes)?,
        RequiredData::Nothing | RequiredData::PodsAndRevisions => {
            add_optional(&mut snapshot, ObjectKind::Node, nodes)?;
        }
    }
    let (pods, forbidden) = pods;
    match required {
        RequiredData::Nothing | RequiredData::Nodes => {
            add_optional(&mut snapshot, ObjectKind::ControllerRevision, revisions)?;
            add_optional(&mut snapshot, ObjectKind::Pod, pods)?;
        }
        RequiredData::PodsAndRevisions => {
            add_required(&mut snapshot, ObjectKind::ControllerRevision, revisions)?;
            add_required(&mut snapshot, ObjectKind::Pod, pods)?;
        }
    }
    add_image_pullers(&mut snapshot, cluster, daemon_set).await?;
    snapshot.problems.extend(
        forbidden.map(|error| format!("unknown whether new pods fit their nodes: {error}")),
    );
    Ok(snapshot)
}

/// Adds the pods that pull images for a DaemonSet, if its policy has any.
async fn add_image_pullers(
    snapshot: &mut Snapshot,
    cluster: &Cluster,
    daemon_set: &Value,
) -> Result<(), Error> {
    // One that cannot be read is reported by the caller, which adds it.
    let Ok(object) = convert::daemon_set(daemon_set.to_string().as_bytes(), None) else {
        return Ok(());
    };
    let DaemonSetObject { daemon_set, .. } = snapshot.governed(object);
    match daemon_set.policy.valid().and_then(|policy| policy.images()) {
        Some(_) => {
            add_permitted(snapshot, cluster, [Selection::image_pullers(&daemon_set.key)]).await
        }
        None => Ok(()),
    }
}

/// Adds the events about a DaemonSet. Where the permission is missing, so are notes.
///
/// # Errors
/// If the cluster can't be reached.
pub(crate) async fn add_events(
    snapshot: &mut Snapshot,
    cluster: &Cluster,
    key: &DaemonSetKey,
) -> Result<(), Error> {
    add_permitted(snapshot, cluster, [Selection::events(key)]).await
}

/// Adds the warnings about the pods of the namespace of a DaemonSet that is not rolled out.
///
/// # Errors
/// If the cluster can't be reached.
pub(crate) async fn add_pod_warnings(
    snapshot: &mut Snapshot,
    cluster: &Cluster,
    key: &DaemonSetKey,
) -> Result<(), Error> {
    let (kind, selection) = Selection::pod_warnings(key);
    let listed = cluster.list(kind.into(), &selection).await;
    add_optional(snapshot, kind, listed)
}

/// Adds what else answers about a DaemonSet need: all pods of a node that one of its pods does not
/// fit, and the other DaemonSets of its namespace. Where the permission is missing, answers are
/// less precise.
///
/// # Errors
/// If the cluster can't be reached.
pub(crate) async fn add_neighbors(
    snapshot: &mut Snapshot,
    cluster: &Cluster,
    key: &DaemonSetKey,
    full_node: Option<&NodeName>,
) -> Result<(), Error> {
    let here = Selection::in_namespace(key.namespace.as_str());
    let mut wanted = vec![(ObjectKind::DaemonSet, here)];
    wanted.extend(full_node.map(|node| (ObjectKind::PodOnNode, Selection::all().on_node(node))));
    add_permitted(snapshot, cluster, wanted).await
}

/// Adds all objects of the selections that may be read.
async fn add_permitted(
    snapshot: &mut Snapshot,
    cluster: &Cluster,
    wanted: impl IntoIterator<Item = (ObjectKind, Selection)>,
) -> Result<(), Error> {
    for (kind, selection) in wanted {
        match cluster.list(kind.into(), &selection).await {
            Err(error) if error.is_forbidden() => {
                snapshot.unread.insert(kind);
            }
            listed => add_required(snapshot, kind, listed)?,
        }
    }
    Ok(())
}

/// Adds a namespace, and the policies that may govern its DaemonSets.
///
/// # Errors
/// If the cluster can't be reached.
pub(crate) async fn add_policies(
    snapshot: &mut Snapshot,
    cluster: &Cluster,
    namespace: &str,
) -> Result<(), Error> {
    let (here, all) = (Selection::in_namespace(namespace), Selection::all());
    let (of_namespace, policies, of_cluster) = tokio::join!(
        cluster.read(Resource::Namespaces, None, namespace),
        cluster.list(Resource::RolloutPolicies, &here),
        cluster.list(Resource::ClusterRolloutPolicies, &all),
    );
    add_optional(snapshot, ObjectKind::Namespace, of_namespace.map(|namespace| vec![namespace]))?;
    add_optional(snapshot, ObjectKind::RolloutPolicy, policies)?;
    add_optional(snapshot, ObjectKind::ClusterRolloutPolicy, of_cluster)
}

/// Adds the policies that may govern the DaemonSets of a scope, and the namespaces that they may
/// select.
///
/// # Errors
/// If the cluster can't be reached.
pub(crate) async fn add_policies_in(
    snapshot: &mut Snapshot,
    cluster: &Cluster,
    scope: &Selection,
) -> Result<(), Error> {
    let all = Selection::all();
    let (policies, of_cluster) = tokio::join!(
        cluster.list(Resource::RolloutPolicies, scope),
        cluster.list(Resource::ClusterRolloutPolicies, &all),
    );
    let selects_namespaces = of_cluster.as_ref().is_ok_and(|policies| !policies.is_empty());
    add_optional(snapshot, ObjectKind::RolloutPolicy, policies)?;
    add_optional(snapshot, ObjectKind::ClusterRolloutPolicy, of_cluster)?;
    if selects_namespaces {
        let wanted = scope.namespace().map_or(all, |name| Selection::all().named(name));
        let namespaces = cluster.list(Resource::Namespaces, &wanted).await;
        add_optional(snapshot, ObjectKind::Namespace, namespaces)?;
    }
    Ok(())
}

/// True if an installation guards rollouts beside the built-in controller: it holds its lease, and
/// none that is the DaemonSet controller itself does, beside which it does nothing (G18).
///
/// # Errors
/// If the cluster can't be reached.
pub(crate) async fn runs_beside(cluster: &Cluster) -> Result<bool, Error> {
    let (beside, controls) = tokio::join!(
        leads(cluster, Mode::Beside { rolls_back: false }),
        leads(cluster, Mode::Controller)
    );
    Ok(beside? && !controls?)
}

/// True if an installation holds its lease, in any namespace. Without the right to list leases that
/// is not known, and the conditions of DaemonSets tell.
async fn leads(cluster: &Cluster, mode: Mode) -> Result<bool, Error> {
    let name = lease_name(mode);
    let leases = match cluster.list(Resource::Leases, &Selection::all().named(name)).await {
        Err(Error::NotFound { .. }) => return Ok(false),
        Err(error) if error.is_forbidden() => return Ok(false),
        leases => leases?,
    };
    let is_held = |lease: &RawValue| -> Result<bool, Error> {
        let lease: Lease = parsed(Resource::Leases, lease.get())?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        Ok(holder.is_some_and(|holder| !holder.is_empty()))
    };
    let held: Vec<bool> = leases.iter().map(|lease| is_held(lease)).collect::<Result<_, _>>()?;
    Ok(held.contains(&true))
}

/// Adds the policies of a manifest, which replace those of the same name.
pub(crate) fn add_policies_of(snapshot: &mut Snapshot, manifest: &Manifest) {
    for policy in &manifest.policies {
        snapshot.add(ObjectKind::RolloutPolicy, policy.to_string().as_bytes());
    }
}

/// A snapshot with the nodes of a file only.
pub(crate) fn from_nodes(nodes: &[Value]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for node in nodes {
        snapshot.add(ObjectKind::Node, node.to_string().as_bytes());
    }
    snapshot.unread.insert(ObjectKind::Pod);
    snapshot.unread.insert(ObjectKind::ControllerRevision);
    snapshot
}

/// The key of a DaemonSet in JSON form.
pub(crate) fn key(daemon_set: &Value) -> DaemonSetKey {
    let text = |field: &str| daemon_set["metadata"][field].as_str().unwrap_or_default();
    DaemonSetKey::new(text("namespace"), text("name"))
}

type Listed = Result<Vec<Box<RawValue>>, Error>;

/// The pods. If the permission to read all pods is missing, those of the DaemonSet and the error.
async fn read_pods(
    cluster: &Cluster,
    selected: &Selection,
    pods: PodScope,
) -> (Listed, Option<Error>) {
    let forbidden = match pods {
        PodScope::OfDaemonSet => None,
        PodScope::AllNamespaces => match cluster.list(Resource::Pods, &Selection::all()).await {
            Err(error) if error.is_forbidden() => Some(error),
            result => return (result, None),
        },
    };
    (cluster.list(Resource::Pods, selected).await, forbidden)
}

fn add_required(snapshot: &mut Snapshot, kind: ObjectKind, listed: Listed) -> Result<(), Error> {
    for object in listed? {
        snapshot.add(kind, object.get().as_bytes());
    }
    Ok(())
}

/// Adds objects of a kind without which an answer is possible.
fn add_optional(snapshot: &mut Snapshot, kind: ObjectKind, listed: Listed) -> Result<(), Error> {
    match listed {
        Err(error) if error.is_forbidden() => {
            let unknown = match kind {
                ObjectKind::Pod => "the states of pods are unknown",
                ObjectKind::ImagePuller => "unknown which nodes pull images",
                ObjectKind::PodOnNode => "unknown what uses the node",
                ObjectKind::ControllerRevision => "unknown which pods are up to date",
                ObjectKind::Namespace => {
                    "unknown whether the namespace has a node selector, and its labels"
                }
                ObjectKind::RolloutPolicy | ObjectKind::ClusterRolloutPolicy => {
                    "unknown whether a policy governs the rollout"
                }
                ObjectKind::Event | ObjectKind::PodWarning => "causes may be missing",
                ObjectKind::Node => {
                    "unknown which nodes should run a pod, their states, and in which order pods \
                     are replaced"
                }
                ObjectKind::DaemonSet => "objects are missing",
            };
            snapshot.unread.insert(kind);
            snapshot.problems.push(format!("{unknown}: {error}"));
            Ok(())
        }
        // A namespace that does not exist yet has no node selector. Policies may not be installed.
        Err(Error::NotFound { .. })
            if matches!(
                kind,
                ObjectKind::Namespace
                    | ObjectKind::RolloutPolicy
                    | ObjectKind::ClusterRolloutPolicy
            ) =>
        {
            Ok(())
        }
        listed => add_required(snapshot, kind, listed),
    }
}
