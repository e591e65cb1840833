//! What watches and live lists report to the event loop.

use everynode_core::api::{DaemonSetKey, LabelSelector, Node, Pod, ResourceVersion};
use everynode_k8s::convert::{
    DaemonSetObject, NamespaceObject, PodObject, PolicyObject, RevisionObject,
};

use crate::watch::Change;

/// A change that the watch of one resource reports.
#[derive(Debug)]
pub enum Observation {
    /// A change to nodes.
    Node(Change<Node>),
    /// A change to DaemonSets.
    DaemonSet(Change<DaemonSetObject>),
    /// A change to pods.
    Pod(Change<PodObject>),
    /// A change to ControllerRevisions.
    Revision(Change<RevisionObject>),
    /// A change to namespaces.
    Namespace(Change<NamespaceObject>),
    /// A change to RolloutPolicies.
    RolloutPolicy(Change<PolicyObject>),
    /// A change to ClusterRolloutPolicies.
    ClusterRolloutPolicy(Change<PolicyObject>),
}

/// A request to list the orphan pods that a new DaemonSet may adopt.
#[derive(Clone, Debug, PartialEq)]
pub struct OrphanListRequest {
    /// The DaemonSet that waits for the list.
    pub key: DaemonSetKey,
    /// Its selector, which is never empty.
    pub selector: LabelSelector,
}

/// The answer to an [`OrphanListRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct OrphanPods {
    /// The DaemonSet that waits for the list.
    pub key: DaemonSetKey,
    /// The pods that match its selector, except those that another kind of controller owns.
    pub pods: Vec<Pod>,
    /// The highest resourceVersion among them.
    pub version: ResourceVersion,
}
