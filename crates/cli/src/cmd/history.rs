//! `everynode history`: the revisions of a DaemonSet.

use std::collections::BTreeMap;

use everynode_core::api::{HASH_LABEL, ReasonClass, RolloutPhase, RolloutReason};
use everynode_insight::guarded::last_order;
use everynode_insight::history::{self, RevisionEntry};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::args::{HistoryArguments, OutputFormat};
use crate::clock;
use crate::cluster::{Cluster, DaemonSetRevisions, Error, Resource, Selection};
use crate::output::{self, TextLayout, Tone};

/// Maximum length of the last order of a rollout, in characters.
const CLAUSE_LENGTH_MAX: usize = 60;

/// Executes the command.
pub(crate) async fn execute(arguments: HistoryArguments) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    let revisions = DaemonSetRevisions::read(&cluster, &arguments.daemon_set).await?;
    let pods = match pods_by_hash(&cluster, &revisions.daemon_set).await {
        Err(error) if error.is_forbidden() => {
            output::note(format_args!("pods are not counted: {error}"));
            None
        }
        result => Some(result?),
    };
    let entries = revisions.entries(pods.as_ref());
    let layout = TextLayout::stdout(arguments.output.color.color);
    let text = match arguments.revision {
        Some(number) => one(history::numbered(&entries, number)?, arguments.output.output)?,
        None => {
            let awaited = awaited(&revisions.daemon_set);
            all(&entries, awaited, arguments.output.output, layout)?
        }
    };
    output::print(&text)
}

/// The wait of a wave that is updated, if that is not for its bake time: the record does not tell.
fn awaited(daemon_set: &DaemonSet) -> Option<&'static str> {
    let mut conditions = daemon_set.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let stated =
        conditions.find(|condition| condition.type_ == "Progressing")?.reason.as_deref()?;
    let reason = RolloutReason::ALL.into_iter().find(|reason| reason.as_str() == stated)?;
    let awaited = [
        (ReasonClass::WaitsForApproval, "awaits approval"),
        (ReasonClass::WaitsForChecks, "awaits checks"),
    ];
    awaited.into_iter().find_map(|(class, words)| (reason.class() == class).then_some(words))
}

/// The number of the DaemonSet's pods for each revision hash.
async fn pods_by_hash(
    cluster: &Cluster,
    daemon_set: &DaemonSet,
) -> Result<BTreeMap<String, usize>, Error> {
    let mut counts = BTreeMap::new();
    for pod in cluster.list_metadata(Resource::Pods, &Selection::selected_by(daemon_set)).await? {
        let hash = pod.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL));
        if let Some(hash) = hash.filter(|_| is_controlled_by(&pod, daemon_set)) {
            *counts.entry(hash.clone()).or_default() += 1;
        }
    }
    Ok(counts)
}

fn is_controlled_by(pod: &ObjectMeta, daemon_set: &DaemonSet) -> bool {
    let mut owners = pod.owner_references.iter().flatten();
    owners.any(|owner| {
        owner.controller == Some(true) && Some(&owner.uid) == daemon_set.metadata.uid.as_ref()
    })
}

fn one(entry: &RevisionEntry, format: Option<OutputFormat>) -> anyhow::Result<String> {
    match format {
        Some(OutputFormat::Document(format)) => output::document(entry, format),
        Some(OutputFormat::Name) => Ok(name(entry)),
        Some(OutputFormat::Wide) | None => {
            let Some(template) = &entry.template else {
                anyhow::bail!("revision {} contains no pod template", entry.revision);
            };
            output::yaml(template)
        }
    }
}

fn all(
    entries: &[RevisionEntry],
    awaited: Option<&str>,
    format: Option<OutputFormat>,
    layout: TextLayout,
) -> anyhow::Result<String> {
    match format {
        Some(OutputFormat::Document(format)) => output::list_document(entries, format),
        Some(OutputFormat::Name) => Ok(entries.iter().map(name).collect()),
        Some(OutputFormat::Wide) => Ok(table(entries, awaited, layout, true)),
        None => Ok(table(entries, awaited, layout, false)),
    }
}

fn name(entry: &RevisionEntry) -> String {
    format!("controllerrevision.apps/{}\n", entry.name)
}

fn table(
    entries: &[RevisionEntry],
    awaited: Option<&str>,
    layout: TextLayout,
    wide: bool,
) -> String {
    if entries.is_empty() {
        return "no revisions yet: no controller has observed this DaemonSet\n".to_owned();
    }
    let mut headings = vec!["REVISION", "STATE", "PODS", "AGE", "NAME", "CHANGE-CAUSE"];
    if wide {
        headings.push("IMAGES");
    }
    let rows: Vec<_> = entries.iter().map(|entry| row(entry, awaited, wide)).collect();
    output::table(layout, &headings, &rows)
}

fn row(entry: &RevisionEntry, awaited: Option<&str>, wide: bool) -> Vec<(Tone, String)> {
    let pods = entry.pods.map_or_else(|| "?".to_owned(), |pods| pods.to_string());
    let (tone, state) = match (entry.current, entry.pods) {
        (true, _) => (Tone::Good, "current"),
        (false, Some(0) | None) => (Tone::Faint, "old"),
        (false, Some(_)) => (Tone::Waiting, "old"),
    };
    let cause = entry.change_cause.clone().unwrap_or_else(|| "<none>".to_owned());
    let phase = entry.rollout.as_ref().map(|record| record.phase);
    let (tone, mut state) = match (phase, awaited) {
        (Some(RolloutPhase::Failed), _) => (Tone::Bad, format!("{state}, failed")),
        (Some(RolloutPhase::Baking), Some(awaited)) if entry.current => {
            (Tone::Waiting, format!("{state}, {awaited}"))
        }
        (Some(phase), _) => (tone, format!("{state}, {}", phase.as_str().to_lowercase())),
        (None, _) => (tone, state.to_owned()),
    };
    if let Some(order) = entry.rollout.as_deref().and_then(last_order) {
        state += &format!("; {}", cut(&order));
    }
    let mut row = vec![
        (Tone::Plain, entry.revision.to_string()),
        (tone, state),
        (Tone::Plain, pods),
        (Tone::Plain, entry.age(clock::now())),
        (Tone::Plain, entry.name.clone()),
        (Tone::Plain, cause),
    ];
    if wide {
        row.push((Tone::Plain, entry.images().join(",")));
    }
    row
}

/// A clause that fits into a column.
fn cut(clause: &str) -> String {
    match clause.char_indices().nth(CLAUSE_LENGTH_MAX) {
        Some((end, _)) => format!("{}…", &clause[..end]),
        None => clause.to_owned(),
    }
}
