//! RolloutPolicies and ClusterRolloutPolicies (G4).

use std::fmt;
use std::sync::{Arc, LazyLock};

use everynode_core::api::schema::{SUBDOMAIN, rule, text as text_schema};
use everynode_core::api::{DaemonSetName, LabelSelector, Namespace, RolloutPolicy, Uid};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Error;
use super::policy::{Errors, Schema, read, schema_of};
use super::wire::{Metadata, text};
use crate::go_json;
use crate::policy_status::PolicyStatus;

/// A RolloutPolicy, or a ClusterRolloutPolicy if it has no namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyReference {
    /// `metadata.namespace`.
    pub namespace: Option<Namespace>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// A policy object.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyObject {
    /// Kind, namespace and name.
    pub reference: PolicyReference,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.generation`: grows with every change of `spec`.
    pub generation: i64,
    /// `spec.daemonSets`; `None` if that is malformed: then it selects nothing.
    pub target: Option<PolicyTarget>,
    /// `spec.namespaces`; `None` for all that the policy may select in.
    pub namespaces: Option<LabelSelector>,
    /// `spec.enforced` of a ClusterRolloutPolicy. A value that is malformed enforces: the policy is
    /// invalid, and holds what it selects.
    pub is_enforced: bool,
    /// The other fields, or what is wrong with any.
    pub policy: Result<Arc<RolloutPolicy>, Arc<str>>,
    /// `status`.
    pub status: PolicyStatus,
}

/// Which DaemonSets a policy selects.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.name) != has(self.selector)",
    "message": rule::ONE_TARGET,
}]))]
pub enum PolicyTarget {
    /// The name of one DaemonSet.
    #[serde(rename = "name")]
    Name(#[schemars(schema_with = "daemon_set_name")] DaemonSetName),
    /// By their labels; an empty selector selects all of the namespace.
    #[serde(rename = "selector")]
    Labels(LabelSelector),
}

impl PolicyReference {
    /// `RolloutPolicy` or `ClusterRolloutPolicy`.
    pub const fn kind(&self) -> &'static str {
        match self.namespace {
            Some(_) => "RolloutPolicy",
            None => "ClusterRolloutPolicy",
        }
    }
}

impl fmt::Display for PolicyReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = (self.kind(), &self.name);
        match &self.namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{name}"),
            None => write!(f, "{kind} {name}"),
        }
    }
}

#[derive(Deserialize)]
struct WirePolicy<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Option<Value>,
    #[serde(default)]
    status: Value,
}

/// Decodes a RolloutPolicy or a ClusterRolloutPolicy. What is wrong with its `spec` is in the
/// result: it still selects DaemonSets, whose rollouts it holds (G7).
///
/// # Errors
/// If `metadata` is malformed, or the name is missing.
pub fn policy_object(json: &[u8]) -> Result<PolicyObject, Error> {
    let error = |cause: String| Error::new("RolloutPolicy", json, cause);
    let text_of_json = go_json::text(json);
    let wire: WirePolicy<'_> =
        serde_json::from_str(&text_of_json).map_err(|e| error(e.to_string()))?;
    let name = wire.metadata.name().map_err(|e| error(e.to_owned()))?;
    let namespace = wire.metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let reference = PolicyReference { namespace: namespace.map(Into::into), name: name.into() };
    let spec = wire.spec.unwrap_or_default();
    let Spec { target, namespaces, is_enforced, policy } =
        decode(&spec, reference.namespace.is_some());
    Ok(PolicyObject {
        uid: Uid::new(text(wire.metadata.uid.as_ref())),
        generation: wire.metadata.generation.unwrap_or(0),
        target,
        namespaces,
        is_enforced,
        policy: policy.map(Arc::new).map_err(Into::into),
        // Only this controller writes it. Another form of it is replaced.
        status: serde_json::from_value(wire.status).unwrap_or_default(),
        reference,
    })
}

/// How new templates of DaemonSets in the policy's namespace are rolled out.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes the form; its parts are read one by one")]
struct NamespacedSpec {
    /// The DaemonSets whose rollouts the policy guards.
    daemon_sets: PolicyTarget,
    #[schemars(flatten)]
    policy: RolloutPolicy,
}

/// How new templates of DaemonSets that no RolloutPolicy selects are rolled out.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes the form; its parts are read one by one")]
struct ClusterSpec {
    /// The DaemonSets whose rollouts the policy guards.
    daemon_sets: ClusterTarget,
    /// The namespaces of the DaemonSets, by their labels. By default all.
    #[serde(default)]
    namespaces: LabelSelector,
    /// Whether the policy counts before RolloutPolicies and annotations, rather than after
    /// RolloutPolicies.
    #[serde(default)]
    enforced: bool,
    #[schemars(flatten)]
    policy: RolloutPolicy,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "it is read as a PolicyTarget")]
struct ClusterTarget {
    /// By their labels; an empty selector selects all.
    selector: LabelSelector,
}

fn daemon_set_name(_: &mut SchemaGenerator) -> schemars::Schema {
    text_schema("name", SUBDOMAIN, 253, "must be the name of a DaemonSet")
}

static NAMESPACED_SPEC: LazyLock<Schema> = LazyLock::new(Schema::of::<NamespacedSpec>);
static CLUSTER_SPEC: LazyLock<Schema> = LazyLock::new(Schema::of::<ClusterSpec>);

/// The schemas of `spec` and `status` of a RolloutPolicy, or of a ClusterRolloutPolicy, with the
/// keywords that [`everynode_core::api::schema`] lists.
pub fn policy_schemas(is_namespaced: bool) -> [Value; 2] {
    let mut status = schema_of::<PolicyStatus>();
    if !is_namespaced {
        return [schema_of::<ClusterSpec>(), status];
    }
    let governed = &mut status["properties"]["daemonSets"];
    governed["x-kubernetes-list-map-keys"] = json!(["name"]);
    governed["items"]["required"] = json!(["name"]);
    if let Some(fields) = governed["items"]["properties"].as_object_mut() {
        fields.remove("namespace");
    }
    [schema_of::<NamespacedSpec>(), status]
}

struct Spec {
    target: Option<PolicyTarget>,
    namespaces: Option<LabelSelector>,
    is_enforced: bool,
    policy: Result<RolloutPolicy, String>,
}

fn decode(spec: &Value, is_namespaced: bool) -> Spec {
    let schema = if is_namespaced { &NAMESPACED_SPEC } else { &CLUSTER_SPEC };
    let namespaces = field(schema, spec, "namespaces");
    let target = field(schema, spec, "daemonSets");
    // Without valid namespaces it is not known which DaemonSets the policy selects.
    let is_known = is_namespaced || spec["namespaces"].is_null() || namespaces.is_some();
    let is_enforced = !is_namespaced
        && !spec["enforced"].is_null()
        && field::<bool>(schema, spec, "enforced") != Some(false);
    let target = target.filter(|_| is_known);
    Spec { target, namespaces, is_enforced, policy: read(schema, "spec", spec) }
}

/// A field that is valid, whatever the others are.
fn field<T: DeserializeOwned>(schema: &Schema, spec: &Value, name: &str) -> Option<T> {
    let read = schema.field(name)?.read(name, &spec[name], &mut Errors::default())?;
    serde_json::from_value(read).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(namespace: Option<&str>, spec: &Value) -> PolicyObject {
        let metadata = json!({ "name": "p", "namespace": namespace, "uid": "u", "generation": 3 });
        let json = json!({ "metadata": metadata, "spec": spec });
        policy_object(json.to_string().as_bytes()).expect("an object")
    }

    /// G4: both kinds are read, with what they select.
    #[test]
    fn a_policy_object_is_read() {
        let spec = json!({ "daemonSets": { "name": "d" }, "steps": [{ "name": "a" }] });
        let policy = object(Some("ns"), &spec);
        assert_eq!(policy.reference.to_string(), "RolloutPolicy ns/p");
        assert_eq!(policy.target, Some(PolicyTarget::Name("d".into())));
        assert_eq!(policy.generation, 3);
        assert_eq!(policy.policy.expect("it is valid").steps.len(), 1);
        let spec = json!({ "daemonSets": { "selector": {} }, "namespaces": {
            "matchLabels": { "team": "a" } }, "paused": true });
        let policy = object(None, &spec);
        assert_eq!(policy.reference.to_string(), "ClusterRolloutPolicy p");
        assert_eq!(policy.target, Some(PolicyTarget::Labels(LabelSelector::default())));
        assert_eq!(policy.namespaces.map(|selector| selector.requirements.len()), Some(1));
        assert!(policy.policy.expect("it is valid").paused);
    }

    /// G4, G7: an object that is wrong still selects, unless that is what is wrong.
    #[test]
    fn an_invalid_object_says_what_is_wrong_and_still_selects() {
        let name = || json!({ "daemonSets": { "name": "d" } });
        let with = |key: &str, value: Value| {
            let mut spec = name();
            spec[key] = value;
            spec
        };
        let wrong = object(Some("ns"), &with("steps", json!([{ "name": "A" }])));
        assert!(wrong.target.is_some());
        assert!(
            wrong.policy.expect_err("it is invalid").starts_with("spec.steps[0].name: Invalid")
        );
        for (namespace, spec, error) in [
            (Some("ns"), json!({}), "spec.daemonSets: Required value"),
            (Some("ns"), json!(3), "spec: Invalid value: 3: must be an object"),
            (Some("ns"), json!({ "daemonSets": {} }), "exactly one of name and selector"),
            (Some("ns"), json!({ "daemonSets": { "name": "d", "selector": {} } }), "exactly one"),
            (Some("ns"), json!({ "daemonSets": { "name": "D" } }), "spec.daemonSets.name: Invalid"),
            (Some("ns"), json!({ "daemonSets": { "selector": 3 } }), "spec.daemonSets.selector"),
            (None, name(), "spec.daemonSets.selector: Required value; spec.daemonSets.name: unkn"),
            (
                None,
                json!({ "daemonSets": { "selector": {} }, "namespaces": 3 }),
                "spec.namespaces: Invalid value: 3",
            ),
        ] {
            let policy = object(namespace, &spec);
            assert_eq!(policy.target, None, "{spec}");
            let found = policy.policy.expect_err("it is invalid");
            assert!(found.contains(error), "{spec}: {found}");
        }
        let other = object(Some("ns"), &with("namespaces", json!({})));
        assert_eq!(other.policy.expect_err("invalid").as_ref(), "spec.namespaces: unknown field");
    }
}
