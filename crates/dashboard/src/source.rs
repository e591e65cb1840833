//! The content of the pages, and the actions of people on them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use everynode_core::api::{DaemonSetKey, NodeName, Timestamp};
use everynode_insight::course::Course;
use everynode_insight::events::EventLine;
use everynode_insight::explain::{NodeExplanation, NodeGroup};
use everynode_insight::guarded::GuardedRollout;
use everynode_insight::history::RevisionEntry;
use everynode_insight::overview::{NamedZone, Overview};
use everynode_insight::revision_diff::RevisionDiff;
use everynode_insight::rollout::Rollout;
use serde_json::Value;
use tokio::sync::watch;

/// Where the pages get their content, and who carries out their actions.
pub trait Source: Send + Sync + 'static {
    /// The context and the server.
    fn cluster(&self) -> &str;

    /// All DaemonSets. They are read as long as somebody holds the receiver, and a while longer.
    fn daemon_sets(&self) -> watch::Receiver<Reading<DaemonSets>>;

    /// One DaemonSet, read as [`daemon_sets`](Self::daemon_sets).
    fn daemon_set(&self, key: &DaemonSetKey) -> watch::Receiver<Reading<DaemonSetDetail>>;

    /// One node, read as [`daemon_sets`](Self::daemon_sets).
    fn node(&self, name: &NodeName) -> watch::Receiver<Reading<NodeDetail>>;

    /// The names of all nodes, as of a moment ago; none if they can't be read.
    fn node_names(&self) -> impl Future<Output = Arc<Vec<String>>> + Send;

    /// The revisions of a DaemonSet.
    ///
    /// # Errors
    /// A message, if they can't be read.
    fn revisions(
        &self,
        key: &DaemonSetKey,
    ) -> impl Future<Output = Result<Revisions, String>> + Send;

    /// The effects that an action would have now.
    ///
    /// # Errors
    /// A message, if it would have no effect, or that can't be found out.
    fn prepare(
        &self,
        key: &DaemonSetKey,
        action: Action,
    ) -> impl Future<Output = Result<Prepared, String>> + Send;

    /// Carries out an action, if it still does what [`prepare`](Self::prepare) said: `basis` is
    /// [`Prepared::basis`].
    ///
    /// # Errors
    /// A message, if it is not carried out.
    fn perform(
        &self,
        key: &DaemonSetKey,
        action: Action,
        basis: &str,
    ) -> impl Future<Output = Result<Done, String>> + Send;
}

/// The latest state of something that is read all the time.
#[derive(Debug)]
pub struct Reading<T> {
    /// The content that was read last.
    pub content: Content<T>,
    /// The connection to the cluster, if it is lost.
    pub lost: Option<LostConnection>,
}

/// The content that was read last.
#[derive(Debug)]
pub enum Content<T> {
    /// It has not been read yet.
    Loading,
    /// It exists.
    Loaded(Arc<T>),
    /// It does not exist, or can't be read; with the reason.
    Missing(String),
}

impl<T> Clone for Content<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Loading => Self::Loading,
            Self::Loaded(content) => Self::Loaded(content.clone()),
            Self::Missing(why) => Self::Missing(why.clone()),
        }
    }
}

/// A lost connection, which is being retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostConnection {
    /// The age of the content.
    pub seconds: u64,
    /// The error.
    pub cause: String,
}

/// All DaemonSets.
#[derive(Debug)]
pub struct DaemonSets {
    /// Which ones: `all namespaces`, or a namespace.
    pub scope: String,
    /// Their rollouts, stuck ones first.
    pub rollouts: Vec<Rollout>,
    /// Problems of objects, and missing permissions.
    pub notes: Vec<String>,
}

/// One DaemonSet at one moment.
#[derive(Debug)]
pub struct DaemonSetDetail {
    /// Its rollout, as `everynode status` reports it.
    pub rollout: Rollout,
    /// Its overview, as `everynode watch` shows it.
    pub overview: Overview,
    /// Its nodes by reason, as `everynode explain` lists them.
    pub groups: Vec<NodeGroup>,
    /// Its nodes by zone.
    pub zones: Vec<NamedZone>,
    /// The steps of its policy; `None` if no policy guards it.
    pub guarded: Option<GuardedRollout>,
    /// The course of its rollout so far; `None` without a pod of the current revision.
    pub course: Option<Course>,
    /// Events about it and warnings about its pods, the latest first.
    pub events: Vec<EventLine>,
    /// Missing permissions, and problems of the DaemonSet.
    pub notes: Vec<String>,
}

/// One node at one moment.
#[derive(Debug)]
pub struct NodeDetail {
    /// Its name.
    pub name: NodeName,
    /// The state of each DaemonSet there, the worst first, as `everynode explain --node` states it.
    pub daemon_sets: Vec<NodeExplanation>,
    /// DaemonSets that are still being read.
    pub pending: Vec<DaemonSetKey>,
    /// Missing permissions, and objects that could not be read.
    pub notes: Vec<String>,
}

/// The revisions of a DaemonSet.
#[derive(Debug)]
pub struct Revisions {
    /// Its revisions, oldest first.
    pub entries: Vec<RevisionEntry>,
    /// Its current template.
    pub template: Value,
    /// When they were read.
    pub read_at: Timestamp,
}

/// An action of a person on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Replace no more pods.
    Pause,
    /// Replace pods again.
    Resume,
    /// Approve the wave that a guarded rollout is at.
    Approve,
    /// Go on to the next wave.
    Promote,
    /// Go on to all nodes.
    PromoteFull,
    /// End a guarded rollout as failed.
    Abort,
    /// Begin a failed rollout again.
    Retry,
    /// Roll back to a revision, or to the previous one.
    Undo(Option<i64>),
    /// Replace all pods.
    Restart,
}

impl Action {
    /// The words of the command that does the same: `rollout approve`.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Pause => "rollout pause",
            Self::Resume => "rollout resume",
            Self::Approve => "rollout approve",
            Self::Promote => "rollout promote",
            Self::PromoteFull => "rollout promote --full",
            Self::Abort => "rollout abort",
            Self::Retry => "rollout retry",
            Self::Undo(_) => "undo",
            Self::Restart => "restart",
        }
    }

    /// The label of its button.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Pause => "Pause",
            Self::Resume => "Resume",
            Self::Approve => "Approve",
            Self::Promote => "Promote",
            Self::PromoteFull => "Promote to all nodes",
            Self::Abort => "Abort",
            Self::Retry => "Retry",
            Self::Undo(_) => "Roll back",
            Self::Restart => "Restart",
        }
    }
}

impl fmt::Display for Action {
    /// Its name in the path of a page; [`FromStr`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause => f.write_str("pause"),
            Self::Resume => f.write_str("resume"),
            Self::Approve => f.write_str("approve"),
            Self::Promote => f.write_str("promote"),
            Self::PromoteFull => f.write_str("promote-full"),
            Self::Abort => f.write_str("abort"),
            Self::Retry => f.write_str("retry"),
            Self::Undo(None) => f.write_str("undo"),
            Self::Undo(Some(revision)) => write!(f, "undo-{revision}"),
            Self::Restart => f.write_str("restart"),
        }
    }
}

/// There is no such action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAction;

impl FromStr for Action {
    type Err = UnknownAction;

    fn from_str(name: &str) -> Result<Self, UnknownAction> {
        Ok(match name {
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "approve" => Self::Approve,
            "promote" => Self::Promote,
            "promote-full" => Self::PromoteFull,
            "abort" => Self::Abort,
            "retry" => Self::Retry,
            "undo" => Self::Undo(None),
            "restart" => Self::Restart,
            other => match other.strip_prefix("undo-").and_then(|number| number.parse().ok()) {
                Some(revision) => Self::Undo(Some(revision)),
                None => return Err(UnknownAction),
            },
        })
    }
}

/// The effects that an action would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The effects, in sentences.
    pub effects: Vec<String>,
    /// The fields of the template that it changes; `None` if it changes none.
    pub diff: Option<RevisionDiff>,
    /// The state on which the action depends: it is not carried out if that is another by then.
    pub basis: String,
}

/// The effect of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The message of the command.
    pub message: String,
    /// Remarks: no controller has acknowledged it, warnings of the server.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_has_the_name_that_is_read() {
        for action in [
            Action::Pause,
            Action::Resume,
            Action::Approve,
            Action::Promote,
            Action::PromoteFull,
            Action::Abort,
            Action::Retry,
            Action::Undo(None),
            Action::Undo(Some(3)),
            Action::Restart,
        ] {
            assert_eq!(action.to_string().parse(), Ok(action));
        }
        for unknown in ["", "delete", "undo-", "undo-x", "Pause"] {
            assert_eq!(unknown.parse::<Action>(), Err(UnknownAction), "{unknown}");
        }
    }
}
