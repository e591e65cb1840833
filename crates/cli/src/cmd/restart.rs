//! `everynode restart`: replaces all pods of a DaemonSet, as `kubectl rollout restart` does.

use serde_json::json;

use crate::args::RestartArguments;
use crate::cluster::{Cluster, DryRun, Resource};
use crate::output;

const RESTARTED_AT_ANNOTATION: &str = "kubectl.kubernetes.io/restartedAt";

/// Executes the command.
pub(crate) async fn execute(arguments: RestartArguments) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    let name = &arguments.daemon_set;
    let daemon_set = cluster.daemon_set(name).await?;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let annotations = json!({ RESTARTED_AT_ANNOTATION: now });
    let patch = json!({
        "metadata": { "uid": daemon_set.metadata.uid },
        "spec": { "template": { "metadata": { "annotations": annotations } } },
    });
    let namespace = Some(cluster.namespace());
    let restarted =
        cluster.patch(Resource::DaemonSets, namespace, name.as_str(), &patch, DryRun::No).await?;
    output::warnings(&restarted.warnings);
    output::print(&format!("daemonset.apps/{name} restarted\n"))?;
    super::undo::warn_of_on_delete(&daemon_set);
    Ok(())
}
