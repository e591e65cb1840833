//! Creating objects (S8, S9), and the service account that comes with each namespace (S11).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Registry, admission, check, metadata, strategy};
use crate::kind::{Kind, SERVICE_ACCOUNT, Strategy};
use crate::object::Object;
use crate::status::{Reason, Status};
use crate::store::{Action, Store, WriteOptions, served_form, stored_form};
use crate::value::text;
use crate::{defaults, validation};

impl Registry {
    /// Creates an object and returns it as it is served.
    ///
    /// # Errors
    /// 400 for an object that can't be decoded, 403 if admission refuses it, 404 without its
    /// namespace, 409 if the name is taken, 422 if it is invalid.
    pub fn create(
        &mut self,
        kind: &'static Kind,
        namespace: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        metadata::check_shape(&object)?;
        check::decode(kind, &object)?;
        metadata::check_namespace(&object, kind, namespace)?;
        if !text(&object, &["metadata", "resourceVersion"]).is_empty() {
            return Err(Status::new(
                Reason::Unknown,
                "resourceVersion should not be set on objects to be created",
            ));
        }
        metadata::prepare_create(&mut object, kind, namespace, options.now);
        defaults::apply(kind, &mut object);
        admission::namespace_exists(&self.store, kind, &object)?;
        admission::on_create(&self.store, kind, &mut object)?;
        let name = chosen_name(&mut self.store, kind, namespace, &object);
        object["metadata"]["name"] = Value::from(name.as_str());
        strategy::prepare_create(kind, &mut object);
        check::refuse_invalid(kind, &name, validation::on_create(kind, &object))?;
        if self.store.find(kind, namespace, &name).is_some() {
            return Err(Status::already_exists(kind, &name));
        }
        object["metadata"]["uid"] = Value::String(self.store.uid());
        if options.dry_run {
            return Ok(Arc::new(Object::new(object)));
        }
        admission::may_be_stored(kind, &name)?;
        let stored = self.store.commit(kind, Action::Added, stored_form(kind, object));
        if kind.strategy == Strategy::Namespace {
            self.create_default_service_account(&name, options);
        }
        Ok(served_form(kind, &stored))
    }

    /// Creates the service account named `default`, which pods use unless they name another. It
    /// is part of the namespace's creation, so that no pod has to wait for it.
    fn create_default_service_account(&mut self, namespace: &str, options: &WriteOptions) {
        let account = json!({"metadata": {"name": "default"}});
        self.create(&SERVICE_ACCOUNT, namespace, account, options)
            .expect("a new namespace has no service account yet");
    }
}

/// The name in the object, or a free one generated from `generateName`.
fn chosen_name(store: &mut Store, kind: &'static Kind, namespace: &str, object: &Value) -> String {
    const ATTEMPTS: usize = 8;
    const BASE_LENGTH_MAX: usize = 58;
    let name = text(object, &["metadata", "name"]);
    let base = text(object, &["metadata", "generateName"]);
    if !name.is_empty() || base.is_empty() {
        return name.to_string();
    }
    let end = (0..=BASE_LENGTH_MAX.min(base.len()))
        .rev()
        .find(|end| base.is_char_boundary(*end))
        .unwrap_or(0);
    let mut name = String::new();
    for _ in 0..ATTEMPTS {
        name = format!("{}{}", &base[..end], store.name_suffix());
        if store.find(kind, namespace, &name).is_none() {
            break;
        }
    }
    name
}
