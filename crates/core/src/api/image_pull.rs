//! Pods that pull the images of a revision to their node ahead of its pods (G55).

use super::names::{Namespace, NodeName, PodName, RevisionHash, Uid};
use super::pod::PodTrouble;
use super::time::Timestamp;

/// The label of a puller with the UID of the DaemonSet. It has none of the labels of the template,
/// so that nothing takes it for a pod of the DaemonSet.
pub const PULLS_FOR_LABEL: &str = "everynode.dev/pulls-images-for";

/// The label of a puller with the hash of the revision whose images it pulls.
pub const PULLS_OF_LABEL: &str = "everynode.dev/pulls-images-of";

/// A pod that does nothing but make the kubelet of its node pull the images of a revision, which
/// is its controller. Its containers cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePuller {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: PodName,
    /// `metadata.uid`.
    pub uid: Uid,
    /// The UID of the DaemonSet.
    pub daemon_set: Uid,
    /// The hash of the revision.
    pub revision: RevisionHash,
    /// `spec.nodeName`.
    pub node: NodeName,
    /// `metadata.creationTimestamp`.
    pub creation_timestamp: Timestamp,
    /// True if `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// How far it is.
    pub state: PullState,
}

/// How far a puller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullState {
    /// An image is yet to be pulled.
    Pulling,
    /// An image could not be pulled; the kubelet tries it again.
    Troubled(PodTrouble),
    /// The node has all images.
    Pulled,
    /// The pod has ended before that: it was evicted, or its node has no room for it.
    Ended,
}
