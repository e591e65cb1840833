//! Tells a settled cluster from others: every node is ready, and every DaemonSet is rolled out.
//! Pure functions.

use std::collections::BTreeMap;

use everynode_core::api::{DaemonSetKey, Status};
use everynode_insight::rollout::{Completion, Phase};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};

use super::row::{NodeRow, PodRow};

/// The numbers of available and desired pods of all DaemonSets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodCounts {
    pub available: u64,
    pub desired: u64,
}

/// Adds up the counts in the status of the DaemonSets.
pub(crate) fn pod_counts(daemon_sets: &[DaemonSet]) -> PodCounts {
    let statuses = || daemon_sets.iter().filter_map(|ds| ds.status.as_ref());
    PodCounts {
        available: statuses().map(|status| count(status.number_available.unwrap_or(0))).sum(),
        desired: statuses().map(|status| count(status.desired_number_scheduled)).sum(),
    }
}

/// The states of rollouts.
pub(crate) type Phases = BTreeMap<DaemonSetKey, Phase>;

/// The DaemonSets that have to settle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    /// Those of a copied cluster that nobody holds up there.
    Copy,
    /// All but these, as long as their specs have these generations.
    But(&'a BTreeMap<DaemonSetKey, i64>),
}

/// A DaemonSet that has not settled.
pub(crate) struct Unsettled {
    pub key: DaemonSetKey,
    pub generation: i64,
    /// The missing parts.
    pub phrase: String,
}

/// The DaemonSets that are not rolled out, by their counts or as far as `phases` tell.
pub(crate) fn unsettled_daemon_sets(
    daemon_sets: &[DaemonSet],
    phases: &Phases,
    scope: Scope<'_>,
) -> Vec<Unsettled> {
    let open = daemon_sets.iter().filter_map(|ds| {
        let key = DaemonSetKey::new(name(&ds.metadata.namespace), name(&ds.metadata.name));
        let generation = ds.metadata.generation.unwrap_or(0);
        let phrase = unsettled(ds)?;
        let phrase = match phases.get(&key) {
            Some(Phase::Done) => return None,
            Some(phase) if is_held(*phase) => format!("{phrase} ({phase})"),
            Some(_) | None => phrase,
        };
        Some(Unsettled { key, generation, phrase })
    });
    let has_to = |open: &Unsettled| match scope {
        Scope::Copy => !phases.get(&open.key).is_some_and(|phase| is_held(*phase)),
        Scope::But(others) => others.get(&open.key) != Some(&open.generation),
    };
    open.filter(has_to).collect()
}

/// True if a person has to act before the rollout goes on.
const fn is_held(phase: Phase) -> bool {
    match phase {
        Phase::Paused | Phase::AwaitsPerson | Phase::AwaitsDeletion => true,
        Phase::Failing | Phase::Deleting | Phase::Unobserved | Phase::Progressing | Phase::Done => {
            false
        }
    }
}

/// A phrase for each node that is not ready.
pub(crate) fn unready_nodes(nodes: &[NodeRow]) -> Vec<String> {
    let unready = nodes.iter().filter(|node| !node.ready);
    unready.map(|node| format!("node {} is not ready", node.name)).collect()
}

/// A phrase for each pod that is not ready.
pub(crate) fn unready_pods(pods: &[PodRow]) -> Vec<String> {
    let unready = pods.iter().filter(|pod| !pod.ready);
    unready.map(|pod| format!("pod {}: {}", pod.key, pod.state)).collect()
}

/// One line about what is missing: the first phrases, the number of others, and one pod as an
/// example.
pub(crate) fn summary(missing: &[String], pod: Option<&String>) -> String {
    const PHRASES_MAX: usize = 5;
    let more = missing.len().saturating_sub(PHRASES_MAX);
    let more = (more > 0).then(|| format!("and {more} more"));
    let shown = missing.iter().take(PHRASES_MAX).chain(&more).chain(pod);
    shown.map(String::as_str).collect::<Vec<_>>().join("; ")
}

fn key(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
    format!("{}/{}", name(&metadata.namespace), name(&metadata.name))
}

fn unsettled(ds: &DaemonSet) -> Option<String> {
    let key = key(&ds.metadata);
    let never_observed = Status { observed_generation: -1, ..Status::default() };
    let status = ds.status.as_ref().map_or(never_observed, core_status);
    let of = |number: u32, what: &str| {
        let desired = status.desired_number_scheduled;
        Some(format!("daemonset {key}: {number} of {desired} pods {what}"))
    };
    let on_delete = || {
        let strategy = ds.spec.as_ref()?.update_strategy.as_ref()?;
        Some(strategy.type_.as_deref()? == "OnDelete")
    };
    match Completion::of(ds.metadata.generation.unwrap_or(0), &status) {
        Completion::Unobserved => {
            Some(format!("daemonset {key} has not been observed by a controller"))
        }
        Completion::Unavailable => of(status.number_available, "available"),
        Completion::Outdated if on_delete() == Some(true) => None,
        Completion::Outdated => of(status.updated_number_scheduled, "up to date"),
        Completion::Complete => None,
    }
}

/// The fields of a status that [`Completion`] reads.
fn core_status(status: &DaemonSetStatus) -> Status {
    let number = |number: i32| u32::try_from(number).unwrap_or(0);
    Status {
        observed_generation: status.observed_generation.unwrap_or(-1),
        desired_number_scheduled: number(status.desired_number_scheduled),
        number_available: number(status.number_available.unwrap_or(0)),
        updated_number_scheduled: number(status.updated_number_scheduled.unwrap_or(0)),
        ..Status::default()
    }
}

fn name(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("?")
}

fn count(number: i32) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn daemon_set(status: Value, strategy: &str) -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "n", "generation": 2},
            "spec": {"selector": {}, "template": {}, "updateStrategy": {"type": strategy}},
            "status": status,
        }))
        .unwrap()
    }

    fn status(observed: i64, desired: i32, updated: i32, available: i32) -> Value {
        json!({"observedGeneration": observed, "desiredNumberScheduled": desired,
               "numberReady": available, "currentNumberScheduled": desired, "numberMisscheduled": 0,
               "updatedNumberScheduled": updated, "numberAvailable": available})
    }

    #[test]
    fn a_daemon_set_settles_when_all_pods_are_current_and_available() {
        for (status, strategy, expected) in [
            (status(2, 3, 3, 3), "RollingUpdate", None),
            (status(2, 0, 0, 0), "RollingUpdate", None),
            (
                status(1, 3, 3, 3),
                "RollingUpdate",
                Some("daemonset n/a has not been observed by a controller"),
            ),
            (status(2, 3, 3, 2), "RollingUpdate", Some("daemonset n/a: 2 of 3 pods available")),
            (status(2, 3, 1, 3), "RollingUpdate", Some("daemonset n/a: 1 of 3 pods up to date")),
            (status(2, 3, 1, 3), "OnDelete", None),
            (
                Value::Null,
                "RollingUpdate",
                Some("daemonset n/a has not been observed by a controller"),
            ),
        ] {
            assert_eq!(unsettled(&daemon_set(status, strategy)).as_deref(), expected);
        }
    }

    /// S20: what is held up in a copied cluster need not settle before manifests are applied, nor
    /// afterwards, unless these change it
    #[test]
    fn what_is_held_up_in_a_copy_does_not_count() {
        let open = [daemon_set(status(2, 3, 1, 3), "RollingUpdate")];
        let key = DaemonSetKey::new("n", "a");
        let count =
            |phases: &Phases, scope: Scope<'_>| unsettled_daemon_sets(&open, phases, scope).len();
        let none = BTreeMap::new();
        for (phase, in_copy, afterwards) in [
            (Phase::Done, 0, 0),
            (Phase::Paused, 0, 1),
            (Phase::AwaitsPerson, 0, 1),
            (Phase::Progressing, 1, 1),
            (Phase::Failing, 1, 1),
        ] {
            let phases = BTreeMap::from([(key.clone(), phase)]);
            assert_eq!(count(&phases, Scope::Copy), in_copy, "{phase}");
            assert_eq!(count(&phases, Scope::But(&none)), afterwards, "{phase}");
        }
        let before = |generation| BTreeMap::from([(key.clone(), generation)]);
        assert_eq!(count(&Phases::new(), Scope::But(&before(2))), 0);
        assert_eq!(count(&Phases::new(), Scope::But(&before(1))), 1);
        let phases = BTreeMap::from([(key, Phase::Paused)]);
        let found = unsettled_daemon_sets(&open, &phases, Scope::But(&none));
        assert_eq!(found[0].phrase, "daemonset n/a: 1 of 3 pods up to date (paused)");
    }

    #[test]
    fn the_summary_is_one_line() {
        let missing: Vec<String> = (1..=7).map(|n| format!("node {n}")).collect();
        assert_eq!(summary(&missing[..2], None), "node 1; node 2");
        assert_eq!(
            summary(&missing, Some(&"pod a/b: Pending".to_owned())),
            "node 1; node 2; node 3; node 4; node 5; and 2 more; pod a/b: Pending"
        );
    }
}
