//! Namespaces: what each is furnished with, and how one ends (S11).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{metadata, update};
use crate::kind::{NAMESPACE, SERVICE_ACCOUNT};
use crate::object::Object;
use crate::status::Status;
use crate::store::{Store, WriteOptions};

/// Those that may not be deleted.
const KEPT: [&str; 3] = ["default", "kube-system", "kube-public"];

pub fn check_delete(name: &str) -> Result<(), Status> {
    if KEPT.contains(&name) {
        return Err(Status::forbidden(&NAMESPACE, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Each namespace has a service account named default, as pods use it. Done with the creation, so that none has to wait.
pub fn furnish(store: &mut Store, namespace: &str, options: &WriteOptions) {
    let account = json!({"metadata": {"name": "default"}});
    super::create(store, &SERVICE_ACCOUNT, namespace, account, options)
        .expect("a namespace that was just made has no service account yet");
}

/// Changes `spec.finalizers`, and nothing else; the namespace goes once there are none left.
pub fn finalize(
    store: &mut Store,
    name: &str,
    namespace: Value,
    options: &WriteOptions,
) -> Result<Arc<Object>, Status> {
    metadata::check_shape(&namespace)?;
    metadata::check_name(&namespace, name)?;
    let Some(current) = store.find_warm(&NAMESPACE, "", name) else {
        return Err(Status::not_found(&NAMESPACE, name));
    };
    metadata::check_locks(&namespace, &NAMESPACE, &current)?;
    let mut object = current.value().clone();
    match namespace["spec"]["finalizers"].as_array() {
        Some(finalizers) if !finalizers.is_empty() => {
            object["spec"]["finalizers"] = Value::Array(finalizers.clone());
        }
        Some(_) | None => object["spec"] = json!({}),
    }
    update::write(store, &NAMESPACE, &current, object, options)
}
