//! What watches and live lists report to the event loop.

use everynode_core::api::{DaemonSetKey, LabelSelector, Node, Pod, ResourceVersion};
use everynode_k8s::convert::{DaemonSetObject, NamespaceObject, PodObject, RevisionObject};

use crate::watch::Change;

/// What a watch saw, of whichever kind.
#[derive(Debug)]
pub enum Observation {
    Node(Change<Node>),
    DaemonSet(Change<DaemonSetObject>),
    Pod(Change<PodObject>),
    Revision(Change<RevisionObject>),
    Namespace(Change<NamespaceObject>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct OrphanList {
    /// Who waits for it.
    pub key: DaemonSetKey,
    pub selector: LabelSelector,
}

/// The answer to an [`OrphanList`].
#[derive(Clone, Debug, PartialEq)]
pub struct Orphans {
    pub key: DaemonSetKey,
    pub pods: Vec<Pod>,
    /// The highest resourceVersion among them.
    pub version: ResourceVersion,
}
