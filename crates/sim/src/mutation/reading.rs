//! The reading of objects by a replica, with a deliberate bug.

use everynode_core::api::{HASH_LABEL, PAUSED_ANNOTATION, TEMPLATE_GENERATION_LABEL};
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::object::Object;

use super::Mutation;

impl Mutation {
    /// Changes a DaemonSet. Returns whether this bug does.
    pub(super) fn change_daemon_set(self, ds: &mut Value) -> bool {
        if self == Self::IgnorePause
            && let Some(annotations) = ds["metadata"]["annotations"].as_object_mut()
        {
            annotations.remove(PAUSED_ANNOTATION);
        }
        let spec = &mut ds["spec"];
        let rolling_update = &mut spec["updateStrategy"]["rollingUpdate"];
        match self {
            Self::BudgetOffByOne => {
                let budget = &mut rolling_update["maxUnavailable"];
                if let Some(number) = budget.as_i64().filter(|number| *number > 0) {
                    *budget = json!(number + 1);
                }
            }
            Self::ForgetMinReadySeconds => spec["minReadySeconds"] = json!(0),
            Self::UnlimitedSurge => {
                let surge = &mut rolling_update["maxSurge"];
                if !surge.is_null() && *surge != 0 {
                    *surge = json!(1_000);
                }
            }
            Self::SlowRollout => {
                let budget = &mut rolling_update["maxUnavailable"];
                if budget.as_i64().is_some_and(|number| number > 1) {
                    *budget = json!(1);
                }
            }
            Self::LongHistory => {
                let limit = spec["revisionHistoryLimit"].as_i64().unwrap_or(10);
                spec["revisionHistoryLimit"] = json!(limit + 3);
            }
            _ => return self == Self::IgnorePause,
        }
        true
    }

    /// Changes a pod. Returns whether this bug does.
    pub(super) fn change_pod(self, pod: &mut Value, object: &Object) -> bool {
        match self {
            Self::ForgetHash => {
                let labels = pod["metadata"]["labels"].as_object_mut();
                labels.into_iter().for_each(|all| {
                    all.remove(HASH_LABEL);
                    all.remove(TEMPLATE_GENERATION_LABEL);
                });
            }
            Self::LeaveFailed | Self::LeaveSucceeded => {
                let phase = if self == Self::LeaveFailed { "Failed" } else { "Succeeded" };
                if pod["status"]["phase"] == phase {
                    pod["status"]["phase"] = json!("Running");
                }
            }
            Self::IgnoreOwner => assign_to_daemon_set(pod),
            Self::AdoptUnselected if object.owner_references().next().is_none() => {
                pod["metadata"]["labels"]["app"] = json!("a");
            }
            Self::GenerationAlone => {
                let labels = pod["metadata"]["labels"].as_object_mut();
                labels.into_iter().for_each(|all| drop(all.remove(HASH_LABEL)));
            }
            Self::ForgetFormer => {
                let owners = pod["metadata"]["ownerReferences"].as_array_mut();
                owners.into_iter().flatten().for_each(|owner| owner["name"] = json!("another"));
            }
            Self::ReplaceWaiting => conditions(pod).for_each(|condition| {
                condition.as_object_mut().map(|it| it.remove("lastTransitionTime"));
            }),
            Self::CountUnready => conditions(pod).for_each(|it| it["status"] = json!("True")),
            _ => return false,
        }
        true
    }

    /// Changes a node. Returns whether this bug does.
    pub(super) fn change_node(self, node: &mut Value) -> bool {
        let version = node["metadata"]["resourceVersion"].clone();
        let boot_id = &mut node["status"]["nodeInfo"]["bootID"];
        match self {
            Self::RecoverAlways => *boot_id = version,
            Self::ForgetRecovery => {
                *boot_id = json!("");
                for condition in conditions(node).filter(|condition| condition["type"] == "Ready") {
                    condition["status"] = json!("True");
                }
            }
            Self::WaitForUnreachable => replace_ready(node, "Unknown", "status", "False"),
            Self::ForgetBeginnings => {
                replace_ready(node, "Unknown", "lastTransitionTime", "2000-01-01T00:00:00Z");
            }
            Self::AssumeBeginnings => {
                replace_ready(node, "Unknown", "lastTransitionTime", "2100-01-01T00:00:00Z");
            }
            _ => {}
        }
        let all = node["spec"]["taints"].as_array_mut();
        match self {
            Self::RecoverAlways
            | Self::ForgetRecovery
            | Self::WaitForUnreachable
            | Self::ForgetBeginnings
            | Self::AssumeBeginnings => {}
            Self::EvictForNoSchedule => {
                for taint in all.into_iter().flatten() {
                    if taint["effect"] == "NoSchedule" {
                        taint["effect"] = json!("NoExecute");
                    }
                }
            }
            Self::IgnoreNoExecute => {
                all.into_iter().for_each(|all| all.retain(|t| t["effect"] != "NoExecute"));
            }
            Self::IgnoreNoSchedule => {
                all.into_iter().for_each(|all| all.retain(|t| t["effect"] != "NoSchedule"));
            }
            _ => return false,
        }
        true
    }
}

fn conditions(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    object["status"]["conditions"].as_array_mut().into_iter().flatten()
}

/// Replaces a member of the condition `Ready`, if it has this status.
fn replace_ready(node: &mut Value, status: &str, key: &str, value: &str) {
    let is_it = |it: &&mut Value| it["type"] == "Ready" && it["status"] == status;
    conditions(node).filter(is_it).for_each(|ready| ready[key] = json!(value));
}

/// Makes a DaemonSet the owner of a ReplicaSet's pod. The pod's annotation contains the UID.
fn assign_to_daemon_set(pod: &mut Value) {
    let uid = pod["metadata"]["annotations"]["sim/daemonset-uid"].clone();
    if let Some(owner) = pod["metadata"]["ownerReferences"].get_mut(0)
        && owner["kind"] == "ReplicaSet"
        && uid.is_string()
    {
        owner["kind"] = json!("DaemonSet");
        owner["uid"] = uid;
    }
}
