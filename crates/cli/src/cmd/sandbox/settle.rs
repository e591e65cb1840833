//! Whether a cluster has settled: every node is ready, and every DaemonSet is rolled out. Pure
//! functions.

use everynode_core::api::Status;
use everynode_insight::rollout::Completion;
use everynode_insight::snapshot::ZONE_LABEL;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};

/// The fields of a node that are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub name: String,
    /// The zone's name; `-` if there is none.
    pub zone: String,
    pub ready: bool,
}

/// The fields of a pod that are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRow {
    /// `NAMESPACE/NAME`
    pub key: String,
    /// The node's name; empty until the pod is bound.
    pub node: String,
    pub state: String,
    pub ready: bool,
}

impl NodeRow {
    /// The row of a node.
    pub(crate) fn of(node: &Node) -> NodeRow {
        let zone = node.metadata.labels.as_ref().and_then(|labels| labels.get(ZONE_LABEL));
        NodeRow {
            name: node.metadata.name.clone().unwrap_or_default(),
            zone: zone.map_or("-", String::as_str).to_owned(),
            ready: is_ready(node),
        }
    }
}

impl PodRow {
    /// The row of a pod.
    pub(crate) fn of(pod: &Pod) -> PodRow {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        PodRow {
            key: key(&pod.metadata),
            node: node.unwrap_or_default(),
            state: pod_state(pod),
            ready: has_condition(pod, "Ready"),
        }
    }
}

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

/// What is missing, as a phrase for each DaemonSet that is not rolled out.
pub(crate) fn unsettled_daemon_sets(daemon_sets: &[DaemonSet]) -> Vec<String> {
    daemon_sets.iter().filter_map(unsettled).collect()
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

/// What is missing in one line: the first phrases, the number of others, and one pod as an example.
pub(crate) fn summary(missing: &[String], pod: Option<&String>) -> String {
    const PHRASES_MAX: usize = 5;
    let more = missing.len().saturating_sub(PHRASES_MAX);
    let more = (more > 0).then(|| format!("and {more} more"));
    let shown = missing.iter().take(PHRASES_MAX).chain(&more).chain(pod);
    shown.map(String::as_str).collect::<Vec<_>>().join("; ")
}

/// The state that kubectl would show, in one phrase.
fn pod_state(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    if pod.metadata.deletion_timestamp.is_some() {
        return "Terminating".into();
    }
    if let Some(reason) = status.and_then(waiting_reason) {
        return reason;
    }
    let phase = status.and_then(|status| status.phase.clone()).unwrap_or_else(|| "Pending".into());
    let unscheduled = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    let mut unscheduled =
        unscheduled.filter(|found| found.type_ == "PodScheduled" && found.status == "False");
    match unscheduled.next().and_then(|found| found.message.clone()) {
        Some(message) => format!("{phase}, {message}"),
        None => phase,
    }
}

fn key(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
    format!("{}/{}", name(&metadata.namespace), name(&metadata.name))
}

fn waiting_reason(status: &k8s_openapi::api::core::v1::PodStatus) -> Option<String> {
    let containers = status.container_statuses.iter().flatten();
    let waiting = containers.filter_map(|container| container.state.as_ref()?.waiting.as_ref());
    waiting.filter_map(|waiting| waiting.reason.clone()).next()
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

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|found| found.type_ == "Ready").any(|found| found.status == "True")
}

fn has_condition(pod: &Pod, kind: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|found| found.type_ == kind).any(|found| found.status == "True")
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

    #[test]
    fn a_row_has_an_objects_location_and_readiness() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let node = |metadata: Value, status: &Value| {
            let node = json!({"metadata": metadata, "status": status});
            NodeRow::of(&serde_json::from_value(node).unwrap())
        };
        let labels = json!({"topology.kubernetes.io/zone": "a"});
        let row = |name: &str, zone: &str, ready| NodeRow {
            name: name.to_owned(),
            zone: zone.to_owned(),
            ready,
        };
        assert_eq!(node(json!({"name": "n", "labels": labels}), &ready), row("n", "a", true));
        assert_eq!(node(json!({"name": "n"}), &json!({})), row("n", "-", false));
        let pod = json!({
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "conditions": ready["conditions"]},
        });
        let expected = PodRow {
            key: "ns/p".to_owned(),
            node: "n".to_owned(),
            state: "Running".to_owned(),
            ready: true,
        };
        assert_eq!(PodRow::of(&serde_json::from_value(pod).unwrap()), expected);
    }

    #[test]
    fn a_pods_state_names_what_it_waits_for() {
        let pod = |status: Value| {
            serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
        };
        for (status, expected) in [
            (json!({}), "Pending"),
            (json!({"phase": "Running"}), "Running"),
            (
                json!({"phase": "Running", "containerStatuses": [{"name": "c", "image": "",
                "imageID": "", "ready": false, "restartCount": 1,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
                "CrashLoopBackOff",
            ),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled",
                "status": "False", "message": "0/1 nodes are available"}]}),
                "Pending, 0/1 nodes are available",
            ),
        ] {
            assert_eq!(pod_state(&pod(status)), expected);
        }
    }
}
