//! The state of a live view: the watched objects, and the user's position.

use std::time::{Duration, Instant};

use anyhow::Context;
use everynode_core::api::{DaemonSetKey, Timestamp, Uid};
use everynode_insight::events::own_events;
use everynode_insight::explain::{Explanation, explain};
use everynode_insight::overview::Overview;
use everynode_insight::rollout::{Awaited, Phase, Rollout};
use everynode_insight::situation::Situation;
use everynode_insight::snapshot::{ObjectKind, Snapshot};

use super::keys::Key;
use super::view::{Connection, Content, Position, View};
use crate::args::DaemonSetName;
use crate::clock;
use crate::cluster::{Cluster, Update, Watcher};
use crate::cmd::status;

/// The interval at which ages and estimates are updated.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// The ratio of idle time to evaluation time, which limits the CPU usage on large clusters.
const IDLE_FACTOR: u32 = 10;
/// The number of lines that PgUp and PgDn scroll by.
const PAGE_LINES: usize = 8;
/// The maximum number of events shown.
const EVENTS_MAX: usize = 10;

/// A live view of one DaemonSet.
pub(crate) struct Session {
    cluster: Cluster,
    name: DaemonSetName,
    key: DaemonSetKey,
    /// The UID of the watched DaemonSet. A new DaemonSet of the same name may have another
    /// selector.
    uid: Option<Uid>,
    watcher: Watcher,
    /// The error of the last connection attempt, if the connection is lost.
    connection_error: Option<String>,
    updated_at: Timestamp,
    /// Messages about missing permissions.
    forbidden: Vec<String>,
    /// The snapshot has changed since the last evaluation.
    changed: bool,
    evaluated_at: Instant,
    /// The minimum time until the next evaluation.
    evaluation_delay: Duration,
    content: Content,
    /// The answers that the content was made of; `None` if there is no DaemonSet.
    answers: Option<Answers>,
    position: Position,
}

/// The answers about the DaemonSet, as of the last evaluation.
pub(crate) struct Answers {
    pub rollout: Rollout,
    pub explanation: Option<Explanation>,
}

impl Session {
    /// Starts to watch the DaemonSet.
    ///
    /// # Errors
    /// If the DaemonSet does not exist, or can't be read.
    pub(crate) async fn start(cluster: Cluster, name: DaemonSetName) -> anyhow::Result<Self> {
        let watcher = status::watch(&cluster, &name).await?;
        let key = DaemonSetKey::new(cluster.namespace(), name.as_str());
        Ok(Self {
            uid: uid(&watcher, &key),
            cluster,
            name,
            key,
            watcher,
            connection_error: None,
            updated_at: clock::now(),
            forbidden: Vec::new(),
            changed: true,
            evaluated_at: Instant::now(),
            evaluation_delay: Duration::ZERO,
            content: Content::Loading,
            answers: None,
            position: Position::default(),
        })
    }

    /// Waits for the next update of the snapshot.
    pub(crate) async fn next_update(&mut self) -> Update {
        self.watcher.next().await
    }

    /// Applies an update.
    ///
    /// # Errors
    /// If the permission to watch the DaemonSet is missing.
    pub(crate) fn handle_update(&mut self, update: Update) -> anyhow::Result<()> {
        match update {
            Update::Changed | Update::Reconnected => {
                self.updated_at = clock::now();
                self.changed = true;
                if !self.watcher.is_disconnected() {
                    self.connection_error = None;
                }
            }
            Update::Forbidden(ObjectKind::DaemonSet, error) => return Err(error.into()),
            Update::Forbidden(_, error) => self.forbidden.push(error.to_string()),
            Update::ConnectionLost(error) => self.connection_error = Some(error.to_string()),
        }
        Ok(())
    }

    /// Evaluates the snapshot if it has changed, or ages are out of date, and enough time has
    /// passed. Returns whether the view has to be redrawn.
    pub(crate) async fn refresh(&mut self, now: Timestamp) -> bool {
        let waited = self.evaluated_at.elapsed();
        let is_due =
            waited >= self.evaluation_delay && (self.changed || waited >= REFRESH_INTERVAL);
        if !is_due {
            return false;
        }
        if self.changed {
            self.replace_watcher().await;
        }
        let started = Instant::now();
        if self.changed || matches!(self.content, Content::Loaded(_)) {
            self.content = self.evaluate(now);
        }
        self.changed = false;
        self.evaluated_at = Instant::now();
        self.evaluation_delay = started.elapsed() * IDLE_FACTOR;
        true
    }

    /// Performs the action of a key. Returns whether the view has to be redrawn.
    pub(crate) fn handle_key(&mut self, key: Key) -> bool {
        let scroll = &mut self.position.scroll;
        match key {
            Key::Quit | Key::Back => {}
            Key::Up => *scroll = scroll.saturating_sub(1),
            Key::Down => *scroll = scroll.saturating_add(1),
            Key::PageUp => *scroll = scroll.saturating_sub(PAGE_LINES),
            Key::PageDown => *scroll = scroll.saturating_add(PAGE_LINES),
            Key::Home => *scroll = 0,
            Key::End => *scroll = usize::MAX,
            Key::Help => self.position.help = !self.position.help,
        }
        true
    }

    /// The user's position in the view.
    pub(crate) const fn position(&self) -> Position {
        self.position
    }

    /// True if the DaemonSet is rolled out to these nodes, or deleted.
    pub(crate) fn is_over(&self, now: Timestamp, awaited: Awaited) -> bool {
        let is_done = || self.rollout(now, awaited).is_ok_and(|it| it.phase == Phase::Done);
        match &self.content {
            Content::Loaded(overview) => overview.phase == Phase::Done && is_done(),
            Content::Deleted => true,
            Content::Loading => false,
        }
    }

    /// The current rollout.
    ///
    /// # Errors
    /// If the DaemonSet was deleted.
    pub(crate) fn rollout(&self, now: Timestamp, awaited: Awaited) -> anyhow::Result<Rollout> {
        Rollout::awaiting(&self.watcher.snapshot, &self.key, now, awaited)
            .with_context(|| format!("daemonset {} was deleted", self.key))
    }

    /// The DaemonSet.
    pub(crate) const fn key(&self) -> &DaemonSetKey {
        &self.key
    }

    /// The answers that the content of the view was made of.
    pub(crate) const fn answers(&self) -> Option<&Answers> {
        self.answers.as_ref()
    }

    /// The watched objects.
    pub(crate) const fn snapshot(&self) -> &Snapshot {
        &self.watcher.snapshot
    }

    /// The view to draw.
    pub(crate) fn view(&self, now: Timestamp) -> View {
        let connection = match &self.connection_error {
            None => Connection::Live,
            Some(cause) => Connection::Lost {
                seconds: now.since(self.updated_at).as_secs(),
                cause: cause.clone(),
            },
        };
        let problems = match &self.content {
            Content::Loaded(overview) => overview.problems.as_slice(),
            Content::Loading | Content::Deleted => &[],
        };
        View {
            title: format!("daemonset {}", self.key),
            cluster: self.cluster.description().to_owned(),
            content: self.content.clone(),
            connection,
            notes: self.forbidden.iter().chain(problems).cloned().collect(),
            events: own_events(&self.watcher.snapshot, &self.key, now, EVENTS_MAX),
        }
    }

    fn evaluate(&mut self, now: Timestamp) -> Content {
        // Also while more is being read.
        if !self.watcher.is_complete() {
            return self.content.clone();
        }
        self.watcher.follow_image_pullers(&self.key);
        if !self.watcher.is_complete() {
            return self.content.clone();
        }
        let (snapshot, key) = (&self.watcher.snapshot, &self.key);
        self.answers = Rollout::of(snapshot, key, now)
            .map(|rollout| Answers { rollout, explanation: explain(snapshot, key, now) });
        let overview = self.answers.as_ref().and_then(|Answers { rollout, explanation }| {
            Overview::combined(snapshot, key, rollout, explanation.as_ref(), now)
        });
        let events_may_tell_more = |overview: &Overview| {
            overview.held_up.iter().any(|nodes| nodes.situation != Situation::Outdated)
        };
        if overview.as_ref().is_some_and(events_may_tell_more) {
            self.watcher.follow_pod_warnings(&self.key);
            if let Some(node) = overview.as_ref().and_then(|overview| overview.full_node.as_ref()) {
                self.watcher.follow_node(node);
            }
        }
        match overview {
            Some(overview) => Content::Loaded(Box::new(overview)),
            None => Content::Deleted,
        }
    }

    /// Starts new watches if the DaemonSet was created again, since its selector may have changed.
    async fn replace_watcher(&mut self) {
        let uid_now = uid(&self.watcher, &self.key);
        if uid_now.is_none() || uid_now == self.uid {
            return;
        }
        match status::watch(&self.cluster, &self.name).await {
            Ok(watcher) => {
                self.uid = uid(&watcher, &self.key);
                self.watcher = watcher;
                self.content = Content::Loading;
                self.forbidden.clear();
            }
            Err(error) => self.connection_error = Some(error.to_string()),
        }
    }
}

fn uid(watcher: &Watcher, key: &DaemonSetKey) -> Option<Uid> {
    let object = watcher.snapshot.daemon_sets.get(key)?;
    Some(object.daemon_set.uid.clone())
}
