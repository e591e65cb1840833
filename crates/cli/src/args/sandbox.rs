//! The arguments of `everynode sandbox`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use everynode_controller::checks::hosts::AllowedHost;
use everynode_sandbox::nodes::{NODES_MAX, ZONES_MAX};

use super::LogArguments;
use super::value::{at_least_one, duration, duration_or_zero, percent};

/// The arguments of `everynode sandbox`.
#[derive(Debug, Args)]
#[command(after_help = SANDBOX_EXAMPLES)]
pub(crate) struct SandboxArguments {
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value = "3", conflicts_with = "nodes_from",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub nodes: u32,
    /// Number of zones for these nodes
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "nodes_from",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(ZONES_MAX)))]
    pub zones: u32,
    /// Simulate these nodes, as `kubectl get nodes -o yaml` prints them; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub nodes_from: Option<PathBuf>,
    /// Copy the nodes and DaemonSets of this context's cluster into the sandbox, and what they
    /// name. That cluster is only read
    #[arg(long, value_name = "NAME", conflicts_with_all = ["nodes", "zones", "nodes_from"])]
    pub from_context: Option<String>,
    /// Kubeconfig file with that context [default: $KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "from_context")]
    pub kubeconfig: Option<PathBuf>,
    /// Manifest to apply after the start, also as `kubectl get -o yaml` prints it; repeatable, `-`
    /// reads standard input, a directory stands for its .yaml, .yml and .json files
    #[arg(long, value_name = "PATH")]
    pub apply: Vec<PathBuf>,
    /// File for the kubeconfig [default: a temporary file, removed at exit]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig_out: Option<PathBuf>,
    /// Address of the API server; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Don't start a DaemonSet controller, so that you can run your own
    #[arg(long)]
    pub no_controller: bool,
    /// Hosts that the checks of rollout policies may ask, as for `everynode run` [default: none]
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        value_delimiter = ',',
        conflicts_with = "no_controller"
    )]
    pub check_hosts: Vec<AllowedHost>,
    /// File with credentials for such hosts, as for `everynode run`
    #[arg(long, value_name = "FILE", requires = "check_hosts")]
    pub check_credentials: Option<PathBuf>,
    /// Keep about this share of the nodes in motion once the sandbox has settled: they reboot, are
    /// dead, or are removed and replaced by new ones, as `--seed` decides [default: none]
    #[arg(long, value_name = "PERCENT", value_parser = percent,
          conflicts_with = "exit_when_settled")]
    pub churn: Option<u8>,
    /// Exit with 0 when all nodes are ready and all DaemonSets rolled out, with 1 after --timeout
    #[arg(long)]
    pub exit_when_settled: bool,
    /// Exit with 1 if a DaemonSet should run on no node; otherwise that is a warning
    #[arg(long, requires = "exit_when_settled")]
    pub require_pods: bool,
    /// Maximum time until all nodes are ready and all DaemonSets rolled out
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
    /// Seed of the simulation's random numbers
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,
    /// Number of changes of a kind that watches can replay; a client that falls further behind gets
    /// 410 Gone and lists again
    #[arg(long, value_name = "N", default_value = "20000", value_parser = at_least_one)]
    pub watch_window: usize,
    /// Run several API servers behind the address: one for each TIME, whose watch cache follows the
    /// store with that delay. They serve connections in turn [default: one without delay]
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = duration_or_zero)]
    pub api_server_lags: Vec<Duration>,
    /// File with pod lifecycles (YAML), which take precedence over the built-in ones
    #[arg(long, value_name = "FILE")]
    pub lifecycles: Option<PathBuf>,
    /// File with rules (YAML) that make requests to the API server fail; `-` reads standard input.
    /// At run time use `kubectl get|replace --raw /debug/faults` (see docs/sandbox.md)
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,
    /// Command to run once all nodes are ready and all DaemonSets rolled out, with $KUBECONFIG set;
    /// the sandbox ends with it, and with its exit code, or with 1 after --timeout
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "exit_when_settled")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub log: LogArguments,
}

/// The continuation once the sandbox has settled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then<'a> {
    /// It runs until a signal.
    KeepRunning,
    /// It ends.
    Exit,
    /// It runs as long as this command.
    Run(&'a [OsString]),
}

impl SandboxArguments {
    /// The continuation once the sandbox has settled.
    pub(crate) fn then(&self) -> Then<'_> {
        match (self.exit_when_settled, self.command.as_slice()) {
            (true, _) => Then::Exit,
            (false, []) => Then::KeepRunning,
            (false, command) => Then::Run(command),
        }
    }
}

const SANDBOX_EXAMPLES: &str = "\
Examples:
  everynode sandbox --nodes 20 --zones 3 --apply daemonset.yaml
  kubectl get nodes -o yaml > nodes.yaml && everynode sandbox --nodes-from nodes.yaml
  everynode sandbox --from-context prod --apply daemonset.yaml
  helm template my-agent | everynode sandbox --apply - --exit-when-settled --timeout 30s
  kubectl get ns,sa,ds -A -o yaml | everynode sandbox --nodes-from nodes.yaml --apply -
  everynode sandbox --no-controller --kubeconfig-out sandbox.conf
  everynode sandbox --nodes 5 --apply crds.yaml -- pytest
  everynode sandbox --nodes 20 --apply daemonset.yaml --faults outage.yaml
  everynode sandbox --nodes 500 --apply daemonset.yaml --churn 5%";
