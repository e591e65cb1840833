//! The arguments of `everynode status`.

use std::time::Duration;

use clap::Args;

use super::value::duration;
use super::{ConnectionArguments, DaemonSetName, OutputArguments};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// How long to wait [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Give up as soon as a pod of the current revision fails
    #[arg(long)]
    pub fail_fast: bool,
    /// Say how far it is, and wait for nothing
    #[arg(long, conflicts_with_all = ["timeout", "fail_fast"])]
    pub no_wait: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

const EXAMPLES: &str = "\
Examples:
  everynode status ds/fluentd -n logging --timeout 10m
  everynode status ds/fluentd --fail-fast || everynode undo ds/fluentd
  everynode status ds/fluentd --no-wait -o json

Exit codes:
  0  rolled out: every pod is of the current revision, and available
  1  an error, also that the DaemonSet was deleted meanwhile
  2  wrong arguments
  3  time is up (with --no-wait: not rolled out), and no pod fails
  4  time is up (with --fail-fast: at once), and pods of the current revision fail

With the update strategy OnDelete it waits until somebody has deleted the old pods, and says which.
With -o it prints nothing but the result.";
