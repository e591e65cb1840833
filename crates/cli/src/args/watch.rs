//! The arguments of `everynode watch`.

use clap::Args;

use super::{ColorArguments, ConnectionArguments, DaemonSetName};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WatchArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// End when it is rolled out; the exit codes are those of status
    #[arg(long)]
    pub until_done: bool,
    /// Print a line at each change, as when piped, instead of a live view
    #[arg(long)]
    pub no_tty: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub color: ColorArguments,
}

const EXAMPLES: &str = "\
Examples:
  everynode watch ds/fluentd -n logging
  everynode restart ds/fluentd && everynode watch ds/fluentd --until-done
  everynode watch ds/fluentd --no-tty >> rollout.log

Keys: q quits, the arrow keys and PgUp and PgDn scroll what holds it up, ? explains the signs.

It reads the DaemonSet, its pods, revisions and events, and nodes. Where a right to watch them \
is missing it tells which one, and shows what it can without.";
