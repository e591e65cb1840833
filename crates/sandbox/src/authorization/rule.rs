//! A policy rule of a role.

use serde_json::{Value, json};

use crate::value::array;

/// The attributes of a request that rules match, as upstream's `authorizer.Attributes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    /// `get`, `list`, `impersonate` …; for a path the HTTP method in lower case.
    pub verb: &'a str,
    pub target: RequestTarget<'a>,
}

/// The resource or path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestTarget<'a> {
    /// Absent parts are empty.
    Resource {
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    /// A path that is not a resource: `/version`.
    Path(&'a str),
}

/// `rbac.authorization.k8s.io/v1` PolicyRule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyRule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub paths: Vec<String>,
}

impl<'a> RequestTarget<'a> {
    /// Empty for a cluster-scoped resource and for a path.
    pub(crate) fn namespace(&self) -> &'a str {
        match self {
            RequestTarget::Resource { namespace, .. } => namespace,
            RequestTarget::Path(_) => "",
        }
    }
}

impl PolicyRule {
    /// Reads a rule. Malformed entries are left out, and so allow nothing.
    pub(crate) fn of_json(rule: &Value) -> Self {
        let list = |path: &str| -> Vec<String> {
            array(rule, path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: list("/verbs"),
            groups: list("/apiGroups"),
            resources: list("/resources"),
            names: list("/resourceNames"),
            paths: list("/nonResourceURLs"),
        }
    }

    pub(crate) fn any_resource() -> Self {
        let any = || vec!["*".to_owned()];
        Self { verbs: any(), groups: any(), resources: any(), ..Self::default() }
    }

    pub(crate) fn any_path() -> Self {
        let any = || vec!["*".to_owned()];
        Self { verbs: any(), paths: any(), ..Self::default() }
    }

    pub(crate) fn allows(&self, request: &Attributes<'_>) -> bool {
        if !has(&self.verbs, request.verb) {
            return false;
        }
        match request.target {
            RequestTarget::Resource { group, resource, subresource, name, namespace: _ } => {
                has(&self.groups, group)
                    && self.has_resource(resource, subresource)
                    && (self.names.is_empty() || self.names.iter().any(|allowed| allowed == name))
            }
            RequestTarget::Path(path) => {
                self.paths.iter().any(|allowed| path_matches(allowed, path))
            }
        }
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|allowed| {
            if allowed == "*" {
                return true;
            }
            match allowed.split_once('/') {
                None => subresource.is_empty() && allowed == resource,
                Some((of, part)) => {
                    !subresource.is_empty() && part == subresource && (of == resource || of == "*")
                }
            }
        })
    }

    /// The rule as a SelfSubjectRulesReview lists it.
    pub(crate) fn to_json(&self) -> Value {
        let mut rule = json!({"verbs": self.verbs});
        for (field, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !list.is_empty() {
                rule[field] = json!(list);
            }
        }
        rule
    }
}

fn has(allowed: &[String], wanted: &str) -> bool {
    allowed.iter().any(|entry| entry == "*" || entry == wanted)
}

/// Whether a path matches; a trailing `*` matches any suffix.
fn path_matches(allowed: &str, path: &str) -> bool {
    match allowed.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => allowed == path,
    }
}
