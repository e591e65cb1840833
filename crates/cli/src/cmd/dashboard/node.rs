//! One node: what each DaemonSet does there.
//!
//! The node, its pods and all DaemonSets are watched. Whether a node of a rollout under way is next
//! depends on the other nodes, so such a DaemonSet is read as for its own page.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{DaemonSetKey, NodeName, Timestamp};
use everynode_dashboard::source::{Content, DaemonSetDetail, LostConnection, NodeDetail, Reading};
use everynode_insight::explain::{NodeExplanation, NodeRemark, explain_node};
use everynode_insight::rollout::{Phase, Rollout};
use everynode_insight::snapshot::ObjectKind;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use super::Pages;
use crate::clock;
use crate::cluster::{Selection, Update, Watcher};
use crate::cmd::watch::FRAME_INTERVAL;

/// The maximum number of DaemonSets that are read because they are not rolled out.
const FOLLOWED_MAX: usize = 20;
/// Ages are out of date after this many frames.
const FRAMES_MAX: u32 = 8;

type DaemonSetReceiver = watch::Receiver<Reading<DaemonSetDetail>>;

/// Watches the node.
pub(super) async fn follow(
    pages: Arc<Pages>,
    name: NodeName,
    sender: watch::Sender<Reading<NodeDetail>>,
) {
    let all = Selection::all;
    let in_scope = || match pages.scope.namespace() {
        Some(namespace) => Selection::in_namespace(namespace),
        None => Selection::all(),
    };
    let mut node = FollowedNode {
        watcher: pages.cluster.watch([
            (ObjectKind::DaemonSet, pages.scope.clone()),
            (ObjectKind::Node, all().named(name.as_str())),
            (ObjectKind::Pod, in_scope().on_node(&name)),
            (ObjectKind::ControllerRevision, in_scope()),
            (ObjectKind::Namespace, all()),
            (ObjectKind::RolloutPolicy, in_scope()),
            (ObjectKind::ClusterRolloutPolicy, all()),
        ]),
        name,
        forbidden: Vec::new(),
        lost: None,
        updated_at: Instant::now(),
        followed: BTreeMap::new(),
    };
    let mut frames = tokio::time::interval(FRAME_INTERVAL);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut idle_frames = FRAMES_MAX;
    loop {
        tokio::select! {
            update = node.watcher.next() => {
                node.handle(update);
                idle_frames = FRAMES_MAX;
            }
            _ = frames.tick() => {
                idle_frames += 1;
                if idle_frames > FRAMES_MAX || node.has_followed_changed() {
                    idle_frames = 0;
                    node.publish(&pages, &sender);
                }
            }
        }
    }
}

struct FollowedNode {
    name: NodeName,
    watcher: Watcher,
    /// Messages about missing permissions.
    forbidden: Vec<String>,
    /// The error of the last connection attempt, if the connection is lost.
    lost: Option<String>,
    updated_at: Instant,
    /// The DaemonSets that are not rolled out.
    followed: BTreeMap<DaemonSetKey, DaemonSetReceiver>,
}

impl FollowedNode {
    fn handle(&mut self, update: Update) {
        match update {
            Update::Changed | Update::Reconnected => {
                self.updated_at = Instant::now();
                if !self.watcher.is_disconnected() {
                    self.lost = None;
                }
            }
            Update::Forbidden(_, error) => self.forbidden.push(error.to_string()),
            Update::ConnectionLost(error) => self.lost = Some(error.to_string()),
        }
    }

    fn has_followed_changed(&self) -> bool {
        self.followed.values().any(|receiver| receiver.has_changed().unwrap_or(false))
    }

    fn publish(&mut self, pages: &Arc<Pages>, sender: &watch::Sender<Reading<NodeDetail>>) {
        let lost = self.lost.as_ref().map(|cause| LostConnection {
            seconds: self.updated_at.elapsed().as_secs(),
            cause: cause.clone(),
        });
        let snapshot = &self.watcher.snapshot;
        if !self.watcher.is_complete() {
            if let (Some(lost), Content::Loading) = (&lost, &sender.borrow().content) {
                let missing = Content::Missing(format!("not read yet: {}", lost.cause));
                drop(sender.send_replace(Reading { content: missing, lost: None }));
            }
            return;
        }
        let content = if snapshot.unread.contains(&ObjectKind::Node) {
            Content::Missing(self.forbidden.join("; "))
        } else if snapshot.nodes.contains_key(&self.name) {
            self.follow_unfinished(pages, clock::now());
            Content::Loaded(Arc::new(self.detail(clock::now())))
        } else {
            Content::Missing(format!("there is no node {}", self.name))
        };
        sender.send_replace(Reading { content, lost });
    }

    /// Reads those DaemonSets whole that are not rolled out.
    fn follow_unfinished(&mut self, pages: &Arc<Pages>, now: Timestamp) {
        let snapshot = &self.watcher.snapshot;
        let is_unfinished = |key: &DaemonSetKey| {
            Rollout::of(snapshot, key, now).is_some_and(|it| it.phase != Phase::Done)
        };
        let keys = snapshot.daemon_sets.keys().filter(|key| is_unfinished(key));
        let keys: Vec<DaemonSetKey> = keys.take(FOLLOWED_MAX).cloned().collect();
        self.followed.retain(|key, _| keys.contains(key));
        for key in keys {
            let open = || Pages::daemon_set(pages, &key);
            self.followed.entry(key.clone()).or_insert_with(open);
        }
    }

    fn detail(&mut self, now: Timestamp) -> NodeDetail {
        let snapshot = &self.watcher.snapshot;
        let (mut daemon_sets, mut pending) = (Vec::new(), Vec::new());
        for key in snapshot.daemon_sets.keys() {
            let Some(explanation) = explain_node(snapshot, key, &self.name, now) else { continue };
            match self.followed.get_mut(key) {
                None => daemon_sets.push(explanation),
                Some(receiver) => match &receiver.borrow_and_update().content {
                    Content::Loading => pending.push(key.clone()),
                    Content::Loaded(detail) => daemon_sets.push(with_others(explanation, detail)),
                    Content::Missing(_) => daemon_sets.push(explanation),
                },
            }
        }
        daemon_sets.sort_by_key(|explanation| explanation.situation);
        let notes = self.forbidden.iter().chain(&snapshot.problems).cloned().collect();
        NodeDetail { name: self.name.clone(), daemon_sets, pending, notes }
    }
}

/// The explanation of a node with the answer that takes the other nodes into account.
fn with_others(explanation: NodeExplanation, detail: &DaemonSetDetail) -> NodeExplanation {
    let answer = detail.groups.iter().find_map(|group| {
        let at = group.nodes.iter().position(|node| *node == explanation.node)?;
        Some((group, group.remarks.get(at)?))
    });
    match answer {
        None => explanation,
        Some((group, NodeRemark { detail, next })) => NodeExplanation {
            situation: group.situation,
            why: group.why.clone(),
            detail: detail.clone(),
            next: next.clone(),
            ..explanation
        },
    }
}
