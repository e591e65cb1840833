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
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

const EXAMPLES: &str = "\
Examples:
  everynode top                  all DaemonSets of the cluster
  everynode top -n kube-system   the DaemonSets of one namespace
  everynode top -o wide          with update strategy, images and age

The command reads the pods of a DaemonSet, and warnings in events of its namespace, only if it is
not rolled out.";
