//! The arguments of `everynode watch`.

use clap::Args;

use super::{ColorArguments, ConnectionArguments, DaemonSetName};

/// The arguments of `everynode watch`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WatchArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// Exit when the DaemonSet is rolled out, with the exit codes of status
    #[arg(long)]
    pub until_done: bool,
    /// With --until-done: wait for all nodes, also for those that are set aside
    #[arg(long, requires = "until_done")]
    pub all_nodes: bool,
    /// Print text at each change instead of a live view, as when piped
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

Keys: q quits, the arrow keys, PgUp and PgDn scroll the list of held-up nodes, ? explains the signs.

The command watches the DaemonSet, its pods, revisions and events, and nodes. If a permission is
missing, it names the permission and shows the rest.";
