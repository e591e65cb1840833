//! The knowledge of a replica about a DaemonSet when it made a plan: the objects that its watches
//! had shown, and the outcomes of its own writes.

mod revisions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use everynode_core::api::{AdmissionChange, Timestamp};
use everynode_core::plan::{Outcome, Write};

use super::answer::Answer;
use super::history::{History, Objects};
use super::in_doubt::ChangeInDoubt;
use super::model::{
    Budget, ConfigMap, DaemonSet, Eligibility, Metadata, Namespace, Node, Pod, PodStatus, Policy,
    Position, Record, Revision,
};
use super::stage::{Stage, Wanted};
use super::{Property, Violation};
use crate::feeds::Feeds;
use crate::machine::CLOCK_TOLERANCE_MS;
use crate::role::Role;
use crate::statement::{StatedNode, Statement};
use crate::view::View;

pub(super) use revisions::Revisions;

/// Longer than a creation waits that has found its name taken, and its answer is delayed (C43).
const NAME_TAKEN_MS: i64 = 15_000;
/// How long a write of unknown outcome counts: an API server may execute it until then (C35, C52).
const UNKNOWN_FOR_MS: i64 = 60_000;

/// The times that the clocks of a replica showed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    /// The time.
    pub now: Timestamp,
    /// The same by the wall clock.
    pub wall: Timestamp,
    /// The same by the wall clock as the replica follows it.
    pub followed: Timestamp,
}

/// The objects that the watches of a replica have shown.
pub(super) struct Seen<'a> {
    /// The role of the replica.
    pub role: Role,
    pub feeds: Feeds,
    /// The UIDs of the orphan pods that it knows, unless it knows all that the watch has shown.
    pub known: Option<&'a BTreeSet<String>>,
    /// The pods that a request without an answer may have begun to change.
    pub in_doubt: Vec<ChangeInDoubt>,
}

/// The knowledge of a replica about a DaemonSet.
pub(super) struct Situation<'a> {
    pub ds: &'a DaemonSet,
    /// The role of the replica.
    pub role: Role,
    /// The time.
    pub now: Timestamp,
    /// The same by the wall clock of the replica.
    wall_clock: Timestamp,
    /// The stage of the rollout, by its record and its policy.
    pub stage: Stage<'a>,
    /// True if the rollout waits for a window (G5).
    pub awaits_window: bool,
    /// The nodes that the replica has opened to the rollout.
    pub open_nodes: Arc<BTreeSet<String>>,
    /// By name: all nodes, and those that do not exist but have pods of the DaemonSet.
    pub nodes: BTreeMap<&'a str, NodeView<'a>>,
    /// How many nodes were deleted since the attempt began.
    pub gone: usize,
    /// All pods, by UID.
    pub pods: Objects<'a, Pod>,
    /// All ConfigMaps, by UID, once they are known.
    pub config_maps: Option<Objects<'a, ConfigMap>>,
    /// All revisions, by UID.
    pub all_revisions: Objects<'a, Revision>,
    pub revisions: Revisions<'a>,
    /// The hashes of up-to-date pods (C42, C45).
    pub current_hashes: BTreeSet<&'a str>,
}

/// A node, and the DaemonSet's pods there.
pub(super) struct NodeView<'a> {
    pub node: Option<&'a Node>,
    /// By the revision that governs the node (G1).
    pub eligibility: Eligibility,
    /// Which pods the rollout wants here.
    pub wanted: Wanted,
    /// The state of the node that the replica states while a policy guards the rollout (G31).
    pub stated: Option<StatedNode>,
    /// The node as it was when its wave was opened: it stays one of its wave, also if its labels
    /// change (G11).
    pub opened: Option<&'a Node>,
    /// Its eligibility by the base, if that is known.
    pub by_base: Option<Eligibility>,
    /// Yes if the target must not run on it, although the node has kept what it is (G42).
    pub is_excluded: Answer,
    /// True if it is not known which revision governs the node, which may therefore need no pod.
    pub is_doubtful: bool,
    /// True if the node counts for the waves of a policy: it has a pod or should run one, or it
    /// is open.
    pub is_member: bool,
    /// By the target.
    pub by_target: Eligibility,
    /// True if a pod of a former DaemonSet of the name has yet to end there (C36).
    pub has_former: bool,
    /// Its pods and the orphans that it adopts, by age (C25).
    pub pods: Vec<OurPod<'a>>,
    /// A creation of unknown outcome whose pod has not been seen.
    pub pending: Option<Pending<'a>>,
    /// True if the replica has seen the pod of a creation of unknown outcome, before or after. If
    /// that pod is gone or has another owner, the replica may still wait for it.
    pub has_seen_pending: bool,
}

/// A pod of the DaemonSet, or an orphan that it adopts.
#[derive(Clone, Copy)]
pub(super) struct OurPod<'a> {
    pub pod: &'a Pod,
    pub is_orphan: bool,
    /// True if the pod is terminating, or the replica has deleted it.
    pub is_going: bool,
}

/// A creation of unknown outcome.
#[derive(Clone, Copy)]
pub(super) struct Pending<'a> {
    pub name: &'a str,
    /// When the first of the consecutive creations ended.
    pub since: Timestamp,
}

/// The active pods of a node, by revision: those that are neither orphans nor going (C52).
#[derive(Default)]
pub(super) struct Active<'a> {
    pub new: Vec<&'a Pod>,
    pub old: Vec<&'a Pod>,
}

impl Clocks {
    pub(super) fn of(view: &View) -> Self {
        Self { now: view.planned_at, wall: view.wall_clock, followed: view.followed_clock }
    }

    /// Clocks that all show the time.
    pub(super) fn right(now: Timestamp) -> Self {
        Self { now, wall: now, followed: now }
    }
}

impl<'a> Situation<'a> {
    /// The situation that a plan was made in; `None` if its DaemonSet is not known.
    pub(super) fn of(view: &'a View, history: &'a History) -> Option<Self> {
        let known = Some(&*view.stated.orphans);
        let (daemon_set, stated) = (&view.daemon_set, view.stated.clone());
        let in_doubt = ChangeInDoubt::all(view);
        let seen = Seen { role: view.role, feeds: view.feeds, known, in_doubt };
        let mut situation = Self::seen(daemon_set, &seen, Clocks::of(view), stated, history)?;
        if view.is_waiting && situation.revisions.current.is_empty() {
            // A plan that repeats deletions creates no revision first, so the last one counts, even
            // if another owner's revision stores the template. If two have its number, it is not
            // known which; nor is it if a later one, or the one that stored the template, is
            // deleted, which a replica knows or not.
            let old = &situation.revisions.old;
            let number = old.last().map(|last| last.number);
            let last = old.iter().filter(|revision| Some(revision.number) == number);
            situation.current_hashes.extend(last.filter_map(|last| last.metadata.hash()));
            let ds = situation.ds;
            let states = history.revisions.states().map(|(_, revision)| revision);
            let may_count = |it: &&Revision| ds.is_stored_by(it) || Some(it.number) > number;
            let own = states.filter(|it| may_count(it) && ds.owns(&it.metadata));
            situation.current_hashes.extend(own.filter_map(|own| own.metadata.hash()));
        }
        if situation.revisions.current.is_empty() {
            // A creation that has found its name taken by the same template uses the hash of that
            // revision for a while, also if it was changed or deleted meanwhile (C43).
            let since = Timestamp(view.planned_at.0 - NAME_TAKEN_MS);
            situation.current_hashes.extend(history.former_hashes(situation.ds, since));
            // Which of these it has read, it states.
            situation.current_hashes.retain(|hash| view.stated.current_hashes.contains(*hash));
        }
        situation.apply_outcomes(view, history);
        Some(situation)
    }

    /// The situation that watches have shown that are this far, without the orphan pods that the
    /// replica does not know.
    pub(super) fn seen(
        daemon_set: &str,
        seen: &Seen<'_>,
        clocks: Clocks,
        stated: Statement,
        history: &'a History,
    ) -> Option<Self> {
        let &Seen { role, feeds, known, ref in_doubt } = seen;
        let daemon_sets = history.daemon_sets(role).seen(feeds.daemon_sets);
        let Statement { open_nodes, nodes: stated, copies, .. } = stated;
        let known_ds = history.with_copies(daemon_sets.get(daemon_set)?, &copies);
        let mut pods = history.pods.seen(feeds.pods);
        if let Some(known) = known {
            pods.retain(|uid, pod| pod.metadata.controller.is_some() || known.contains(*uid));
        }
        for change in in_doubt {
            change.apply(&mut pods, feeds.pods, history);
        }
        let all_revisions = history.revisions.seen(feeds.revisions);
        let revisions = Revisions::of(known_ds, &all_revisions);
        let record = revisions.current.last().and_then(|current| current.record.as_ref());
        let is_promoted = record.is_some_and(Record::is_promoted_in_full);
        let ds = known_ds.counting(is_promoted);
        let namespaces = history.namespaces.seen(feeds.namespaces);
        let is_ours = |namespace: &&Namespace| namespace.metadata.name == ds.metadata.namespace;
        let namespace = namespaces.into_values().find(is_ours);
        let mut nodes = BTreeMap::new();
        for node in history.nodes.seen(feeds.nodes).into_values() {
            let eligibility = ds.placement.eligibility(node, namespace);
            let by_target = eligibility;
            let on_node =
                NodeView { node: Some(node), eligibility, by_target, ..NodeView::default() };
            nodes.insert(node.metadata.name.as_str(), on_node);
        }
        let mut current_hashes: BTreeSet<&str> =
            revisions.current.iter().filter_map(|revision| revision.metadata.hash()).collect();
        if revisions.current.is_empty() {
            current_hashes = history.stored_by_others(ds);
        }
        let stage =
            Stage::of(role, ds, (&revisions.current, &revisions.old), clocks.followed, history);
        let Clocks { now, wall: wall_clock, followed } = clocks;
        let mut situation = Self {
            ds,
            role,
            now,
            wall_clock,
            stage,
            awaits_window: false,
            open_nodes,
            nodes,
            gone: 0,
            pods,
            config_maps: history.known_config_maps(feeds.config_maps),
            all_revisions,
            revisions,
            current_hashes,
        };
        let pods: Vec<&Pod> = situation.pods.values().copied().collect();
        for pod in pods {
            situation.add(pod);
        }
        situation.awaits_window = situation.must_await_window(followed);
        if situation.is_guarded() {
            for (name, on_node) in &mut situation.nodes {
                on_node.stated = stated.get(*name).copied();
                on_node.opened = on_node.opened(history);
            }
        }
        situation.apply_guard(namespace);
        situation.determine_exclusions(history);
        situation.gone = history.nodes.removed_after(situation.attempt(history)).count();
        Some(situation)
    }

    fn add(&mut self, pod: &'a Pod) {
        if self.ds.is_former(pod) {
            let node = pod.node_name.as_deref().and_then(|node| self.nodes.get_mut(node));
            node.into_iter().for_each(|on_node| on_node.has_former = true);
        }
        let is_orphan = self.ds.adopts(&pod.metadata);
        let Some(name) = pod.node().filter(|_| is_orphan || self.ds.owns(&pod.metadata)) else {
            return;
        };
        let pods = &mut self.nodes.entry(name).or_default().pods;
        pods.push(OurPod { pod, is_orphan, is_going: pod.metadata.is_terminating });
        pods.sort_by_key(|our| {
            (our.pod.node_name.is_none(), &our.pod.metadata.created, &our.pod.metadata.name)
        });
    }

    /// Adds what the replica knows of its own writes, though its watches may not have shown it.
    fn apply_outcomes(&mut self, view: &'a View, history: &'a History) {
        let mut deleted: BTreeMap<String, Option<Timestamp>> = BTreeMap::new();
        for outcome in &view.outcomes {
            match (&outcome.result.write, &outcome.result.outcome) {
                // A plan that waits for the pod does not know it, so it repeats the deletions that
                // were right without it.
                (
                    Write::CreatePod(_),
                    Outcome::Changed { change: AdmissionChange::Node(_), .. },
                ) if view.is_waiting => {}
                (
                    Write::CreatePod(new),
                    Outcome::Written { uid, resource_version }
                    | Outcome::Changed { uid, resource_version, .. },
                ) => {
                    if let Some(on_node) = self.nodes.get_mut(new.node.as_str()) {
                        on_node.pending = None;
                    }
                    let uid = uid.to_string();
                    if resource_version.0 > view.feeds.pods
                        && !self.pods.contains_key(uid.as_str())
                        && let Some(pod) = history.pods.at(&uid, resource_version.0)
                    {
                        self.pods.insert(pod.metadata.uid.as_str(), pod);
                        self.add(pod);
                    }
                }
                (Write::CreatePod(new), Outcome::Unknown { .. }) => {
                    let (at, node) = (outcome.arrived_at, new.node.as_str());
                    let (Some(name), Some(on_node)) = (&new.name, self.nodes.get_mut(node)) else {
                        continue;
                    };
                    let is_recent = |pending: &Pending| at.0 < pending.since.0 + UNKNOWN_FOR_MS;
                    let since = on_node.pending.filter(is_recent).map_or(at, |old| old.since);
                    on_node.pending = Some(Pending { name: name.as_str(), since });
                }
                (Write::DeletePod(pod), Outcome::Written { .. } | Outcome::Gone) => {
                    deleted.insert(pod.uid.to_string(), None);
                }
                (Write::DeletePod(pod), Outcome::Unknown { .. }) => {
                    deleted.entry(pod.uid.to_string()).or_insert(Some(outcome.arrived_at));
                }
                _ => {}
            }
        }
        // A deletion that is sent again is judged as if it were new.
        for write in &view.writes {
            if let Write::DeletePod(pod) = write {
                deleted.remove(&pod.uid.to_string());
            }
        }
        let version = view.feeds.pods;
        deleted.retain(|uid, since| since.is_none() || !self.has_been_lost(uid, version, history));
        for (name, on_node) in &mut self.nodes {
            for our in &mut on_node.pods {
                our.is_going |= deleted.get(&our.pod.metadata.uid).is_some_and(|since| {
                    since.is_none_or(|since| view.planned_at.0 < since.0 + UNKNOWN_FOR_MS)
                });
            }
            let is_seen = |pending: &Pending| {
                let mut pods = history.pods.states().filter(|(at, _)| *at <= version);
                pods.any(|(_, pod)| {
                    pod.metadata.name == pending.name
                        && pod.node() == Some(*name)
                        && self.ds.owns(&pod.metadata)
                })
            };
            on_node.has_seen_pending = on_node.pending.as_ref().is_some_and(is_seen);
            on_node.pending = on_node.pending.filter(|_| !on_node.has_seen_pending);
        }
    }

    /// True if the replica has seen that another controller took a pod of the DaemonSet. It no
    /// longer waits for its deletion (C60): if the pod comes back, it is one like any other.
    fn has_been_lost(&self, uid: &str, version: u64, history: &History) -> bool {
        let states = history.pods.states();
        let mut seen = states.filter(|(at, pod)| *at <= version && pod.metadata.uid == *uid);
        let is_ours = |pod: &Pod| pod.metadata.is_controlled_by(&self.ds.metadata.uid);
        seen.any(|(_, pod)| is_ours(pod))
            && seen.any(|(_, pod)| pod.metadata.controller.is_some() && !is_ours(pod))
    }

    /// A violation of a property by what is done for the DaemonSet.
    pub(super) fn violation(&self, property: Property, problem: impl Display) -> Violation {
        let Metadata { namespace, name, .. } = &self.ds.metadata;
        Violation { property, message: format!("{namespace}/{name}: {problem}") }
    }

    /// True if a node is in the group of a position.
    pub(super) fn is_in(&self, position: &Position, on_node: &NodeView<'a>) -> bool {
        let policy = self.ds.policy.valid().zip(on_node.labels());
        *position == Position::AllNodes
            || policy.is_some_and(|(policy, labels)| policy.is_in(position, labels))
    }

    /// Number of nodes that should run a pod.
    pub(super) fn desired(&self) -> usize {
        self.nodes.values().filter(|on| on.eligibility == Eligibility::ShouldRun).count()
    }

    /// The budget of the rolling update.
    pub(super) fn budget(&self) -> Option<Budget> {
        self.ds.strategy.budget(self.desired())
    }

    /// True if a revision of the DaemonSet stores the template and has a hash (C40, C42).
    pub(super) fn has_current_hash(&self) -> bool {
        self.revisions.current.iter().any(|revision| revision.metadata.hash().is_some())
    }

    /// True if pods of the node may be of the current revision by their generation alone: they show
    /// no hash, or that of another DaemonSet. Until a revision stores the template, the generation
    /// of an earlier one counts (C40), whichever that was.
    pub(super) fn is_generation_doubtful(&self, on_node: &NodeView) -> bool {
        let is_own = |hash: &str| {
            self.revisions.old.iter().any(|revision| revision.metadata.hash() == Some(hash))
        };
        let shows_generation_only =
            |pod: &Pod| !pod.metadata.hash().is_some_and(is_own) && pod.generation().is_some();
        self.revisions.current.is_empty()
            && on_node.pods.iter().any(|our| shows_generation_only(our.pod))
    }

    /// True if the pod has the current template with its copies of ConfigMaps (C45, G58).
    pub(super) fn is_updated(&self, pod: &Pod) -> bool {
        pod.metadata.hash().is_some_and(|hash| self.current_hashes.contains(hash))
            || self.ds.has_generation(pod)
                && !self.is_of_another_template(pod)
                && self.ds.has_copies_of(pod)
    }

    /// True if the pod has the hash of a revision that stores another template (C45).
    fn is_of_another_template(&self, pod: &Pod) -> bool {
        let orphans = self.revisions.orphans.iter().filter(|it| !self.ds.is_stored_by(it));
        let others = self.revisions.old.iter().chain(orphans).filter(|it| !it.template.is_null());
        let mut hashes = others.map(|it| it.metadata.pod_hash());
        hashes.any(|hash| pod.metadata.hash() == Some(hash))
    }

    /// The number of pods of a revision, the target or an older one.
    pub(super) fn pods_of(&self, revision: &Revision, target: &Revision) -> usize {
        let is_target = revision.metadata.uid == target.metadata.uid;
        let is_its = |pod: &&&Pod| match is_target {
            true => self.is_updated(pod),
            false => pod.metadata.hash() == Some(revision.metadata.pod_hash()),
        };
        self.our_pods().filter(is_its).count()
    }

    /// True if any pod is not of the target.
    pub(super) fn has_outdated_pods(&self) -> bool {
        self.our_pods().any(|pod| !self.is_updated(pod))
    }

    pub(super) fn our_pods(&self) -> impl Iterator<Item = &&Pod> {
        let is_ours = |pod: &&&Pod| self.ds.owns(&pod.metadata) || self.ds.adopts(&pod.metadata);
        self.pods.values().filter(is_ours)
    }

    /// True if the pod is available by the wall clock (C54).
    pub(super) fn is_surely_available(&self, pod: &Pod) -> bool {
        let earliest = Timestamp(self.wall_clock.0 - CLOCK_TOLERANCE_MS);
        pod.is_available(self.ds.min_ready_seconds, earliest)
    }

    /// True if the pod may be available: by the wall clock, or because it has been ready for long
    /// enough although the wall clock is behind (C54).
    pub(super) fn may_be_available(&self, pod: &Pod) -> bool {
        let latest = Timestamp(self.wall_clock.0.max(self.now.0) + CLOCK_TOLERANCE_MS);
        pod.is_available(self.ds.min_ready_seconds, latest)
    }

    /// The active pods of a node that keeps its pods, or going back keeps one of the target until
    /// the budget allows its removal (G41).
    pub(super) fn active(&self, on_node: &NodeView<'a>) -> Active<'a> {
        let mut active = Active::default();
        let stays =
            |pod: &Pod| on_node.eligibility.keeps() || self.is_target_on_its_way_back(on_node, pod);
        let pods = on_node.pods.iter().filter(|our| !our.is_orphan && !our.is_going);
        for our in pods.filter(|our| stays(our.pod)) {
            let is_new = self.wants(on_node, our.pod);
            let pods = if is_new { &mut active.new } else { &mut active.old };
            pods.push(our.pod);
        }
        active
    }

    /// True if the node keeps its old pod because it would get no new one (C57), or because its
    /// kubelet does not answer (C58).
    pub(super) fn takes_no_part(&self, on_node: &NodeView<'a>, active: &Active<'_>) -> bool {
        let has_old = matches!((&active.new[..], &active.old[..]), ([], [_]));
        !self.is_guarded()
            && (on_node.eligibility == Eligibility::MayKeep && has_old
                || self.was_unreachable_before(on_node, active))
    }

    /// True if the kubelet of the node does not answer, and the update had not begun there before:
    /// nobody had deleted its old pod, or created its new one (C58).
    fn was_unreachable_before(&self, on_node: &NodeView<'a>, active: &Active<'_>) -> bool {
        let Some(since) = on_node.node.and_then(|node| node.unreachable_since()) else {
            return false;
        };
        let is_later = |at: Option<Timestamp>| at.is_some_and(|at| at >= since);
        match (&active.new[..], &active.old[..]) {
            ([], [_]) => true,
            ([new], [] | [_]) => is_later(new.created()),
            ([], []) => {
                let mut here = on_node.occupants().peekable();
                let began = |pod: &Pod| pod.metadata.deleted_at.or(pod.created());
                here.peek().is_some() && here.all(|our| is_later(began(our.pod)))
            }
            _ => false,
        }
    }

    /// True if the node is one of those of the budget, and has no pod that `is_available` (C52).
    pub(super) fn is_unavailable(
        &self,
        on_node: &NodeView<'a>,
        is_available: impl Fn(&Pod) -> bool,
    ) -> bool {
        let counts = on_node.eligibility == Eligibility::ShouldRun && !on_node.is_doubtful
            || on_node.node.is_some() && on_node.occupants().next().is_some();
        let active = self.active(on_node);
        if self.takes_no_part(on_node, &active) {
            return false;
        }
        let has_one = match (&active.new[..], &active.old[..]) {
            ([pod], []) | ([], [pod]) => is_available(pod),
            _ => false,
        };
        counts && !has_one
    }

    /// The nodes that use up `maxUnavailable` without a policy (C52).
    pub(super) fn unavailable_nodes(&self, is_available: impl Fn(&Pod) -> bool) -> Vec<&str> {
        let nodes = self.nodes.iter().filter(|(_, on)| self.is_unavailable(on, &is_available));
        nodes.map(|(name, _)| *name).collect()
    }

    /// Number of nodes that use up `maxSurge`: a new pod beside the old one is not available (C53).
    pub(super) fn surging_nodes(&self, is_available: impl Fn(&Pod) -> bool) -> usize {
        self.nodes.values().filter(|on_node| self.uses_surge(on_node, &is_available)).count()
    }

    /// True if the pods of a node use up `maxSurge`.
    pub(super) fn uses_surge(
        &self,
        on_node: &NodeView<'a>,
        is_available: impl Fn(&Pod) -> bool,
    ) -> bool {
        let active = self.active(on_node);
        match (&active.new[..], &active.old[..]) {
            ([], []) | ([_], []) | ([], [_]) => false,
            _ if self.takes_no_part(on_node, &active) => false,
            ([new], [_]) => !is_available(new),
            _ => true,
        }
    }

    /// True if a pod is still there that has this hash (C44).
    pub(super) fn is_used(&self, hash: &str) -> bool {
        self.pods.values().any(|pod| {
            let is_ours = self.ds.owns(&pod.metadata) || self.ds.adopts(&pod.metadata);
            // A pod that is being changed uses both revisions (G56).
            let was = pod.change.as_ref().and_then(|change| change.label.as_deref());
            is_ours && (pod.metadata.hash() == Some(hash) || was == Some(hash))
        })
    }
}

impl Default for NodeView<'_> {
    fn default() -> Self {
        Self {
            node: None,
            eligibility: Eligibility::NoNode,
            wanted: Wanted::Target,
            stated: None,
            opened: None,
            by_base: None,
            is_excluded: Answer::Maybe,
            is_doubtful: false,
            is_member: false,
            by_target: Eligibility::NoNode,
            has_former: false,
            pods: Vec::new(),
            pending: None,
            has_seen_pending: false,
        }
    }
}

impl<'a> NodeView<'a> {
    /// The pods that count: all but those that are terminating and have ended (C22).
    pub(super) fn occupants(&self) -> impl Iterator<Item = &OurPod<'a>> {
        self.pods.iter().filter(|our| {
            !(our.is_orphan || our.pod.metadata.is_terminating && our.pod.has_ended())
        })
    }

    /// The pods of the DaemonSet that it may delete: they are not going yet.
    pub(super) fn deletable(&self) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().filter(|our| !our.is_orphan && !our.is_going).map(|our| our.pod)
    }

    /// Those of them that have not ended, by age.
    pub(super) fn running(&self) -> impl Iterator<Item = &'a Pod> {
        self.deletable().filter(|pod| pod.status == PodStatus::Unfinished)
    }

    /// True if the policy excludes the node from rollouts; not if its wave is open, because the
    /// rollout had taken its old pod before (G33).
    pub(super) fn is_held(&self, policy: Option<&Policy>) -> bool {
        let node = self.node.zip(policy).filter(|_| !self.is_open());
        node.is_some_and(|(node, policy)| policy.holds(&node.metadata.labels))
    }

    /// True if the wave of the node is open.
    fn is_open(&self) -> bool {
        self.stated.is_some_and(|stated| stated.in_waves.is_open)
    }

    /// The labels by which the node counts for waves.
    pub(super) fn labels(&self) -> Option<&'a BTreeMap<String, String>> {
        Some(&self.opened.or(self.node)?.metadata.labels)
    }

    fn opened(&self, history: &'a History) -> Option<&'a Node> {
        let opened = self.stated?.in_waves.opened.filter(|_| self.is_open())?;
        history.nodes.at(&self.node?.metadata.uid, opened)
    }

    /// True if the node should run a pod and has none (C22, C23).
    pub(super) fn needs_pod(&self, surges: bool) -> bool {
        let has_orphan = self.pods.iter().any(|our| our.is_orphan);
        let mut occupants = self.occupants();
        self.eligibility == Eligibility::ShouldRun
            && !has_orphan
            && (surges || !self.has_former)
            && occupants.all(|our| surges && our.is_going)
    }
}
