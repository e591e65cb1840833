//! Admission: the additions and refusals of the built-in admission plugins (S9, S10).
//!
//! NamespaceLifecycle, ServiceAccount (the name, not the mounted token), Priority and
//! DefaultTolerationSeconds.

use crate::json::{Value, json};

use super::refusal::{name_so_far, refuse_pod as refuse};
use super::{Registry, priority};
use crate::kind::Kind;
use crate::kinds::{NAMESPACE, POD, PRIORITY_CLASS, SERVICE_ACCOUNT};
use crate::status::Status;
use crate::store::Store;
use crate::value::text;

/// Refuses to create an object in a namespace that does not exist or is being deleted.
pub(super) fn namespace_exists(store: &Store, kind: &Kind, object: &Value) -> Result<(), Status> {
    if !kind.namespaced {
        return Ok(());
    }
    let namespace = text(object, &["metadata", "namespace"]);
    match store.find(&NAMESPACE, "", namespace) {
        None => Err(Status::not_found(&NAMESPACE, namespace)),
        Some(found) if found.is_terminating() => {
            Err(Status::namespace_terminating(kind, name_so_far(object), namespace))
        }
        Some(_) => Ok(()),
    }
}

pub(super) fn on_create(
    registry: &Registry,
    kind: &Kind,
    object: &mut Value,
) -> Result<(), Status> {
    if kind == &POD {
        service_account(&registry.store, object)?;
        priority::admit_pod(registry, object)?;
        default_tolerations(object);
    } else if kind == &PRIORITY_CLASS {
        priority::admit_class(registry, object)?;
    }
    Ok(())
}

fn service_account(store: &Store, object: &mut Value) -> Result<(), Status> {
    let named = text(object, &["spec", "serviceAccountName"]);
    let account = if named.is_empty() { "default" } else { named }.to_string();
    let namespace = text(object, &["metadata", "namespace"]);
    if store.find(&SERVICE_ACCOUNT, namespace, &account).is_none() {
        return Err(refuse(
            object,
            &format!(
                "error looking up service account {namespace}/{account}: serviceaccount \
                 \"{account}\" not found"
            ),
        ));
    }
    object["spec"]["serviceAccountName"] = Value::from(account.as_str());
    object["spec"]["serviceAccount"] = Value::from(account);
    Ok(())
}

/// Adds the default tolerations: a pod stays for five minutes on a node that is not ready or
/// unreachable, unless it has its own tolerations of these taints.
fn default_tolerations(object: &mut Value) {
    let Some(spec) = object["spec"].as_object_mut() else {
        return;
    };
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |toleration: &Value| {
            matches!(text(toleration, &["key"]), known if known.is_empty() || known == key)
                && matches!(text(toleration, &["effect"]), "" | "NoExecute")
        };
        if !tolerations.iter().any(covers) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}
