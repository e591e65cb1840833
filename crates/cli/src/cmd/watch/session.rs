//! What is known while it is watched, and what the person at the keyboard has moved to.

use std::time::{Duration, Instant};

use anyhow::Context;
use everynode_core::api::{DaemonSetKey, Timestamp, Uid};
use everynode_insight::overview::Overview;
use everynode_insight::rollout::{Phase, Rollout};
use everynode_insight::snapshot::{EventDetail, ObjectKind};

use super::keys::Key;
use super::view::{Connection, EventLine, Position, Subject, View};
use crate::args::DaemonSetName;
use crate::cluster::{Cluster, Follower, News, Selection};
use crate::cmd::status;

/// Ages and estimates are brought up to date so often.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Of its time this spends at most one part in so many on counting.
const IDLE_FACTOR: u32 = 10;
/// Lines that PgUp and PgDn scroll by.
const PAGE: usize = 8;
/// So many events are shown.
const EVENTS_MAX: usize = 10;

pub struct Session {
    cluster: Cluster,
    name: DaemonSetName,
    key: DaemonSetKey,
    /// Of the DaemonSet whose pods are followed: one that takes its place may select others.
    uid: Option<Uid>,
    follower: Follower,
    /// Why there is no connection.
    lost: Option<String>,
    heard_at: Timestamp,
    refused: Vec<String>,
    /// What there is to be seen is older than what is known.
    changed: bool,
    looked: Instant,
    look_after: Duration,
    subject: Subject,
    position: Position,
}

impl Session {
    /// # Errors
    /// If the DaemonSet is not there, or can't be read.
    pub async fn start(cluster: Cluster, name: DaemonSetName) -> anyhow::Result<Self> {
        let follower = follow(&cluster, &name).await?;
        let key = DaemonSetKey::new(cluster.namespace(), name.as_str());
        Ok(Self {
            uid: uid(&follower, &key),
            cluster,
            name,
            key,
            follower,
            lost: None,
            heard_at: super::now(),
            refused: Vec::new(),
            changed: true,
            looked: Instant::now(),
            look_after: Duration::ZERO,
            subject: Subject::Awaited,
            position: Position::default(),
        })
    }

    pub async fn news(&mut self) -> News {
        self.follower.next().await
    }

    /// # Errors
    /// If the DaemonSet may not be watched.
    pub fn hear(&mut self, news: News) -> anyhow::Result<()> {
        match news {
            News::Changed | News::Regained => {
                self.heard_at = super::now();
                self.changed = true;
                if !self.follower.is_lost() {
                    self.lost = None;
                }
            }
            News::Refused(ObjectKind::DaemonSet, error) => return Err(error.into()),
            News::Refused(_, error) => self.refused.push(error.to_string()),
            News::Lost(error) => self.lost = Some(error.to_string()),
        }
        Ok(())
    }

    /// Counts anew, if there is reason to and it is time. Says whether there is something to be drawn.
    pub async fn look(&mut self, now: Timestamp) -> bool {
        let waited = self.looked.elapsed();
        let is_due = waited >= self.look_after && (self.changed || waited >= REFRESH_INTERVAL);
        if !is_due {
            return false;
        }
        if self.changed {
            self.replace_follower().await;
        }
        let begun = Instant::now();
        if self.changed || matches!(self.subject, Subject::There(_)) {
            self.subject = self.subject(now);
        }
        self.changed = false;
        self.looked = Instant::now();
        self.look_after = begun.elapsed() * IDLE_FACTOR;
        true
    }

    /// Says whether there is something to be drawn.
    pub fn press(&mut self, key: Key) -> bool {
        let scroll = &mut self.position.scroll;
        match key {
            Key::Quit => {}
            Key::Up => *scroll = scroll.saturating_sub(1),
            Key::Down => *scroll = scroll.saturating_add(1),
            Key::PageUp => *scroll = scroll.saturating_sub(PAGE),
            Key::PageDown => *scroll = scroll.saturating_add(PAGE),
            Key::Home => *scroll = 0,
            Key::End => *scroll = usize::MAX,
            Key::Help => self.position.help = !self.position.help,
        }
        true
    }

    pub const fn position(&self) -> Position {
        self.position
    }

    /// Rolled out, or gone.
    pub fn is_over(&self) -> bool {
        match &self.subject {
            Subject::There(overview) => overview.phase == Phase::Done,
            Subject::Deleted => true,
            Subject::Awaited => false,
        }
    }

    /// # Errors
    /// If it was deleted.
    pub fn rollout(&self, now: Timestamp) -> anyhow::Result<Rollout> {
        Rollout::of(&self.follower.snapshot, &self.key, now)
            .with_context(|| format!("daemonset {} was deleted", self.key))
    }

    pub fn view(&self, now: Timestamp) -> View {
        let connection = match &self.lost {
            None => Connection::Live,
            Some(cause) => Connection::Lost {
                seconds: now.since(self.heard_at).as_secs(),
                cause: cause.clone(),
            },
        };
        let problems = match &self.subject {
            Subject::There(overview) => overview.problems.as_slice(),
            Subject::Awaited | Subject::Deleted => &[],
        };
        View {
            title: format!("daemonset {}", self.key),
            subject: self.subject.clone(),
            connection,
            notes: self.refused.iter().chain(problems).cloned().collect(),
            events: self.events(now),
        }
    }

    fn subject(&self, now: Timestamp) -> Subject {
        if !self.follower.is_complete() {
            return Subject::Awaited;
        }
        match Overview::of(&self.follower.snapshot, &self.key, now) {
            Some(overview) => Subject::There(Box::new(overview)),
            None => Subject::Deleted,
        }
    }

    fn events(&self, now: Timestamp) -> Vec<EventLine> {
        let mut events: Vec<&EventDetail> = self.follower.snapshot.events.values().collect();
        events.sort_by_key(|event| std::cmp::Reverse(event.at));
        let line = |event: &EventDetail| EventLine {
            age_seconds: event.at.map_or(0, |at| now.since(at).as_secs()),
            is_warning: event.is_warning,
            reason: event.reason.clone(),
            message: event.message.clone(),
            count: event.count,
        };
        events.into_iter().take(EVENTS_MAX).map(line).collect()
    }

    /// A DaemonSet that was deleted and created anew may have another selector.
    async fn replace_follower(&mut self) {
        let uid_now = uid(&self.follower, &self.key);
        if uid_now.is_none() || uid_now == self.uid {
            return;
        }
        match follow(&self.cluster, &self.name).await {
            Ok(follower) => {
                self.uid = uid(&follower, &self.key);
                self.follower = follower;
                self.refused.clear();
            }
            Err(error) => self.lost = Some(error.to_string()),
        }
    }
}

async fn follow(cluster: &Cluster, name: &DaemonSetName) -> anyhow::Result<Follower> {
    let events =
        Selection::namespace_of(cluster.namespace()).about(ObjectKind::DaemonSet, name.as_str());
    status::follow(cluster, name, [(ObjectKind::Event, events)]).await
}

fn uid(follower: &Follower, key: &DaemonSetKey) -> Option<Uid> {
    let object = follower.snapshot.daemon_sets.get(key)?;
    Some(object.daemon_set.uid.clone())
}
