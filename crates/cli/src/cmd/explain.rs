//! `everynode explain`: why each node has a DaemonSet's pod or not.

mod text;

use everynode_core::api::{DaemonSetKey, NodeName};
use everynode_insight::explain::{self, Explanation, NodeExplanation};
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use serde::Serialize;
use serde_json::Value;

use crate::args::{DaemonSetName, ExplainArguments, OutputFormat};
use crate::cluster::{Cluster, Resource, parsed};
use crate::output::{self, Screen};
use crate::survey::{self, Demand, Pods};

/// What is printed.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Nodes(Explanation),
    Node(Box<NodeExplanation>),
}

pub async fn execute(arguments: ExplainArguments) -> anyhow::Result<()> {
    let node = arguments.node.as_deref();
    let answers = match (&arguments.filename, &arguments.nodes_from) {
        (Some(manifest), Some(nodes)) => {
            let namespace = arguments.connection.namespace.as_deref().unwrap_or("default");
            let manifest = survey::read_manifest(manifest, namespace)?;
            let nodes = survey::nodes(nodes)?;
            let name = arguments.daemon_set.as_ref();
            let wanted = |object: &&Value| {
                name.is_none_or(|name| object["metadata"]["name"] == name.as_str())
            };
            let answers: anyhow::Result<Vec<Answer>> = manifest
                .daemon_sets
                .iter()
                .filter(wanted)
                .map(|object| from_files(object, &nodes, node))
                .collect();
            let answers = answers?;
            anyhow::ensure!(!answers.is_empty(), "the manifest holds no DaemonSet of that name");
            answers
        }
        _ => {
            let name = arguments.daemon_set.as_ref().expect("clap requires it without a manifest");
            let cluster = Cluster::connect(&arguments.connection).await?;
            let heeds = arguments.namespace_node_selectors;
            vec![from_cluster(&cluster, name, node, heeds).await?]
        }
    };
    let screen = Screen::stdout(arguments.output.color.color);
    output::print(&shown(&answers, arguments.output.output, screen)?)
}

async fn from_cluster(
    cluster: &Cluster,
    name: &DaemonSetName,
    node: Option<&str>,
    honors_namespace_node_selectors: bool,
) -> anyhow::Result<Answer> {
    let json = cluster.daemon_set_json(name).await?;
    let daemon_set: Value = parsed(Resource::DaemonSets, json.get())?;
    let (pods, demand) = (Pods::OfDaemonSet, Demand::WhatMayBeRead);
    let mut snapshot = survey::cluster(cluster, &daemon_set, pods, demand).await?;
    snapshot.honors_namespace_node_selectors = honors_namespace_node_selectors;
    snapshot.add(ObjectKind::DaemonSet, json.get().as_bytes());
    answer(&snapshot, &survey::key(&daemon_set), node)
}

fn from_files(manifest: &Value, nodes: &[Value], node: Option<&str>) -> anyhow::Result<Answer> {
    let daemon_set = survey::by_ourselves(None, manifest)?;
    let mut snapshot = survey::offline(nodes);
    snapshot.add(ObjectKind::DaemonSet, daemon_set.to_string().as_bytes());
    answer(&snapshot, &survey::key(&daemon_set), node)
}

fn answer(snapshot: &Snapshot, key: &DaemonSetKey, node: Option<&str>) -> anyhow::Result<Answer> {
    let now = survey::now();
    let unreadable =
        || anyhow::anyhow!("daemonset {key} can't be read: {}", snapshot.problems.join("; "));
    match node {
        None => explain::explain(snapshot, key, now).map(Answer::Nodes).ok_or_else(unreadable),
        Some(name) => {
            anyhow::ensure!(snapshot.daemon_sets.contains_key(key), unreadable());
            let story = explain::explain_node(snapshot, key, &NodeName::from(name), now);
            let story = story.ok_or_else(|| {
                anyhow::anyhow!("there is no node {name} among the {}", snapshot.nodes.len())
            })?;
            Ok(Answer::Node(Box::new(story)))
        }
    }
}

fn shown(
    answers: &[Answer],
    format: Option<OutputFormat>,
    screen: Screen,
) -> anyhow::Result<String> {
    match (format, answers) {
        (Some(OutputFormat::Json), [one]) => output::json(one),
        (Some(OutputFormat::Json), all) => output::json(&all),
        (Some(OutputFormat::Yaml), [one]) => output::yaml(one),
        (Some(OutputFormat::Yaml), all) => output::yaml(&all),
        (Some(OutputFormat::Name), all) => Ok(all.iter().map(names).collect()),
        (Some(OutputFormat::Wide), all) => Ok(texts(all, screen, true)),
        (None, all) => Ok(texts(all, screen, false)),
    }
}

fn texts(answers: &[Answer], screen: Screen, wide: bool) -> String {
    let texts: Vec<String> = answers
        .iter()
        .map(|answer| match answer {
            Answer::Nodes(explanation) => text::nodes(explanation, screen, wide),
            Answer::Node(story) => text::node(story, screen),
        })
        .collect();
    texts.join("\n")
}

/// The nodes that need attention.
fn names(answer: &Answer) -> String {
    let nodes: Vec<&str> = match answer {
        Answer::Nodes(explanation) => explanation
            .groups
            .iter()
            .filter(|group| group.situation.needs_attention())
            .flat_map(|group| group.nodes.iter().map(String::as_str))
            .collect(),
        Answer::Node(story) if story.situation.needs_attention() => vec![&story.node],
        Answer::Node(_) => Vec::new(),
    };
    nodes.iter().map(|node| format!("node/{node}\n")).collect()
}
