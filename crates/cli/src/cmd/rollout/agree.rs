//! `everynode rollout agree`: agrees that the old pods of nodes go (G54).

use std::process::ExitCode;

use anyhow::bail;
use everynode_core::api::{AGREED, NodeName, Pod, REPLACE_ANNOTATION};
use everynode_insight::program;
use everynode_k8s::convert::{self, Interner, PodObject};
use serde_json::json;

use super::Guarded;
use crate::args::RolloutAgreeArguments;
use crate::cluster::{Cluster, DryRun, Resource, Selection};
use crate::output;

/// Sets the annotation on the pod of each node. If nobody is asked about one of them, nothing is
/// written.
pub(super) async fn execute(arguments: RolloutAgreeArguments) -> anyhow::Result<ExitCode> {
    let RolloutAgreeArguments { daemon_set: name, node: nodes, connection } = arguments;
    let cluster = Cluster::connect(&connection).await?;
    let Guarded { daemon_set, revisions, .. } = super::read(&cluster, &name).await?;
    let current = revisions.iter().rev().find(|entry| entry.current);
    let hash = current.and_then(|entry| entry.hash.as_deref());
    let mut asked = Vec::new();
    for node in &nodes {
        let of_node = Selection::in_namespace(cluster.namespace()).on_node(node);
        let pods = cluster.list(Resource::Pods, &of_node).await?;
        let pods = pods.iter().filter_map(|json| {
            match convert::pod(json.get().as_bytes(), &mut Interner::default()) {
                Ok(PodObject::Pod(pod)) => Some(*pod),
                Ok(PodObject::Puller(_) | PodObject::Foreign { .. }) | Err(_) => None,
            }
        });
        let is_ours = |pod: &Pod| pod.controller.as_ref() == Some(&daemon_set.uid);
        let pods: Vec<Pod> = pods.filter(is_ours).collect();
        asked.push(asked_about(&pods, node, hash)?.clone());
    }
    for (node, pod) in nodes.iter().zip(asked) {
        let patch = json!({ "metadata": {
            "uid": pod.uid.to_string(),
            "annotations": { REPLACE_ANNOTATION: AGREED },
        } });
        let namespace = Some(cluster.namespace());
        cluster.patch(Resource::Pods, namespace, pod.name.as_str(), &patch, DryRun::No).await?;
        output::print(&format!("pod/{} agreed: it is replaced on {node}\n", pod.name))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The pod of the node that somebody is asked about for the current revision.
fn asked_about<'a>(
    pods: &'a [Pod],
    node: &NodeName,
    hash: Option<&str>,
) -> anyhow::Result<&'a Pod> {
    let mut of_node =
        pods.iter().filter(|pod| pod.target_node_name() == Some(node) && !pod.terminating);
    let Some(first) = of_node.clone().next() else { bail!("node {node} has no pod of it") };
    let is_asked = |pod: &&Pod| {
        let replacing = pod.replacement.as_ref().and_then(|it| it.replacing.as_ref());
        replacing.is_some_and(|replacing| Some(replacing.as_str()) == hash)
    };
    match of_node.find(is_asked) {
        Some(pod) => Ok(pod),
        None => bail!(
            "nobody is asked about pod {} on node {node}: it is not its turn, it has the current \
             template, or the policy has no prepare.agree; see {}",
            first.name,
            program::command("rollout get --nodes")
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn pod(name: &str, node: &str, annotations: Value) -> Pod {
        let json = json!({
            "metadata":
                { "name": name, "namespace": "ns", "uid": name, "annotations": annotations },
            "spec": { "nodeName": node },
        });
        match convert::pod(json.to_string().as_bytes(), &mut Interner::default()) {
            Ok(PodObject::Pod(pod)) => *pod,
            other => panic!("{other:?}"),
        }
    }

    /// G54: only the question of the current rollout is answered.
    #[test]
    fn a_pod_is_agreed_about_if_the_current_rollout_asks() {
        let asked = |hash: &str| json!({ "everynode.dev/replacing": hash });
        let pods = [
            pod("a-1", "a", asked("new")),
            pod("b-1", "b", asked("old")),
            pod("c-1", "c", json!({})),
        ];
        let found = |node: &str| {
            let found = asked_about(&pods, &NodeName::from(node), Some("new"));
            found.map(|pod| pod.name.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(found("a"), Ok("a-1".to_owned()));
        assert!(found("b").unwrap_err().starts_with("nobody is asked about pod b-1 on node b"));
        assert!(found("c").unwrap_err().contains("prepare.agree"));
        assert_eq!(found("d"), Err("node d has no pod of it".to_owned()));
    }
}
