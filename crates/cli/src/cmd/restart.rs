//! `everynode restart`: replaces all pods of a DaemonSet, as `kubectl rollout restart` does.

use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::{Value, json};

use super::first_wave;
use crate::args::RestartArguments;
use crate::cluster::{Cluster, DryRun, Error, Resource, Written};
use crate::output;

/// The annotation of a template whose change replaces every pod.
pub(super) const RESTARTED_AT_ANNOTATION: &str = "kubectl.kubernetes.io/restartedAt";

/// Executes the command.
pub(crate) async fn execute(arguments: RestartArguments) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    let name = &arguments.daemon_set;
    let daemon_set = cluster.daemon_set(name).await?;
    let patch = patch_of(&daemon_set);
    // Before the controller begins.
    let begins = first_wave::of(&cluster, name, &daemon_set, &patch).await;
    let restarted = restart(&cluster, &daemon_set, &patch).await?;
    output::warnings(&restarted.warnings);
    output::print(&format!("daemonset.apps/{name} restarted\n"))?;
    super::undo::on_delete_warning(&daemon_set).iter().for_each(output::note);
    begins.iter().for_each(output::note);
    Ok(())
}

/// The patch of an annotation of the template, with which every pod is replaced.
pub(crate) fn patch_of(daemon_set: &DaemonSet) -> Value {
    let annotations = json!({ RESTARTED_AT_ANNOTATION: restarted_at() });
    json!({
        "metadata": { "uid": daemon_set.metadata.uid },
        "spec": { "template": { "metadata": { "annotations": annotations } } },
    })
}

/// Sends the patch.
///
/// # Errors
/// If the server rejects that, or the DaemonSet is another one by now.
pub(crate) async fn restart(
    cluster: &Cluster,
    daemon_set: &DaemonSet,
    patch: &Value,
) -> Result<Written, Error> {
    let name = daemon_set.metadata.name.as_deref().unwrap_or_default();
    let namespace = Some(cluster.namespace());
    cluster.patch(Resource::DaemonSets, namespace, name, patch, DryRun::No).await
}

/// The value of the annotation for a restart at this moment.
pub(super) fn restarted_at() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
