//! The registry and its store as their callers see them.

mod crowd;
mod derived;
mod hostile;
mod kept;
mod known;
mod model;
mod read;
mod resize;
mod watch_cache;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::Timestamp;

use super::{Endpoint, Patch, Registry};
use crate::json::{Value, json};
use crate::kind::Kind;
use crate::kinds::{CONFIG_MAP, DAEMON_SET, EVENT, EVENTS_EVENT, LEASE, NAMESPACE, NODE, POD};
use crate::object::Object;
use crate::patch::PatchType;
use crate::selector::{FieldSelector, LabelSelector, Selector};
use crate::status::{Reason, Status};
use crate::store::{
    Action, DeleteOptions, Deleted, List, ListOptions, Options, ResourceVersionMatch, Store,
    TREE_CHANGES, WriteOptions, watch_event,
};

const START: Timestamp = Timestamp::from_seconds(1_767_225_600);

fn registry() -> Registry {
    Registry::new(&Options::default(), START)
}

fn options() -> WriteOptions {
    WriteOptions::at(START)
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]},
    })
}

fn daemon_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
        },
    })
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

fn create(registry: &mut Registry, kind: &'static Kind, object: Value) -> Arc<Object> {
    let namespace = if kind.namespaced { "default" } else { "" };
    registry.create(kind, namespace, object, &options()).expect("it is valid")
}

fn message<T: std::fmt::Debug>(result: Result<T, Status>) -> (u16, String) {
    let status = result.expect_err("it is refused");
    (status.code(), status.message.clone())
}

fn merge(body: Value) -> Patch {
    Patch { patch_type: PatchType::Merge, body, endpoint: Endpoint::Main, strict: None }
}
