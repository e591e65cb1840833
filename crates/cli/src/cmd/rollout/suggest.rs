//! `everynode rollout suggest`: a rollout policy made for a DaemonSet in its cluster (G52).

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use everynode_insight::program;
use everynode_insight::snapshot::ObjectKind;
use everynode_insight::suggestion::Suggestion;
use everynode_k8s::convert::{self, DaemonSetObject, PolicyReference};
use everynode_k8s::policies::{Governing, Policies};
use everynode_sandbox::yaml;
use serde_json::Value;

use crate::args::{DocumentFormat, RolloutSuggestArguments};
use crate::clock;
use crate::cluster::{Cluster, Resource, parsed};
use crate::output;
use crate::snapshot_source::{self, PodScope, RequiredData};

/// Executes the command.
pub(super) async fn execute(arguments: RolloutSuggestArguments) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    let json = cluster.daemon_set_json(&arguments.daemon_set).await?;
    let raw: Value = parsed(Resource::DaemonSets, json.get())?;
    let (pods, required) = (PodScope::OfDaemonSet, RequiredData::Nodes);
    let mut snapshot = snapshot_source::from_cluster(&cluster, &raw, pods, required).await?;
    snapshot.add(ObjectKind::DaemonSet, json.get().as_bytes());
    snapshot.problems.iter().for_each(output::note);
    let object = convert::daemon_set(json.get().as_bytes(), None)?;
    let key = &object.daemon_set.key;
    let suggestion = Suggestion::new(&snapshot, &object, arguments.windows, clock::now())
        .with_context(|| format!("daemonset {key}"))?;
    let text = suggestion.manifest();
    let policy: Value = yaml::document(&text).context("the suggested policy")?;
    // Only the windows come from outside.
    let read = convert::policy_object(policy.to_string().as_bytes())?;
    read.policy.as_ref().map_err(|errors| anyhow!("{errors}"))?;
    existing(&snapshot.policies, &object, &read.reference).iter().for_each(output::note);
    output::print(&match arguments.output {
        DocumentFormat::Yaml => text,
        DocumentFormat::Json => output::json(&policy)?,
    })?;
    output::note(format_args!(
        "to see what it would do: | {} -; then, to guard rollouts by it: | kubectl apply -f -",
        program::command("plan -f")
    ));
    Ok(ExitCode::SUCCESS)
}

/// A note on a policy that guards the DaemonSet already.
fn existing(
    policies: &Policies,
    object: &DaemonSetObject,
    suggested: &PolicyReference,
) -> Option<String> {
    let effect = match policies.governing(&object.raw) {
        Governing::Object(policy) if policy.reference == *suggested => "this one would replace it",
        Governing::Object(policy) if policy.reference.namespace.is_some() => {
            "with this one, too, neither would count, so delete that one first"
        }
        Governing::Annotation | Governing::Object(_) => "this one would count instead",
        Governing::Conflict(_) => {
            return Some(format!(
                "several policies select daemonset {} already, so none counts, nor would this one",
                object.daemon_set.key
            ));
        }
        Governing::Unknown(_) => return None,
    };
    let counting = policies.counting(&object.raw)?;
    let key = &object.daemon_set.key;
    Some(format!("{counting} guards daemonset {key} already: {effect}"))
}
