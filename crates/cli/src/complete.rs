//! Shell completion: what could come next on the command line, with names from the cluster that the line means.
//!
//! Whoever presses Tab waits: what the cluster does not answer at once is left out, and no error is shown.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgMatches, Command};
use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::{CompleteEnv, Shells};

use crate::args::{ConnectionArguments, DaemonSetName};
use crate::cluster::{self, Cluster, Resource, Selection};
use crate::cmd::history::Revised;
use crate::invocation::{Invocation, command};

/// The shell that asks is in there.
const VARIABLE: &str = "EVERYNODE_COMPLETE";
const PATIENCE: Duration = Duration::from_millis(1500);

/// Answers the shell, if it is one that asks; else the command line is one to be run.
///
/// # Errors
/// If there is no such shell, or it does not listen.
pub fn answer(invocation: Invocation, words: &[OsString]) -> anyhow::Result<bool> {
    if invocation == Invocation::KubectlCompletion {
        answer_kubectl(words)?;
        return Ok(true);
    }
    let after = words.iter().position(|word| word == "--").map_or(words.len(), |index| index + 1);
    let asked = words[after..].to_vec();
    let shell = CompleteEnv::with_factory(|| completing(invocation, &asked)).var(VARIABLE);
    Ok(shell.try_complete(words.iter().cloned(), std::env::current_dir().ok().as_deref())?)
}

/// Writes the script that has a shell ask here.
///
/// # Errors
/// If standard output is closed.
pub fn write_script(shell: clap_complete::Shell, program: &str) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let Some(shell) = shells.completer(&name) else {
        anyhow::bail!("there is no completion for {name}");
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, program, program, program, &mut script)?;
    crate::output::print(&String::from_utf8_lossy(&script))
}

/// As kubectl asks the plugin's companion: the last word is the one to be completed, and the answer ends with a directive,
/// here that of no file names.
fn answer_kubectl(words: &[OsString]) -> anyhow::Result<()> {
    let index = words.len().saturating_sub(1).max(1);
    let mut command = completing(Invocation::KubectlPlugin, words);
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

/// The command line, with what knows the values of its arguments.
fn completing(invocation: Invocation, words: &[OsString]) -> Command {
    let place = Arc::new(Place::of(invocation, words));
    command(invocation).mut_subcommands(|subcommand| {
        subcommand.mut_args(|argument| match Subject::of(argument.get_id().as_str()) {
            Some(subject) => {
                let place = place.clone();
                argument.add(ArgValueCompleter::new(move |current: &OsStr| {
                    candidates(&place, subject, current)
                }))
            }
            None => argument,
        })
    })
}

/// What an argument names.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Context,
    DaemonSet,
    Namespace,
    Node,
    Revision,
}

impl Subject {
    fn of(argument: &str) -> Option<Self> {
        match argument {
            "context" => Some(Self::Context),
            "daemon_set" => Some(Self::DaemonSet),
            "namespace" => Some(Self::Namespace),
            "node" => Some(Self::Node),
            "from" | "to" | "revision" | "to_revision" => Some(Self::Revision),
            _ => None,
        }
    }
}

/// What the words so far say of the cluster.
struct Place {
    connection: ConnectionArguments,
    daemon_set: Option<DaemonSetName>,
}

impl Place {
    fn of(invocation: Invocation, words: &[OsString]) -> Self {
        let matches = command(invocation).ignore_errors(true).try_get_matches_from(words);
        let matches = matches.ok().and_then(|mut matches| matches.remove_subcommand());
        let (_, matches) = matches.unwrap_or_default();
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

fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Option<T> {
    matches.try_get_one::<T>(name).ok().flatten().cloned()
}

fn candidates(place: &Place, subject: Subject, current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    // `ds/` stays before the names.
    let kind = match (subject, current.rfind('/')) {
        (Subject::DaemonSet, Some(slash)) => &current[..=slash],
        _ => "",
    };
    let known =
        known(place, subject).into_iter().map(|(name, help)| (format!("{kind}{name}"), help));
    known
        .filter(|(name, _)| name.starts_with(current.as_ref()))
        .map(|(name, help)| CompletionCandidate::new(name).help(help.map(Into::into)))
        .collect()
}

/// Names, and perhaps a word about each.
fn known(place: &Place, subject: Subject) -> Vec<(String, Option<String>)> {
    let asked = match subject {
        Subject::Context => {
            let contexts = cluster::contexts(&place.connection);
            return contexts.into_iter().map(|name| (name, None)).collect();
        }
        Subject::DaemonSet | Subject::Namespace | Subject::Node | Subject::Revision => {
            async {
                let cluster = Cluster::connect(&place.connection).await?;
                match subject {
                    Subject::Namespace => {
                        names(&cluster, Resource::Namespaces, &Selection::all()).await
                    }
                    Subject::Node => names(&cluster, Resource::Nodes, &Selection::all()).await,
                    Subject::Revision => revisions(&cluster, place.daemon_set.as_ref()).await,
                    Subject::DaemonSet | Subject::Context => {
                        let here = Selection::namespace_of(cluster.namespace());
                        names(&cluster, Resource::DaemonSets, &here).await
                    }
                }
            }
        }
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await });
    answer.map(Result::unwrap_or_default).unwrap_or_default()
}

async fn names(
    cluster: &Cluster,
    resource: Resource,
    selection: &Selection,
) -> Result<Vec<(String, Option<String>)>, cluster::Error> {
    let objects = cluster.list_metadata(resource, selection).await?;
    Ok(objects.into_iter().filter_map(|metadata| Some((metadata.name?, None))).collect())
}

async fn revisions(
    cluster: &Cluster,
    daemon_set: Option<&DaemonSetName>,
) -> Result<Vec<(String, Option<String>)>, cluster::Error> {
    let Some(daemon_set) = daemon_set else { return Ok(Vec::new()) };
    let entries = Revised::read(cluster, daemon_set).await?.entries(None);
    let described = entries.into_iter().map(|entry| {
        let current = entry.current.then(|| "current".to_owned());
        let images = entry.images().join(",");
        (entry.revision.to_string(), entry.change_cause.or(current).or(Some(images)))
    });
    Ok(described.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: &str) -> Place {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Place::of(Invocation::Program, &words)
    }

    #[test]
    fn the_words_so_far_say_which_cluster_is_meant() {
        let place = place("everynode undo ds/agent -n logging --context prod --to-revision ");
        assert_eq!(place.connection.namespace.as_deref(), Some("logging"));
        assert_eq!(place.connection.context.as_deref(), Some("prod"));
        assert_eq!(place.daemon_set, "agent".parse().ok());
    }

    #[test]
    fn half_a_line_is_no_obstacle() {
        for line in ["everynode", "everynode ", "everynode status -n", "everynode nonsense --x"] {
            assert_eq!(place(line).daemon_set, None, "{line}");
        }
    }

    #[test]
    fn arguments_that_name_something_in_the_cluster_are_known() {
        let command = completing(Invocation::Program, &[]);
        let completed = command.get_subcommands().flat_map(|subcommand| {
            let known =
                subcommand.get_arguments().filter(|a| a.get::<ArgValueCompleter>().is_some());
            known.map(|argument| format!("{} {}", subcommand.get_name(), argument.get_id()))
        });
        let completed: Vec<String> = completed.collect();
        for expected in
            ["status daemon_set", "top namespace", "diff from", "undo to_revision", "run context"]
        {
            assert!(completed.iter().any(|known| known == expected), "{expected}: {completed:?}");
        }
    }
}
