//! `everynode rollout pause` and `resume`: by the DaemonSet's annotation (G6, G22).

use std::process::ExitCode;

use anyhow::bail;
use everynode_core::api::{PAUSE_REASON_ANNOTATION, PAUSED_ANNOTATION};
use everynode_k8s::convert::{self, attribution_text};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{ACKNOWLEDGEMENT_TIMEOUT, EXIT_NOT_ACKNOWLEDGED, Guarded, POLL_INTERVAL, attribution};
use crate::args::{DaemonSetName, RolloutTarget};
use crate::cluster::{Cluster, DryRun, Resource};
use crate::output;

/// Pauses or resumes the rollout, and waits until the controller has acknowledged it.
pub(super) async fn set_paused(target: RolloutTarget, pauses: bool) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&target.connection).await?;
    let name = &target.daemon_set;
    let done = annotate(&cluster, name, pauses, target.reason.as_deref()).await?;
    if !pauses {
        match super::read(&cluster, name).await {
            Ok(Guarded { daemon_set, .. })
                if daemon_set.policy.valid().is_some_and(|policy| policy.paused) =>
            {
                bail!("the rollout policy pauses the rollout: set paused to false there")
            }
            Ok(_) => {}
            Err(error) => output::note(format!("unknown whether a policy pauses it: {error:#}")),
        }
    }
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

/// Sets or removes the annotation, and states who does that and why; returns what that has done.
pub(crate) async fn annotate(
    cluster: &Cluster,
    name: &DaemonSetName,
    pauses: bool,
    reason: Option<&str>,
) -> anyhow::Result<&'static str> {
    let before = cluster.daemon_set(name).await?;
    let annotations = before.metadata.annotations.unwrap_or_default();
    let value = annotations.get(PAUSED_ANNOTATION).map(String::as_str);
    let is_paused = value.is_some_and(|value| value != "false");
    let is_done = is_paused == pauses && (value == Some("true") || !pauses);
    if is_done && reason.is_none() {
        return Ok(if pauses { "already paused" } else { "not paused" });
    }
    let (verb, value) = match pauses {
        true => ("pause", Value::from("true")),
        false => ("resume", Value::Null),
    };
    let given = attribution::now(cluster, reason).await;
    let stated = attribution_text(&format!("{verb} {}", Timestamp::now()), &given);
    let annotations = json!({ PAUSED_ANNOTATION: value, PAUSE_REASON_ANNOTATION: stated });
    let metadata = json!({ "uid": before.metadata.uid, "annotations": annotations });
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
        if status.rollout.is_some_and(|rollout| rollout.states_pause()) == pauses {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(POLL_INTERVAL).await;
    }
}
