//! The arguments of `everynode rollout`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use everynode_core::api::NodeName;
use everynode_insight::suggestion::Window;

use super::value::{duration, reason};
use super::{ConnectionArguments, DaemonSetName, DocumentFormat, OutputArguments};

/// The arguments of `everynode rollout`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct RolloutArguments {
    /// The order or the question about the rollout.
    #[command(subcommand)]
    pub command: RolloutCommand,
}

/// The commands on a rollout.
#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Print a rollout policy made for a DaemonSet in this cluster, with the reasons
    #[command(after_help = SUGGEST_EXAMPLES)]
    Suggest(RolloutSuggestArguments),
    /// Show where a guarded rollout is, and what it waits for
    #[command(after_help = GET_EXAMPLES)]
    Get(RolloutGetArguments),
    /// Make the checks of the rollout policy once, from this machine
    #[command(after_help = CHECK_EXAMPLES)]
    Check(RolloutCheckArguments),
    /// Replace no more pods until the rollout is resumed
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(RolloutTarget),
    /// Replace pods of older revisions again
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(RolloutTarget),
    /// Approve the wave that a guarded rollout is at
    #[command(after_help = ORDER_EXAMPLES)]
    Approve(RolloutApproveArguments),
    /// Agree that the old pods of nodes go, where the policy asks
    #[command(after_help = AGREE_EXAMPLES)]
    Agree(RolloutAgreeArguments),
    /// Go on to the next wave without waiting for this one
    #[command(after_help = ORDER_EXAMPLES)]
    Promote(RolloutPromoteArguments),
    /// End a guarded rollout as failed: its nodes go back to the last complete revision
    #[command(after_help = ORDER_EXAMPLES)]
    Abort(RolloutTarget),
    /// Begin a failed rollout again at its first wave
    #[command(after_help = ORDER_EXAMPLES)]
    Retry(RolloutTarget),
}

/// The arguments of `everynode rollout suggest`.
#[derive(Debug, Args)]
pub(crate) struct RolloutSuggestArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// Replace pods only at these times, such as "Mon-Fri 09:00-16:00 Europe/Berlin"; may be given
    /// several times. Days are all, and the time zone is UTC, unless named
    #[arg(long = "window", value_name = "WINDOW")]
    pub windows: Vec<Window>,
    /// Output format; only YAML has comments
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "yaml")]
    pub output: DocumentFormat,
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

/// The arguments of `everynode rollout get`.
#[derive(Debug, Args)]
pub(crate) struct RolloutGetArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// List the nodes, each with its state in the rollout, the reason, and its wave
    #[arg(long)]
    pub nodes: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The arguments of `everynode rollout check`.
#[derive(Debug, Args)]
pub(crate) struct RolloutCheckArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// Make only this check
    #[arg(long = "check", value_name = "NAME")]
    pub check: Option<String>,
    /// File with credentials for the hosts of checks, as for `everynode run`
    #[arg(long, value_name = "FILE")]
    pub check_credentials: Option<PathBuf>,
    /// Create a Job for each cronJob, and wait until it has ended
    #[arg(long)]
    pub run_jobs: bool,
    /// Maximum time to wait for Jobs
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration,
          requires = "run_jobs")]
    pub timeout: Duration,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The arguments of `everynode rollout approve`.
#[derive(Debug, Args)]
pub(crate) struct RolloutApproveArguments {
    /// Approve only if the rollout is at this wave [default: the one that awaits its approval]
    #[arg(long, value_name = "NAME")]
    pub wave: Option<String>,
    #[command(flatten)]
    pub target: RolloutTarget,
}

/// The arguments of `everynode rollout agree`.
#[derive(Debug, Args)]
pub(crate) struct RolloutAgreeArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// Nodes whose old pods may go, separated by commas; may be given several times
    #[arg(long = "node", value_name = "NODE", required = true, value_delimiter = ',')]
    pub node: Vec<NodeName>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

/// The arguments of `everynode rollout promote`.
#[derive(Debug, Args)]
pub(crate) struct RolloutPromoteArguments {
    /// Go on to all nodes, whatever the policy's steps say, also after a failure
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub target: RolloutTarget,
}

/// The DaemonSet of an order.
#[derive(Debug, Args)]
pub(crate) struct RolloutTarget {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// Why, for those who ask later: one line of at most 256 characters
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

const EXAMPLES: &str = "\
Examples:
  everynode rollout suggest ds/fluentd -n logging   a policy to begin with
  everynode rollout pause ds/fluentd -n logging     stop a rollout half-way
  everynode rollout resume ds/fluentd -n logging    go on
  everynode rollout get ds/fluentd -n logging       where a guarded rollout is
  everynode rollout check ds/fluentd -n logging     what its checks say now
  everynode rollout approve ds/fluentd -n logging   let it go on to its next wave";

const SUGGEST_EXAMPLES: &str = "\
Examples:
  everynode rollout suggest ds/fluentd -n logging
  everynode rollout suggest ds/fluentd -n logging --window \"Mon-Fri 09:00-16:00 Europe/Berlin\"
  everynode rollout suggest ds/fluentd -n logging | everynode plan -f -
  everynode rollout suggest ds/fluentd -n logging > policy.yaml

This command only reads: the DaemonSet, its pods, policies, and nodes, for which it requires `list`.
`plan` shows what a restart of the DaemonSet would do under the policy, and `kubectl apply` makes it
count from the next template on.";

const GET_EXAMPLES: &str = "\
Examples:
  everynode rollout get ds/fluentd -n logging
  everynode rollout get ds/fluentd -n logging --nodes   each node with its state
  everynode rollout get ds/fluentd -n logging -o json
  everynode rollout get ds/fluentd -n logging -o json | jq -c '.course[]'   who ordered what, when

The states of nodes are those that a controller concludes from the cluster, for which this requires
`list` on nodes and pods. What only the controller saw, such as a node that was broken before, is in
the message.

It requires a rollout policy for the DaemonSet: a RolloutPolicy, a ClusterRolloutPolicy, or the
annotation everynode.dev/rollout-policy.";

const CHECK_EXAMPLES: &str = "\
Examples:
  everynode rollout check ds/fluentd -n logging
  everynode rollout check ds/fluentd -n logging --check smoke --run-jobs --timeout 10m

The URLs are asked from this machine, where names of Services in the cluster usually lead nowhere:
run it in a pod, or give the policy URLs that both reach. A Job that --run-jobs creates stays.

Exit codes:
  0  all checks pass
  1  an error
  2  invalid arguments
  3  a check fails
  4  no check fails, but one has neither passed nor failed";

const ORDER_EXAMPLES: &str = "\
Examples:
  everynode rollout approve ds/fluentd -n logging                 the wave that awaits it
  everynode rollout approve ds/fluentd -n logging --wave canary   only if that is the canary
  everynode rollout promote ds/fluentd -n logging                 do not wait for this wave
  everynode rollout promote ds/fluentd -n logging --full          to all nodes
  everynode rollout abort ds/fluentd -n logging                   back to the last complete revision
  everynode rollout retry ds/fluentd -n logging                   after a failure, once more
  everynode rollout retry ds/fluentd -n logging --reason \"the registry is back\"

These write the annotation everynode.dev/order of the DaemonSet, which the controller carries out
once, for the current revision only, and everynode.dev/order-reason, with --reason and the name that
the API server knows you by. `everynode rollout get` shows both.

Exit codes:
  0  the controller has carried it out
  1  an error, or it would have no effect
  2  invalid arguments
  3  no controller has carried it out within 10 s";

const AGREE_EXAMPLES: &str = "\
Examples:
  everynode rollout get ds/driver -n gpu --nodes            which nodes are asked about
  everynode rollout agree ds/driver -n gpu --node gpu-17    its pod may go

With prepare.agree in its policy, a rollout waits until somebody agrees that the old pod of a node
goes. This sets the annotation everynode.dev/replace=agreed on that pod, as a script or an operator
does that drains the node first.

Exit codes:
  0  agreed
  1  an error, or nobody is asked about one of the nodes: then nothing is written
  2  invalid arguments";

const PAUSE_EXAMPLES: &str = "\
Examples:
  everynode rollout pause ds/fluentd -n logging
  everynode rollout pause ds/fluentd -n logging --reason \"wait for the storage team\"
  kubectl annotate ds/fluentd everynode.dev/paused=true   the same, in a manifest or by kubectl

While a rollout is paused, nodes keep their pods whatever the template says. A node without a pod
gets one of the newest older revision that a pod still has.

Exit codes:
  0  paused, and the controller has acknowledged it
  1  an error
  2  invalid arguments
  3  paused, but no controller has acknowledged it within 10 s: only everynode's knows the
     annotation";

const RESUME_EXAMPLES: &str = "\
Examples:
  everynode rollout resume ds/fluentd -n logging && everynode status ds/fluentd -n logging

Exit codes are those of `everynode rollout pause`.";
