//! Errors of requests to a cluster, with what the operator can do about them.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use everynode_controller::client;

use super::Resource;

/// Why a request failed. Each message states what the operator can do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Connect(#[from] client::Error),
    #[error("the kubeconfig has no context \"{context}\": it has {}", listed(.known))]
    UnknownContext { context: String, known: BTreeSet<String> },
    #[error("{} may not {permission}: ask for {}", user_or_you(.user), .permission.as_rule())]
    Forbidden { permission: Permission, user: Option<String> },
    #[error("{server}: {message}; log in again, or choose another context with --context")]
    Unauthorized { server: String, message: String },
    #[error(
        "no connection to {server}: {cause}; if that is not the cluster you mean, use --context \
         or --kubeconfig"
    )]
    Unreachable { server: String, cause: String },
    #[error("{server} did not answer within {within:?}")]
    Timeout { server: String, within: Duration },
    #[error("{} not found{}", .permission.object(), suffix(.hint))]
    NotFound { permission: Permission, hint: Option<String> },
    /// The server no longer has the version that the pages of a list belong to.
    #[error("the list took too long to read")]
    Expired,
    #[error("{message}")]
    Rejected { message: String },
    #[error("can't parse {resource}: {cause}")]
    Unparsable { resource: Resource, cause: String },
}

/// The permission that a request requires: a verb on a resource, in one namespace or in all,
/// possibly on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    verb: &'static str,
    resource: Resource,
    namespace: Option<String>,
    name: Option<String>,
}

impl Error {
    /// The error of a request that required the permission.
    pub(super) fn of(permission: &Permission, server: &str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                Self::of_status(permission, server, status.code, status.message)
            }
            // The error's own text, "ServiceError", adds nothing.
            kube::Error::Service(cause) => Self::unreachable(server, &*cause),
            other => Self::unreachable(server, &other),
        }
    }

    fn unreachable(server: &str, cause: &dyn std::error::Error) -> Self {
        let cause = client::one_line(cause);
        let is_untrusted = cause.contains("UnknownIssuer");
        let untrusted = "its certificate is not signed by the kubeconfig's certificate-authority";
        let cause = if is_untrusted { untrusted.to_owned() } else { cause };
        Self::Unreachable { server: server.to_owned(), cause }
    }

    /// The error for a status that the server sent to a request that required the permission.
    pub(super) fn of_status(
        permission: &Permission,
        server: &str,
        code: u16,
        message: String,
    ) -> Self {
        let permission = permission.clone();
        match code {
            401 => Self::Unauthorized { server: server.to_owned(), message },
            // Admission refuses with the same code, in other words.
            403 if message.contains("\" cannot ") || message.is_empty() => {
                Self::Forbidden { permission, user: user(&message) }
            }
            404 => Self::NotFound { permission, hint: None },
            410 => Self::Expired,
            _ if message.trim().is_empty() => {
                Self::Rejected { message: format!("{server} answered with {}", status_line(code)) }
            }
            _ => Self::Rejected { message },
        }
    }

    /// True if a permission is missing, so that other requests may still succeed.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden { .. })
    }
}

impl Permission {
    /// The permission for a verb on a resource; `namespace` is `None` for all namespaces.
    pub(crate) fn new(verb: &'static str, resource: Resource, namespace: Option<&str>) -> Self {
        Self { verb, resource, namespace: namespace.map(str::to_owned), name: None }
    }

    /// The same permission on one object.
    #[must_use]
    pub(crate) fn of(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// The object in messages: `daemonset kube-system/agent`.
    fn object(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        match (&self.namespace, self.name.is_some()) {
            (_, false) => format!("resource {}", self.resource),
            (Some(namespace), true) => format!("{} {namespace}/{name}", self.resource.singular()),
            (None, true) => format!("{} {name}", self.resource.singular()),
        }
    }

    /// The rule of a role that grants the permission.
    fn as_rule(&self) -> String {
        let role = if self.namespace.is_some() { "Role" } else { "ClusterRole" };
        let (group, resource, verb) = (self.resource.group(), self.resource, self.verb);
        let instead = match (resource, &self.namespace) {
            (Resource::DaemonSets, None) => "; for one namespace: -n NAMESPACE",
            _ => "",
        };
        format!(
            "a {role} with apiGroups [\"{group}\"], resources [\"{resource}\"], verbs \
             [\"{verb}\"]{instead}"
        )
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.verb, self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(formatter, " in namespace {namespace}"),
            None => formatter.write_str(" in the whole cluster"),
        }
    }
}

/// A status code with its meaning, for an answer that says nothing else.
fn status_line(code: u16) -> String {
    let redirects = match code {
        300..400 => ", and redirects are not followed: is this the address of the API server?",
        _ => "",
    };
    let status = http::StatusCode::from_u16(code).map_or(code.to_string(), |it| it.to_string());
    format!("{status}{redirects}")
}

/// The user in a message such as `pods is forbidden: User "jane" cannot list resource "pods" …`.
fn user(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("User \"")?;
    rest.split_once('"').map(|(user, _)| user.to_owned())
}

fn suffix(hint: &Option<String>) -> String {
    hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default()
}

fn user_or_you(user: &Option<String>) -> String {
    user.as_ref().map_or_else(|| "you".to_owned(), |user| format!("user \"{user}\""))
}

fn listed(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_is_reported_as_the_rule_that_grants_it() {
        let message = "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \
                       \"\" in the namespace \"a\"";
        let status = kube::core::Status::failure(message, "Forbidden").with_code(403).boxed();
        let permission = Permission::new("list", Resource::Pods, Some("a"));
        let error = Error::of(&permission, "https://c", kube::Error::Api(status));
        assert!(error.is_forbidden());
        assert_eq!(
            error.to_string(),
            "user \"jane\" may not list pods in namespace a: ask for a Role with apiGroups [\"\"], \
             resources [\"pods\"], verbs [\"list\"]"
        );
    }

    /// Admission plugins also reject with 403; their messages are passed on.
    #[test]
    fn a_rejection_by_admission_keeps_its_message() {
        let message = "admission webhook \"policy\" denied the request: no";
        let status = kube::core::Status::failure(message, "Forbidden").with_code(403).boxed();
        let permission = Permission::new("patch", Resource::DaemonSets, Some("a")).of("b");
        assert_eq!(Error::of(&permission, "", kube::Error::Api(status)).to_string(), message);
    }

    /// A redirect has no message of its own, nor have the errors of many proxies.
    #[test]
    fn an_answer_without_a_message_is_reported_by_its_code() {
        let permission = Permission::new("list", Resource::DaemonSets, None);
        for (code, expected) in [
            (
                302,
                "https://a answered with 302 Found, and redirects are not followed: is this the \
                 address of the API server?",
            ),
            (502, "https://a answered with 502 Bad Gateway"),
        ] {
            let error = Error::of_status(&permission, "https://a", code, "\n".to_owned());
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_certificate_of_another_authority_is_reported_in_words() {
        let cause = kube::Error::Service("invalid peer certificate: UnknownIssuer".into());
        let permission = Permission::new("list", Resource::Pods, None);
        let error = Error::of(&permission, "https://a", cause);
        assert_eq!(
            error.to_string(),
            "no connection to https://a: its certificate is not signed by the kubeconfig's \
             certificate-authority; if that is not the cluster you mean, use --context or \
             --kubeconfig"
        );
    }

    #[test]
    fn the_missing_object_is_named() {
        let status = kube::core::Status::failure("", "NotFound").with_code(404).boxed();
        let permission = Permission::new("get", Resource::DaemonSets, Some("a")).of("b");
        let error = Error::of(&permission, "", kube::Error::Api(status));
        assert_eq!(error.to_string(), "daemonset a/b not found");
    }
}
