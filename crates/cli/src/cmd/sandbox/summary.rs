//! The summary after the start of a sandbox: its nodes with their pods, and useful commands.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use everynode_core::api::DaemonSetKey;
use everynode_insight::program;

use super::row::{NodeRow, PodRow};
use crate::output::escape;

/// The maximum number of nodes in the table. With more, it has one row for each zone.
const NODES_SHOWN_MAX: usize = 30;

/// The nodes with their pods, or the zones with their numbers of pods.
pub(crate) fn table(nodes: &[NodeRow], pods: &[PodRow]) -> String {
    let mut by_node: BTreeMap<&str, Vec<&PodRow>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(&pod.node).or_default().push(pod);
    }
    let rows = if nodes.len() <= NODES_SHOWN_MAX {
        node_rows(nodes, &by_node)
    } else {
        zone_rows(nodes, &by_node)
    };
    columns(&rows)
}

/// The commands to use the sandbox, for one of its DaemonSets and a manifest, if there are any.
pub(crate) fn next_steps(
    kubeconfig: &Path,
    daemon_set: Option<&DaemonSetKey>,
    manifest: Option<&Path>,
) -> String {
    let quoted = |path: &Path| quoted(&path.display().to_string());
    let (namespace, name) = match daemon_set {
        Some(key) => (key.namespace.as_str(), key.name.as_str()),
        None => ("NAMESPACE", "NAME"),
    };
    let manifest = manifest.map_or_else(|| "FILE".to_owned(), quoted);
    let program = program::name();
    format!(
        "Next, in another terminal:\n  export KUBECONFIG={}\n  kubectl get ds -A\n  \
         kubectl get pods -A -o wide\n  {program} top\n  \
         {program} explain ds/{name} -n {namespace}\n  {program} plan -f {manifest}\n  \
         {program} watch ds/{name} -n {namespace}\nCtrl-C stops the sandbox.\n",
        quoted(kubeconfig)
    )
}

fn node_rows(nodes: &[NodeRow], by_node: &BTreeMap<&str, Vec<&PodRow>>) -> Vec<[String; 3]> {
    let mut rows = vec![["NODE", "ZONE", "PODS"].map(str::to_owned)];
    for node in nodes {
        let pods = by_node.get(&*node.name).into_iter().flatten();
        let pods: Vec<String> =
            pods.map(|pod| format!("{} {}", pod.key, escape::line(&pod.state))).collect();
        rows.push([node.name.clone(), node.zone.clone(), pods.join(", ")]);
    }
    rows
}

fn zone_rows(nodes: &[NodeRow], by_node: &BTreeMap<&str, Vec<&PodRow>>) -> Vec<[String; 3]> {
    let mut zones: BTreeMap<&str, (usize, BTreeMap<&str, usize>)> = BTreeMap::new();
    for node in nodes {
        let (count, states) = zones.entry(&node.zone).or_default();
        *count += 1;
        for pod in by_node.get(&*node.name).into_iter().flatten() {
            *states.entry(&pod.state).or_default() += 1;
        }
    }
    let mut rows = vec![["ZONE", "NODES", "PODS"].map(str::to_owned)];
    for (zone, (count, states)) in zones {
        let states: Vec<String> =
            states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        rows.push([zone.to_owned(), count.to_string(), states.join(", ")]);
    }
    rows
}

fn columns(rows: &[[String; 3]]) -> String {
    let line = |cell: &String| escape::whole_line(cell).into_owned();
    let rows: Vec<[String; 3]> = rows.iter().map(|row| row.each_ref().map(line)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let mut text = String::new();
    for [a, b, c] in &rows {
        let line = format!("{a:first$}   {b:second$}   {c}");
        writeln!(text, "{}", line.trim_end()).expect("a string takes any text");
    }
    text
}

/// The path, quoted for a shell if necessary.
fn quoted(path: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:@".contains(letter);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn node(number: usize, zone: &str) -> NodeRow {
        NodeRow { name: format!("node-{number}"), zone: zone.to_owned(), ready: true }
    }

    fn pod(number: usize) -> PodRow {
        PodRow {
            key: format!("default/agent-{number}"),
            node: format!("node-{number}"),
            state: "Running".to_owned(),
            ready: true,
        }
    }

    #[test]
    fn a_small_cluster_is_shown_node_by_node() {
        let text = table(&[node(1, "a"), node(2, "b")], &[pod(1)]);
        expect![[r#"
            NODE     ZONE   PODS
            node-1   a      default/agent-1 Running
            node-2   b
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn a_large_cluster_is_shown_zone_by_zone() {
        let nodes: Vec<NodeRow> =
            (0..100).map(|n| node(n, if n % 2 == 0 { "a" } else { "b" })).collect();
        let pods: Vec<PodRow> = (0..60).map(pod).collect();
        expect![[r#"
            ZONE   NODES   PODS
            a      50      30 Running
            b      50      30 Running
        "#]]
        .assert_eq(&table(&nodes, &pods));
    }

    #[test]
    fn the_next_steps_name_what_was_applied() {
        let key = DaemonSetKey::new("infra", "agent");
        let text = next_steps(Path::new("/a b.conf"), Some(&key), Some(Path::new("agent.yaml")));
        expect![[r#"
            Next, in another terminal:
              export KUBECONFIG='/a b.conf'
              kubectl get ds -A
              kubectl get pods -A -o wide
              everynode top
              everynode explain ds/agent -n infra
              everynode plan -f agent.yaml
              everynode watch ds/agent -n infra
            Ctrl-C stops the sandbox.
        "#]]
        .assert_eq(&text);
        assert!(next_steps(Path::new("x"), None, None).contains("ds/NAME -n NAMESPACE"));
    }

    #[test]
    fn a_path_with_spaces_can_be_pasted() {
        assert_eq!(quoted("/tmp/my dir/it's"), r"'/tmp/my dir/it'\''s'");
        assert_eq!(quoted("/tmp/a-b_c.d"), "/tmp/a-b_c.d");
    }
}
