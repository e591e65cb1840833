//! The live list: reads the cluster again and again, and handles keys. In a pipe it prints the rows
//! that have changed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crossterm::event::EventStream;
use everynode_core::api::DaemonSetKey;
use everynode_insight::rollout::Rollout;
use futures::StreamExt;
use ratatui::DefaultTerminal;
use ratatui::text::Text;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::list::{Action, List, Mode};
use super::{Top, screen, table};
use crate::args::{ColorWhen, DaemonSetName};
use crate::cluster::{Cluster, DaemonSetRevisions, DryRun, Error, Selection};
use crate::cmd::watch::keys;
use crate::cmd::watch::screen::Palette;
use crate::cmd::watch::session::Session;
use crate::cmd::watch::view::Connection;
use crate::cmd::{undo, watch};
use crate::output::{self, TextLayout};
use crate::signal;

/// The minimum time between the end of one read and the begin of the next.
pub(crate) const READ_INTERVAL: Duration = Duration::from_secs(2);
/// The ratio of idle time to reading time, which limits the load of large clusters.
pub(crate) const IDLE_FACTOR: u32 = 4;

/// Shows the list live on a terminal, else prints changes, until the user quits.
pub(super) async fn execute(
    cluster: Cluster,
    scope: Selection,
    color: ColorWhen,
) -> anyhow::Result<()> {
    let shutdown = signal::shutdown()?;
    // An error at the start, such as a missing permission, is reported as by `top`.
    let top = output::while_reading(Top::read(&cluster, &scope)).await?;
    if !watch::can_draw() {
        return print_changes(&cluster, &scope, top, &shutdown).await;
    }
    let palette = Palette { color: TextLayout::stdout(color).color };
    let mut list = List::new(scope.to_string(), cluster.description().to_owned());
    list.replace(top.rollouts, top.notes);
    let mut live = Live { cluster, scope, list, palette, updated_at: Instant::now(), task: None };
    watch::with_terminal(async |mut terminal| live.run(&mut terminal, &shutdown).await).await
}

/// Prints the table, then the rows that have changed, as `kubectl get --watch` does.
async fn print_changes(
    cluster: &Cluster,
    scope: &Selection,
    top: Top,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let plain = TextLayout { color: false, width: None };
    output::print(&table(&top.rollouts, plain, None))?;
    top.notes.iter().for_each(output::note);
    let mut known = by_key(top.rollouts);
    let mut is_lost = false;
    let mut delay = READ_INTERVAL;
    loop {
        let (duration, top) = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            read = read_after(delay, cluster, scope) => read,
        };
        delay = READ_INTERVAL.max(duration * IDLE_FACTOR);
        let rollouts = match top {
            Ok(top) => by_key(top.rollouts),
            Err(error) => {
                if !is_lost {
                    output::note(format_args!("{error}; retrying"));
                }
                is_lost = true;
                continue;
            }
        };
        is_lost = false;
        let changed: Vec<Rollout> = rollouts
            .iter()
            .filter(|(key, rollout)| known.get(*key) != Some(*rollout))
            .map(|(_, rollout)| rollout.clone())
            .collect();
        if !changed.is_empty() {
            let text = table(&changed, plain, None);
            let rows = text.split_once('\n').map_or("", |(_, rows)| rows);
            output::print(rows)?;
        }
        for key in known.keys().filter(|key| !rollouts.contains_key(*key)) {
            output::print(&format!("daemonset {key} was deleted\n"))?;
        }
        known = rollouts;
    }
}

fn by_key(rollouts: Vec<Rollout>) -> BTreeMap<DaemonSetKey, Rollout> {
    let key = |it: &Rollout| DaemonSetKey::new(it.namespace.as_str(), it.name.as_str());
    rollouts.into_iter().map(|rollout| (key(&rollout), rollout)).collect()
}

/// Reads after a delay, and measures how long the reading takes.
async fn read_after(
    delay: Duration,
    cluster: &Cluster,
    scope: &Selection,
) -> (Duration, Result<Top, Error>) {
    tokio::time::sleep(delay).await;
    let started = Instant::now();
    let top = Top::read(cluster, scope).await;
    (started.elapsed(), top)
}

/// The live list of a terminal.
struct Live {
    cluster: Cluster,
    scope: Selection,
    list: List,
    palette: Palette,
    updated_at: Instant,
    /// The request that an action has started.
    task: Option<JoinHandle<Outcome>>,
}

/// The result of a request that an action has started.
enum Outcome {
    /// Roll back to this revision, if the user answers with yes.
    Question(DaemonSetKey, i64, String),
    Message(String),
}

impl Live {
    async fn run(
        &mut self,
        terminal: &mut DefaultTerminal,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<()> {
        let mut keys = EventStream::new();
        let mut frames = tokio::time::interval(watch::FRAME_INTERVAL);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reading = self.read_after(READ_INTERVAL);
        loop {
            self.draw(terminal)?;
            tokio::select! {
                (duration, top) = finished(&mut reading) => {
                    self.handle_read(top);
                    reading = self.read_after(READ_INTERVAL.max(duration * IDLE_FACTOR));
                }
                outcome = result_of(&mut self.task) => {
                    self.task = None;
                    self.handle_outcome(outcome);
                }
                event = keys.next() => {
                    let Some(event) = event.transpose()? else { return Ok(()) };
                    if keys::is_suspend(&event) {
                        watch::suspend(terminal)?;
                        continue;
                    }
                    let action = self.list.handle(&event);
                    if action == Action::Quit {
                        return Ok(());
                    }
                    if let Action::Watch(key) = &action {
                        let end = self.watch(key, terminal, &mut keys, shutdown).await?;
                        if end == watch::End::Quit {
                            return Ok(());
                        }
                    }
                    self.start(action);
                    if !keys::is_resize(&event) {
                        continue;
                    }
                }
                _ = frames.tick() => self.age(),
                () = shutdown.cancelled() => return Ok(()),
            }
        }
    }

    fn draw(&self, terminal: &mut DefaultTerminal) -> anyhow::Result<()> {
        terminal.draw(|frame| {
            let size = (frame.area().width, frame.area().height);
            let lines = screen::lines(&self.list, size, self.palette);
            frame.render_widget(Text::from(lines), frame.area());
        })?;
        Ok(())
    }

    fn read_after(&self, delay: Duration) -> JoinHandle<(Duration, Result<Top, Error>)> {
        let (cluster, scope) = (self.cluster.clone(), self.scope.clone());
        tokio::spawn(async move { read_after(delay, &cluster, &scope).await })
    }

    fn handle_read(&mut self, top: Result<Top, Error>) {
        match top {
            Ok(top) => {
                self.updated_at = Instant::now();
                self.list.replace(top.rollouts, top.notes);
            }
            Err(error) => {
                let seconds = self.updated_at.elapsed().as_secs();
                self.list.connection = Connection::Lost { seconds, cause: error.to_string() };
            }
        }
    }

    /// Updates the age of a list whose connection is lost.
    fn age(&mut self) {
        if let Connection::Lost { seconds, .. } = &mut self.list.connection {
            *seconds = self.updated_at.elapsed().as_secs();
        }
    }

    /// Shows the live view of a DaemonSet until the user goes back or quits.
    async fn watch(
        &mut self,
        key: &DaemonSetKey,
        terminal: &mut DefaultTerminal,
        keys: &mut EventStream,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<watch::End> {
        let (cluster, name) = self.target(key);
        let session = tokio::select! {
            session = Session::start(cluster, name) => session,
            () = shutdown.cancelled() => return Ok(watch::End::Quit),
        };
        match session {
            Ok(mut session) => {
                watch::show(&mut session, terminal, keys, self.palette, None, shutdown).await
            }
            Err(error) => {
                self.list.message = Some(error.to_string());
                Ok(watch::End::Back)
            }
        }
    }

    /// The connection in the namespace of a DaemonSet, and its name.
    fn target(&self, key: &DaemonSetKey) -> (Cluster, DaemonSetName) {
        let name = key.name.as_str().parse().expect("the server has checked the name");
        (self.cluster.in_namespace(key.namespace.as_str()), name)
    }

    /// Starts the request of an action, unless another one is under way.
    fn start(&mut self, action: Action) {
        if self.task.is_some() {
            return;
        }
        self.task = match action {
            Action::PrepareUndo(key) => {
                let (cluster, name) = self.target(&key);
                Some(tokio::spawn(async move { question(&cluster, &name, key).await }))
            }
            Action::Undo(key, revision) => {
                let (cluster, name) = self.target(&key);
                Some(tokio::spawn(async move { roll_back(&cluster, &name, &key, revision).await }))
            }
            Action::None | Action::Quit | Action::Watch(_) => None,
        };
    }

    fn handle_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Question(key, revision, question) => {
                self.list.mode = Mode::ConfirmUndo { key, revision, question };
            }
            Outcome::Message(message) => self.list.message = Some(message),
        }
    }
}

/// Asks whether to roll back, and to what.
async fn question(cluster: &Cluster, name: &DaemonSetName, key: DaemonSetKey) -> Outcome {
    let target = async {
        let revisions = DaemonSetRevisions::read(cluster, name).await?;
        anyhow::Ok(revisions.target(None)?)
    };
    match target.await {
        Ok(target) => {
            let images = target.images().join(", ");
            let revision = target.revision;
            let cluster = cluster.description();
            let question =
                format!("y/n: roll back {key} to revision {revision} ({images}) in {cluster}?");
            Outcome::Question(key, revision, question)
        }
        Err(error) => Outcome::Message(format!("{key}: {error:#}")),
    }
}

async fn roll_back(
    cluster: &Cluster,
    name: &DaemonSetName,
    key: &DaemonSetKey,
    revision: i64,
) -> Outcome {
    let rolled_back = async {
        let revisions = DaemonSetRevisions::read(cluster, name).await?;
        let target = revisions.target(Some(revision))?;
        undo::roll_back(cluster, &revisions.daemon_set, &target, DryRun::No).await?;
        let restored = target.template.as_ref();
        anyhow::Ok(restored.and_then(|it| undo::unrestored_by(&revisions.template, it)))
    };
    Outcome::Message(match rolled_back.await {
        Ok(None) => format!("{key} rolled back to revision {revision}"),
        Ok(Some(note)) => format!("{key} rolled back to revision {revision}; {note}"),
        Err(error) => format!("{key}: {error:#}"),
    })
}

async fn finished<T>(task: &mut JoinHandle<T>) -> T {
    task.await.expect("reading does not panic")
}

/// The result of the task; never, if there is none.
async fn result_of(task: &mut Option<JoinHandle<Outcome>>) -> Outcome {
    match task {
        Some(task) => match task.await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Message(error.to_string()),
        },
        None => std::future::pending().await,
    }
}
