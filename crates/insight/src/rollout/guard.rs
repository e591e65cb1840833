//! The controller's statement about a guarded rollout, and the wave that it is at (G21, G22).

use std::fmt;

use everynode_core::api::{
    DaemonSet, ReasonClass, RolloutPhase, RolloutReason, Timestamp, is_about_wave, stated_checks,
    stated_wave,
};
use everynode_core::daemon_set::{RolloutStatus, WaveStatus};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::next_step::of_reason;
use crate::controller_view::ControllerView;
use crate::snapshot::Snapshot;
use crate::states::States;

/// What the controller states of a guarded or paused rollout in the condition `Progressing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Guard {
    /// The reason, such as `AwaitingApproval`.
    #[serde(serialize_with = "serialize_reason")]
    #[schemars(with = "String")]
    pub reason: RolloutReason,
    /// The message.
    pub message: String,
    /// The wave that the rollout is at, or at which it has failed. Absent if it is complete, if
    /// there is no valid policy, or if nodes could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<GuardedWave>,
    /// The operator's next step; `None` if there is nothing to do.
    #[serde(skip)]
    pub(super) next: Option<String>,
}

/// The wave that a guarded rollout is at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CurrentWave")]
pub struct GuardedWave {
    /// Its name; `null` for that of all nodes which no step names.
    pub name: Option<String>,
    /// Its number, from 1.
    pub number: usize,
    /// The number of all waves. The last one is that of all other nodes, if there are any.
    pub waves: usize,
    /// The number of nodes that have the new template at its end: of the nodes of its step and
    /// label, or in the last wave of all nodes.
    pub nodes: usize,
    /// How many of these are updated and available.
    pub nodes_done: usize,
    /// All of these nodes by their state.
    pub states: States,
    /// The rest of its bake time in seconds, if all nodes remain available; absent if it does not
    /// bake, also while not all of them are available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bake_seconds_left: Option<u64>,
}

impl Guard {
    /// The controller's statement about the DaemonSet; `None` if there is none. With the wave, all
    /// is as the controller would state it now: its statement follows the record a little later.
    /// Only what it states of checks is not known otherwise.
    pub(super) fn of(snapshot: &Snapshot, daemon_set: &DaemonSet, now: Timestamp) -> Option<Self> {
        let stated = daemon_set.status.rollout.as_ref()?;
        let is_under_way = stated.reason != RolloutReason::Complete
            && daemon_set.policy.valid().is_some()
            && !snapshot.nodes.is_empty();
        let state = || ControllerView::new(snapshot, daemon_set.clone(), now).rollout_status();
        let state = if is_under_way { state().filter(|state| state.wave.is_some()) } else { None };
        Some(match state {
            Some(RolloutStatus { reason, message, wave, record, .. }) => {
                let wave = match reason {
                    RolloutReason::Failed => {
                        let view = ControllerView::under_way(snapshot, daemon_set.clone(), now);
                        let under_way = view.rollout_status().and_then(|status| status.wave);
                        let over = |wave| WaveStatus { bake_ends_at: None, ..wave };
                        under_way.map(over).or(wave)
                    }
                    _ => wave,
                };
                let has_begun = record.is_some_and(|it| it.phase != RolloutPhase::Pending);
                let wave = wave.filter(|_| has_begun && reason != RolloutReason::Complete);
                let wave = wave.map(|wave| GuardedWave::of(wave, now));
                let name = wave.as_ref().and_then(|wave| wave.name.as_deref());
                // Only the controller knows for how long no node was done, and which pods the
                // built-in one has removed.
                let is_known_by_it = match stated.reason {
                    RolloutReason::ProgressDeadlineExceeded => true,
                    RolloutReason::RemovesNodes => snapshot.runs_beside,
                    _ => false,
                };
                let of_controller = (is_known_by_it && reason == RolloutReason::Updating)
                    .then_some((stated.reason, &*stated.message));
                let stated = of_controller
                    .or_else(|| stated_of_checks(daemon_set, reason, name))
                    .or_else(|| stated_of_config_maps(daemon_set, reason));
                let (reason, message) = stated.unwrap_or((reason, &message));
                Self::new(reason, message, wave, daemon_set)
            }
            None => Self::new(stated.reason, &stated.message, None, daemon_set),
        })
    }

    fn new(
        reason: RolloutReason,
        message: &str,
        wave: Option<GuardedWave>,
        daemon_set: &DaemonSet,
    ) -> Self {
        let mut guard = Self { reason, message: message.to_owned(), wave, next: None };
        guard.next = of_reason(reason, guard.wave_name(), daemon_set);
        guard
    }

    /// True if the rollout has failed by its nodes, checks or an order, which the message names.
    pub(super) const fn has_failed(&self) -> bool {
        matches!(self.reason.class(), ReasonClass::Failed)
    }

    /// True if the message says more than numbers and a pause do.
    pub(super) const fn says_more(&self) -> bool {
        !matches!(self.reason, RolloutReason::Complete | RolloutReason::Paused)
    }

    /// The wave that the rollout is at, if it has a name. Without nodes only the message has it.
    pub(super) fn wave_name(&self) -> Option<&str> {
        match &self.wave {
            Some(wave) => wave.name.as_deref(),
            None => stated_wave(&self.message),
        }
    }

    /// Which installation guards the rollout: `everynode` as the controller, `everynode beside` the
    /// built-in one, or `nobody` although a policy is to (G18).
    pub const fn guarded_by(&self, runs_beside: bool) -> &'static str {
        match (self.reason, runs_beside) {
            (RolloutReason::NotGuarded, _) => "nobody",
            (_, true) => "everynode beside",
            (_, false) => "everynode",
        }
    }
}

/// The controller's statement about a wave with checks that it has updated, whose answers only it
/// knows.
fn stated_of_checks<'a>(
    daemon_set: &'a DaemonSet,
    reason: RolloutReason,
    wave: Option<&str>,
) -> Option<(RolloutReason, &'a str)> {
    let stated = daemon_set.status.rollout.as_ref()?;
    let is_known =
        reason.class().is_of_updated_wave() && stated.reason.class().is_of_updated_wave();
    let has_checks = stated_checks(&stated.message).next().is_some();
    (is_known && has_checks && is_about_wave(&stated.message, wave))
        .then_some((stated.reason, &stated.message))
}

/// The controller's statement about ConfigMaps that are no part of the target yet: only it reads
/// them (G58).
fn stated_of_config_maps(
    daemon_set: &DaemonSet,
    reason: RolloutReason,
) -> Option<(RolloutReason, &str)> {
    daemon_set.policy.valid()?.snapshots()?;
    let stated = daemon_set.status.rollout.as_ref()?;
    let is_over = matches!(reason, RolloutReason::Complete | RolloutReason::Failed);
    let is_of_config = match stated.reason {
        RolloutReason::ConfigNotReady => true,
        RolloutReason::Updating => is_over,
        _ => false,
    };
    is_of_config.then_some((stated.reason, &stated.message))
}

impl GuardedWave {
    fn of(wave: WaveStatus, now: Timestamp) -> Self {
        Self {
            name: wave.name.map(|name| name.to_string()),
            number: wave.waves_before + 1,
            waves: wave.waves,
            nodes: wave.states.total(),
            nodes_done: wave.states.done,
            states: States(wave.states),
            bake_seconds_left: wave.bake_ends_at.map(|at| at.since(now).as_secs()),
        }
    }
}

impl fmt::Display for GuardedWave {
    /// The text does not change with the time alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, number, waves, states, .. } = self;
        let name = name.as_deref();
        let name = name.unwrap_or(if *waves == 1 { "all nodes" } else { "all other nodes" });
        write!(f, "wave {number} of {waves}, {name}: {states}")
    }
}

fn serialize_reason<S: Serializer>(reason: &RolloutReason, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(reason.as_str())
}
