//! RBAC: upstream's authorizer, as a pure function of the stored roles and bindings. It does not
//! authenticate. The rules of an aggregated role are those that the cluster has written into it.

pub(crate) mod escalation;
#[cfg(test)]
mod tests;

use everynode_core::api::Timestamp;

use everynode_apiserver::authorization::service_account_name;
pub(crate) use everynode_apiserver::authorization::{
    Attributes, Decision, PolicyRule, RequestTarget, User,
};

use crate::json::Value;
use crate::kind::Kind;
use crate::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING};
use crate::object::Object;
use crate::registry::Registry;
use crate::status::Status;
use crate::store::{Store, WriteOptions};
use crate::value::{array, string};

/// Decides about a request. The first binding that allows it counts; there are no denying rules.
pub(crate) fn authorize(store: &Store, user: &User, request: &Attributes<'_>) -> Decision {
    if user.is_master() {
        return Decision::Allowed { reason: String::new() };
    }
    let mut missing = Vec::new();
    for binding in bindings(store, user, request.target.namespace()) {
        match rules_of(store, &binding) {
            Ok(rules) if rules.iter().any(|rule| rule.allows(request)) => {
                return Decision::Allowed { reason: format!("RBAC: allowed by {binding}") };
            }
            Ok(_) => {}
            Err(role) => missing.push(role),
        }
    }
    Decision::Refused {
        reason: match missing.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            several => format!("RBAC: [{}]", several.join(", ")),
        },
    }
}

/// All rules that apply to the user in a namespace, in the order in which they are evaluated.
pub(crate) fn rules(store: &Store, user: &User, namespace: &str) -> Vec<PolicyRule> {
    if user.is_master() {
        return vec![PolicyRule::any_resource(), PolicyRule::any_path()];
    }
    bindings(store, user, namespace)
        .filter_map(|binding| rules_of(store, &binding).ok())
        .flatten()
        .collect()
}

/// Creates the roles and bindings that every cluster has.
pub(crate) fn seed(registry: &mut Registry, now: Timestamp) -> Result<(), Status> {
    let documents: Vec<Value> = crate::yaml::documents(include_str!("authorization/roles.yaml"))
        .expect("the roles of every cluster are YAML");
    for document in documents {
        let kind = match document["kind"].as_str() {
            Some("ClusterRole") => &CLUSTER_ROLE,
            _ => &CLUSTER_ROLE_BINDING,
        };
        registry.create(kind, "", document, &WriteOptions::at(now))?;
    }
    Ok(())
}

/// A binding of the user, with the first matching subject.
struct Binding<'a> {
    object: &'a Object,
    subject: &'a Value,
}

/// The bindings of a user: those of the cluster first, then those of the namespace.
fn bindings<'a>(
    store: &'a Store,
    user: &'a User,
    namespace: &'a str,
) -> impl Iterator<Item = Binding<'a>> {
    let of_namespace = (!namespace.is_empty()).then_some(namespace);
    let local = of_namespace.map(|namespace| store.iter(&ROLE_BINDING, Some(namespace)));
    let all = store.iter(&CLUSTER_ROLE_BINDING, None).chain(local.into_iter().flatten());
    all.filter_map(|object| {
        let mut subjects = array(object.value(), "/subjects").iter();
        let subject = subjects.find(|subject| is_subject(subject, user, object.namespace()))?;
        Some(Binding { object, subject })
    })
}

fn is_subject(subject: &Value, user: &User, namespace_of_binding: &str) -> bool {
    let name = string(subject, "/name");
    match string(subject, "/kind") {
        "User" => user.name == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let namespace = match string(subject, "/namespace") {
                "" => namespace_of_binding,
                named => named,
            };
            !namespace.is_empty() && user.name == service_account_name(namespace, name)
        }
        _ => false,
    }
}

/// The rules of the role that a binding refers to, or the error that there is no such role.
fn rules_of(store: &Store, binding: &Binding<'_>) -> Result<Vec<PolicyRule>, String> {
    let reference = &binding.object.value()["roleRef"];
    let name = string(reference, "/name");
    let (role, resource) = match string(reference, "/kind") {
        "Role" => (&ROLE, "role"),
        _ => (&CLUSTER_ROLE, "clusterrole"),
    };
    role_rules(store, role, binding.object.namespace(), name)
        .ok_or_else(|| format!("{resource}.{} {name:?} not found", role.group))
}

/// The rules of a Role in a namespace or of a ClusterRole; `None` if there is no such role.
fn role_rules(
    store: &Store,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
) -> Option<Vec<PolicyRule>> {
    let namespace = if kind.namespaced { namespace } else { "" };
    let role = store.find(kind, namespace, name)?;
    Some(array(role.value(), "/rules").iter().map(PolicyRule::of_json).collect())
}

impl std::fmt::Display for Binding<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Binding { object, subject } = self;
        let (kind, name) = match object.namespace() {
            "" => ("ClusterRoleBinding", object.name().to_owned()),
            namespace => ("RoleBinding", format!("{}/{namespace}", object.name())),
        };
        let role = &object.value()["roleRef"];
        let (role_kind, role_name) = (string(role, "/kind"), string(role, "/name"));
        write!(formatter, "{kind} {name:?} of {role_kind} {role_name:?} to ")?;
        let (kind, name) = (string(subject, "/kind"), string(subject, "/name"));
        match (kind, string(subject, "/namespace")) {
            ("ServiceAccount", "") => {
                write!(formatter, "{kind} {:?}", format!("{name}/{}", object.namespace()))
            }
            ("ServiceAccount", namespace) => {
                write!(formatter, "{kind} {:?}", format!("{name}/{namespace}"))
            }
            _ => write!(formatter, "{kind} {name:?}"),
        }
    }
}
