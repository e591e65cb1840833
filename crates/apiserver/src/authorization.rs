//! Users, what they ask for, and the rules of RBAC by which a server decides about it. The decision
//! itself is the server's.

use crate::json::{Value, json};
use crate::kind::rules::go_quote;
use crate::value::array;

/// The group whose members may do anything.
pub const MASTERS: &str = "system:masters";
/// The group of all users but anonymous ones.
pub const AUTHENTICATED: &str = "system:authenticated";

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The UID; empty if there is none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
}

impl User {
    /// The user of a service account, with upstream's name and groups.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            name: service_account_name(namespace, name),
            uid: uid.to_owned(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                AUTHENTICATED.to_owned(),
            ],
        }
    }

    /// True if the user may do anything.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// `system:serviceaccount:NAMESPACE:NAME`.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The decision about a request, and the reason: the binding that allows it, or the missing role of
/// a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allowed {
        /// The binding that allows it.
        reason: String,
    },
    /// No rule allows the request.
    Refused {
        /// The missing roles; empty if there are none.
        reason: String,
    },
}

/// The attributes of a request that rules match, as upstream's `authorizer.Attributes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `impersonate` …; for a path the HTTP method in lower case.
    pub verb: &'a str,
    /// The resource or path of the request.
    pub target: RequestTarget<'a>,
}

/// The resource or path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestTarget<'a> {
    /// Absent parts are empty.
    Resource {
        /// The API group.
        group: &'a str,
        /// The plural name.
        resource: &'a str,
        /// The subresource.
        subresource: &'a str,
        /// The namespace.
        namespace: &'a str,
        /// The name of the object.
        name: &'a str,
    },
    /// A path that is not a resource: `/version`.
    Path(&'a str),
}

/// `rbac.authorization.k8s.io/v1` PolicyRule.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyRule {
    /// `verbs`.
    pub verbs: Vec<String>,
    /// `apiGroups`.
    pub groups: Vec<String>,
    /// `resources`.
    pub resources: Vec<String>,
    /// `resourceNames`.
    pub names: Vec<String>,
    /// `nonResourceURLs`.
    pub paths: Vec<String>,
}

impl<'a> RequestTarget<'a> {
    /// Empty for a cluster-scoped resource and for a path.
    pub fn namespace(&self) -> &'a str {
        match self {
            RequestTarget::Resource { namespace, .. } => namespace,
            RequestTarget::Path(_) => "",
        }
    }
}

impl PolicyRule {
    /// Reads a rule. Malformed entries are left out, and so allow nothing.
    pub fn of_json(rule: &Value) -> Self {
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

    /// Everything with resources.
    pub fn any_resource() -> Self {
        let any = || vec!["*".to_owned()];
        Self { verbs: any(), groups: any(), resources: any(), ..Self::default() }
    }

    /// Everything with paths that are no resources.
    pub fn any_path() -> Self {
        let any = || vec!["*".to_owned()];
        Self { verbs: any(), paths: any(), ..Self::default() }
    }

    /// True if the rule allows a request.
    pub fn allows(&self, request: &Attributes<'_>) -> bool {
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
    pub fn to_json(&self) -> Value {
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

/// The part of granted rules that the rules of the user who grants them lack.
pub enum Coverage {
    /// Nothing.
    Complete,
    /// Rules with one verb each that are not covered.
    Missing(Vec<PolicyRule>),
    /// There are more combinations of the entries of the granted rules than are compared.
    TooMany,
}

/// Maximum number of comparisons of a single right with a rule: a rule with a thousand groups,
/// resources and verbs grants a billion rights.
const COMPARISONS_MAX: usize = 1_000_000;

/// The rights in `granted` that are not in `held`, as upstream's `Covers`.
pub fn missing(held: &[PolicyRule], granted: &[PolicyRule]) -> Coverage {
    let rights: usize =
        granted.iter().map(PolicyRule::rights).fold(0, |sum, rights| sum.saturating_add(rights));
    if rights.saturating_mul(held.len().max(1)) > COMPARISONS_MAX {
        return Coverage::TooMany;
    }
    let is_missing = |right: &PolicyRule| !held.iter().any(|rule| rule.covers(right));
    let missing: Vec<PolicyRule> =
        granted.iter().flat_map(PolicyRule::break_down).filter(is_missing).collect();
    if missing.is_empty() { Coverage::Complete } else { Coverage::Missing(missing) }
}

impl PolicyRule {
    /// The number of rules that [`break_down`](Self::break_down) returns.
    fn rights(&self) -> usize {
        let of_paths = self.paths.len().saturating_mul(self.verbs.len());
        [&self.groups, &self.resources, &self.verbs]
            .into_iter()
            .fold(self.names.len().max(1), |product, list| product.saturating_mul(list.len()))
            .saturating_add(of_paths)
    }

    /// Equivalent rules with one verb and one group, resource and name, or one path.
    fn break_down(&self) -> Vec<Self> {
        let one = |entry: &String| vec![entry.clone()];
        let names: Vec<Vec<String>> = match self.names.as_slice() {
            [] => vec![Vec::new()],
            names => names.iter().map(one).collect(),
        };
        let mut rules = Vec::new();
        for verb in &self.verbs {
            for group in &self.groups {
                for resource in &self.resources {
                    rules.extend(names.iter().map(|names| Self {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        names: names.clone(),
                        paths: Vec::new(),
                    }));
                }
            }
            rules.extend(self.paths.iter().map(|path| Self {
                verbs: one(verb),
                paths: one(path),
                ..Self::default()
            }));
        }
        rules
    }

    /// True if the rule contains a right, which has at most one entry in each list.
    fn covers(&self, right: &Self) -> bool {
        let all =
            |allowed: &[String], wanted: &[String]| wanted.iter().all(|one| has(allowed, one));
        let resource = |wanted: &String| {
            let part = wanted.split_once('/').map(|(_, part)| format!("*/{part}"));
            has(&self.resources, wanted) || part.is_some_and(|part| self.resources.contains(&part))
        };
        let path = |wanted: &String| {
            self.paths.iter().any(|allowed| allowed == wanted || path_matches(allowed, wanted))
        };
        let names = self.names.is_empty()
            || (!right.names.is_empty()
                && right.names.iter().all(|name| self.names.contains(name)));
        all(&self.verbs, &right.verbs)
            && all(&self.groups, &right.groups)
            && right.resources.iter().all(resource)
            && right.paths.iter().all(path)
            && names
    }

    /// The rule without its verbs, and the verbs.
    pub fn split_verbs(mut self) -> (Self, Vec<String>) {
        let verbs = std::mem::take(&mut self.verbs);
        (self, verbs)
    }
}

/// As upstream's `CompactString`: `{APIGroups:["apps"], Resources:["daemonsets"], Verbs:["get"]}`.
impl std::fmt::Display for PolicyRule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lists = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let parts = lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| {
            let quoted: Vec<String> = list.iter().map(|entry| go_quote(entry)).collect();
            format!("{name}:[{}]", quoted.join(" "))
        });
        write!(formatter, "{{{}}}", parts.collect::<Vec<_>>().join(", "))
    }
}

fn has(allowed: &[String], wanted: &str) -> bool {
    allowed.iter().any(|entry| entry == "*" || entry == wanted)
}

/// True if a path matches; a trailing `*` matches any suffix.
fn path_matches(allowed: &str, path: &str) -> bool {
    match allowed.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => allowed == path,
    }
}
