//! What callers pass to the store beside objects, and what deletions answer.

use std::sync::Arc;

use everynode_core::time::Timestamp;
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Object;
use crate::status::{Details, Reason, Status};

/// How a store is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// All names and UIDs follow from it (S24).
    pub seed: u64,
    /// Changes kept per kind: a watcher that falls further behind lists again.
    pub window: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 0, window: 20_000 }
    }
}

/// What goes with every write.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    pub now: Timestamp,
    /// `dryRun=All`: everything but the write itself.
    pub dry_run: bool,
}

impl WriteOptions {
    pub fn at(now: Timestamp) -> Self {
        Self { now, dry_run: false }
    }
}

/// `metav1.DeleteOptions`; http reads them from the body or the query.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub preconditions: Preconditions,
    pub propagation_policy: Option<PropagationPolicy>,
}

#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationPolicy {
    Orphan,
    Background,
    Foreground,
}

impl DeleteOptions {
    /// Without delay.
    pub fn now() -> Self {
        Self { grace_period_seconds: Some(0), ..Self::default() }
    }

    /// Only the object with this UID.
    pub fn with_uid(mut self, uid: &str) -> Self {
        self.preconditions.uid = Some(uid.to_string());
        self
    }

    /// Reads a `DeleteOptions` body.
    pub fn parse(body: &Value) -> Result<Self, Status> {
        let propagation_policy = propagation_policy(body)?;
        let text = |key: &str| body["preconditions"][key].as_str().map(str::to_string);
        let grace = &body["gracePeriodSeconds"];
        if !grace.is_null() && !grace.is_i64() {
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {grace} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
            )));
        }
        Ok(Self {
            grace_period_seconds: grace.as_i64(),
            preconditions: Preconditions {
                uid: text("uid"),
                resource_version: text("resourceVersion"),
            },
            propagation_policy,
        })
    }
}

fn propagation_policy(body: &Value) -> Result<Option<PropagationPolicy>, Status> {
    let invalid = |field: &str, message: String| {
        Status::new(
            Reason::Invalid,
            format!("DeleteOptions.meta.k8s.io \"\" is invalid: {field}: {message}"),
        )
    };
    let policy = match body["propagationPolicy"].as_str() {
        None => None,
        Some(name) => Some(PropagationPolicy::parse(name).ok_or_else(|| {
            invalid(
                "propagationPolicy",
                format!(
                    "Unsupported value: \"{name}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \
                     \"nil\""
                ),
            )
        })?),
    };
    match (policy, body["orphanDependents"].as_bool()) {
        (Some(_), Some(_)) => Err(invalid(
            "propagationPolicy",
            format!(
                "Invalid value: {}: orphanDependents and deletionPropagation cannot be both set",
                body["propagationPolicy"]
            ),
        )),
        (None, Some(true)) => Ok(Some(PropagationPolicy::Orphan)),
        (None, Some(false)) => Ok(Some(PropagationPolicy::Background)),
        (policy, None) => Ok(policy),
    }
}

impl PropagationPolicy {
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "Orphan" => Some(Self::Orphan),
            "Background" => Some(Self::Background),
            "Foreground" => Some(Self::Foreground),
            _ => None,
        }
    }
}

/// What a deletion came to.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// It is gone; this was its last state.
    Gone(Arc<Object>),
    /// It is marked, and goes when its finalizers or its grace period are done.
    Pending(Arc<Object>),
}

impl Deleted {
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Gone(object) | Self::Pending(object) => object,
        }
    }

    /// The body of the response: the object, or `Success` for one that is gone, where upstream does not return it.
    pub fn response(&self, kind: &Kind) -> Value {
        match self {
            Self::Pending(object) => object.value().clone(),
            Self::Gone(object) if kind.returns_deleted_object() => object.value().clone(),
            Self::Gone(object) => json!({
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": Details {
                    uid: object.uid().to_string(),
                    ..Details::resource(kind, object.name())
                }.to_value(),
            }),
        }
    }
}
