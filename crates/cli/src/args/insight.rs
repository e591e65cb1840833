//! The arguments of `everynode explain` and `everynode plan`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value::duration;
use super::{ConnectionArguments, DaemonSetName, ReportArguments};

/// The arguments of `everynode explain`.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct ExplainArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET", required_unless_present = "filename")]
    pub daemon_set: Option<DaemonSetName>,
    /// Explain this node in full
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Explain the DaemonSets of this manifest on the nodes of --nodes-from, without a cluster (`-`
    /// reads standard input)
    #[arg(short, long, value_name = "FILE", requires = "nodes_from")]
    pub filename: Option<PathBuf>,
    /// File with nodes, as `kubectl get nodes -o yaml` prints them
    #[arg(long, value_name = "FILE", requires = "filename")]
    pub nodes_from: Option<PathBuf>,
    /// Assume that the controller runs with this option, and honors the namespace's node selector
    #[arg(long, conflicts_with = "nodes_from")]
    pub namespace_node_selectors: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: ReportArguments,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  everynode explain ds/fluentd -n logging                  all nodes, grouped by reason
  everynode explain ds/fluentd -n logging --node node-17   one node in full
  everynode explain ds/fluentd -n logging -o wide          with all node names
  everynode explain ds/fluentd -n logging -o name          the nodes that need attention
  everynode explain ds/fluentd -n logging -o html > ticket.html
  everynode explain -f fluentd.yaml --nodes-from nodes.yaml

This command only reads. It requires `get` on the DaemonSet. With `list` on nodes it reports why
each node has a pod or not (--node requires it), with `list` on pods and controllerrevisions the
state of the pods, with `get` on the namespace its node selector.";

/// The arguments of `everynode plan`.
#[derive(Debug, Args)]
#[command(after_help = PLAN_EXAMPLES)]
pub(crate) struct PlanArguments {
    /// Manifests and directories of them; only DaemonSets are planned, or if there are only
    /// policies, a restart of those that they select (`-` reads standard input)
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["files", "kustomize"])]
    pub filename: Vec<PathBuf>,
    /// Manifests and directories of them, as for `-f`
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A directory of which `kubectl kustomize` makes the manifest
    #[arg(short, long, value_name = "DIR")]
    pub kustomize: Option<PathBuf>,
    /// Plan for these nodes, as `kubectl get nodes -o yaml` prints them, without a cluster
    #[arg(long, value_name = "FILE")]
    pub nodes_from: Option<PathBuf>,
    /// Time that pods take to become ready [default: as observed on the DaemonSet's pods]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub start_up: Option<Duration>,
    /// Don't read the pods of all namespaces to check whether new pods fit
    #[arg(long)]
    pub ignore_room: bool,
    /// Assume that the controller runs with this option, and honors the namespace's node selector
    #[arg(long, conflicts_with = "nodes_from")]
    pub namespace_node_selectors: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: ReportArguments,
}

const PLAN_EXAMPLES: &str = "\
Examples:
  everynode plan -f fluentd.yaml                            what applying the file would do
  helm template my-agent | everynode plan -f -
  everynode plan -k overlays/prod                           what `kubectl apply -k` would do
  everynode rollout suggest ds/fluentd | everynode plan -f -
  everynode plan -f fluentd.yaml --start-up 30s             if pods take 30 s to become ready
  everynode plan -f fluentd.yaml --nodes-from nodes.yaml    for nodes of a file, without a cluster

Nothing is changed: the command sends the object to the server with dryRun=All, which requires
`create` or `patch` on daemonsets; without that permission it computes the result itself. It
requires `get` on the DaemonSet and, if it exists, `list` on pods and controllerrevisions in its
namespace. With `list` on nodes it reports nodes, order and duration, with `list` on all pods
whether new pods fit, with `create` on pods whether the server admits them (one is sent with
dryRun=All), with `list` on daemonsets whether another one selects them.

Exit code: 0 nothing to do, 2 changes, 1 error. (Invalid arguments exit with 2, too, but print
nothing on standard output.)";
