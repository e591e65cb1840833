//! What is really in the store, read plainly and anew each time: what checkers go by.

use everynode_core::name::Uid;
use everynode_core::object::{DaemonSet, Labels, Node, Pod, Readiness, Revision, UpdateStrategy};
use everynode_core::placement::{self, Eligibility};
use everynode_core::time::Timestamp;
use everynode_k8s::convert::{self, Interner, PodObject, RevisionObject};
use everynode_sandbox::kind::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD};
use everynode_sandbox::store::{Object, Store};

pub fn daemon_sets(store: &Store) -> Vec<DaemonSet> {
    store.iter(&DAEMON_SET, None).map(|object| daemon_set(object)).collect()
}

pub fn daemon_set(object: &Object) -> DaemonSet {
    convert::daemon_set(&object.json(), None).expect("the store's DaemonSets are valid").daemon_set
}

/// `None`: it is some other controller's.
pub fn pod(object: &Object) -> Option<Pod> {
    match convert::pod(&object.json(), &mut Interner::default())
        .expect("the store's pods are valid")
    {
        PodObject::Pod(pod) => Some(*pod),
        PodObject::Foreign { .. } => None,
    }
}

pub fn revision(object: &Object) -> Option<Revision> {
    let revision = convert::revision(&object.json(), &mut Interner::default());
    match revision.expect("the store's revisions are valid") {
        RevisionObject::Revision { revision, .. } => Some(revision),
        RevisionObject::Foreign { .. } => None,
    }
}

pub fn nodes(store: &Store) -> Vec<Node> {
    let mut interner = Interner::default();
    let node = |object: &std::sync::Arc<Object>| {
        convert::node(&object.json(), &mut interner).expect("the store's nodes are valid")
    };
    store.iter(&NODE, None).map(node).collect()
}

/// The pods whose controller this is.
pub fn pods_of(store: &Store, uid: &Uid) -> Vec<Pod> {
    let pods = store.iter(&POD, None).filter_map(|object| pod(object));
    pods.filter(|pod| pod.controller.as_ref() == Some(uid)).collect()
}

pub fn revisions_of(store: &Store, uid: &Uid) -> Vec<Revision> {
    let revisions = store.iter(&CONTROLLER_REVISION, None).filter_map(|object| revision(object));
    revisions.filter(|revision| revision.controller.as_ref() == Some(uid)).collect()
}

pub fn eligibility(ds: &DaemonSet, node: &Node) -> Eligibility {
    let selector = Labels::default();
    let mut reasons =
        placement::reasons_against(&ds.template.placement, &selector, node).peekable();
    match (reasons.peek().is_none(), reasons.any(|reason| reason.evicts())) {
        (true, _) => Eligibility::Run,
        (false, true) => Eligibility::Neither,
        (false, false) => Eligibility::ContinueRunning,
    }
}

pub fn is_on(pod: &Pod, node: &str) -> bool {
    pod.target_node_name().is_some_and(|name| name.as_str() == node)
}

/// Whether the pod has been ready for so long.
pub fn is_ready_for(pod: &Pod, millis: i64, now: Timestamp) -> bool {
    match pod.readiness {
        Readiness::NotReady => false,
        Readiness::Ready => millis <= 0,
        Readiness::ReadySince(since) => now.0 - since.0 >= millis,
    }
}

pub fn surges(ds: &DaemonSet) -> bool {
    ds.update_strategy.surges()
}

/// How many nodes a rolling update may take down at once; none while it surges.
pub fn max_unavailable(ds: &DaemonSet, nodes: usize) -> usize {
    match ds.update_strategy {
        UpdateStrategy::OnDelete | UpdateStrategy::Malformed => 0,
        strategy if strategy.surges() => 0,
        UpdateStrategy::RollingUpdate { max_unavailable, .. } => max_unavailable.of(nodes).max(1),
    }
}
