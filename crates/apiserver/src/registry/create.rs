//! Creating objects (S8, S9).

use std::sync::Arc;

use everynode_core::api::Timestamp;

use super::ownership::{self, Apply, Writer};
use super::strategy::Endpoint;
use super::{Registry, check, metadata, strategy};
use crate::json::Value;
use crate::kind::Kind;
use crate::kind::strategy::Companion;
use crate::kinds::DEFINITION;
use crate::managed_fields::ManagedFields;
use crate::object::Object;
use crate::status::{Reason, Status};
use crate::store::{Action, Store, WriteOptions, served_form, stored_form};
use crate::value::text;
use crate::{defaults, schema, validation};

/// A new object on its way to the store. Only [`admit`](Self::admit) and
/// [`commit`](Registry::commit_draft) need the store, so that the rest can be done while others use
/// it.
pub struct Draft {
    kind: &'static Kind,
    namespace: String,
    object: Value,
    /// `metadata.managedFields` of the request.
    sent_managed_fields: Value,
    managed_fields: ManagedFields,
    /// The result of the strategy's `before_defaults`.
    before_defaults: bool,
}

impl Draft {
    /// Decodes the object, sets the server's metadata and applies the defaults.
    pub fn new(
        kind: &'static Kind,
        namespace: &str,
        object: Value,
        now: Timestamp,
    ) -> Result<Self, Status> {
        check::decode_whole(kind, &object)?;
        Self::of_decoded(kind, namespace, object, now)
    }

    /// The same for an object that was decoded before.
    pub fn of_decoded(
        kind: &'static Kind,
        namespace: &str,
        object: Value,
        now: Timestamp,
    ) -> Result<Self, Status> {
        Self::prepared(kind, namespace, object, now, defaults::apply)
    }

    fn prepared(
        kind: &'static Kind,
        namespace: &str,
        mut object: Value,
        now: Timestamp,
        set_defaults: fn(&Kind, &mut Value),
    ) -> Result<Self, Status> {
        if kind.custom().is_some_and(|custom| custom.is_terminating) {
            let message = "create not allowed while custom resource definition is terminating";
            return Err(Status::new(Reason::MethodNotAllowed, message));
        }
        metadata::check_namespace(&object, kind, namespace)?;
        if !text(&object, &["metadata", "resourceVersion"]).is_empty() {
            return Err(Status::new(
                Reason::Unknown,
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let sent_managed_fields = metadata::take_managed_fields(&mut object);
        metadata::prepare_create(&mut object, kind, namespace, now);
        let before_defaults = (kind.strategy.before_defaults)(&object);
        set_defaults(kind, &mut object);
        if kind.custom.is_some() {
            // Before anything visits all of its defaults.
            check::refuse_too_large(&object)?;
        }
        let (namespace, managed_fields) = (namespace.to_owned(), ManagedFields::default());
        Ok(Self { kind, namespace, object, sent_managed_fields, managed_fields, before_defaults })
    }

    /// The object that an apply to nothing creates (S14).
    pub fn of_apply(
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        apply: &Apply,
        writer: Writer<'_>,
    ) -> Result<Self, Status> {
        let (applied, managed_fields) = ownership::apply(kind, None, apply, writer)?;
        let mut object = applied.unwrap_or_else(|| apply.object.clone());
        let uid = text(&object, &["metadata", "uid"]);
        if !uid.is_empty() {
            let cause = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was \
                 found"
            );
            return Err(Status::conflict(kind, name, &cause));
        }
        metadata::check_name(&object, name)?;
        let metadata = metadata::metadata_mut(&mut object);
        metadata.insert("name", name.into());
        // As upstream, nobody looks at the version of an object that does not exist.
        metadata.remove("resourceVersion");
        check::decode_whole(kind, &object)?;
        let set_defaults = defaults::apply_to_applied;
        let draft = Self::prepared(kind, namespace, object, writer.now, set_defaults)?;
        Ok(Self { managed_fields, ..draft })
    }

    /// Makes the writer the owner of the object's fields.
    pub fn track(&mut self, writer: Writer<'_>) {
        (self.kind.strategy.convert)(&mut self.object);
        let sent = &self.sent_managed_fields;
        self.managed_fields = ownership::on_create(self.kind, &self.object, sent, writer);
    }

    /// The object with its defaults.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// Lets admission complete or refuse the object, and chooses its name.
    pub fn admit(&mut self, registry: &mut Registry) -> Result<(), Status> {
        let Registry { store, plugins } = registry;
        plugins.check_namespace(store, self.kind, &self.object)?;
        plugins.admit(store, self.kind, &mut self.object)?;
        let name = chosen_name(store, self.kind, &self.namespace, &self.object);
        self.object["metadata"]["name"] = Value::from(name);
        Ok(())
    }

    /// Refuses an invalid object.
    pub fn validate(&mut self) -> Result<(), Status> {
        self.prepare();
        let causes = validation::on_create(self.kind, &self.object);
        check::refuse_invalid(self.kind, self.name(), causes)?;
        let owners = std::mem::take(&mut self.managed_fields);
        self.managed_fields = check::owners_that_fit(&self.object, owners)?;
        Ok(())
    }

    /// Sets what no client sets.
    fn prepare(&mut self) {
        strategy::prepare_create(self.kind, &mut self.object);
    }

    fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

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
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        let mut draft = Draft::new(kind, namespace, object, options.now)?;
        draft.admit(self)?;
        draft.validate()?;
        self.commit_draft(draft, options)
    }

    /// Creates an object that is known to be valid, such as one that is part of the program.
    ///
    /// # Errors
    /// As [`create`](Self::create), without 400 for an object that can't be decoded and 422.
    pub fn install(
        &mut self,
        kind: &'static Kind,
        object: Value,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let mut draft = Draft::of_decoded(kind, "", object, options.now)?;
        draft.admit(self)?;
        draft.prepare();
        self.commit_draft(draft, options).map(drop)
    }

    /// Stores a draft that was admitted, and validated or known to be valid, and returns it as it
    /// is served.
    pub fn commit_draft(
        &mut self,
        draft: Draft,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        self.plugins.check_namespace(&self.store, draft.kind, &draft.object)?;
        let name = draft.name().to_owned();
        let Draft { kind, namespace, mut object, managed_fields, before_defaults, .. } = draft;
        if self.store.find(kind, &namespace, &name).is_some() {
            return Err(Status::already_exists(kind, &name));
        }
        self.plugins.allocate(&self.store, kind, Endpoint::Main, &mut object, None)?;
        object["metadata"]["uid"] = self.store.uid().into();
        (kind.strategy.after_uid)(&mut object, before_defaults);
        if options.dry_run {
            if kind == &DEFINITION {
                // As upstream: an empty list is the default of what is stored.
                object["status"]["conditions"] = Value::Null;
            }
            return Ok(Arc::new(Object::new(object, managed_fields)));
        }
        check::refuse_without_room(&self.store, &object)?;
        schema::forget_empty(kind, &mut object);
        let object = stored_form(kind, object);
        let stored = self.commit(kind, Action::Added, None, object, managed_fields);
        if let Some(companion) = kind.strategy.companion {
            let Companion { kind, namespace, object } = companion(&name);
            // Refused where a namespace of the same name had been finalized before its content was
            // gone, and without room. Upstream's controller would only log that.
            let _ = self.create(kind, &namespace, object, options);
        }
        if kind == &DEFINITION {
            self.sync_definitions(&stored, options.now);
        }
        Ok(served_form(kind, &stored))
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
