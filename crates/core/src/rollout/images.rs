//! The images of the target on the nodes that are about to get it: which nodes have them, which
//! pull them, and which are next (G55).
//!
//! Nothing of it is stored but the pullers. A controller that starts makes pullers again on nodes
//! that have the images: they are done at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    ImagePuller, Node, NodeName, PodName, PodTrouble, PrepareImages, PullState, RolloutPhase,
    RolloutRecord, Timestamp, Uid,
};
use crate::memo::Memo;
use crate::plan::{PodReference, UNKNOWN_FOR};

use super::input::RolloutInput;
use super::stage::PhaseKey;

/// How long after a puller was created the next one may be on its node.
const PULLER_INTERVAL: Duration = Duration::from_secs(60);

/// How nodes pull the images of the target of this record, by the policy. Going back to a revision
/// that was complete before waits for none, and neither does who promotes a rollout in full.
pub(super) fn image_rule(
    record: &RolloutRecord,
    input: &RolloutInput<'_>,
) -> Option<PrepareImages> {
    let rule = input.policy()?.images()?;
    let goes_back = || record.phase == RolloutPhase::Complete && input.has_bad_pods();
    (!record.is_promoted_in_full() && !goes_back()).then_some(rule)
}

/// The pullers, and the nodes that need them.
#[derive(Debug, Default)]
pub(crate) struct ImagePulls {
    pullers: BTreeMap<NodeName, BTreeMap<Uid, ImagePuller>>,
    /// The nodes on which images were of interest, for the target.
    nodes: BTreeMap<NodeName, NodeImages>,
    /// The nodes that are to get the target now and lack its images.
    needed_now: BTreeSet<NodeName>,
    /// The same of the next wave.
    needed_next: BTreeSet<NodeName>,
    /// Nodes of either that have pulled for too long, or cannot: others come before them.
    overdue: BTreeSet<NodeName>,
    /// The nodes of the next wave, while the current one bakes.
    next_wave: Memo<PhaseKey, BTreeSet<NodeName>>,
    /// The nodes of which the state has changed other than by what a watch shows.
    changed: Vec<NodeName>,
    /// Why the last puller could not be created, if that is so.
    refusal: Option<Arc<str>>,
}

/// The images of one node.
#[derive(Clone, Copy, Debug, Default)]
struct NodeImages {
    /// When the node was created, if that is known: another one may get its name.
    created: Option<Timestamp>,
    progress: PullProgress,
    /// Until when its time is measured, while it has no puller: it does not go on.
    stopped_at: Option<Timestamp>,
    /// When the next puller may be created there.
    next_at: Option<Timestamp>,
    /// Until when a puller may come that was created with an unknown outcome.
    in_doubt_until: Option<Timestamp>,
}

/// How far a node has the images of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PullProgress {
    /// True if it has them.
    pub are_present: bool,
    /// Since when it pulls them.
    pub since: Option<Timestamp>,
    /// Since when an image cannot be pulled, and why.
    pub trouble: Option<(PodTrouble, Timestamp)>,
}

impl PullProgress {
    /// When the node has pulled for too long: for `within`, or has failed to pull for
    /// `failing_limit`. `None` if it pulls nothing.
    pub(super) fn overdue_at(
        &self,
        within: Duration,
        failing_limit: Option<Duration>,
    ) -> Option<Timestamp> {
        let too_long = self.since.map(|since| since + within);
        let failing = self.trouble.zip(failing_limit).map(|((_, since), limit)| since + limit);
        too_long.into_iter().chain(failing).min().filter(|_| !self.are_present)
    }
}

impl ImagePulls {
    /// Applies the newest version of a puller; returns whether that is new.
    pub(crate) fn apply(&mut self, puller: ImagePuller) -> bool {
        let of_node = self.pullers.entry(puller.node.clone()).or_default();
        let known = of_node.insert(puller.uid.clone(), puller.clone());
        known.is_none_or(|known| known != puller)
    }

    /// Removes a puller that was deleted; returns whether it was known.
    pub(crate) fn remove(&mut self, puller: &ImagePuller) -> bool {
        let Some(of_node) = self.pullers.get_mut(&puller.node) else { return false };
        let was_known = of_node.remove(&puller.uid).is_some();
        if of_node.is_empty() {
            self.pullers.remove(&puller.node);
        }
        was_known
    }

    /// All pullers.
    pub(crate) fn pullers(&self) -> impl Iterator<Item = &ImagePuller> {
        self.pullers.values().flat_map(BTreeMap::values)
    }

    /// Forgets what nodes have, because another revision is the target.
    pub(super) fn forget_nodes(&mut self) {
        *self = Self { pullers: std::mem::take(&mut self.pullers), ..Self::default() };
    }

    /// Forgets a node that was deleted.
    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.nodes.remove(node);
        self.need(node, None);
    }

    /// Measures anew how long nodes pull, for another attempt.
    pub(super) fn restart(&mut self) {
        for images in self.nodes.values_mut() {
            (images.progress.since, images.progress.trouble) = (None, None);
        }
    }

    /// Records what the pullers of a node show, as of `now`. `is_of_target` is whether one pulls
    /// the images of the target.
    pub(super) fn observe(
        &mut self,
        node: &Node,
        now: Timestamp,
        is_of_target: impl Fn(&ImagePuller) -> bool,
    ) -> PullProgress {
        let pullers = self.pullers.get(&node.name).into_iter().flat_map(BTreeMap::values);
        let states: Vec<PullState> =
            pullers.filter(|it| is_of_target(it)).map(|it| it.state).collect();
        let is_it = |known: &&NodeImages| known.created.is_none_or(|at| at == node.created);
        let known = self.nodes.get(&node.name).filter(is_it);
        if known.is_none() && states.is_empty() {
            self.nodes.remove(&node.name);
            return PullProgress::default();
        }
        let mut images = known.copied().unwrap_or_default();
        images.created = Some(node.created);
        let progress = &mut images.progress;
        progress.are_present |= states.contains(&PullState::Pulled);
        let trouble = states.iter().find_map(|state| match state {
            PullState::Troubled(trouble) => Some(*trouble),
            PullState::Pulling | PullState::Pulled | PullState::Ended => None,
        });
        let troubled_since = progress.trouble.map_or(now, |(_, since)| since);
        progress.trouble = trouble.map(|trouble| (trouble, troubled_since));
        let stopped = images.stopped_at.map_or(Duration::ZERO, |at| now.since(at.min(now)));
        progress.since = progress.since.map(|since| since + stopped);
        images.stopped_at = states.is_empty().then_some(now);
        if !states.is_empty() {
            progress.since.get_or_insert(now);
        }
        let progress = *progress;
        self.nodes.insert(node.name.clone(), images);
        progress
    }

    /// True if no node is of interest.
    pub(super) fn is_idle(&self) -> bool {
        let needed = [&self.needed_now, &self.needed_next, &self.overdue];
        self.nodes.is_empty() && needed.iter().all(|nodes| nodes.is_empty())
    }

    /// How far the node has the images.
    pub(super) fn progress(&self, node: &NodeName) -> PullProgress {
        self.nodes.get(node).map(|images| images.progress).unwrap_or_default()
    }

    /// Stops the clocks of a node that no longer pulls.
    pub(super) fn stop_clocks(&mut self, node: &NodeName) {
        if let Some(images) = self.nodes.get_mut(node) {
            (images.progress.since, images.progress.trouble) = (None, None);
        }
    }

    /// Records whether a node needs the images, and when.
    pub(super) fn need(&mut self, node: &NodeName, when: Option<Need>) {
        let sets = [
            (&mut self.needed_now, Need::Now),
            (&mut self.needed_next, Need::Next),
            (&mut self.overdue, Need::Overdue),
        ];
        for (set, need) in sets {
            match when == Some(need) {
                true if !set.contains(node) => drop(set.insert(node.clone())),
                true => {}
                false => drop(set.remove(node)),
            }
        }
    }

    /// True if the node is one of the next wave.
    pub(super) fn is_of_next_wave(&self, node: &NodeName) -> bool {
        self.next_wave.last().contains(node)
    }

    /// True if these are the nodes of the next wave in this phase; without one there is none.
    pub(super) fn knows_next_wave(&self, key: Option<&PhaseKey>) -> bool {
        match key {
            Some(key) => self.next_wave.get(key).is_some(),
            None => !self.next_wave.is_known(),
        }
    }

    /// Sets the nodes of the next wave. Returns those that were of it, or are.
    pub(super) fn set_next_wave(
        &mut self,
        next_wave: Option<(PhaseKey, BTreeSet<NodeName>)>,
    ) -> BTreeSet<NodeName> {
        let mut concerned = std::mem::take(&mut self.next_wave).last().clone();
        if let Some((key, nodes)) = next_wave {
            concerned.extend(nodes.iter().cloned());
            self.next_wave.set(key, nodes);
        }
        concerned
    }

    /// The pullers to delete: they are done, have ended, or nothing waits for them any more. With
    /// `is_over` that is all of them.
    pub(crate) fn unneeded(
        &self,
        is_over: bool,
        is_of_target: impl Fn(&ImagePuller) -> bool,
    ) -> impl Iterator<Item = PodReference> {
        let is_needed = move |puller: &ImagePuller| {
            let pulls = matches!(puller.state, PullState::Pulling | PullState::Troubled(_));
            !is_over && pulls && is_of_target(puller) && self.is_needed(&puller.node)
        };
        let there = self.pullers().filter(|puller| !puller.terminating);
        there.filter(move |puller| !is_needed(puller)).map(|puller| PodReference {
            name: puller.name.clone(),
            uid: puller.uid.clone(),
            node: None,
        })
    }

    /// The nodes without a puller that need one, those of the current wave first.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = &NodeName> {
        self.without_puller().filter(move |node| self.next_at(node).is_none_or(|at| at <= now))
    }

    /// When the first of those nodes is due that must wait.
    pub(crate) fn next_due_at(&self, now: Timestamp) -> Option<Timestamp> {
        let times = self.without_puller().filter_map(|node| self.next_at(node));
        times.filter(|at| *at > now).min()
    }

    /// The number of nodes that pull, or may, without those that are overdue: they must not keep
    /// others from it.
    pub(crate) fn under_way(&self, now: Timestamp) -> usize {
        let pulls = |puller: &&ImagePuller| {
            matches!(puller.state, PullState::Pulling | PullState::Troubled(_))
                && !self.overdue.contains(&puller.node)
        };
        self.pullers().filter(pulls).count() + self.in_doubt(now).count()
    }

    /// When nodes do not pull for which pullers were created with an unknown outcome.
    fn in_doubt(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        let nodes = self.nodes.iter().filter(|(node, _)| !self.pullers.contains_key(*node));
        nodes.filter_map(move |(_, images)| images.in_doubt_until.filter(|at| *at > now))
    }

    /// When the first of those nodes counts no more.
    pub(crate) fn next_settled_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.in_doubt(now).min()
    }

    /// Records that a puller may have been created, or may be yet.
    pub(crate) fn record_unknown(&mut self, node: &NodeName, now: Timestamp) {
        self.nodes.entry(node.clone()).or_default().in_doubt_until = Some(now + UNKNOWN_FOR);
    }

    /// Records that a puller is about to be created.
    pub(crate) fn record_planned(&mut self, node: &NodeName, now: Timestamp) {
        self.nodes.entry(node.clone()).or_default().next_at = Some(now + PULLER_INTERVAL);
    }

    /// Records that the node has the images.
    pub(crate) fn record_present(&mut self, node: &NodeName) {
        if let Some(images) = self.nodes.get_mut(node) {
            images.progress.are_present = true;
            self.changed.push(node.clone());
        }
    }

    /// The nodes whose state has changed since, other than by what a watch shows.
    pub(crate) fn take_changed(&mut self) -> Vec<NodeName> {
        std::mem::take(&mut self.changed)
    }

    /// Records that the last puller could not be created, or could.
    pub(crate) fn set_refusal(&mut self, why: Option<Arc<str>>) {
        self.refusal = why;
    }

    /// Why no puller can be created, while nodes need one.
    pub(super) fn refusal(&self) -> Option<&Arc<str>> {
        self.refusal.as_ref().filter(|_| self.needed().next().is_some())
    }

    /// The nodes that have pulled for too long, or cannot, and why.
    pub(super) fn overdue(&self) -> impl Iterator<Item = (NodeName, Option<PodTrouble>)> {
        let trouble = |node: &NodeName| self.puller_of(node).and_then(|(_, trouble)| trouble);
        self.overdue.iter().map(move |node| (node.clone(), trouble(node)))
    }

    /// The puller of a node, and why it cannot pull.
    pub(super) fn puller_of(&self, node: &NodeName) -> Option<(PodName, Option<PodTrouble>)> {
        let puller = self.pullers.get(node)?.values().next()?;
        let trouble = match puller.state {
            PullState::Troubled(trouble) => Some(trouble),
            PullState::Pulling | PullState::Pulled | PullState::Ended => None,
        };
        Some((puller.name.clone(), trouble))
    }

    fn is_needed(&self, node: &NodeName) -> bool {
        let sets = [&self.needed_now, &self.needed_next, &self.overdue];
        sets.into_iter().any(|set| set.contains(node))
    }

    /// The nodes that need a puller, in the order in which they get one.
    fn needed(&self) -> impl Iterator<Item = &NodeName> {
        self.needed_now.iter().chain(&self.needed_next).chain(&self.overdue)
    }

    fn without_puller(&self) -> impl Iterator<Item = &NodeName> {
        self.needed().filter(|node| !self.pullers.contains_key(*node))
    }

    fn next_at(&self, node: &NodeName) -> Option<Timestamp> {
        self.nodes.get(node)?.next_at
    }
}

/// When a node needs the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It is to get the target now.
    Now,
    /// It is one of the next wave.
    Next,
    /// Either, and it has pulled them for too long, or cannot.
    Overdue,
}
