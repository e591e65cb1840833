//! `everynode rollout`: pauses and resumes a rollout by the DaemonSet's annotation (G6, G22).

use std::process::ExitCode;
use std::time::Duration;

use everynode_core::api::PAUSED_ANNOTATION;
use everynode_k8s::convert;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::args::{DaemonSetName, RolloutArguments, RolloutCommand, RolloutTarget};
use crate::cluster::{Cluster, DryRun, Resource};
use crate::output;

const EXIT_NOT_ACKNOWLEDGED: u8 = 3;

/// Time within which a controller states in the status that it has read the annotation.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Executes the command.
pub(crate) async fn execute(arguments: RolloutArguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        RolloutCommand::Pause(target) => set_paused(target, true).await,
        RolloutCommand::Resume(target) => set_paused(target, false).await,
    }
}

async fn set_paused(target: RolloutTarget, pauses: bool) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&target.connection).await?;
    let name = &target.daemon_set;
    let before = cluster.daemon_set(name).await?;
    let annotations = before.metadata.annotations.unwrap_or_default();
    let value = annotations.get(PAUSED_ANNOTATION).map(String::as_str);
    let is_paused = value.is_some_and(|value| value != "false");
    let done = if pauses { "paused" } else { "resumed" };
    if is_paused == pauses && (value == Some("true") || !pauses) {
        let state = if pauses { "already paused" } else { "not paused" };
        output::print(&format!("daemonset.apps/{name} {state}\n"))?;
    } else {
        let value = if pauses { Value::from("true") } else { Value::Null };
        let metadata =
            json!({ "uid": before.metadata.uid, "annotations": { PAUSED_ANNOTATION: value } });
        let (namespace, patch) = (Some(cluster.namespace()), json!({ "metadata": metadata }));
        cluster.patch(Resource::DaemonSets, namespace, name.as_str(), &patch, DryRun::No).await?;
        output::print(&format!("daemonset.apps/{name} {done}\n"))?;
    }
    if is_acknowledged(&cluster, name, pauses).await? {
        return Ok(ExitCode::SUCCESS);
    }
    output::note(format_args!(
        "no controller has acknowledged within {} s that the rollout is {done}: everynode does not \
         run, or not for this cluster",
        ACKNOWLEDGEMENT_TIMEOUT.as_secs()
    ));
    Ok(ExitCode::from(EXIT_NOT_ACKNOWLEDGED))
}

/// Waits until the status states whether the rollout is paused.
async fn is_acknowledged(
    cluster: &Cluster,
    name: &DaemonSetName,
    pauses: bool,
) -> anyhow::Result<bool> {
    let deadline = Instant::now() + ACKNOWLEDGEMENT_TIMEOUT;
    loop {
        let json = cluster.daemon_set_json(name).await?;
        let status = convert::daemon_set(json.get().as_bytes(), None)?.daemon_set.status;
        if status.paused_since.is_some() == pauses {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(POLL_INTERVAL).await;
    }
}
