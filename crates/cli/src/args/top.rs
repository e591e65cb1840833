//! The arguments of `everynode top`.

use clap::Args;

use super::{ConnectionArguments, OutputArguments};

/// The arguments of `everynode top`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("namespace", |namespace| namespace.help("Namespace [default: all namespaces]")))]
pub(crate) struct TopArguments {
    /// All namespaces, which is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only DaemonSets with these labels, as in kubectl: app=x, tier!=web, or 'app in (x,y)'
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Report the worst state as the exit code, for cron
    #[arg(long)]
    pub exit_code: bool,
    /// With --exit-code: report 0 only if all nodes are done, also those that are set aside
    #[arg(long, requires = "exit_code")]
    pub all_nodes: bool,
    /// Show the list live, with keys to watch, filter and undo; in a pipe, print each change
    #[arg(short, long, conflicts_with_all = ["exit_code", "output"])]
    pub watch: bool,
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

const EXAMPLES: &str = "\
Examples:
  everynode top                  all DaemonSets of the cluster
  everynode top -n kube-system   the DaemonSets of one namespace
  everynode top -l tier=agent    those with a label
  everynode top -w               live
  everynode top -o wide          with update strategy, who guards rollouts, images and age
  everynode top --exit-code > top.txt; [ $? -lt 4 ] || mail -s 'DaemonSets' me@example.com < top.txt

Exit codes, with --exit-code those of `status` for the worst DaemonSet:
  0  all are rolled out (without --exit-code: there was no error)
  1  an error
  2  invalid arguments
  3  some are not rolled out, and none of these is stuck or waits for a person
  4  some are stuck, or are being deleted
  5  some wait for a person: they are paused, or a guarded rollout is on hold; none is stuck

Keys of the live list: Enter watches the selected DaemonSet and Esc returns, the arrow keys, PgUp
and PgDn move, / filters by name, f by state, u rolls back after a question, ? shows all, q quits.

The command reads the pods of a DaemonSet, and warnings in events of its namespace, only if it is
not rolled out.";
