//! The stage of a rollout, which its record and its policy decide (G6, G7, G11, G15), by the text
//! of the rules.

use everynode_core::api::Timestamp;

use crate::role::Role;

use super::history::History;
use super::model::{DaemonSet, Phase, Policy, PolicySource, Record, Revision};

/// The stage of a rollout: what its record and its policy allow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage<'a> {
    /// Nothing guards the rollout (G2).
    Unguarded,
    /// Beside the built-in controller, which rolls out by itself (G18).
    NotGuarded,
    /// The annotation pauses it, and there is no policy (G6).
    Paused,
    /// The policy is invalid, or was removed before the end of the rollout, or its record cannot be
    /// read (G7, G43, G44).
    Halted { has_failed: bool },
    /// A policy guards it, and it has not begun by its steps (G9, G38).
    Pending,
    /// The rollout is where its record says.
    Moving(&'a Record),
    /// It has failed (G15).
    Failed { goes_back: bool },
}

/// Which pods are replaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Movement {
    /// True if nodes that have the target get the base; otherwise open nodes get the target.
    pub goes_back: bool,
    /// True if any pod is replaced for its revision.
    pub replaces: bool,
}

/// Which pods a rollout wants on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Target,
    /// Those that are there: none is replaced.
    Kept,
    Base,
}

impl<'a> Stage<'a> {
    /// The stage by this clock.
    pub(super) fn of(
        role: Role,
        ds: &DaemonSet,
        (current, old): (&[&'a Revision], &[&'a Revision]),
        clock: Timestamp,
        history: &History,
    ) -> Self {
        match role {
            Role::BuiltIn => return Self::Unguarded,
            Role::Beside if !ds.is_on_delete => return Self::NotGuarded,
            Role::Beside | Role::Controller => {}
        }
        let record = current.last().and_then(|current| current.record.as_ref());
        let has_failed = record.is_some_and(|record| record.phase == Phase::Failed);
        let unguarded = if ds.has_pause { Self::Paused } else { Self::Unguarded };
        if current.last().is_some_and(|current| current.has_unreadable_record) {
            return Self::Halted { has_failed: false };
        }
        let is_promoted = record.is_some_and(Record::is_promoted_in_full);
        match &ds.policy {
            PolicySource::None | PolicySource::Invalid if is_promoted => unguarded,
            // Whoever aborts does not wait for a policy.
            PolicySource::None | PolicySource::Invalid
                if record.is_some_and(|it| it.reason.as_deref() == Some("Aborted")) =>
            {
                Self::Failed { goes_back: true }
            }
            PolicySource::None => match record {
                Some(record) if has_failed || record.is_under_way() => Self::Halted { has_failed },
                Some(_) | None => unguarded,
            },
            PolicySource::Invalid => Self::Halted { has_failed },
            // The record of the replaced template comes first (G11).
            PolicySource::Valid(_)
                if old.iter().any(|old| old.is_recorded(Record::is_under_way)) =>
            {
                Self::Pending
            }
            PolicySource::Valid(policy) => match record {
                Some(record) if has_failed => Self::failed(record, policy, clock),
                Some(record) if record.phase == Phase::Complete => {
                    let was_replaced = |old: &&Revision| {
                        let other = old.record.as_ref();
                        other.is_some_and(|other| {
                            other.phase == Phase::Complete && other.since > record.since
                        })
                    };
                    let is_base = !old.iter().any(was_replaced);
                    if is_base { Self::Moving(record) } else { Self::Pending }
                }
                Some(record)
                    if record.is_promoted_in_full()
                        || record.has_begun() && history.is_of_steps(record, policy) =>
                {
                    Self::Moving(record)
                }
                Some(_) | None => Self::Pending,
            },
        }
    }

    /// After a failure nodes go back at once, later, or not at all (G15).
    fn failed(record: &Record, policy: &Policy, clock: Timestamp) -> Self {
        let after_ms = match record.reason.as_deref() {
            Some("Aborted") => Some(0),
            _ => policy.failure.as_ref().and_then(|rule| rule.rollback_after_ms),
        };
        let goes_back = after_ms.is_some_and(|after_ms| record.since.0 + after_ms <= clock.0);
        Self::Failed { goes_back }
    }

    /// Which pods are replaced; `None` if the target governs all nodes. Beside the built-in
    /// controller nodes go back with the template only (G20).
    pub(super) fn movement(&self, role: Role, is_paused: bool) -> Option<Movement> {
        let (goes_back, replaces) = match self {
            Self::Unguarded => return None,
            Self::NotGuarded | Self::Paused | Self::Pending | Self::Failed { goes_back: false } => {
                (false, false)
            }
            Self::Halted { .. } | Self::Failed { .. } if role == Role::Beside => (false, false),
            Self::Halted { has_failed } => (*has_failed, false),
            Self::Moving(_) => (false, !is_paused),
            Self::Failed { goes_back: true } => (true, !is_paused),
        };
        Some(Movement { goes_back, replaces })
    }
}
