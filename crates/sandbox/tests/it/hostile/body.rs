//! Generated requests: valid ones, nearly valid ones and nonsense.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};
use rand_pcg::Pcg64;
use serde_json::{Map, Value, json};

use super::client::Target;
use super::{bounds, crowd};

#[derive(Clone)]
pub(crate) struct Request {
    pub method: String,
    pub path: String,
    /// Names and values; a value can be any bytes that a header may have.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

const DEFAULT: &str = "/api/v1/namespaces/default";

/// Collections in the namespace of the tenant.
const COLLECTIONS: &[&str] = &[
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/events",
    "/apis/apps/v1/namespaces/default/daemonsets",
    "/apis/apps/v1/namespaces/default/controllerrevisions",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    "/apis/apps/v1/namespaces/default/deployments",
    "/api/v1/namespaces/default/services",
];

/// The others that are read.
const READ: &[&str] = &[
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/namespaces",
    "/apis",
    "/api",
    "/version",
    "/readyz",
    "/openapi/v3",
    "/openapi/v2",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/api/v1/namespaces/friend/configmaps",
    "/api/v1/namespaces/friend/secrets",
    "/debug/faults",
    "/metrics",
    "/",
];

const WORDS: &[&str] = &[
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "spec",
    "status",
    "data",
    "template",
    "containers",
    "image",
    "selector",
    "matchLabels",
    "ports",
    "volumes",
    "env",
    "rules",
    "verbs",
    "subjects",
    "roleRef",
    "kind",
    "apiVersion",
    "x",
    "",
    "$patch",
    "replace",
    "$retainKeys",
    "$setElementOrder/containers",
    "finalizers",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "deletionTimestamp",
    "tolerations",
    "nodeName",
    "updateStrategy",
    "involvedObject",
    "\u{0}",
    "\u{202e}drow",
    "e\u{301}",
    "\u{1f600}",
    "a/b",
    "~0~1",
    "-1",
    "default",
    "50%",
    "1e999",
    "18446744073709551616",
    "true",
    "null",
    "9223372036854775807",
];

const TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/plain",
    "",
    ";;;",
];

/// Any request.
pub(crate) fn request(target: &Target, rng: &mut Pcg64) -> Request {
    match rng.random_range(0..1_000) {
        0..500 => write(target, rng),
        500..550 => crowd::request(target, rng),
        550..990 => read(target, rng),
        990..994 => many_errors(target, rng),
        994 => bounds::request(target, rng),
        _ => large(target, rng),
    }
}

/// A list that every user with some rights may make.
pub(crate) fn get(target: &Target, path: &str) -> Request {
    let headers = vec![authorization(&target.tenant)];
    Request { method: "GET".to_owned(), path: path.to_owned(), headers, body: Vec::new() }
}

/// A pod whose every container has several errors.
pub(crate) fn many_errors(target: &Target, rng: &mut Pcg64) -> Request {
    let containers = vec![json!({}); rng.random_range(100..20_000)];
    let body = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    let headers = vec![authorization(&target.tenant), content_type("application/json")];
    let path = format!("{DEFAULT}/pods");
    Request { method: "POST".to_owned(), path, headers, body: body.to_string().into() }
}

/// A large object, or a small change of it.
fn large(target: &Target, rng: &mut Pcg64) -> Request {
    let name = format!("large{}", rng.random_range(0..3));
    let mut headers = vec![authorization(&target.tenant)];
    let (method, path, body) = if rng.random() {
        headers.push(content_type("application/json"));
        let bytes = rng.random_range(100_000..1_200_000);
        let map = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(bytes)}});
        ("POST", format!("{DEFAULT}/configmaps"), map)
    } else {
        headers.push(content_type("application/merge-patch+json"));
        let patch = json!({"data": {"n": rng.random_range(0..1_000_000).to_string()}});
        ("PATCH", format!("{DEFAULT}/configmaps/{name}"), patch)
    };
    Request { method: method.to_owned(), path, headers, body: body.to_string().into() }
}

/// A request that reads.
fn read(target: &Target, rng: &mut Pcg64) -> Request {
    let mut path = match rng.random_range(0..10) {
        0..4 => pick(rng, COLLECTIONS).to_owned(),
        4..7 => pick(rng, READ).to_owned(),
        7 => format!("{}/{}", pick(rng, COLLECTIONS), encoded(&word(rng))),
        8 => format!("{}/x{}", pick(rng, COLLECTIONS), rng.random_range(0..20)),
        _ => (0..rng.random_range(1..12)).map(|_| format!("/{}", encoded(&word(rng)))).collect(),
    };
    let mut separator = '?';
    for _ in 0..rng.random_range(0..4) {
        let name = *[
            "labelSelector",
            "fieldSelector",
            "limit",
            "continue",
            "resourceVersion",
            "watch",
            "resourceVersionMatch",
            "timeoutSeconds",
            "sendInitialEvents",
            "allowWatchBookmarks",
            "pretty",
            "dryRun",
            "x",
        ]
        .choose(rng)
        .expect("not empty");
        path.push_str(&format!("{separator}{name}={}", encoded(&parameter(name, rng))));
        separator = '&';
    }
    let mut headers = credentials(target, rng);
    let accept = *[
        "application/json",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/vnd.kubernetes.protobuf",
        "*/*",
        "text/html",
        ",,;;=",
    ]
    .choose(rng)
    .expect("not empty");
    headers.push(("Accept".to_owned(), accept.into()));
    let method = if rng.random_range(0..50) == 0 { "OPTIONS" } else { "GET" };
    Request { method: method.to_owned(), path, headers, body: Vec::new() }
}

fn parameter(name: &str, rng: &mut Pcg64) -> String {
    match (name, rng.random_range(0..6)) {
        (_, 0) => word(rng),
        (_, 1) => (0..rng.random_range(1..40)).map(|_| rng.random::<char>()).collect(),
        ("labelSelector", _) => {
            let one = |rng: &mut Pcg64| {
                let (key, value) = (word(rng), word(rng));
                let forms = [
                    format!("{key}={value}"),
                    format!("!{key}"),
                    format!("{key} in ({value},b)"),
                    format!("{key}!={value}"),
                    key,
                    "((((".to_owned(),
                    ",,,".to_owned(),
                ];
                pick_owned(rng, &forms)
            };
            let count = *[1, 2, 300].choose(rng).expect("not empty");
            (0..count).map(|_| one(rng)).collect::<Vec<_>>().join(",")
        }
        ("fieldSelector", _) => {
            let forms =
                ["metadata.name=x", "spec.nodeName=", "status.phase!=Running", "a=b", "==="];
            pick(rng, &forms).to_owned()
        }
        ("watch" | "sendInitialEvents" | "allowWatchBookmarks", _) => "true".to_owned(),
        ("timeoutSeconds", _) => "1".to_owned(),
        ("dryRun", _) => "All".to_owned(),
        ("resourceVersionMatch", _) => pick(rng, &["Exact", "NotOlderThan"]).to_owned(),
        _ => pick(rng, &["0", "1", "-1", "100", "99999999999999999999", "1e3", "0x10"]).to_owned(),
    }
}

/// A request that writes.
pub(crate) fn write(target: &Target, rng: &mut Pcg64) -> Request {
    let collection = pick(rng, COLLECTIONS);
    let one = format!("{collection}/x{}", rng.random_range(0..20));
    let is_role = collection.contains("rbac");
    let (method, path) = match rng.random_range(0..20) {
        0..6 => ("POST", collection.to_owned()),
        6..9 => ("PUT", one),
        9..15 => ("PATCH", one),
        15 => ("PATCH", format!("{one}/status")),
        // The rights of the tenant stay.
        16 if is_role => ("GET", one),
        16 => ("DELETE", one),
        17 if is_role || rng.random_range(0..20) > 0 => ("PUT", format!("{one}/status")),
        17 => ("DELETE", collection.to_owned()),
        18 => {
            ("POST", format!("{DEFAULT}/pods/x1/{}", pick(rng, &["binding", "eviction", "exec"])))
        }
        _ => {
            let review = pick(
                rng,
                &[
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                    "/api/v1/namespaces/default/serviceaccounts/stranger/token",
                ],
            );
            ("POST", review.to_owned())
        }
    };
    let patch = pick(rng, &TYPES[3..6]);
    let sent_type = match (method, rng.random_range(0..10)) {
        (_, 0) => pick(rng, TYPES),
        ("PATCH", _) => patch,
        (_, 1) => "application/yaml",
        (_, 2) => "application/vnd.kubernetes.protobuf",
        _ => "application/json",
    };
    let query =
        pick(rng, &["", "", "", "?dryRun=All", "?fieldValidation=Strict", "?fieldValidation=x"]);
    let mut headers = credentials(target, rng);
    headers.push(content_type(sent_type));
    let body = body(collection, sent_type, rng);
    Request { method: method.to_owned(), path: format!("{path}{query}"), headers, body }
}

fn body(collection: &str, sent_type: &str, rng: &mut Pcg64) -> Vec<u8> {
    let mut text = match rng.random_range(0..10) {
        0 => tree(rng, 5).to_string(),
        1 => "[".repeat(rng.random_range(1..300)),
        2 => "{\"a\":".repeat(rng.random_range(1..300)),
        3 => format!(
            "{{\"metadata\":{{\"name\":\"x1\",\"name\":\"x2\"}},\"a\":{}}}",
            "9".repeat(400)
        ),
        4 if sent_type.contains("json-patch") => json!([tree(rng, 3), tree(rng, 3)]).to_string(),
        _ if sent_type.contains("json-patch") => json_patch(rng).to_string(),
        _ => nearly_valid(collection, rng).to_string(),
    }
    .into_bytes();
    match rng.random_range(0..12) {
        0 => text.truncate(rng.random_range(0..=text.len())),
        1 => {
            for _ in 0..rng.random_range(1..6) {
                let at = rng.random_range(0..text.len().max(1));
                if let Some(byte) = text.get_mut(at) {
                    *byte = rng.random();
                }
            }
        }
        2 => {
            text = vec![0; rng.random_range(0..500)];
            rng.fill_bytes(&mut text);
        }
        _ => {}
    }
    if sent_type.contains("protobuf") && rng.random_range(0..4) > 0 {
        text.splice(0..0, *b"k8s\0");
    }
    text
}

fn nearly_valid(collection: &str, rng: &mut Pcg64) -> Value {
    let pod =
        json!({"containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}]});
    let mut object = json!({"metadata": {"name": format!("x{}", rng.random_range(0..20))}});
    match collection.rsplit('/').next().unwrap_or_default() {
        "pods" => object["spec"] = pod,
        "daemonsets" | "deployments" => {
            object["spec"] = json!({
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
            });
        }
        "configmaps" => object["data"] = json!({"k": "v"}),
        "secrets" => object["stringData"] = json!({"k": "v"}),
        "events" => object["involvedObject"] = json!({"namespace": "default"}),
        "leases" => object["spec"] = json!({"holderIdentity": "a"}),
        "roles" => {
            object["rules"] = json!([{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}])
        }
        _ => {}
    }
    for _ in 0..rng.random_range(0..4) {
        let (value, depth) = (tree(rng, 3), rng.random_range(1..6));
        replace_somewhere(&mut object, value, depth, rng);
    }
    object
}

/// Replaces or adds a value at most `depth` levels deep.
fn replace_somewhere(place: &mut Value, value: Value, depth: u32, rng: &mut Pcg64) {
    let inner = match place {
        _ if depth == 0 => None,
        Value::Object(fields) if rng.random_range(0..3) == 0 => {
            Some(fields.entry(word(rng)).or_insert(Value::Null))
        }
        Value::Object(fields) if !fields.is_empty() => {
            let index = rng.random_range(0..fields.len());
            fields.values_mut().nth(index)
        }
        Value::Array(items) => items.first_mut(),
        _ => None,
    };
    match inner {
        Some(inner) => replace_somewhere(inner, value, depth - 1, rng),
        None => *place = value,
    }
}

fn json_patch(rng: &mut Pcg64) -> Value {
    (0..rng.random_range(0..8))
        .map(|_| {
            let pointer = |rng: &mut Pcg64| -> String {
                (0..rng.random_range(0..5)).map(|_| format!("/{}", word(rng))).collect()
            };
            let operation = pick(rng, &["add", "remove", "replace", "move", "copy", "test", "x"]);
            json!({
                "op": operation, "path": pointer(rng), "from": pointer(rng), "value": tree(rng, 2),
            })
        })
        .collect()
}

fn tree(rng: &mut Pcg64, depth: u32) -> Value {
    match rng.random_range(0..if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => rng.random::<bool>().into(),
        2 => rng.random::<i64>().into(),
        3 => rng.random_range(-3..50_i64).into(),
        4 => (rng.random::<f64>() * 1e300).into(),
        5 => word(rng).into(),
        6 => (0..rng.random_range(0..4)).map(|_| tree(rng, depth - 1)).collect(),
        _ => {
            let fields = 0..rng.random_range(0..5);
            Value::Object(
                fields.map(|_| (word(rng), tree(rng, depth - 1))).collect::<Map<String, Value>>(),
            )
        }
    }
}

pub(crate) fn credentials(target: &Target, rng: &mut Pcg64) -> Vec<(String, Vec<u8>)> {
    let mut headers = match rng.random_range(0..20) {
        0 => Vec::new(),
        1 => vec![authorization(&word(rng).replace(|letter: char| letter < ' ', ""))],
        2 => vec![("Authorization".to_owned(), vec![0xff, 0xfe, b'x'])],
        3 | 4 => vec![authorization(&target.admin)],
        5..8 => vec![authorization(&target.stranger)],
        _ => vec![authorization(&target.tenant)],
    };
    if rng.random_range(0..30) == 0 {
        let name = pick(rng, &["Impersonate-User", "Impersonate-Group", "Impersonate-Uid"]);
        headers.push((name.to_owned(), b"system:masters".to_vec()));
    }
    headers
}

pub(crate) fn authorization(token: &str) -> (String, Vec<u8>) {
    ("Authorization".to_owned(), format!("Bearer {token}").into_bytes())
}

pub(crate) fn content_type(text: &str) -> (String, Vec<u8>) {
    ("Content-Type".to_owned(), text.into())
}

fn word(rng: &mut Pcg64) -> String {
    pick(rng, WORDS).to_owned()
}

pub(crate) fn pick<'a>(rng: &mut Pcg64, from: &[&'a str]) -> &'a str {
    from.choose(rng).expect("not empty")
}

fn pick_owned(rng: &mut Pcg64, from: &[String]) -> String {
    from.choose(rng).expect("not empty").clone()
}

/// Percent-encodes everything but letters and digits.
fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => char::from(byte).to_string(),
        other => format!("%{other:02x}"),
    };
    text.bytes().map(one).collect()
}
