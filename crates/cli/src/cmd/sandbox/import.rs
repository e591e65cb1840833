//! Copies a cluster into a sandbox: its nodes and DaemonSets, their revisions and policies, and the
//! namespaces, service accounts and priority classes that they name. The cluster is only read, and
//! neither Secrets nor ConfigMaps are.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use everynode_core::api::RECORD_ANNOTATION;
use everynode_sandbox::Sandbox;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::ConnectionArguments;
use crate::cluster::{Cluster, Error, Resource, Selection, parsed};
use crate::input::InputFile;
use crate::output;

/// The objects that a sandbox needs for a copy of a cluster.
pub(crate) struct ClusterCopy {
    /// The nodes, as `kubectl get nodes -o json` prints them.
    pub nodes: InputFile,
    /// All other objects.
    objects: Vec<Value>,
    /// The context, for messages.
    context: String,
}

/// The fields of `metadata` that a copy keeps. The others are the server's, or name objects that
/// are not copied.
const METADATA_KEPT: [&str; 4] = ["name", "namespace", "labels", "annotations"];

impl ClusterCopy {
    /// Reads the cluster of a context.
    ///
    /// # Errors
    /// If the cluster can't be read, or the permission to list nodes or DaemonSets is missing.
    pub(crate) async fn read(connection: &ConnectionArguments) -> anyhow::Result<Self> {
        let context = connection.context.clone().unwrap_or_default();
        let cluster = Cluster::connect(connection).await?;
        output::note(format_args!("reading the cluster of context {context}"));
        let all = Selection::all();
        let nodes = cluster.list(Resource::Nodes, &all).await?;
        let daemon_sets = cluster.list(Resource::DaemonSets, &all).await?;
        let daemon_sets = stripped(Resource::DaemonSets, &daemon_sets)?;
        let mut objects = Vec::new();
        for (resource, required) in [
            (Resource::Namespaces, Vec::new()),
            (Resource::PriorityClasses, named_priority_classes(&daemon_sets)),
            (Resource::ServiceAccounts, named_service_accounts(&daemon_sets)),
            (Resource::ClusterRolloutPolicies, Vec::new()),
            (Resource::RolloutPolicies, Vec::new()),
            (Resource::ControllerRevisions, Vec::new()),
        ] {
            objects.extend(read(&cluster, resource, required).await?);
        }
        // Without the permission to list namespaces, only their names are known.
        let known = daemon_sets.iter().chain(&objects).filter_map(namespace);
        let missing: BTreeSet<String> = known
            .filter(|name| !objects.iter().any(|object| is(object, "Namespace", name)))
            .map(str::to_owned)
            .collect();
        objects.extend(missing.iter().map(|name| stub(Resource::Namespaces, None, name)));
        objects.extend(daemon_sets);
        let items: Vec<&RawValue> = nodes.iter().map(Box::as_ref).collect();
        let text = serde_json::to_string(&NodeList { kind: "NodeList", api_version: "v1", items })?;
        let nodes = InputFile { name: format!("the nodes of context {context}"), text };
        Ok(Self { nodes, objects, context })
    }

    /// Creates the objects in the sandbox. Those that it refuses are reported, and do not prevent
    /// the others. Returns their number.
    ///
    /// # Errors
    /// If standard output is closed.
    pub(crate) fn apply(&self, sandbox: &Sandbox) -> anyhow::Result<usize> {
        let mut text = String::new();
        for object in &self.objects {
            writeln!(text, "---\n{object}")?;
        }
        let mut refused = 0;
        for applied in sandbox.copy_objects(&text) {
            if let Err(error) = &applied.result {
                refused += 1;
                output::note(format_args!("not copied: {}: {error}", applied.object));
            }
        }
        let count = |kind: &str| self.objects.iter().filter(|o| o["kind"] == kind).count();
        let policies = count("RolloutPolicy") + count("ClusterRolloutPolicy");
        output::print(&format!(
            "copied from context {}: {} DaemonSets with {} revisions, {} namespaces, {policies} \
             rollout policies\n",
            self.context,
            count("DaemonSet"),
            count("ControllerRevision"),
            count("Namespace"),
        ))?;
        Ok(refused)
    }
}

/// The list of nodes, as the API server serves it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeList<'a> {
    kind: &'a str,
    api_version: &'a str,
    items: Vec<&'a RawValue>,
}

/// Reads the objects of a resource. Of priority classes and service accounts only those that are
/// `required` are copied. Without the permission, these have nothing but their names.
async fn read(
    cluster: &Cluster,
    resource: Resource,
    required: Vec<(Option<String>, String)>,
) -> Result<Vec<Value>, Error> {
    let found = match cluster.list(resource, &Selection::all()).await {
        Ok(found) => stripped(resource, &found)?,
        // The cluster does not have the definitions of policies.
        Err(Error::NotFound { .. }) => return Ok(Vec::new()),
        Err(error) if error.is_forbidden() => {
            output::note(format_args!("the copy is incomplete: {error}"));
            let stubs = required.iter();
            return Ok(stubs.map(|(ns, name)| stub(resource, ns.as_deref(), name)).collect());
        }
        Err(error) => return Err(error),
    };
    let is_required = |object: &Value| {
        let key = (namespace(object).map(str::to_owned), name(object).to_owned());
        required.contains(&key)
    };
    Ok(match resource {
        Resource::PriorityClasses | Resource::ServiceAccounts => {
            found.into_iter().filter(is_required).collect()
        }
        _ => found,
    })
}

/// The objects as a manifest would state them, without those that are being deleted and the
/// revisions of other kinds.
fn stripped(resource: Resource, objects: &[Box<RawValue>]) -> Result<Vec<Value>, Error> {
    let mut kept = Vec::new();
    for object in objects {
        let mut object: Value = parsed(resource, object.get())?;
        let metadata = &object["metadata"];
        let is_of_another_kind = resource == Resource::ControllerRevisions
            && !metadata["ownerReferences"]
                .as_array()
                .is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "DaemonSet"));
        if is_of_another_kind || !metadata["deletionTimestamp"].is_null() {
            continue;
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| METADATA_KEPT.contains(&field.as_str()));
            // A record is about the revision with the UID that it names (G44).
            if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
                annotations.remove(RECORD_ANNOTATION);
            }
        }
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
            // References to Secrets that are not copied.
            if resource == Resource::ServiceAccounts {
                fields.retain(|field, _| field == "metadata");
            }
            let (api_version, kind) = kind(resource);
            fields.insert("apiVersion".to_owned(), json!(api_version));
            fields.insert("kind".to_owned(), json!(kind));
        }
        kept.push(object);
    }
    Ok(kept)
}

/// An object of which only the name is known.
fn stub(resource: Resource, namespace: Option<&str>, name: &str) -> Value {
    let (api_version, kind) = kind(resource);
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    if resource == Resource::PriorityClasses {
        object["value"] = json!(0);
    }
    object
}

const fn kind(resource: Resource) -> (&'static str, &'static str) {
    match resource {
        Resource::ControllerRevisions => ("apps/v1", "ControllerRevision"),
        Resource::DaemonSets => ("apps/v1", "DaemonSet"),
        Resource::Events => ("v1", "Event"),
        Resource::Leases => ("coordination.k8s.io/v1", "Lease"),
        Resource::Namespaces => ("v1", "Namespace"),
        Resource::Nodes => ("v1", "Node"),
        Resource::Pods => ("v1", "Pod"),
        Resource::PriorityClasses => ("scheduling.k8s.io/v1", "PriorityClass"),
        Resource::RolloutPolicies => ("everynode.dev/v1alpha1", "RolloutPolicy"),
        Resource::ClusterRolloutPolicies => ("everynode.dev/v1alpha1", "ClusterRolloutPolicy"),
        Resource::ServiceAccounts => ("v1", "ServiceAccount"),
    }
}

fn named_priority_classes(daemon_sets: &[Value]) -> Vec<(Option<String>, String)> {
    let names = daemon_sets.iter().filter_map(|ds| pod_spec(ds)["priorityClassName"].as_str());
    let names: BTreeSet<&str> =
        names.filter(|name| !name.is_empty() && !name.starts_with("system-")).collect();
    names.into_iter().map(|name| (None, name.to_owned())).collect()
}

fn named_service_accounts(daemon_sets: &[Value]) -> Vec<(Option<String>, String)> {
    let named = daemon_sets.iter().filter_map(|ds| {
        let name = pod_spec(ds)["serviceAccountName"].as_str().filter(|name| !name.is_empty())?;
        Some((namespace(ds).map(str::to_owned), name.to_owned()))
    });
    let named: BTreeSet<_> = named.collect();
    named.into_iter().collect()
}

fn pod_spec(daemon_set: &Value) -> &Value {
    &daemon_set["spec"]["template"]["spec"]
}

fn namespace(object: &Value) -> Option<&str> {
    object["metadata"]["namespace"].as_str()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is(object: &Value, kind: &str, of: &str) -> bool {
    object["kind"] == kind && name(object) == of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_what_a_manifest_states() {
        let list =
            |objects: Value| -> Vec<Box<RawValue>> { serde_json::from_value(objects).unwrap() };
        let revision = |owner: &str| {
            json!({
                "metadata": {"name": owner, "namespace": "a", "uid": "1", "labels": {"app": "x"},
                             "annotations": {"everynode.dev/rollout": "{}", "b": "c"},
                             "ownerReferences": [{"kind": owner, "name": "x", "uid": "2"}]},
                "data": {"spec": {}}, "revision": 3,
            })
        };
        let revisions = list(json!([revision("DaemonSet"), revision("StatefulSet")]));
        assert_eq!(
            stripped(Resource::ControllerRevisions, &revisions).unwrap(),
            [json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision",
                "metadata": {"name": "DaemonSet", "namespace": "a", "labels": {"app": "x"},
                             "annotations": {"b": "c"}},
                "data": {"spec": {}}, "revision": 3,
            })]
        );
        let daemon_sets = list(json!([
            {"metadata": {"name": "x", "namespace": "a", "generation": 4, "finalizers": ["f"],
                          "managedFields": [], "annotations": {"b": "c"}},
             "spec": {"paused": 1}, "status": {"numberReady": 3}},
            {"metadata": {"name": "y", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        ]));
        assert_eq!(
            stripped(Resource::DaemonSets, &daemon_sets).unwrap(),
            [json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"name": "x", "namespace": "a", "annotations": {"b": "c"}},
                "spec": {"paused": 1},
            })]
        );
    }

    #[test]
    fn daemon_sets_name_what_their_pods_need() {
        let of = |namespace: &str, account: &str, class: &str| {
            json!({"metadata": {"namespace": namespace}, "spec": {"template": {"spec":
                {"serviceAccountName": account, "priorityClassName": class}}}})
        };
        let all = [of("a", "s", "system-node-critical"), of("b", "s", "high"), of("b", "", "high")];
        let some = |namespace: &str| Some(namespace.to_owned());
        assert_eq!(named_priority_classes(&all), [(None, "high".to_owned())]);
        assert_eq!(
            named_service_accounts(&all),
            [(some("a"), "s".to_owned()), (some("b"), "s".to_owned())]
        );
    }
}
