//! The actions on the pages: the same as those of the commands.

use anyhow::bail;
use everynode_core::api::{DaemonSetKey, OrderVerb};
use everynode_dashboard::source::{Action, Done, Prepared};
use everynode_insight::guarded::StepState;
use everynode_insight::revision_diff::RevisionDiff;
use everynode_insight::rollout::{Pause, Strategy};
use everynode_insight::rollout_nodes::{RolloutNodes, WaveNodes};
use everynode_k8s::canonical::canonical;
use everynode_k8s::convert;
use k8s_openapi::api::apps::v1::DaemonSet;

use crate::args::DaemonSetName;
use crate::cluster::{Cluster, DaemonSetRevisions, DryRun};
use crate::cmd::rollout::order::{self, OrderKind, PreparedOrder};
use crate::cmd::rollout::pause;
use crate::cmd::{first_wave, restart, undo};

/// The effects that an action would have now. `nodes` are those of a guarded rollout.
///
/// # Errors
/// If it would have no effect, or that can't be found out.
pub(super) async fn prepare(
    cluster: &Cluster,
    name: &DaemonSetName,
    action: Action,
    nodes: Option<&RolloutNodes>,
) -> anyhow::Result<Prepared> {
    if let Some(kind) = order_kind(action) {
        let order = PreparedOrder::of(cluster, name, kind).await?;
        let effects =
            std::iter::once(order_effect(&order.verb, nodes)).chain(order.problems.clone());
        return Ok(Prepared { effects: effects.collect(), diff: None, basis: order.basis() });
    }
    match action {
        Action::Undo(number) => prepare_undo(cluster, name, number).await,
        _ => prepare_simple(cluster, name, action).await,
    }
}

/// Carries out an action whose effect was shown as of `basis`.
///
/// # Errors
/// If it would do something else by now, or the cluster refuses it.
pub(super) async fn perform(
    cluster: &Cluster,
    name: &DaemonSetName,
    action: Action,
    basis: &str,
) -> anyhow::Result<Done> {
    let changed = "the DaemonSet has changed since the page was shown: go back and look again";
    if let Some(kind) = order_kind(action) {
        let order = PreparedOrder::of(cluster, name, kind).await?;
        anyhow::ensure!(order.basis() == basis, changed);
        let is_carried_out = order.give(cluster, name, None).await?;
        let notes = if is_carried_out { Vec::new() } else { vec![order::not_carried_out()] };
        let message = if is_carried_out { order.done() } else { "the order is given".to_owned() };
        return Ok(Done { message, notes });
    }
    let prepared = prepare(cluster, name, action, None).await?;
    anyhow::ensure!(prepared.basis == basis, changed);
    match action {
        Action::Pause => set_paused(cluster, name, true).await,
        Action::Resume => set_paused(cluster, name, false).await,
        Action::Restart => {
            let daemon_set = cluster.daemon_set(name).await?;
            let patch = restart::patch_of(&daemon_set);
            let written = restart::restart(cluster, &daemon_set, &patch).await?;
            Ok(done("restarted", written.warnings, &daemon_set))
        }
        Action::Undo(number) => {
            let revisions = DaemonSetRevisions::read(cluster, name).await?;
            let target = revisions.target(number)?;
            let daemon_set = &revisions.daemon_set;
            let written = undo::roll_back(cluster, daemon_set, &target, DryRun::No).await?;
            let message = format!("rolled back to revision {}", target.revision);
            Ok(done(&message, written.warnings, daemon_set))
        }
        Action::Approve | Action::Promote | Action::PromoteFull | Action::Abort | Action::Retry => {
            unreachable!("orders are given above")
        }
    }
}

fn order_kind(action: Action) -> Option<OrderKind> {
    match action {
        Action::Approve => Some(OrderKind::Approve { wave: None }),
        Action::Promote => Some(OrderKind::Promote),
        Action::PromoteFull => Some(OrderKind::PromoteFull),
        Action::Abort => Some(OrderKind::Abort),
        Action::Retry => Some(OrderKind::Retry),
        Action::Pause | Action::Resume | Action::Undo(_) | Action::Restart => None,
    }
}

/// The effect of an order, with the waves and nodes that it concerns as far as they are known.
fn order_effect(verb: &OrderVerb, nodes: Option<&RolloutNodes>) -> String {
    let waves = nodes.map(|nodes| &*nodes.waves).unwrap_or_default();
    let titled = |wave: &WaveNodes| format!("{} ({})", wave.title(), count(wave.nodes));
    let named = |name: &str| {
        let wave = waves.iter().find(|wave| wave.name.as_deref() == Some(name));
        wave.map_or_else(|| name.to_owned(), titled)
    };
    let next = waves.iter().find(|wave| wave.state == StepState::Ahead).map(titled);
    let all = nodes.map(|nodes| &nodes.all.0);
    match verb {
        OrderVerb::Approve(wave) => {
            let next = next.map(|next| format!(": next is {next}")).unwrap_or_default();
            let wave = named(wave.as_str());
            format!("Wave {wave} is approved. When it is complete, the rollout goes on{next}.")
        }
        OrderVerb::Promote(wave) => {
            let next = next.unwrap_or_else(|| "the next wave".to_owned());
            let wave = named(wave.as_str());
            format!("The rollout goes on to {next} without waiting for wave {wave}.")
        }
        OrderVerb::PromoteFull => {
            let all = all.map_or_else(
                || "all nodes".to_owned(),
                |all| format!("all {}, of which {} are done", count(all.total()), all.done),
            );
            format!("The rollout goes on to {all}, whatever the policy's steps say.")
        }
        OrderVerb::Abort => {
            let back = all.map_or_else(
                || "its nodes go".to_owned(),
                |all| format!("{} that have begun go", count(all.done + all.updating + all.failed)),
            );
            format!("The rollout ends as failed: {back} back to the last complete revision.")
        }
        OrderVerb::Retry => {
            let first = waves.first().map(|wave| format!(", {}", titled(wave)));
            let first = first.unwrap_or_default();
            format!("The failed rollout begins again at its first wave{first}.")
        }
    }
}

fn count(nodes: usize) -> String {
    format!("{nodes} {}", if nodes == 1 { "node" } else { "nodes" })
}

async fn prepare_simple(
    cluster: &Cluster,
    name: &DaemonSetName,
    action: Action,
) -> anyhow::Result<Prepared> {
    let json = cluster.daemon_set_json(name).await?;
    let daemon_set = convert::daemon_set(json.get().as_bytes(), None)?.daemon_set;
    let pause = Pause::of(&daemon_set);
    let strategy = Strategy(daemon_set.update_strategy);
    let effect = match (action, pause) {
        (Action::Pause, Pause::Yes | Pause::Requested) => bail!("the rollout is already paused"),
        (Action::Pause, Pause::No) => {
            "No more pods are replaced until somebody resumes the rollout. Nodes keep their pods, \
             whatever the template says."
                .to_owned()
        }
        (Action::Resume, Pause::No) => bail!("the rollout is not paused"),
        (Action::Resume, Pause::Yes | Pause::Requested) => {
            format!("Pods of older revisions are replaced again ({strategy}).")
        }
        _ => format!(
            "All pods on {} nodes are replaced, under the update strategy {strategy}.",
            daemon_set.status.desired_number_scheduled
        ),
    };
    let mut effects = vec![effect];
    if action == Action::Restart {
        let daemon_set = cluster.daemon_set(name).await?;
        let patch = restart::patch_of(&daemon_set);
        effects.extend(first_wave::of(cluster, name, &daemon_set, &patch).await);
    }
    // A change of the status does not matter.
    let basis = format!("{} {} {pause:?}", daemon_set.uid, daemon_set.generation);
    Ok(Prepared { effects, diff: None, basis })
}

async fn prepare_undo(
    cluster: &Cluster,
    name: &DaemonSetName,
    number: Option<i64>,
) -> anyhow::Result<Prepared> {
    let revisions = DaemonSetRevisions::read(cluster, name).await?;
    let target = revisions.target(number)?;
    let number = target.revision;
    let Some(template) = &target.template else {
        bail!("revision {number} contains no pod template");
    };
    if canonical(template) == canonical(&revisions.template) {
        bail!("the current template already matches revision {number}");
    }
    // The server says now what it would refuse then.
    let daemon_set = &revisions.daemon_set;
    let written = undo::roll_back(cluster, daemon_set, &target, DryRun::Server).await?;
    let images = target.images().join(", ");
    let mut effects =
        vec![format!("The pod template of revision {number} is restored ({images}).")];
    effects.extend(undo::on_delete_warning(daemon_set).map(str::to_owned));
    let patch = undo::patch_to(daemon_set, &target);
    effects.extend(first_wave::of(cluster, name, daemon_set, &patch).await);
    effects.extend(undo::unrestored_by(&revisions.template, template));
    effects.extend(written.warnings.iter().map(|warning| format!("The server warns: {warning}")));
    let entries = revisions.entries(None);
    let current = entries.iter().rev().find(|entry| entry.current);
    let key = DaemonSetKey::new(cluster.namespace(), name.as_str());
    let diff = current.map(|current| {
        RevisionDiff::new(&key, (current, &revisions.template), (Some(&target), template))
    });
    let metadata = &daemon_set.metadata;
    let (uid, generation) = (metadata.uid.as_deref().unwrap_or_default(), metadata.generation);
    let basis = format!("{uid} {} {number}", generation.unwrap_or_default());
    Ok(Prepared { effects, diff, basis })
}

async fn set_paused(cluster: &Cluster, name: &DaemonSetName, pauses: bool) -> anyhow::Result<Done> {
    let message = pause::annotate(cluster, name, pauses, None).await?.to_owned();
    let is_acknowledged = pause::is_acknowledged(cluster, name, pauses).await?;
    let notes = if is_acknowledged { Vec::new() } else { vec![pause::not_acknowledged(pauses)] };
    Ok(Done { message, notes })
}

fn done(message: &str, warnings: Vec<String>, daemon_set: &DaemonSet) -> Done {
    let on_delete = undo::on_delete_warning(daemon_set).map(str::to_owned);
    Done { message: message.to_owned(), notes: warnings.into_iter().chain(on_delete).collect() }
}
