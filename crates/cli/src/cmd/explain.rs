//! `everynode explain`: why each node has a DaemonSet's pod or not.

mod text;

use everynode_core::api::{DaemonSetKey, NodeName};
use everynode_insight::explain::{Explanation, NodeExplanation, explain, explain_node};
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use serde::Serialize;
use serde_json::Value;

use crate::args::{DaemonSetName, ExplainArguments, OutputFormat};
use crate::clock;
use crate::cluster::{Cluster, Resource, parsed};
use crate::output::{self, TextLayout};
use crate::snapshot_source::{self, Manifest, PodScope, RequiredData};

/// The answer for one DaemonSet.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    AllNodes(Explanation),
    OneNode(Box<NodeExplanation>),
}

/// Executes the command.
pub(crate) async fn execute(arguments: ExplainArguments) -> anyhow::Result<()> {
    let node = arguments.node.as_deref();
    let answers = match (&arguments.filename, &arguments.nodes_from) {
        (Some(manifest), Some(nodes)) => {
            let namespace = arguments.connection.namespace.as_deref().unwrap_or("default");
            let manifest = snapshot_source::read_manifest(manifest, namespace)?;
            let nodes = snapshot_source::read_nodes(nodes)?;
            let name = arguments.daemon_set.as_ref();
            let wanted = |object: &&Value| {
                name.is_none_or(|name| object["metadata"]["name"] == name.as_str())
            };
            let answers: anyhow::Result<Vec<Answer>> = manifest
                .daemon_sets
                .iter()
                .filter(wanted)
                .map(|object| from_files(object, &nodes, &manifest, node))
                .collect();
            let answers = answers?;
            anyhow::ensure!(
                !answers.is_empty(),
                "the manifest contains no DaemonSet with this name"
            );
            answers
        }
        _ => {
            let name = arguments.daemon_set.as_ref().expect("clap requires it without a manifest");
            let cluster = Cluster::connect(&arguments.connection).await?;
            let honors_selectors = arguments.namespace_node_selectors;
            vec![from_cluster(&cluster, name, node, honors_selectors).await?]
        }
    };
    let layout = TextLayout::stdout(arguments.output.color.color);
    output::print(&shown(&answers, arguments.output.output, layout)?)
}

async fn from_cluster(
    cluster: &Cluster,
    name: &DaemonSetName,
    node: Option<&str>,
    honors_namespace_node_selectors: bool,
) -> anyhow::Result<Answer> {
    let json = cluster.daemon_set_json(name).await?;
    let daemon_set: Value = parsed(Resource::DaemonSets, json.get())?;
    let (pods, required) = (PodScope::OfDaemonSet, RequiredData::Nodes);
    let mut snapshot = snapshot_source::from_cluster(cluster, &daemon_set, pods, required).await?;
    snapshot.honors_namespace_node_selectors = honors_namespace_node_selectors;
    snapshot.add(ObjectKind::DaemonSet, json.get().as_bytes());
    let key = snapshot_source::key(&daemon_set);
    let explanation = explain(&snapshot, &key, clock::now());
    let is_unfinished = |explanation: Explanation| {
        explanation.groups.iter().any(|group| group.situation.holds_up())
    };
    if explanation.is_some_and(is_unfinished) {
        snapshot_source::add_warnings(&mut snapshot, cluster, &key).await?;
    }
    answer(&snapshot, &key, node)
}

fn from_files(
    object: &Value,
    nodes: &[Value],
    manifest: &Manifest,
    node: Option<&str>,
) -> anyhow::Result<Answer> {
    let daemon_set = snapshot_source::apply_locally(None, object)?;
    let mut snapshot = snapshot_source::from_nodes(nodes);
    snapshot_source::add_policies_of(&mut snapshot, manifest);
    snapshot.add(ObjectKind::DaemonSet, daemon_set.to_string().as_bytes());
    answer(&snapshot, &snapshot_source::key(&daemon_set), node)
}

fn answer(snapshot: &Snapshot, key: &DaemonSetKey, node: Option<&str>) -> anyhow::Result<Answer> {
    let now = clock::now();
    let unreadable =
        || anyhow::anyhow!("daemonset {key} can't be read: {}", snapshot.problems.join("; "));
    match node {
        None => explain(snapshot, key, now).map(Answer::AllNodes).ok_or_else(unreadable),
        Some(name) => {
            anyhow::ensure!(snapshot.daemon_sets.contains_key(key), unreadable());
            let explanation = explain_node(snapshot, key, &NodeName::from(name), now);
            let explanation = explanation.ok_or_else(|| {
                anyhow::anyhow!("none of the {} nodes has the name {name}", snapshot.nodes.len())
            })?;
            Ok(Answer::OneNode(Box::new(explanation)))
        }
    }
}

fn shown(
    answers: &[Answer],
    format: Option<OutputFormat>,
    layout: TextLayout,
) -> anyhow::Result<String> {
    match (format, answers) {
        (Some(OutputFormat::Json), [one]) => output::json(one),
        (Some(OutputFormat::Json), all) => output::json(&all),
        (Some(OutputFormat::Yaml), [one]) => output::yaml(one),
        (Some(OutputFormat::Yaml), all) => output::yaml(&all),
        (Some(OutputFormat::Name), all) => Ok(all.iter().map(names).collect()),
        (Some(OutputFormat::Wide), all) => Ok(texts(all, layout, true)),
        (None, all) => Ok(texts(all, layout, false)),
    }
}

fn texts(answers: &[Answer], layout: TextLayout, wide: bool) -> String {
    let texts: Vec<String> = answers
        .iter()
        .map(|answer| match answer {
            Answer::AllNodes(explanation) => text::nodes(explanation, layout, wide),
            Answer::OneNode(node) => text::node(node, layout),
        })
        .collect();
    layout.fitted(texts.join("\n"))
}

/// The names of the nodes that need attention.
fn names(answer: &Answer) -> String {
    let nodes: Vec<&str> = match answer {
        Answer::AllNodes(explanation) => explanation
            .groups
            .iter()
            .filter(|group| group.situation.needs_attention())
            .flat_map(|group| group.nodes.iter().map(String::as_str))
            .collect(),
        Answer::OneNode(node) if node.situation.needs_attention() => vec![&node.node],
        Answer::OneNode(_) => Vec::new(),
    };
    nodes.iter().map(|node| format!("node/{node}\n")).collect()
}
