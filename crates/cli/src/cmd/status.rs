//! `everynode status`: waits for a rollout, says what it waits for when that changes, and tells the end by its exit code.

pub mod display;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use everynode_core::api::{DaemonSetKey, Timestamp};
use everynode_insight::rollout::{Phase, Rollout};
use everynode_insight::snapshot::ObjectKind;
use tokio::time::{Instant, MissedTickBehavior};

use super::history::selection;
use crate::args::{DaemonSetName, OutputFormat, StatusArguments};
use crate::cluster::{Cluster, Follower, News, Resource, Selection, parsed};
use crate::output::{self, Screen};
use display::Display;

const EXIT_TIME_IS_UP: u8 = 3;
const EXIT_PODS_FAIL: u8 = 4;

/// Between two looks at what has changed: many changes are one look.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// How the waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    RolledOut,
    TimeIsUp,
    PodsFail,
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        match end {
            End::RolledOut => ExitCode::SUCCESS,
            End::TimeIsUp => ExitCode::from(EXIT_TIME_IS_UP),
            End::PodsFail => ExitCode::from(EXIT_PODS_FAIL),
        }
    }
}

pub async fn execute(arguments: StatusArguments) -> anyhow::Result<ExitCode> {
    let deadline = arguments.timeout.map(|timeout| Instant::now() + timeout);
    let cluster = Cluster::connect(&arguments.connection).await?;
    let name = arguments.daemon_set.as_str();
    let follower = follow(&cluster, &arguments.daemon_set, []).await?;
    let screen = Screen::stdout(arguments.output.color.color);
    let display = match arguments.output.output {
        Some(OutputFormat::Json | OutputFormat::Yaml | OutputFormat::Name) => Display::Silent,
        Some(OutputFormat::Wide) | None => Display::new(screen),
    };
    let wait = Wait {
        key: DaemonSetKey::new(cluster.namespace(), name),
        patience: Patience::of(&arguments),
        follower,
        display,
        is_lost: false,
    };
    let (rollout, end) = wait.run(deadline).await?;
    match arguments.output.output {
        Some(OutputFormat::Json) => output::print(&output::json(&rollout)?)?,
        Some(OutputFormat::Yaml) => output::print(&output::yaml(&rollout)?)?,
        Some(OutputFormat::Name) => output::print(&format!("daemonset.apps/{name}\n"))?,
        Some(OutputFormat::Wide) | None => {}
    }
    match (end, arguments.timeout) {
        (End::RolledOut, _) => {}
        _ if arguments.no_wait => {}
        (End::TimeIsUp, Some(timeout)) => {
            output::note(format_args!("gave up: not rolled out within {timeout:?}"))
        }
        (End::PodsFail, _) => output::note("gave up: pods of the current revision fail"),
        (End::TimeIsUp, None) => {}
    }
    Ok(end.into())
}

/// Tells each change in plain lines, until it is rolled out or for good.
pub async fn tell(
    cluster: &Cluster,
    name: &DaemonSetName,
    until_done: bool,
) -> anyhow::Result<ExitCode> {
    let wait = Wait {
        key: DaemonSetKey::new(cluster.namespace(), name.as_str()),
        patience: if until_done { Patience::UntilDeadline } else { Patience::Endless },
        follower: follow(cluster, name, []).await?,
        display: Display::lines(),
        is_lost: false,
    };
    let (_, end) = wait.run(None).await?;
    Ok(end.into())
}

/// The DaemonSet with all that tells how its rollout does, and what is selected besides.
///
/// # Errors
/// If the DaemonSet is not there, or can't be read.
pub async fn follow<const N: usize>(
    cluster: &Cluster,
    name: &DaemonSetName,
    besides: [(ObjectKind, Selection); N],
) -> anyhow::Result<Follower> {
    let json = cluster.daemon_set_json(name).await?;
    let daemon_set = parsed(Resource::DaemonSets, json.get())?;
    let selections = [
        (ObjectKind::DaemonSet, Selection::namespace_of(cluster.namespace()).named(name.as_str())),
        (ObjectKind::ControllerRevision, selection(&daemon_set)),
        (ObjectKind::Pod, selection(&daemon_set)),
        (ObjectKind::Node, Selection::all()),
    ];
    let mut follower = cluster.follow(selections.into_iter().chain(besides));
    follower.snapshot.add(ObjectKind::DaemonSet, json.get().as_bytes());
    Ok(follower)
}

/// When waiting ends before the rollout does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    AtOnce,
    UntilPodsFail,
    UntilDeadline,
    /// Not even when it is rolled out.
    Endless,
}

impl Patience {
    fn of(arguments: &StatusArguments) -> Self {
        match (arguments.no_wait, arguments.fail_fast) {
            (true, _) => Self::AtOnce,
            (false, true) => Self::UntilPodsFail,
            (false, false) => Self::UntilDeadline,
        }
    }
}

struct Wait {
    key: DaemonSetKey,
    patience: Patience,
    follower: Follower,
    display: Display,
    /// The connection is lost, and that was told.
    is_lost: bool,
}

impl Wait {
    async fn run(mut self, deadline: Option<Instant>) -> anyhow::Result<(Rollout, End)> {
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_changed = false;
        let (rollout, end) = loop {
            tokio::select! {
                news = self.follower.next() => {
                    has_changed = true;
                    self.hear(news)?;
                }
                _ = looks.tick(), if has_changed && self.follower.is_complete() => {
                    let rollout = self.rollout()?;
                    if let Some(end) = end(&rollout, self.patience) {
                        break (rollout, end);
                    }
                    has_changed = !self.display.show(&rollout)?;
                }
                () = until(deadline) => {
                    let rollout = self.rollout()?;
                    break (rollout.clone(), time_is_up(&rollout));
                }
            }
        };
        self.display.finish(&rollout)?;
        Ok((rollout, end))
    }

    fn hear(&mut self, news: News) -> anyhow::Result<()> {
        match news {
            News::Changed | News::Regained => self.is_lost = false,
            News::Refused(ObjectKind::DaemonSet, error) => return Err(error.into()),
            News::Refused(_, error) => {
                self.display.note(&format!("reasons are incomplete: {error}"))
            }
            News::Lost(error) if !self.is_lost => {
                self.is_lost = true;
                self.display.note(&format!("{error}; trying again"));
            }
            News::Lost(_) => {}
        }
        Ok(())
    }

    fn rollout(&self) -> anyhow::Result<Rollout> {
        let now = Timestamp(jiff::Timestamp::now().as_millisecond());
        match Rollout::of(&self.follower.snapshot, &self.key, now) {
            Some(rollout) => Ok(rollout),
            None => bail!("daemonset {} was deleted", self.key),
        }
    }
}

fn end(rollout: &Rollout, patience: Patience) -> Option<End> {
    match (rollout.phase, patience) {
        (_, Patience::Endless) => None,
        (Phase::Done, _) => Some(End::RolledOut),
        // What it would fail on may be of the last template.
        (Phase::Unobserved, Patience::UntilPodsFail) => None,
        (_, Patience::AtOnce) => Some(time_is_up(rollout)),
        (_, Patience::UntilPodsFail) => rollout.has_failing_pods().then_some(End::PodsFail),
        (_, Patience::UntilDeadline) => None,
    }
}

/// How it ends if it ends now.
pub fn outcome(rollout: &Rollout) -> End {
    if rollout.phase == Phase::Done { End::RolledOut } else { time_is_up(rollout) }
}

fn time_is_up(rollout: &Rollout) -> End {
    if rollout.has_failing_pods() { End::PodsFail } else { End::TimeIsUp }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
