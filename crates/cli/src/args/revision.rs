//! The arguments of the commands on revisions: `history`, `diff`, `undo`, `restart`.

use clap::Args;

use super::{ColorArguments, ConnectionArguments, DaemonSetName, DocumentFormat, OutputArguments};

/// The arguments of `everynode history`.
#[derive(Debug, Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub(crate) struct HistoryArguments {
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
  everynode history ds/fluentd -n logging                all revisions with their numbers of pods
  everynode history ds/fluentd -n logging --revision 3   the pod template of revision 3";

/// The arguments of `everynode diff`.
#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// The old revision [default: the one before the current one]
    #[arg(value_name = "REVISION", value_parser = clap::value_parser!(i64).range(1..))]
    pub from: Option<i64>,
    /// The new revision [default: the current template]
    #[arg(value_name = "REVISION2", value_parser = clap::value_parser!(i64).range(1..))]
    pub to: Option<i64>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Output format [default: text]
    #[arg(short, long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub output: Option<DocumentFormat>,
    #[command(flatten)]
    pub color: ColorArguments,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  everynode diff ds/fluentd        the last change of the template
  everynode diff ds/fluentd 3      from revision 3 to the current template
  everynode diff ds/fluentd 3 5    from revision 3 to revision 5
  everynode diff ds/fluentd -o json | jq -r '.changes[].field'

Templates are compared by meaning: defaults that only some server versions write are no difference.
On a terminal with at least 120 columns the templates appear side by side, else as a unified diff.";

/// The arguments of `everynode undo`.
#[derive(Debug, Args)]
#[command(after_help = UNDO_EXAMPLES)]
pub(crate) struct UndoArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    /// The revision to roll back to [default: the one before the current one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    pub to_revision: Option<i64>,
    /// Show the change and let the server validate it, but don't apply it
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub color: ColorArguments,
}

const UNDO_EXAMPLES: &str = "\
Examples:
  everynode undo ds/fluentd --dry-run   show what rolling back would change
  everynode undo ds/fluentd             roll back to the previous revision
  everynode undo ds/fluentd --to-revision 3 && everynode status ds/fluentd";

/// The arguments of `everynode restart`.
#[derive(Debug, Args)]
#[command(after_help = RESTART_EXAMPLES)]
pub(crate) struct RestartArguments {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

const RESTART_EXAMPLES: &str = "\
Examples:
  everynode restart ds/fluentd && everynode status ds/fluentd

The controller replaces the pods under the DaemonSet's update strategy, as after any change of the
template.";
