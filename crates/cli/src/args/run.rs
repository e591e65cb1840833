//! The arguments of `everynode run`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::LogArguments;
use super::value::{at_least_one, duration, positive};

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArguments {
    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Serve the DaemonSets of this namespace only
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub leader_election: LeaderElectionArguments,
    /// Most pods created, and most deleted, in one sync of a DaemonSet
    #[arg(long, value_name = "N", default_value = "250", value_parser = at_least_one)]
    pub burst_replicas: usize,
    /// Limit requests to the API server to N per second [default: no limit but the server's own]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub kube_api_qps: Option<f64>,
    /// Requests that may exceed --kube-api-qps at once
    #[arg(long, value_name = "N", requires = "kube_api_qps", value_parser = clap::value_parser!(u32).range(1..))]
    pub kube_api_burst: Option<u32>,
    /// Who puts pods on their nodes
    #[arg(long, value_enum, default_value = "scheduler")]
    pub schedule_by: ScheduleBy,
    /// Create pods only where their namespace's annotation scheduler.alpha.kubernetes.io/node-selector allows it, as
    /// admission plugin PodNodeSelector does
    #[arg(long)]
    pub namespace_node_selectors: bool,
    /// Serve /livez, /readyz and /metrics here, e.g. 127.0.0.1:8080
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

The cluster's own controller must be off: kube-controller-manager --controllers=*,-daemonset-controller";

#[derive(Debug, Args)]
pub struct LeaderElectionArguments {
    /// Act only while holding a Lease, so that several replicas can run
    #[arg(
        long, value_name = "BOOL", default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = ArgAction::Set
    )]
    pub leader_elect: bool,
    /// How long others wait after the leader's last sign of life
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub leader_elect_lease_duration: Duration,
    /// How long the leader tries to renew before it stops acting
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub leader_elect_renew_deadline: Duration,
    /// Time between two tries
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub leader_elect_retry_period: Duration,
    /// Namespace of the Lease
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,
    /// Name of the Lease
    #[arg(long, value_name = "NAME", default_value = "everynode")]
    pub leader_elect_resource_name: String,
}

/// Not in the help: the defaults do, but in tests. docs/commands.md describes them.
#[derive(Debug, Args)]
pub struct PingArguments {
    /// Time without a word from the API server after which it is asked for one, so that a dead connection is noticed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, hide = true)]
    pub http2_ping_interval: Duration,
    /// Time that it has for an answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, hide = true)]
    pub http2_ping_timeout: Duration,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ScheduleBy {
    /// The scheduler binds pods that are pinned to their node by affinity
    Scheduler,
    /// Pods are created with spec.nodeName, so that no scheduler is needed
    Controller,
}
