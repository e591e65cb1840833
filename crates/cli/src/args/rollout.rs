//! The arguments of the commands that look at a DaemonSet's revisions and move between them.

use clap::Args;

use super::{ColorArguments, ConnectionArguments, DaemonSetName, OutputArguments};

#[derive(Debug, Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub struct HistoryArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// Show the pod template of this revision
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub revision: Option<i64>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  everynode history ds/fluentd -n logging                every revision, and how many pods carry it
  everynode history ds/fluentd -n logging --revision 3   the pod template of one";

#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub struct DiffArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// The revision to start from [default: the one before the current one]
    #[arg(value_name = "REVISION", value_parser = clap::value_parser!(i64).range(1..))]
    pub from: Option<i64>,
    /// The revision to compare it with [default: the current template]
    #[arg(value_name = "REVISION2", value_parser = clap::value_parser!(i64).range(1..))]
    pub to: Option<i64>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub color: ColorArguments,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  everynode diff ds/fluentd        what the last change of the template was
  everynode diff ds/fluentd 3      from revision 3 to the current template
  everynode diff ds/fluentd 3 5    from revision 3 to revision 5

Templates are compared by their meaning: what older and newer servers spell differently is no difference.
Side by side on a terminal of at least 120 columns, else a unified diff.";

#[derive(Debug, Args)]
#[command(after_help = UNDO_EXAMPLES)]
pub struct UndoArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// The revision to go back to [default: the one before the current one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    pub to_revision: Option<i64>,
    /// Show what would change, and let the server check it, but change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub color: ColorArguments,
}

const UNDO_EXAMPLES: &str = "\
Examples:
  everynode undo ds/fluentd --dry-run           what going back to the last template would change
  everynode undo ds/fluentd                     goes back
  everynode undo ds/fluentd --to-revision 3 && everynode status ds/fluentd";

#[derive(Debug, Args)]
#[command(after_help = RESTART_EXAMPLES)]
pub struct RestartArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

const RESTART_EXAMPLES: &str = "\
Examples:
  everynode restart ds/fluentd && everynode status ds/fluentd

The pods are replaced under the DaemonSet's update strategy, as after any change of its template.";
