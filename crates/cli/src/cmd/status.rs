//! `everynode status`: waits for a rollout, prints what it waits for at each change, and reports
//! the result as an exit code.

pub(crate) mod display;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use everynode_core::api::DaemonSetKey;
use everynode_insight::rollout::{Awaited, Phase, Rollout};
use everynode_insight::snapshot::ObjectKind;
use tokio::time::{Instant, MissedTickBehavior};

use crate::args::{DaemonSetName, OutputFormat, ReportFormat, StatusArguments};
use crate::clock;
use crate::cluster::{Cluster, Error, Resource, Selection, Update, Watcher, parsed};
use crate::output::{self, TextLayout};
use display::RolloutDisplay;

const EXIT_TIMEOUT: u8 = 3;
const EXIT_STUCK: u8 = 4;
const EXIT_AWAITS_PERSON: u8 = 5;

/// The minimum time between two evaluations of the snapshot, so that many changes cause one.
const EVALUATION_INTERVAL: Duration = Duration::from_millis(200);

/// The time after which the snapshot is evaluated again although nothing has changed.
const REEVALUATION_INTERVAL: Duration = Duration::from_secs(10);

/// The result of waiting for a rollout. The worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitResult {
    /// The DaemonSet is rolled out.
    RolledOut,
    /// The DaemonSet is not rolled out, and not stuck.
    Timeout,
    /// The DaemonSet is not rolled out, and will not be before a person resumes the rollout.
    Paused,
    /// The DaemonSet is not rolled out, and will not be before a person acts on its guarded
    /// rollout.
    AwaitsPerson,
    /// The DaemonSet is not rolled out, and will not be before somebody intervenes.
    Stuck,
}

impl From<WaitResult> for ExitCode {
    fn from(result: WaitResult) -> Self {
        match result {
            WaitResult::RolledOut => ExitCode::SUCCESS,
            WaitResult::Timeout => ExitCode::from(EXIT_TIMEOUT),
            WaitResult::Stuck => ExitCode::from(EXIT_STUCK),
            WaitResult::Paused | WaitResult::AwaitsPerson => ExitCode::from(EXIT_AWAITS_PERSON),
        }
    }
}

/// Executes the command.
pub(crate) async fn execute(arguments: StatusArguments) -> anyhow::Result<ExitCode> {
    let deadline = arguments.timeout.map(|timeout| Instant::now() + timeout);
    let cluster = Cluster::connect(&arguments.connection).await?;
    let name = arguments.daemon_set.as_str();
    let watching = watch(&cluster, &arguments.daemon_set);
    let watcher = match arguments.timeout {
        Some(within) => cluster.within(within, watching).await??,
        None => watching.await?,
    };
    let layout = TextLayout::stdout(arguments.output.color.color);
    let display = match arguments.output.output {
        Some(
            ReportFormat::Html
            | ReportFormat::Plain(OutputFormat::Document(_) | OutputFormat::Name),
        ) => RolloutDisplay::Silent,
        Some(ReportFormat::Plain(OutputFormat::Wide)) | None => RolloutDisplay::new(layout),
    };
    let wait = RolloutWait {
        key: DaemonSetKey::new(cluster.namespace(), name),
        policy: WaitPolicy::of(&arguments),
        awaited: awaited(arguments.all_nodes),
        watcher,
        display,
        is_disconnected: false,
        policy_notes: Vec::new(),
    };
    let (rollout, result) = wait.run(deadline).await?;
    match arguments.output.output {
        Some(ReportFormat::Html) => {
            output::print(&output::report(Some(cluster.description())).rollout(&rollout))?
        }
        Some(ReportFormat::Plain(OutputFormat::Document(format))) => {
            output::print(&output::document(&rollout, format)?)?;
        }
        Some(ReportFormat::Plain(OutputFormat::Name)) => {
            output::print(&format!("daemonset.apps/{name}\n"))?;
        }
        Some(ReportFormat::Plain(OutputFormat::Wide)) | None => {}
    }
    match (result, arguments.timeout) {
        (WaitResult::RolledOut, _) => {}
        _ if arguments.no_wait => {}
        (WaitResult::Timeout, Some(timeout)) => {
            output::note(format_args!("gave up: not rolled out within {timeout:?}"))
        }
        (WaitResult::Stuck, _) if rollout.phase == Phase::Deleting => {
            output::note("gave up: the DaemonSet is being deleted")
        }
        (WaitResult::Stuck, _) => output::note("gave up: the rollout is stuck"),
        (WaitResult::Paused, _) => output::note("gave up: the rollout is paused"),
        (WaitResult::AwaitsPerson, _) => output::note("gave up: the rollout waits for a person"),
        (WaitResult::Timeout, None) => {}
    }
    Ok(result.into())
}

/// Prints each change as lines of text: until the DaemonSet is rolled out, or endlessly.
pub(crate) async fn print_changes(
    cluster: &Cluster,
    name: &DaemonSetName,
    until_done: bool,
    awaited: Awaited,
) -> anyhow::Result<ExitCode> {
    let wait = RolloutWait {
        key: DaemonSetKey::new(cluster.namespace(), name.as_str()),
        policy: if until_done { WaitPolicy::UntilRolledOut } else { WaitPolicy::Forever },
        awaited,
        watcher: watch(cluster, name).await?,
        display: RolloutDisplay::lines(),
        is_disconnected: false,
        policy_notes: Vec::new(),
    };
    let (_, result) = wait.run(None).await?;
    Ok(result.into())
}

/// Watches the DaemonSet and the others of its namespace, its pods, revisions and events, nodes,
/// its namespace, and the policies that may govern it.
///
/// # Errors
/// If the DaemonSet does not exist, or can't be read.
pub(crate) async fn watch(cluster: &Cluster, name: &DaemonSetName) -> anyhow::Result<Watcher> {
    let json = cluster.daemon_set_json(name).await?;
    let daemon_set = parsed(Resource::DaemonSets, json.get())?;
    let selections = [
        (ObjectKind::DaemonSet, daemon_sets(cluster, name).await?),
        (ObjectKind::ControllerRevision, Selection::selected_by(&daemon_set)),
        (ObjectKind::Pod, Selection::selected_by(&daemon_set)),
        (ObjectKind::Node, Selection::all()),
        (ObjectKind::Namespace, Selection::all().named(cluster.namespace())),
        // Only events tell of pods that ended and were replaced.
        Selection::events(&DaemonSetKey::new(cluster.namespace(), name.as_str())),
        (ObjectKind::RolloutPolicy, Selection::in_namespace(cluster.namespace())),
        (ObjectKind::ClusterRolloutPolicy, Selection::all()),
    ];
    let mut watcher = cluster.watch(selections);
    watcher.snapshot.add(ObjectKind::DaemonSet, json.get().as_bytes());
    Ok(watcher)
}

/// The DaemonSets of the namespace, since another one may select the same pods. Without the
/// permission to list them only the one with this name.
async fn daemon_sets(cluster: &Cluster, name: &DaemonSetName) -> Result<Selection, Error> {
    let all = Selection::in_namespace(cluster.namespace());
    match cluster.list_metadata(Resource::DaemonSets, &all).await {
        Ok(_) => Ok(all),
        Err(error) if error.is_forbidden() => Ok(all.named(name.as_str())),
        Err(error) => Err(error),
    }
}

/// When to stop waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitPolicy {
    /// At once.
    NoWait,
    /// When the DaemonSet is rolled out, or will not be without intervention.
    UntilStuck,
    /// When the DaemonSet is rolled out.
    UntilRolledOut,
    /// Never.
    Forever,
}

impl WaitPolicy {
    fn of(arguments: &StatusArguments) -> Self {
        match (arguments.no_wait, arguments.fail_fast) {
            (true, _) => Self::NoWait,
            (false, true) => Self::UntilStuck,
            (false, false) => Self::UntilRolledOut,
        }
    }
}

/// A rollout that is waited for.
struct RolloutWait {
    key: DaemonSetKey,
    policy: WaitPolicy,
    awaited: Awaited,
    watcher: Watcher,
    display: RolloutDisplay,
    /// A lost connection has been reported.
    is_disconnected: bool,
    /// That policies may not be read, which matters for a guarded rollout only.
    policy_notes: Vec<String>,
}

impl RolloutWait {
    async fn run(mut self, deadline: Option<Instant>) -> anyhow::Result<(Rollout, WaitResult)> {
        let mut ticks = tokio::time::interval(EVALUATION_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_changed = false;
        let mut evaluated_at = Instant::now();
        let (rollout, result) = loop {
            tokio::select! {
                update = self.watcher.next() => {
                    has_changed = true;
                    self.handle(update)?;
                }
                _ = ticks.tick(), if self.watcher.is_complete() => {
                    // What waits too long is stuck, although nothing changes.
                    if !has_changed && evaluated_at.elapsed() < REEVALUATION_INTERVAL {
                        continue;
                    }
                    evaluated_at = Instant::now();
                    self.watcher.follow_image_pullers(&self.key);
                    if !self.watcher.is_complete() {
                        continue;
                    }
                    let rollout = self.rollout()?;
                    if rollout.guard.is_some() {
                        for note in std::mem::take(&mut self.policy_notes) {
                            self.display.note(&note);
                        }
                    }
                    if rollout.phase != Phase::Done && rollout.events_may_tell_more() {
                        self.watcher.follow_pod_warnings(&self.key);
                        if let Some(node) = rollout.full_node() {
                            self.watcher.follow_node(node);
                        }
                        if !self.watcher.is_complete() {
                            continue;
                        }
                    }
                    if let Some(result) = result(&rollout, self.policy) {
                        break (rollout, result);
                    }
                    has_changed = !self.display.show(&rollout)?;
                }
                () = until(deadline) => {
                    let rollout = self.rollout()?;
                    break (rollout.clone(), timeout_result(&rollout));
                }
            }
        };
        self.display.finish(&rollout)?;
        Ok((rollout, result))
    }

    fn handle(&mut self, update: Update) -> anyhow::Result<()> {
        match update {
            Update::Changed | Update::Reconnected => self.is_disconnected = false,
            Update::Forbidden(ObjectKind::DaemonSet, error) => return Err(error.into()),
            // Only the note about its deletion is missing.
            Update::Forbidden(ObjectKind::Namespace, _) => {}
            Update::Forbidden(
                ObjectKind::RolloutPolicy | ObjectKind::ClusterRolloutPolicy,
                error,
            ) => self.policy_notes.push(format!("reasons are incomplete: {error}")),
            Update::Forbidden(_, error) => {
                self.display.note(&format!("reasons are incomplete: {error}"))
            }
            Update::ConnectionLost(error) if !self.is_disconnected => {
                self.is_disconnected = true;
                self.display.note(&format!("{error}; retrying"));
            }
            Update::ConnectionLost(_) => {}
        }
        Ok(())
    }

    fn rollout(&self) -> anyhow::Result<Rollout> {
        let snapshot = &self.watcher.snapshot;
        match Rollout::awaiting(snapshot, &self.key, clock::now(), self.awaited) {
            Some(rollout) => Ok(rollout),
            None => bail!("daemonset {} was deleted", self.key),
        }
    }
}

/// The nodes to wait for, by the option `--all-nodes`.
pub(crate) const fn awaited(all_nodes: bool) -> Awaited {
    if all_nodes { Awaited::AllNodes } else { Awaited::OfRollout }
}

/// The result if waiting is over.
fn result(rollout: &Rollout, policy: WaitPolicy) -> Option<WaitResult> {
    match (rollout.phase, policy) {
        (_, WaitPolicy::Forever) => None,
        (Phase::Done, _) => Some(WaitResult::RolledOut),
        // Pods may be of the previous template.
        (Phase::Unobserved, WaitPolicy::UntilStuck) if !rollout.is_stuck() => None,
        (_, WaitPolicy::NoWait) => Some(timeout_result(rollout)),
        (Phase::Paused, WaitPolicy::UntilStuck) => Some(timeout_result(rollout)),
        (_, WaitPolicy::UntilStuck) => {
            (rollout.is_stuck() || rollout.awaits_person()).then(|| timeout_result(rollout))
        }
        (_, WaitPolicy::UntilRolledOut) => None,
    }
}

/// The result if waiting ends now.
pub(crate) fn current_result(rollout: &Rollout) -> WaitResult {
    if rollout.phase == Phase::Done { WaitResult::RolledOut } else { timeout_result(rollout) }
}

fn timeout_result(rollout: &Rollout) -> WaitResult {
    match rollout.phase {
        Phase::Failing if rollout.awaits_person() && !rollout.has_stuck_new_pods() => {
            WaitResult::AwaitsPerson
        }
        Phase::Failing | Phase::Deleting => WaitResult::Stuck,
        Phase::Unobserved if rollout.is_stuck() => WaitResult::Stuck,
        Phase::Paused => WaitResult::Paused,
        Phase::AwaitsPerson => WaitResult::AwaitsPerson,
        Phase::Unobserved | Phase::Progressing | Phase::AwaitsDeletion | Phase::Done => {
            WaitResult::Timeout
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
