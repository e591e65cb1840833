//! A table of authorization decisions, for the default roles and a few more.

use everynode_apiserver::authorization::{AUTHENTICATED, MASTERS};
use everynode_core::api::Timestamp;

use super::{Attributes, Decision, RequestTarget, User, authorize, rules, seed};
use crate::cluster::lifecycle::Lifecycles;
use crate::cluster::{Cluster, Settings};
use crate::json::Value;
use crate::kinds;
use crate::registry::Registry;
use crate::store::{Options, Store, WriteOptions};

const NOW: Timestamp = Timestamp::from_seconds(1_767_268_800);

const OBJECTS: &str = r#"
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader}, rules: [
  {apiGroups: [apps], resources: [daemonsets, daemonsets/status], verbs: [get, list]},
  {apiGroups: [""], resources: ["*/status"], verbs: [patch]},
  {apiGroups: [""], resources: [secrets], resourceNames: [one], verbs: [get, list]},
  {nonResourceURLs: [/metrics/*], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: readers},
  roleRef: {kind: ClusterRole, name: reader},
  subjects: [{kind: User, name: ann}, {kind: Group, name: readers}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role,
  metadata: {name: writer, namespace: default},
  rules: [{apiGroups: ["*"], resources: ["*"], verbs: [create]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding,
  metadata: {name: writers, namespace: default},
  roleRef: {kind: Role, name: writer}, subjects: [{kind: ServiceAccount, name: agent}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding,
  metadata: {name: viewers, namespace: kube-system},
  roleRef: {kind: ClusterRole, name: admin},
  subjects: [{kind: ServiceAccount, name: agent, namespace: default}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding,
  metadata: {name: dangling, namespace: kube-public},
  roleRef: {kind: Role, name: gone},
  subjects: [{kind: Group, name: "system:serviceaccounts:default"}]}
"#;

/// User, verb, resource as kubectl names it, `NAMESPACE/NAME`, and whether the request is allowed.
type Case = (&'static str, &'static str, &'static str, &'static str, bool);

const CASES: &[Case] = &[
    ("master", "anything", "thing.any", "/", true),
    ("ann", "get", "daemonsets.apps", "default/d", true),
    ("ann", "list", "daemonsets.apps", "/", true),
    ("ann", "get", "daemonsets.apps/status", "default/d", true),
    ("ann", "get", "daemonsets.apps/scale", "default/d", false),
    ("ann", "update", "daemonsets.apps", "default/d", false),
    ("ann", "get", "daemonsets", "default/d", false),
    ("ann", "patch", "pods/status", "default/p", true),
    ("ann", "patch", "pods", "default/p", false),
    ("ann", "get", "secrets", "default/one", true),
    ("ann", "get", "secrets", "default/two", false),
    ("ann", "list", "secrets", "default/", false),
    ("ann", "list", "secrets", "default/one", true),
    ("bob of readers", "list", "daemonsets.apps", "/", true),
    ("bob", "list", "daemonsets.apps", "/", false),
    ("agent", "create", "thing.any", "default/", true),
    ("agent", "create", "thing.any", "kube-system/", false),
    ("agent", "create", "thing.any", "/", false),
    // `admin` aggregates `edit`, which aggregates `view`.
    ("agent", "list", "pods", "kube-system/", true),
    ("agent", "create", "daemonsets.apps", "kube-system/", true),
    ("agent", "create", "roles.rbac.authorization.k8s.io", "kube-system/", true),
    ("agent", "list", "nodes", "/", false),
    // Every authenticated user.
    ("agent", "create", "selfsubjectaccessreviews.authorization.k8s.io", "/", true),
];

/// `daemonsets.apps/status`, `default/d`.
fn target<'a>(resource: &'a str, place: &'a str) -> RequestTarget<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (namespace, name) = place.split_once('/').unwrap_or((place, ""));
    RequestTarget::Resource { group, resource, subresource, namespace, name }
}

/// A cluster with the objects, whose components have done their work.
fn cluster() -> Cluster {
    let mut registry = Registry::new(&Options::default(), NOW);
    seed(&mut registry, NOW).expect("the roles of every cluster are valid");
    for document in crate::yaml::documents::<Value>(OBJECTS).expect("YAML") {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kinds = kinds::built_in();
        let kind = kinds.by_api_version(&text(&document["apiVersion"]), &text(&document["kind"]));
        let namespace = text(&document["metadata"]["namespace"]);
        let kind = kind.expect("the kind is served");
        registry.create(kind, &namespace, document, &WriteOptions::at(NOW)).expect("it is valid");
    }
    let mut cluster = Cluster::new(registry, Settings::default(), Lifecycles::built_in(), NOW);
    cluster.settle(NOW);
    cluster
}

fn user(text: &str) -> User {
    let groups = |more: &[&str]| more.iter().map(|group| (*group).to_owned()).collect();
    match text {
        "master" => User { groups: groups(&[MASTERS]), ..User::default() },
        "agent" => User::service_account("default", "agent", "uid"),
        other => {
            let (name, group) = other.split_once(" of ").unwrap_or((other, ""));
            User {
                name: name.to_owned(),
                groups: groups(&[group, AUTHENTICATED]),
                ..User::default()
            }
        }
    }
}

fn decide(store: &Store, who: &str, verb: &str, target: RequestTarget<'_>) -> Decision {
    authorize(store, &user(who), &Attributes { verb, target })
}

/// S4: roles and bindings allow the same as upstream.
#[test]
fn rules_allow_only_matching_requests() {
    let cluster = cluster();
    for case in CASES {
        let (who, verb, resource, place, expected) = *case;
        let decision = decide(cluster.store(), who, verb, target(resource, place));
        assert_eq!(matches!(decision, Decision::Allowed { .. }), expected, "{case:?} {decision:?}");
    }
    for (who, path, expected) in [
        ("ann", "/metrics/cadvisor", true),
        ("ann", "/metrics", false),
        ("ann", "/apis/apps/v1", true),
        ("bob", "/version", true),
        ("bob", "/logs", false),
    ] {
        let decision = decide(cluster.store(), who, "get", RequestTarget::Path(path));
        assert_eq!(matches!(decision, Decision::Allowed { .. }), expected, "{who} {path}");
    }
}

/// S4: a decision names the binding that allows it or the missing role, as upstream's does.
#[test]
fn decisions_give_their_reasons() {
    let cluster = cluster();
    let allowed = |reason: &str| Decision::Allowed { reason: reason.to_owned() };
    let refused = |reason: &str| Decision::Refused { reason: reason.to_owned() };
    for (who, verb, namespace, expected) in [
        ("master", "list", "", allowed("")),
        (
            "agent",
            "create",
            "default",
            allowed(
                "RBAC: allowed by RoleBinding \"writers/default\" of Role \"writer\" to \
                 ServiceAccount \"agent/default\"",
            ),
        ),
        (
            "agent",
            "list",
            "kube-system",
            allowed(
                "RBAC: allowed by RoleBinding \"viewers/kube-system\" of ClusterRole \"admin\" to \
                 ServiceAccount \"agent/default\"",
            ),
        ),
        ("agent", "list", "default", refused("")),
        (
            "agent",
            "list",
            "kube-public",
            refused("RBAC: role.rbac.authorization.k8s.io \"gone\" not found"),
        ),
    ] {
        assert_eq!(
            decide(cluster.store(), who, verb, target("pods", namespace)),
            expected,
            "{who} in {namespace}"
        );
    }
}

/// S4: the listed rules are those that are applied.
#[test]
fn the_listed_rules_of_a_user_match_the_decisions() {
    let cluster = cluster();
    for (who, verb, resource, place, expected) in CASES {
        let request = Attributes { verb, target: target(resource, place) };
        let listed = rules(cluster.store(), &user(who), request.target.namespace());
        assert_eq!(listed.iter().any(|rule| rule.allows(&request)), *expected, "{who} {request:?}");
    }
}
