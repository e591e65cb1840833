//! Objects, definitions and patches whose cost would grow beyond their size.

use rand::RngExt;
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use super::body::{Request, authorization, content_type, pick};
use super::client::Target;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PODS: &str = "/api/v1/namespaces/default/pods";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The number of kinds that are defined, again and again with other schemas.
const KINDS: usize = 6;

/// The paths of the definitions that the requests create.
pub(crate) fn definition_paths() -> impl Iterator<Item = String> {
    (0..KINDS).map(|number| format!("{DEFINITIONS}/kind{number}s.hostile.dev"))
}

pub(crate) fn request(target: &Target, rng: &mut Pcg64) -> Request {
    let tenant = &target.tenant;
    match rng.random_range(0..12) {
        0 => many_controllers(tenant, rng),
        1 => long_names(tenant, rng),
        2 => same_keys(tenant, rng),
        3 => many_containers(tenant, rng),
        4 => empty_messages(tenant, rng),
        5 => namespace(&target.admin, rng),
        6 => {
            let path = "/api/v1/namespaces/default/serviceaccounts/stranger/token".to_owned();
            send(tenant, "POST", path, JSON, &json!({"spec": {"expirationSeconds": 1_u64 << 32}}))
        }
        7 | 8 => {
            let number = rng.random_range(0..KINDS);
            let (definition, one) = (definition(number, rng), format!("kind{number}s.hostile.dev"));
            match rng.random_range(0..4) {
                0 => {
                    send(&target.admin, "DELETE", format!("{DEFINITIONS}/{one}"), JSON, &json!({}))
                }
                1 => {
                    send(&target.admin, "PATCH", format!("{DEFINITIONS}/{one}"), MERGE, &definition)
                }
                _ => send(&target.admin, "POST", DEFINITIONS.to_owned(), JSON, &definition),
            }
        }
        _ => object(&target.admin, rng),
    }
}

const JSON: &str = "application/json";

fn send(token: &str, method: &str, path: String, sent_type: &str, body: &Value) -> Request {
    let headers = vec![authorization(token), content_type(sent_type)];
    Request { method: method.to_owned(), path, headers, body: body.to_string().into() }
}

/// Owners that all are the controller.
fn many_controllers(token: &str, rng: &mut Pcg64) -> Request {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u",
        "controller": true});
    let owners = vec![owner; rng.random_range(2..10_000)];
    let map = json!({"metadata": {"name": "owned", "ownerReferences": owners}, "data": {}});
    send(token, "POST", "/api/v1/namespaces/default/configmaps".to_owned(), JSON, &map)
}

/// An apply with many findings below a long name.
fn long_names(token: &str, rng: &mut Pcg64) -> Request {
    let name = "x".repeat(rng.random_range(1..200_000));
    let ports = vec![json!({"containerPort": 1, "unknown": 1}); rng.random_range(1..3000)];
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "long"},
        "spec": {"containers": [{"name": name, "ports": ports}]}});
    send(token, "PATCH", format!("{PODS}/long?fieldManager=a"), APPLY, &pod)
}

/// A strategic merge patch of which many elements are merged into the same one.
fn same_keys(token: &str, rng: &mut Pcg64) -> Request {
    let keys = rng.random_range(1..4);
    let element = |number: usize| {
        let environment = json!([{"name": format!("E{number}"), "value": "v"}]);
        json!({"name": format!("c{}", number % keys), "env": environment})
    };
    let containers: Vec<Value> = (0..rng.random_range(1..10_000)).map(element).collect();
    let patch = json!({"spec": {"containers": containers}});
    send(token, "PATCH", format!("{PODS}/x{}", rng.random_range(0..20)), STRATEGIC, &patch)
}

/// A pod with as many containers as a kubelet simulates, or more.
fn many_containers(token: &str, rng: &mut Pcg64) -> Request {
    let count = [250, 251, 5000][rng.random_range(0..3)];
    let container = |number: usize| json!({"name": format!("c{number}"), "image": "i"});
    let containers: Vec<Value> = (0..count).map(container).collect();
    let name = format!("x{}", rng.random_range(0..20));
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
    send(token, "POST", PODS.to_owned(), JSON, &pod)
}

/// A pod in protobuf with many empty containers, or many empty labels.
fn empty_messages(token: &str, rng: &mut Pcg64) -> Request {
    let empty = [[0x12, 0], [0x0a, 0]][rng.random_range(0..2)];
    let spec = empty.repeat(rng.random_range(1..1_000_000));
    let mut body = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod".to_vec();
    for bytes in [&[0x0a, 3, 0x0a, 1, b'e'][..], &delimited(2, &spec)].map(<[u8]>::to_vec) {
        body.extend(delimited(2, &bytes));
    }
    let headers = vec![authorization(token), content_type("application/vnd.kubernetes.protobuf")];
    Request { method: "POST".to_owned(), path: PODS.to_owned(), headers, body }
}

fn delimited(field: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![field << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f).expect("it has seven bits") | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).expect("it has seven bits"));
    bytes.extend(content);
    bytes
}

/// A namespace that is created, deleted, or finalized by hand.
fn namespace(token: &str, rng: &mut Pcg64) -> Request {
    let name = format!("stuck{}", rng.random_range(0..3));
    let (all, one) = ("/api/v1/namespaces".to_owned(), format!("/api/v1/namespaces/{name}"));
    let namespace = json!({"metadata": {"name": name}, "spec": {"finalizers": []}});
    match rng.random_range(0..4) {
        0 | 1 => send(token, "POST", all, JSON, &namespace),
        2 => send(token, "DELETE", one, JSON, &json!({})),
        _ => send(token, "PUT", format!("{one}/finalize"), JSON, &namespace),
    }
}

/// Creates, changes or applies an object of one of the kinds.
fn object(token: &str, rng: &mut Pcg64) -> Request {
    let number = rng.random_range(0..KINDS);
    let (kind, name) = (format!("Kind{number}"), format!("x{}", rng.random_range(0..20)));
    let items = rng.random_range(1..2000);
    let list: Vec<Value> = (0..items).map(|_| json!(word(rng))).collect();
    let key = |index: usize| json!({"k": format!("{}", items - index), "v": items});
    let keyed: Vec<Value> = (0..items * 5).map(key).collect();
    let lists = vec![vec![1; 100]; items / 4];
    let text = pick(rng, &["x", "ab", "\u{e4}"]).repeat(items * 20);
    let spec = json!({"list": list, "keyed": keyed, "lists": lists, "text": text, "number": 1});
    let body = json!({"apiVersion": "hostile.dev/v1", "kind": kind, "metadata": {"name": name},
        "spec": spec});
    let path = format!("/apis/hostile.dev/v1/namespaces/default/kind{number}s");
    match rng.random_range(0..4) {
        0 | 1 => send(token, "POST", path, JSON, &body),
        2 => send(token, "PATCH", format!("{path}/{name}"), MERGE, &body),
        _ => send(token, "PATCH", format!("{path}/{name}?fieldManager=a&force=true"), APPLY, &body),
    }
}

fn word(rng: &mut Pcg64) -> &'static str {
    pick(rng, &["", "a", "bb", "9", "\u{202e}", "[ab]*a[ab]{50}c"])
}

/// A definition with a schema that costs much, to check or for an object.
fn definition(number: usize, rng: &mut Pcg64) -> Value {
    let junctor = *["allOf", "anyOf", "oneOf", "not"].get(rng.random_range(0..4)).expect("four");
    let nested = |inner: Value, levels| {
        (0..levels).fold(inner, |inner, _| match junctor {
            "not" => json!({"not": inner}),
            _ => json!({junctor: [inner]}),
        })
    };
    let several =
        |count, schema: &dyn Fn(usize) -> Value| -> Value { (0..count).map(schema).collect() };
    let count = rng.random_range(1..3000);
    let pattern = pick(rng, &["^a+", "[ab]*a[ab]{25}c", "(\\pL{10}){9}", "(a?){50}(b*a*){40}"]);
    let mut text = match rng.random_range(0..3) {
        0 => json!({"pattern": pattern}),
        1 => json!({junctor: several(count, &|it| json!({"pattern": format!("{pattern}{it}")}))}),
        _ => json!({"enum": several(count, &|it| format!("c{it}").into())}),
    };
    let mut of_number = nested(json!({"maximum": 0}), rng.random_range(0..45));
    let mut lists = nested(json!({"items": {"maximum": 0}}), rng.random_range(0..40));
    if junctor == "not" {
        text = json!({"pattern": pattern});
    }
    text["type"] = "string".into();
    of_number["type"] = "integer".into();
    lists["type"] = "array".into();
    lists["items"] = json!({"type": "integer"});
    let keys: Vec<String> = (0..[1, 500][rng.random_range(0..2)])
        .map(|key| if key == 0 { "k".to_owned() } else { format!("k{key}") })
        .collect();
    let of_key = |key: &String| (key.clone(), json!({"type": "string", "default": "d"}));
    let item = json!({"type": "object", "properties": keys.iter().map(of_key).collect::<Value>()});
    let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule(rng)}],
    "properties": {
        "text": text, "number": of_number,
        "list": {"type": "array", "maxItems": 2000,
            "items": {"type": "string", "maxLength": 20}},
        "lists": {"type": "array", "items": lists},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys, "items": item},
    }});
    let path = match rng.random_range(0..3) {
        0 => format!(".a{}@.b{}", "[?(@.a".repeat(5000), ")]".repeat(5000)),
        1 => format!(".spec{}", "..*".repeat(20)),
        _ => ".spec.text".to_owned(),
    };
    let column = json!({"name": "a", "type": "string", "jsonPath": path});
    let columns = vec![column; [1, 32, 1000][rng.random_range(0..3)]];
    let version = |name: usize| {
        json!({"name": format!("v{name}"), "served": true, "storage": name == 1,
            "additionalPrinterColumns": columns,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    let versions = if rng.random_range(0..20) == 0 { 110 } else { 1 };
    let kind = format!("Kind{number}");
    json!({
        "metadata": {"name": format!("kind{number}s.hostile.dev")},
        "spec": {
            "group": "hostile.dev", "scope": "Namespaced",
            "names": {"plural": format!("kind{number}s"), "singular": format!("kind{number}"),
                "kind": kind, "listKind": format!("{kind}List")},
            "versions": (1..=versions).map(version).collect::<Vec<_>>(),
        },
    })
}

/// A rule whose values grow, are compared with each other, or are patterns.
fn rule(rng: &mut Pcg64) -> String {
    let start = pick(rng, &["'aaaaaaaaaa'", "[1, 2, 3]", "self.list", "self.text", "{1: 'a'}"]);
    let grown = pick(rng, &["x + x", "[x, x]", "{'a': x, 'b': x}", "string(x) + string(x)"]);
    let times = rng.random_range(1..35);
    match rng.random_range(0..4) {
        0 => format!("[{start}]{}.size() == 1", format!(".map(x, {grown})").repeat(times)),
        1 => format!("[{start}].all(k, k.all(a, k.all(b, k.all(c, a == c || true))))"),
        2 => {
            let of = pick(rng, &["matches(x)", "find(x) == ''", "findAll(x) == []"]);
            format!("self.list.all(x, self.text.{of} || true)")
        }
        _ => {
            let of = pick(rng, &["replace('', x)", "split('').join(x)", "lowerAscii()"]);
            format!("self.list.all(x, self.text.{of}.size() >= 0)")
        }
    }
}
