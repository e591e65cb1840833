//! `everynode plan`: what applying a manifest would do.

mod admission;
mod policy;
mod text;

use std::process::ExitCode;

use everynode_insight::forecast::{Forecast, Proposal, changes, forecast};
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use everynode_k8s::convert;
use serde_json::Value;

use crate::args::{OutputFormat, PlanArguments, ReportFormat};
use crate::clock;
use crate::cluster::{Cluster, Error, Resource, parsed};
use crate::input;
use crate::output::{self, TextLayout};
use crate::snapshot_source::{self, Manifest, PodScope, RequiredData};

/// The exit code if applying changes something.
const EXIT_CHANGES: u8 = 2;

/// Executes the command.
pub(crate) async fn execute(arguments: PlanArguments) -> anyhow::Result<ExitCode> {
    let mut refusals = Vec::new();
    let mut read_cluster = None;
    let forecasts = match &arguments.nodes_from {
        Some(nodes) => {
            let namespace = arguments.connection.namespace.as_deref().unwrap_or("default");
            let nodes = snapshot_source::read_nodes(nodes)?;
            let manifest = read(&arguments, namespace)?;
            let forecast = |object| from_files(object, &nodes, &manifest, &arguments);
            let daemon_sets = manifest.required_daemon_sets()?;
            daemon_sets.iter().map(forecast).collect::<anyhow::Result<Vec<_>>>()?
        }
        None => {
            let cluster = Cluster::connect(&arguments.connection).await?;
            read_cluster = Some(cluster.description().to_owned());
            let mut forecasts = Vec::new();
            let manifest = read(&arguments, cluster.namespace())?;
            let selected = policy::selected(&cluster, &manifest).await?;
            let objects = match &selected[..] {
                [] => manifest.required_daemon_sets()?,
                selected => selected,
            };
            for object in objects {
                match from_cluster(&cluster, object, &manifest, &arguments).await {
                    Ok(forecast) => forecasts.push(forecast),
                    Err(error) if is_refusal(&error) => refusals.push(named(object, error)),
                    Err(error) => return Err(error),
                }
            }
            forecasts
        }
    };
    let layout = TextLayout::stdout(arguments.output.color.color);
    if refusals.is_empty() || !forecasts.is_empty() {
        let read_cluster = read_cluster.as_deref();
        output::print(&shown(&forecasts, arguments.output.output, layout, read_cluster)?)?;
    }
    if !refusals.is_empty() {
        for error in &refusals {
            output::note(format_args!("error: {error:#}"));
        }
        return Ok(ExitCode::FAILURE);
    }
    let is_idle = forecasts.iter().all(Forecast::is_nothing_to_do);
    Ok(if is_idle { ExitCode::SUCCESS } else { EXIT_CHANGES.into() })
}

/// True if the server refuses this object, so that others can still be planned.
fn is_refusal(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Rejected { .. }))
}

/// The error with the object that it concerns.
fn named(object: &Value, error: anyhow::Error) -> anyhow::Error {
    error.context(format!("daemonset {}", snapshot_source::key(object)))
}

fn read(arguments: &PlanArguments, namespace: &str) -> anyhow::Result<Manifest> {
    let paths = [&arguments.filename[..], &arguments.files].concat();
    let mut files = input::read_all(&paths)?;
    files.extend(arguments.kustomize.as_deref().map(input::kustomized).transpose()?);
    let manifest = snapshot_source::read_manifest(&files, namespace)?;
    if !manifest.ignored.is_empty() {
        let ignored = manifest.ignored.join(", ");
        output::note(format_args!("not planned because they are not DaemonSets: {ignored}"));
    }
    Ok(manifest)
}

async fn from_cluster(
    cluster: &Cluster,
    object: &Value,
    manifest: &Manifest,
    arguments: &PlanArguments,
) -> anyhow::Result<Forecast> {
    let key = snapshot_source::key(object);
    let namespace = Some(key.namespace.as_str());
    let live = match cluster.read(Resource::DaemonSets, namespace, key.name.as_str()).await {
        Ok(json) => Some(json),
        Err(Error::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let live: Option<Value> =
        live.map(|json| parsed(Resource::DaemonSets, json.get())).transpose()?;
    let (proposed, warnings) =
        match snapshot_source::dry_run_on_server(cluster, live.as_ref(), object).await {
            Ok((proposed, warnings)) => {
                let warnings = warnings.iter().map(|text| format!("the server warns: {text}"));
                (proposed, warnings.collect())
            }
            Err(error) if error.is_forbidden() => {
                let why = format!("not validated by the server; admission may change it: {error}");
                (snapshot_source::apply_locally(live.as_ref(), object)?, vec![why])
            }
            // Nothing else is missing when an object is created.
            Err(Error::NotFound { .. }) if live.is_none() => {
                let name = &key.namespace;
                if !manifest.ignored.contains(&format!("Namespace {name}")) {
                    let message = format!("namespace {name} does not exist");
                    return Err(Error::Rejected { message }.into());
                }
                let why = format!(
                    "not validated by the server, where namespace {name} does not exist yet; \
                     admission may change it"
                );
                (snapshot_source::apply_locally(None, object)?, vec![why])
            }
            Err(error) => return Err(anyhow::Error::new(error).context("the server rejects it")),
        };
    let pods = if arguments.ignore_room { PodScope::OfDaemonSet } else { PodScope::AllNamespaces };
    // The effect of a change depends on the existing pods and revisions.
    let required =
        if live.is_some() { RequiredData::PodsAndRevisions } else { RequiredData::Nothing };
    let mut snapshot = snapshot_source::from_cluster(cluster, &proposed, pods, required).await?;
    snapshot.honors_namespace_node_selectors = arguments.namespace_node_selectors;
    snapshot.problems.extend(warnings);
    snapshot_source::add_policies_of(&mut snapshot, manifest);
    snapshot_source::add_neighbors(&mut snapshot, cluster, &key, None).await?;
    if let Some(live) = &live {
        snapshot.add(ObjectKind::DaemonSet, live.to_string().as_bytes());
    }
    let proposal = proposal(&snapshot, live.as_ref(), &proposed, arguments)?;
    let proposal = Proposal { knows_room: !arguments.ignore_room, ..proposal };
    let mut forecast = forecast(&snapshot, &proposal, clock::now());
    admission::add_refusal(cluster, &proposal.object, manifest, &mut forecast).await?;
    Ok(forecast)
}

fn from_files(
    object: &Value,
    nodes: &[Value],
    manifest: &Manifest,
    arguments: &PlanArguments,
) -> anyhow::Result<Forecast> {
    let proposed = snapshot_source::apply_locally(None, object)?;
    let mut snapshot = snapshot_source::from_nodes(nodes);
    snapshot_source::add_policies_of(&mut snapshot, manifest);
    let proposal = proposal(&snapshot, None, &proposed, arguments)?;
    Ok(forecast(&snapshot, &proposal, clock::now()))
}

fn proposal(
    snapshot: &Snapshot,
    live: Option<&Value>,
    proposed: &Value,
    arguments: &PlanArguments,
) -> anyhow::Result<Proposal> {
    Ok(Proposal {
        object: snapshot.governed(convert::daemon_set(proposed.to_string().as_bytes(), None)?),
        changes: live.map(|live| changes(live, proposed)),
        knows_room: true,
        start_up: arguments.start_up,
    })
}

fn shown(
    forecasts: &[Forecast],
    format: Option<ReportFormat>,
    layout: TextLayout,
    cluster: Option<&str>,
) -> anyhow::Result<String> {
    match format {
        Some(ReportFormat::Html) => Ok(output::report(cluster).forecasts(forecasts)),
        Some(ReportFormat::Plain(OutputFormat::Document(format))) => {
            output::list_document(forecasts, format)
        }
        Some(ReportFormat::Plain(OutputFormat::Name)) => Ok(forecasts
            .iter()
            .filter(|forecast| !forecast.is_nothing_to_do())
            .map(|forecast| format!("daemonset.apps/{}\n", forecast.name))
            .collect()),
        Some(ReportFormat::Plain(OutputFormat::Wide)) => Ok(texts(forecasts, layout, true)),
        None => Ok(texts(forecasts, layout, false)),
    }
}

fn texts(forecasts: &[Forecast], layout: TextLayout, wide: bool) -> String {
    let texts: Vec<String> =
        forecasts.iter().map(|forecast| text::forecast(forecast, layout, wide)).collect();
    layout.fitted(texts.join("\n"))
}
