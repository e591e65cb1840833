//! Tests of what a user with few rights can do: nobody gets more than they have.

use serde_json::{Value, json};

use crate::wire::{Response, Server};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Starts a server whose service account `tenant` has the rules of a Role in the namespace
/// `default`. Returns the account's token, too.
async fn server_with(rules: Value) -> (Server, String) {
    let server = Server::start().await;
    let group = "rbac.authorization.k8s.io";
    let api = format!("{group}/v1");
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant"}},
        {"apiVersion": api, "kind": "Role", "metadata": {"name": "tenant"}, "rules": rules},
        {"apiVersion": api, "kind": "RoleBinding", "metadata": {"name": "tenant"},
         "roleRef": {"apiGroup": group, "kind": "Role", "name": "tenant"},
         "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "default"}]},
    ]});
    let applied = server.apply(&manifest.to_string());
    assert!(applied.iter().all(|applied| applied.result.is_ok()), "{applied:?}");
    let token = server.token_of("tenant").await;
    (server, token)
}

fn refused(response: &Response, message: &str) {
    let status = response.json();
    assert_eq!(status["message"], message);
    assert_eq!((response.code, &status["reason"]), (403, &json!("Forbidden")));
}

/// S8: a PUT that creates needs the right to create, and answers 201.
#[tokio::test]
async fn an_update_that_creates_needs_the_right_to_create() {
    let (server, token) = server_with(json!([
        {"apiGroups": ["*"], "resources": ["leases", "roles", "events"], "verbs": ["update"]},
    ]))
    .await;
    let put = async |token: &str, path: &str, body: &Value| {
        server.send_with(token, "PUT", path, JSON, body).await
    };
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    refused(
        &put(&token, path, &lease).await,
        "leases.coordination.k8s.io \"l\" is forbidden: User \
         \"system:serviceaccount:default:tenant\" cannot create resource \"leases\" in API group \
         \"coordination.k8s.io\" in the namespace \"default\"",
    );
    for (path, body) in [
        (format!("{RBAC}/namespaces/default/roles/r"), json!({"metadata": {"name": "r"}})),
        (
            "/api/v1/namespaces/default/events/e".to_owned(),
            json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}),
        ),
    ] {
        assert_eq!(put(&token, &path, &body).await.code, 403, "{path}");
    }
    let created = put(server.token(), path, &lease).await;
    assert_eq!(created.code, 201);
    let updated = put(&token, path, &created.json()).await;
    assert_eq!(updated.code, 200, "{}", updated.body);
}

/// S8: nobody creates or changes a role so that it has rights which they lack, unless they may
/// `escalate`.
#[tokio::test]
async fn nobody_writes_a_role_with_rights_that_they_lack() {
    let (server, token) = server_with(json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"],
         "verbs": ["create", "update", "patch", "get"]},
        {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["get", "list"]},
    ]))
    .await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |rules: Value| json!({"metadata": {"name": "r"}, "rules": rules});
    let held = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let more = json!([
        {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "delete"]},
        {"apiGroups": ["*"], "resources": ["pods"], "resourceNames": ["p"], "verbs": ["get"]},
    ]);
    let message = "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \
        \"system:serviceaccount:default:tenant\" (groups=[\"system:serviceaccounts\" \
        \"system:serviceaccounts:default\" \"system:authenticated\"]) is attempting to grant RBAC \
        permissions not currently held:\n\
        {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}\n\
        {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"delete\"]}\n\
        {APIGroups:[\"*\"], Resources:[\"pods\"], ResourceNames:[\"p\"], Verbs:[\"get\"]}";
    refused(&server.send_with(&token, "POST", &roles, JSON, &role(more.clone())).await, message);
    let created = server.send_with(&token, "POST", &roles, JSON, &role(held)).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let one = format!("{roles}/r");
    let patch = json!({"rules": more});
    refused(&server.send_with(&token, "PATCH", &one, MERGE, &patch).await, message);
    let mut whole = created.json();
    whole["rules"] = more.clone();
    refused(&server.send_with(&token, "PUT", &one, JSON, &whole).await, message);
    // Another role with the same excess is not mended by it, but its finalizers may change.
    let admin = server.token();
    assert_eq!(server.send_with(admin, "PATCH", &one, MERGE, &patch).await.code, 200);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    refused(&server.send_with(&token, "PATCH", &one, MERGE, &label).await, message);
    let finalizer = json!({"metadata": {"finalizers": ["a.example/b"]}});
    assert_eq!(server.send_with(&token, "PATCH", &one, MERGE, &finalizer).await.code, 200);

    let own = format!("{RBAC}/namespaces/default/roles/tenant");
    let escalate = json!([{"op": "add", "path": "/rules/-", "value": {
        "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["escalate"],
    }}]);
    let json_patch = "application/json-patch+json";
    assert_eq!(server.send_with(&token, "PATCH", &own, json_patch, &escalate).await.code, 403);
    assert_eq!(server.send_with(admin, "PATCH", &own, json_patch, &escalate).await.code, 200);
    assert_eq!(server.send_with(&token, "PATCH", &one, MERGE, &label).await.code, 200);
}

/// S8: nobody binds a role with rights that they lack, unless they may `bind` it.
#[tokio::test]
async fn nobody_binds_a_role_with_rights_that_they_lack() {
    let (server, token) = server_with(json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"],
         "verbs": ["create"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
         "resourceNames": ["view"], "verbs": ["bind"]},
    ]))
    .await;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let bind = async |kind: &str, role: &str| {
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"generateName": "b-"},
            "roleRef": {"apiGroup": group, "kind": kind, "name": role},
            "subjects": [{"kind": "User", "apiGroup": group, "name": "ann"}],
        });
        server.send_with(&token, "POST", &bindings, JSON, &binding).await
    };
    assert_eq!(bind("ClusterRole", "view").await.code, 201);
    assert_eq!(bind("Role", "tenant").await.code, 201, "these are the user's own rights");
    let admin = bind("ClusterRole", "cluster-admin").await;
    let message = admin.json()["message"].as_str().unwrap_or_default().to_owned();
    let missing = "is attempting to grant RBAC permissions not currently held:\n\
        {APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n\
        {NonResourceURLs:[\"*\"], Verbs:[\"*\"]}";
    assert!(message.ends_with(missing), "{message}");
    assert_eq!((admin.code, bind("ClusterRole", "edit").await.code), (403, 403));
    let gone = bind("Role", "gone").await;
    assert_eq!(gone.code, 404);
    assert_eq!(gone.json()["message"], "roles.rbac.authorization.k8s.io \"gone\" not found");
}

/// S8, S12: only who may do everything may aggregate roles, and rules with more combinations than
/// can be compared are refused at once.
#[tokio::test]
async fn aggregation_and_vast_rules_are_refused() {
    let (server, token) = server_with(json!([])).await;
    let group = "rbac.authorization.k8s.io";
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": "author"},
         "rules": [{"apiGroups": [group], "resources": ["clusterroles"], "verbs": ["create"]}]},
        {"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
         "metadata": {"name": "author"},
         "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "author"},
         "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "default"}]},
    ]});
    assert!(server.apply(&manifest.to_string()).iter().all(|applied| applied.result.is_ok()));
    let path = format!("{RBAC}/clusterroles");
    let aggregated = json!({
        "metadata": {"name": "all"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {}}]},
    });
    refused(
        &server.send_with(&token, "POST", &path, JSON, &aggregated).await,
        "clusterroles.rbac.authorization.k8s.io \"all\" is forbidden: must have cluster-admin \
         privileges to use the aggregationRule",
    );
    let many: Vec<String> = (0..2_000).map(|number| format!("x{number}")).collect();
    let vast = json!({"metadata": {"name": "vast"}, "rules": [
        {"apiGroups": many, "resources": many, "verbs": many},
    ]});
    let response = server.send_with(&token, "POST", &path, JSON, &vast).await;
    let message = response.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(response.code == 403 && message.contains("too many combinations"), "{message}");
}
