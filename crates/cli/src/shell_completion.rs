//! Shell completion, with names from the cluster that the command line selects.
//!
//! The user waits for the answer, so names that the cluster does not return in time are left out,
//! and errors are not shown.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::{CompleteEnv, Shells};
use everynode_core::api::stated_wave;

use crate::args::{ConnectionArguments, DaemonSetName};
use crate::cluster::{self, Cluster, DaemonSetRevisions, Resource, Selection};
use crate::invocation::{Invocation, command};

/// The environment variable with the name of the shell that asks for completion.
const SHELL_VARIABLE: &str = "EVERYNODE_COMPLETE";
/// The environment variable with the index of the word to complete, in clap's scripts.
const INDEX_VARIABLE: &str = "_CLAP_COMPLETE_INDEX";
/// The maximum time to wait for names from the cluster.
const COMPLETION_TIMEOUT: Duration = Duration::from_millis(1500);

/// Prints completions if a shell asks for them. Returns false if the command line is to be
/// executed.
///
/// # Errors
/// If the shell is unknown, or standard output is closed.
pub(crate) fn complete(invocation: Invocation, words: &[OsString]) -> anyhow::Result<bool> {
    if invocation == Invocation::KubectlCompletion {
        complete_for_kubectl(words)?;
        return Ok(true);
    }
    let after = words.iter().position(|word| word == "--").map_or(words.len(), |index| index + 1);
    let line = words[after..].to_vec();
    let index = index_of_current(&line);
    let factory = || with_options_hidden(command_with_completers(invocation, &line), &line, index);
    let shell = CompleteEnv::with_factory(factory).var(SHELL_VARIABLE);
    Ok(shell.try_complete(words.iter().cloned(), std::env::current_dir().ok().as_deref())?)
}

/// Prints the script that registers this program as the shell's source of completions.
///
/// # Errors
/// If standard output is closed.
pub(crate) fn write_script(shell: clap_complete::Shell, program: &str) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let Some(shell) = shells.completer(&name) else {
        anyhow::bail!("there is no completion for {name}");
    };
    let mut script = Vec::new();
    shell.write_registration(SHELL_VARIABLE, program, program, program, &mut script)?;
    crate::output::print(&String::from_utf8_lossy(&script))
}

/// Prints completions in the form that kubectl expects of `kubectl_complete-PLUGIN`. The last word
/// is the one to complete; the directive at the end, `:4`, suppresses file names.
fn complete_for_kubectl(words: &[OsString]) -> anyhow::Result<()> {
    let index = words.len().saturating_sub(1).max(1);
    let command = command_with_completers(Invocation::KubectlPlugin, words);
    let mut command = with_options_hidden(command, words, index);
    let directory = std::env::current_dir().ok();
    let candidates =
        clap_complete::engine::complete(&mut command, words.to_vec(), index, directory.as_deref());
    let mut text = Vec::new();
    for candidate in candidates.unwrap_or_default() {
        write!(text, "{}", candidate.get_value().to_string_lossy())?;
        match candidate.get_help() {
            Some(help) => writeln!(text, "\t{}", help.to_string().replace('\n', " "))?,
            None => writeln!(text)?,
        }
    }
    writeln!(text, ":4")?;
    crate::output::print(&String::from_utf8_lossy(&text))
}

/// The command line with completers for arguments that name something in the cluster.
fn command_with_completers(invocation: Invocation, words: &[OsString]) -> Command {
    let partial = Arc::new(PartialLine::parse(invocation, words));
    with_completers(command(invocation), &partial)
}

fn with_completers(command: Command, partial: &Arc<PartialLine>) -> Command {
    let command =
        command.mut_args(|argument| match NameKind::of_argument(argument.get_id().as_str()) {
            Some(kind) => {
                let partial = partial.clone();
                argument.add(ArgValueCompleter::new(move |current: &OsStr| {
                    candidates(&partial, kind, current)
                }))
            }
            None => argument,
        });
    command.mut_subcommands(|subcommand| with_completers(subcommand, partial))
}

/// The command line without its options, unless the word at `index` begins as one. Like kubectl, a
/// shell then lists names only. Where there are no names to list, hidden options are.
fn with_options_hidden(command: Command, words: &[OsString], index: usize) -> Command {
    let is_option = |word: &OsString| word.to_string_lossy().starts_with('-');
    if words.get(index).is_some_and(is_option) { command } else { without_options(command) }
}

fn without_options(command: Command) -> Command {
    let hide = |argument: Arg| {
        let is_positional = argument.is_positional();
        argument.hide(!is_positional)
    };
    let command = command.disable_help_flag(true).disable_version_flag(true).mut_args(hide);
    command.mut_subcommands(without_options)
}

/// The index of the word to complete, as the scripts of bash and zsh state it. For other shells it
/// is the last one.
fn index_of_current(words: &[OsString]) -> usize {
    let stated = std::env::var(INDEX_VARIABLE).ok().and_then(|index| index.parse().ok());
    stated.unwrap_or_else(|| words.len().saturating_sub(1))
}

/// The kind of name that an argument takes.
#[derive(Clone, Copy, Debug)]
enum NameKind {
    Context,
    DaemonSet,
    Namespace,
    Node,
    Revision,
    Wave,
}

impl NameKind {
    fn of_argument(argument: &str) -> Option<Self> {
        match argument {
            "context" | "from_context" => Some(Self::Context),
            "daemon_set" => Some(Self::DaemonSet),
            "namespace" => Some(Self::Namespace),
            "node" => Some(Self::Node),
            "from" | "to" | "revision" | "to_revision" => Some(Self::Revision),
            "wave" => Some(Self::Wave),
            _ => None,
        }
    }
}

/// The arguments given so far that select the cluster and the DaemonSet.
struct PartialLine {
    connection: ConnectionArguments,
    daemon_set: Option<DaemonSetName>,
}

impl PartialLine {
    fn parse(invocation: Invocation, words: &[OsString]) -> Self {
        let matches = command(invocation).ignore_errors(true).try_get_matches_from(words);
        let matches = matches.unwrap_or_default();
        Self {
            connection: ConnectionArguments {
                kubeconfig: value::<PathBuf>(&matches, "kubeconfig"),
                context: value::<String>(&matches, "context"),
                namespace: value::<String>(&matches, "namespace"),
                impersonate: value::<String>(&matches, "impersonate"),
            },
            daemon_set: value::<DaemonSetName>(&matches, "daemon_set"),
        }
    }
}

/// The value of an argument: of those of the command, of its commands, and before the command, the
/// last one.
fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Option<T> {
    let of_command = matches.subcommand().and_then(|(_, matches)| value(matches, name));
    of_command.or_else(|| matches.try_get_one::<T>(name).ok().flatten().cloned())
}

fn candidates(partial: &PartialLine, kind: NameKind, current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    // `ds/` stays in front of the names.
    let prefix = match (kind, current.rfind('/')) {
        (NameKind::DaemonSet, Some(slash)) => &current[..=slash],
        _ => "",
    };
    let names = names(partial, kind).into_iter();
    names
        .map(|(name, help)| (format!("{prefix}{name}"), help))
        .filter(|(name, _)| name.starts_with(current.as_ref()))
        .map(|(name, help)| CompletionCandidate::new(name).help(help.map(Into::into)))
        .collect()
}

/// The names of this kind, with an optional description.
fn names(partial: &PartialLine, kind: NameKind) -> Vec<(String, Option<String>)> {
    let request = match kind {
        NameKind::Context => {
            let contexts = cluster::contexts(&partial.connection);
            return contexts.into_iter().map(|name| (name, None)).collect();
        }
        NameKind::DaemonSet
        | NameKind::Namespace
        | NameKind::Node
        | NameKind::Revision
        | NameKind::Wave => {
            async {
                let cluster = Cluster::connect(&partial.connection).await?;
                match kind {
                    NameKind::Namespace => {
                        list_names(&cluster, Resource::Namespaces, &Selection::all()).await
                    }
                    NameKind::Node => {
                        list_names(&cluster, Resource::Nodes, &Selection::all()).await
                    }
                    NameKind::Revision => {
                        list_revisions(&cluster, partial.daemon_set.as_ref()).await
                    }
                    NameKind::Wave => stated_waves(&cluster, partial.daemon_set.as_ref()).await,
                    NameKind::DaemonSet | NameKind::Context => {
                        let selection = Selection::in_namespace(cluster.namespace());
                        list_names(&cluster, Resource::DaemonSets, &selection).await
                    }
                }
            }
        }
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let names = runtime.block_on(async { tokio::time::timeout(COMPLETION_TIMEOUT, request).await });
    names.map(Result::unwrap_or_default).unwrap_or_default()
}

async fn list_names(
    cluster: &Cluster,
    resource: Resource,
    selection: &Selection,
) -> Result<Vec<(String, Option<String>)>, cluster::Error> {
    let objects = cluster.list_metadata(resource, selection).await?;
    Ok(objects.into_iter().filter_map(|metadata| Some((metadata.name?, None))).collect())
}

async fn list_revisions(
    cluster: &Cluster,
    daemon_set: Option<&DaemonSetName>,
) -> Result<Vec<(String, Option<String>)>, cluster::Error> {
    let Some(daemon_set) = daemon_set else { return Ok(Vec::new()) };
    let entries = DaemonSetRevisions::read(cluster, daemon_set).await?.entries(None);
    let described = entries.into_iter().map(|entry| {
        let current = entry.current.then(|| "current".to_owned());
        let images = entry.images().join(",");
        (entry.revision.to_string(), entry.change_cause.or(current).or(Some(images)))
    });
    Ok(described.collect())
}

/// The wave that the controller states of the rollout.
async fn stated_waves(
    cluster: &Cluster,
    daemon_set: Option<&DaemonSetName>,
) -> Result<Vec<(String, Option<String>)>, cluster::Error> {
    let Some(daemon_set) = daemon_set else { return Ok(Vec::new()) };
    let status = DaemonSetRevisions::read(cluster, daemon_set).await?.daemon_set.status;
    let conditions = status.into_iter().filter_map(|status| status.conditions).flatten();
    let stated = conditions.filter(|condition| condition.type_ == "Progressing");
    let messages = stated.filter_map(|condition| condition.message);
    Ok(messages.filter_map(|text| Some((stated_wave(&text)?.to_owned(), None))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial(line: &str) -> PartialLine {
        PartialLine::parse(Invocation::Program, &words(line))
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// The words that a shell lists for the last word, without names of a cluster.
    fn listed(line: &str) -> Vec<String> {
        let words = words(line);
        let index = words.len() - 1;
        let names = |argument: Arg| match NameKind::of_argument(argument.get_id().as_str()) {
            Some(_) => argument
                .add(ArgValueCompleter::new(|_: &OsStr| vec![CompletionCandidate::new("a-name")])),
            None => argument,
        };
        let command = command(Invocation::Program).mut_subcommands(|it| it.mut_args(names));
        let mut command = with_options_hidden(command, &words, index);
        let candidates = clap_complete::engine::complete(&mut command, words, index, None);
        let candidates = candidates.expect("the line can be completed").into_iter();
        candidates.map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn names_are_listed_without_options() {
        for line in ["everynode status ", "everynode status -n kube-system ", "everynode top -n "] {
            assert_eq!(listed(line), ["a-name"], "{line}");
        }
        assert!(listed("everynode status --").contains(&"--timeout".to_owned()));
        assert!(listed("everynode status --h").contains(&"--help".to_owned()));
        assert!(listed("everynode top ").contains(&"--output".to_owned()));
        assert!(listed("everynode ").contains(&"top".to_owned()));
    }

    #[test]
    fn the_arguments_so_far_select_the_cluster() {
        let partial = partial("everynode undo ds/agent -n logging --context prod --to-revision ");
        assert_eq!(partial.connection.namespace.as_deref(), Some("logging"));
        assert_eq!(partial.connection.context.as_deref(), Some("prod"));
        assert_eq!(partial.daemon_set, "agent".parse().ok());
        let partial = self::partial("everynode -n logging rollout get ds/agent --context prod ");
        assert_eq!(partial.connection.namespace.as_deref(), Some("logging"));
        assert_eq!(partial.connection.context.as_deref(), Some("prod"));
        assert_eq!(partial.daemon_set, "agent".parse().ok());
    }

    #[test]
    fn an_incomplete_line_is_no_error() {
        for line in ["everynode", "everynode ", "everynode status -n", "everynode nonsense --x"] {
            assert_eq!(partial(line).daemon_set, None, "{line}");
        }
    }

    #[test]
    fn arguments_that_name_something_in_the_cluster_have_completers() {
        let command = command_with_completers(Invocation::Program, &[]);
        fn completed_of(command: &Command, name: &str) -> Vec<String> {
            let has_completer = |argument: &&Arg| argument.get::<ArgValueCompleter>().is_some();
            let known = command.get_arguments().filter(has_completer);
            let known = known.map(|argument| format!("{name} {}", argument.get_id()));
            let nested = command.get_subcommands().flat_map(|nested| {
                completed_of(nested, format!("{name} {}", nested.get_name()).trim_start())
            });
            known.chain(nested).collect()
        }
        let completed = completed_of(&command, "");
        for expected in [
            "status daemon_set",
            "top namespace",
            "diff from",
            "undo to_revision",
            "rollout approve wave",
            "rollout agree node",
            "run context",
            "sandbox from_context",
        ] {
            assert!(completed.iter().any(|known| known == expected), "{expected}: {completed:?}");
        }
    }
}
