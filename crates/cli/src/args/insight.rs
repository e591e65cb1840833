//! The arguments of the commands that answer why, and what if.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value::duration;
use super::{ConnectionArguments, DaemonSetName, OutputArguments};

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET", required_unless_present = "filename")]
    pub daemon_set: Option<DaemonSetName>,
    /// The full story of this node
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Without a cluster: the DaemonSets of this manifest (`-` reads standard input) on the nodes of --nodes-from
    #[arg(short, long, value_name = "FILE", requires = "nodes_from")]
    pub filename: Option<PathBuf>,
    /// Nodes as `kubectl get nodes -o yaml` printed them
    #[arg(long, value_name = "FILE", requires = "filename")]
    pub nodes_from: Option<PathBuf>,
    /// Heed the node selector of the namespace, as a controller does that runs with this option
    #[arg(long, conflicts_with = "nodes_from")]
    pub namespace_node_selectors: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  everynode explain ds/fluentd -n logging                  every node, in groups of one reason
  everynode explain ds/fluentd -n logging --node node-17   all that is to be said of one node
  everynode explain ds/fluentd -n logging -o wide          with the names of all nodes
  everynode explain ds/fluentd -n logging -o name          the nodes that need attention
  everynode explain -f fluentd.yaml --nodes-from nodes.yaml

Reads only. Needs `get` on the DaemonSet and `list` on nodes; with `list` on pods and controllerrevisions it \
says what the pods are doing, with `get` on the namespace it names that one's node selector.";

#[derive(Debug, Args)]
#[command(after_help = PLAN_EXAMPLES)]
pub struct PlanArguments {
    /// The manifest; of its objects the DaemonSets are planned (`-` reads standard input)
    #[arg(short, long, value_name = "FILE")]
    pub filename: PathBuf,
    /// Without a cluster: on the nodes that `kubectl get nodes -o yaml` printed
    #[arg(long, value_name = "FILE")]
    pub nodes_from: Option<PathBuf>,
    /// How long pods take to be ready [default: as seen of the DaemonSet's pods]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub start_up: Option<Duration>,
    /// Don't read the pods of all namespaces to see whether new ones fit
    #[arg(long)]
    pub ignore_room: bool,
    /// Heed the node selector of the namespace, as a controller does that runs with this option
    #[arg(long, conflicts_with = "nodes_from")]
    pub namespace_node_selectors: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

const PLAN_EXAMPLES: &str = "\
Examples:
  everynode plan -f fluentd.yaml                            what applying it would do
  helm template my-agent | everynode plan -f -
  everynode plan -f fluentd.yaml --start-up 30s             if pods take 30 s to be ready
  everynode plan -f fluentd.yaml --nodes-from nodes.yaml    on nodes of a file, without a cluster

Nothing is changed: the server is asked with dryRun=All what the object would be, which needs \
`create` or `patch` on daemonsets; without that right it is worked out here. Needs `get` on the DaemonSet and `list` \
on nodes, and for one that is there already `list` on pods and controllerrevisions in its namespace; with `list` on \
all pods it tells whether new ones fit.

Exit code: 0 nothing to do, 2 changes, 1 an error. (Arguments that can't be read end with 2, too, and nothing on \
standard output.)";
