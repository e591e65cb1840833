//! What went wrong with a cluster, as what to do about it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use everynode_controller::client;

use super::Resource;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Connect(#[from] client::Error),
    #[error("the kubeconfig has no context \"{context}\": it has {}", listed(.known))]
    UnknownContext { context: String, known: BTreeSet<String> },
    #[error("{} may not {right}: ask for {}", user_or_you(.user), .right.as_rule())]
    Forbidden { right: Right, user: Option<String> },
    #[error("{server}: {message}; log in again, or choose another context with --context")]
    Unauthorized { server: String, message: String },
    #[error(
        "no connection to {server}: {cause}; if that is not the cluster you mean, use --context or --kubeconfig"
    )]
    Unreachable { server: String, cause: String },
    #[error("{server} did not answer within {within:?}")]
    Silent { server: String, within: Duration },
    #[error("{} not found{}", .right.object(), .hint.as_deref().map(|hint| format!(": {hint}")).unwrap_or_default())]
    NotFound { right: Right, hint: Option<String> },
    #[error("the list took too long to read")]
    Expired,
    #[error("{message}")]
    Refused { message: String },
    #[error("{resource} are not as Kubernetes writes them: {cause}")]
    Unreadable { resource: Resource, cause: String },
}

/// What a request needs: a verb on a resource, in a namespace or in all, and perhaps on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    verb: &'static str,
    resource: Resource,
    namespace: Option<String>,
    name: Option<String>,
}

impl Error {
    /// What became of a request that needed that right.
    pub(super) fn of(right: &Right, server: &str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::refusal(right, server, status.code, status.message),
            // Its own name for it tells nobody anything.
            kube::Error::Service(cause) => Self::unreachable(server, &*cause),
            other => Self::unreachable(server, &other),
        }
    }

    fn unreachable(server: &str, cause: &dyn std::error::Error) -> Self {
        Self::Unreachable { server: server.to_owned(), cause: client::one_line(cause) }
    }

    /// What the server's answer to a request that needed that right means.
    pub(super) fn refusal(right: &Right, server: &str, code: u16, message: String) -> Self {
        let right = right.clone();
        match code {
            401 => Self::Unauthorized { server: server.to_owned(), message },
            403 if message.contains("cannot ") || message.is_empty() => {
                Self::Forbidden { right, user: user(&message) }
            }
            404 => Self::NotFound { right, hint: None },
            410 => Self::Expired,
            _ => Self::Refused { message },
        }
    }

    /// The missing right, if that is what is wrong: other questions may still have an answer.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden { .. })
    }
}

impl Right {
    pub fn new(verb: &'static str, resource: Resource, namespace: Option<&str>) -> Self {
        Self { verb, resource, namespace: namespace.map(str::to_owned), name: None }
    }

    #[must_use]
    pub fn of(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// `daemonset kube-system/agent`
    fn object(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        match (&self.namespace, self.name.is_some()) {
            (_, false) => format!("resource {}", self.resource),
            (Some(namespace), true) => format!("{} {namespace}/{name}", self.resource.singular()),
            (None, true) => format!("{} {name}", self.resource.singular()),
        }
    }

    /// What a role has to say.
    fn as_rule(&self) -> String {
        let role = if self.namespace.is_some() { "Role" } else { "ClusterRole" };
        let (group, resource, verb) = (self.resource.group(), self.resource, self.verb);
        format!(
            "a {role} with apiGroups [\"{group}\"], resources [\"{resource}\"], verbs [\"{verb}\"]"
        )
    }
}

impl fmt::Display for Right {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.verb, self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(formatter, " in namespace {namespace}"),
            None => formatter.write_str(" in the whole cluster"),
        }
    }
}

/// `pods is forbidden: User "jane" cannot list resource "pods" in API group "" …`
fn user(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("User \"")?;
    rest.split_once('"').map(|(user, _)| user.to_owned())
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
    fn a_missing_right_is_told_as_the_rule_that_grants_it() {
        let message = "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"a\"";
        let status = kube::core::Status::failure(message, "Forbidden").with_code(403).boxed();
        let right = Right::new("list", Resource::Pods, Some("a"));
        let error = Error::of(&right, "https://c", kube::Error::Api(status));
        assert!(error.is_forbidden());
        assert_eq!(
            error.to_string(),
            "user \"jane\" may not list pods in namespace a: ask for a Role with apiGroups [\"\"], resources [\"pods\"], verbs [\"list\"]"
        );
    }

    /// Admission refuses with 403, too, and has its own words.
    #[test]
    fn a_refusal_for_other_reasons_keeps_its_words() {
        let message = "admission webhook \"policy\" denied the request: no";
        let status = kube::core::Status::failure(message, "Forbidden").with_code(403).boxed();
        let right = Right::new("patch", Resource::DaemonSets, Some("a")).of("b");
        assert_eq!(Error::of(&right, "", kube::Error::Api(status)).to_string(), message);
    }

    #[test]
    fn what_is_not_found_is_named() {
        let status = kube::core::Status::failure("", "NotFound").with_code(404).boxed();
        let right = Right::new("get", Resource::DaemonSets, Some("a")).of("b");
        let error = Error::of(&right, "", kube::Error::Api(status));
        assert_eq!(error.to_string(), "daemonset a/b not found");
    }
}
