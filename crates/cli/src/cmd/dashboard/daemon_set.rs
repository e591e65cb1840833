//! One DaemonSet, as `watch` reads it.

use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{DaemonSetKey, Timestamp};
use everynode_dashboard::source::{Content, DaemonSetDetail, LostConnection, Reading};
use everynode_insight::course::Course;
use everynode_insight::events::events;
use everynode_insight::guarded::GuardedRollout;
use everynode_insight::overview::{Overview, nodes_by_zone};
use everynode_insight::rollout_nodes::RolloutNodes;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::Pages;
use crate::clock;
use crate::cmd::watch::FRAME_INTERVAL;
use crate::cmd::watch::session::{Answers, Session};
use crate::cmd::watch::view::{self, Connection};

/// The time until a DaemonSet that could not be read is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum number of events shown.
const EVENTS_MAX: usize = 50;

type Sender = watch::Sender<Reading<DaemonSetDetail>>;

/// Watches the DaemonSet, and begins again if it can't be read.
pub(super) async fn follow(pages: Arc<Pages>, key: DaemonSetKey, sender: Sender) {
    loop {
        if let Err(message) = watch(&pages, &key, &sender).await {
            super::sessions::publish(&sender, Content::Missing(message));
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

async fn watch(pages: &Pages, key: &DaemonSetKey, sender: &Sender) -> Result<(), String> {
    let (cluster, name) = pages.target(key)?;
    let started = Session::start(cluster, name).await;
    let mut session = started.map_err(|error| format!("{error:#}"))?;
    let mut frames = tokio::time::interval(FRAME_INTERVAL);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            update = session.next_update() => {
                session.handle_update(update).map_err(|error| format!("{error:#}"))?;
            }
            _ = frames.tick() => {
                let now = clock::now();
                if session.refresh(now).await {
                    publish(&session, now, sender);
                }
            }
        }
    }
}

fn publish(session: &Session, now: Timestamp, sender: &Sender) {
    let view = session.view(now);
    let lost = match view.connection {
        Connection::Live => None,
        Connection::Lost { seconds, cause } => Some(LostConnection { seconds, cause }),
    };
    let content = match view.content {
        view::Content::Loading => Content::Loading,
        view::Content::Deleted => {
            Content::Missing(format!("there is no daemonset {}", session.key()))
        }
        view::Content::Loaded(overview) => match detail(session, *overview, view.notes, now) {
            Some(detail) => Content::Loaded(Arc::new(detail)),
            None => return,
        },
    };
    sender.send_replace(Reading { content, lost });
}

fn detail(
    session: &Session,
    overview: Overview,
    notes: Vec<String>,
    now: Timestamp,
) -> Option<DaemonSetDetail> {
    let (snapshot, key) = (session.snapshot(), session.key());
    let Answers { rollout, explanation } = session.answers()?;
    let zones = explanation.as_ref().filter(|_| !snapshot.nodes.is_empty());
    Some(DaemonSetDetail {
        rollout: rollout.clone(),
        overview,
        zones: zones.map(|it| nodes_by_zone(snapshot, it)).unwrap_or_default(),
        groups: explanation.as_ref().map(|it| it.groups.clone()).unwrap_or_default(),
        guarded: GuardedRollout::of_snapshot(snapshot, key).map(|rollout| GuardedRollout {
            nodes: RolloutNodes::of(snapshot, key, now, false),
            ..rollout
        }),
        course: Course::of(snapshot, key, now),
        events: events(snapshot, key, now, EVENTS_MAX),
        notes,
    })
}
