//! The waves of a simulated rollout: which ones it reaches, when, and on which nodes it begins in
//! each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{
    Attribution, CheckAnswer, CheckVerdict, DaemonSet, NodeName, Order, OrderVerb, PolicySource,
    Position, Revision, RolloutReason, Timestamp, Wait,
};
use everynode_core::plan::Plan;

use super::Simulation;
use crate::forecast::{GuardedWave, NodeChanges, Wave};

/// A wave of the policy that the rollout has reached.
pub(super) struct ReachedWave {
    position: Position,
    at: Timestamp,
}

/// When the first write concerned a node.
#[derive(Clone, Copy)]
pub(super) struct FirstWrite {
    at: Timestamp,
    /// The index of the wave of the policy, if one is reached.
    wave: Option<usize>,
}

/// The DaemonSet with checks that are asked at the beginning and the end of a bake time only: what
/// they are answered between is the same, and costs time.
pub(super) fn without_repetitions(mut daemon_set: DaemonSet) -> DaemonSet {
    if let Some(policy) = daemon_set.policy.valid().filter(|policy| !policy.checks.is_empty()) {
        let mut policy = (**policy).clone();
        for check in &mut policy.checks {
            check.interval = Duration::MAX;
        }
        daemon_set.policy = PolicySource::Valid(Arc::new(policy));
    }
    daemon_set
}

impl Simulation {
    /// Records the wave that the rollout is at.
    pub(super) fn note_wave(&mut self) {
        let Some(record) = self.controller.state.rollout_status().and_then(|state| state.record)
        else {
            return;
        };
        let is_noted =
            self.reached.last().is_some_and(|reached| reached.position == record.position);
        if record.has_begun() && !is_noted {
            let position = record.position.clone();
            self.reached.push(ReachedWave { position, at: self.now });
        }
    }

    /// Records the time of the first write that concerns the node.
    pub(super) fn note_write(&mut self, node: &NodeName) {
        let first = FirstWrite { at: self.now, wave: self.reached.len().checked_sub(1) };
        self.first_writes.entry(node.clone()).or_insert(first);
    }

    /// Lets all checks of a plan pass. Returns whether there are any.
    pub(super) fn pass_checks(&mut self, plan: &Plan) -> bool {
        for question in &plan.questions {
            let answer = CheckAnswer::new(CheckVerdict::Passed, "");
            self.controller.state.apply_check_answer(question, answer);
        }
        !plan.questions.is_empty()
    }

    /// Approves the wave that must be approved, as a person does who is there at once. Returns
    /// whether there is one.
    pub(super) fn approve_wave(&mut self) -> bool {
        let Some(rollout) = &self.daemon_set.status.rollout else { return false };
        if rollout.reason != RolloutReason::AwaitingApproval {
            return false;
        }
        let mut revisions: Vec<_> = self.revisions.values().collect();
        revisions.sort_by_key(|revision| revision.number);
        let target = Revision::by_content(&self.daemon_set, revisions, None).current.pop();
        let wave = || {
            let record = target?.record.stored()?;
            Some(self.daemon_set.policy.valid()?.order_name(&record.position))
        };
        let Some((wave, revision)) = wave().zip(target.and_then(Revision::hash)) else {
            return false;
        };
        self.version += 1;
        let text = format!("approve {revision} {wave} {}", self.version).into();
        let verb = OrderVerb::Approve(wave);
        if self.daemon_set.order.as_ref().is_some_and(|o| o.verb == verb && o.revision == revision)
        {
            return false;
        }
        let attribution = Attribution::default();
        self.daemon_set.order = Some(Box::new(Order { verb, revision, text, attribution }));
        self.apply_daemon_set();
        true
    }

    /// The nodes whose pods are replaced, by the time at which that begins.
    pub(in crate::forecast) fn waves(&self, changes: &NodeChanges) -> Vec<Wave> {
        let mut waves: BTreeMap<Timestamp, Vec<String>> = BTreeMap::new();
        for node in changes.updated() {
            let first = self.first_writes.get(node.as_str());
            let at = first.map_or(self.started_at, |first| first.at);
            waves.entry(at).or_default().push(node.clone());
        }
        waves
            .into_iter()
            .map(|(at, nodes)| Wave { starts_after_seconds: self.seconds_until(at), nodes })
            .collect()
    }

    /// The waves of the policy that the rollout reaches, with the nodes whose pods are replaced in
    /// each, or that get one.
    pub(in crate::forecast) fn guarded_waves(&self, changes: &NodeChanges) -> Vec<GuardedWave> {
        let Some(policy) = self.daemon_set.policy.valid() else { return Vec::new() };
        let changed = changes.updated().chain(&changes.gain);
        let changed: BTreeSet<&str> = changed.map(String::as_str).collect();
        let nodes = |index: usize| {
            let begun =
                self.first_writes.iter().filter(move |(_, first)| first.wave == Some(index));
            let names = begun.map(|(node, _)| node.as_str());
            names.filter(|node| changed.contains(node)).map(str::to_owned).collect()
        };
        let reached = self.reached.iter().enumerate();
        let waves = reached.map(|(index, ReachedWave { position, at })| {
            let wait = policy.wait(position);
            GuardedWave {
                name: policy.wave_name(position).map(|name| name.to_string()),
                starts_after_seconds: self.seconds_until(*at),
                nodes: nodes(index),
                bake_seconds: wait.bake.as_secs(),
                approval: wait.approval,
                checks: wait.checks.iter().map(ToString::to_string).collect(),
            }
        });
        // Nothing is left for the last wave if the steps have all nodes.
        let has_end = policy.finally.is_some();
        waves.filter(|wave| wave.name.is_some() || has_end || !wave.nodes.is_empty()).collect()
    }

    /// The waits in the waves of the policy that the rollout has reached.
    pub(in crate::forecast) fn waits(&self) -> Vec<Wait> {
        let Some(policy) = self.daemon_set.policy.valid() else { return Vec::new() };
        self.reached.iter().map(|reached| policy.wait(&reached.position)).collect()
    }

    fn seconds_until(&self, at: Timestamp) -> u64 {
        at.since(self.started_at).as_secs()
    }
}
