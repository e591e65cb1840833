//! The RBAC attributes of a request, and the check that its user has the right to make it.

use http::Method;

use super::call::AuthorizedCall;
use super::query::Parameters;
use super::route::{ResourcePath, Route};
use super::shared::SharedCluster;
use crate::authorization::{Attributes, Decision, RequestTarget, User};
use crate::status::{Details, Reason, Status};

/// Refuses a request that no role of the user allows. Logs the request and the decision at level
/// `debug`, which shows the rights that a program uses.
pub(crate) fn check(
    shared: &SharedCluster,
    user: &User,
    attributes: &Attributes<'_>,
) -> Result<(), Status> {
    // Masters make most requests: decide them without the lock that all requests share.
    let decision = if user.is_master() {
        Decision::Allowed { reason: String::new() }
    } else {
        shared.read_cluster(|cluster| cluster.authorize(user, attributes))
    };
    log(user, attributes, &decision);
    match decision {
        Decision::Allowed { .. } => Ok(()),
        Decision::Refused { reason } => Err(forbidden(user, attributes, &reason)),
    }
}

/// The attributes of an authorized request.
pub(crate) fn attributes_of(request: &AuthorizedCall) -> Attributes<'_> {
    let call = &request.call;
    attributes(&request.route, &request.path, &call.method, &call.parameters)
}

/// The attributes of a request to a route.
pub(crate) fn attributes<'a>(
    route: &'a Route,
    path: &'a str,
    method: &Method,
    parameters: &'a Parameters,
) -> Attributes<'a> {
    match route {
        Route::Resource(resource) => on_resource(resource, method, parameters),
        _ => Attributes { verb: verb_of_path(method), target: RequestTarget::Path(path) },
    }
}

fn on_resource<'a>(
    path: &'a ResourcePath,
    method: &Method,
    parameters: &'a Parameters,
) -> Attributes<'a> {
    let named = path.name.as_deref();
    let verb = match (method, named) {
        (&Method::GET | &Method::HEAD, Some(_)) => "get",
        (&Method::GET | &Method::HEAD, None) if parameters.watch => "watch",
        (&Method::GET | &Method::HEAD, None) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, Some(_)) => "delete",
        (&Method::DELETE, None) => "deletecollection",
        _ => "",
    };
    let selected = || match verb {
        "list" | "watch" => selected_name(&parameters.field_selector),
        _ => None,
    };
    let name = named.or_else(selected).unwrap_or_default();
    // As upstream: the namespace of a namespace is its own name.
    let itself = (path.group.is_empty() && path.plural == "namespaces").then_some(named).flatten();
    Attributes {
        verb,
        target: RequestTarget::Resource {
            group: &path.group,
            resource: &path.plural,
            subresource: path.subresource.as_deref().unwrap_or_default(),
            namespace: itself.or(path.namespace.as_deref()).unwrap_or_default(),
            name,
        },
    }
}

/// The name in a field selector: a user who may list one object by name needs such a selector.
fn selected_name(field_selector: &str) -> Option<&str> {
    field_selector.split(',').find_map(|requirement| {
        let value = requirement.trim().strip_prefix("metadata.name=")?;
        Some(value.strip_prefix('=').unwrap_or(value))
    })
}

fn verb_of_path(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

fn log(user: &User, attributes: &Attributes<'_>, decision: &Decision) {
    let allowed = matches!(decision, Decision::Allowed { .. });
    let (user, verb) = (user.name.as_str(), attributes.verb);
    match attributes.target {
        RequestTarget::Resource { group, resource, subresource, namespace, name } => {
            tracing::debug!(
                user,
                verb,
                group,
                resource,
                subresource,
                namespace,
                name,
                allowed,
                "request"
            );
        }
        RequestTarget::Path(path) => tracing::debug!(user, verb, path, allowed, "request"),
    }
}

/// 403 with upstream's message.
pub(crate) fn forbidden(user: &User, attributes: &Attributes<'_>, reason: &str) -> Status {
    let (name, verb) = (&user.name, attributes.verb);
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let (object, cause, details) = match attributes.target {
        RequestTarget::Path(path) => {
            let cause = format!("User {name:?} cannot {verb} path {path:?}");
            (String::new(), cause, Details::default())
        }
        RequestTarget::Resource { group, resource, subresource, namespace, name: object } => {
            let part =
                if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
            let scope = match namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let cause = format!(
                "User {name:?} cannot {verb} resource \"{resource}{part}\" in API group {group:?} \
                 {scope}"
            );
            let qualified =
                if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
            let details = Details {
                name: object.to_owned(),
                group: group.to_owned(),
                kind: resource.to_owned(),
                ..Details::default()
            };
            (
                if object.is_empty() {
                    format!("{qualified} is ")
                } else {
                    format!("{qualified} {object:?} is ")
                },
                cause,
                details,
            )
        }
    };
    Status::new(Reason::Forbidden, format!("{object}forbidden: {cause}{because}"))
        .with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{query, route};

    /// S4, S12: requests have the attributes that they have on a real server, and are refused with
    /// the same messages.
    #[test]
    fn requests_are_refused_in_upstreams_words() {
        let user = User { name: "bob".to_owned(), ..User::default() };
        for (method, url, expected) in [
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/p",
                "pods \"p\" is forbidden: User \"bob\" cannot get resource \"pods\" in API group \
                 \"\" in the namespace \"a\"",
            ),
            (
                Method::GET,
                "/apis/apps/v1/daemonsets?watch=1",
                "daemonsets.apps is forbidden: User \"bob\" cannot watch resource \"daemonsets\" \
                 in API group \"apps\" at the cluster scope",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Ds",
                "secrets \"s\" is forbidden: User \"bob\" cannot list resource \"secrets\" in API \
                 group \"\" in the namespace \"a\"",
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/daemonsets/d/status",
                "daemonsets.apps \"d\" is forbidden: User \"bob\" cannot patch resource \
                 \"daemonsets/status\" in API group \"apps\" in the namespace \"a\"",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a",
                "namespaces \"a\" is forbidden: User \"bob\" cannot get resource \"namespaces\" in \
                 API group \"\" in the namespace \"a\"",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods",
                "pods is forbidden: User \"bob\" cannot deletecollection resource \"pods\" in API \
                 group \"\" in the namespace \"a\"",
            ),
            (Method::POST, "/apis", "forbidden: User \"bob\" cannot post path \"/apis\""),
        ] {
            let (path, query) = url.split_once('?').unwrap_or((url, ""));
            let route = route::parse(path).expect("a path");
            let parameters = query::parse(query).expect("a query");
            let attributes = attributes(&route, path, &method, &parameters);
            assert_eq!(forbidden(&user, &attributes, "").message, expected);
        }
    }
}
