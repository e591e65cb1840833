//! `everynode history`: the revisions of a DaemonSet.

use std::collections::BTreeMap;

use everynode_insight::history::{self, RevisionEntry, RevisionNotFound, StoredRevision};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::args::{DaemonSetName, HistoryArguments, OutputFormat};
use crate::cluster::{Cluster, Error, Resource, Selection, parsed};
use crate::output::{self, Screen, Tone};

const HASH_LABEL: &str = "controller-revision-hash";

pub async fn execute(arguments: HistoryArguments) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    let revised = Revised::read(&cluster, &arguments.daemon_set).await?;
    let pods = match carriers(&cluster, &revised.daemon_set).await {
        Err(error) if error.is_forbidden() => {
            output::note(format_args!("pods are not counted: {error}"));
            None
        }
        result => Some(result?),
    };
    let entries = revised.entries(pods.as_ref());
    let screen = Screen::stdout(arguments.output.color.color);
    let text = match arguments.revision {
        Some(number) => one(history::numbered(&entries, number)?, arguments.output.output)?,
        None => all(&entries, arguments.output.output, screen)?,
    };
    output::print(&text)
}

/// A DaemonSet with its revisions.
pub struct Revised {
    pub daemon_set: DaemonSet,
    /// As it came: what our types don't know is part of it, too.
    pub template: Value,
    revisions: Vec<StoredRevision>,
}

impl Revised {
    /// # Errors
    /// If one of them can't be read.
    pub async fn read(cluster: &Cluster, name: &DaemonSetName) -> Result<Self, Error> {
        let json = cluster.daemon_set_json(name).await?;
        let daemon_set: DaemonSet = parsed(Resource::DaemonSets, json.get())?;
        let mut value: Value = parsed(Resource::DaemonSets, json.get())?;
        let selection = selection(&daemon_set);
        let revisions = cluster.list_as(Resource::ControllerRevisions, &selection).await?;
        Ok(Self { daemon_set, template: value["spec"]["template"].take(), revisions })
    }

    pub fn entries(&self, pods: Option<&BTreeMap<String, usize>>) -> Vec<RevisionEntry> {
        let uid = self.daemon_set.metadata.uid.as_deref().unwrap_or_default();
        history::history(uid, &self.template, self.revisions.clone(), pods)
    }

    /// The revision of that number, or the one before the current one.
    ///
    /// # Errors
    /// If there is none.
    pub fn target(&self, number: Option<i64>) -> Result<RevisionEntry, RevisionNotFound> {
        let entries = self.entries(None);
        match number {
            Some(number) => history::numbered(&entries, number),
            None => history::previous(&entries),
        }
        .cloned()
    }
}

/// What the DaemonSet's selector matches in its namespace: its revisions and pods are among it.
pub fn selection(daemon_set: &DaemonSet) -> Selection {
    let namespace = daemon_set.metadata.namespace.as_deref().unwrap_or_default();
    let selection = Selection::namespace_of(namespace);
    match &daemon_set.spec {
        Some(spec) => selection.matching(&spec.selector),
        None => selection,
    }
}

/// How many of the DaemonSet's pods carry each hash.
async fn carriers(
    cluster: &Cluster,
    daemon_set: &DaemonSet,
) -> Result<BTreeMap<String, usize>, Error> {
    let mut counts = BTreeMap::new();
    for pod in cluster.list_metadata(Resource::Pods, &selection(daemon_set)).await? {
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
        Some(OutputFormat::Json) => output::json(entry),
        Some(OutputFormat::Name) => Ok(name(entry)),
        Some(OutputFormat::Yaml) => output::yaml(entry),
        Some(OutputFormat::Wide) | None => {
            let Some(template) = &entry.template else {
                anyhow::bail!("revision {} holds no pod template", entry.revision);
            };
            output::yaml(template)
        }
    }
}

fn all(
    entries: &[RevisionEntry],
    format: Option<OutputFormat>,
    screen: Screen,
) -> anyhow::Result<String> {
    match format {
        Some(OutputFormat::Json) => output::json(&entries),
        Some(OutputFormat::Yaml) => output::yaml(&entries),
        Some(OutputFormat::Name) => Ok(entries.iter().map(name).collect()),
        Some(OutputFormat::Wide) => Ok(table(entries, screen, true)),
        None => Ok(table(entries, screen, false)),
    }
}

fn name(entry: &RevisionEntry) -> String {
    format!("controllerrevision.apps/{}\n", entry.name)
}

fn table(entries: &[RevisionEntry], screen: Screen, wide: bool) -> String {
    if entries.is_empty() {
        return "no revisions yet: no controller has looked at this DaemonSet\n".to_owned();
    }
    let mut headings = vec!["REVISION", "STATE", "PODS", "AGE", "NAME", "CHANGE-CAUSE"];
    if wide {
        headings.push("IMAGES");
    }
    let rows: Vec<_> = entries.iter().map(|entry| row(entry, wide)).collect();
    output::table(screen, &headings, &rows)
}

fn row(entry: &RevisionEntry, wide: bool) -> Vec<(Tone, String)> {
    let pods = entry.pods.map_or_else(|| "?".to_owned(), |pods| pods.to_string());
    let (tone, state) = match (entry.current, entry.pods) {
        (true, _) => (Tone::Good, "current"),
        (false, Some(0) | None) => (Tone::Faint, "old"),
        (false, Some(_)) => (Tone::Waiting, "old"),
    };
    let cause = entry.change_cause.clone().unwrap_or_else(|| "<none>".to_owned());
    let mut row = vec![
        (Tone::Plain, entry.revision.to_string()),
        (tone, state.to_owned()),
        (Tone::Plain, pods),
        (Tone::Plain, age(entry)),
        (Tone::Plain, entry.name.clone()),
        (Tone::Plain, cause),
    ];
    if wide {
        row.push((Tone::Plain, entry.images().join(",")));
    }
    row
}

fn age(entry: &RevisionEntry) -> String {
    let created =
        entry.creation_timestamp.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    created.map_or_else(
        || "?".to_owned(),
        |created| output::age(Timestamp::now().duration_since(created).as_secs()),
    )
}
