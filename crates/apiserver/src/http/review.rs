//! Self-subject reviews: the user's identity and rights. Nothing is stored.

use http::{Method, Response, StatusCode};

use super::call::Call;
use super::decode;
use super::discovery::REVIEWS;
use super::negotiate;
use super::respond::{self, Body, method_not_allowed};
use super::route::ResourcePath;
use super::shared::SharedCluster;
use crate::authorization::{Attributes, Decision, PolicyRule, RequestTarget, User};
use crate::json::{Value, json};
use crate::kind::Kind;
use crate::status::Status;
use crate::value::{is_set, string};

/// The review resource that a path names.
pub(crate) fn find(path: &ResourcePath) -> Option<&'static Kind> {
    REVIEWS.iter().find(|row| {
        row.group == path.group
            && row.version == path.version
            && row.plural == path.plural
            && path.name.is_none()
            && path.namespace.is_none()
    })
}

pub(crate) fn handle(
    review: &Kind,
    shared: &SharedCluster,
    user: &User,
    call: &Call,
) -> Result<Response<Body>, Status> {
    if call.method != Method::POST {
        return Err(method_not_allowed());
    }
    let syntax = negotiate::body_syntax(&call.headers)?;
    let decoded = decode::decode(&call.body, syntax).map_err(Status::bad_request)?;
    let spec = decoded.value.get("spec").cloned().unwrap_or_else(|| json!({}));
    let document = json!({
        "kind": review.kind,
        "apiVersion": review.api_version(),
        "metadata": {},
        "spec": spec,
        "status": status(review.kind, &spec, shared, user)?,
    });
    Ok(respond::json(StatusCode::CREATED, &document))
}

fn status(kind: &str, spec: &Value, shared: &SharedCluster, user: &User) -> Result<Value, Status> {
    Ok(match kind {
        "SelfSubjectAccessReview" => {
            let request = request(spec)?;
            match shared.read_cluster(|cluster| cluster.authorize(user, &request)) {
                Decision::Allowed { reason } => reviewed(true, &reason),
                Decision::Refused { reason } => reviewed(false, &reason),
            }
        }
        "SelfSubjectRulesReview" => {
            let namespace = string(spec, "/namespace");
            let rules = shared.read_cluster(|cluster| cluster.rules(user, namespace));
            let (of_paths, of_resources): (Vec<&PolicyRule>, Vec<&PolicyRule>) =
                rules.iter().partition(|rule| !rule.paths.is_empty());
            let list = |rules: Vec<&PolicyRule>| {
                rules.into_iter().map(PolicyRule::to_json).collect::<Value>()
            };
            json!({
                "resourceRules": list(of_resources),
                "nonResourceRules": list(of_paths),
                "incomplete": false,
            })
        }
        _ => {
            let mut info = json!({"username": user.name, "groups": user.groups});
            if !user.uid.is_empty() {
                info["uid"] = user.uid.as_str().into();
            }
            json!({"userInfo": info})
        }
    })
}

fn reviewed(allowed: bool, reason: &str) -> Value {
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}

fn request(spec: &Value) -> Result<Attributes<'_>, Status> {
    let resource = &spec["resourceAttributes"];
    let path = &spec["nonResourceAttributes"];
    match (is_set(spec, "/resourceAttributes"), is_set(spec, "/nonResourceAttributes")) {
        (true, false) => Ok(Attributes {
            verb: string(resource, "/verb"),
            target: RequestTarget::Resource {
                group: string(resource, "/group"),
                resource: string(resource, "/resource"),
                subresource: string(resource, "/subresource"),
                namespace: string(resource, "/namespace"),
                name: string(resource, "/name"),
            },
        }),
        (false, true) => Ok(Attributes {
            verb: string(path, "/verb"),
            target: RequestTarget::Path(string(path, "/path")),
        }),
        _ => Err(Status::bad_request(
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
    }
}
