//! `everynode rollout`: where a guarded rollout is, and what people do with it (G10, G22).

mod agree;
mod attribution;
mod check;
mod get;
pub(crate) mod order;
pub(crate) mod pause;
mod suggest;

use std::process::ExitCode;
use std::time::Duration;

use everynode_core::api::DaemonSet;
use everynode_insight::history::RevisionEntry;
use everynode_insight::snapshot::Snapshot;
use everynode_k8s::convert;

use crate::args::{DaemonSetName, RolloutArguments, RolloutCommand};
use crate::cluster::{Cluster, DaemonSetRevisions};
use crate::snapshot_source;
use order::OrderKind;

const EXIT_NOT_ACKNOWLEDGED: u8 = 3;

/// Time within which a controller acts on an annotation.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Executes the command.
pub(crate) async fn execute(arguments: RolloutArguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        RolloutCommand::Suggest(arguments) => suggest::execute(arguments).await,
        RolloutCommand::Get(arguments) => get::execute(arguments).await,
        RolloutCommand::Check(arguments) => check::execute(arguments).await,
        RolloutCommand::Pause(target) => pause::set_paused(target, true).await,
        RolloutCommand::Resume(target) => pause::set_paused(target, false).await,
        RolloutCommand::Approve(arguments) => {
            order::give(arguments.target, OrderKind::Approve { wave: arguments.wave }).await
        }
        RolloutCommand::Agree(arguments) => agree::execute(arguments).await,
        RolloutCommand::Promote(arguments) if arguments.full => {
            order::give(arguments.target, OrderKind::PromoteFull).await
        }
        RolloutCommand::Promote(arguments) => {
            order::give(arguments.target, OrderKind::Promote).await
        }
        RolloutCommand::Abort(target) => order::give(target, OrderKind::Abort).await,
        RolloutCommand::Retry(target) => order::give(target, OrderKind::Retry).await,
    }
}

/// A DaemonSet with the policy that governs it, and its history.
struct Guarded {
    daemon_set: DaemonSet,
    revisions: Vec<RevisionEntry>,
    /// Objects that could not be read.
    problems: Vec<String>,
}

async fn read(cluster: &Cluster, name: &DaemonSetName) -> anyhow::Result<Guarded> {
    let mut snapshot = Snapshot::default();
    snapshot_source::add_policies(&mut snapshot, cluster, cluster.namespace()).await?;
    let revisions = revisions(cluster, name).await?;
    let json = cluster.daemon_set_json(name).await?;
    let object = convert::daemon_set(json.get().as_bytes(), None)?;
    let daemon_set = snapshot.governed(object).daemon_set;
    Ok(Guarded { daemon_set, revisions, problems: snapshot.problems })
}

/// The history of the DaemonSet.
async fn revisions(cluster: &Cluster, name: &DaemonSetName) -> anyhow::Result<Vec<RevisionEntry>> {
    Ok(DaemonSetRevisions::read(cluster, name).await?.entries(None))
}
