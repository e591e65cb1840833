//! The names of pods whose creation had an unknown outcome (C35).
//!
//! A node's next creation has the name of the one before, for as long as that may take effect. So all of them
//! together make one pod at most, however many of them take effect, and whenever they do.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::{NodeName, PodName, Timestamp};

use super::candidates::NodeSet;

/// How long a creation of unknown outcome counts as a surge (C53). It covers the time that a watch needs to be back
/// after an API server has gone; and after that a node whose creations are never answered leaves its room to others.
const SURGE_ROOM_HELD: Duration = Duration::from_secs(60);

/// A request that was not answered may take effect as long as an API server works on it: its `--request-timeout`. Until
/// then it could bring a pod back that has been created by the next request, and deleted.
const TAKES_EFFECT_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct PendingNames(BTreeMap<NodeName, Pending>);

#[derive(Debug)]
struct Pending {
    name: PodName,
    /// When the first creation in a row came back without a definite answer.
    since: Timestamp,
    /// When the last one did.
    last: Timestamp,
    /// Whether one has succeeded since, or the pod has been seen, or the node is gone.
    is_settled: bool,
    /// Whether the pod is there and stays: one beside it needs another name.
    stays: bool,
}

/// A pod that has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Staying,
    /// Its successor takes its name, so that a creation which takes effect late finds it taken.
    Leaving,
}

impl PendingNames {
    /// A creation came back without a definite answer.
    pub fn keep(&mut self, node: &NodeName, name: &PodName, now: Timestamp) {
        let row = self.0.get(node).filter(|pending| pending.holds_surge_room(now));
        let since = row.map_or(now, |pending| pending.since);
        let (is_settled, stays) = (false, false);
        let pending = Pending { name: name.clone(), since, last: now, is_settled, stays };
        self.0.insert(node.clone(), pending);
    }

    /// A creation succeeded, or the node is gone.
    pub fn settle(&mut self, node: &NodeName) {
        if let Some(pending) = self.0.get_mut(node) {
            pending.is_settled = true;
        }
    }

    /// Takes which of the pods are there, and forgets the names of which there is nothing more to come. Returns the nodes
    /// whose pods are seen for the first time.
    pub fn look(
        &mut self,
        sees: impl Fn(&NodeName, &PodName) -> Option<Seen>,
        now: Timestamp,
    ) -> Vec<NodeName> {
        let mut seen = Vec::new();
        self.0.retain(|node, pending| {
            let pod = sees(node, &pending.name);
            pending.stays = pod == Some(Seen::Staying);
            if pod.is_some() && !std::mem::replace(&mut pending.is_settled, true) {
                seen.push(node.clone());
            }
            // The clock may have been set back.
            pending.last = pending.last.min(now);
            !pending.is_settled || now < pending.last + TAKES_EFFECT_WITHIN
        });
        seen
    }

    /// The name for the next creation on this node.
    pub fn of(&self, node: &NodeName) -> Option<&PodName> {
        let pending = self.0.get(node).filter(|pending| !pending.stays)?;
        Some(&pending.name)
    }

    /// Those of these nodes to which a pod may come that is not seen yet and counts as a surge.
    pub fn hold_surge_room(&self, nodes: &NodeSet, now: Timestamp) -> NodeSet {
        let held = self.0.iter().filter(|(_, pending)| pending.holds_surge_room(now));
        let held = held.filter_map(|(name, _)| nodes.get_key_value(name));
        held.map(|(name, id)| (name.clone(), *id)).collect()
    }

    /// When surge room is next given back.
    pub fn surge_room_free_at(&self, now: Timestamp) -> Option<Timestamp> {
        let held = self.0.values().filter(|pending| pending.holds_surge_room(now));
        held.map(|pending| pending.since + SURGE_ROOM_HELD).min()
    }
}

impl Pending {
    /// One that lies ahead does not: the clock was set back.
    fn holds_surge_room(&self, now: Timestamp) -> bool {
        !self.is_settled && self.since <= now && now < self.since + SURGE_ROOM_HELD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_000);

    /// C35, C53: surge room is held for a minute since the first creation in a row, and not by one that lies ahead; the
    /// name is kept for longer.
    #[test]
    fn surge_room_is_held_for_a_minute() {
        let node = NodeName::from("n");
        let mut nodes = crate::nodes::Nodes::default();
        let surging: NodeSet = [(node.clone(), nodes.intern(&node))].into();
        let mut names = PendingNames::default();
        names.keep(&node, &"d-a".into(), NOW);
        names.keep(&node, &"d-b".into(), NOW + Duration::from_secs(59));
        let holds = |names: &PendingNames, now| !names.hold_surge_room(&surging, now).is_empty();
        assert!(holds(&names, NOW + Duration::from_secs(59)));
        assert!(!holds(&names, NOW + SURGE_ROOM_HELD));
        assert!(!holds(&names, NOW - Duration::from_secs(1)));
        assert_eq!(names.surge_room_free_at(NOW), Some(NOW + SURGE_ROOM_HELD));
        // One that fails later begins a row of its own.
        let later = NOW + SURGE_ROOM_HELD;
        names.keep(&node, &"d-b".into(), later);
        assert_eq!(names.surge_room_free_at(later), Some(later + SURGE_ROOM_HELD));
    }

    /// C35: a name is kept until it is settled, and then for as long as a creation that was not answered may take effect;
    /// not for a pod beside the one that has it.
    #[test]
    fn a_name_is_kept_while_a_creation_may_take_effect() {
        let (node, name) = (NodeName::from("n"), PodName::from("d-a"));
        let mut names = PendingNames::default();
        let there = |_: &NodeName, _: &PodName| Some(Seen::Staying);
        let leaving = |_: &NodeName, _: &PodName| Some(Seen::Leaving);
        let gone = |_: &NodeName, _: &PodName| None;
        names.keep(&node, &name, NOW);
        assert_eq!(names.look(gone, NOW + 10 * TAKES_EFFECT_WITHIN), []);
        assert_eq!(names.of(&node), Some(&name));
        let later = NOW + 10 * TAKES_EFFECT_WITHIN;
        names.keep(&node, &name, later);
        assert_eq!(names.look(there, later), std::slice::from_ref(&node));
        assert_eq!(names.of(&node), None);
        assert_eq!(names.look(leaving, later), []);
        assert_eq!(names.of(&node), Some(&name));
        assert_eq!(names.look(there, later), []);
        assert_eq!(names.of(&node), None);
        assert_eq!(names.look(gone, later), []);
        assert_eq!(names.of(&node), Some(&name));
        assert_eq!(names.look(gone, NOW), []);
        names.look(gone, NOW + TAKES_EFFECT_WITHIN);
        assert_eq!(names.of(&node), None);
        names.keep(&node, &name, NOW);
        names.settle(&node);
        assert_eq!(names.of(&node), Some(&name));
        assert_eq!(names.surge_room_free_at(NOW), None);
        names.look(gone, NOW + TAKES_EFFECT_WITHIN);
        assert_eq!(names.of(&node), None);
    }
}
