//! Manifests with kinds on which nothing in the sandbox acts, as their users see it.

use everynode_sandbox::AppliedObject;
use serde_json::json;

use crate::wire::Server;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const MERGE: &str = "application/merge-patch+json";

fn warnings(head: &str) -> Vec<&str> {
    head.lines().filter_map(|line| line.strip_prefix("warning: ")).collect()
}

/// S13: whoever creates or changes an object of a kept kind is warned once; readers, writers that
/// change nothing, and writers of kinds that are acted on are not.
#[tokio::test]
async fn writers_of_kept_kinds_are_warned() {
    let server = Server::start().await;
    let expected = [r#"299 - "the sandbox keeps Services, and nothing acts on them""#];
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let created = server.post(SERVICES, service.to_string().as_bytes()).await;
    assert_eq!((created.code, warnings(&created.head)), (201, expected.to_vec()));
    let path = format!("{SERVICES}/web");
    assert_eq!(warnings(&server.get(&path).await.head), [""; 0]);
    let token = server.token().to_owned();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = server.send_with(&token, "PATCH", &path, MERGE, &label).await;
    assert_eq!((changed.code, warnings(&changed.head)), (200, expected.to_vec()));
    let unchanged = server.send_with(&token, "PATCH", &path, MERGE, &label).await;
    assert_eq!((unchanged.code, warnings(&unchanged.head)), (200, vec![]));
    let class = json!({"metadata": {"name": "high"}, "value": 5}).to_string();
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let created = server.post(path, class.as_bytes()).await;
    assert_eq!((created.code, warnings(&created.head)), (201, vec![]));
}

/// S13: the subresource scale reads and writes the number of replicas.
#[tokio::test]
async fn deployments_can_be_scaled() {
    let server = Server::start().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"app": "web"});
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }});
    assert_eq!(server.post(path, deployment.to_string().as_bytes()).await.code, 201);
    let path = format!("{path}/web/scale");
    let scale = server.get(&path).await.json();
    assert_eq!(scale["spec"]["replicas"], 1);
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=web"}));
    let (token, patch) = (server.token().to_owned(), json!({"spec": {"replicas": 3}}));
    let scaled = server.send_with(&token, "PATCH", &path, MERGE, &patch).await;
    assert_eq!((scaled.code, &scaled.json()["spec"]["replicas"]), (200, &json!(3)));
    let stored = server.get("/apis/apps/v1/namespaces/default/deployments/web").await.json();
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["metadata"]["generation"]),
        (&json!(3), &json!(2))
    );
}

/// A manifest with the oddities of published ones: CRLF, empty documents, comments, lists, an octal
/// number, a tab, an object twice, a status, kinds out of order, an old API version, and a custom
/// resource.
const ODD: &str = "# a comment\r
---\r
apiVersion: v1\r
kind: Service\r
metadata: {name: web, namespace: odd}\r
spec: {ports: [{port: 80}]}\r
status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}\r
---\r
\r
---\r
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: DaemonSet
  metadata: {name: agent, namespace: odd}
  spec:
    selector: {matchLabels: {app: agent}}
    template:
      metadata: {labels: {app: agent}}
      spec:
        priorityClassName: agents
        containers: [{name: c, image: i}]
        volumes: [{name: v, configMap: {name: c, defaultMode: 0400}}]
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: agents}, value: 9}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: odd}
spec: {ports: [{port: 80}]}
---
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: old, namespace: odd}
---
apiVersion: example.dev/v1
kind: Widget
metadata: {name: w}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c, namespace: odd}
data: {text: \"a\tb\"}
---
{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"odd\"}}
";

/// S13: a manifest of all kinds is applied as a whole: what others need first, kinds without an
/// effect with a warning, and what is not served by its name.
#[tokio::test]
async fn a_whole_manifest_is_applied() {
    let server = Server::start().await;
    let applied = server.apply(ODD);
    let lines: Vec<String> = applied.iter().map(AppliedObject::to_string).collect();
    assert_eq!(
        lines,
        [
            "document 2: priorityclass.scheduling.k8s.io/agents created",
            "document 7: namespace/odd created",
            "document 4 poddisruptionbudget.policy/old: no matches for kind \
             \"PodDisruptionBudget\" in version \"policy/v1beta1\"",
            "document 6: configmap/c created",
            "document 1: service/web created",
            // Its manifest is another one, without a status.
            "document 3: service/web configured",
            "document 2: daemonset.apps/agent created",
            "document 5 widget.example.dev/w: no matches for kind \"Widget\" in version \
             \"example.dev/v1\"",
        ]
    );
    let warned: Vec<&str> = applied
        .iter()
        .filter(|object| object.warning.is_some())
        .map(|object| object.object.as_str())
        .collect();
    // It was created, and then changed.
    assert_eq!(warned, ["service/web", "service/web"]);
    let service = server.get("/api/v1/namespaces/odd/services/web").await.json();
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    let agent = server.get("/apis/apps/v1/namespaces/odd/daemonsets/agent").await.json();
    assert_eq!(agent["spec"]["template"]["spec"]["volumes"][0]["configMap"]["defaultMode"], 256);
}
