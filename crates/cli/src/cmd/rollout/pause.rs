//! `everynode rollout pause` and `resume`: by the DaemonSet's annotation (G6, G22).

use std::process::ExitCode;

use everynode_core::api::{PAUSED_ANNOTATION, RolloutReason};
use everynode_k8s::convert;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{ACKNOWLEDGEMENT_TIMEOUT, EXIT_NOT_ACKNOWLEDGED, POLL_INTERVAL};
use crate::args::{DaemonSetName, RolloutTarget};
use crate::cluster::{Cluster, DryRun, Resource};
use crate::output;

/// Pauses or resumes the rollout, and waits until the controller has acknowledged it.
pub(super) async fn set_paused(target: RolloutTarget, pauses: bool) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&target.connection).await?;
    let name = &target.daemon_set;
    let done = annotate(&cluster, name, pauses).await?;
    output::print(&format!("daemonset.apps/{name} {done}\n"))?;
    if is_acknowledged(&cluster, name, pauses).await? {
        return Ok(ExitCode::SUCCESS);
    }
    output::note(not_acknowledged(pauses));
    Ok(ExitCode::from(EXIT_NOT_ACKNOWLEDGED))
}

/// That no controller acts on the annotation.
pub(crate) fn not_acknowledged(pauses: bool) -> String {
    let done = if pauses { "paused" } else { "resumed" };
    format!(
        "no controller has acknowledged within {} s that the rollout is {done}: everynode does not \
         run, or not for this cluster",
        ACKNOWLEDGEMENT_TIMEOUT.as_secs()
    )
}

/// Sets or removes the annotation; returns what that has done.
pub(crate) async fn annotate(
    cluster: &Cluster,
    name: &DaemonSetName,
    pauses: bool,
) -> anyhow::Result<&'static str> {
    let before = cluster.daemon_set(name).await?;
    let annotations = before.metadata.annotations.unwrap_or_default();
    let value = annotations.get(PAUSED_ANNOTATION).map(String::as_str);
    let is_paused = value.is_some_and(|value| value != "false");
    if is_paused == pauses && (value == Some("true") || !pauses) {
        return Ok(if pauses { "already paused" } else { "not paused" });
    }
    let value = if pauses { Value::from("true") } else { Value::Null };
    let metadata =
        json!({ "uid": before.metadata.uid, "annotations": { PAUSED_ANNOTATION: value } });
    let (namespace, patch) = (Some(cluster.namespace()), json!({ "metadata": metadata }));
    cluster.patch(Resource::DaemonSets, namespace, name.as_str(), &patch, DryRun::No).await?;
    Ok(if pauses { "paused" } else { "resumed" })
}

/// Waits until the status states whether the rollout is paused.
pub(crate) async fn is_acknowledged(
    cluster: &Cluster,
    name: &DaemonSetName,
    pauses: bool,
) -> anyhow::Result<bool> {
    let deadline = Instant::now() + ACKNOWLEDGEMENT_TIMEOUT;
    loop {
        let json = cluster.daemon_set_json(name).await?;
        let status = convert::daemon_set(json.get().as_bytes(), None)?.daemon_set.status;
        let stated = status.rollout.is_some_and(|rollout| rollout.reason == RolloutReason::Paused);
        if stated == pauses {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(POLL_INTERVAL).await;
    }
}
