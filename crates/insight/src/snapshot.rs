//! A cluster at one moment, as far as questions about DaemonSets go: built from objects as the API server
//! writes them, one at a time, wherever they were read.
//!
//! Nothing is decided here. An object that can't be read is told by name and left out.

mod condition;
mod event;
mod node;
mod pod;

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{
    DaemonSetKey, Labels, Namespace, NodeName, PodName, Revision, RevisionName, Uid,
};
use everynode_k8s::convert::{self, DaemonSetObject, Error, Interner, PodObject, RevisionObject};
use everynode_k8s::fit::Usage;

pub use event::EventDetail;
pub use node::{NodeDetail, NodeHealth};
pub use pod::{Container, Exit, PodDetail, PodState};

/// The kinds of which a snapshot is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Node,
    DaemonSet,
    Event,
    Pod,
    ControllerRevision,
    Namespace,
}

/// What is known. An object that is added again replaces what was known of it.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub nodes: BTreeMap<NodeName, NodeDetail>,
    pub daemon_sets: BTreeMap<DaemonSetKey, DaemonSetObject>,
    /// The pods of DaemonSets, and orphans.
    pub pods: BTreeMap<(Namespace, PodName), PodDetail>,
    /// What the pods of other controllers take up on their nodes.
    pub others: BTreeMap<Uid, (NodeName, Usage)>,
    /// The revisions of DaemonSets, and orphans.
    pub revisions: BTreeMap<(Namespace, RevisionName), Revision>,
    /// What was told of DaemonSets.
    pub events: BTreeMap<(Namespace, String), EventDetail>,
    /// Of the namespaces that have one (C15).
    pub namespace_node_selectors: BTreeMap<Namespace, Labels>,
    /// Whether the controller heeds them, which nothing in the cluster tells.
    pub heeds_namespace_node_selectors: bool,
    /// Objects, or parts of them, that could not be read, and why.
    pub problems: Vec<String>,
    /// Kinds that could not be read, or were not: nothing is said of them.
    pub unread: BTreeSet<Kind>,
    interner: Interner,
}

impl Snapshot {
    /// Takes one object, as JSON.
    pub fn add(&mut self, kind: Kind, json: &[u8]) {
        let added = match kind {
            Kind::Node => self.add_node(json),
            Kind::DaemonSet => self.add_daemon_set(json),
            Kind::Event => self.add_event(json),
            Kind::Pod => self.add_pod(json),
            Kind::ControllerRevision => self.add_revision(json),
            Kind::Namespace => self.add_namespace(json),
        };
        if let Err(error) = added {
            self.problems.push(format!("{error}; it is left out"));
        }
    }

    /// The pods that are this DaemonSet's own.
    pub fn pods_of(&self, key: &DaemonSetKey) -> impl Iterator<Item = &PodDetail> {
        let owner = self.daemon_sets.get(key).map(|object| &object.daemon_set.uid);
        let pods = self.in_namespace(&key.namespace);
        pods.filter(move |detail| owner.is_some() && detail.pod.controller.as_ref() == owner)
    }

    /// The revisions that are this DaemonSet's own, oldest first.
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

    /// The pods of a namespace: of DaemonSets, and orphans.
    pub fn in_namespace(&self, namespace: &Namespace) -> impl Iterator<Item = &PodDetail> {
        let from = (namespace.clone(), PodName::from(""));
        let pods = self.pods.range(from..);
        pods.take_while(move |((in_namespace, _), _)| in_namespace == namespace).map(|(_, pod)| pod)
    }

    /// Forgets all objects of a kind: a new list of them is to come.
    pub fn clear(&mut self, kind: Kind) {
        match kind {
            Kind::Node => self.nodes.clear(),
            Kind::DaemonSet => self.daemon_sets.clear(),
            Kind::Event => self.events.clear(),
            Kind::Pod => {
                self.pods.clear();
                self.others.clear();
            }
            Kind::ControllerRevision => self.revisions.clear(),
            Kind::Namespace => self.namespace_node_selectors.clear(),
        }
    }

    /// Forgets an object: it is gone.
    pub fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        match kind {
            Kind::Node => {
                self.nodes.remove(name);
            }
            Kind::DaemonSet => {
                self.daemon_sets.remove(&DaemonSetKey::new(namespace, name));
            }
            Kind::Event => {
                self.events.remove(&(namespace.into(), name.to_owned()));
            }
            Kind::Pod => {
                self.pods.remove(&(namespace.into(), name.into()));
            }
            Kind::ControllerRevision => {
                self.revisions.remove(&(namespace.into(), name.into()));
            }
            Kind::Namespace => {
                self.namespace_node_selectors.remove(name);
            }
        }
    }

    fn add_node(&mut self, json: &[u8]) -> Result<(), Error> {
        let node = convert::node(json, &mut self.interner)?;
        self.nodes.insert(node.name.clone(), NodeDetail::new(node, json));
        Ok(())
    }

    fn add_daemon_set(&mut self, json: &[u8]) -> Result<(), Error> {
        let object = convert::daemon_set(json, None)?;
        self.daemon_sets.insert(object.daemon_set.key.clone(), object);
        Ok(())
    }

    fn add_pod(&mut self, json: &[u8]) -> Result<(), Error> {
        match convert::pod(json, &mut self.interner)? {
            PodObject::Pod(pod) => {
                let name = (pod.namespace.clone(), pod.name.clone());
                self.pods.insert(name, PodDetail::new(*pod, json));
            }
            PodObject::Foreign { uid, .. } => match pod::usage_on_node(json, &mut self.interner) {
                Some(usage) => {
                    self.others.insert(uid, usage);
                }
                None => {
                    self.others.remove(&uid);
                }
            },
        }
        Ok(())
    }

    fn add_revision(&mut self, json: &[u8]) -> Result<(), Error> {
        if let RevisionObject::Revision { namespace, revision } =
            convert::revision(json, &mut self.interner)?
        {
            self.revisions.insert((namespace, revision.name.clone()), revision);
        }
        Ok(())
    }

    fn add_event(&mut self, json: &[u8]) -> Result<(), Error> {
        let failed = |error: serde_json::Error| Error {
            kind: "Event",
            object: "without metadata".to_owned(),
            cause: error.to_string(),
        };
        let meta = convert::meta(json).map_err(failed)?;
        let event = EventDetail::new(json)
            .map_err(|error| Error { object: meta.to_string(), ..failed(error) })?;
        let namespace = Namespace::from(meta.namespace.unwrap_or_default());
        self.events.insert((namespace, meta.name), event);
        Ok(())
    }

    fn add_namespace(&mut self, json: &[u8]) -> Result<(), Error> {
        let namespace = convert::namespace(json, &mut self.interner)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn add(snapshot: &mut Snapshot, kind: Kind, object: &Value) {
        snapshot.add(kind, object.to_string().as_bytes());
    }

    fn owned_by(uid: &str, name: &str) -> Value {
        json!({ "name": name, "namespace": "ns", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "uid": uid, "controller": true }] })
    }

    #[test]
    fn what_belongs_to_a_daemon_set_is_found_by_its_uid() {
        let mut snapshot = Snapshot::default();
        let daemon_set = json!({ "metadata": { "name": "d", "namespace": "ns", "uid": "d-uid" } });
        add(&mut snapshot, Kind::DaemonSet, &daemon_set);
        for (owner, name) in [("d-uid", "mine"), ("other", "theirs")] {
            add(&mut snapshot, Kind::Pod, &json!({ "metadata": owned_by(owner, name) }));
            let revision = json!({ "metadata": owned_by(owner, name), "data": {}, "revision": 1 });
            add(&mut snapshot, Kind::ControllerRevision, &revision);
        }
        let key = DaemonSetKey::new("ns", "d");
        let pods: Vec<_> = snapshot.pods_of(&key).map(|detail| detail.pod.name.as_str()).collect();
        assert_eq!(pods, ["mine"]);
        assert_eq!(snapshot.revisions_of(&key).len(), 1);
        assert_eq!(snapshot.in_namespace(&"ns".into()).count(), 2);
        snapshot.remove(Kind::Pod, "ns", "mine");
        assert_eq!(snapshot.pods_of(&key).count(), 0);
    }

    /// C4, C15: what can't be read is told by name, and the rest is kept.
    #[test]
    fn what_can_not_be_read_is_told_by_name() {
        let mut snapshot = Snapshot::default();
        add(&mut snapshot, Kind::Node, &json!({ "metadata": { "name": "good" } }));
        add(
            &mut snapshot,
            Kind::Node,
            &json!({ "metadata": { "name": "bad" }, "spec": { "taints": 1 } }),
        );
        let selector = json!({ "scheduler.alpha.kubernetes.io/node-selector": "a=b" });
        let namespace = |name: &str, annotations: &Value| json!({ "metadata": { "name": name, "annotations": annotations } });
        add(&mut snapshot, Kind::Namespace, &namespace("narrow", &selector));
        add(&mut snapshot, Kind::Namespace, &namespace("wide", &json!({})));
        assert_eq!(snapshot.nodes.len(), 1);
        assert_eq!(snapshot.problems.len(), 1);
        assert!(snapshot.problems[0].starts_with("Node bad: "), "{:?}", snapshot.problems);
        let expected = Labels::from_iter([("a", "b")]);
        assert_eq!(snapshot.namespace_node_selectors, [("narrow".into(), expected)].into());
    }

    #[test]
    fn what_other_controllers_pods_take_up_is_kept_until_they_end() {
        let mut snapshot = Snapshot::default();
        let pod = |phase: &str| {
            json!({
                "metadata": { "name": "w", "namespace": "ns", "uid": "w",
                    "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "r", "controller": true }] },
                "spec": { "nodeName": "n", "containers": [{ "name": "c", "resources": { "requests": { "cpu": "2" } } }] },
                "status": { "phase": phase },
            })
        };
        add(&mut snapshot, Kind::Pod, &pod("Running"));
        let (node, usage) = &snapshot.others[&Uid::new("w")];
        assert_eq!((node.as_str(), usage.requests.amount("cpu")), ("n", 2000));
        add(&mut snapshot, Kind::Pod, &pod("Succeeded"));
        assert!(snapshot.others.is_empty());
    }
}
