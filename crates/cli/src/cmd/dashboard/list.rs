//! The list of all DaemonSets, as `top -w` reads it. A watch adds the counts between two reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everynode_dashboard::source::{Content, DaemonSets, LostConnection, Reading};
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Pages;
use crate::cluster::{Error, Update, Watcher};
use crate::cmd::top::live::{IDLE_FACTOR, READ_INTERVAL};
use crate::cmd::top::{Top, by_urgency};
use crate::cmd::watch::FRAME_INTERVAL;

type Read = (Duration, Result<Top, Error>);

/// Reads all DaemonSets again and again; `first` is the first result, if it is there already.
pub(super) async fn follow(
    pages: Arc<Pages>,
    first: Option<Top>,
    sender: watch::Sender<Reading<DaemonSets>>,
) {
    let watcher = pages.cluster.watch([(ObjectKind::DaemonSet, pages.scope.clone())]);
    let mut list = List {
        scope: pages.scope.to_string(),
        watcher,
        notes: Vec::new(),
        read_at: Instant::now(),
        has_changed: false,
        sender,
    };
    let mut reading = match first {
        Some(top) => {
            list.replace(top);
            read_after(&pages, READ_INTERVAL)
        }
        None => read_after(&pages, Duration::ZERO),
    };
    let mut frames = tokio::time::interval(FRAME_INTERVAL);
    frames.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            read = &mut reading.0 => {
                let (duration, top) = read.expect("reading does not panic");
                match top {
                    Ok(top) => list.replace(top),
                    Err(error) => list.fail(&error),
                }
                reading = read_after(&pages, READ_INTERVAL.max(duration * IDLE_FACTOR));
            }
            update = list.watcher.next() => list.has_changed |= matches!(update, Update::Changed),
            _ = frames.tick() => list.publish_changes(),
        }
    }
}

/// A task that ends with its owner.
struct Reader(JoinHandle<Read>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn read_after(pages: &Arc<Pages>, delay: Duration) -> Reader {
    let pages = pages.clone();
    Reader(tokio::spawn(async move {
        tokio::time::sleep(delay).await;
        let started = Instant::now();
        let top = Top::read(&pages.cluster, &pages.scope).await;
        (started.elapsed(), top)
    }))
}

struct List {
    scope: String,
    /// Its snapshot has the DaemonSets of the watch, and the rest of the last read.
    watcher: Watcher,
    notes: Vec<String>,
    read_at: Instant,
    /// The watch has changed a DaemonSet since the last list.
    has_changed: bool,
    sender: watch::Sender<Reading<DaemonSets>>,
}

impl List {
    fn replace(&mut self, top: Top) {
        let mut snapshot = top.snapshot;
        if self.watcher.is_complete() && !self.watcher.is_disconnected() {
            // These are newer.
            let Snapshot { daemon_sets, changes, deletions, .. } =
                std::mem::take(&mut self.watcher.snapshot);
            (snapshot.daemon_sets, snapshot.changes) = (daemon_sets, changes);
            snapshot.deletions = deletions;
        }
        self.watcher.snapshot = snapshot;
        self.notes = top.notes;
        self.read_at = Instant::now();
        self.publish();
    }

    fn publish_changes(&mut self) {
        if std::mem::take(&mut self.has_changed) && self.watcher.is_complete() {
            self.publish();
        }
    }

    fn publish(&self) {
        let (scope, notes) = (self.scope.clone(), self.notes.clone());
        let rollouts = by_urgency(&self.watcher.snapshot);
        let content = Content::Loaded(Arc::new(DaemonSets { scope, rollouts, notes }));
        super::sessions::publish(&self.sender, content);
    }

    fn fail(&self, error: &Error) {
        let seconds = self.read_at.elapsed().as_secs();
        let lost = LostConnection { seconds, cause: error.to_string() };
        self.sender.send_modify(|reading| match reading.content {
            Content::Loading | Content::Missing(_) => {
                reading.content = Content::Missing(error.to_string());
            }
            Content::Loaded(_) => reading.lost = Some(lost),
        });
    }
}
