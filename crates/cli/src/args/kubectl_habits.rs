//! Forms of a command line that kubectl accepts: `-n infra rollout status ds agent` is `status
//! ds/agent -n infra`.
//!
//! Options before the command are the program's own, and pass to the command. Kind and name as two
//! words are joined before clap reads them: to clap they are two arguments, and `diff` has further
//! ones.

use std::ffi::{OsStr, OsString};

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::daemon_set_name::KINDS;
use super::{Arguments, Command, ConnectionArguments, RolloutCommand};

/// Commands of `kubectl rollout` that are commands of the program itself.
const COMMANDS_OF_ROLLOUT: [&str; 4] = ["history", "restart", "status", "undo"];

/// The command line with kind and name of a DaemonSet in one word, and without the `rollout` that
/// kubectl has before some commands. `words` begins with the program's name.
pub(crate) fn own_form(mut words: Vec<OsString>) -> Vec<OsString> {
    // The command of `sandbox -- COMMAND` is another program's.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let command = words.split_off(end);
    let mut words = joined(without_rollout(words));
    words.extend(command);
    words
}

fn is_option(word: &OsStr) -> bool {
    word.to_string_lossy().starts_with('-')
}

/// `rollout status` as `status`.
fn without_rollout(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_command = |word: &OsStr| COMMANDS_OF_ROLLOUT.iter().any(|command| word == *command);
    // `rollout` may also be the value of an option.
    let at = words
        .windows(3)
        .position(|three| !is_option(&three[0]) && three[1] == "rollout" && is_command(&three[2]));
    if let Some(at) = at {
        words.remove(at + 1);
    }
    words
}

/// `ds agent` as `ds/agent`.
fn joined(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_kind = |word: &OsStr| word.to_str().is_some_and(|word| KINDS.contains(&word));
    // `ds` may also be the value of an option.
    let at = words
        .windows(3)
        .position(|three| !is_option(&three[0]) && is_kind(&three[1]) && !is_option(&three[2]));
    let Some(at) = at else { return words };
    let name = words.remove(at + 2);
    words[at + 1].push("/");
    words[at + 1].push(name);
    words
}

impl Arguments {
    /// The command, with the options that precede it. Options behind the command take precedence.
    ///
    /// # Errors
    /// If the command has no such option.
    pub(crate) fn into_command(self) -> Result<Command, clap::Error> {
        let Self { mut leading, mut command } = self;
        match &mut command {
            Command::Run(run) => {
                fill(&mut run.kubeconfig, &mut leading.kubeconfig);
                fill(&mut run.context, &mut leading.context);
                fill(&mut run.namespace, &mut leading.namespace);
            }
            Command::Sandbox(sandbox) if sandbox.from_context.is_some() => {
                fill(&mut sandbox.kubeconfig, &mut leading.kubeconfig);
            }
            command => {
                if let Some(own) = command.connection_mut() {
                    fill(&mut own.kubeconfig, &mut leading.kubeconfig);
                    fill(&mut own.context, &mut leading.context);
                    fill(&mut own.namespace, &mut leading.namespace);
                    fill(&mut own.impersonate, &mut leading.impersonate);
                }
            }
        }
        let ConnectionArguments { kubeconfig, context, namespace, impersonate } = leading;
        let unknown = kubeconfig
            .map(|_| "--kubeconfig")
            .or(context.map(|_| "--context"))
            .or(namespace.map(|_| "--namespace"))
            .or(impersonate.map(|_| "--as"));
        match unknown {
            None => Ok(command),
            Some(option) => {
                let message = format!("the command has no option {option}\n");
                Err(Arguments::command().error(ErrorKind::UnknownArgument, message))
            }
        }
    }
}

/// Moves the value of an option before the command to that of the command, which takes precedence.
fn fill<T>(own: &mut Option<T>, leading: &mut Option<T>) {
    let leading = leading.take();
    if own.is_none() {
        *own = leading;
    }
}

impl Command {
    /// The cluster of an operators' command.
    fn connection_mut(&mut self) -> Option<&mut ConnectionArguments> {
        match self {
            Self::Run(_) | Self::Sandbox(_) | Self::Completion { .. } | Self::Version => None,
            Self::Watch(arguments) => Some(&mut arguments.connection),
            Self::Status(arguments) => Some(&mut arguments.connection),
            Self::Top(arguments) => Some(&mut arguments.connection),
            Self::Dashboard(arguments) => Some(&mut arguments.connection),
            Self::Explain(arguments) => Some(&mut arguments.connection),
            Self::Plan(arguments) => Some(&mut arguments.connection),
            Self::History(arguments) => Some(&mut arguments.connection),
            Self::Diff(arguments) => Some(&mut arguments.connection),
            Self::Undo(arguments) => Some(&mut arguments.connection),
            Self::Restart(arguments) => Some(&mut arguments.connection),
            Self::Rollout(arguments) => Some(match &mut arguments.command {
                RolloutCommand::Suggest(arguments) => &mut arguments.connection,
                RolloutCommand::Get(get) => &mut get.connection,
                RolloutCommand::Check(check) => &mut check.connection,
                RolloutCommand::Agree(agree) => &mut agree.connection,
                RolloutCommand::Approve(approve) => &mut approve.target.connection,
                RolloutCommand::Promote(promote) => &mut promote.target.connection,
                RolloutCommand::Pause(target)
                | RolloutCommand::Resume(target)
                | RolloutCommand::Abort(target)
                | RolloutCommand::Retry(target) => &mut target.connection,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn forms_of_kubectl_are_those_of_the_program() {
        for (line, expected) in [
            ("everynode status ds agent", "everynode status ds/agent"),
            (
                "everynode rollout get daemonset agent -o json",
                "everynode rollout get daemonset/agent -o json",
            ),
            ("everynode diff ds agent 3 5", "everynode diff ds/agent 3 5"),
            ("everynode rollout status ds agent", "everynode status ds/agent"),
            ("everynode -n infra rollout undo ds/agent", "everynode -n infra undo ds/agent"),
            // As they are.
            ("everynode -n rollout status agent", "everynode -n rollout status agent"),
            ("everynode rollout", "everynode rollout"),
            ("everynode status -n ds agent", "everynode status -n ds agent"),
            ("everynode status ds -n infra", "everynode status ds -n infra"),
            ("everynode status ds", "everynode status ds"),
            ("everynode status ds/agent", "everynode status ds/agent"),
            ("everynode", "everynode"),
        ] {
            assert_eq!(own_form(words(line)), words(expected), "{line}");
        }
    }

    #[test]
    fn options_may_precede_the_command() {
        let parsed = |line: &str| -> Result<Option<ConnectionArguments>, clap::Error> {
            let mut command = Arguments::try_parse_from(own_form(words(line)))?.into_command()?;
            Ok(command.connection_mut().cloned())
        };
        for (line, namespace, context) in [
            ("everynode -n infra top", Some("infra"), None),
            ("everynode --context=a -n infra explain ds agent", Some("infra"), Some("a")),
            ("everynode -n a rollout promote ds agent -n b", Some("b"), None),
            ("everynode status agent", None, None),
        ] {
            let found = parsed(line).unwrap().unwrap_or_else(|| panic!("{line}"));
            assert_eq!(found.namespace.as_deref(), namespace, "{line}");
            assert_eq!(found.context.as_deref(), context, "{line}");
        }
        for line in ["everynode -n", "everynode -n infra", "everynode -n infra sandbox"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        let run = Arguments::try_parse_from(words("everynode --context a run")).unwrap();
        let Ok(Command::Run(run)) = run.into_command() else { panic!("not run") };
        assert_eq!(run.context.as_deref(), Some("a"));
    }

    #[test]
    fn files_to_plan_need_no_option() {
        let parsed = |line| Arguments::try_parse_from(words(line));
        let Ok(Command::Plan(plan)) = parsed("everynode plan a -f b").unwrap().into_command()
        else {
            panic!("not plan")
        };
        let paths = |name: &str| vec![std::path::PathBuf::from(name)];
        assert_eq!((plan.files, plan.filename), (paths("a"), paths("b")));
        assert!(parsed("everynode plan").is_err());
    }
}
