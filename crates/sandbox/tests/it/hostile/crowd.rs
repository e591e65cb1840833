//! Requests for objects that concern others: many Services, PriorityClasses, and disruption budgets
//! that select many pods.

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use super::body::{Request, content_type, credentials, pick};
use super::client::Target;

pub(crate) const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
pub(crate) const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// On everything here.
pub(crate) const LABEL: &str = "crowd";

/// Numbers of names. Each change of a pod can change all budgets.
const SERVICE_COUNT: u32 = 1_000;
const CLASS_COUNT: u32 = 1_000;
const BUDGET_COUNT: u32 = 200;
const POD_COUNT: u32 = 200;

/// Creates, changes, evicts or deletes one of these objects.
pub(crate) fn request(target: &Target, rng: &mut Pcg64) -> Request {
    let (collection, names) = match rng.random_range(0..10) {
        0..4 => (SERVICES, SERVICE_COUNT),
        4 | 5 => (CLASSES, CLASS_COUNT),
        6 | 7 => (BUDGETS, BUDGET_COUNT),
        _ => (PODS, POD_COUNT),
    };
    let name = format!("crowd{}", rng.random_range(0..names));
    let one = format!("{collection}/{name}");
    let (method, path, sent_type) = match rng.random_range(0..20) {
        0..12 => ("POST", collection.to_owned(), "application/json"),
        12..14 => ("PUT", one, "application/json"),
        14..17 => ("PATCH", one, "application/merge-patch+json"),
        17 if collection == PODS => ("POST", format!("{one}/eviction"), "application/json"),
        17 => ("PATCH", format!("{one}/status"), "application/merge-patch+json"),
        _ => ("DELETE", one, "application/json"),
    };
    let mut object = match collection {
        SERVICES => service(rng),
        CLASSES => json!({
            "value": rng.random_range(-10..10),
            "globalDefault": rng.random_range(0..50) == 0,
        }),
        BUDGETS => budget(rng),
        _ => json!({
            "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"conditions": [{"type": "Ready", "status": pick(rng, &["True", "False"])}]},
        }),
    };
    object["metadata"] = json!({"name": name, "labels": {LABEL: pick(rng, &["a", "b"])}});
    let mut headers = credentials(target, rng);
    headers.push(content_type(sent_type));
    Request { method: method.to_owned(), path, headers, body: object.to_string().into() }
}

fn service(rng: &mut Pcg64) -> Value {
    let count = if rng.random_range(0..300) == 0 { 3_000 } else { rng.random_range(1..4) };
    let ports: Vec<Value> = (0..count)
        .map(|index| match rng.random_range(0..30) {
            0 => json!({"name": format!("p{index}"), "port": 1 + index,
                "nodePort": rng.random_range(29_990..32_780)}),
            _ => json!({"name": format!("p{index}"), "port": 1 + index}),
        })
        .collect();
    let types = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];
    let mut spec = json!({
        "type": pick(rng, &types), "externalName": "x.example", "ports": ports,
        "externalTrafficPolicy": pick(rng, &["", "Local"]),
    });
    match rng.random_range(0..5) {
        0 => spec["clusterIP"] = format!("10.96.0.{}", rng.random_range(0..256)).into(),
        1 => spec["clusterIP"] = pick(rng, &["None", "1.2.3.4", "::1", "x"]).into(),
        _ => {}
    }
    json!({"spec": spec})
}

fn budget(rng: &mut Pcg64) -> Value {
    let number = match rng.random_range(0..3) {
        0 => rng.random_range(0..100).into(),
        1 => "50%".into(),
        _ => Value::from(rng.next_u32() >> 1),
    };
    let selector = match rng.random_range(0..10) {
        0..5 => json!({}),
        5..8 => json!({"matchLabels": {LABEL: pick(rng, &["a", "b"])}}),
        8 => Value::Null,
        // Each requirement matches.
        _ => {
            let count = [1, 100, 1_000][rng.random_range(0..3)];
            let absent = |key| json!({"key": format!("k{key}"), "operator": "DoesNotExist"});
            json!({"matchExpressions": (0..count).map(absent).collect::<Vec<_>>()})
        }
    };
    let field = pick(rng, &["minAvailable", "maxUnavailable"]);
    json!({"spec": {field: number, "selector": selector}})
}
