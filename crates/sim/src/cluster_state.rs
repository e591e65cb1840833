//! The actual state of the store, which checkers use. Every changed object is decoded, without a
//! watch in between.

use std::collections::BTreeMap;

use everynode_core::api::{
    DaemonSet, Labels, Node, Placement, Pod, Readiness, Revision, Timestamp, Uid,
};
use everynode_core::placement::{self, Eligibility};
use everynode_k8s::convert::{self, DaemonSetObject, Interner, PodObject, RevisionObject};
use everynode_sandbox::kind::{CONTROLLER_REVISION, DAEMON_SET, Kind, NODE, POD};
use everynode_sandbox::object::Object;
use everynode_sandbox::store::Store;

/// Objects by namespace and name.
type Objects<T> = BTreeMap<(Box<str>, Box<str>), T>;

/// The store's nodes, DaemonSets, pods and revisions at the last call of [`update`](Self::update).
#[derive(Default)]
pub struct ClusterState {
    nodes: Objects<Node>,
    daemon_sets: Objects<DaemonSetObject>,
    /// Pods without those of other controllers.
    pods: Objects<Pod>,
    revisions: Objects<Revision>,
    /// Pods and revisions that have lost their controller. The caller drains it.
    pub released: Vec<Uid>,
    /// Pods that have been bound to a node by the scheduler. The caller drains it.
    pub scheduled_pods: Vec<Uid>,
    /// Names of changed pods, and whether no DaemonSet controls the pod. The caller drains it.
    pub pod_names: Vec<(String, bool)>,
    interner: Interner,
    version: u64,
}

impl ClusterState {
    /// Reads all changes since the last call. Returns whether there were any.
    pub fn update(&mut self, store: &Store) -> bool {
        if self.version == store.resource_version() {
            return false;
        }
        let (version, interner) = (self.version, &mut self.interner);
        let (released, scheduled_pods) = (&mut self.released, &mut self.scheduled_pods);
        let pod_names = &mut self.pod_names;
        update(&mut self.nodes, store, &NODE, version, |object, _| {
            Some(convert::node(&object.json(), interner).expect("the store's nodes are valid"))
        });
        update(&mut self.daemon_sets, store, &DAEMON_SET, version, |object, previous| {
            let ds = convert::daemon_set(&object.json(), previous);
            Some(ds.expect("the store's DaemonSets are valid"))
        });
        update(&mut self.pods, store, &POD, version, |object, previous| {
            match convert::pod(&object.json(), interner).expect("the store's pods are valid") {
                PodObject::Pod(pod) => {
                    let had_controller = previous.is_some_and(|pod| pod.controller.is_some());
                    released.extend(released_uid(
                        had_controller,
                        pod.controller.as_ref(),
                        &pod.uid,
                    ));
                    pod_names.push((pod.name.to_string(), pod.controller.is_none()));
                    let had_no_node = previous.is_some_and(|p| p.target_node_name().is_none());
                    if had_no_node && pod.target_node_name().is_some() {
                        scheduled_pods.push(pod.uid.clone());
                    }
                    Some(*pod)
                }
                PodObject::Foreign { .. } => {
                    pod_names.push((object.name().to_owned(), true));
                    None
                }
            }
        });
        update(&mut self.revisions, store, &CONTROLLER_REVISION, version, |object, previous| {
            let revision = convert::revision(&object.json(), interner);
            match revision.expect("the store's revisions are valid") {
                RevisionObject::Revision { revision, .. } => {
                    let had_controller = previous.is_some_and(|r| r.controller.is_some());
                    released.extend(released_uid(
                        had_controller,
                        revision.controller.as_ref(),
                        &revision.uid,
                    ));
                    Some(revision)
                }
                RevisionObject::Foreign { .. } => None,
            }
        });
        self.version = store.resource_version();
        true
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(&key("", name))
    }

    pub fn daemon_sets(&self) -> impl Iterator<Item = &DaemonSet> {
        self.daemon_sets.values().map(|object| &object.daemon_set)
    }

    pub fn daemon_set(&self, uid: &Uid) -> Option<&DaemonSet> {
        self.daemon_sets().find(|ds| ds.uid == *uid)
    }

    /// Returns a pod, or `None` if it does not exist or has another controller.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pods.get(&key(namespace, name))
    }

    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    /// Returns the pods that this DaemonSet controls.
    pub fn pods_of(&self, uid: &Uid) -> impl Iterator<Item = &Pod> {
        self.pods().filter(move |pod| pod.controller.as_ref() == Some(uid))
    }

    /// Returns a revision, or `None` if it does not exist or has another controller.
    pub fn revision(&self, namespace: &str, name: &str) -> Option<&Revision> {
        self.revisions.get(&key(namespace, name))
    }

    pub fn revisions_of(&self, uid: &Uid) -> impl Iterator<Item = &Revision> {
        self.revisions.values().filter(move |revision| revision.controller.as_ref() == Some(uid))
    }

    /// Returns the revision with the highest number. At rest it is that of the current template.
    pub fn newest_revision(&self, uid: &Uid) -> Option<&Revision> {
        self.revisions_of(uid).max_by_key(|revision| revision.number)
    }

    /// Whether the DaemonSet should run a pod on this node.
    pub fn should_run(&self, ds: &DaemonSet, node: &str) -> bool {
        self.node(node).is_some_and(|node| eligibility(&ds.template.placement, node).should_run())
    }
}

fn key(namespace: &str, name: &str) -> (Box<str>, Box<str>) {
    (namespace.into(), name.into())
}

/// Returns the UID of an object that has just lost its controller.
fn released_uid(had_controller: bool, controller: Option<&Uid>, uid: &Uid) -> Option<Uid> {
    (had_controller && controller.is_none()).then(|| uid.clone())
}

fn update<T>(
    objects: &mut Objects<T>,
    store: &Store,
    kind: &'static Kind,
    version: u64,
    mut read: impl FnMut(&Object, Option<&T>) -> Option<T>,
) {
    let mut put = |objects: &mut Objects<T>, object: &Object| {
        let key = key(object.namespace(), object.name());
        match read(object, objects.get(&key)) {
            Some(decoded) => objects.insert(key, decoded),
            None => objects.remove(&key),
        };
    };
    let Ok(changes) = store.changes_since(kind, version, usize::MAX) else {
        // The log is compacted, so all objects are read again.
        objects.retain(|(namespace, name), _| store.find(kind, namespace, name).is_some());
        return store.iter(kind, None).for_each(|object| put(objects, object));
    };
    for change in changes {
        let (namespace, name) = (change.object.namespace(), change.object.name());
        match store.find(kind, namespace, name) {
            Some(object) if object.resource_version() == change.resource_version => {
                put(objects, object);
            }
            // A later change in the log covers this version.
            Some(_) => {}
            None => {
                objects.remove(&key(namespace, name));
            }
        }
    }
}

/// Whether a node should run a pod, may keep one, or must not run one.
pub(crate) fn eligibility(placement: &Placement, node: &Node) -> Eligibility {
    let selector = Labels::default();
    let mut reasons = placement::reasons_against(placement, &selector, node).peekable();
    match (reasons.peek().is_none(), reasons.any(|reason| reason.evicts())) {
        (true, _) => Eligibility::Run,
        (false, true) => Eligibility::MustNotRun,
        (false, false) => Eligibility::ContinueRunning,
    }
}

/// Whether the DaemonSet's selector matches the pod.
pub(crate) fn selects(ds: &DaemonSet, pod: &Pod) -> bool {
    ds.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

/// Whether this is the pod's node (C20).
pub(crate) fn is_on_node(pod: &Pod, node: &str) -> bool {
    pod.target_node_name().is_some_and(|name| name.as_str() == node)
}

/// Whether the pod has been ready for this number of milliseconds.
pub(crate) fn is_ready_for(pod: &Pod, millis: i64, now: Timestamp) -> bool {
    match pod.readiness {
        Readiness::NotReady => false,
        Readiness::Ready => millis <= 0,
        Readiness::ReadySince(since) => now.0 - since.0 >= millis,
    }
}
