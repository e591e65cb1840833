//! Applies manifests with many documents. Errors name the document, kind and object, and don't
//! prevent the others.

mod exported;

use std::fmt;

use everynode_apiserver::http::SharedCluster;
use everynode_apiserver::registry::Registry;

use crate::json::Value;

use crate::kind::Kind;
use crate::kinds::DEFINITION;
use crate::patch;
use crate::registry::{Endpoint, Patch};
use crate::schema::{self, DecodeError};
use crate::status::{Reason, Status};
use crate::store::WriteOptions;

/// The result for an object of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedObject {
    /// The number of the document, starting at 1.
    pub document: usize,
    /// The object, as far as it could be read: `daemonset.apps/fluentd`.
    pub object: String,
    /// The outcome of applying the object.
    pub result: Result<ApplyOutcome, ApplyError>,
    /// A warning about the object: nothing acts on its kind.
    pub warning: Option<String>,
    /// The fields that were left out because a server sets them.
    pub left_out: Vec<&'static str>,
}

/// The effect of applying an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The object did not exist before.
    Created,
    /// The object was changed.
    Configured,
    /// The object had these values already.
    Unchanged,
}

/// The reason that an object was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The document is neither YAML nor JSON.
    #[error("is neither YAML nor JSON: {0}")]
    Syntax(String),
    /// The document, or an item of a list, is a text, a number or the like.
    #[error("is no object")]
    NoObject,
    /// A required field is missing.
    #[error("has no {0}")]
    Missing(&'static str),
    /// The sandbox does not serve the kind.
    #[error("no matches for kind {kind:?} in version {api_version:?}")]
    NotServed {
        /// The kind in the manifest.
        kind: String,
        /// The API version in the manifest.
        api_version: String,
    },
    /// A controller creates the object.
    #[error("is created by its {0}")]
    Owned(String),
    /// The registry refused the object.
    #[error("{0}")]
    Refused(String),
}

impl fmt::Display for AppliedObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { document, object, result, .. } = self;
        let object = if object.is_empty() { String::new() } else { format!(" {object}") };
        write!(formatter, "document {document}")?;
        match result {
            Ok(ApplyOutcome::Created) => write!(formatter, ":{object} created"),
            Ok(ApplyOutcome::Configured) => write!(formatter, ":{object} configured"),
            Ok(ApplyOutcome::Unchanged) => write!(formatter, ":{object} unchanged"),
            Err(error @ (ApplyError::NotServed { .. } | ApplyError::Refused(_))) => {
                write!(formatter, "{object}: {error}")
            }
            Err(error) => write!(formatter, "{object} {error}"),
        }
    }
}

/// Applies all documents of `text`, as `kubectl apply` does, in the order of [`RANKS`].
pub(super) fn apply(shared: &SharedCluster, text: &str) -> Vec<AppliedObject> {
    write_all(shared, text, patch::with_last_applied)
}

/// Creates all objects of `text`, and gives those that exist the same values.
pub(super) fn copy(shared: &SharedCluster, text: &str) -> Vec<AppliedObject> {
    write_all(shared, text, |object| object)
}

fn write_all(
    shared: &SharedCluster,
    text: &str,
    complete: fn(Value) -> Value,
) -> Vec<AppliedObject> {
    let mut applied = Vec::new();
    let mut objects = Vec::new();
    for (index, document) in documents(text).iter().enumerate() {
        let document_number = index + 1;
        match crate::yaml::document::<Value>(document) {
            Err(error) => {
                let first_line = error.to_string().lines().next().unwrap_or_default().to_owned();
                applied.push(unread(document_number, ApplyError::Syntax(first_line)));
            }
            Ok(Value::Null) => {}
            Ok(value) => collect(document_number, value, &mut objects),
        }
    }
    objects.retain(|(document, value)| {
        let is_object = value.is_object();
        if !is_object {
            applied.push(unread(*document, ApplyError::NoObject));
        }
        is_object
    });
    objects.sort_by_key(|(_, value)| rank(value["kind"].as_str().unwrap_or_default()));
    for (document, mut value) in objects {
        let object = describe(&value);
        let (result, left_out) = match exported::controller(&value) {
            Some(owner) => (Err(ApplyError::Owned(owner)), Vec::new()),
            None => {
                let left_out = exported::leave_out(&mut value);
                (write_object(shared, value, complete), left_out)
            }
        };
        let (result, warning) = match result {
            Ok((outcome, warning)) => (Ok(outcome), warning),
            Err(error) => (Err(error), None),
        };
        applied.push(AppliedObject { document, object, result, warning, left_out });
    }
    applied
}

/// The result for what could not be read as an object.
fn unread(document: usize, error: ApplyError) -> AppliedObject {
    let (warning, left_out) = (None, Vec::new());
    AppliedObject { document, object: String::new(), result: Err(error), warning, left_out }
}

/// Creates a definition without validating it.
pub(super) fn install_definition(shared: &SharedCluster, text: &str) -> Result<(), ApplyError> {
    let object = crate::yaml::document::<Value>(text)
        .map_err(|error| ApplyError::Syntax(error.to_string()))?;
    let object = patch::with_last_applied(object);
    shared
        .write(|cluster, now| {
            cluster.registry_mut().install(&DEFINITION, object, &WriteOptions::at(now))
        })
        .map_err(|status| ApplyError::Refused(status.message.clone()))
}

/// The order in which Helm installs kinds: what others need comes first. Other kinds come last,
/// except policies, which guard the first rollout of DaemonSets in the same file, and revisions.
const RANKS: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRolloutPolicy",
    "RolloutPolicy",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    // Revisions that a DaemonSet adopts, so that it creates none for a template that they store.
    "ControllerRevision",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

fn rank(kind: &str) -> usize {
    RANKS.iter().position(|known| *known == kind).unwrap_or(RANKS.len())
}

/// The documents of a stream, separated by lines that start with `---`.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        match line.strip_prefix("---") {
            Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
                documents.push(rest.trim_start_matches([' ', '\t']).to_owned());
            }
            _ => {
                let document = documents.last_mut().expect("there is one from the start");
                document.push_str(line);
            }
        }
        documents.last_mut().expect("there is one from the start").push('\n');
    }
    let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    documents.retain(|document| document.lines().any(is_content));
    documents
}

/// Adds the objects of a document: one, or the items of a list.
fn collect(document: usize, mut value: Value, objects: &mut Vec<(usize, Value)>) {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    if let (true, Some(items)) = (is_list, value.get_mut("items").and_then(Value::as_array_mut)) {
        std::mem::take(items).into_iter().for_each(|item| collect(document, item, objects));
        return;
    }
    objects.push((document, value));
}

fn describe(value: &Value) -> String {
    let field = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group = field(&value["apiVersion"]);
    let group = group.split_once('/').map_or("", |(group, _)| group);
    let kind = field(&value["kind"]).to_ascii_lowercase();
    let kind = if group.is_empty() { kind } else { format!("{kind}.{group}") };
    match field(&value["metadata"]["name"]).as_str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn write_object(
    shared: &SharedCluster,
    mut value: Value,
    complete: fn(Value) -> Value,
) -> Result<(ApplyOutcome, Option<String>), ApplyError> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let api_version = text(&value["apiVersion"]).ok_or(ApplyError::Missing("apiVersion"))?;
    let kind = text(&value["kind"]).ok_or(ApplyError::Missing("kind"))?;
    let name = text(&value["metadata"]["name"]).ok_or(ApplyError::Missing("metadata.name"))?;
    let row = shared
        .read(|store| store.kinds().by_api_version(&api_version, &kind))
        .ok_or(ApplyError::NotServed { kind, api_version })?;
    let refuse = |error: DecodeError| ApplyError::Refused(error.to_string());
    schema::decode(row, &value).map_err(refuse)?;
    let unknown = schema::unknown_fields(row, &value);
    if !unknown.is_empty() {
        return Err(refuse(DecodeError::strict(row, &unknown)));
    }
    let namespace = match (row.namespaced, text(&value["metadata"]["namespace"])) {
        (true, named) => named.unwrap_or_else(|| "default".to_owned()),
        (false, _) => String::new(),
    };
    if row.namespaced {
        value["metadata"]["namespace"] = namespace.as_str().into();
    }
    let written = shared.write(|cluster, now| {
        let (object, options) = (complete(value), WriteOptions::at(now));
        create_or_patch(cluster.registry_mut(), row, &namespace, &name, object, &options)
    });
    let outcome = written.map_err(|status| ApplyError::Refused(status.message.clone()))?;
    let warning = row.kept_warning().filter(|_| outcome != ApplyOutcome::Unchanged);
    Ok((outcome, warning))
}

fn create_or_patch(
    registry: &mut Registry,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
    object: Value,
    options: &WriteOptions,
) -> Result<ApplyOutcome, Status> {
    match registry.create(kind, namespace, object.clone(), options) {
        Ok(_) => return Ok(ApplyOutcome::Created),
        Err(status) if status.reason == Reason::AlreadyExists => {}
        Err(status) => return Err(status),
    }
    let before = registry.store().get(kind, namespace, name)?;
    let (patch_type, body) = patch::of_apply(kind, before.value(), &object)?;
    let patch = Patch { patch_type, body, endpoint: Endpoint::Main, strict: None };
    let after = registry.patch(kind, namespace, name, &patch, options)?.resource_version();
    Ok(if before.resource_version() == after {
        ApplyOutcome::Unchanged
    } else {
        ApplyOutcome::Configured
    })
}
