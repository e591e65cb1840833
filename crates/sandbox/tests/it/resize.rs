//! `pods/resize` as its clients see it.

use serde_json::{Value, json};

use crate::wire::Server;

const POD: &str = "/api/v1/namespaces/default/pods/p";
const RESIZE: &str = "/api/v1/namespaces/default/pods/p/resize";
const JSON: &str = "application/json";

async fn server_with_pod() -> Server {
    let server = Server::start().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "100m"}}},
    ]}});
    let created = server.post("/api/v1/namespaces/default/pods", pod.to_string().as_bytes()).await;
    assert_eq!(created.code, 201, "{}", created.body);
    server
}

fn cpu(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
}

/// S4, S5, S14: each form of a write resizes a pod, the writer owns what it resized as writer of
/// `resize`, and a dry run writes nothing.
#[tokio::test]
async fn every_form_of_a_write_resizes_a_pod() {
    let server = server_with_pod().await;
    let token = server.token().to_owned();
    let merged = |cpu: &str| {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        json!({"spec": {"containers": [container]}})
    };
    let path = "/spec/containers/0/resources/requests/cpu";
    let operation = |cpu: &str| json!([{"op": "replace", "path": path, "value": cpu}]);
    let mut applied = merged("4");
    applied["apiVersion"] = json!("v1");
    applied["kind"] = json!("Pod");
    applied["metadata"] = json!({"name": "p", "labels": {"x": "y"}});
    for (kind, query, body) in [
        ("application/json-patch+json", "", operation("1")),
        ("application/merge-patch+json", "", merged("2")),
        ("application/strategic-merge-patch+json", "?fieldManager=m", merged("3")),
        ("application/apply-patch+yaml", "?fieldManager=a&force=true", applied),
    ] {
        let wanted = if kind.contains("json-patch") { &body[0]["value"] } else { cpu(&body) };
        let join = if query.is_empty() { "?" } else { "&" };
        let dry = format!("{RESIZE}{query}{join}dryRun=All");
        let dry = server.send_with(&token, "PATCH", &dry, kind, &body).await;
        assert_eq!((dry.code, cpu(&dry.json())), (200, wanted), "{}", dry.body);
        assert_ne!(cpu(&server.get(POD).await.json()), wanted);
        let path = format!("{RESIZE}{query}");
        let patched = server.send_with(&token, "PATCH", &path, kind, &body).await;
        assert_eq!((patched.code, cpu(&patched.json())), (200, wanted), "{}", patched.body);
    }
    let pod = server.get(RESIZE).await.json();
    assert_eq!((&pod["kind"], cpu(&pod)), (&json!("Pod"), &json!("4")));
    assert_eq!(pod["metadata"].get("labels"), None);
    let managers = pod["metadata"]["managedFields"].as_array().expect("a list").clone();
    let of_apply = managers.iter().find(|it| it["manager"] == "a").expect("it applied");
    assert_eq!(of_apply["subresource"], "resize");
    let requests = json!({"f:resources": {"f:requests": {"f:cpu": {}}}});
    let mut owned = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": requests}}});
    owned["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]["."] = json!({});
    assert_eq!(of_apply["fieldsV1"], owned);

    let (mut pod, put) = loop {
        let mut pod = server.get(RESIZE).await.json();
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("500m");
        let put = server.send_with(&token, "PUT", RESIZE, JSON, &pod).await;
        // The kubelet starts the pod meanwhile, and so may write it between the two requests.
        if put.code != 409 {
            break (pod, put);
        }
    };
    assert_eq!((put.code, cpu(&put.json())), (200, &json!("500m")), "{}", put.body);
    assert_eq!(server.send_with(&token, "PUT", RESIZE, JSON, &pod).await.code, 409);
    let absent = RESIZE.replace("/p/", "/q/");
    pod["metadata"]["name"] = json!("q");
    assert_eq!(server.send_with(&token, "PUT", &absent, JSON, &pod).await.code, 404);
    assert_eq!(server.post(RESIZE, b"{}").await.code, 405);
}

/// S3, S4: discovery and OpenAPI list the subresource, unknown fields are found under strict
/// validation, and it needs rights of its own.
#[tokio::test]
async fn resize_is_listed_checked_and_authorized() {
    let server = server_with_pod().await;
    let listed = server.get("/api/v1").await.json();
    let resources = listed["resources"].as_array().expect("a list").clone();
    let found = resources.iter().find(|resource| resource["name"] == "pods/resize");
    let expected = json!({"name": "pods/resize", "singularName": "", "namespaced": true,
                          "kind": "Pod", "verbs": ["get", "patch", "update"]});
    assert_eq!(found, Some(&expected));
    let document = server.get("/openapi/v3/api/v1").await.json();
    let path = "/api/v1/namespaces/{namespace}/pods/{name}/resize";
    assert_eq!(document["paths"][path].as_object().expect("an object").len(), 3);

    let token = server.token().to_owned();
    let body = json!({"spec": {"colour": "red"}});
    let strict = format!("{RESIZE}?fieldValidation=Strict");
    let merge = "application/merge-patch+json";
    let refused = server.send_with(&token, "PATCH", &strict, merge, &body).await;
    assert_eq!(refused.code, 422, "{}", refused.body);

    let user = "Impersonate-User: ann\r\n";
    let refused = server.request("GET", RESIZE, user, b"").await;
    let message = "pods \"p\" is forbidden: User \"ann\" cannot get resource \"pods/resize\" in \
                   API group \"\" in the namespace \"default\"";
    assert_eq!((refused.code, &refused.json()["message"]), (403, &json!(message)));
}
