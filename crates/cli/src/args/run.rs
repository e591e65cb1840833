//! The arguments of `everynode run`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use everynode_controller::checks::hosts::AllowedHost;

use super::LogArguments;
use super::value::{at_least_one, duration, positive};

/// The arguments of `everynode run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArguments {
    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Run beside the built-in controller, which creates the pods: guard the rollouts of DaemonSets
    /// with the update strategy OnDelete that a rollout policy selects
    #[arg(long, conflicts_with_all = ["burst_replicas", "schedule_by", "unreachable_nodes"])]
    pub beside: bool,
    /// Roll a failed rollout back by restoring the DaemonSet's template once, as `everynode undo`
    /// does; needs the right to patch DaemonSets
    #[arg(long, requires = "beside")]
    pub roll_back: bool,
    /// Ignore rollout policies, pauses and orders, as the built-in controller does
    #[arg(long, conflicts_with = "beside")]
    pub ignore_policies: bool,
    /// Manage only the DaemonSets of this namespace
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub leader_election: LeaderElectionArguments,
    /// Maximum number of pods created, and of pods deleted, in one sync of a DaemonSet
    #[arg(long, value_name = "N", default_value = "250", value_parser = at_least_one)]
    pub burst_replicas: usize,
    /// Hosts that the checks of rollout policies may ask: HOST[:PORT], or *.DOMAIN[:PORT] for all
    /// names below a domain; without PORT the default port of the URL's scheme [default: none]
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        value_delimiter = ',',
        conflicts_with = "ignore_policies"
    )]
    pub check_hosts: Vec<AllowedHost>,
    /// File with credentials for such hosts, sent by https only: a list with host, as in
    /// --check-hosts, bearerTokenFile or basicAuthFile (user:password), and caFile
    #[arg(long, value_name = "FILE", requires = "check_hosts")]
    pub check_credentials: Option<PathBuf>,
    /// Maximum number of requests to the API server per second [default: only the server's own
    /// limit]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub kube_api_qps: Option<f64>,
    /// Number of requests that may exceed --kube-api-qps in a burst
    #[arg(long, value_name = "N", requires = "kube_api_qps",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub kube_api_burst: Option<u32>,
    /// Component that assigns pods to their nodes
    #[arg(long, value_enum, default_value = "scheduler")]
    pub schedule_by: ScheduleBy,
    /// Treatment of nodes whose kubelet does not answer, in a rolling update without a policy
    #[arg(long, value_enum, default_value = "skip")]
    pub unreachable_nodes: UnreachableNodes,
    /// Fields of containers that overrides of rollout policies may change beside resources, env and
    /// args
    #[arg(long, value_enum, value_name = "FIELD", value_delimiter = ',',
          conflicts_with_all = ["beside", "ignore_policies"])]
    pub overrides_may: Vec<OverriddenField>,
    /// Honor the annotation scheduler.alpha.kubernetes.io/node-selector of namespaces, as admission
    /// plugin PodNodeSelector does
    #[arg(long)]
    pub namespace_node_selectors: bool,
    /// Address for /livez, /readyz and /metrics, e.g. 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    #[command(flatten)]
    pub pings: PingArguments,
    #[command(flatten)]
    pub log: LogArguments,
}

const RUN_EXAMPLES: &str = "\
Examples:
  everynode run                                      with $KUBECONFIG, or inside a cluster
  everynode run --kubeconfig admin.conf --context prod --http 127.0.0.1:8080
  everynode run --leader-elect=false --namespace team-a
  everynode run --beside                             beside the built-in controller
  everynode run --check-hosts prometheus.monitoring:9090,*.gates.svc
  everynode run --check-hosts prometheus.example.com --check-credentials credentials.yaml

Without --beside, the built-in DaemonSet controller must be disabled:
kube-controller-manager --controllers=*,-daemonset-controller";

/// The arguments of leader election, named as kube-controller-manager's.
#[derive(Debug, Args)]
pub(crate) struct LeaderElectionArguments {
    /// Act only while holding a Lease, so that several replicas can run
    #[arg(
        long, value_name = "BOOL", default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = ArgAction::Set
    )]
    pub leader_elect: bool,
    /// Time after the leader's last renewal before another replica takes over
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub leader_elect_lease_duration: Duration,
    /// Time that the leader tries to renew the Lease before it stops acting
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub leader_elect_renew_deadline: Duration,
    /// Time between two attempts to acquire or renew the Lease
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub leader_elect_retry_period: Duration,
    /// Namespace of the Lease
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,
    /// Name of the Lease [default: everynode, with --beside everynode-beside, with
    /// --ignore-policies everynode-unguarded]
    #[arg(long, value_name = "NAME")]
    pub leader_elect_resource_name: Option<String>,
}

/// The timing of pings. The help hides these options because only tests need other values;
/// docs/commands.md describes them.
#[derive(Debug, Args)]
pub(crate) struct PingArguments {
    /// Idle time after which a connection to the API server is checked with a ping
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, hide = true)]
    pub http2_ping_interval: Duration,
    /// Time without an answer to a ping after which the connection is closed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, hide = true)]
    pub http2_ping_timeout: Duration,
}

/// The treatment of nodes whose kubelet does not answer, in a rolling update without a policy.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum UnreachableNodes {
    /// Such a node keeps its old pod and uses no budget until it is back, unless it went down
    /// during the update
    Skip,
    /// As the built-in controller: it uses the budget, and its old pod is deleted first
    Wait,
}

/// A field of containers that overrides of rollout policies may change only if that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverriddenField {
    /// The image
    Image,
}

/// The component that assigns pods to nodes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScheduleBy {
    /// Pods have an affinity to their node, and the scheduler binds them
    Scheduler,
    /// Pods are created with spec.nodeName, without a scheduler
    Controller,
}
