//! The interface of the simulated components to the cluster, for one step.
//!
//! Components write as clients do. A write that fails because of a concurrent change is no error:
//! the component will see that change.

use std::sync::Arc;

use everynode_core::api::Timestamp;
use rand_pcg::Pcg64Mcg;

use super::event::{EventSubject, EventText, EventWrite, Recorder, event, repeat};
use super::timer::Timers;
use super::{PodKey, Settings};
use crate::clock::{self, rfc3339_micro};
use crate::json::{Value, json};
use crate::kinds::{CONFIG_MAP, EVENT, LEASE, NODE, POD};
use crate::object::Object;
use crate::registry::{Endpoint, Registry};
use crate::status::{Reason, Status};
use crate::store::{DeleteOptions, WriteOptions};
use crate::value::text;

const LEASE_NAMESPACE: &str = "kube-node-lease";

pub(super) struct ComponentContext<'a> {
    pub now: Timestamp,
    pub registry: &'a mut Registry,
    pub rng: &'a mut Pcg64Mcg,
    pub timers: &'a mut Timers,
    pub recorder: &'a mut Recorder,
    pub settings: &'a Settings,
}

impl ComponentContext<'_> {
    pub(super) fn pod(&self, key: &PodKey) -> Option<Arc<Object>> {
        self.registry.store().find_with_tree(&POD, &key.namespace, &key.name)
    }

    pub(super) fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.registry.store().find(&CONFIG_MAP, namespace, name).cloned()
    }

    pub(super) fn node(&self, name: &str) -> Option<Arc<Object>> {
        self.registry.store().find_with_tree(&NODE, "", name)
    }

    /// True if there is a node with this name and UID.
    pub(super) fn has_node(&self, name: &str, uid: &str) -> bool {
        self.registry.store().find(&NODE, "", name).is_some_and(|node| node.uid() == uid)
    }

    /// The resourceVersion of a node; `None` if there is no such node.
    pub(super) fn node_version(&self, name: &str) -> Option<u64> {
        self.registry.store().find(&NODE, "", name).map(|node| node.resource_version())
    }

    /// The pods that are bound to a node, whether or not the node exists.
    pub(super) fn pods_on(&self, node: &str) -> impl Iterator<Item = Arc<Object>> {
        self.registry.store().on_node(&POD, node).map(Object::with_tree)
    }

    /// Replaces the status of a pod; `None` if the pod has changed or is gone.
    pub(super) fn set_pod_status(
        &mut self,
        pod: &Arc<Object>,
        status: Value,
    ) -> Option<Arc<Object>> {
        let mut updated = pod.value().clone();
        updated["status"] = status;
        let options = WriteOptions::at(self.now);
        let written = self.registry.update_known(&POD, Endpoint::Status, pod, updated, &options);
        self.settle("pod status", pod.name(), written)
    }

    /// Binds a pod to a node; returns whether it succeeded.
    pub(super) fn bind(&mut self, pod: &Object, node: &str) -> bool {
        let (namespace, name) = (pod.namespace(), pod.name());
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let bound = self.registry.bind(namespace, name, &binding, &WriteOptions::at(self.now));
        self.settle("binding", name, bound).is_some()
    }

    /// Deletes a pod with the grace period in its spec.
    pub(super) fn delete_pod(&mut self, pod: &Object) {
        self.delete(pod, &DeleteOptions::default().with_uid(pod.uid()));
    }

    /// Deletes a pod without a grace period: it has stopped, or its kubelet is gone.
    pub(super) fn remove_pod(&mut self, pod: &Object) {
        self.delete(pod, &DeleteOptions::now().with_uid(pod.uid()));
    }

    fn delete(&mut self, pod: &Object, options: &DeleteOptions) {
        let (namespace, name) = (pod.namespace(), pod.name());
        let deleted =
            self.registry.delete(&POD, namespace, name, options, &WriteOptions::at(self.now));
        self.settle("deletion of pod", name, deleted);
    }

    /// Creates a node.
    pub(super) fn create_node(&mut self, node: Value) {
        let name = name_of(&node);
        let created = self.registry.create(&NODE, "", node, &WriteOptions::at(self.now));
        self.settle("node", &name, created);
    }

    /// Deletes a node.
    pub(super) fn delete_node(&mut self, name: &str) {
        let options = DeleteOptions::default();
        let deleted = self.registry.delete(&NODE, "", name, &options, &WriteOptions::at(self.now));
        self.settle("deletion of node", name, deleted);
    }

    /// Sets an annotation of a node, or removes it.
    pub(super) fn annotate_node(&mut self, name: &str, key: &str, value: Option<&str>) {
        let Some(node) = self.node(name) else { return };
        let mut updated = node.value().clone();
        let annotations = &mut updated["metadata"]["annotations"];
        match (value, annotations.as_object_mut()) {
            (Some(value), _) => annotations[key] = json!(value),
            (None, Some(annotations)) => {
                annotations.remove(key);
            }
            (None, None) => {}
        }
        self.update_node(&node, updated);
    }

    /// Records that an annotation of a node has no effect.
    pub(super) fn warn_of_annotation(&mut self, node: &Object, key: &str, problem: &str) {
        let message = format!("{key}: {problem}");
        let text = EventText::warning("sandbox", "InvalidAnnotation", &message);
        self.record(EventSubject::node(node), text);
    }

    /// Replaces a node; `None` if it has changed or is gone.
    pub(super) fn update_node(
        &mut self,
        node: &Arc<Object>,
        updated: Value,
    ) -> Option<Arc<Object>> {
        let options = WriteOptions::at(self.now);
        let written = self.registry.update_known(&NODE, Endpoint::Main, node, updated, &options);
        self.settle("node", node.name(), written)
    }

    /// Replaces the status of a node; `None` if the node has changed or is gone.
    pub(super) fn update_node_status(
        &mut self,
        node: &Arc<Object>,
        updated: Value,
    ) -> Option<Arc<Object>> {
        let options = WriteOptions::at(self.now);
        let written = self.registry.update_known(&NODE, Endpoint::Status, node, updated, &options);
        self.settle("node status", node.name(), written)
    }

    /// Renews a node's lease, or creates it.
    pub(super) fn renew_lease(&mut self, name: &str, uid: &str) {
        let (time, options) = (json!(rfc3339_micro(self.now)), WriteOptions::at(self.now));
        let written = match self.registry.store().find(&LEASE, LEASE_NAMESPACE, name) {
            Some(lease) => {
                let mut lease = lease.read().into_owned();
                lease["spec"]["renewTime"] = time;
                self.registry.update(&LEASE, LEASE_NAMESPACE, name, lease, &options)
            }
            None => {
                let lease = self.lease(name, uid, time);
                self.registry.create(&LEASE, LEASE_NAMESPACE, lease, &options)
            }
        };
        self.settle("lease", name, written);
    }

    fn lease(&self, node: &str, uid: &str, time: Value) -> Value {
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid});
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": node, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner],
            },
            "spec": {
                "holderIdentity": node,
                "leaseDurationSeconds": self.settings.node_monitor_grace_ms / 1000,
                "renewTime": time,
            },
        })
    }

    /// The time at which a node's lease was last renewed; `None` if it has none.
    pub(super) fn lease_renewed_at(&self, node: &str) -> Option<Timestamp> {
        let lease = self.registry.store().find(&LEASE, LEASE_NAMESPACE, node)?;
        clock::parse(text(&lease.read(), &["spec", "renewTime"]))
    }

    /// Records an event of a kubelet.
    pub(super) fn event(
        &mut self,
        subject: EventSubject<'_>,
        host: &str,
        is_warning: bool,
        reason: &str,
        message: &str,
    ) {
        self.record(subject, EventText { component: "kubelet", host, is_warning, reason, message });
    }

    pub(super) fn record(&mut self, subject: EventSubject<'_>, text: EventText<'_>) {
        if self.settings.event_age_ms == 0 {
            return;
        }
        let namespace = subject.namespace();
        match self.recorder.record(&subject, text, self.now) {
            None => {}
            Some(EventWrite::Create(event)) => self.create_event(namespace, event),
            Some(EventWrite::Repeat { name, count }) => {
                match self.registry.store().find(&EVENT, namespace, &name) {
                    Some(event) => {
                        let event = repeat(&event.read(), count, self.now);
                        let options = WriteOptions::at(self.now);
                        let written =
                            self.registry.update(&EVENT, namespace, &name, event, &options);
                        self.settle("event", &name, written);
                    }
                    None => {
                        let event = event(&subject, text, &name, self.now);
                        self.create_event(namespace, event);
                    }
                }
            }
        }
    }

    fn create_event(&mut self, namespace: &str, event: Value) {
        let name = name_of(&event);
        let written = self.registry.create(&EVENT, namespace, event, &WriteOptions::at(self.now));
        self.settle("event", &name, written);
    }

    /// The result of a write. Logs the errors that concurrent changes don't explain.
    fn settle<T>(&self, what: &str, name: &str, written: Result<T, Status>) -> Option<T> {
        match written {
            Ok(written) => Some(written),
            Err(status) => {
                match status.reason {
                    Reason::Conflict | Reason::NotFound | Reason::AlreadyExists => {}
                    // A namespace that is being deleted refuses new objects.
                    Reason::Forbidden => tracing::debug!(what, name, %status, "refused"),
                    _ => tracing::warn!(what, name, %status, "a component's write was refused"),
                }
                None
            }
        }
    }
}

fn name_of(object: &Value) -> String {
    text(object, &["metadata", "name"]).to_owned()
}
