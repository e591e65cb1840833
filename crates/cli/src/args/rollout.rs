//! The arguments of `everynode rollout`.

use clap::{Args, Subcommand};

use super::{ConnectionArguments, DaemonSetName};

/// The arguments of `everynode rollout`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct RolloutArguments {
    /// What to do with the rollout.
    #[command(subcommand)]
    pub command: RolloutCommand,
}

/// The commands on a rollout.
#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Replace no more pods until the rollout is resumed
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(RolloutTarget),
    /// Replace pods of older revisions again
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(RolloutTarget),
}

/// The DaemonSet of a rollout.
#[derive(Debug, Args)]
pub(crate) struct RolloutTarget {
    /// The DaemonSet: ds/NAME, or just NAME
    #[arg(value_name = "DAEMONSET")]
    pub daemon_set: DaemonSetName,
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

const EXAMPLES: &str = "\
Examples:
  everynode rollout pause ds/fluentd -n logging    stop a rollout half-way
  everynode rollout resume ds/fluentd -n logging   go on";

const PAUSE_EXAMPLES: &str = "\
Examples:
  everynode rollout pause ds/fluentd -n logging
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
