//! Admission: the additions and refusals of the built-in admission plugins (S9, S10), and what is
//! allocated.
//!
//! NamespaceLifecycle, ServiceAccount (the name, not the mounted token), Priority,
//! DefaultTolerationSeconds and PodResizeValidator.

use everynode_apiserver::registry::{Endpoint, Plugins};

use crate::json::{Value, json};

use super::disruption::Budgets;
use super::{name_so_far, priority, refuse_pod, resize, service};
use crate::kind::Kind;
use crate::kinds::{
    NAMESPACE, POD, POD_DISRUPTION_BUDGET, PRIORITY_CLASS, SERVICE, SERVICE_ACCOUNT,
};
use crate::status::Status;
use crate::store::Store;
use crate::value::text;

/// Values that admission takes from other objects, so that a write need not read them.
#[derive(Debug)]
pub(super) struct Admission {
    /// The number of addresses that Services were given.
    addresses: u32,
    default_classes: priority::Defaults,
    pub(super) budgets: Budgets,
}

impl Admission {
    pub(super) fn new() -> Self {
        Self {
            addresses: 0,
            default_classes: priority::Defaults::new(),
            budgets: Budgets::default(),
        }
    }
}

impl Plugins for Admission {
    /// Refuses to create an object in a namespace that does not exist or is being deleted.
    fn check_namespace(&self, store: &Store, kind: &Kind, object: &Value) -> Result<(), Status> {
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

    fn admit(&self, store: &Store, kind: &Kind, object: &mut Value) -> Result<(), Status> {
        if kind == &POD {
            service_account(store, object)?;
            priority::admit_pod(&self.default_classes, store, object)?;
            default_tolerations(object);
        } else if kind == &PRIORITY_CLASS {
            priority::admit_class(&self.default_classes, object)?;
        }
        Ok(())
    }

    fn allocate(
        &mut self,
        store: &Store,
        kind: &Kind,
        endpoint: Endpoint,
        object: &mut Value,
        current: Option<&Value>,
    ) -> Result<(), Status> {
        match (endpoint, current) {
            (Endpoint::Main, _) if kind == &SERVICE => {
                service::complete(&mut self.addresses, object, current);
                Ok(())
            }
            (Endpoint::Resize, Some(current)) => resize::admit(store, object, current),
            (_, Some(_)) if kind == &PRIORITY_CLASS => {
                priority::admit_class(&self.default_classes, object)
            }
            (Endpoint::Main | Endpoint::Status | Endpoint::Scale | Endpoint::Resize, _) => Ok(()),
        }
    }

    fn committed(&mut self, store: &Store, kind: &Kind) {
        if kind == &PRIORITY_CLASS {
            self.default_classes.follow(store);
        } else if kind == &POD_DISRUPTION_BUDGET {
            self.budgets.follow_budgets(store);
        }
    }
}

fn service_account(store: &Store, object: &mut Value) -> Result<(), Status> {
    let named = text(object, &["spec", "serviceAccountName"]);
    let account = if named.is_empty() { "default" } else { named }.to_string();
    let namespace = text(object, &["metadata", "namespace"]);
    if store.find(&SERVICE_ACCOUNT, namespace, &account).is_none() {
        return Err(refuse_pod(
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
