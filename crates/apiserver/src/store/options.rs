//! The options of the store and of writes, and the result of deletions.

use std::sync::Arc;

use everynode_core::api::Timestamp;

use crate::json::{Value, json};
use crate::kind::Kind;
use crate::kind::rules::go_quote;
use crate::object::Object;
use crate::status::{Details, Status};

/// The options of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of generated names and UIDs (S24).
    pub seed: u64,
    /// The number of changes that are kept for each kind.
    pub window: usize,
    /// The maximum size of all kept changes in bytes. Each change counts with the object before and
    /// after it, as JSON text.
    pub log_bytes_max: usize,
    /// The maximum size of all objects in bytes, as JSON text. The default is that of etcd's
    /// `--quota-backend-bytes`.
    pub bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            window: 20_000,
            log_bytes_max: 256 * 1024 * 1024,
            bytes_max: 2 * 1024 * 1024 * 1024,
        }
    }
}

/// The options of a write.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The time of the write.
    pub now: Timestamp,
    /// `dryRun=All`: do everything except for the write itself.
    pub dry_run: bool,
}

impl WriteOptions {
    /// A write at a time that is not a dry run.
    pub fn at(now: Timestamp) -> Self {
        Self { now, dry_run: false }
    }
}

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// The grace period of a pod; by default that in its spec.
    pub grace_period_seconds: Option<i64>,
    /// Conditions that the object must meet.
    pub preconditions: Preconditions,
    /// The treatment of dependents; by default background deletion.
    pub propagation_policy: Option<PropagationPolicy>,
}

/// Conditions of a deletion.
#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    /// The required UID.
    pub uid: Option<String>,
    /// The required resourceVersion.
    pub resource_version: Option<String>,
}

/// `metav1.DeletionPropagation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationPolicy {
    /// Keep the dependents, without their references to the owner.
    Orphan,
    /// Delete the owner first.
    Background,
    /// Delete the blocking dependents first.
    Foreground,
}

impl DeleteOptions {
    /// A deletion without a grace period.
    pub fn now() -> Self {
        Self { grace_period_seconds: Some(0), ..Self::default() }
    }

    /// Restricts the deletion to the object with this UID.
    pub fn with_uid(mut self, uid: &str) -> Self {
        self.preconditions.uid = Some(uid.to_string());
        self
    }

    /// Reads a `DeleteOptions` body.
    ///
    /// # Errors
    ///
    /// 400 or 422 for an invalid value.
    pub fn parse(body: &Value) -> Result<Self, Status> {
        let text = |key: &str| body["preconditions"][key].as_str().map(str::to_string);
        let grace = &body["gracePeriodSeconds"];
        if !grace.is_null() && !grace.is_i64() {
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {grace} into Go struct field \
                 DeleteOptions.gracePeriodSeconds of type int64"
            )));
        }
        let mut causes = Vec::new();
        let propagation_policy = propagation_policy(body, &mut causes);
        let dry_run = body["dryRun"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        let dry_run: Vec<&str> = dry_run.iter().filter_map(Value::as_str).collect();
        check_dry_run(&dry_run, &mut causes);
        if !causes.is_empty() {
            return Err(Status::invalid_options("DeleteOptions", &causes));
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

/// Adds a cause if a value of the option `dryRun` is not `All`.
pub(crate) fn check_dry_run(values: &[impl AsRef<str>], causes: &mut Vec<String>) {
    if values.iter().any(|value| value.as_ref() != "All") {
        let values: Vec<String> = values.iter().map(|value| go_quote(value.as_ref())).collect();
        let values = values.join(",");
        causes.push(format!("dryRun: Unsupported value: [{values}]: supported values: \"All\""));
    }
}

fn propagation_policy(body: &Value, causes: &mut Vec<String>) -> Option<PropagationPolicy> {
    let name = body["propagationPolicy"].as_str();
    let policy = name.and_then(PropagationPolicy::parse);
    let orphans = body["orphanDependents"].as_bool();
    if let (Some(name), Some(_)) = (name, orphans) {
        causes.push(format!(
            "propagationPolicy: Invalid value: {}: orphanDependents and deletionPropagation cannot \
             be both set",
            go_quote(name)
        ));
    }
    if let (Some(name), None) = (name, policy) {
        causes.push(format!(
            "propagationPolicy: Unsupported value: {}: supported values: \"Foreground\", \
             \"Background\", \"Orphan\", \"nil\"",
            go_quote(name)
        ));
    }
    policy.or_else(|| match orphans? {
        true => Some(PropagationPolicy::Orphan),
        false => Some(PropagationPolicy::Background),
    })
}

impl PropagationPolicy {
    /// The policy with a name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "Orphan" => Some(Self::Orphan),
            "Background" => Some(Self::Background),
            "Foreground" => Some(Self::Foreground),
            _ => None,
        }
    }
}

/// The result of a deletion.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// The object is gone; this is its last state.
    Gone(Arc<Object>),
    /// The object is marked as being deleted, until its grace period and its finalizers are over.
    Pending(Arc<Object>),
}

impl Deleted {
    /// The object after the deletion.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Gone(object) | Self::Pending(object) => object,
        }
    }

    /// The response body: the object, or `Success` for a completed deletion of a kind for which
    /// upstream returns no object.
    pub fn response(&self, kind: &Kind) -> Value {
        match self {
            Self::Pending(object) => object.served().into_owned(),
            Self::Gone(object) if kind.strategy.returns_deleted_object => {
                object.served().into_owned()
            }
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
