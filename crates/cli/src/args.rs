//! The command line: what `everynode` understands, with its help. It decides nothing.

mod daemon_set_name;
#[cfg(test)]
mod help;
mod insight;
mod rollout;
mod run;
mod sandbox;
mod shared;
mod status;
mod top;
mod value;
mod watch;

use clap::{Parser, Subcommand};

pub use daemon_set_name::DaemonSetName;
pub use insight::{ExplainArguments, PlanArguments};
pub use rollout::{DiffArguments, HistoryArguments, RestartArguments, UndoArguments};
pub use run::{LeaderElectionArguments, RunArguments, ScheduleBy};
pub use sandbox::SandboxArguments;
pub use shared::{
    ColorArguments, ColorWhen, ConnectionArguments, LogArguments, LogFormat, LogLevel,
    OutputArguments, OutputFormat,
};
pub use status::StatusArguments;
pub use top::TopArguments;
pub use watch::WatchArguments;

/// One pod on every node: a DaemonSet controller for Kubernetes, with a sandbox cluster to try it on.
#[derive(Debug, Parser)]
#[command(name = "everynode", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  everynode sandbox --nodes 20 --zones 3 --apply daemonset.yaml   a cluster of 20 simulated nodes
  everynode run --kubeconfig admin.conf                           the controller of a real cluster
  everynode explain ds/fluentd -n logging                         why is there no pod on this node?
  everynode plan -f daemonset.yaml                                what would applying it do?
  everynode top                                                   every DaemonSet, the stuck ones first
  everynode status ds/fluentd --timeout 10m                       waits for its rollout, and says what holds it up

Completion of names from the cluster:
  source <(everynode completion bash)      in ~/.bashrc; zsh alike in ~/.zshrc, after compinit
  everynode completion fish | source       in ~/.config/fish/config.fish

As a plugin of kubectl, call it kubectl-everynode and put it into $PATH: kubectl everynode top";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the DaemonSet controller against a cluster
    Run(Box<RunArguments>),
    /// Start a simulated Kubernetes cluster on this machine
    Sandbox(Box<SandboxArguments>),
    /// Watch a DaemonSet live: its nodes on a map, what holds it up, and when it may end
    Watch(WatchArguments),
    /// Wait for the rollout of a DaemonSet, and say what holds it up
    Status(StatusArguments),
    /// Show all DaemonSets of the cluster, those that are stuck first, with the reason
    Top(TopArguments),
    /// Say why each node has a DaemonSet's pod or not, and what its pod is doing
    Explain(ExplainArguments),
    /// Say what applying a DaemonSet would do: which nodes, in which order, how long, and what can go wrong
    Plan(PlanArguments),
    /// List the revisions of a DaemonSet and how many pods carry each
    History(HistoryArguments),
    /// Show what differs between two revisions of a DaemonSet
    Diff(DiffArguments),
    /// Go back to an earlier revision of a DaemonSet
    Undo(UndoArguments),
    /// Have all pods of a DaemonSet replaced
    Restart(RestartArguments),
    /// Print the completion script of a shell
    Completion {
        /// The shell that the script is for
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
        ] {
            let all = ["everynode", "sandbox"].into_iter().chain(arguments.iter().copied());
            assert!(Arguments::try_parse_from(all).is_err(), "{arguments:?}");
        }
    }
}
