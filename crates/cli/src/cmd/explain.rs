//! `everynode explain`: why each node has a DaemonSet's pod or not.

mod text;

use everynode_core::api::{DaemonSetKey, NodeName};
use everynode_insight::document::Answer;
use everynode_insight::explain::{Explanation, NodeExplanation, explain, explain_node};
use everynode_insight::rollout::Rollout;
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use serde_json::Value;

use crate::args::{DaemonSetName, DocumentFormat, ExplainArguments, OutputFormat, ReportFormat};
use crate::clock;
use crate::cluster::{Cluster, Resource, parsed};
use crate::input;
use crate::output::{self, TextLayout};
use crate::snapshot_source::{self, Manifest, PodScope, RequiredData};

/// The answers, one for each DaemonSet.
enum Answers {
    AllNodes(Vec<Explanation>),
    OneNode(Vec<NodeExplanation>),
}

/// Executes the command.
pub(crate) async fn execute(arguments: ExplainArguments) -> anyhow::Result<()> {
    let (questions, read) = match (&arguments.filename, &arguments.nodes_from) {
        (Some(manifest), Some(nodes)) => {
            let namespace = arguments.connection.namespace.as_deref().unwrap_or("default");
            let manifest = snapshot_source::read_manifest(&[input::read(manifest)?], namespace)?;
            let nodes = snapshot_source::read_nodes(nodes)?;
            let name = arguments.daemon_set.as_ref();
            let wanted = |object: &&Value| {
                name.is_none_or(|name| object["metadata"]["name"] == name.as_str())
            };
            let wanted = manifest.required_daemon_sets()?.iter().filter(wanted);
            let questions: anyhow::Result<Vec<_>> =
                wanted.map(|object| from_files(object, &nodes, &manifest)).collect();
            let questions = questions?;
            anyhow::ensure!(
                !questions.is_empty(),
                "the manifest contains no DaemonSet with this name"
            );
            (questions, None)
        }
        _ => {
            let name = arguments.daemon_set.as_ref().expect("clap requires it without a manifest");
            let cluster = Cluster::connect(&arguments.connection).await?;
            let question = from_cluster(&cluster, name, &arguments).await?;
            (vec![question], Some(cluster.description().to_owned()))
        }
    };
    let answers = match &arguments.node {
        None => Answers::AllNodes(questions.iter().map(all_nodes).collect::<anyhow::Result<_>>()?),
        Some(node) => {
            let node = NodeName::from(node.as_str());
            let answers = questions.iter().map(|question| one_node(question, &node));
            Answers::OneNode(answers.collect::<anyhow::Result<_>>()?)
        }
    };
    let layout = TextLayout::stdout(arguments.output.color.color);
    output::print(&shown(&answers, arguments.output.output, layout, read.as_deref())?)
}

/// The DaemonSet to explain, and what was read for that.
type Question = (Snapshot, DaemonSetKey);

async fn from_cluster(
    cluster: &Cluster,
    name: &DaemonSetName,
    arguments: &ExplainArguments,
) -> anyhow::Result<Question> {
    let json = cluster.daemon_set_json(name).await?;
    let daemon_set: Value = parsed(Resource::DaemonSets, json.get())?;
    // Of one node there is nothing to say without it.
    let is_of_node = arguments.node.is_some();
    let required = if is_of_node { RequiredData::Nodes } else { RequiredData::Nothing };
    let pods = PodScope::OfDaemonSet;
    let mut snapshot = snapshot_source::from_cluster(cluster, &daemon_set, pods, required).await?;
    snapshot.honors_namespace_node_selectors = arguments.namespace_node_selectors;
    snapshot.add(ObjectKind::DaemonSet, json.get().as_bytes());
    let key = snapshot_source::key(&daemon_set);
    snapshot_source::add_events(&mut snapshot, cluster, &key).await?;
    let explanation = explain(&snapshot, &key, clock::now());
    let is_unfinished = |explanation: Explanation| {
        explanation.groups.iter().any(|group| group.situation.holds_up())
    };
    if explanation.is_some_and(is_unfinished) {
        snapshot_source::add_pod_warnings(&mut snapshot, cluster, &key).await?;
    }
    let rollout = Rollout::of(&snapshot, &key, clock::now());
    let full_node = rollout.as_ref().and_then(Rollout::full_node).cloned();
    snapshot_source::add_neighbors(&mut snapshot, cluster, &key, full_node.as_ref()).await?;
    Ok((snapshot, key))
}

fn from_files(object: &Value, nodes: &[Value], manifest: &Manifest) -> anyhow::Result<Question> {
    let daemon_set = snapshot_source::apply_locally(None, object)?;
    let mut snapshot = snapshot_source::from_nodes(nodes);
    snapshot_source::add_policies_of(&mut snapshot, manifest);
    snapshot.add(ObjectKind::DaemonSet, daemon_set.to_string().as_bytes());
    Ok((snapshot, snapshot_source::key(&daemon_set)))
}

fn all_nodes((snapshot, key): &Question) -> anyhow::Result<Explanation> {
    explain(snapshot, key, clock::now()).ok_or_else(|| unreadable(snapshot, key))
}

fn one_node((snapshot, key): &Question, node: &NodeName) -> anyhow::Result<NodeExplanation> {
    anyhow::ensure!(snapshot.daemon_sets.contains_key(key), unreadable(snapshot, key));
    explain_node(snapshot, key, node, clock::now()).ok_or_else(|| {
        anyhow::anyhow!("none of the {} nodes has the name {node}", snapshot.nodes.len())
    })
}

fn unreadable(snapshot: &Snapshot, key: &DaemonSetKey) -> anyhow::Error {
    anyhow::anyhow!("daemonset {key} can't be read: {}", snapshot.problems.join("; "))
}

fn shown(
    answers: &Answers,
    format: Option<ReportFormat>,
    layout: TextLayout,
    read: Option<&str>,
) -> anyhow::Result<String> {
    match format {
        Some(ReportFormat::Html) => Ok(match answers {
            Answers::AllNodes(answers) => output::report(read).explanations(answers),
            Answers::OneNode(answers) => output::report(read).node_explanations(answers),
        }),
        Some(ReportFormat::Plain(OutputFormat::Document(format))) => match answers {
            Answers::AllNodes(answers) => documents(answers, format),
            Answers::OneNode(answers) => documents(answers, format),
        },
        Some(ReportFormat::Plain(OutputFormat::Name)) => Ok(names(answers)),
        Some(ReportFormat::Plain(OutputFormat::Wide)) => Ok(texts(answers, layout, true)),
        None => Ok(texts(answers, layout, false)),
    }
}

/// One document, or a list if a manifest has several DaemonSets, as `kubectl get -f` does.
fn documents<T: Answer>(answers: &[T], format: DocumentFormat) -> anyhow::Result<String> {
    match answers {
        [answer] => output::document(answer, format),
        answers => output::list_document(answers, format),
    }
}

fn texts(answers: &Answers, layout: TextLayout, wide: bool) -> String {
    let texts: Vec<String> = match answers {
        Answers::AllNodes(answers) => {
            answers.iter().map(|answer| text::nodes(answer, layout, wide)).collect()
        }
        Answers::OneNode(answers) => {
            answers.iter().map(|answer| text::node(answer, layout)).collect()
        }
    };
    layout.fitted(texts.join("\n"))
}

/// The names of the nodes that need attention.
fn names(answers: &Answers) -> String {
    let nodes: Vec<&str> = match answers {
        Answers::AllNodes(answers) => {
            let groups = answers.iter().flat_map(|answer| &answer.groups);
            let urgent = groups.filter(|group| group.situation.needs_attention());
            urgent.flat_map(|group| group.nodes.iter().map(String::as_str)).collect()
        }
        Answers::OneNode(answers) => {
            let urgent = answers.iter().filter(|answer| answer.situation.needs_attention());
            urgent.map(|answer| answer.node.as_str()).collect()
        }
    };
    nodes.iter().map(|node| format!("node/{node}\n")).collect()
}
