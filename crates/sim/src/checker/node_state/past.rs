//! What has happened on the nodes of a guarded rollout, as far as the watches of a replica have
//! shown it.

use std::collections::BTreeMap;

use everynode_core::api::Timestamp;

use crate::checker::history::History;
use crate::checker::model::{Eligibility, Node, Phase, Pod, Revision};
use crate::checker::situation::Situation;
use crate::checker::stage::Stage;
use crate::checker::standing::Memory;
use crate::role::Role;

use super::{TOLERANCE_MS, UNORDERED_MS};

/// The states of a pod, with their versions.
type Seen<'p> = Vec<(u64, Option<&'p Pod>)>;

/// What has happened on a node. Times are those that have passed since.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// At most since when the rollout has been at work on the node: a pod of the target is there,
    /// or the last pod of another revision ends or is gone.
    pub elapsed_ms: i64,
    /// At least since then: what was done on a node that has gone back since does not count.
    pub least_elapsed_ms: i64,
    /// Since when the replica has surely followed the pods.
    pub known_ms: i64,
    /// Since the attempt began.
    pub attempt_ms: i64,
    /// Whether another attempt came before it.
    pub is_repeated: bool,
    /// Whether the replica has surely seen a pod of another revision there since then.
    pub has_seen_old: bool,
    /// Whether one of them may have been available when the rollout began on the node.
    pub may_have_been_well: bool,
    /// Whether the last one of them surely was, to its end.
    pub was_surely_well: bool,
    /// Whether the first pod was one of the target, as the replica has surely seen.
    pub has_surely_joined: bool,
    /// Whether the replica may take it for the first: there was no other, or it has not seen that
    /// one, and the node is younger than the attempt by its record.
    pub may_have_joined: bool,
    /// The shortest time by which it may have been judged, with `minReadySeconds`.
    pub limit_ms: Option<i64>,
    /// Since when the pod of another revision that is there has not been available; `None` if it
    /// is not known that there is one, and that it is not.
    pub outage_ms: Option<i64>,
    /// Since when a pod that was surely available to the end is no longer so; `None` if none was.
    pub available_ms: Option<i64>,
    /// For how long at least the replica has surely seen that no pod there is ready.
    pub without_ready_ms: i64,
    /// Whether the node was surely not ready when this replica deleted the old pod.
    pub was_surely_unready: bool,
    /// Since when the node has not been ready.
    pub down_ms: Option<i64>,
    /// Since when the node has not been ready, or has been leaving.
    pub absent_ms: Option<i64>,
    /// Whether the target must not run on the node as it was when the attempt began, or when it was
    /// added.
    pub was_excluded: bool,
    /// Since when a pod of another revision ends there that the replica itself has deleted.
    pub begun_by_replica_ms: Option<i64>,
    /// Whether it may have deleted one that is still there.
    pub is_deletion_unknown: bool,
    /// Whether the rollout may have been done with the node: a pod of the target was ready there,
    /// or the node had to run none.
    pub may_have_been_done: bool,
    /// Whether a pod of the target was ever ready there.
    pub was_target_ready: bool,
    /// Whether the rollout began on the node after it was complete.
    pub was_begun_when_complete: bool,
    /// Whether the node has been ready and has not been leaving since its creation.
    pub was_always_present: bool,
    /// The most restarts of a container of a pod of the target there.
    pub restarts: u64,
    /// At most so many of them were before the attempt.
    pub restarts_before: u64,
}

/// What is gathered of the pods of a node.
#[derive(Default)]
struct Pods {
    /// The version of the node's creation: a pod of an earlier node of that name is none of it.
    node_since: u64,
    target_since: Option<u64>,
    old_until: Option<u64>,
    had_old: bool,
    /// Whether one of another revision was there since the node's creation.
    had_own_old: bool,
    last_old_was_well: bool,
    /// Whether a pod of the target has gone, maybe for another target.
    has_lost_target: bool,
}

impl Situation<'_> {
    /// What has happened on each node, by name.
    pub(super) fn past(&self, memory: &Memory, history: &History) -> BTreeMap<&str, Past> {
        let attempt = self.attempt(history);
        let ago = |version: u64| self.now.0 - history.time_of(version).0;
        let looked = memory.feeds.pods_listed.max(self.guarded_since(memory, history));
        let known = looked.max(attempt);
        let is_target_since = self.is_target_since(history);
        let mut all: BTreeMap<&str, (Past, Pods)> = BTreeMap::new();
        for (name, on_node) in &self.nodes {
            let mut states = on_node.node.map(|node| history.nodes.of(&node.metadata.uid));
            let created = states.as_mut().and_then(Iterator::next).map_or(0, |(at, _)| at);
            let is_excluded =
                |node: &Node| self.ds.placement.eligibility(node, None) == Eligibility::MustNotRun;
            let at_first = |node: &Node| {
                history.nodes.at(&node.metadata.uid, attempt.max(created)).is_some_and(is_excluded)
            };
            let need_none = |node: &Node| {
                let mut states = history.nodes.of(&node.metadata.uid);
                states.any(|(_, node)| {
                    self.ds.placement.eligibility(node, None) != Eligibility::ShouldRun
                })
            };
            let past = Past {
                may_have_been_done: on_node.node.is_some_and(need_none),
                known_ms: ago(memory.feeds.pods_listed),
                attempt_ms: ago(attempt),
                is_repeated: self.is_repeated(history),
                without_ready_ms: ago(looked.max(created)),
                was_excluded: on_node.node.is_some_and(at_first),
                ..self.absence(on_node.node, memory.feeds.nodes, history)
            };
            all.insert(name, (past, Pods { node_since: created, ..Pods::default() }));
        }
        for (uid, states) in history.pods.histories() {
            let seen = states.iter().take_while(|(at, _)| *at <= memory.feeds.pods);
            let seen: Vec<(u64, Option<&Pod>)> =
                seen.map(|(at, pod)| (*at, pod.as_deref())).collect();
            let owned = |pod: &&Pod| self.ds.owns(&pod.metadata);
            let Some(last) = seen.iter().rev().find_map(|(_, pod)| pod.filter(owned)) else {
                continue;
            };
            let Some((past, pods)) = last.node().and_then(|node| all.get_mut(node)) else {
                continue;
            };
            self.add_readiness(&seen, history, past);
            for (part, is_target) in self.parts(&seen, last) {
                if is_target {
                    self.add_target(&part, attempt, history, (past, pods));
                    continue;
                }
                self.add_old(&part, known, history, (past, pods));
                past.is_deletion_unknown |= memory.may_have_begun(uid, &self.current_hashes);
                // One that has ended is deleted whatever its revision.
                if !memory.has_begun(uid, &self.current_hashes) || last.has_ended() {
                    continue;
                }
                let is_changed = |pod: &Pod| pod.change.is_some() && self.is_updated(pod);
                let ends = |pod: &Pod| pod.metadata.is_terminating || is_changed(pod);
                let mut all = states.iter();
                let end = all.find(|(_, pod)| pod.as_deref().is_none_or(ends));
                let end = end.map(|(at, _)| *at).filter(|end| *end > is_target_since);
                past.begun_by_replica_ms = end.map(ago);
                past.was_surely_unready = end.is_some_and(|end| {
                    end > attempt && self.was_surely_unready(last.node(), end, history)
                });
            }
        }
        let finished = all
            .into_iter()
            .map(|(name, (past, pods))| (name, self.finish(past, &pods, attempt, memory, history)));
        finished.collect()
    }

    /// The states of a pod, each part with whether it is of the target. One that is changed in
    /// place becomes one of another revision without being deleted: then its part ends as if it
    /// were (G56).
    fn parts<'p>(&self, seen: &[(u64, Option<&'p Pod>)], last: &Pod) -> Vec<(Seen<'p>, bool)> {
        let was_changed = seen.iter().any(|(_, pod)| pod.is_some_and(|it| it.change.is_some()));
        if !was_changed {
            return vec![(seen.to_vec(), self.is_updated(last))];
        }
        let mut parts: Vec<(Seen<'_>, bool)> = Vec::new();
        for (at, pod) in seen {
            let is_target = pod.map(|pod| self.is_updated(pod));
            match (parts.last_mut(), is_target) {
                (Some((part, was_target)), is_target)
                    if is_target.is_none_or(|is_target| is_target == *was_target) =>
                {
                    part.push((*at, *pod));
                }
                (before, is_target) => {
                    before.into_iter().for_each(|(part, _)| part.push((*at, None)));
                    parts.push((vec![(*at, *pod)], is_target.unwrap_or_default()));
                }
            }
        }
        parts
    }

    /// Adds a pod of the target.
    fn add_target(
        &self,
        seen: &[(u64, Option<&Pod>)],
        attempt: u64,
        history: &History,
        (past, pods): (&mut Past, &mut Pods),
    ) {
        let first = seen[0].0;
        pods.target_since = Some(pods.target_since.map_or(first, |old| old.min(first)));
        past.was_target_ready |= seen.iter().any(|(_, pod)| pod.is_some_and(|pod| pod.is_ready));
        past.may_have_been_done |= past.was_target_ready;
        let is_gone = |pod: &Option<&Pod>| pod.is_none_or(|pod| pod.metadata.is_terminating);
        pods.has_lost_target |= seen.iter().any(|(_, pod)| is_gone(pod));
        // Only of a second attempt they are counted anew.
        let until = match self.is_repeated(history) {
            true => history.time_of(attempt).0 + UNORDERED_MS,
            false => i64::MIN,
        };
        let most = |until: i64| {
            let states = seen.iter().filter(|(at, _)| history.time_of(*at).0 <= until);
            states.filter_map(|(_, pod)| Some(pod.as_ref()?.restarts)).max().unwrap_or_default()
        };
        past.restarts = past.restarts.max(most(i64::MAX));
        past.restarts_before = past.restarts_before.max(most(until));
        // Those that a change causes do not count, nor do those before it (G56).
        let changing = seen.iter().filter_map(|(_, pod)| pod.filter(|it| it.change.is_some()));
        let by_change = changing.map(|pod| pod.restarts).max().unwrap_or_default();
        past.restarts_before = past.restarts_before.max(by_change);
    }

    /// Adds when a pod of any revision was ready.
    fn add_readiness(&self, seen: &[(u64, Option<&Pod>)], history: &History, past: &mut Past) {
        let long_s = 2 * self.ds.min_ready_seconds + 1 + UNORDERED_MS / 1_000;
        for (index, (at, pod)) in seen.iter().enumerate() {
            let Some(pod) = pod.filter(|pod| pod.is_ready) else { continue };
            let until = seen.get(index + 1).map_or(self.now, |(at, _)| history.time_of(*at));
            let ago_ms = self.now.0 - until.0;
            past.without_ready_ms = past.without_ready_ms.min(ago_ms);
            let was_seen = until.0 - history.time_of(*at).0 >= UNORDERED_MS;
            let is_active = self.ds.owns(&pod.metadata) && !pod.metadata.is_terminating;
            if was_seen && is_active && !pod.has_ended() && pod.is_available(long_s, until) {
                let latest = past.available_ms.map_or(ago_ms, |other| other.min(ago_ms));
                past.available_ms = Some(latest);
            }
        }
    }

    /// Whether the node was not ready at a version, and long before and after it.
    fn was_surely_unready(&self, node: Option<&str>, version: u64, history: &History) -> bool {
        let Some(node) = node.and_then(|name| self.nodes.get(name)?.node) else { return false };
        let at = history.time_of(version).0;
        let mut is_ready = None;
        for (since, state) in history.nodes.of(&node.metadata.uid) {
            let since = history.time_of(since).0;
            if since > at - UNORDERED_MS && (is_ready != Some(false) || since > at + UNORDERED_MS) {
                break;
            }
            is_ready = Some(state.is_ready());
        }
        is_ready == Some(false)
    }

    /// The version with which the attempt began: that of its first record.
    pub(in crate::checker) fn attempt(&self, history: &History) -> u64 {
        let (Stage::Moving(record), Some(current)) = (&self.stage, self.revisions.current.last())
        else {
            return history.version();
        };
        let mut records = history.records(&current.metadata.uid);
        let first = records.find(|(_, other)| other.began == record.began);
        first.map_or(history.version(), |(at, _)| at)
    }

    /// The version since which the target surely has been the target: with another one in between,
    /// whose revision changed, the rollout begins anew on each node (G33).
    fn is_target_since(&self, history: &History) -> u64 {
        let current = &self.revisions.current;
        let is_other = |it: &Revision| {
            self.ds.owns(&it.metadata)
                && current.iter().all(|own| own.metadata.uid != it.metadata.uid)
        };
        let others = history.revisions.states().filter(|(_, revision)| is_other(revision));
        others.map(|(at, _)| at).max().unwrap_or_default()
    }

    /// Whether the target has had another attempt before this one.
    pub(super) fn is_repeated(&self, history: &History) -> bool {
        let (Stage::Moving(record), Some(current)) = (&self.stage, self.revisions.current.last())
        else {
            return false;
        };
        let mut records = history.records(&current.metadata.uid);
        records.any(|(_, it)| it.began != record.began && it.phase != Phase::Pending)
    }

    /// The version with which the policy came, as far as the replica has seen.
    fn guarded_since(&self, memory: &Memory, history: &History) -> u64 {
        let states = history.daemon_sets(self.role).of(&self.ds.metadata.uid);
        let seen = states.take_while(|(at, _)| *at <= memory.feeds.daemon_sets);
        let comes = seen.scan(false, |was_guarded, (at, ds)| {
            let is_guarded = ds.policy.valid().is_some();
            let is_new = !std::mem::replace(was_guarded, is_guarded) && is_guarded;
            Some(is_new.then_some(at))
        });
        comes.flatten().last().unwrap_or_default()
    }

    /// The version with which the rollout became complete.
    fn completed(&self, history: &History) -> Option<u64> {
        let Stage::Moving(record) = &self.stage else { return None };
        let current = self.revisions.current.last()?;
        let is_complete = record.phase == Phase::Complete;
        is_complete.then(|| history.phase_version(&current.metadata.uid, record))?
    }

    /// Adds a pod of another revision. `known` is the version since which the replica has surely
    /// looked at the nodes of this attempt.
    fn add_old(
        &self,
        seen: &[(u64, Option<&Pod>)],
        known: u64,
        history: &History,
        (past, pods): (&mut Past, &mut Pods),
    ) {
        let is_active = |pod: &Pod| self.ds.owns(&pod.metadata) && !pod.metadata.is_terminating;
        let end = seen.iter().find(|(_, pod)| !pod.is_some_and(is_active)).map(|(at, _)| *at);
        let min_ready = self.ds.min_ready_seconds;
        // Whether each state was available at some time before the next one.
        let is_available = |index: usize, pod: &Pod| {
            let until = seen.get(index + 1).map_or(self.now, |(at, _)| history.time_of(*at));
            is_active(pod) && !pod.has_ended() && pod.is_available(min_ready, until)
        };
        let available: Vec<bool> = seen
            .iter()
            .enumerate()
            .map(|(index, (_, pod))| pod.is_some_and(|pod| is_available(index, pod)))
            .collect();
        pods.had_old = true;
        past.may_have_been_well |= available.contains(&true);
        let is_of_node = seen[0].0 >= pods.node_since;
        pods.had_own_old |= is_of_node;
        past.has_seen_old |= is_of_node && end.is_none_or(|end| end > known);
        let last_active = seen.iter().rposition(|(_, pod)| pod.is_some_and(is_active));
        // A replica whose wall clock is behind takes longer to see it. One whose watch is behind
        // when it begins on the pod may never see it (G34).
        let is_surely_well = |index: usize| {
            let until = seen.get(index + 1).map_or(self.now, |(at, _)| history.time_of(*at));
            let is_old = |pod: &Pod| {
                pod.is_available(2 * min_ready + 1, until)
                    && !history.was_begun_unavailable(&pod.metadata.uid)
            };
            available[index] && seen[index].1.is_some_and(is_old)
        };
        let was_well = last_active.is_some_and(is_surely_well);
        match end {
            None => {
                let outage = available.iter().rposition(|is_available| *is_available);
                let since = outage.map_or(seen[0].0, |index| {
                    seen.get(index + 1).map_or(history.version(), |(at, _)| *at)
                });
                past.outage_ms = Some(self.now.0 - history.time_of(since).0);
            }
            Some(end) if pods.old_until.is_none_or(|until| until < end) => {
                pods.old_until = Some(end);
                pods.last_old_was_well = was_well;
            }
            Some(_) => {}
        }
    }

    fn finish(
        &self,
        past: Past,
        pods: &Pods,
        attempt: u64,
        memory: &Memory,
        history: &History,
    ) -> Past {
        // A node that has had no other pod is begun with its wave, whenever its pod comes.
        let old_until = pods.old_until.or((!pods.had_old).then_some(attempt));
        let begun = match (pods.target_since, old_until) {
            (Some(target), Some(old)) => target.min(old),
            (target, old) => target.or(old).unwrap_or(attempt),
        };
        let lately = pods.old_until.unwrap_or_default();
        // A replica that takes over takes the nodes that it finds to have been well. It looks at
        // nodes from when a policy comes, too.
        let listed = memory.feeds.pods_listed;
        let looked = history.time_of(listed.max(self.guarded_since(memory, history)));
        let took_over = history.time_of(pods.node_since).0 <= looked.0 + UNORDERED_MS
            || pods.target_since.is_none_or(|at| listed >= at);
        let is_younger = matches!(self.stage, Stage::Moving(record)
            if history.time_of(pods.node_since).0 + TOLERANCE_MS > record.began.0);
        Past {
            may_have_joined: !pods.had_own_old || !past.has_seen_old && is_younger,
            was_begun_when_complete: self.completed(history).is_some_and(|at| begun > at),
            elapsed_ms: self.now.0 - history.time_of(begun).0,
            least_elapsed_ms: self.now.0 - history.time_of(begun.max(lately)).0,
            may_have_been_well: past.may_have_been_well || took_over,
            limit_ms: self.least_limit_ms(attempt, history),
            was_surely_well: pods.last_old_was_well,
            has_surely_joined: self.role == Role::Controller
                && !pods.had_old
                && !pods.has_lost_target
                && !took_over
                && pods.target_since.is_some_and(|at| at >= attempt),
            ..past
        }
    }

    /// The shortest `readyWithin` and `minReadySeconds` that there were since the attempt began.
    fn least_limit_ms(&self, attempt: u64, history: &History) -> Option<i64> {
        let (uid, all) = (&self.ds.metadata.uid, history.daemon_sets(self.role));
        let later = all.of(uid).filter(|(at, _)| *at > attempt).map(|(_, ds)| ds);
        let policies = all.at(uid, attempt).into_iter().chain(later);
        let is_promoted =
            matches!(self.stage, Stage::Moving(record) if record.is_promoted_in_full());
        let limits = policies.filter_map(|ds| {
            let rule = ds.counting(is_promoted).policy.valid()?.failure.as_ref()?;
            Some(rule.ready_within_ms? + ds.min_ready_seconds * 1000)
        });
        limits.min()
    }

    /// For how long a node has been down, or absent.
    fn absence(&self, node: Option<&Node>, version: u64, history: &History) -> Past {
        let policy = self.ds.policy.valid();
        let (Some(node), Some(policy)) = (node, policy) else { return Past::default() };
        let states = history.nodes.of(&node.metadata.uid);
        let (mut down, mut absent): (Option<Timestamp>, Option<Timestamp>) = (None, None);
        let mut was_always_present = true;
        for (at, state) in states.take_while(|(at, _)| *at <= version) {
            let (is_down, is_absent) = (!state.is_ready(), policy.is_absent(state));
            let time = history.time_of(at);
            was_always_present &= !is_absent;
            down = is_down.then(|| down.unwrap_or(time));
            absent = is_absent.then(|| absent.unwrap_or(time));
        }
        let ago = |since: Timestamp| self.now.0 - since.0;
        Past {
            down_ms: down.map(ago),
            absent_ms: absent.map(ago),
            was_always_present,
            ..Past::default()
        }
    }
}
