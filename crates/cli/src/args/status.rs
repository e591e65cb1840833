//! The arguments of `everynode status`.

use std::time::Duration;

use clap::Args;

use super::value::duration;
use super::{ConnectionArguments, DaemonSetName, ReportArguments};

/// The arguments of `everynode status`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// Maximum time to wait [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Stop waiting as soon as the rollout is stuck or waits for a person
    #[arg(long)]
    pub fail_fast: bool,
    /// Print the current state without waiting
    #[arg(long, conflicts_with_all = ["timeout", "fail_fast"])]
    pub no_wait: bool,
    /// Wait for all nodes: also for those that are set aside
    #[arg(long)]
    pub all_nodes: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: ReportArguments,
}

const EXAMPLES: &str = "\
Examples:
  everynode status ds/fluentd -n logging --timeout 10m
  everynode status ds/fluentd --fail-fast; [ $? -ne 4 ] || everynode undo ds/fluentd
  everynode status ds/fluentd --no-wait -o json
  everynode status ds/fluentd --no-wait -o html > ticket.html

Exit codes:
  0  rolled out: every node has an available pod of the current revision, or is set aside, as the
     output says: it was down before the revision came to it, is leaving, is held by the policy, or
     joined after the rollout began; with --all-nodes no node is set aside
  1  an error, including that the DaemonSet was deleted while waiting
  2  invalid arguments
  3  timeout (with --no-wait: not rolled out), and the rollout is not stuck
  4  timeout (with --fail-fast: immediately), and the rollout is stuck: pods fail again and again,
     can't be created, or have made no progress for 10 minutes, or the DaemonSet is being deleted
  5  timeout (with --fail-fast: immediately), and the rollout waits for a person: it is paused, a
     wave must be approved, or it has failed

With the update strategy OnDelete the command waits until somebody has deleted the old pods, and
lists them. With -o it prints only the result.";
