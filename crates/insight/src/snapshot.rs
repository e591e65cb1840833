//! The objects of a cluster at one moment, as far as questions about DaemonSets need them.
//!
//! A [`Snapshot`] is built from the JSON that an API server returns, one object at a time; the
//! objects may also come from files. It decides nothing. An object that can't be parsed is left
//! out, and [`Snapshot::problems`] names it.

mod changes;
mod condition;
mod deletion;
mod event;
mod node;
mod node_pod;
mod pod;

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{
    DaemonSet, DaemonSetKey, ImagePuller, Labels, MayOverride, Namespace, NodeName, PodName,
    Revision, RevisionName, RolloutReason, Uid,
};
use everynode_k8s::convert::{
    self, DaemonSetObject, Error, Interner, PodObject, PolicyReference, RevisionObject,
};
use everynode_k8s::fit::Usage;
use everynode_k8s::policies::Policies;

pub use changes::Changes;
pub use deletion::Deletion;
pub use event::EventDetail;
pub use node::{NodeDetail, NodeHealth, ZONE_LABEL};
pub use node_pod::NodePod;
pub use pod::{ContainerExit, PodDetail, PodState, Scheduling, WaitingContainer};

/// The kinds of objects in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A Node.
    Node,
    /// A DaemonSet.
    DaemonSet,
    /// An Event about a DaemonSet.
    Event,
    /// An Event of the type `Warning` about a pod.
    PodWarning,
    /// A Pod.
    Pod,
    /// A Pod that pulls images for a DaemonSet.
    ImagePuller,
    /// A Pod of any owner, on a node whose use is of interest.
    PodOnNode,
    /// A ControllerRevision.
    ControllerRevision,
    /// A Namespace.
    Namespace,
    /// A RolloutPolicy.
    RolloutPolicy,
    /// A ClusterRolloutPolicy.
    ClusterRolloutPolicy,
}

/// The objects of a cluster at one moment. An object that is added again replaces its earlier
/// version.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// All nodes.
    pub nodes: BTreeMap<NodeName, NodeDetail>,
    /// All DaemonSets.
    pub daemon_sets: BTreeMap<DaemonSetKey, DaemonSetObject>,
    /// The pods of DaemonSets, and pods without a controller.
    pub pods: BTreeMap<(Namespace, PodName), PodDetail>,
    /// The node and the resource usage of each pod that belongs to another controller.
    pub other_pods: BTreeMap<Uid, (NodeName, Usage)>,
    /// Pods that pull images for DaemonSets.
    pub pullers: BTreeMap<(Namespace, PodName), ImagePuller>,
    /// The revisions of DaemonSets, and revisions without a controller.
    pub revisions: BTreeMap<(Namespace, RevisionName), Revision>,
    /// When each revision was changed.
    pub revision_changes: BTreeMap<(Namespace, RevisionName), Changes>,
    /// Events about DaemonSets, by namespace and name.
    pub events: BTreeMap<(Namespace, String), EventDetail>,
    /// Warnings about pods, by namespace and name.
    pub pod_warnings: BTreeMap<(Namespace, String), EventDetail>,
    /// The pods of any owner on the nodes whose use is of interest: none of a node, or all of it.
    pub node_pods: BTreeMap<(Namespace, PodName), NodePod>,
    /// When each DaemonSet was changed.
    pub changes: BTreeMap<DaemonSetKey, Changes>,
    /// The deletions of the DaemonSets that are being deleted.
    pub deletions: BTreeMap<DaemonSetKey, Deletion>,
    /// The node selectors of the namespaces that have one (C15).
    pub namespace_node_selectors: BTreeMap<Namespace, Labels>,
    /// The namespaces that are being deleted.
    pub terminating_namespaces: BTreeSet<Namespace>,
    /// The policies of rollouts, and the labels of the namespaces that were read (G4).
    pub policies: Policies,
    /// The controller runs with `--namespace-node-selectors`. No object of the cluster contains
    /// that, so the caller sets it.
    pub honors_namespace_node_selectors: bool,
    /// An installation of everynode beside the built-in controller holds a lease; `false` if that
    /// is not known. The caller sets it (G18).
    pub runs_beside: bool,
    /// Messages about objects, or parts of them, that could not be read.
    pub problems: Vec<String>,
    /// Kinds of which no objects were read; answers make no statement about them.
    pub unread: BTreeSet<ObjectKind>,
    interner: Interner,
}

impl Snapshot {
    /// True if the built-in controller rolls this DaemonSet out by itself although something is to
    /// guard its rollouts: its update strategy is not `OnDelete` (G18).
    pub(crate) fn is_not_guarded(&self, daemon_set: &DaemonSet) -> bool {
        let stated = daemon_set.status.rollout.as_ref();
        let is_stated = stated.is_some_and(|stated| stated.reason == RolloutReason::NotGuarded);
        (self.runs_beside || is_stated)
            && daemon_set.is_guarded()
            && daemon_set.is_rolled_out_by_others()
    }

    /// Records whether an installation beside the built-in controller holds a lease, and no other
    /// does (G18).
    pub fn set_runs_beside(&mut self, runs_beside: bool) {
        self.runs_beside = runs_beside;
        self.apply_policies();
        for (key, revision) in std::mem::take(&mut self.revisions) {
            let revision = self.visible_revision(revision);
            self.revisions.insert(key, revision);
        }
    }

    /// The revision without overrides where these are of running pods (G57).
    fn visible_revision(&self, revision: Revision) -> Revision {
        match self.may_override() {
            MayOverride::Running => Revision { overrides: None, ..revision },
            MayOverride::AllButImage | MayOverride::All => revision,
        }
    }

    /// The fields that overrides of policies may set, as far as that is known (G57).
    pub(crate) const fn may_override(&self) -> MayOverride {
        if self.runs_beside { MayOverride::Running } else { MayOverride::All }
    }

    /// Adds one object from its JSON text. If that fails, [`problems`](Self::problems) gets a
    /// message.
    pub fn add(&mut self, kind: ObjectKind, json: &[u8]) {
        let added = match kind {
            ObjectKind::Node => self.add_node(json),
            ObjectKind::DaemonSet => self.add_daemon_set(json),
            ObjectKind::Event => {
                event(json).map(|(key, event)| self.events.insert(key, event)).map(drop)
            }
            ObjectKind::PodWarning => {
                event(json).map(|(key, event)| self.pod_warnings.insert(key, event)).map(drop)
            }
            ObjectKind::Pod => self.add_pod(json),
            ObjectKind::ImagePuller => self.add_puller(json),
            ObjectKind::PodOnNode => self.add_node_pod(json),
            ObjectKind::ControllerRevision => self.add_revision(json),
            ObjectKind::Namespace => self.add_namespace(json),
            ObjectKind::RolloutPolicy | ObjectKind::ClusterRolloutPolicy => self.add_policy(json),
        };
        if let Err(error) = added {
            self.problems.push(format!("{error}; it is left out"));
        }
    }

    /// True if nodes pull images before pods of this DaemonSet are replaced (G55).
    pub fn pulls_images(&self, key: &DaemonSetKey) -> bool {
        let policy = self.daemon_sets.get(key).and_then(|object| object.daemon_set.policy.valid());
        policy.is_some_and(|policy| policy.images().is_some())
    }

    /// The pods that this DaemonSet controls.
    pub fn pods_of(&self, key: &DaemonSetKey) -> impl Iterator<Item = &PodDetail> {
        let owner = self.daemon_sets.get(key).map(|object| &object.daemon_set.uid);
        let pods = self.in_namespace(&key.namespace);
        pods.filter(move |detail| owner.is_some() && detail.pod.controller.as_ref() == owner)
    }

    /// The revisions that this DaemonSet controls, oldest first.
    pub fn revisions_of(&self, key: &DaemonSetKey) -> Vec<&Revision> {
        let owner = self.daemon_sets.get(key).map(|object| &object.daemon_set.uid);
        let all = self.revisions.iter().filter(|((namespace, _), _)| *namespace == key.namespace);
        let mut revisions: Vec<_> = all
            .map(|(_, revision)| revision)
            .filter(|revision| owner.is_some() && revision.controller.as_ref() == owner)
            .collect();
        revisions.sort_by_key(|revision| revision.number);
        revisions
    }

    /// The pods of DaemonSets in a namespace, and those without a controller.
    pub fn in_namespace(&self, namespace: &Namespace) -> impl Iterator<Item = &PodDetail> {
        let from = (namespace.clone(), PodName::from(""));
        let pods = self.pods.range(from..);
        pods.take_while(move |((in_namespace, _), _)| in_namespace == namespace).map(|(_, pod)| pod)
    }

    /// Removes all objects of a kind, before a new list of them is added.
    pub fn clear(&mut self, kind: ObjectKind) {
        match kind {
            ObjectKind::Node => self.nodes.clear(),
            ObjectKind::DaemonSet => {
                self.daemon_sets.clear();
                self.changes.clear();
                self.deletions.clear();
            }
            ObjectKind::Event => self.events.clear(),
            ObjectKind::PodWarning => self.pod_warnings.clear(),
            ObjectKind::Pod => {
                self.pods.clear();
                self.other_pods.clear();
            }
            ObjectKind::ImagePuller => self.pullers.clear(),
            ObjectKind::PodOnNode => self.node_pods.clear(),
            ObjectKind::ControllerRevision => {
                self.revisions.clear();
                self.revision_changes.clear();
            }
            ObjectKind::Namespace => {
                self.namespace_node_selectors.clear();
                self.terminating_namespaces.clear();
                self.policies.clear_namespaces();
                self.apply_policies();
            }
            ObjectKind::RolloutPolicy => self.clear_policies(true),
            ObjectKind::ClusterRolloutPolicy => self.clear_policies(false),
        }
    }

    fn clear_policies(&mut self, namespaced: bool) {
        self.policies.retain(|reference| reference.namespace.is_some() != namespaced);
        self.apply_policies();
    }

    /// A DaemonSet with the policy that governs it.
    pub fn governed(&self, mut object: DaemonSetObject) -> DaemonSetObject {
        govern(&self.policies, self.may_override(), &mut object);
        object
    }

    /// Applies the policy that governs each DaemonSet.
    fn apply_policies(&mut self) {
        let may_override = self.may_override();
        for object in self.daemon_sets.values_mut() {
            govern(&self.policies, may_override, object);
        }
    }

    /// Removes one object. `namespace` is ignored for kinds that have none.
    pub fn remove(&mut self, kind: ObjectKind, namespace: &str, name: &str) {
        match kind {
            ObjectKind::Node => {
                self.nodes.remove(name);
            }
            ObjectKind::DaemonSet => {
                let key = DaemonSetKey::new(namespace, name);
                self.daemon_sets.remove(&key);
                self.changes.remove(&key);
                self.deletions.remove(&key);
            }
            ObjectKind::Event => {
                self.events.remove(&(namespace.into(), name.to_owned()));
            }
            ObjectKind::PodWarning => {
                self.pod_warnings.remove(&(namespace.into(), name.to_owned()));
            }
            ObjectKind::Pod => {
                self.pods.remove(&(namespace.into(), name.into()));
            }
            ObjectKind::ImagePuller => {
                self.pullers.remove(&(namespace.into(), name.into()));
            }
            ObjectKind::PodOnNode => {
                self.node_pods.remove(&(namespace.into(), name.into()));
            }
            ObjectKind::ControllerRevision => {
                let key = (namespace.into(), name.into());
                self.revisions.remove(&key);
                self.revision_changes.remove(&key);
            }
            ObjectKind::Namespace => {
                self.namespace_node_selectors.remove(name);
                self.terminating_namespaces.remove(name);
                self.policies.remove_namespace(&name.into());
                self.apply_policies();
            }
            ObjectKind::RolloutPolicy => self.remove_policy(Some(namespace.into()), name),
            ObjectKind::ClusterRolloutPolicy => self.remove_policy(None, name),
        }
    }

    fn add_node(&mut self, json: &[u8]) -> Result<(), Error> {
        let node = convert::node(json, &mut self.interner)?;
        self.nodes.insert(node.name.clone(), NodeDetail::new(node, json));
        Ok(())
    }

    fn add_daemon_set(&mut self, json: &[u8]) -> Result<(), Error> {
        let object = self.governed(convert::daemon_set(json, None)?);
        let key = object.daemon_set.key.clone();
        match Deletion::of(json) {
            Some(deletion) => self.deletions.insert(key.clone(), deletion),
            None => self.deletions.remove(&key),
        };
        self.changes.insert(key.clone(), Changes::of(json));
        self.daemon_sets.insert(key, object);
        Ok(())
    }

    fn add_pod(&mut self, json: &[u8]) -> Result<(), Error> {
        match convert::pod(json, &mut self.interner)? {
            PodObject::Pod(pod) => {
                let name = (pod.namespace.clone(), pod.name.clone());
                self.pods.insert(name, PodDetail::new(*pod, json));
            }
            PodObject::Puller(_) => {}
            PodObject::Foreign { uid, .. } => match pod::usage_on_node(json, &mut self.interner) {
                Some(usage) => {
                    self.other_pods.insert(uid, usage);
                }
                None => {
                    self.other_pods.remove(&uid);
                }
            },
        }
        Ok(())
    }

    fn add_puller(&mut self, json: &[u8]) -> Result<(), Error> {
        if let PodObject::Puller(puller) = convert::pod(json, &mut self.interner)? {
            self.pullers.insert((puller.namespace.clone(), puller.name.clone()), *puller);
        }
        Ok(())
    }

    fn add_node_pod(&mut self, json: &[u8]) -> Result<(), Error> {
        let meta = convert::meta(json).map_err(|error| Error {
            kind: "Pod",
            object: "without metadata".to_owned(),
            cause: error.to_string(),
        })?;
        let key = (Namespace::from(meta.namespace.unwrap_or_default()), PodName::from(meta.name));
        match NodePod::of(meta.uid, json, &mut self.interner) {
            Some(pod) => self.node_pods.insert(key, pod),
            None => self.node_pods.remove(&key),
        };
        Ok(())
    }

    fn add_revision(&mut self, json: &[u8]) -> Result<(), Error> {
        if let RevisionObject::Revision { namespace, revision } =
            convert::revision(json, &mut self.interner)?
        {
            let revision = self.visible_revision(revision);
            let key = (namespace, revision.name.clone());
            self.revision_changes.insert(key.clone(), Changes::of(json));
            self.revisions.insert(key, revision);
        }
        Ok(())
    }

    fn add_policy(&mut self, json: &[u8]) -> Result<(), Error> {
        self.policies.apply(convert::policy_object(json)?);
        self.apply_policies();
        Ok(())
    }

    fn remove_policy(&mut self, namespace: Option<Namespace>, name: &str) {
        self.policies.remove(&PolicyReference { namespace, name: name.into() });
        self.apply_policies();
    }

    fn add_namespace(&mut self, json: &[u8]) -> Result<(), Error> {
        let namespace = convert::namespace(json, &mut self.interner)?;
        match Deletion::of(json) {
            Some(_) => self.terminating_namespaces.insert(namespace.name.clone()),
            None => self.terminating_namespaces.remove(&namespace.name),
        };
        self.policies.apply_namespace(namespace.name.clone(), namespace.labels);
        self.apply_policies();
        let selector = namespace.node_selector;
        if let Some(message) = selector.malformed {
            let name = &namespace.name;
            self.problems
                .push(format!("namespace {name}: its node selector is ignored: {message}"));
        }
        if selector.labels.is_empty() {
            self.namespace_node_selectors.remove(&namespace.name);
        } else {
            self.namespace_node_selectors.insert(namespace.name, selector.labels);
        }
        Ok(())
    }
}

/// An event, with its namespace and name.
/// Applies the policy that governs a DaemonSet. Which fields overrides may set is known to the
/// controller only.
fn govern(policies: &Policies, may: MayOverride, object: &mut DaemonSetObject) {
    object.daemon_set.policy = policies.source(&object.raw);
    if object.daemon_set.policy.valid().is_some_and(|policy| policy.stated_overrides().is_some()) {
        object.daemon_set = object.daemon_set.clone().with_usable_overrides(may);
    }
}

fn event(json: &[u8]) -> Result<((Namespace, String), EventDetail), Error> {
    let failed = |error: serde_json::Error| Error {
        kind: "Event",
        object: "without metadata".to_owned(),
        cause: error.to_string(),
    };
    let meta = convert::meta(json).map_err(failed)?;
    let event = EventDetail::new(json)
        .map_err(|error| Error { object: meta.to_string(), ..failed(error) })?;
    let namespace = Namespace::from(meta.namespace.unwrap_or_default());
    Ok(((namespace, meta.name), event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn add(snapshot: &mut Snapshot, kind: ObjectKind, object: &Value) {
        snapshot.add(kind, object.to_string().as_bytes());
    }

    fn owned_by(uid: &str, name: &str) -> Value {
        json!({ "name": name, "namespace": "ns", "uid": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "uid": uid,
                "controller": true }] })
    }

    #[test]
    fn pods_and_revisions_are_matched_by_their_owners_uid() {
        let mut snapshot = Snapshot::default();
        let daemon_set = json!({ "metadata": { "name": "d", "namespace": "ns", "uid": "d-uid" } });
        add(&mut snapshot, ObjectKind::DaemonSet, &daemon_set);
        for (owner, name) in [("d-uid", "mine"), ("other", "theirs")] {
            add(&mut snapshot, ObjectKind::Pod, &json!({ "metadata": owned_by(owner, name) }));
            let revision = json!({ "metadata": owned_by(owner, name), "data": {}, "revision": 1 });
            add(&mut snapshot, ObjectKind::ControllerRevision, &revision);
        }
        let key = DaemonSetKey::new("ns", "d");
        let pods: Vec<_> = snapshot.pods_of(&key).map(|detail| detail.pod.name.as_str()).collect();
        assert_eq!(pods, ["mine"]);
        assert_eq!(snapshot.revisions_of(&key).len(), 1);
        assert_eq!(snapshot.in_namespace(&"ns".into()).count(), 2);
        snapshot.remove(ObjectKind::Pod, "ns", "mine");
        assert_eq!(snapshot.pods_of(&key).count(), 0);
    }

    /// C4, C15: an object that can't be parsed is named, and the others are kept.
    #[test]
    fn an_object_that_cant_be_parsed_is_named_and_left_out() {
        let mut snapshot = Snapshot::default();
        add(&mut snapshot, ObjectKind::Node, &json!({ "metadata": { "name": "good" } }));
        add(
            &mut snapshot,
            ObjectKind::Node,
            &json!({ "metadata": { "name": "bad" }, "spec": { "taints": 1 } }),
        );
        let selector = json!({ "scheduler.alpha.kubernetes.io/node-selector": "a=b" });
        let namespace = |name: &str, annotations: &Value| {
            let metadata = json!({ "name": name, "annotations": annotations });
            json!({ "metadata": metadata })
        };
        add(&mut snapshot, ObjectKind::Namespace, &namespace("narrow", &selector));
        add(&mut snapshot, ObjectKind::Namespace, &namespace("wide", &json!({})));
        assert_eq!(snapshot.nodes.len(), 1);
        assert_eq!(snapshot.problems.len(), 1);
        assert!(snapshot.problems[0].starts_with("Node bad: "), "{:?}", snapshot.problems);
        let expected = Labels::from_iter([("a", "b")]);
        assert_eq!(snapshot.namespace_node_selectors, [("narrow".into(), expected)].into());
    }

    /// G4: a DaemonSet has the policy of the object that selects it, in whatever order they are
    /// added and removed.
    #[test]
    fn daemon_sets_have_the_policy_that_governs_them() {
        let mut snapshot = Snapshot::default();
        let daemon_set = json!({ "metadata": { "name": "d", "namespace": "ns", "uid": "d-uid" } });
        let policy = json!({
            "metadata": { "name": "p", "uid": "p" },
            "spec": { "daemonSets": { "selector": {} },
                "namespaces": { "matchLabels": { "team": "x" } }, "paused": true },
        });
        let key = DaemonSetKey::new("ns", "d");
        let paused =
            |snapshot: &Snapshot| snapshot.daemon_sets.get(&key).map(|d| d.daemon_set.is_paused());
        add(&mut snapshot, ObjectKind::ClusterRolloutPolicy, &policy);
        add(&mut snapshot, ObjectKind::DaemonSet, &daemon_set);
        assert_eq!(paused(&snapshot), Some(false));
        let namespace = json!({ "metadata": { "name": "ns", "labels": { "team": "x" } } });
        add(&mut snapshot, ObjectKind::Namespace, &namespace);
        assert_eq!(paused(&snapshot), Some(true));
        snapshot.clear(ObjectKind::RolloutPolicy);
        assert_eq!(paused(&snapshot), Some(true));
        snapshot.remove(ObjectKind::ClusterRolloutPolicy, "", "p");
        assert_eq!(paused(&snapshot), Some(false));
    }

    #[test]
    fn the_usage_of_other_controllers_pods_is_kept_until_they_end() {
        let mut snapshot = Snapshot::default();
        let pod = |phase: &str| {
            json!({
                "metadata": { "name": "w", "namespace": "ns", "uid": "w",
                    "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet",
                        "uid": "r", "controller": true }] },
                "spec": { "nodeName": "n",
                    "containers": [{ "name": "c", "resources": { "requests": { "cpu": "2" } } }] },
                "status": { "phase": phase },
            })
        };
        add(&mut snapshot, ObjectKind::Pod, &pod("Running"));
        let (node, usage) = &snapshot.other_pods[&Uid::new("w")];
        assert_eq!((node.as_str(), usage.requests.amount("cpu")), ("n", 2000));
        add(&mut snapshot, ObjectKind::Pod, &pod("Succeeded"));
        assert!(snapshot.other_pods.is_empty());
    }
}
