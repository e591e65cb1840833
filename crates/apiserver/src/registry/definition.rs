//! CustomResourceDefinitions: their names and conditions, and the kinds that they define (S15).
//!
//! On a real cluster controllers do this soon after a write. Here it is part of the write, so that
//! a kind is served once its definition was answered.

use std::sync::Arc;

use everynode_core::api::Timestamp;

use super::Registry;
use crate::condition;
use crate::json::{Value, json};
use crate::kinds::{DEFINITION, is_protected};
use crate::object::Object;
use crate::store::Action;
use crate::value::string;

/// The finalizer of a definition whose objects are being deleted.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Marks a definition as being deleted, with the finalizer that its objects keep.
pub(super) fn mark(object: &mut Value, now: Timestamp) {
    let finalizers = &mut object["metadata"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(finalizers) if finalizers.iter().any(|known| *known == CLEANUP) => {}
        Some(finalizers) => finalizers.push(CLEANUP.into()),
        None => *finalizers = json!([CLEANUP]),
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will \
                   begin soon";
    let why = ("InstanceDeletionPending", message);
    set(&mut object["status"], "Terminating", true, why, now);
}

impl Registry {
    /// Accepts the names of a definition after a write, and serves its kinds. A deletion frees
    /// names, which others of its group may get.
    pub(super) fn sync_definitions(&mut self, written: &Arc<Object>, now: Timestamp) {
        let (group, plural) = {
            let spec = &written.value()["spec"];
            (string(spec, "/group").to_owned(), string(spec, "/names/plural").to_owned())
        };
        let others = self.others_of_group(written.name(), &group);
        match self.store.find_with_tree(&DEFINITION, "", written.name()) {
            Some(definition) => self.sync_definition(&definition, &others, now),
            None => self.serve(&group, &plural, None),
        }
        for waiting in others.iter().filter(|other| has_other_names(&other.read())) {
            let Some(definition) = self.store.find_with_tree(&DEFINITION, "", waiting.name())
            else {
                continue;
            };
            let others = self.others_of_group(waiting.name(), &group);
            self.sync_definition(&definition, &others, now);
        }
    }

    /// The other definitions of a group.
    fn others_of_group(&self, name: &str, group: &str) -> Vec<Arc<Object>> {
        self.store
            .iter(&DEFINITION, None)
            .filter(|other| other.name() != name)
            .filter(|other| string(&other.read(), "/spec/group") == group)
            .cloned()
            .collect()
    }

    fn sync_definition(&mut self, stored: &Arc<Object>, others: &[Arc<Object>], now: Timestamp) {
        let mut definition = stored.value().clone();
        approve(&mut definition, now);
        if has_other_names(&definition) {
            accept_names(&mut definition, others, now);
        }
        let spec = &definition["spec"];
        let (group, plural) = (string(spec, "/group"), string(spec, "/names/plural"));
        let (group, plural) = (group.to_owned(), plural.to_owned());
        let is_served = condition::is_true(&definition["status"], "Established");
        self.serve(&group, &plural, is_served.then_some(&definition));
        if &definition != stored.value() {
            let managed_fields = stored.managed_fields().clone();
            let modified = Action::Modified;
            self.store.commit(&DEFINITION, modified, Some(stored), definition, managed_fields);
        }
    }

    fn serve(&mut self, group: &str, plural: &str, definition: Option<&Value>) {
        if let Err(error) = self.store.define(group, plural, definition) {
            tracing::warn!(group, plural, %error, "a custom kind is not served");
        }
    }
}

/// Says whether a kind in a group of Kubernetes' own was approved.
fn approve(definition: &mut Value, now: Timestamp) {
    if !is_protected(string(definition, "/spec/group")) {
        return;
    }
    let approval = &definition["metadata"]["annotations"]["api-approved.kubernetes.io"];
    let approval = approval.as_str().unwrap_or_default().to_owned();
    let (is_approved, reason, message) = if approval.starts_with("http") {
        (true, "ApprovedAnnotation", format!("approved in {approval}"))
    } else {
        (false, "UnapprovedAnnotation", format!("not approved: {approval:?}"))
    };
    let name = "KubernetesAPIApprovalPolicyConformant";
    set(&mut definition["status"], name, is_approved, (reason, &message), now);
}

/// True if a definition has names that were not accepted yet.
fn has_other_names(definition: &Value) -> bool {
    definition["spec"]["names"] != definition["status"]["acceptedNames"]
}

/// Accepts the names of a definition that no other one of its group has.
fn accept_names(definition: &mut Value, others: &[Arc<Object>], now: Timestamp) {
    let names = |value: &Value| -> Vec<String> {
        let of_list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        of_list.chain(value.as_str()).map(str::to_owned).collect()
    };
    let (mut resources, mut kinds) = (Vec::new(), Vec::new());
    for other in others {
        let accepted = &other.read()["status"]["acceptedNames"];
        for field in ["plural", "singular", "shortNames"] {
            resources.extend(names(&accepted[field]));
        }
        for field in ["kind", "listKind"] {
            kinds.extend(names(&accepted[field]));
        }
    }
    let requested = definition["spec"]["names"].clone();
    let mut accepted = definition["status"]["acceptedNames"].clone();
    let in_use = |name: &str| format!("{name:?} is already in use");
    let mut refused = None;
    for (field, used, reason) in [
        ("plural", &resources, "PluralConflict"),
        ("singular", &resources, "SingularConflict"),
        ("shortNames", &resources, "ShortNamesConflict"),
        ("kind", &kinds, "KindConflict"),
        ("listKind", &kinds, "ListKindConflict"),
    ] {
        let known = names(&accepted[field]);
        let taken: Vec<String> = names(&requested[field])
            .iter()
            .filter(|name| !known.contains(name) && used.contains(name))
            .map(|name| in_use(name))
            .collect();
        if !taken.is_empty() {
            refused = Some((reason, list_of_errors(&taken)));
        } else if requested[field].is_null() {
            accepted.as_object_mut().map(|accepted| accepted.remove(field));
        } else {
            accepted[field] = requested[field].clone();
        }
    }
    match requested.get("categories") {
        Some(categories) => accepted["categories"] = categories.clone(),
        None => drop(accepted.as_object_mut().map(|accepted| accepted.remove("categories"))),
    }
    let status = &mut definition["status"];
    status["acceptedNames"] = accepted;
    let (is_accepted, why) = match &refused {
        None => (true, ("NoConflicts", "no conflicts found")),
        Some((reason, message)) => (false, (*reason, message.as_str())),
    };
    set(status, "NamesAccepted", is_accepted, why, now);
    if condition::is_true(status, "Established") {
        return;
    }
    let why = match is_accepted {
        true => ("InitialNamesAccepted", "the initial names have been accepted"),
        false => ("NotAccepted", "not all names are accepted"),
    };
    set(status, "Established", is_accepted, why, now);
}

/// Several errors as Go prints an aggregate of them.
fn list_of_errors(errors: &[String]) -> String {
    match errors {
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Sets a condition. Its time changes with its status.
fn set(
    status: &mut Value,
    name: &str,
    is_true: bool,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let condition = json!({
        "type": name, "status": if is_true { "True" } else { "False" }, "reason": reason,
        "message": message,
    });
    condition::transition(status, condition, now);
}
