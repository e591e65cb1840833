//! For which nodes the template is blamed (G34).

use super::{Claim, Problem, TOLERANCE_MS, UNORDERED_MS, limit_ms};
use crate::checker::model::{DaemonSet, Phase, Pod, Policy, Update};
use crate::checker::situation::OurPod;
use crate::checker::stage::Stage;
use crate::role::Role;

impl Claim<'_, '_> {
    /// "It is blamed" (G34).
    pub(super) fn failed(&self) -> Problem {
        // Another attempt measures times anew, from when the last one ended (G11).
        let is_repeated = self.situation.is_repeated(self.history);
        let restarted = is_repeated.then(|| self.history.time_of(self.attempt));
        let begun = self.stated.at_stage_since.max(restarted.unwrap_or_default());
        let took_ms = self.stated.since.0 - begun.0;
        let is_late = took_ms + TOLERANCE_MS >= self.least_limit_ms();
        let max_restarts = self.fewest_restarts();
        let restarts_too_often = || {
            let mut pods = self.history.pods.states().map(|(_, pod)| pod);
            pods.any(|pod| {
                max_restarts.is_some_and(|max| pod.restarts > max)
                    && self.is_here(pod)
                    && self.situation.is_updated(pod)
            })
        };
        let cannot_change = self.policy.update == Update::InPlaceOnly
            && self
                .on_node
                .pods
                .iter()
                .any(|our| !self.situation.is_updated(our.pod) || our.pod.change.is_some());
        match () {
            // It remains so while it is down or leaving.
            () if self.was_since(self.stated.since, |node| {
                self.policies().all(|(_, policy)| policy.is_absent(node))
            }) =>
            {
                Some("although it is down or leaves")
            }
            () if cannot_change => None,
            () if !self.may_have_been_well() => Some("although it had no available pod before"),
            () if !is_late && !restarts_too_often() => Some("too early"),
            () => None,
        }
    }

    /// True if nodes that get the target once the rollout is complete fail (G40).
    pub(super) fn blames_late(&self) -> bool {
        let Stage::Moving(record) = self.situation.stage else { return false };
        let is_complete = record.phase == Phase::Complete && !record.is_adoption();
        self.policy.failure.is_some() && is_complete && !self.situation.has_bad_pod(record)
    }

    /// The states of the DaemonSet, with its policy while that is valid: a node that has failed or
    /// is set aside by one of them remains so.
    pub(super) fn policies(&self) -> impl Iterator<Item = (&DaemonSet, &Policy)> {
        let states = self.history.daemon_sets(self.situation.role);
        let states = states.of(&self.situation.ds.metadata.uid);
        states.filter_map(|(_, ds)| Some((ds, ds.policy.valid()?)))
    }

    /// The shortest time within which a node must have had an available pod.
    pub(super) fn least_limit_ms(&self) -> i64 {
        let limits = self.policies().map(|(ds, policy)| limit_ms(ds, policy));
        limits.min().unwrap_or_default()
    }

    /// The fewest `maxRestarts`.
    fn fewest_restarts(&self) -> Option<u64> {
        self.policies().filter_map(|(_, policy)| policy.failure.as_ref()?.max_restarts).min()
    }

    /// True if a pod of another revision may have been available here when the rollout began.
    fn may_have_been_well(&self) -> bool {
        let created = self.node.created().map_or(0, |at| at.0);
        let took_over = self.stated.known_since.0 + UNORDERED_MS > created;
        // Pods of an earlier machine of that name say nothing of this one.
        let first = self.history.nodes.of(&self.node.metadata.uid).next();
        let came = first.map_or(0, |(at, _)| at);
        let was_well =
            |pod: &Pod| pod.is_ready && self.is_here(pod) && !self.situation.is_updated(pod);
        let mut pods = self.history.pods.histories().flat_map(|(_, states)| {
            let known = states.partition_point(|(at, _)| *at <= came).saturating_sub(1);
            &states[known..]
        });
        self.situation.role == Role::Beside
            || took_over
            || pods.any(|(_, pod)| pod.as_deref().is_some_and(was_well))
    }

    /// True if the node must have failed, because a pod restarts too often, even if it is
    /// available.
    pub(super) fn has_surely_failed(&self) -> bool {
        let Stage::Moving(record) = &self.situation.stage else { return false };
        let max = self.policy.failure.as_ref().and_then(|rule| rule.max_restarts);
        // Only of the first attempt all restarts count.
        let restarts_too_often = |our: &OurPod| {
            max.is_some_and(|max| our.pod.restarts > max)
                && our.pod.change.is_none()
                && !self.history.pods.of(&our.pod.metadata.uid).any(|(_, pod)| pod.change.is_some())
        };
        record.is_under_way()
            && !self.situation.is_repeated(self.history)
            && !self.is_absent()
            && self.on_node.by_target.keeps()
            && self.of_target().any(restarts_too_often)
            && self.was_surely_well()
    }

    /// True if the last pod of another revision was surely available to its end.
    pub(super) fn was_surely_well(&self) -> bool {
        // A replica whose watch is behind when it begins on the pod may not have seen it (G34).
        let long_s = 2 * self.situation.ds.min_ready_seconds + 1 + UNORDERED_MS / 1_000;
        let Some((end, pod)) = self.last_old() else { return false };
        let until = self.history.time_of(end).min(self.situation.now);
        !pod.has_ended() && pod.is_available(long_s, until)
    }

    /// The last pod of another revision that the replica has seen here in this attempt, as it was
    /// before its end, with the version of that.
    pub(super) fn last_old(&self) -> Option<(u64, &Pod)> {
        let known = self.history.version_before(self.stated.known_since).max(self.attempt);
        let is_active = |pod: &Pod| {
            self.is_here(pod) && !pod.metadata.is_terminating && !self.situation.is_updated(pod)
        };
        let ends = self.history.pods.histories().filter_map(|(_, states)| {
            let seen = states.partition_point(|(at, _)| *at <= self.view.feeds.pods);
            let states = &states[..seen];
            let last = states.iter().rposition(|(_, pod)| pod.as_deref().is_some_and(is_active))?;
            let end = states.get(last + 1).map_or(u64::MAX, |(at, _)| *at);
            let is_of_node = states[last].1.as_deref()?.created() >= self.node.created();
            (end > known && is_of_node).then_some((end, states[last].1.as_deref()?))
        });
        ends.max_by_key(|(end, _)| *end)
    }
}
