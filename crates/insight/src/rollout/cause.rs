//! Why a node holds up the rollout: each cause with its text and its gravity.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::situation::Situation;
use crate::snapshot::PodState;

/// Why a node holds up the rollout. Its JSON form is the displayed text, which has no times and no
/// [message](Self::message), so that nodes with the same cause form a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kubelet reports an error.
    Failing(PodState),
    /// The scheduler finds no room for the pod on its node.
    Unschedulable {
        /// The scheduler's message about that node.
        reason: String,
        /// What the pod asks for and what the node has, or who holds it; the scheduler's whole
        /// message if neither is known.
        detail: String,
    },
    /// No scheduler has tried the pod.
    AwaitsScheduler {
        /// `spec.schedulerName`, unless it is the default scheduler.
        scheduler: Option<String>,
        /// Whether that has lasted longer than [`PROGRESS_DEADLINE`](super::PROGRESS_DEADLINE).
        stuck: bool,
    },
    /// The API server refuses the pod, or admission changes it so that it does not count.
    CreationFails {
        /// What the API server says.
        message: String,
        /// Whether it has refused it for some seconds.
        stuck: bool,
    },
    /// The pod is being created, or is not ready yet.
    Starting {
        /// The pod's state.
        state: PodState,
        /// The last warning about the pod.
        warning: Option<Warning>,
        /// Whether that has lasted longer than [`PROGRESS_DEADLINE`](super::PROGRESS_DEADLINE).
        stuck: bool,
    },
    /// The pod is being deleted.
    Terminating {
        /// The finalizers without which the pod would be gone.
        finalizers: Vec<String>,
        /// The last warning about the pod.
        warning: Option<Warning>,
        /// Whether the pod should have been gone for
        /// [`PROGRESS_DEADLINE`](super::PROGRESS_DEADLINE).
        stuck: bool,
    },
    /// The pod's node is not ready.
    NodeNotReady {
        /// Whether the pod is being deleted: only the node can report that it has ended.
        terminating: bool,
        /// The message of the node's condition `Ready`.
        message: String,
        /// Whether that is known to have lasted longer than
        /// [`PROGRESS_DEADLINE`](super::PROGRESS_DEADLINE).
        long: bool,
        /// Whether it may have lasted as long.
        stuck: bool,
    },
    /// The node has no pod yet.
    NotCreated {
        /// Whether that has lasted longer than [`PROGRESS_DEADLINE`](super::PROGRESS_DEADLINE).
        stuck: bool,
    },
    /// The pod is ready, but not yet for `minReadySeconds`.
    NotYetAvailable {
        /// `spec.minReadySeconds` of the DaemonSet.
        min_ready_seconds: u32,
    },
    /// The pod is of an older revision, and the update strategy will replace it.
    AwaitsReplacement {
        /// Whether nothing has kept the controller from it for longer than
        /// [`PROGRESS_DEADLINE`](super::PROGRESS_DEADLINE).
        stuck: bool,
    },
    /// The pod is of an older revision, and the rollout is paused (G6).
    Paused,
    /// The pod is of an older revision, and its wave of a guarded rollout is not open (G1).
    WaveNotOpen,
    /// The pod is of an older revision, and the policy excludes its node from rollouts (G5).
    Held,
    /// The pod is of an older revision, and the rollout waits for a window of its policy (G5).
    OutsideWindow {
        /// What the controller states.
        message: String,
    },
    /// The pod is of an older revision, and somebody has to delete it.
    AwaitsDeletion,
}

/// The last warning that a component has recorded about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The reason, such as `FailedMount`.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl Cause {
    /// Whether the node does not recover without intervention, as far as one can tell.
    pub const fn is_stuck(&self) -> bool {
        match self {
            Self::Failing(_) | Self::Unschedulable { .. } => true,
            Self::CreationFails { stuck, .. }
            | Self::AwaitsScheduler { stuck, .. }
            | Self::Starting { stuck, .. }
            | Self::Terminating { stuck, .. }
            | Self::NodeNotReady { stuck, .. }
            | Self::NotCreated { stuck }
            | Self::AwaitsReplacement { stuck } => *stuck,
            Self::NotYetAvailable { .. }
            | Self::Paused
            | Self::WaveNotOpen
            | Self::Held
            | Self::OutsideWindow { .. }
            | Self::AwaitsDeletion => false,
        }
    }

    /// Whether it matters of a pod of an older revision, too: such a pod is replaced first of all
    /// if it fails, but not if it does not end, or if the controller does nothing.
    pub(super) const fn outlasts_replacement(&self) -> bool {
        match self {
            Self::AwaitsReplacement { .. } | Self::Terminating { .. } => true,
            Self::NodeNotReady { terminating, .. } => *terminating,
            Self::Failing(_)
            | Self::Unschedulable { .. }
            | Self::AwaitsScheduler { .. }
            | Self::CreationFails { .. }
            | Self::Starting { .. }
            | Self::NotCreated { .. }
            | Self::NotYetAvailable { .. }
            | Self::Paused
            | Self::WaveNotOpen
            | Self::Held
            | Self::OutsideWindow { .. }
            | Self::AwaitsDeletion => false,
        }
    }

    /// The situation of a node that is held up by this cause.
    pub const fn situation(&self) -> Situation {
        match self {
            Self::Unschedulable { .. } => Situation::Unschedulable,
            Self::Failing(_) => Situation::Failing,
            Self::CreationFails { stuck: true, .. } | Self::NotCreated { stuck: true } => {
                Situation::NotCreated
            }
            Self::Starting { stuck: true, .. }
            | Self::AwaitsScheduler { stuck: true, .. }
            | Self::Terminating { stuck: true, .. }
            | Self::AwaitsReplacement { stuck: true } => Situation::Stuck,
            Self::NodeNotReady { .. } => Situation::NodeNotReady,
            Self::CreationFails { stuck: false, .. } | Self::NotCreated { stuck: false } => {
                Situation::Missing
            }
            Self::Starting { stuck: false, .. } | Self::AwaitsScheduler { stuck: false, .. } => {
                Situation::NotReady
            }
            Self::NotYetAvailable { .. } => Situation::NotYetAvailable,
            Self::Terminating { stuck: false, .. } => Situation::Terminating,
            Self::AwaitsReplacement { stuck: false }
            | Self::Paused
            | Self::WaveNotOpen
            | Self::Held
            | Self::OutsideWindow { .. }
            | Self::AwaitsDeletion => Situation::Outdated,
        }
    }

    /// What a component has said about it, or the numbers behind it.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::CreationFails { message, .. } | Self::OutsideWindow { message } => Some(message),
            Self::Unschedulable { detail: message, .. } | Self::NodeNotReady { message, .. } => {
                Some(message).filter(|message| !message.is_empty()).map(String::as_str)
            }
            Self::Starting { warning, .. } | Self::Terminating { warning, .. } => {
                warning.as_ref().map(|warning| warning.message.as_str())
            }
            Self::Failing(state) => state.message(),
            Self::AwaitsScheduler { .. }
            | Self::NotCreated { .. }
            | Self::NotYetAvailable { .. }
            | Self::AwaitsReplacement { .. }
            | Self::Paused
            | Self::WaveNotOpen
            | Self::Held
            | Self::AwaitsDeletion => None,
        }
    }

    /// Whether the node waits for its turn, so that other nodes hold up the rollout.
    pub(super) const fn is_turn(&self) -> bool {
        match self {
            Self::AwaitsReplacement { stuck: false }
            | Self::Paused
            | Self::WaveNotOpen
            | Self::Held
            | Self::OutsideWindow { .. }
            | Self::AwaitsDeletion => true,
            Self::Failing(_)
            | Self::Unschedulable { .. }
            | Self::AwaitsScheduler { .. }
            | Self::CreationFails { .. }
            | Self::Starting { .. }
            | Self::Terminating { .. }
            | Self::NodeNotReady { .. }
            | Self::NotCreated { .. }
            | Self::NotYetAvailable { .. }
            | Self::AwaitsReplacement { stuck: true } => false,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failing(state) => state.fmt(f),
            Self::Unschedulable { reason, .. } => write!(f, "can't be scheduled: {reason}"),
            Self::AwaitsScheduler { scheduler, stuck } => {
                match scheduler {
                    None => f.write_str("waiting for the scheduler")?,
                    Some(name) => write!(f, "waiting for the scheduler {name}")?,
                }
                f.write_str(duration(*stuck))
            }
            Self::CreationFails { .. } => f.write_str("can't be created"),
            Self::Starting { state, warning, stuck } => {
                write!(f, "{state}{}", duration(*stuck))?;
                write_warning(f, warning.as_ref())
            }
            Self::Terminating { finalizers, warning, stuck } => {
                write!(f, "terminating{}", duration(*stuck))?;
                if !finalizers.is_empty() {
                    write!(f, ", finalizers: {}", finalizers.join(", "))?;
                }
                write_warning(f, warning.as_ref())
            }
            Self::NodeNotReady { terminating, long, .. } => {
                write!(f, "node not ready{}", duration(*long))?;
                if *terminating { f.write_str(", its pod can't stop") } else { Ok(()) }
            }
            Self::NotCreated { stuck } => write!(f, "not created{}", duration(*stuck)),
            Self::NotYetAvailable { min_ready_seconds } => {
                write!(f, "ready for less than {min_ready_seconds} s (minReadySeconds)")
            }
            Self::AwaitsReplacement { stuck: false } => {
                f.write_str("older revision, waiting to be replaced")
            }
            Self::AwaitsReplacement { stuck: true } => {
                write!(f, "older revision, not replaced{}", duration(true))
            }
            Self::Paused => f.write_str("older revision, kept while the rollout is paused"),
            Self::WaveNotOpen => f.write_str("older revision, its wave is not open"),
            Self::Held => f.write_str("older revision, the rollout policy holds its node"),
            Self::OutsideWindow { .. } => {
                f.write_str("older revision, kept until a window of the rollout opens")
            }
            Self::AwaitsDeletion => {
                f.write_str("older revision, to be deleted manually (OnDelete)")
            }
        }
    }
}

/// How long something has lasted that has lasted too long.
const fn duration(stuck: bool) -> &'static str {
    if stuck { " for more than 10 min" } else { "" }
}

fn write_warning(f: &mut fmt::Formatter<'_>, warning: Option<&Warning>) -> fmt::Result {
    warning.map_or(Ok(()), |warning| write!(f, " ({})", warning.reason))
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The part of the scheduler's message that concerns the one node that the pod may run on: of `0/3
/// nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. …`
/// it is `Insufficient cpu`.
pub(super) fn scheduler_reason(message: &str) -> String {
    let Some((_, clauses)) = message.split_once(": ") else { return message.to_owned() };
    // The rest is about preemption, which an operator can do nothing with.
    let clauses = clauses.split_once(". ").map_or(clauses, |(clauses, _)| clauses);
    let clauses = clauses.trim_end_matches('.');
    let reasons: Vec<&str> = clauses
        .split(", ")
        .map(|clause| clause.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '))
        .filter(|clause| !clause.contains("node affinity") && !clause.contains("[NodeAffinity]"))
        .collect();
    if reasons.is_empty() { clauses.to_owned() } else { reasons.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_message_is_reduced_to_the_pods_own_node() {
        for (message, expected) in [
            (
                "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) \
                 [NodeAffinity]. preemption: 0/3 nodes are available: 1 No preemption \
                 victims found.",
                "Insufficient cpu",
            ),
            (
                "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) \
                 [NodeAffinity]. no new claims to deallocate, preemption: 0/3 nodes are \
                 available: 3 Preemption is not helpful for scheduling.",
                "Insufficient cpu",
            ),
            (
                "0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod \
                 ports, 1 node(s) didn't match Pod's node affinity/selector.",
                "node(s) didn't have free ports for the requested pod ports",
            ),
            (
                "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no \
                 new claims to deallocate, preemption: no victims.",
                "1 node(s) didn't match Pod's node affinity/selector",
            ),
            ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ] {
            assert_eq!(scheduler_reason(message), expected);
        }
    }
}
