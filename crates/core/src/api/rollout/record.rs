//! The state of a guarded rollout, which is stored on the ControllerRevision of the template that
//! is rolled out (G8), and the orders that people give (G10).

use std::fmt;
use std::sync::Arc;

use crate::api::{NodeName, PodName, PodTrouble, RevisionHash, Timestamp};

use super::check::plain;
use super::course::{Attribution, Course, CourseEventKind};
use super::wave_name::WaveName;

/// The annotation of a ControllerRevision that holds the [`RolloutRecord`] as JSON (G8).
pub const RECORD_ANNOTATION: &str = "everynode.dev/rollout";
/// The annotation of a DaemonSet that holds an [`Order`] (G10).
pub const ORDER_ANNOTATION: &str = "everynode.dev/order";
/// The annotation of a DaemonSet that states who gave the [`Order`], and why, as JSON (G49).
pub const ORDER_REASON_ANNOTATION: &str = "everynode.dev/order-reason";
/// The annotation of a DaemonSet that states the same of its pause, or of the end of one (G49).
pub const PAUSE_REASON_ANNOTATION: &str = "everynode.dev/pause-reason";

/// The state of the rollout of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutRecord {
    /// The phase of the rollout, as far as that is stored.
    pub phase: RolloutPhase,
    /// How far it is.
    pub position: Position,
    /// When the attempt began, by the wall clock.
    pub began: Timestamp,
    /// When the phase began, by the wall clock.
    pub since: Timestamp,
    /// The waves that were approved.
    pub approvals: Vec<WaveName>,
    /// The policy's [`steps_hash`](super::RolloutPolicy::steps_hash) that the position refers to.
    pub steps_hash: Arc<str>,
    /// The text of the order that was carried out last.
    pub order: Option<Arc<str>>,
    /// Why the record is what it is, unless the policy alone led to it.
    pub reason: Option<RecordReason>,
    /// True if the template of this failed attempt was replaced with that of the base (G20).
    pub is_rolled_back: bool,
    /// The revision with the same template that was complete before, if its overrides are others
    /// (G57). Once it is not stored any more, nothing is gone back to.
    pub base: Option<RevisionHash>,
    /// The events so far, also of earlier attempts (G49).
    pub course: Course,
}

impl RolloutRecord {
    /// True if the rollout has begun and has yet to end.
    pub fn has_begun(&self) -> bool {
        self.phase.is_under_way() && self.phase != RolloutPhase::Pending
    }

    /// When the first attempt began, by the wall clock; the epoch if the course is too long to tell
    /// that.
    pub(crate) fn first_began(&self) -> Timestamp {
        match (self.course.omitted, self.course.events.first()) {
            (0, Some(first)) => self.began.min(first.at),
            (0, None) => self.began,
            _ => Timestamp::from_seconds(0),
        }
    }

    /// True if the rollout goes to all nodes because somebody has promoted it so, and has yet to
    /// end: it needs no policy (G43).
    pub fn is_promoted_in_full(&self) -> bool {
        self.has_begun() && self.reason == Some(RecordReason::PromotedInFull)
    }

    /// True if the last attempt was complete, or the revision was in use. One that waits to be
    /// rolled out again is `Pending`, and only the course tells.
    pub fn was_complete(&self) -> bool {
        let last = self.course.events.last().map(|event| event.kind);
        let ended = [CourseEventKind::Completed, CourseEventKind::Adopted].map(Some);
        self.phase == RolloutPhase::Complete
            || self.phase == RolloutPhase::Pending && ended.contains(&last)
    }

    /// True if the rollout was complete before this attempt, or the revision was in use.
    pub fn was_complete_before(&self) -> bool {
        let events = self.course.events.iter().map(|event| event.kind);
        let completed = events.clone().filter(|kind| *kind == CourseEventKind::Completed).count();
        let own = usize::from(self.phase == RolloutPhase::Complete);
        completed > own || events.clone().any(|kind| kind == CourseEventKind::Adopted)
    }

    /// True if somebody has promoted this attempt, in full or past a wave.
    pub const fn is_promoted(&self) -> bool {
        matches!(self.reason, Some(RecordReason::Promoted | RecordReason::PromotedInFull))
    }

    /// The attempt to roll out the revision with this hash, as
    /// [`ROLLED_BACK_ANNOTATION`](super::ROLLED_BACK_ANNOTATION) names it: the hash, and when the
    /// attempt began in seconds since 1970.
    pub fn attempt(&self, revision: &RevisionHash) -> String {
        format!("{revision} {}", self.began.as_millis().div_euclid(1000))
    }
}

/// The phases of a rollout (G11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutPhase {
    /// The template is known, and its first wave has not begun: no node is governed by it (G38).
    Pending,
    /// The nodes of the wave get the new template.
    Updating,
    /// All of them have it, and the wave's bake time or approval is awaited.
    Baking,
    /// All nodes have it: the revision is the base of later rollouts.
    Complete,
    /// The revision is not rolled out further.
    Failed,
    /// Another template came before the rollout was complete.
    Superseded,
}

/// Why a record is what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordReason {
    /// The revision was in use when a policy or a pause began to govern the DaemonSet (G37).
    Adopted,
    /// Somebody has aborted the rollout: nodes go back to the base.
    Aborted,
    /// Somebody has promoted the rollout past a wave.
    Promoted,
    /// Somebody has promoted the rollout to all nodes, without the policy's steps.
    PromotedInFull,
    /// More nodes have failed than the policy tolerates (G15).
    NodesFailed(FailedNodes),
    /// More nodes went down after they got the target than the policy tolerates (G15).
    NodesLost(FailedNodes),
    /// The rollout was done with no node for too long, and nodes are left (G15).
    NoProgress,
    /// A check has failed: which one, what it asked, and what was answered (G15).
    CheckFailed(Arc<str>),
}

/// Nodes by which a rollout has failed (G35).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedNodes {
    /// The first ones by their names, at most [`FAILED_NODES_MAX`].
    pub first: Vec<FailedNode>,
    /// The number of the others.
    pub more: usize,
}

/// A node by which a rollout has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedNode {
    /// The node.
    pub node: NodeName,
    /// Its pod of the target, if it has one.
    pub pod: Option<PodName>,
    /// The cause, as far as that is known.
    pub cause: FailureCause,
}

/// The cause by which a pod has failed a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The part that decisions know: the pod itself says more.
    Observed {
        /// Why a container waits.
        trouble: Option<PodTrouble>,
        /// The highest number of restarts of a container.
        restarts: u8,
    },
    /// The statement of its containers, on one line; empty if they state nothing.
    Stated(Arc<str>),
}

/// Maximum number of nodes that a record names.
pub const FAILED_NODES_MAX: usize = 10;
/// Maximum number of nodes that a message names.
pub(crate) const NAMED_NODES: usize = 3;
/// Maximum length of what a record states of a pod, in characters.
const CAUSE_LENGTH_MAX: usize = 160;

/// How far a rollout is: all waves before this one are complete.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Position {
    /// A wave of a step.
    Wave(WavePosition),
    /// After the last step: all nodes.
    AllNodes,
}

/// The wave of a step. Waves are ordered by step, then by group, then by size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WavePosition {
    /// The index of the step in the policy.
    pub step: usize,
    /// The group of nodes.
    pub group: GroupValue,
    /// The index of the size in the step's `upTo`.
    pub size: usize,
}

/// The value of a step's label that the nodes of a group have. Nodes without the label are the
/// last group; without `by`, all nodes of a step are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupValue {
    /// The nodes with this value.
    Value(Arc<str>),
    /// The nodes without the label.
    Unlabelled,
}

/// An order: the annotation `VERB HASH [WAVE] TIME` (G10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The verb.
    pub verb: OrderVerb,
    /// The revision that the order is about.
    pub revision: RevisionHash,
    /// The whole text, which is unique by its time.
    pub text: Arc<str>,
    /// Who gave it, and why (G49).
    pub attribution: Attribution,
}

/// The verbs of orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderVerb {
    /// Approve a wave.
    Approve(WaveName),
    /// Begin the wave after this one without waiting any longer.
    Promote(WaveName),
    /// Roll out to all nodes, whatever the steps say and whether the rollout failed.
    PromoteFull,
    /// End the rollout as failed, and go back to the base.
    Abort,
    /// Begin a new attempt after a failure.
    Retry,
}

/// The record of a revision, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecordState {
    /// It has none.
    #[default]
    None,
    /// It has one that cannot be read, for this reason: the rollout is held (G44).
    Malformed(Arc<str>),
    /// It has a copy of another revision's record, which has no effect (G44).
    Foreign,
    /// It has this complete record of a version that did not name the revision. Anybody who may
    /// change the DaemonSet may have made it, so only pods prove it (G44).
    Unproven(Arc<RolloutRecord>),
    /// It has this one.
    Stored(Arc<RolloutRecord>),
}

impl RolloutPhase {
    /// The name in the record and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Updating => "Updating",
            Self::Baking => "Baking",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::Superseded => "Superseded",
        }
    }

    /// True if all nodes have the template.
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Complete)
    }

    /// True if the rollout has yet to end.
    pub const fn is_under_way(self) -> bool {
        match self {
            Self::Pending | Self::Updating | Self::Baking => true,
            Self::Complete | Self::Failed | Self::Superseded => false,
        }
    }
}

impl RecordReason {
    /// The name in the record and in messages.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Adopted => "Adopted",
            Self::Aborted => "Aborted",
            Self::Promoted => "Promoted",
            Self::PromotedInFull => "PromotedInFull",
            Self::NodesFailed(_) => "NodesFailed",
            Self::NodesLost(_) => "NodesLost",
            Self::NoProgress => "NoProgress",
            Self::CheckFailed(_) => "CheckFailed",
        }
    }
}

impl RecordReason {
    /// The nodes by which the rollout has failed, if it has by nodes.
    pub const fn failed_nodes(&self) -> Option<&FailedNodes> {
        match self {
            Self::NodesFailed(nodes) | Self::NodesLost(nodes) => Some(nodes),
            Self::Adopted
            | Self::Aborted
            | Self::Promoted
            | Self::PromotedInFull
            | Self::NoProgress
            | Self::CheckFailed(_) => None,
        }
    }
}

impl fmt::Display for RecordReason {
    /// The name, and what there is to say: the check, or the first nodes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::CheckFailed(why) => write!(f, " {why}"),
            other => other.failed_nodes().map_or(Ok(()), |nodes| write!(f, " {nodes}")),
        }
    }
}

impl FailedNodes {
    /// Those of these nodes that a record names, and the number of the others.
    pub fn new(mut nodes: Vec<FailedNode>) -> Self {
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        let more = nodes.len().saturating_sub(FAILED_NODES_MAX);
        nodes.truncate(FAILED_NODES_MAX);
        Self { first: nodes, more }
    }

    /// The same nodes with nothing that changes with each restart of a container.
    pub(crate) fn without_causes(mut self) -> Self {
        for node in &mut self.first {
            node.cause = FailureCause::stated("");
        }
        self
    }
}

impl FailureCause {
    /// The statement of a pod's containers, in any form.
    pub fn stated(text: &str) -> Self {
        Self::Stated(plain(text, CAUSE_LENGTH_MAX))
    }
}

impl fmt::Display for FailedNodes {
    /// The first nodes with the causes, and the number of the others; nothing without nodes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.first.iter().take(NAMED_NODES);
        let mut nodes: Vec<_> = nodes.map(ToString::to_string).collect();
        let more = self.more + self.first.len() - nodes.len();
        nodes.extend((more > 0).then(|| format!("{more} more")));
        f.write_str(&nodes.join(", "))
    }
}

impl fmt::Display for FailedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = self.cause.to_string();
        match &*cause {
            "" => write!(f, "{}", self.node),
            cause => write!(f, "{} ({cause})", self.node),
        }
    }
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observed { trouble: Some(trouble), .. } => f.write_str(trouble.as_str()),
            Self::Observed { trouble: None, restarts: 0 } => Ok(()),
            Self::Observed { trouble: None, restarts: 1 } => f.write_str("1 restart"),
            Self::Observed { trouble: None, restarts } => write!(f, "{restarts} restarts"),
            Self::Stated(text) => f.write_str(text),
        }
    }
}

impl RecordState {
    /// The record, if there is one that counts.
    pub const fn stored(&self) -> Option<&Arc<RolloutRecord>> {
        match self {
            Self::None | Self::Malformed(_) | Self::Foreign | Self::Unproven(_) => None,
            Self::Stored(record) => Some(record),
        }
    }

    /// True if anything is known of a rollout of the revision, if only that its record cannot be
    /// read.
    pub const fn is_known(&self) -> bool {
        match self {
            Self::None | Self::Foreign | Self::Unproven(_) => false,
            Self::Malformed(_) | Self::Stored(_) => true,
        }
    }
}

impl fmt::Display for GroupValue {
    /// The parentheses cannot be part of a label's value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => f.write_str(value),
            Self::Unlabelled => f.write_str("(unlabelled)"),
        }
    }
}
