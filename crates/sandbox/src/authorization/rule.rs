//! One rule of a role, and whether it allows a request.

use serde_json::{Value, json};

use crate::value::array;

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// `get`, `list`, `impersonate` …; of a path the HTTP method in small letters.
    pub verb: &'a str,
    pub target: Target<'a>,
}

/// What it is to be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Parts that are absent are empty.
    Resource {
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    /// Anything that is no resource: `/version`.
    Path(&'a str),
}

/// `rbac.authorization.k8s.io/v1` PolicyRule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub paths: Vec<String>,
}

impl<'a> Target<'a> {
    /// Empty for what is in none.
    pub fn namespace(&self) -> &'a str {
        match self {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        }
    }
}

impl Rule {
    /// What cannot be read is left out, and so allows nothing.
    pub fn of_json(rule: &Value) -> Rule {
        let list = |path: &str| -> Vec<String> {
            array(rule, path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Rule {
            verbs: list("/verbs"),
            groups: list("/apiGroups"),
            resources: list("/resources"),
            names: list("/resourceNames"),
            paths: list("/nonResourceURLs"),
        }
    }

    pub fn any_resource() -> Rule {
        let any = || vec!["*".to_owned()];
        Rule { verbs: any(), groups: any(), resources: any(), ..Rule::default() }
    }

    pub fn any_path() -> Rule {
        let any = || vec!["*".to_owned()];
        Rule { verbs: any(), paths: any(), ..Rule::default() }
    }

    pub fn allows(&self, request: &Request<'_>) -> bool {
        if !has(&self.verbs, request.verb) {
            return false;
        }
        match request.target {
            Target::Resource { group, resource, subresource, name, namespace: _ } => {
                has(&self.groups, group)
                    && self.has_resource(resource, subresource)
                    && (self.names.is_empty() || self.names.iter().any(|known| known == name))
            }
            Target::Path(path) => self.paths.iter().any(|known| is_path(known, path)),
        }
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|known| {
            if known == "*" {
                return true;
            }
            match known.split_once('/') {
                None => subresource.is_empty() && known == resource,
                Some((of, part)) => {
                    !subresource.is_empty() && part == subresource && (of == resource || of == "*")
                }
            }
        })
    }

    /// As a SelfSubjectRulesReview lists it.
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

fn has(known: &[String], wanted: &str) -> bool {
    known.iter().any(|known| known == "*" || known == wanted)
}

/// A star stands for any rest.
fn is_path(known: &str, path: &str) -> bool {
    match known.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => known == path,
    }
}
