//! The admission of the pods of a planned DaemonSet. The API server is asked to create one in a dry
//! run: quotas, Pod Security, service accounts, priority classes and webhooks answer.

use std::fmt::Display;

use everynode_core::api::NodeName;
use everynode_core::plan::{NewPod, ScheduleBy};
use everynode_insight::forecast::{Forecast, Risk, RiskKind};
use everynode_k8s::convert::DaemonSetObject;
use everynode_k8s::pod_template;

use crate::cluster::{Cluster, Error, Resource};
use crate::snapshot_source::Manifest;

/// The kinds of objects without which pods are refused, and the words before their names in the
/// refusal.
const REQUIRED: [(&str, &str); 2] =
    [("ServiceAccount", "serviceaccount \""), ("PriorityClass", "no PriorityClass with name ")];

/// Adds a risk to the forecast if pods are created and the API server refuses one of them, of the
/// template or of an override, and a problem if it may not be asked. What the same manifest creates
/// is not missing.
///
/// # Errors
/// If the cluster can't be reached.
pub(super) async fn add_refusal(
    cluster: &Cluster,
    object: &DaemonSetObject,
    manifest: &Manifest,
    forecast: &mut Forecast,
) -> Result<(), Error> {
    if forecast.is_nothing_to_do() {
        return Ok(());
    }
    // Without the right to list nodes, pods may be created.
    let Some(node) = first_node(forecast) else { return Ok(()) };
    let policy = object.daemon_set.policy.valid();
    let overrides = policy.and_then(|policy| policy.overrides());
    let overrides = overrides.into_iter().flat_map(|overrides| overrides.list.iter().cloned());
    for of_node in std::iter::once(None).chain(overrides.map(Some)) {
        let pods = match &of_node {
            None => "its pods".to_owned(),
            Some(it) => format!("its pods with override {}", it.name),
        };
        let new = NewPod {
            name: None,
            node: NodeName::from(&*node),
            hash: "planned".into(),
            template_generation: None,
            template: None,
            r#override: of_node,
            schedule_by: ScheduleBy::Scheduler,
        };
        let mut pod = pod_template::pod(&object.raw.owner(), &object.raw.template(), &new);
        // It would need a permission on the DaemonSet, and the pod is not created.
        if let Some(owner) = pod.pointer_mut("/metadata/ownerReferences/0") {
            owner["blockOwnerDeletion"] = false.into();
        }
        match cluster.dry_run_create(Resource::Pods, &forecast.namespace, &pod).await {
            Ok(_) => {}
            Err(Error::Rejected { message }) if is_of_manifest(&message, manifest) => {}
            // A webhook with side effects is not asked.
            Err(Error::Rejected { message }) if message.contains("does not support dry run") => {
                forecast.problems.push(unknown(&pods, &message));
                return Ok(());
            }
            Err(Error::Rejected { message }) => {
                let message = format!("the API server refuses {pods}: {message}");
                let (kind, nodes) = (RiskKind::PodRefused, Vec::new());
                forecast.risks.insert(0, Risk { kind, message, nodes });
                return Ok(());
            }
            // The namespace does not exist yet, which is stated already.
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) if error.is_forbidden() => {
                forecast.problems.push(unknown(&pods, &error));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A node that gets a pod, if any does.
fn first_node(forecast: &Forecast) -> Option<String> {
    match &forecast.nodes {
        None => Some("unknown".to_owned()),
        Some(nodes) => nodes.gain.iter().chain(&nodes.replace).next().cloned(),
    }
}

fn unknown(pods: &str, why: &dyn Display) -> String {
    format!("unknown whether the API server admits {pods}: {why}")
}

/// True if the refusal names an object that the manifest creates.
fn is_of_manifest(message: &str, manifest: &Manifest) -> bool {
    REQUIRED.iter().any(|(kind, before)| {
        let name = message.split_once(before).map(|(_, rest)| rest);
        let name = name.and_then(|rest| rest.split(['"', ' ']).next()).unwrap_or_default();
        !name.is_empty() && manifest.ignored.contains(&format!("{kind} {name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_manifest_creates_is_not_missing() {
        let manifest = |ignored: &str| Manifest {
            name: String::new(),
            daemon_sets: Vec::new(),
            policies: Vec::new(),
            ignored: vec![ignored.to_owned()],
        };
        let account = "pods \"a-\" is forbidden: error looking up service account n/agent: \
                       serviceaccount \"agent\" not found";
        let class = "pods \"a-\" is forbidden: no PriorityClass with name high was found";
        for (message, ignored, expected) in [
            (account, "ServiceAccount agent", true),
            (account, "ServiceAccount other", false),
            (class, "PriorityClass high", true),
            (class, "PriorityClass higher", false),
            ("pods \"a-\" is forbidden: exceeded quota: q", "PriorityClass q", false),
        ] {
            assert_eq!(is_of_manifest(message, &manifest(ignored)), expected, "{message}");
        }
    }
}
