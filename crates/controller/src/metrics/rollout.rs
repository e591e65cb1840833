//! Metrics of guarded and paused rollouts: one set of gauges for each DaemonSet that has a policy,
//! a pause or a record, and none for the others (G21).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use everynode_core::api::{CheckKind, CheckVerdict, DaemonSetKey, RolloutPhase, RolloutReason};
use everynode_core::daemon_set::{RolloutStatus, StateCounts};
use everynode_core::plan::Transition;

use super::gauges::{Gauges, Row, count};
use super::labels::{DaemonSetLabels, ReasonLabels};
use super::register;

/// The `everynode_rollout_*` metrics.
#[derive(Debug)]
pub(super) struct RolloutMetrics {
    info: Family<InfoLabels, Gauge>,
    gauges: Gauges<RolloutStatus>,
    nodes: Family<NodesLabels, Gauge>,
    override_pods: Family<OverrideLabels, Gauge>,
    transitions: Family<ReasonLabels, Counter>,
    check_answers: Family<AnswerLabels, Counter>,
    /// The DaemonSets that have gauges.
    exported: Mutex<BTreeMap<DaemonSetKey, Exported>>,
}

/// The values of labels that a DaemonSet has in gauges.
#[derive(Debug)]
struct Exported {
    reason: RolloutReason,
    /// The tags of overrides.
    overrides: Vec<Arc<str>>,
}

const GAUGES: &[Row<RolloutStatus>] = &[
    (
        "phase_start_timestamp_seconds",
        "When its phase began, as the record states it: the wave, its bake time, the failure, or \
         the completion",
        |state| Some(state.record.as_ref()?.since.as_millis().div_euclid(1000)),
    ),
    ("failed_nodes", "Nodes that have failed by the policy", |state| count(state.nodes.failed)),
    (
        "leaked_nodes",
        "Nodes of later waves that have the new template already, because the built-in \
         controller created their pods; 0 unless everynode runs beside it",
        |state| count(state.leaked_nodes),
    ),
    (
        "waves",
        "Waves; the last one is that of all other nodes, if there are any. Absent without a valid \
         policy",
        |state| count(state.wave.as_ref()?.waves),
    ),
    (
        "waves_done",
        "Waves before the current one; all of them when the rollout is complete. Absent without a \
         valid policy",
        |state| {
            // After the last wave there is no other one that would end it.
            let (wave, record) = (state.wave.as_ref()?, state.record.as_ref()?);
            let is_complete = record.phase == RolloutPhase::Complete;
            count(if is_complete { wave.waves } else { wave.waves_before })
        },
    ),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InfoLabels {
    #[prometheus(flatten)]
    daemon_set: DaemonSetLabels,
    reason: &'static str,
}

/// Labels of `everynode_rollout_override_pods`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OverrideLabels {
    #[prometheus(flatten)]
    daemon_set: DaemonSetLabels,
    r#override: String,
}

/// Labels of `everynode_rollout_nodes`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodesLabels {
    #[prometheus(flatten)]
    daemon_set: DaemonSetLabels,
    state: &'static str,
}

/// Labels of `everynode_rollout_check_answers_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    check: &'static str,
    answer: &'static str,
}

impl RolloutMetrics {
    /// Registers all of them; `r` has their prefix.
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            info: register(
                r,
                "info",
                "1 for each guarded or paused rollout, with the reason of its condition \
                 `Progressing`",
                Family::default(),
            ),
            gauges: Gauges::new(r, GAUGES),
            nodes: register(
                r,
                "nodes",
                "Nodes by their state (`waiting`, `asked`, `pulling`, `updating`, `done`, \
                 `failed`), and those that are set aside by the reason (`held`, `down`, \
                 `leaving`, …), if there are any",
                Family::default(),
            ),
            override_pods: register(
                r,
                "override_pods",
                "Pods by the override that made them, as their label `everynode.dev/override` \
                 states it; absent without overrides",
                Family::default(),
            ),
            transitions: register(
                r,
                "transitions",
                "Transitions of guarded rollouts, by the reason of their event: `RolloutBegun`, \
                 `RolloutWaveBegun`, `RolloutFailed`, …",
                Family::default(),
            ),
            check_answers: register(
                r,
                "check_answers",
                "Answers to the checks of guarded rollouts: by what is asked (the field of the \
                 policy, such as `http`), and by what is answered (`passed`, `failed`, `unknown`)",
                Family::default(),
            ),
            exported: Mutex::default(),
        }
    }

    /// Counts a transition.
    pub(super) fn count(&self, transition: &Transition) {
        let reason = transition.reason();
        self.transitions.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts the answer to a check.
    pub(super) fn count_answer(&self, kind: &CheckKind, verdict: CheckVerdict) {
        let labels = AnswerLabels { check: kind.field(), answer: verdict.as_str() };
        self.check_answers.get_or_create(&labels).inc();
    }

    /// Sets the gauges of a DaemonSet, or removes them if its rollout is neither guarded nor
    /// paused.
    pub(super) fn set(&self, key: &DaemonSetKey, state: Option<&RolloutStatus>) {
        let mut exported = self.exported();
        let new = state.map(|state| Exported {
            reason: state.reason,
            overrides: state.overrides.keys().cloned().collect(),
        });
        let old = match new {
            Some(new) => exported.insert(key.clone(), new),
            None => exported.remove(key),
        };
        self.set_overrides(key, old.as_ref(), state);
        let old = old.map(|old| old.reason);
        let reason = state.map(|state| state.reason);
        let labels = |reason: RolloutReason| InfoLabels {
            daemon_set: DaemonSetLabels::new(key),
            reason: reason.as_str(),
        };
        if let Some(old) = old.filter(|old| reason != Some(*old)) {
            self.info.remove(&labels(old));
        }
        if let Some(reason) = reason {
            self.info.get_or_create(&labels(reason)).set(1);
        }
        if reason.is_none() && old.is_none() {
            return;
        }
        self.gauges.set(key, state);
        self.set_nodes(key, state.map(|state| &state.nodes).filter(|nodes| nodes.total() > 0));
    }

    /// Sets the numbers of pods by override, and removes those of overrides that no pod has now.
    fn set_overrides(
        &self,
        key: &DaemonSetKey,
        old: Option<&Exported>,
        state: Option<&RolloutStatus>,
    ) {
        let labels = |tag: &str| OverrideLabels {
            daemon_set: DaemonSetLabels::new(key),
            r#override: tag.to_owned(),
        };
        let is_gone = |tag: &&Arc<str>| state.is_none_or(|it| !it.overrides.contains_key(*tag));
        for tag in old.into_iter().flat_map(|old| &old.overrides).filter(is_gone) {
            self.override_pods.remove(&labels(tag));
        }
        for (tag, pods) in state.into_iter().flat_map(|state| &state.overrides) {
            self.override_pods.get_or_create(&labels(tag)).set(i64::from(*pods));
        }
    }

    /// Sets the numbers of nodes, or removes them. States without nodes are left out, except those
    /// that a rollout goes through.
    fn set_nodes(&self, key: &DaemonSetKey, nodes: Option<&StateCounts>) {
        for (index, (state, _)) in StateCounts::default().named().enumerate() {
            let number = nodes.and_then(|nodes| nodes.named().nth(index)).map(|(_, it)| it);
            let labels = NodesLabels { daemon_set: DaemonSetLabels::new(key), state };
            match number.filter(|number| *number > 0 || index < StateCounts::COMMON) {
                Some(number) => {
                    let number = i64::try_from(number).unwrap_or(i64::MAX);
                    self.nodes.get_or_create(&labels).set(number);
                }
                None => {
                    self.nodes.remove(&labels);
                }
            }
        }
    }

    fn exported(&self) -> MutexGuard<'_, BTreeMap<DaemonSetKey, Exported>> {
        self.exported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::page::state;
    use crate::metrics::{Metrics, TextFormat};

    /// The samples of rollouts in the exposition.
    fn samples(metrics: &Metrics) -> Vec<String> {
        let text = metrics.text(TextFormat::OpenMetrics).unwrap();
        let samples = text.lines().filter(|line| line.starts_with("everynode_rollout_"));
        let mut samples: Vec<String> = samples.map(str::to_owned).collect();
        let first = samples.iter().position(|sample| sample.contains("rollout_nodes"));
        samples[first.unwrap_or_default()..].sort();
        samples
    }

    /// G21: a DaemonSet has one phase at a time, and no series are left when nothing guards it any
    /// more.
    #[test]
    fn a_guarded_rollout_has_gauges_until_nothing_guards_it() {
        let metrics = Metrics::new();
        let key = DaemonSetKey::new("kube-system", "agent");
        metrics.set_rollout(&key, None);
        assert_eq!(samples(&metrics), Vec::<String>::new());
        metrics.set_rollout(&key, Some(&state(RolloutReason::Updating, RolloutPhase::Updating)));
        let of = r#"namespace="kube-system",daemonset="agent""#;
        let expected = [
            format!("everynode_rollout_info{{{of},reason=\"Updating\"}} 1"),
            format!("everynode_rollout_phase_start_timestamp_seconds{{{of}}} 1700000000"),
            format!("everynode_rollout_failed_nodes{{{of}}} 2"),
            format!("everynode_rollout_leaked_nodes{{{of}}} 1"),
            format!("everynode_rollout_waves{{{of}}} 4"),
            format!("everynode_rollout_waves_done{{{of}}} 3"),
            format!("everynode_rollout_nodes{{{of},state=\"done\"}} 0"),
            format!("everynode_rollout_nodes{{{of},state=\"failed\"}} 2"),
            format!("everynode_rollout_nodes{{{of},state=\"lost\"}} 1"),
            format!("everynode_rollout_nodes{{{of},state=\"updating\"}} 0"),
            format!("everynode_rollout_nodes{{{of},state=\"waiting\"}} 0"),
        ];
        assert_eq!(samples(&metrics), expected);
        metrics.set_rollout(&key, Some(&state(RolloutReason::Complete, RolloutPhase::Complete)));
        let complete = samples(&metrics);
        assert!(complete[0].ends_with("reason=\"Complete\"} 1"), "{complete:?}");
        assert!(complete[5].ends_with(" 4") && complete.len() == 11, "{complete:?}");
        let overridden = RolloutStatus {
            overrides: BTreeMap::from([("big-7d9".into(), 3)]),
            ..state(RolloutReason::Complete, RolloutPhase::Complete)
        };
        metrics.set_rollout(&key, Some(&overridden));
        let of_big = format!("everynode_rollout_override_pods{{{of},override=\"big-7d9\"}} 3");
        assert!(samples(&metrics).contains(&of_big), "G57: {:?}", samples(&metrics));
        let unknown = RolloutStatus {
            record: None,
            wave: None,
            ..state(RolloutReason::Paused, RolloutPhase::Updating)
        };
        metrics.set_rollout(&key, Some(&unknown));
        assert_eq!(samples(&metrics).len(), 8);
        metrics.remove_daemon_set(&key);
        assert_eq!(samples(&metrics), Vec::<String>::new());
    }
}
