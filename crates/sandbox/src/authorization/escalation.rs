//! Nobody grants more than they have, unless a role lets them `escalate` roles or `bind` a role.
//! These are the checks of upstream's `policybased` storage of roles and bindings.

use std::collections::{BTreeMap, BTreeSet};

use everynode_apiserver::authorization::{Coverage, missing};

use super::{Attributes, Decision, PolicyRule, RequestTarget, User, authorize, role_rules};
use crate::json::Value;
use crate::kind::Kind;
use crate::kind::rules::go_quote;
use crate::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING};
use crate::object::Object;
use crate::status::Status;
use crate::store::Store;
use crate::value::{array, string};

const GROUP: &str = "rbac.authorization.k8s.io";
/// Maximum number of missing rights that a refusal lists.
const LISTED_MAX: usize = 100;

struct Request<'a> {
    store: &'a Store,
    user: &'a User,
    kind: &'a Kind,
    namespace: &'a str,
    name: &'a str,
}

/// Refuses a role or binding that grants rights which the user lacks. `current` is the object that
/// it replaces.
///
/// # Errors
/// 403, or 404 if the role of a binding is missing.
pub(crate) fn check(
    store: &Store,
    user: &User,
    kind: &Kind,
    namespace: &str,
    object: &Value,
    current: Option<&Object>,
) -> Result<(), Status> {
    // As upstream: the request of a creation has no name, so that `escalate` with resourceNames
    // does not allow it.
    let name = current.map_or("", Object::name);
    let request = Request { store, user, kind, namespace, name };
    let is = |other: &Kind| (kind.group, kind.kind) == (other.group, other.kind);
    let is_role = is(&ROLE) || is(&CLUSTER_ROLE);
    let grants = is_role || is(&ROLE_BINDING) || is(&CLUSTER_ROLE_BINDING);
    let changes_grant = || current.is_none_or(|current| !changes_only_references(current, object));
    if !grants || user.is_master() || !changes_grant() {
        return Ok(());
    }
    if is_role {
        return request.check_role(object, current.map_or(&Value::Null, Object::value));
    }
    request.check_binding(object)
}

/// True if only owner references and finalizers change, as the garbage collector changes them.
fn changes_only_references(current: &Object, object: &Value) -> bool {
    let without = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("ownerReferences");
            metadata.remove("finalizers");
        }
        value
    };
    without(current.value()) == without(object)
}

fn has_aggregation(role: &Value) -> bool {
    !array(role, "/aggregationRule/clusterRoleSelectors").is_empty()
}

impl Request<'_> {
    /// A Role or ClusterRole grants its rules.
    fn check_role(&self, object: &Value, old: &Value) -> Result<(), Status> {
        if self.may("escalate", self.kind.plural, self.name) {
            return Ok(());
        }
        let rules = array(object, "/rules").iter().map(PolicyRule::of_json).collect();
        self.confirm(object, rules)?;
        if has_aggregation(object) || has_aggregation(old) {
            let all = vec![PolicyRule::any_resource(), PolicyRule::any_path()];
            let cause = "must have cluster-admin privileges to use the aggregationRule";
            self.confirm(object, all).map_err(|_| self.forbidden(object, cause))?;
        }
        Ok(())
    }

    /// A RoleBinding or ClusterRoleBinding grants the rules of its role.
    fn check_binding(&self, object: &Value) -> Result<(), Status> {
        let reference = &object["roleRef"];
        let role = match string(reference, "/kind") {
            "Role" => &ROLE,
            "ClusterRole" => &CLUSTER_ROLE,
            // Validation refuses it.
            _ => return Ok(()),
        };
        let name = string(reference, "/name");
        if self.may("bind", role.plural, name) {
            return Ok(());
        }
        let rules = role_rules(self.store, role, self.namespace, name);
        self.confirm(object, rules.ok_or_else(|| Status::not_found(role, name))?)
    }

    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let namespace = self.namespace;
        let target =
            RequestTarget::Resource { group: GROUP, resource, subresource: "", namespace, name };
        let decision = authorize(self.store, self.user, &Attributes { verb, target });
        matches!(decision, Decision::Allowed { .. })
    }

    /// Refuses to grant rules that the user's own rules don't cover.
    fn confirm(&self, object: &Value, granted: Vec<PolicyRule>) -> Result<(), Status> {
        let mut held = Vec::new();
        let mut errors = Vec::new();
        for binding in super::bindings(self.store, self.user, self.namespace) {
            match super::rules_of(self.store, &binding) {
                Ok(rules) => held.extend(rules),
                Err(error) => errors.push(error),
            }
        }
        let missing = match missing(&held, &granted) {
            Coverage::Complete => return Ok(()),
            Coverage::Missing(missing) => missing,
            Coverage::TooMany => {
                let cause = "the rules have too many combinations of API group, resource, verb and \
                             resource name to compare them with those of the user";
                return Err(self.forbidden(object, cause));
            }
        };
        let groups: Vec<String> = self.user.groups.iter().map(|group| go_quote(group)).collect();
        let mut cause = format!(
            "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            go_quote(&self.user.name),
            groups.join(" "),
            list(missing)
        );
        match errors.as_slice() {
            [] => {}
            [error] => cause.push_str(&format!("; resolution errors: [{error}]")),
            errors => cause.push_str(&format!("; resolution errors: [[{}]]", errors.join(", "))),
        }
        Err(self.forbidden(object, &cause))
    }

    fn forbidden(&self, object: &Value, cause: &str) -> Status {
        Status::forbidden(self.kind, string(object, "/metadata/name"), cause)
    }
}

/// One line for each missing right; verbs on the same resource share one.
fn list(missing: Vec<PolicyRule>) -> String {
    let mut lines = BTreeSet::new();
    let mut verbs: BTreeMap<PolicyRule, Vec<String>> = BTreeMap::new();
    for rule in missing {
        if rule.paths.is_empty() {
            let (rule, of_rule) = rule.split_verbs();
            verbs.entry(rule).or_default().extend(of_rule);
        } else {
            lines.insert(rule.to_string());
        }
    }
    let of_resources = verbs.into_iter().map(|(rule, verbs)| PolicyRule { verbs, ..rule });
    lines.extend(of_resources.map(|rule| rule.to_string()));
    let more = lines.len().saturating_sub(LISTED_MAX);
    let mut listed: Vec<String> = lines.into_iter().take(LISTED_MAX).collect();
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed.join("\n")
}
