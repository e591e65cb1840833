//! The names of pods whose creation had an unknown outcome (C35).
//!
//! The next creation on the node repeats the name while the last one may still take effect.
//! Together they create at most one pod, however many of them take effect, and whenever they do.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::{NodeName, PodName, Timestamp};

use super::work_sets::NodeSet;

/// How long a creation of unknown outcome counts as a surge (C53). This is longer than a watch
/// needs to recover from a restart of the API server. After that, a node whose creations never get
/// a response no longer uses the budget.
const SURGE_RESERVED_FOR: Duration = Duration::from_secs(60);

/// How long a request without a response may still take effect: the API server's
/// `--request-timeout`. Until then it could create a pod again after the pod of the next request
/// was created and deleted.
const TAKES_EFFECT_WITHIN: Duration = Duration::from_secs(60);

/// The last name used on each node whose creation had an unknown outcome.
#[derive(Debug, Default)]
pub(in crate::daemon_set) struct PendingNames(BTreeMap<NodeName, Pending>);

#[derive(Debug)]
struct Pending {
    name: PodName,
    /// When the first of the consecutive creations of unknown outcome ended.
    since: Timestamp,
    /// When the last of them ended.
    last: Timestamp,
    wait: Wait,
    /// True if the pod would be the second one of a node that has no second one yet.
    is_surge: bool,
}

/// The wait for the outcome of a creation, which may still turn out to have succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    UnderWay,
    /// A later creation succeeded, the pod was seen, or the node was deleted.
    Over {
        /// True if a pod with this name exists and stays, so that another pod needs another name.
        is_name_taken: bool,
    },
}

/// The pod that has a pending name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon_set) enum PodPresence {
    Staying,
    /// The pod that replaces it gets the same name, so that a late creation finds the name taken.
    Terminating,
}

impl PendingNames {
    /// Records a creation of unknown outcome.
    pub(crate) fn record(&mut self, node: &NodeName, name: &PodName, now: Timestamp) {
        let run = self.0.get(node).filter(|pending| pending.reserves_surge(now));
        let since = run.map_or(now, |pending| pending.since);
        let pending =
            Pending { name: name.clone(), since, last: now, wait: Wait::UnderWay, is_surge: false };
        self.0.insert(node.clone(), pending);
    }

    /// Ends the wait for a node: a creation succeeded, or the node was deleted.
    pub(crate) fn settle(&mut self, node: &NodeName) {
        if let Some(pending) = self.0.get_mut(node).filter(|pending| pending.is_under_way()) {
            pending.wait = Wait::Over { is_name_taken: false };
        }
    }

    /// The nodes on which a creation of unknown outcome may have taken effect.
    pub(crate) fn unsettled_nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.0.iter().filter(|(_, pending)| pending.is_under_way()).map(|(node, _)| node)
    }

    /// Those of them whose last request may still take effect.
    pub(crate) fn nodes_in_doubt(&self, now: Timestamp) -> impl Iterator<Item = &NodeName> {
        let may_take_effect = move |pending: &Pending| now < pending.last + TAKES_EFFECT_WITHIN;
        let unsettled = self.0.iter().filter(|(_, pending)| pending.is_under_way());
        unsettled.filter(move |(_, pending)| may_take_effect(pending)).map(|(node, _)| node)
    }

    /// Updates which of the pods exist, and drops the names that no request can use any more.
    /// Returns the nodes whose pod is seen for the first time. A creation whose outcome arrives
    /// after its node was deleted is not waited for either.
    pub(crate) fn update(
        &mut self,
        find: impl Fn(&NodeName, &PodName) -> Option<PodPresence>,
        is_deleted: impl Fn(&NodeName) -> bool,
        now: Timestamp,
    ) -> Vec<NodeName> {
        let mut seen = Vec::new();
        if self.0.is_empty() {
            return seen;
        }
        self.0.retain(|node, pending| {
            let pod = find(node, &pending.name);
            if pod.is_some() && pending.is_under_way() {
                seen.push(node.clone());
            }
            if !pending.is_under_way() || pod.is_some() || is_deleted(node) {
                let is_name_taken = pod == Some(PodPresence::Staying);
                pending.wait = Wait::Over { is_name_taken };
            }
            pending.is_under_way() || now < pending.last + TAKES_EFFECT_WITHIN
        });
        seen
    }

    /// The name for the next creation on this node, if it must repeat one.
    pub(crate) fn name_for(&self, node: &NodeName) -> Option<&PodName> {
        let is_taken = Wait::Over { is_name_taken: true };
        let pending = self.0.get(node).filter(|pending| pending.wait != is_taken)?;
        Some(&pending.name)
    }

    /// Updates which of the creations would make a second pod on their node.
    pub(crate) fn update_surges(&mut self, is_surge: impl Fn(&NodeName) -> bool) {
        for (node, pending) in &mut self.0 {
            pending.is_surge = is_surge(node);
        }
    }

    /// Number of surges that are not seen yet on nodes outside these sets: they began before the
    /// rollout was paused, or before there was a newer template.
    pub(crate) fn surges_outside(&self, sets: [&NodeSet; 2], now: Timestamp) -> usize {
        let surging = self.0.iter().filter(|(_, it)| it.is_surge && it.reserves_surge(now));
        surging.filter(|(node, _)| !sets.iter().any(|set| set.contains_key(*node))).count()
    }

    /// The nodes of a set on which a pod may appear that counts as a surge and is not seen yet.
    pub(crate) fn nodes_reserving_surge(&self, nodes: &NodeSet, now: Timestamp) -> NodeSet {
        let reserving = self.0.iter().filter(|(_, pending)| pending.reserves_surge(now));
        let reserving = reserving.filter_map(|(name, _)| nodes.get_key_value(name));
        reserving.map(|(name, id)| (name.clone(), *id)).collect()
    }

    /// When the next such node stops counting as a surge.
    pub(crate) fn next_surge_release(&self, now: Timestamp) -> Option<Timestamp> {
        let reserving = self.0.values().filter(|pending| pending.reserves_surge(now));
        reserving.map(|pending| pending.since + SURGE_RESERVED_FOR).min()
    }
}

impl Pending {
    fn is_under_way(&self) -> bool {
        self.wait == Wait::UnderWay
    }

    fn reserves_surge(&self, now: Timestamp) -> bool {
        self.is_under_way() && now < self.since + SURGE_RESERVED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_000);

    /// C35, C53: a surge is reserved for a minute after the first of consecutive creations; the
    /// name is kept for longer.
    #[test]
    fn a_surge_is_reserved_for_a_minute() {
        let node = NodeName::from("n");
        let mut nodes = crate::node_table::NodeTable::default();
        let surging: NodeSet = [(node.clone(), nodes.intern(&node))].into();
        let mut names = PendingNames::default();
        names.record(&node, &"d-a".into(), NOW);
        names.record(&node, &"d-b".into(), NOW + Duration::from_secs(59));
        let is_reserved =
            |names: &PendingNames, now| !names.nodes_reserving_surge(&surging, now).is_empty();
        assert!(is_reserved(&names, NOW + Duration::from_secs(59)));
        assert!(!is_reserved(&names, NOW + SURGE_RESERVED_FOR));
        assert_eq!(names.next_surge_release(NOW), Some(NOW + SURGE_RESERVED_FOR));
        // A later failure starts a new minute.
        let later = NOW + SURGE_RESERVED_FOR;
        names.record(&node, &"d-b".into(), later);
        assert_eq!(names.next_surge_release(later), Some(later + SURGE_RESERVED_FOR));
    }

    /// C35: a name is kept until it is settled, and then while a creation of unknown outcome may
    /// take effect; a second pod beside the one with the name gets another name.
    #[test]
    fn a_name_is_kept_while_a_creation_may_take_effect() {
        let (node, name) = (NodeName::from("n"), PodName::from("d-a"));
        let mut names = PendingNames::default();
        let staying = |_: &NodeName, _: &PodName| Some(PodPresence::Staying);
        let terminating = |_: &NodeName, _: &PodName| Some(PodPresence::Terminating);
        let missing = |_: &NodeName, _: &PodName| None;
        let none_deleted = |_: &NodeName| false;
        names.record(&node, &name, NOW);
        assert_eq!(names.update(missing, none_deleted, NOW + 10 * TAKES_EFFECT_WITHIN), []);
        assert_eq!(names.name_for(&node), Some(&name));
        let later = NOW + 10 * TAKES_EFFECT_WITHIN;
        names.record(&node, &name, later);
        assert_eq!(names.update(staying, none_deleted, later), std::slice::from_ref(&node));
        assert_eq!(names.name_for(&node), None);
        assert_eq!(names.update(terminating, none_deleted, later), []);
        assert_eq!(names.name_for(&node), Some(&name));
        assert_eq!(names.update(staying, none_deleted, later), []);
        assert_eq!(names.name_for(&node), None);
        assert_eq!(names.update(missing, none_deleted, later), []);
        assert_eq!(names.name_for(&node), Some(&name));
        names.update(missing, none_deleted, later + TAKES_EFFECT_WITHIN);
        assert_eq!(names.name_for(&node), None);
        names.record(&node, &name, NOW);
        names.settle(&node);
        assert_eq!(names.name_for(&node), Some(&name));
        assert_eq!(names.next_surge_release(NOW), None);
        names.update(missing, none_deleted, NOW + TAKES_EFFECT_WITHIN);
        assert_eq!(names.name_for(&node), None);
        names.record(&node, &name, NOW);
        assert_eq!(names.nodes_in_doubt(NOW).count(), 1);
        assert_eq!(names.nodes_in_doubt(NOW + TAKES_EFFECT_WITHIN).count(), 0);
        assert_eq!(names.unsettled_nodes().count(), 1);
        names.update(missing, |deleted| *deleted == node, NOW);
        assert_eq!(names.unsettled_nodes().count(), 0);
    }
}
