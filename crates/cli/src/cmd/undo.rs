//! `everynode undo`: restores an earlier pod template, as `kubectl rollout undo` does.

use everynode_core::api::unrestored;
use everynode_insight::history::RevisionEntry;
use everynode_k8s::canonical::canonical;
use everynode_k8s::{convert, patch};
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::Value;

use super::{diff, first_wave};
use crate::args::UndoArguments;
use crate::cluster::{Cluster, DaemonSetRevisions, DryRun, Error, Resource, Written, parsed};
use crate::output::{self, TextLayout};

/// Executes the command.
pub(crate) async fn execute(arguments: UndoArguments) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    let name = &arguments.daemon_set;
    let revisions = DaemonSetRevisions::read(&cluster, name).await?;
    // As in kubectl, zero means the previous revision.
    let target = revisions.target(arguments.to_revision.filter(|number| *number > 0))?;
    let number = target.revision;
    let Some(template) = &target.template else {
        anyhow::bail!("revision {number} contains no pod template");
    };
    if canonical(template) == canonical(&revisions.template) {
        let reason = format!("current template already matches revision {number}");
        return output::print(&format!("daemonset.apps/{name} skipped rollback ({reason})\n"));
    }
    let dry_run = if arguments.dry_run { DryRun::Server } else { DryRun::No };
    let daemon_set = &revisions.daemon_set;
    // Before the controller begins.
    let patch = patch_to(daemon_set, &target);
    let begins = first_wave::of(&cluster, name, daemon_set, &patch).await;
    let after = roll_back(&cluster, daemon_set, &target, dry_run).await?;
    output::warnings(&after.warnings);
    if dry_run == DryRun::Server {
        let mut after: Value = parsed(Resource::DaemonSets, after.object.get())?;
        let titles = ["current template".to_owned(), format!("revision {number}")];
        let templates = [&revisions.template, &after["spec"]["template"].take()];
        let layout = TextLayout::stdout(arguments.color.color);
        output::print(&diff::text(titles, templates, layout)?)?;
        output::print(&format!("daemonset.apps/{name} rolled back (server dry run)\n"))?;
    } else {
        output::print(&format!("daemonset.apps/{name} rolled back to revision {number}\n"))?;
        on_delete_warning(daemon_set).iter().for_each(output::note);
    }
    begins.iter().for_each(output::note);
    unrestored_by(&revisions.template, template).iter().for_each(output::note);
    Ok(())
}

/// Restores the template of the revision.
///
/// # Errors
/// If the server rejects that, or the DaemonSet is another one by now.
pub(crate) async fn roll_back(
    cluster: &Cluster,
    daemon_set: &DaemonSet,
    target: &RevisionEntry,
    dry_run: DryRun,
) -> Result<Written, Error> {
    let patch = patch_to(daemon_set, target);
    let name = daemon_set.metadata.name.as_deref().unwrap_or_default();
    cluster.patch(Resource::DaemonSets, Some(cluster.namespace()), name, &patch, dry_run).await
}

/// The configuration that restoring a template does not restore (G53).
pub(crate) fn unrestored_by(current: &Value, restored: &Value) -> Option<String> {
    let [current, restored] = [current, restored].map(convert::stored_config);
    unrestored(&current?.changed_since(&*restored?))
}

/// The patch that restores the template of the revision.
pub(crate) fn patch_to(daemon_set: &DaemonSet, target: &RevisionEntry) -> Value {
    patch::undo(daemon_set.metadata.uid.as_deref().unwrap_or_default(), &target.data)
}

/// That with `OnDelete` the controller does not replace the pods, unless a policy guards its
/// rollouts.
pub(crate) fn on_delete_warning(daemon_set: &DaemonSet) -> Option<&'static str> {
    let strategy = daemon_set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    let is_on_delete = strategy.and_then(|it| it.type_.as_deref()) == Some("OnDelete");
    (is_on_delete && !first_wave::is_guarded(daemon_set))
        .then_some("its update strategy is OnDelete: a pod is replaced when you delete it")
}
