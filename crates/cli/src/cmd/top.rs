//! `everynode top`: all DaemonSets in one table with the reason for a delay, stuck ones first.

#[cfg(test)]
mod example;
mod list;
pub(crate) mod live;
mod screen;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use everynode_core::api::DaemonSetKey;
use everynode_insight::rollout::{Awaited, Phase, Rollout};
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::DaemonSet;

use super::status;
use crate::args::{OutputFormat, TopArguments};
use crate::clock;
use crate::cluster::{Cluster, Error, Resource, Selection, parsed};
use crate::output::{self, TextLayout, Tone};
use crate::snapshot_source;

/// The maximum number of nodes whose pods are read.
const FULL_NODES_MAX: usize = 20;
/// The maximum number of concurrent list requests.
const LISTS_MAX: usize = 8;

/// Executes the command.
pub(crate) async fn execute(arguments: TopArguments) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    let scope = Selection::in_scope(&arguments.connection);
    let scope = match &arguments.selector {
        Some(selector) => scope.labelled(selector),
        None => scope,
    };
    if arguments.watch {
        live::execute(cluster, scope, arguments.output.color.color).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let top = Top::read(&cluster, &scope).await?;
    let layout = TextLayout::stdout(arguments.output.color.color);
    let text = match arguments.output.output {
        Some(OutputFormat::Document(format)) => output::list_document(&top.rollouts, format)?,
        Some(OutputFormat::Name) => names(&top.rollouts),
        Some(OutputFormat::Wide) => table(&top.rollouts, layout, Some(&top)),
        None => table(&top.rollouts, layout, None),
    };
    output::print(&text)?;
    for note in &top.notes {
        output::note(note);
    }
    let awaited = status::awaited(arguments.all_nodes);
    let worst = rollouts(&top.snapshot, awaited).iter().map(status::current_result).max();
    Ok(worst.filter(|_| arguments.exit_code).map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// All DaemonSets of a selection at one moment.
pub(crate) struct Top {
    /// The rollouts, stuck ones first.
    pub rollouts: Vec<Rollout>,
    daemon_sets: BTreeMap<DaemonSetKey, DaemonSet>,
    /// Problems of objects, and missing permissions.
    pub notes: Vec<String>,
    /// The objects that were read.
    pub snapshot: Snapshot,
}

impl Top {
    /// Reads the DaemonSets, and of those that are not rolled out what tells the cause.
    ///
    /// # Errors
    /// If DaemonSets can't be read, or the cluster can't be reached.
    pub(crate) async fn read(cluster: &Cluster, scope: &Selection) -> Result<Self, Error> {
        let mut snapshot = Snapshot::default();
        let mut daemon_sets = BTreeMap::new();
        for object in cluster.list(Resource::DaemonSets, scope).await? {
            snapshot.add(ObjectKind::DaemonSet, object.get().as_bytes());
            let ds: DaemonSet = parsed(Resource::DaemonSets, object.get())?;
            let (namespace, name) = (ds.metadata.namespace.as_deref(), ds.metadata.name.as_deref());
            let key = DaemonSetKey::new(namespace.unwrap_or_default(), name.unwrap_or_default());
            daemon_sets.insert(key, ds);
        }
        read_deletions(cluster, scope.namespace(), &mut snapshot).await?;
        if rollouts(&snapshot, Awaited::OfRollout).iter().any(|it| it.guard.is_some()) {
            snapshot_source::add_policies_in(&mut snapshot, cluster, scope).await?;
        }
        let mut forbidden = read_details(cluster, &mut snapshot, &daemon_sets).await?;
        read_warnings(cluster, &mut snapshot, &mut forbidden).await?;
        read_full_nodes(cluster, &mut snapshot).await?;
        let mut rollouts = by_urgency(&snapshot);
        if rollouts.iter().any(|rollout| rollout.guard.is_some()) {
            snapshot.set_runs_beside(snapshot_source::runs_beside(cluster).await?);
            rollouts = by_urgency(&snapshot);
        }
        let forbidden = forbidden.iter().map(|error| format!("reasons are incomplete: {error}"));
        let notes = snapshot.problems.iter().cloned().chain(forbidden).collect();
        Ok(Self { rollouts, daemon_sets, notes, snapshot })
    }
}

/// Reads which pods have ended and still exist, and which namespaces are being deleted: few objects
/// even in large clusters. Without the permission the notes about them are missing.
async fn read_deletions(
    cluster: &Cluster,
    namespace: Option<&str>,
    snapshot: &mut Snapshot,
) -> Result<(), Error> {
    let (pods, namespaces) = match namespace {
        Some(namespace) => (Selection::in_namespace(namespace), Selection::all().named(namespace)),
        None => (Selection::all(), Selection::all()),
    };
    let wanted =
        vec![(ObjectKind::Pod, pods.ended()), (ObjectKind::Namespace, namespaces.terminating())];
    read(cluster, snapshot, wanted, &mut Vec::new()).await?;
    snapshot.unread.remove(&ObjectKind::Pod);
    Ok(())
}

/// Reads the pods and revisions of the DaemonSets that are not rolled out, and the nodes. Returns
/// the errors about missing permissions without duplicates.
async fn read_details(
    cluster: &Cluster,
    snapshot: &mut Snapshot,
    daemon_sets: &BTreeMap<DaemonSetKey, DaemonSet>,
) -> Result<Vec<Error>, Error> {
    let rollouts = rollouts(snapshot, Awaited::OfRollout);
    let has_no_nodes = rollouts.iter().any(|rollout| rollout.desired == 0);
    let unfinished = rollouts.into_iter().filter(|rollout| rollout.phase != Phase::Done);
    let unfinished: Vec<_> = unfinished
        .filter_map(|rollout| daemon_sets.get(&DaemonSetKey::new(rollout.namespace, rollout.name)))
        .collect();
    if unfinished.is_empty() && !has_no_nodes {
        return Ok(Vec::new());
    }
    let wanted = unfinished.iter().flat_map(|ds| {
        [ObjectKind::ControllerRevision, ObjectKind::Pod]
            .map(|kind| (kind, Selection::selected_by(ds)))
    });
    let pulling = daemon_sets.keys().filter(|key| snapshot.pulls_images(key));
    let pulling: BTreeSet<_> = pulling.map(Selection::image_pullers).collect();
    let wanted = wanted.chain(pulling).chain([(ObjectKind::Node, Selection::all())]).collect();
    let mut forbidden = Vec::new();
    read(cluster, snapshot, wanted, &mut forbidden).await?;
    Ok(forbidden)
}

/// Reads what events say about the DaemonSets that are not rolled out, and about pods of their
/// namespaces.
async fn read_warnings(
    cluster: &Cluster,
    snapshot: &mut Snapshot,
    forbidden: &mut Vec<Error>,
) -> Result<(), Error> {
    let unfinished = rollouts(snapshot, Awaited::OfRollout)
        .into_iter()
        .filter(|rollout| rollout.phase != Phase::Done && rollout.events_may_tell_more());
    let wanted: BTreeSet<(ObjectKind, Selection)> = unfinished
        .map(|rollout| DaemonSetKey::new(rollout.namespace, rollout.name))
        .flat_map(|key| [Selection::events(&key), Selection::pod_warnings(&key)])
        .collect();
    read(cluster, snapshot, wanted.into_iter().collect(), forbidden).await
}

/// Reads all pods of some nodes that pods do not fit. Without the permission, reasons have no
/// numbers.
async fn read_full_nodes(cluster: &Cluster, snapshot: &mut Snapshot) -> Result<(), Error> {
    let rollouts = rollouts(snapshot, Awaited::OfRollout);
    let full: BTreeSet<_> =
        rollouts.iter().filter_map(|rollout| rollout.full_node().cloned()).collect();
    let nodes = full.iter().take(FULL_NODES_MAX);
    let wanted = nodes.map(|node| (ObjectKind::PodOnNode, Selection::all().on_node(node)));
    read(cluster, snapshot, wanted.collect(), &mut Vec::new()).await
}

/// Adds all objects of the selections to the snapshot, and the errors about missing permissions to
/// `forbidden`, each once.
async fn read(
    cluster: &Cluster,
    snapshot: &mut Snapshot,
    wanted: Vec<(ObjectKind, Selection)>,
    forbidden: &mut Vec<Error>,
) -> Result<(), Error> {
    let lists = futures::stream::iter(wanted).map(async |(kind, selection)| {
        match cluster.list(kind.into(), &selection).await {
            Err(error) if error.is_forbidden() => Ok((kind, Err(error))),
            Err(error) => Err(error),
            Ok(objects) => Ok((kind, Ok(objects))),
        }
    });
    let lists: Vec<_> = lists.buffer_unordered(LISTS_MAX).try_collect().await?;
    for (kind, list) in lists {
        match list {
            Ok(objects) => {
                for object in objects {
                    snapshot.add(kind, object.get().as_bytes());
                }
            }
            Err(error) => {
                snapshot.unread.insert(kind);
                if !forbidden.iter().any(|known| known.to_string() == error.to_string()) {
                    forbidden.push(error);
                }
            }
        }
    }
    Ok(())
}

/// The rollouts of all DaemonSets of the snapshot, stuck ones first.
pub(crate) fn by_urgency(snapshot: &Snapshot) -> Vec<Rollout> {
    let mut rollouts = rollouts(snapshot, Awaited::OfRollout);
    // The order of the phases is that of urgency. The sort is stable, so names stay in order.
    rollouts.sort_by_key(|rollout| rollout.phase);
    rollouts
}

fn rollouts(snapshot: &Snapshot, awaited: Awaited) -> Vec<Rollout> {
    let now = clock::now();
    let keys = snapshot.daemon_sets.keys();
    keys.filter_map(|key| Rollout::awaiting(snapshot, key, now, awaited)).collect()
}

fn names(rollouts: &[Rollout]) -> String {
    rollouts.iter().map(|rollout| format!("daemonset.apps/{}\n", rollout.name)).collect()
}

fn table(rollouts: &[Rollout], layout: TextLayout, details: Option<&Top>) -> String {
    if rollouts.is_empty() {
        return "no DaemonSets found\n".to_owned();
    }
    let rows = |columns: Columns<'_>| -> Vec<Vec<_>> {
        rollouts.iter().map(|rollout| columns.row(rollout)).collect()
    };
    let columns = match details {
        Some(top) => Columns::Detailed(top),
        None => {
            let bare = rows(Columns::Counts);
            let fits = |width| output::has_room(width, &Columns::Counts.headings(), &bare);
            if layout.width.is_none_or(fits) { Columns::Counts } else { Columns::Parts }
        }
    };
    let remarks = rollouts.iter().map(|rollout| (tone(rollout.phase), rollout.remarks()));
    let rows: Vec<_> = rows(columns).into_iter().zip(remarks).collect();
    layout.fitted(output::table_with_remarks(layout, &columns.headings(), "REASON", &rows))
}

/// The columns of a table.
#[derive(Clone, Copy)]
enum Columns<'a> {
    /// `UPDATED 3/20`, as of the live list, where the counts do not fit.
    Parts,
    Counts,
    Detailed(&'a Top),
}

impl Columns<'_> {
    fn headings(self) -> Vec<&'static str> {
        let columns: &[_] = match self {
            Self::Parts => &["UPDATED", "AVAILABLE"],
            Self::Counts => &["DESIRED", "READY", "UPDATED", "AVAILABLE"],
            Self::Detailed(_) => &[
                "DESIRED",
                "READY",
                "UPDATED",
                "AVAILABLE",
                "STRATEGY",
                "GUARDED BY",
                "IMAGES",
                "AGE",
            ],
        };
        [&["NAMESPACE", "NAME"], columns, &["STATE"]].concat()
    }

    fn row(self, rollout: &Rollout) -> Vec<(Tone, String)> {
        let Rollout { desired, ready, updated, available, .. } = *rollout;
        let plain = |text: String| (Tone::Plain, text);
        let colored = |count: u32, text: String| {
            (if count < desired { Tone::Waiting } else { Tone::Plain }, text)
        };
        let count = |count: u32| colored(count, count.to_string());
        let mut row = vec![plain(rollout.namespace.clone()), plain(rollout.name.clone())];
        if let Self::Parts = self {
            row.extend([updated, available].map(|it| colored(it, format!("{it}/{desired}"))));
        } else {
            row.extend([
                plain(desired.to_string()),
                count(ready),
                count(updated),
                count(available),
            ]);
        }
        if let Self::Detailed(top) = self {
            let key = DaemonSetKey::new(rollout.namespace.as_str(), rollout.name.as_str());
            let daemon_set = top.daemon_sets.get(&key);
            let beside = top.snapshot.runs_beside;
            let guarded_by = rollout.guard.as_ref().map(|guard| guard.guarded_by(beside));
            row.push(plain(rollout.update_strategy.to_string()));
            row.push(plain(guarded_by.unwrap_or("<none>").to_owned()));
            row.push(plain(daemon_set.map(images).unwrap_or_default()));
            row.push(plain(daemon_set.map(age).unwrap_or_default()));
        }
        row.push((tone(rollout.phase), rollout.phase.to_string()));
        row
    }
}

const fn tone(phase: Phase) -> Tone {
    match phase {
        Phase::Failing | Phase::Deleting | Phase::Unobserved => Tone::Bad,
        Phase::Progressing | Phase::Paused | Phase::AwaitsPerson | Phase::AwaitsDeletion => {
            Tone::Waiting
        }
        Phase::Done => Tone::Good,
    }
}

fn images(daemon_set: &DaemonSet) -> String {
    let spec = daemon_set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = spec.into_iter().flat_map(|spec| &spec.containers);
    containers.filter_map(|container| container.image.clone()).collect::<Vec<_>>().join(",")
}

fn age(daemon_set: &DaemonSet) -> String {
    let created = daemon_set.metadata.creation_timestamp.as_ref();
    let age = created.map(|at| jiff::Timestamp::now().duration_since(at.0).as_secs());
    age.map_or_else(|| "?".to_owned(), output::age)
}
