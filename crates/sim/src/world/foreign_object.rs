//! Pods and revisions of other controllers. Some replace an object of a DaemonSet.

use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{CONTROLLER_REVISION, DAEMON_SET, POD};
use everynode_sandbox::store::DeleteOptions;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{NAMESPACE, World};
use crate::network::Request;
use crate::serve::Target;

const OWNER_UID: &str = "5e1c5e9c-0000-4000-8000-000000000000";

impl World {
    /// Puts a foreign object in the place of the one that a request writes or creates.
    pub(super) fn put_foreign_object(&mut self, request: &Request) {
        let Some(target) = Target::parse(&request.path) else { return };
        let stored = self.cluster.store().find(target.kind, &target.namespace, &target.name);
        let stored = stored.map(|object| object.value().clone());
        let rng = &mut Pcg64Mcg::seed_from_u64(self.writes);
        match target.kind.kind {
            "Pod" => {
                let Some(pod) = stored else { return };
                self.replace_with_foreign_pod(&pod, rng);
            }
            "ControllerRevision" => {
                let new = || {
                    let mut body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
                    body["metadata"]["namespace"] = json!(target.namespace);
                    body
                };
                self.replace_with_foreign_revision(&stored.unwrap_or_else(new));
            }
            _ => return,
        }
        self.settle();
    }

    /// Deletes a pod at once and creates a foreign pod with its name, labels and node.
    pub(crate) fn replace_with_foreign_pod(&mut self, pod: &Value, rng: &mut Pcg64Mcg) {
        self.delete(&POD, pod, &DeleteOptions::now());
        let mut other = self.foreign_pod(rng);
        other["metadata"]["name"] = pod["metadata"]["name"].clone();
        other["metadata"]["namespace"] = pod["metadata"]["namespace"].clone();
        other["metadata"]["labels"] = pod["metadata"]["labels"].clone();
        other["spec"]["nodeName"] = pod["spec"]["nodeName"].clone();
        self.create(&POD, other);
    }

    /// Deletes a revision, if it exists, and creates a foreign revision with its name and labels.
    fn replace_with_foreign_revision(&mut self, revision: &Value) {
        self.delete(&CONTROLLER_REVISION, revision, &DeleteOptions::default());
        let metadata = &revision["metadata"];
        let other = json!({
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "labels": metadata["labels"],
                "ownerReferences": foreign_owner(),
            },
            "revision": revision["revision"],
            "data": {"spec": {"foreign": true}},
        });
        self.create(&CONTROLLER_REVISION, other);
    }

    /// Returns a pod of a ReplicaSet, which is not created yet.
    pub(crate) fn foreign_pod(&self, rng: &mut Pcg64Mcg) -> Value {
        let number = rng.random_range(0..1_000_000);
        let uid = self
            .random_object(&DAEMON_SET, rng)
            .map(|ds| ds["metadata"]["uid"].clone())
            .unwrap_or_default();
        json!({
            "metadata": {
                "name": format!("r-{number}"),
                "namespace": NAMESPACE,
                "labels": {},
                "annotations": {"sim/daemonset-uid": uid.as_str().unwrap_or_default()},
                "ownerReferences": foreign_owner(),
            },
            "spec": {"containers": [{"name": "c", "image": "foreign"}]},
        })
    }
}

/// The ownerReferences of the objects of another controller.
pub(crate) fn foreign_owner() -> Value {
    json!([{
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "r",
        "uid": OWNER_UID,
        "controller": true,
    }])
}
