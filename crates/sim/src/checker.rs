//! The properties, one file each, and what they share: a history of what a DaemonSet was ever told.

mod budget;
mod duplicate;
mod foreign;
mod quiescence;
mod revision;
mod template;

use std::collections::BTreeMap;

use everynode_core::name::Uid;
use everynode_core::object::DaemonSet;
use everynode_core::time::Timestamp;
use everynode_sandbox::kind::{CONTROLLER_REVISION, DAEMON_SET, Kind, NODE, POD};
use everynode_sandbox::store::{Object, Store};
use serde_json::Value;

use crate::network::Request;
use crate::serve::Target;
use crate::truth;
use budget::Budget;

pub use quiescence::check as at_rest;

/// What others have changed for so long a replica has seen.
const CALM_MS: i64 = 30_000;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub property: Property,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// Never two pods of a DaemonSet on a node without surge, nor three with (C22, C26, C34).
    Duplicate,
    /// Never more taken down by us than maxUnavailable (C52, C53).
    Budget,
    /// Nothing of another owner is touched (C21, C61).
    Foreign,
    /// No revision goes that a live pod carries (C44).
    Revision,
    /// A pod's template is its revision's (C30).
    Template,
    /// At rest: exactly one pod where it must be, none where it must not (C23).
    Placement,
    /// At rest: the status is the truth (C70).
    Status,
    /// At rest: nothing is written (C80).
    Rest,
    /// Counts and candidates are what a recount gives (C80).
    Recount,
    /// What was written is seen before the wait for it lapses (C60).
    Lapse,
}

/// What a DaemonSet has been told so far: replicas may act on any of it that they have not seen the end of.
#[derive(Clone, Debug)]
pub struct Told {
    pub surged: bool,
    pub rolled: bool,
    pub max_unavailable: usize,
    pub min_ready_seconds: (u32, u32),
    /// When its spec last changed.
    pub changed_at: Timestamp,
    generation: i64,
}

/// All checkers' state.
#[derive(Debug, Default)]
pub struct Checks {
    told: BTreeMap<Uid, Told>,
    /// When each node, or a pod on it, was last changed by somebody else.
    disturbed: BTreeMap<String, Timestamp>,
    /// When a pod of each node last got other labels.
    relabelled: BTreeMap<String, Timestamp>,
    budget: Budget,
    /// Whether revisions were changed by hand: then they may be missing.
    pub revisions_disturbed: bool,
    seen: u64,
}

/// What a write finds, looked at just before it is done.
pub struct Before<'a> {
    pub store: &'a Store,
    pub request: &'a Request,
    pub target: &'a Target,
    pub body: &'a Value,
    pub now: Timestamp,
}

impl Before<'_> {
    pub fn object(&self) -> Option<&Object> {
        let Target { kind, namespace, name, .. } = self.target;
        Some(self.store.find(kind, namespace, name)?)
    }

    /// The DaemonSet that the body's controller is.
    pub fn owner(&self) -> Option<DaemonSet> {
        let uid = self.body["metadata"]["ownerReferences"][0]["uid"].as_str()?;
        let daemon_sets = self.store.iter(&DAEMON_SET, None);
        daemon_sets
            .filter(|object| object.uid() == uid)
            .map(|object| truth::daemon_set(object))
            .next()
    }

    pub fn creates(&self, kind: &Kind) -> bool {
        self.request.method == http::Method::POST && self.target.kind.kind == kind.kind
    }

    pub fn deletes(&self, kind: &Kind) -> bool {
        self.request.method == http::Method::DELETE && self.target.kind.kind == kind.kind
    }
}

impl Checks {
    /// Takes what has changed since the last call.
    pub fn follow(&mut self, store: &Store, now: Timestamp) {
        if self.seen == store.resource_version() {
            return;
        }
        self.seen = store.resource_version();
        let nodes = store.count(&NODE);
        for object in store.iter(&DAEMON_SET, None) {
            let known = self.told.get(&Uid::new(object.uid()));
            let generation = object.value()["metadata"]["generation"].as_i64().unwrap_or(0);
            if known.is_none_or(|told| told.generation != generation) {
                self.tell(&truth::daemon_set(object), nodes, now);
            }
        }
        self.budget.recover(store, &self.told, &self.disturbed, now);
    }

    /// Somebody else has changed a node or a pod on it.
    pub fn disturb(&mut self, node: &str, now: Timestamp) {
        self.disturbed.insert(node.to_owned(), now);
    }

    pub fn relabel(&mut self, node: &str, now: Timestamp) {
        self.relabelled.insert(node.to_owned(), now);
    }

    pub fn before_write(&mut self, before: &Before) -> Option<Violation> {
        duplicate::check(before, &self.told, &self.relabelled)
            .or_else(|| foreign::check(before))
            .or_else(|| revision::check(before))
            .or_else(|| template::check(before, self.revisions_disturbed))
            .or_else(|| self.budget.check(before, &self.told, &self.disturbed))
    }

    fn tell(&mut self, ds: &DaemonSet, nodes: usize, now: Timestamp) {
        let seconds = ds.min_ready_seconds;
        let told = self.told.entry(ds.uid.clone()).or_insert(Told {
            surged: false,
            rolled: false,
            max_unavailable: 0,
            min_ready_seconds: (seconds, seconds),
            changed_at: now,
            generation: 0,
        });
        told.surged |= truth::surges(ds);
        told.rolled |= !truth::surges(ds);
        told.max_unavailable = told.max_unavailable.max(truth::max_unavailable(ds, nodes.max(5)));
        let (least, most) = told.min_ready_seconds;
        told.min_ready_seconds = (least.min(seconds), most.max(seconds));
        told.changed_at = now;
        told.generation = ds.generation;
    }
}

fn violation(property: Property, message: String) -> Option<Violation> {
    Some(Violation { property, message })
}

/// Kinds whose objects have owners.
fn is_owned(kind: &Kind) -> bool {
    kind.kind == POD.kind || kind.kind == CONTROLLER_REVISION.kind
}
