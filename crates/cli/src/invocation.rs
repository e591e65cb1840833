//! The name under which the program was started: its own, or that of a kubectl plugin. The help
//! shows commands in the corresponding form.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::Arguments;

/// How the program was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// As `everynode`.
    Program,
    /// As `kubectl-everynode`, by `kubectl everynode`.
    KubectlPlugin,
    /// As `kubectl_complete-everynode`, by kubectl for completion.
    KubectlCompletion,
}

impl Invocation {
    /// Derived from the first word of the command line.
    pub(crate) fn of(program: &OsStr) -> Self {
        match Path::new(program).file_stem().and_then(OsStr::to_str) {
            Some("kubectl-everynode") => Self::KubectlPlugin,
            Some("kubectl_complete-everynode") => Self::KubectlCompletion,
            Some(_) | None => Self::Program,
        }
    }

    /// The words with which commands begin.
    pub(crate) const fn command_name(self) -> &'static str {
        match self {
            Self::Program => "everynode",
            Self::KubectlPlugin | Self::KubectlCompletion => "kubectl everynode",
        }
    }

    /// The name of the executable.
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Program => "everynode",
            Self::KubectlPlugin | Self::KubectlCompletion => "kubectl-everynode",
        }
    }
}

/// The command line, with help for this form of invocation.
pub(crate) fn command(invocation: Invocation) -> Command {
    let command = Arguments::command();
    match invocation {
        Invocation::Program => command,
        Invocation::KubectlPlugin | Invocation::KubectlCompletion => {
            let name = invocation.command_name();
            let command = command.bin_name(name).display_name(name);
            as_plugin(command)
        }
    }
}

/// Replaces `everynode` by `kubectl everynode` in the examples of a command and those below it.
fn as_plugin(command: Command) -> Command {
    let command = command.mut_subcommands(as_plugin);
    let Some(examples) = command.get_after_help().map(ToString::to_string) else { return command };
    let lines = examples.lines().map(|line| match line.starts_with("  ") {
        true => ["  ", "&& ", "|| ", "| "].into_iter().fold(line.to_owned(), |line, before| {
            line.replace(&format!("{before}everynode "), &format!("{before}kubectl everynode "))
        }),
        false => line.to_owned(),
    });
    command.after_help(lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invocation_is_derived_from_the_executables_name() {
        for (program, expected) in [
            ("everynode", Invocation::Program),
            ("/usr/local/bin/everynode", Invocation::Program),
            ("/root/.krew/bin/kubectl-everynode", Invocation::KubectlPlugin),
            ("kubectl_complete-everynode", Invocation::KubectlCompletion),
        ] {
            assert_eq!(Invocation::of(OsStr::new(program)), expected, "{program}");
        }
    }

    #[test]
    fn a_plugins_help_shows_kubectl_commands() {
        let help = |invocation| {
            let mut command = command(invocation);
            command.build();
            let status = command.find_subcommand_mut("status").expect("there is one");
            status.render_help().to_string()
        };
        let plugin = help(Invocation::KubectlPlugin);
        assert!(plugin.contains("Usage: kubectl everynode status"), "{plugin}");
        assert!(plugin.contains("\n  kubectl everynode status ds/fluentd"), "{plugin}");
        assert!(plugin.contains("|| kubectl everynode undo"), "{plugin}");
        assert!(help(Invocation::Program).contains("Usage: everynode status"));
        let mut command = command(Invocation::KubectlPlugin);
        command.build();
        let rollout = command.find_subcommand_mut("rollout").expect("there is one");
        let approve = rollout.find_subcommand_mut("approve").expect("there is one");
        let help = approve.render_help().to_string();
        assert!(help.contains("\n  kubectl everynode rollout approve "), "{help}");
        assert!(!help.contains("\n  everynode "), "{help}");
    }
}
