//! The command line: what `everynode` understands, with its help. It decides nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

/// One pod on every node: a DaemonSet controller for Kubernetes, with a sandbox cluster to try it on.
#[derive(Debug, Parser)]
#[command(name = "everynode", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  everynode sandbox --nodes 20 --zones 3 --apply daemonset.yaml   a cluster of 20 simulated nodes
  everynode run --kubeconfig admin.conf                           the controller of a real cluster
  everynode completion bash > /etc/bash_completion.d/everynode";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the DaemonSet controller against a cluster
    Run(Box<RunArguments>),
    /// Start a simulated Kubernetes cluster on this machine
    Sandbox(Box<SandboxArguments>),
    /// Print the completion script of a shell
    Completion {
        /// The shell that the script is for
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version,
}

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
    /// Serve /livez, /readyz and /metrics here, e.g. 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
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

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ScheduleBy {
    /// The scheduler binds pods that are pinned to their node by affinity
    Scheduler,
    /// Pods are created with spec.nodeName, so that no scheduler is needed
    Controller,
}

#[derive(Debug, Args)]
#[command(after_help = SANDBOX_EXAMPLES)]
pub struct SandboxArguments {
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value = "3", conflicts_with = "nodes_from",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: u32,
    /// Zones that the nodes are spread over
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "nodes_from",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub zones: u32,
    /// Nodes as `kubectl get nodes -o yaml` printed them of a real cluster
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
    /// Pod lifecycles (YAML) that go before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub lifecycles: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArguments,
}

const SANDBOX_EXAMPLES: &str = "\
Examples:
  everynode sandbox --nodes 20 --zones 3 --apply daemonset.yaml
  kubectl get nodes -o yaml > nodes.yaml && everynode sandbox --nodes-from nodes.yaml
  helm template my-agent | everynode sandbox --apply - --exit-when-settled --timeout 30s
  everynode sandbox --no-controller --kubeconfig-out sandbox.conf";

#[derive(Debug, Args)]
pub struct LogArguments {
    /// Least important messages that are logged [default: info for run, warn for sandbox]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// Form of log lines
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// `500ms`, `30s`, `1m30s`; a bare number counts seconds.
fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return positive_duration(Duration::from_secs(seconds.into()));
    }
    let parsed = text.parse::<jiff::SignedDuration>();
    let parsed = parsed.map_err(|_| "not a time such as 500ms, 30s or 1m30s".to_owned())?;
    positive_duration(Duration::try_from(parsed).map_err(|_| "must be more than zero".to_owned())?)
}

fn positive_duration(duration: Duration) -> Result<Duration, String> {
    if duration.is_zero() { Err("must be more than zero".into()) } else { Ok(duration) }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| "not a whole number".to_owned())?;
    if number > 0 { Ok(number) } else { Err("must be more than zero".into()) }
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err("must be more than zero".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn leader_election_can_be_switched_off_in_upstreams_way() {
        for (argument, expected) in [
            ("--leader-elect=false", false),
            ("--leader-elect=true", true),
            ("--leader-elect", true),
        ] {
            let arguments = Arguments::try_parse_from(["everynode", "run", argument]).unwrap();
            let Command::Run(run) = arguments.command else { panic!("not run") };
            assert_eq!(run.leader_election.leader_elect, expected, "{argument}");
        }
    }

    #[test]
    fn times_are_read_with_units_or_as_seconds() {
        for (text, milliseconds) in [
            ("500ms", Some(500)),
            ("30", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("0s", None),
            ("-1s", None),
            ("soon", None),
        ] {
            let read = duration(text).ok().map(|duration| duration.as_millis());
            assert_eq!(read, milliseconds, "{text}");
        }
    }

    #[test]
    fn impossible_sandboxes_are_refused() {
        for arguments in [
            vec!["--nodes", "0"],
            vec!["--nodes", "5", "--nodes-from", "x"],
            vec!["--zones", "0"],
            vec!["--timeout", "never"],
        ] {
            let all = ["everynode", "sandbox"].into_iter().chain(arguments.iter().copied());
            assert!(Arguments::try_parse_from(all).is_err(), "{arguments:?}");
        }
    }
}
