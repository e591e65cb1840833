//! Where the guarded rollout of a template begins that `undo` or `restart` sets: the policy decides
//! when the other nodes follow.

use everynode_core::api::RolloutReason;
use everynode_insight::forecast::{Forecast, Proposal, RiskKind, changes, forecast};
use everynode_insight::names;
use everynode_insight::program;
use everynode_insight::snapshot::ObjectKind;
use everynode_k8s::convert;
use everynode_k8s::patch::PROGRESSING;
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::Value;

use crate::args::DaemonSetName;
use crate::clock;
use crate::cluster::{Cluster, Resource, parsed};
use crate::snapshot_source::{self, PodScope, RequiredData};

/// The width of the list of nodes.
const NAMES_WIDTH: usize = 60;

/// One sentence for a DaemonSet whose rollouts are guarded: the first wave, and how to do without
/// waves. `None` if the patch is rolled out to all nodes at once.
pub(crate) async fn of(
    cluster: &Cluster,
    name: &DaemonSetName,
    daemon_set: &DaemonSet,
    patch: &Value,
) -> Option<String> {
    if !is_guarded(daemon_set) {
        return None;
    }
    match planned(cluster, name, patch).await {
        Ok(forecast) => {
            let name = format!("ds/{name} -n {}", cluster.namespace());
            sentence(&forecast, &program::command(format_args!("rollout promote {name} --full")))
        }
        // It is no reason not to go back.
        Err(error) => Some(format!("unknown on which nodes its rollout begins: {error:#}")),
    }
}

/// True if a policy guards its rollouts, as a condition states.
pub(super) fn is_guarded(daemon_set: &DaemonSet) -> bool {
    let conditions = daemon_set.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut stated = conditions.filter(|condition| condition.type_ == PROGRESSING);
    stated.any(|condition| {
        let reason = condition.reason.as_deref();
        RolloutReason::ALL.into_iter().any(|known| Some(known.as_str()) == reason)
    })
}

async fn planned(
    cluster: &Cluster,
    name: &DaemonSetName,
    patch: &Value,
) -> anyhow::Result<Forecast> {
    let json = cluster.daemon_set_json(name).await?;
    let live: Value = parsed(Resource::DaemonSets, json.get())?;
    let after = snapshot_source::patch_locally(&live, patch)?;
    let (pods, nothing) = (PodScope::OfDaemonSet, RequiredData::Nothing);
    let mut snapshot = snapshot_source::from_cluster(cluster, &after, pods, nothing).await?;
    snapshot.add(ObjectKind::DaemonSet, json.get().as_bytes());
    let object = snapshot.governed(convert::daemon_set(after.to_string().as_bytes(), None)?);
    let changes = Some(changes(&live, &after));
    let proposal = Proposal { object, changes, knows_room: false, start_up: None };
    Ok(forecast(&snapshot, &proposal, clock::now()))
}

fn sentence(forecast: &Forecast, at_once: &str) -> Option<String> {
    let is_held =
        |kind| matches!(kind, RiskKind::Paused | RiskKind::Windows | RiskKind::InvalidPolicy);
    let held = forecast.risks.iter().find(|risk| is_held(risk.kind));
    let held = held.map(|risk| risk.message.clone());
    let begins = forecast.guarded_waves.split_first().and_then(|(first, others)| {
        let is_free = first.bake_seconds == 0 && !first.approval && first.checks.is_empty();
        let nodes = names::shortened(first.nodes.iter().map(String::as_str), NAMES_WIDTH);
        let count = first.nodes.len();
        let plural = if count == 1 { "" } else { "s" };
        let name = first.name.as_deref().unwrap_or("of all nodes");
        let approval = if first.approval { ", which must be approved" } else { "" };
        (!others.is_empty() || !is_free)
            .then(|| format!("with wave {name} ({count} node{plural}: {nodes}){approval}"))
    });
    let unknown =
        || forecast.nodes.is_none().then(|| "with the first wave of its policy".to_owned());
    let begins = begins.or_else(unknown).map(|begins| {
        format!("its rollout begins {begins}; to take it to all nodes at once: {at_once}")
    });
    let what: Vec<String> = held.into_iter().chain(begins).collect();
    (!what.is_empty()).then(|| what.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_core::api::UpdateStrategy;
    use everynode_insight::forecast::{Action, GuardedWave, NodeChanges, Risk};
    use everynode_insight::rollout::Strategy;

    fn forecast_of(guarded_waves: Vec<GuardedWave>) -> Forecast {
        Forecast {
            namespace: "n".to_owned(),
            name: "a".to_owned(),
            action: Action::Change,
            update_strategy: Strategy(UpdateStrategy::OnDelete),
            changes: Vec::new(),
            nodes: Some(NodeChanges::default()),
            waves: Vec::new(),
            guarded_waves,
            overrides: Vec::new(),
            changes_overrides: false,
            duration: None,
            unfinished: Vec::new(),
            risks: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn wave(name: Option<&str>, nodes: &[&str], approval: bool) -> GuardedWave {
        GuardedWave {
            name: name.map(str::to_owned),
            starts_after_seconds: 0,
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
            bake_seconds: 0,
            approval,
            checks: Vec::new(),
        }
    }

    /// G22: `undo` and `restart` say where the rollout begins, and how to do without waves
    #[test]
    fn the_first_wave_is_named_and_the_way_past_it() {
        let said = |forecast: &Forecast| sentence(forecast, "PROMOTE").unwrap_or_default();
        let canary = wave(Some("canary"), &["node-1", "node-2"], true);
        assert_eq!(
            said(&forecast_of(vec![canary, wave(None, &["node-3"], false)])),
            "its rollout begins with wave canary (2 nodes: node-1, node-2), which must be \
             approved; to take it to all nodes at once: PROMOTE"
        );
        assert_eq!(said(&forecast_of(vec![wave(None, &["node-1"], false)])), "");
        assert_eq!(said(&forecast_of(Vec::new())), "", "it goes back to the base");
        let message = "the rollout is paused".to_owned();
        let paused = Risk { kind: RiskKind::Paused, message, nodes: Vec::new() };
        let paused = Forecast { risks: vec![paused], ..forecast_of(Vec::new()) };
        assert_eq!(said(&paused), "the rollout is paused");
        let unknown = Forecast { nodes: None, ..forecast_of(Vec::new()) };
        assert!(said(&unknown).starts_with("its rollout begins with the first wave"));
    }
}
