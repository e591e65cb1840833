//! Objects and definitions whose cost would grow beyond their size.

use rand::RngExt;
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use super::body::{Request, authorization, content_type, pick};
use super::client::Target;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(crate) fn request(target: &Target, rng: &mut Pcg64) -> Request {
    let number = rng.random_range(0..SCHEMAS);
    match rng.random_range(0..4) {
        0 => many_controllers(target, rng),
        1 => long_names(target, rng),
        2 => post(&target.admin, DEFINITIONS.to_owned(), &definition(number)),
        _ => {
            let path = format!("/apis/hostile.dev/v1/namespaces/default/kind{number}s");
            let items = rng.random_range(1..2000);
            let list: Vec<Value> = (0..items).map(|_| json!(word(rng))).collect();
            let spec = json!({"list": list, "text": "x".repeat(items * 20), "number": 1});
            let name = format!("x{}", rng.random_range(0..20));
            post(&target.admin, path, &json!({"metadata": {"name": name}, "spec": spec}))
        }
    }
}

fn word(rng: &mut Pcg64) -> &'static str {
    pick(rng, &["", "a", "bb", "9", "\u{202e}"])
}

fn post(token: &str, path: String, body: &Value) -> Request {
    let headers = vec![authorization(token), content_type("application/json")];
    Request { method: "POST".to_owned(), path, headers, body: body.to_string().into() }
}

/// Owners that all are the controller.
fn many_controllers(target: &Target, rng: &mut Pcg64) -> Request {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u",
        "controller": true});
    let owners = vec![owner; rng.random_range(2..10_000)];
    let map = json!({"metadata": {"name": "owned", "ownerReferences": owners}, "data": {}});
    post(&target.tenant, "/api/v1/namespaces/default/configmaps".to_owned(), &map)
}

/// An apply with many findings below a long name.
fn long_names(target: &Target, rng: &mut Pcg64) -> Request {
    let name = "x".repeat(rng.random_range(1..200_000));
    let ports = vec![json!({"containerPort": 1, "unknown": 1}); rng.random_range(1..3000)];
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "long"},
        "spec": {"containers": [{"name": name, "ports": ports}]}});
    let headers = vec![authorization(&target.tenant), content_type("application/apply-patch+yaml")];
    let path = "/api/v1/namespaces/default/pods/long?fieldManager=a".to_owned();
    Request { method: "PATCH".to_owned(), path, headers, body: pod.to_string().into() }
}

const SCHEMAS: usize = 6;

/// A definition with a schema that costs much for an object.
fn definition(number: usize) -> Value {
    let nested = (0..40).fold(json!({"maximum": 0}), |inner, _| json!({"allOf": [inner]}));
    let patterns: Vec<Value> =
        (0..500).map(|number| json!({"pattern": format!("^a+{number}$")})).collect();
    let choices: Vec<Value> = (0..2000).map(|number| json!(format!("c{number}"))).collect();
    let doubled = |start: &str| format!("[{start}]{}.size() == 1", ".map(x, x + x)".repeat(30));
    let (mut list, mut text, mut of_number) = (json!({}), json!({}), json!({}));
    let (mut rule, mut path) = ("true".to_owned(), ".spec.text".to_owned());
    match number {
        0 => of_number = nested,
        1 => text = json!({"allOf": patterns}),
        2 => list = json!({"enum": choices}),
        3 => rule = doubled("'aaaaaaaaaa'"),
        4 => rule = "[self.list].all(k, k.all(a, k.all(b, k.all(c, true))))".to_owned(),
        _ => path = format!(".a{}@.b{}", "[?(@.a".repeat(5000), ")]".repeat(5000)),
    }
    text["type"] = "string".into();
    text["maxLength"] = 100_000.into();
    list["type"] = "string".into();
    list["maxLength"] = 10.into();
    of_number["type"] = "integer".into();
    let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}],
        "properties": {"text": text, "number": of_number,
            "list": {"type": "array", "maxItems": 2000, "items": list}}});
    let kind = format!("Kind{number}");
    json!({
        "metadata": {"name": format!("kind{number}s.hostile.dev")},
        "spec": {
            "group": "hostile.dev", "scope": "Namespaced",
            "names": {"plural": format!("kind{number}s"), "singular": format!("kind{number}"),
                "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": path}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}],
        },
    })
}
