//! The promises that a record is checked for, whatever the story: never two pods of the DaemonSet
//! on one node (C22, C26), and no available pod taken away beyond the budget (C52, C53).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::record::{Entry, Object};
use super::state::State;
use crate::observe::PodsPerNode;
use crate::world::pod::{is_terminating, name_of, node_of};

/// A controller may not have seen what is younger: nodes and pods come by different watches.
const NOT_SEEN_YET: SignedDuration = SignedDuration::from_millis(2_000);

/// Who changes the number of the DaemonSet's pods in a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deleters {
    TheController,
    /// The story, a taint, or somebody else whom no budget binds, deletes some.
    Others,
    /// The story also gives a node a second one.
    OthersWithMore,
}

/// The violations in the record, each with its time after the first entry.
pub(crate) fn violations(entries: &[Entry], deleters: Deleters) -> Vec<String> {
    let mut checker = Checker::default();
    let mut found = Vec::new();
    let began = entries.first().map_or(Timestamp::UNIX_EPOCH, |entry| entry.at);
    for entry in entries {
        // Pods become available by time alone, too.
        checker.state.at = entry.at;
        checker.note_times();
        let taken = (deleters == Deleters::TheController).then(|| checker.taken(entry)).flatten();
        checker.state.apply(entry);
        checker.note_times();
        let two = checker.nodes_with_two();
        let two = if deleters == Deleters::OthersWithMore { Vec::new() } else { two };
        let texts = taken.into_iter().chain(two);
        let after = entry.at.duration_since(began).as_secs_f64();
        found.extend(texts.map(|text| format!("{text} ({after:.1} s)")));
    }
    found
}

#[derive(Default)]
struct Checker {
    state: State,
    /// Since when each node is up, may get a pod and has no available one.
    down: BTreeMap<String, Timestamp>,
    /// Since when each node is up and may get a pod.
    up: BTreeMap<String, Timestamp>,
    /// Nodes with two pods, of which one violation is enough.
    two: BTreeSet<String>,
    has_surged: bool,
}

impl Checker {
    fn note_times(&mut self) {
        let at = self.state.at;
        let wanted = self.state.wanted();
        self.up.retain(|node, _| wanted.contains(node));
        self.down.retain(|node, _| wanted.contains(node));
        for node in wanted {
            if self.state.has_available(&node) {
                self.down.remove(&node);
            } else {
                self.down.entry(node.clone()).or_insert(at);
            }
            self.up.entry(node).or_insert(at);
        }
        self.has_surged |= self.state.strategy().is_some_and(|(_, surges)| surges);
    }

    /// The violation of the budget by a change that takes an available pod away.
    fn taken(&self, entry: &Entry) -> Option<String> {
        let Object::Pod(pod) = &entry.object else { return None };
        let before = self.state.pods.get(&pod.uid()?)?;
        let node = node_of(before);
        let ends = entry.gone || is_terminating(pod);
        let is_long = |since: &Timestamp| entry.at.duration_since(*since) >= NOT_SEEN_YET;
        if !ends || !self.state.is_available(before) || !self.up.get(&node).is_some_and(is_long) {
            return None;
        }
        let (max_unavailable, surges) = self.state.strategy()?;
        let others = self.state.pods_on(&node).into_iter().filter(|it| it.uid() != pod.uid());
        if surges && others.into_iter().any(|pod| self.state.is_available(pod)) {
            return None;
        }
        let down = self.down.iter().filter(|(name, since)| **name != node && is_long(since));
        let down: Vec<&str> = down.map(|(name, _)| name.as_str()).collect();
        // If both are zero, one may be unavailable (C51).
        let allowed = if surges { max_unavailable } else { max_unavailable.max(1) };
        (down.len() + 1 > allowed).then(|| {
            format!("{} on {node} is taken away while {down:?} have none", name_of(before))
        })
    }

    /// The nodes on which two pods of the DaemonSet are by now.
    fn nodes_with_two(&mut self) -> Vec<String> {
        let rule = if self.has_surged { PodsPerNode::OneOfTwoRevisions } else { PodsPerNode::One };
        let mut found = Vec::new();
        let nodes: Vec<String> = self.state.nodes.keys().cloned().collect();
        for node in nodes {
            let pods = self.state.pods_on(&node);
            if rule.allows(&pods) {
                self.two.remove(&node);
            } else if self.two.insert(node.clone()) {
                let names: Vec<String> = pods.iter().map(|pod| name_of(pod)).collect();
                found.push(format!("{node} has two pods, {}", names.join(" and ")));
            }
        }
        found
    }
}
