//! Matches requests by their RBAC attributes, their user and their user agent.

use serde::{Deserialize, Serialize};

use super::effect::Fault;

/// The requests that a rule matches. An empty list matches everything; a trailing `*` in an entry
/// matches any suffix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Match {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`;
    /// `watchlist` is a watch with `sendInitialEvents=true`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// `pods`, `daemonsets/status`; `*` matches all resources and subresources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Namespaces; the empty string matches cluster-scoped requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Names in the path, as in RBAC; a creation has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths that name no resource: `/readyz`, `/openapi/*`.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
    /// User names: `system:serviceaccount:kube-system:everynode`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Values of the header `User-Agent`: `kubectl/*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_agents: Vec<String>,
    /// True if a list request must continue from an earlier page (`continue=…`), false if it must
    /// not.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continues: Option<bool>,
}

/// The properties of a request that rules match.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestInfo<'a> {
    /// The verb of RBAC.
    pub verb: &'a str,
    /// True if it is a watch with `sendInitialEvents=true`.
    pub is_watchlist: bool,
    /// True if it is a list with a continue token.
    pub continues: bool,
    /// Empty for a path that names no resource.
    pub resource: &'a str,
    /// Empty for the main resource.
    pub subresource: &'a str,
    /// Empty for a cluster-scoped resource.
    pub namespace: &'a str,
    /// Empty for a collection.
    pub name: &'a str,
    /// The path of a request that names no resource.
    pub path: &'a str,
    /// The name of the user.
    pub user: &'a str,
    /// The header `User-Agent`.
    pub user_agent: &'a str,
}

/// The verbs that a rule may name.
pub(super) const VERBS: [&str; 12] = [
    "get",
    "list",
    "watch",
    "watchlist",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "head",
    "post",
    "put",
];

impl Match {
    /// True if the rule matches a request.
    pub fn matches(&self, request: &RequestInfo<'_>) -> bool {
        self.has_verb(request)
            && self.has_target(request)
            && has(&self.users, request.user)
            && has(&self.user_agents, request.user_agent)
            && self.continues.is_none_or(|continues| continues == request.continues)
    }

    fn has_verb(&self, request: &RequestInfo<'_>) -> bool {
        self.verbs.is_empty()
            || self
                .verbs
                .iter()
                .any(|verb| verb == request.verb || (verb == "watchlist" && request.is_watchlist))
    }

    fn has_target(&self, request: &RequestInfo<'_>) -> bool {
        if request.resource.is_empty() {
            let asks_for_resources = !self.resources.is_empty()
                || !self.namespaces.is_empty()
                || !self.resource_names.is_empty()
                || self.continues.is_some();
            return !asks_for_resources && has(&self.non_resource_urls, request.path);
        }
        let is_path_rule = self.resources.is_empty() && !self.non_resource_urls.is_empty();
        !is_path_rule
            && self.has_resource(request)
            && has(&self.namespaces, request.namespace)
            && has(&self.resource_names, request.name)
    }

    fn has_resource(&self, request: &RequestInfo<'_>) -> bool {
        self.resources.is_empty()
            || self.resources.iter().any(|pattern| match pattern.split_once('/') {
                None => {
                    pattern == "*"
                        || (pattern == request.resource && request.subresource.is_empty())
                }
                Some((of, part)) => {
                    (of == "*" || of == request.resource)
                        && !request.subresource.is_empty()
                        && (part == "*" || part == request.subresource)
                }
            })
    }

    /// The first verb in the rule to whose requests the fault can't be applied.
    pub(super) fn impossible_verb(&self, fault: &Fault) -> Option<&str> {
        let is_possible = |verb: &str| match verb {
            "watchlist" => fault.can_happen_to("watch", true),
            // Some watches are streaming lists.
            "watch" => fault.can_happen_to("watch", true),
            verb => fault.can_happen_to(verb, false),
        };
        self.verbs.iter().map(String::as_str).find(|verb| !is_possible(verb))
    }

    /// All lists of the rule, for checks of their size.
    pub(super) fn lists(&self) -> [(&'static str, &[String]); 7] {
        [
            ("verbs", &self.verbs),
            ("resources", &self.resources),
            ("namespaces", &self.namespaces),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
            ("users", &self.users),
            ("userAgents", &self.user_agents),
        ]
    }
}

fn has(patterns: &[String], value: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches_pattern(pattern, value))
}

fn matches_pattern(pattern: &str, value: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => value.starts_with(start),
        None => pattern == value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    fn pod_deletion() -> RequestInfo<'static> {
        RequestInfo {
            verb: "delete",
            resource: "pods",
            namespace: "default",
            name: "a-1",
            user: "system:serviceaccount:kube-system:everynode",
            user_agent: "everynode/0.1.0 (linux/amd64)",
            ..RequestInfo::default()
        }
    }

    /// S17: a rule matches RBAC attributes; an absent condition matches everything.
    #[test]
    fn a_rule_matches_request_attributes() {
        let pods_of =
            |verbs: &str| Match { verbs: list(verbs), resources: list("pods"), ..Match::default() };
        let cases = [
            (Match::default(), true),
            (pods_of("delete"), true),
            (pods_of("get,delete"), true),
            (pods_of("create"), false),
            (Match { resources: list("*"), ..Match::default() }, true),
            (Match { resources: list("pods/status"), ..Match::default() }, false),
            (Match { resources: list("nodes"), ..Match::default() }, false),
            (Match { namespaces: list("default"), ..Match::default() }, true),
            (Match { namespaces: list("kube-*"), ..Match::default() }, false),
            (Match { resource_names: list("a-*"), ..Match::default() }, true),
            (Match { resource_names: list("a-2"), ..Match::default() }, false),
            (Match { users: list("system:serviceaccount:*"), ..Match::default() }, true),
            (Match { users: list("ann"), ..Match::default() }, false),
            (Match { user_agents: list("everynode/*"), ..Match::default() }, true),
            (Match { user_agents: list("kubectl/*"), ..Match::default() }, false),
            (Match { non_resource_urls: list("/readyz"), ..Match::default() }, false),
            (Match { continues: Some(true), ..Match::default() }, false),
        ];
        for (rule, expected) in cases {
            assert_eq!(rule.matches(&pod_deletion()), expected, "{rule:?}");
        }
    }

    /// S17: a rule distinguishes subresources, streaming lists, pages, and paths that name no
    /// resource.
    #[test]
    fn similar_requests_are_distinguished() {
        let status = RequestInfo { subresource: "status", ..pod_deletion() };
        let of = |resources: &str| Match { resources: list(resources), ..Match::default() };
        assert!(!of("pods").matches(&status));
        assert!(of("pods/status").matches(&status) && of("*/status").matches(&status));
        assert!(of("*").matches(&status) && of("pods/*").matches(&status));

        let watch = RequestInfo { verb: "watch", resource: "pods", ..RequestInfo::default() };
        let watchlist = RequestInfo { is_watchlist: true, ..watch };
        let of = |verbs: &str| Match { verbs: list(verbs), ..Match::default() };
        assert!(of("watch").matches(&watch) && of("watch").matches(&watchlist));
        assert!(!of("watchlist").matches(&watch) && of("watchlist").matches(&watchlist));

        let page = RequestInfo { verb: "list", resource: "pods", ..RequestInfo::default() };
        let second = RequestInfo { continues: true, ..page };
        let continued = Match { continues: Some(true), ..Match::default() };
        assert!(!continued.matches(&page) && continued.matches(&second));

        let path = RequestInfo { verb: "get", path: "/readyz", ..RequestInfo::default() };
        let of = |urls: &str| Match { non_resource_urls: list(urls), ..Match::default() };
        assert!(Match::default().matches(&path) && of("/ready*").matches(&path));
        assert!(!of("/livez").matches(&path));
        let pods = Match { resources: list("*"), ..Match::default() };
        assert!(!pods.matches(&path));
    }
}
