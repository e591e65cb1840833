//! The arguments of `everynode sandbox`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use everynode_sandbox::nodes::{NODES_MAX, ZONES_MAX};

use super::LogArguments;
use super::value::{at_least_one, duration};

#[derive(Debug, Args)]
#[command(after_help = SANDBOX_EXAMPLES)]
pub struct SandboxArguments {
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value = "3", conflicts_with = "nodes_from",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub nodes: u32,
    /// Zones that the nodes are spread over
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "nodes_from",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(ZONES_MAX)))]
    pub zones: u32,
    /// Nodes as `kubectl get nodes -o yaml` printed them of a real cluster; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub nodes_from: Option<PathBuf>,
    /// Manifest to apply once the cluster is up; repeatable, `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub apply: Vec<PathBuf>,
    /// Where to write the kubeconfig [default: a temporary file, removed at the end]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig_out: Option<PathBuf>,
    /// Address of the API server; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Start no DaemonSet controller: bring your own, such as `everynode run`
    #[arg(long)]
    pub no_controller: bool,
    /// Exit 0 as soon as all nodes are ready and all DaemonSets rolled out, 1 after --timeout
    #[arg(long)]
    pub exit_when_settled: bool,
    /// How long settling may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    /// Seed of everything random in the simulation
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,
    /// Changes of a kind that watches can go back; who falls further behind is told so (410 Gone) and lists again
    #[arg(long, value_name = "N", default_value = "20000", value_parser = at_least_one)]
    pub watch_window: usize,
    /// Pod lifecycles (YAML) that go before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub lifecycles: Option<PathBuf>,
    /// Rules (YAML) by which requests to the API server go wrong; `-` reads standard input. While it runs:
    /// `kubectl get|replace --raw /debug/faults` (see docs/sandbox.md)
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArguments,
}

const SANDBOX_EXAMPLES: &str = "\
Examples:
  everynode sandbox --nodes 20 --zones 3 --apply daemonset.yaml
  kubectl get nodes -o yaml > nodes.yaml && everynode sandbox --nodes-from nodes.yaml
  helm template my-agent | everynode sandbox --apply - --exit-when-settled --timeout 30s
  everynode sandbox --no-controller --kubeconfig-out sandbox.conf
  everynode sandbox --nodes 20 --apply daemonset.yaml --faults outage.yaml";
