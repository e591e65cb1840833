//! Reviews: who am I, and what may I do. Nothing is stored, and the answer is always yes: whoever
//! holds the token holds the sandbox.

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::decode;
use super::discovery::{VIRTUAL, Virtual};
use super::negotiate;
use super::respond::{self, Body};
use super::route::ResourcePath;
use super::server::{Call, method_not_allowed};
use crate::store::Status;

/// The review that a path names.
pub fn find(path: &ResourcePath) -> Option<&'static Virtual> {
    VIRTUAL.iter().find(|row| {
        row.group == path.group
            && row.version == path.version
            && row.plural == path.plural
            && path.name.is_none()
            && path.namespace.is_none()
    })
}

pub fn answer(review: &Virtual, call: &Call) -> Result<Response<Body>, Status> {
    if call.method != Method::POST {
        return Err(method_not_allowed());
    }
    let syntax = negotiate::body_syntax(&call.headers)?;
    let decoded = decode::decode(&call.body, syntax).map_err(Status::bad_request)?;
    let spec = decoded.value.get("spec").cloned().unwrap_or_else(|| json!({}));
    let document = json!({
        "kind": review.kind,
        "apiVersion": format!("{}/{}", review.group, review.version),
        "metadata": {"creationTimestamp": null},
        "spec": spec,
        "status": status(review.kind),
    });
    Ok(respond::json(StatusCode::CREATED, &document))
}

fn status(kind: &str) -> Value {
    match kind {
        "SelfSubjectAccessReview" => json!({"allowed": true}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"userInfo": {
            "username": "everynode-sandbox",
            "groups": ["system:masters", "system:authenticated"],
        }}),
    }
}
