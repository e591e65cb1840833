//! How a write reaches the store: in one step for a small object, and without the lock while a
//! large one is decoded, patched and validated.

use std::sync::Arc;

use everynode_core::api::Timestamp;

use super::Request;
use super::options::Options;
use crate::authorization::{Attributes, RequestTarget};
use crate::http::access;
use crate::http::cluster::Cluster;
use crate::http::shared::now;
use crate::json::Value;
use crate::kind::Kind;
use crate::kinds::has_client_schemas;
use crate::object::Object;
use crate::registry::{
    Apply, Draft, Endpoint, Patch, Replacement, Writer, check_target, created_by_update,
};
use crate::status::Status;
use crate::store::WriteOptions;

/// Maximum size in bytes of a body and of the object that it changes for which the write is one
/// step. It takes a few milliseconds at most, and less than to take the lock several times.
const SMALL_BYTES: usize = 16 * 1024;
/// How often a change of a large object is tried again after another write of the object. As
/// upstream for patches.
const ATTEMPTS: usize = 5;

/// A write request, and what applies to all of its steps.
pub(super) struct Transaction<'a> {
    pub request: &'a Request<'a>,
    pub options: &'a Options,
}

/// An object after a change, and before it if it existed.
pub(super) struct Changed {
    pub before: Option<Arc<Object>>,
    pub after: Arc<Object>,
}

impl Changed {
    /// True if the object was created or changed.
    pub(super) fn is_change(&self) -> bool {
        self.before.as_ref().is_none_or(|before| before.value() != self.after.value())
    }
}

impl Transaction<'_> {
    /// Creates an object, which was decoded.
    pub(super) fn create(&self, object: Value) -> Result<Arc<Object>, Status> {
        let now = now();
        let mut draft =
            Draft::of_decoded(self.request.kind, self.request.namespace(), object, now)?;
        draft.track(self.writer(now));
        self.create_draft(draft)
    }

    fn create_draft(&self, mut draft: Draft) -> Result<Arc<Object>, Status> {
        let admit = |cluster: &mut dyn Cluster, draft: &mut Draft| {
            self.check_grant(cluster, draft.object(), None)?;
            draft.admit(cluster.registry_mut())
        };
        if self.is_quick(0) {
            return self.write(|cluster, options| {
                admit(cluster, &mut draft)?;
                draft.validate()?;
                cluster.registry_mut().commit_draft(draft, options)
            });
        }
        self.write(|cluster, _| admit(cluster, &mut draft))?;
        draft.validate()?;
        self.write(|cluster, options| cluster.registry_mut().commit_draft(draft, options))
    }

    /// Replaces what the endpoint may change of an object with that of a decoded one, or creates
    /// the object if its kind allows that.
    pub(super) fn update(
        &self,
        endpoint: Endpoint,
        name: &str,
        object: &Value,
    ) -> Result<Changed, Status> {
        let kind = self.request.kind;
        check_target(object, kind, self.request.namespace(), name)?;
        let change = |stored: &_| Replacement::of_update(kind, endpoint, stored, object.clone());
        self.change(name, change, || {
            let created = created_by_update(kind, endpoint, name, object.clone())?;
            self.check_may_create(name)?;
            Ok(Changed { before: None, after: self.create(created)? })
        })
    }

    /// Applies a patch to an object or its status.
    pub(super) fn patch(&self, name: &str, patch: &Patch) -> Result<Changed, Status> {
        let kind = self.request.kind;
        let change = |stored: &_| Replacement::of_patch(kind, stored, patch);
        self.change(name, change, || Err(Status::not_found(kind, name)))
    }

    /// Applies an object, which creates it if there is none (S14).
    pub(super) fn apply(&self, name: &str, apply: &Apply) -> Result<Changed, Status> {
        let (kind, namespace) = (self.request.kind, self.request.namespace());
        let change = |stored: &_| Replacement::of_apply(kind, stored, apply, self.writer(now()));
        self.change_as(name, change, || {
            if apply.endpoint != Endpoint::Main {
                return Err(Status::not_found(kind, name));
            }
            let draft = Draft::of_apply(kind, namespace, name, apply, self.writer(now()))?;
            self.check_may_create(name)?;
            Ok(Changed { before: None, after: self.create_draft(draft)? })
        })
    }

    /// True if all can be done in one step while others wait. `stored_bytes` is the size of the
    /// object before.
    fn is_quick(&self, stored_bytes: usize) -> bool {
        let is_small = self.request.call.body.len() + stored_bytes <= SMALL_BYTES;
        is_small && !has_client_schemas(self.request.kind)
    }

    fn writer(&self, now: Timestamp) -> Writer<'_> {
        Writer { manager: &self.options.manager, now }
    }

    /// Replaces the finalizers in the spec of a namespace.
    pub(super) fn finalize(&self, name: &str, namespace: &Value) -> Result<Changed, Status> {
        self.write(|cluster, options| {
            let registry = cluster.registry_mut();
            let before = registry.store().find_with_tree(self.request.kind, "", name);
            Ok(Changed {
                before,
                after: registry.finalize(self.request.kind, name, namespace, options)?,
            })
        })
    }

    /// Changes an object, whose changed fields belong to the writer from then on.
    fn change(
        &self,
        name: &str,
        change: impl Fn(&Arc<Object>) -> Result<Replacement, Status>,
        create: impl Fn() -> Result<Changed, Status>,
    ) -> Result<Changed, Status> {
        let tracked = |stored: &_| {
            let mut change = change(stored)?;
            change.track(self.writer(now()));
            Ok(change)
        };
        self.change_as(name, tracked, create)
    }

    /// Changes an object, or calls `create` if there is none.
    fn change_as(
        &self,
        name: &str,
        change: impl Fn(&Arc<Object>) -> Result<Replacement, Status>,
        create: impl Fn() -> Result<Changed, Status>,
    ) -> Result<Changed, Status> {
        let (kind, namespace) = (self.request.kind, self.request.namespace());
        for _ in 0..ATTEMPTS {
            let found =
                self.request.shared.read(|store| store.find(kind, namespace, name).cloned());
            let Some(stored) = found else { return create() };
            let changed = if self.is_quick(stored.bytes()) {
                self.at_once(name, &change)
            } else {
                self.optimistically(&stored.with_tree(), &change)
            };
            if let Some(changed) = changed {
                return changed;
            }
        }
        Err(Status::modified(kind, name))
    }

    /// Changes an object in one step. `None` if it is gone.
    fn at_once(
        &self,
        name: &str,
        change: impl Fn(&Arc<Object>) -> Result<Replacement, Status>,
    ) -> Option<Result<Changed, Status>> {
        let (kind, namespace) = (self.request.kind, self.request.namespace());
        self.write(|cluster, options| {
            let stored = cluster.registry().store().find_with_tree(kind, namespace, name)?;
            let validated = change(&stored).and_then(|mut change| {
                self.check_grant(cluster, change.object(), Some(change.current()))?;
                change.validate()?;
                Ok(change)
            });
            Some(validated.and_then(|change| commit(cluster, change, options)))
        })
    }

    /// Changes an object without the lock while the change is made and validated. `None` if the
    /// object was written meanwhile.
    fn optimistically(
        &self,
        stored: &Arc<Object>,
        change: impl Fn(&Arc<Object>) -> Result<Replacement, Status>,
    ) -> Option<Result<Changed, Status>> {
        let validated = change(stored).and_then(|mut change| {
            self.request.shared.read_cluster(|cluster| {
                self.check_grant(cluster, change.object(), Some(change.current()))
            })?;
            change.validate()?;
            Ok(change)
        });
        match validated {
            Err(status) => Some(Err(status)),
            Ok(change) => self.write(|cluster, options| {
                let is_current = cluster.registry().is_current(&change);
                is_current.then(|| commit(cluster, change, options))
            }),
        }
    }

    fn write<T>(&self, write: impl FnOnce(&mut dyn Cluster, &WriteOptions) -> T) -> T {
        self.request.shared.write(|cluster, now| {
            write(cluster, &WriteOptions { now, dry_run: self.options.dry_run })
        })
    }

    /// As upstream, an update that creates an object needs the right to create it.
    fn check_may_create(&self, name: &str) -> Result<(), Status> {
        let Kind { group, plural, .. } = *self.request.kind;
        let namespace = self.request.namespace();
        let target =
            RequestTarget::Resource { group, resource: plural, subresource: "", namespace, name };
        access::check(
            self.request.shared,
            self.request.user,
            &Attributes { verb: "create", target },
        )
    }

    fn check_grant(
        &self,
        cluster: &dyn Cluster,
        object: &Value,
        current: Option<&Object>,
    ) -> Result<(), Status> {
        let Request { user, kind, .. } = *self.request;
        cluster.check_grant(user, kind, self.request.namespace(), object, current)
    }
}

fn commit(
    cluster: &mut dyn Cluster,
    change: Replacement,
    options: &WriteOptions,
) -> Result<Changed, Status> {
    let before = Some(Arc::clone(change.current()));
    Ok(Changed { before, after: cluster.registry_mut().commit_replacement(change, options)? })
}
