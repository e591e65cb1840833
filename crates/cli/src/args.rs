//! The command line of `everynode` with its help. It only parses; the commands are in `cmd`.

mod daemon_set_name;
mod dashboard;
#[cfg(test)]
mod help;
mod insight;
mod kubectl_habits;
mod revision;
mod rollout;
mod run;
mod sandbox;
mod shared;
mod status;
mod top;
mod value;
mod watch;

use clap::{Parser, Subcommand};

pub(crate) use daemon_set_name::DaemonSetName;
pub(crate) use dashboard::DashboardArguments;
pub(crate) use insight::{ExplainArguments, PlanArguments};
pub(crate) use kubectl_habits::own_form;
pub(crate) use revision::{DiffArguments, HistoryArguments, RestartArguments, UndoArguments};
pub(crate) use rollout::{
    RolloutAgreeArguments, RolloutArguments, RolloutCheckArguments, RolloutCommand,
    RolloutGetArguments, RolloutSuggestArguments, RolloutTarget,
};
pub(crate) use run::{
    LeaderElectionArguments, OverriddenField, RunArguments, ScheduleBy, UnreachableNodes,
};
pub(crate) use sandbox::{SandboxArguments, Then};
pub(crate) use shared::{
    ColorArguments, ColorWhen, ConnectionArguments, DocumentFormat, LogArguments, LogFormat,
    LogLevel, OutputArguments, OutputFormat, ReportArguments, ReportFormat,
};
pub(crate) use status::StatusArguments;
pub(crate) use top::TopArguments;
pub(crate) use watch::WatchArguments;

/// A DaemonSet controller for Kubernetes, and a sandbox cluster to try it in
#[derive(Debug, Parser)]
#[command(name = "everynode", version, arg_required_else_help = true, after_help = EXAMPLES)]
#[command(mut_args(|argument| argument.hide(true)))]
pub(crate) struct Arguments {
    /// Options before the command, which the help shows behind it.
    #[command(flatten)]
    pub leading: ConnectionArguments,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  everynode sandbox --nodes 20 --apply daemonset.yaml   simulate 20 nodes and apply a manifest
  everynode run --kubeconfig admin.conf                 run the controller in a real cluster
  everynode explain ds/fluentd -n logging               show why nodes have a pod or not
  everynode plan -f daemonset.yaml                      show what applying a manifest would do
  everynode top                                         list all DaemonSets, stuck ones first
  everynode dashboard                                   watch them in a browser
  everynode status ds/fluentd --timeout 10m             wait for a rollout

Completion with names from the cluster:
  source <(everynode completion bash)      in ~/.bashrc; for zsh in ~/.zshrc, after compinit
  everynode completion fish | source       in ~/.config/fish/config.fish

To use it as a kubectl plugin, install it as kubectl-everynode in $PATH: kubectl everynode top";

/// The commands, each with its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the DaemonSet controller against a cluster
    Run(Box<RunArguments>),
    /// Start a simulated Kubernetes cluster on this machine
    Sandbox(Box<SandboxArguments>),
    /// Show a rollout live: its nodes by zone, what holds it up, and an estimate of its end
    Watch(WatchArguments),
    /// Wait for the rollout of a DaemonSet, and report what holds it up
    Status(StatusArguments),
    /// List all DaemonSets of the cluster with the reason for a delay, stuck ones first
    Top(TopArguments),
    /// Show DaemonSets and nodes live in a browser on this machine, with actions
    Dashboard(DashboardArguments),
    /// Show why each node has a DaemonSet's pod or not, and the state of that pod
    Explain(ExplainArguments),
    /// Show what applying a DaemonSet would do: nodes, order, duration and risks
    Plan(PlanArguments),
    /// List the revisions of a DaemonSet with their numbers of pods
    History(HistoryArguments),
    /// Show the differences between two revisions of a DaemonSet
    Diff(DiffArguments),
    /// Roll back to an earlier revision of a DaemonSet
    Undo(UndoArguments),
    /// Replace all pods of a DaemonSet
    Restart(RestartArguments),
    /// Pause, approve or abort the rollout of a DaemonSet, or show where a guarded one is
    Rollout(RolloutArguments),
    /// Print the completion script of a shell
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn leader_election_can_be_switched_off_in_upstreams_way() {
        for (argument, expected) in [
            ("--leader-elect=false", false),
            ("--leader-elect=true", true),
            ("--leader-elect", true),
        ] {
            let arguments = Arguments::try_parse_from(["everynode", "run", argument]).unwrap();
            let Command::Run(run) = arguments.command else { panic!("not run") };
            assert_eq!(run.leader_election.leader_elect, expected, "{argument}");
        }
    }

    #[test]
    fn impossible_sandboxes_are_refused() {
        for arguments in [
            vec!["--nodes", "0"],
            vec!["--nodes", "5", "--nodes-from", "x"],
            vec!["--zones", "0"],
            vec!["--timeout", "never"],
            vec!["--exit-when-settled", "--", "true"],
        ] {
            let all = ["everynode", "sandbox"].into_iter().chain(arguments.iter().copied());
            assert!(Arguments::try_parse_from(all).is_err(), "{arguments:?}");
        }
    }
}
