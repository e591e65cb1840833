//! The arguments of `everynode top`.

use clap::Args;

use super::{ConnectionArguments, OutputArguments};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("namespace", |namespace| namespace.help("Namespace [default: all of them]")))]
pub struct TopArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

const EXAMPLES: &str = "\
Examples:
  everynode top                  every DaemonSet of the cluster
  everynode top -n kube-system   those of a namespace
  everynode top -o wide          with update strategy, images and age

Pods are read only of DaemonSets that are not rolled out, to say why.";
