//! Tells a settled cluster from others: every node is ready, and every DaemonSet is rolled out.
//! Pure functions.

use std::collections::BTreeSet;

use everynode_core::api::{DaemonSetKey, Status};
use everynode_insight::rollout::Completion;
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

/// A phrase for each DaemonSet that is not rolled out by its counts: what is missing. Those of
/// `rolled_out` are, nevertheless.
pub(crate) fn unsettled_daemon_sets(
    daemon_sets: &[DaemonSet],
    rolled_out: &BTreeSet<DaemonSetKey>,
) -> Vec<String> {
    let is_open = |ds: &&DaemonSet| {
        let metadata = &ds.metadata;
        let key = DaemonSetKey::new(name(&metadata.namespace), name(&metadata.name));
        !rolled_out.contains(&key)
    };
    daemon_sets.iter().filter(is_open).filter_map(unsettled).collect()
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
