//! The memory of earlier plans for the reference: when things were first seen, and for how long a
//! plan has to wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{DaemonSet, Node, NodeName, Pod, Readiness, Timestamp, Uid};
use everynode_core::plan::{Notice, Plan, Write};
use everynode_reference::{Memory, Objects, has_duplicates, has_recovered};

/// Everything that was seen and done so far.
#[derive(Default)]
pub(super) struct History {
    ready: BTreeMap<Uid, (Readiness, Timestamp)>,
    /// The template that was seen last, and since when it has had duplicates (C42).
    template: Option<Arc<str>>,
    duplicates_since: Option<Timestamp>,
    /// Of each node whose pod was deleted because it had ended (C24).
    ended: BTreeMap<NodeName, Delay>,
    nodes: BTreeMap<NodeName, Node>,
    retry: Option<Arc<str>>,
    /// The template that was stored last, until it may be stored again (C40).
    created: Option<(Arc<str>, Delay)>,
    is_selecting_all_reported: bool,
    generation: i64,
    observed_generation: i64,
}

#[derive(Clone, Copy)]
struct Delay {
    length: Duration,
    since: Timestamp,
}

impl History {
    /// Records a change of the nodes. One that has recovered has no back-off any more (C24).
    pub(super) fn see_nodes<'a>(&mut self, nodes: impl Iterator<Item = &'a Node>) {
        for node in nodes {
            let before = self.nodes.insert(node.name.clone(), node.clone());
            if before.is_some_and(|before| has_recovered(&before, node)) {
                self.ended.remove(&node.name);
            }
        }
    }

    /// Records what a plan at this time sees. A new observed generation and another value of the
    /// annotation end all back-offs, and reports are repeated for a new generation (C24, C33).
    pub(super) fn see(&mut self, objects: &Objects, now: Timestamp) {
        let seen = std::mem::take(&mut self.ready);
        let since = |pod: &Pod| match seen.get(&pod.uid) {
            Some((readiness, since)) if *readiness == pod.readiness => *since,
            Some(_) | None => now,
        };
        let pods = objects.pods.iter();
        self.ready = pods.map(|pod| (pod.uid.clone(), (pod.readiness, since(pod)))).collect();
        let template = &objects.daemon_set.template.canonical;
        if self.template.as_ref() != Some(template) {
            self.template = Some(template.clone());
            self.duplicates_since = None;
        }
        if let Some(has_duplicates) = has_duplicates(objects) {
            let since = self.duplicates_since.unwrap_or(now);
            self.duplicates_since = has_duplicates.then_some(since);
        }
        let daemon_set = &objects.daemon_set;
        if self.observed_generation != daemon_set.status.observed_generation
            || self.retry != daemon_set.retry
        {
            self.observed_generation = daemon_set.status.observed_generation;
            self.retry = daemon_set.retry.clone();
            self.ended.clear();
        }
        if self.generation != daemon_set.generation {
            self.generation = daemon_set.generation;
            self.is_selecting_all_reported = false;
        }
    }

    /// Records what a plan has done.
    pub(super) fn record(&mut self, plan: &Plan, daemon_set: &DaemonSet, now: Timestamp) {
        self.is_selecting_all_reported |= plan.notices.contains(&Notice::SelectingAll);
        for notice in &plan.notices {
            let (Notice::FailedDaemonPod { node, .. } | Notice::SucceededDaemonPod { node, .. }) =
                notice
            else {
                continue;
            };
            let delay = Delay::after(self.ended.get(node), now);
            self.ended.insert(node.clone(), delay);
        }
        if plan.writes.iter().any(|write| matches!(write, Write::CreateRevision(_))) {
            let template = daemon_set.template.canonical.clone();
            let last = self.created.as_ref().filter(|(last, _)| *last == template);
            let delay = Delay::after(last.map(|(_, delay)| delay), now);
            self.created = Some((template, delay));
        }
    }

    pub(super) fn memory(&self, daemon_set: &DaemonSet) -> Memory {
        let ready = self.ready.iter().map(|(uid, (_, since))| (uid.clone(), *since));
        let ended = self.ended.iter().map(|(node, delay)| (node.clone(), delay.end()));
        let template = &daemon_set.template.canonical;
        let created = self.created.as_ref().filter(|(last, _)| last == template);
        Memory {
            ended_pods: ended.collect(),
            is_selecting_all_reported: self.is_selecting_all_reported,
            seen_ready: ready.collect(),
            revision_from: created.map(|(_, delay)| delay.end()),
            duplicates_since: self.duplicates_since,
            ..Memory::default()
        }
    }
}

impl Delay {
    /// 1 s, and twice the last one up to 15 min; 1 s again half an hour after the last one.
    fn after(last: Option<&Self>, now: Timestamp) -> Self {
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(15 * 60));
        let last = last.filter(|last| now.since(last.since) <= max * 2);
        Self { length: last.map_or(min, |last| (last.length * 2).min(max)), since: now }
    }

    fn end(self) -> Timestamp {
        self.since + self.length
    }
}
