//! The course of a rollout: what happened, when, in which wave, and who ordered it and why (G49).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::api::Timestamp;

use super::check::one_line;
use super::wave_name::WaveName;

/// Maximum number of events that a record keeps.
const EVENTS_MAX: usize = 64;
/// Maximum length of the name of a user, in characters.
const USER_LENGTH_MAX: usize = 128;

/// Who did something, and why, as far as that is stated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The user, as the command that gave an order claims. `None` for the controller.
    pub user: Option<Arc<str>>,
    /// The person's reason for an order, or the cause of a failure.
    pub reason: Option<Arc<str>>,
}

/// The events of a rollout, in order; of too many, only some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// At most 64 events.
    pub events: Vec<CourseEvent>,
    /// The number of those that are left out.
    pub omitted: usize,
}

/// An event in the course of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CourseEvent {
    /// When it happened, by the wall clock of the controller.
    pub at: Timestamp,
    /// The kind of the event.
    pub kind: CourseEventKind,
    /// The wave that it is about; `None` if it is about all nodes or none.
    pub wave: Option<WaveName>,
    /// Who ordered it, and why.
    pub attribution: Attribution,
}

/// The kinds of events of a rollout. Records and documents have the names of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CourseEventKind {
    /// The revision was recorded as the one in use (G37).
    Adopted,
    /// The rollout began, at this wave.
    Begun,
    /// All nodes of the wave were updated.
    WaveUpdated,
    /// The wave before had passed, and this one began.
    WaveBegun,
    /// Somebody approved the wave.
    Approved,
    /// Somebody promoted the rollout past the wave.
    Promoted,
    /// Somebody promoted the rollout to all nodes.
    PromotedInFull,
    /// Somebody aborted the rollout: nodes began to go back.
    Aborted,
    /// Somebody had the rollout begin again.
    Retried,
    /// The rollout failed.
    Failed,
    /// The template was replaced with that of the base, beside the built-in controller.
    GoingBack,
    /// The rollout was complete.
    Completed,
    /// Another template came before.
    Superseded,
}

impl Attribution {
    /// Maximum length of a reason, in characters.
    pub const REASON_LENGTH_MAX: usize = 256;

    /// The two, each on one line and cut; those without text are not stated.
    pub fn new(user: &str, reason: &str) -> Self {
        let stated = |text, max| Some(one_line(text, max)).filter(|text| !text.is_empty());
        Self {
            user: stated(user, USER_LENGTH_MAX),
            reason: stated(reason, Self::REASON_LENGTH_MAX),
        }
    }
}

impl fmt::Display for Attribution {
    /// In parentheses, with a space before; nothing if nothing is stated.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.user, &self.reason) {
            (Some(user), Some(reason)) => write!(f, " ({user}, as claimed: {reason})"),
            (Some(user), None) => write!(f, " ({user}, as claimed)"),
            (None, Some(reason)) => write!(f, " ({reason})"),
            (None, None) => Ok(()),
        }
    }
}

impl Course {
    /// Appends an event. If there are too many, the oldest one about the progress of waves is left
    /// out: there are most of these, and nobody gave them as an order.
    pub fn push(&mut self, event: CourseEvent) {
        self.events.push(event);
        if self.events.len() > EVENTS_MAX {
            let oldest = self.events.iter().position(|event| event.kind.is_progress());
            self.events.remove(oldest.unwrap_or_default());
            self.omitted += 1;
        }
    }

    /// True if the attempt that has just begun is a retry, held before it began or not.
    pub fn begins_with_retry(&self) -> bool {
        let before = |kind: &CourseEventKind| *kind == CourseEventKind::Begun;
        let mut kinds = self.events.iter().rev().map(|event| event.kind).skip_while(before);
        kinds.next() == Some(CourseEventKind::Retried)
    }

    /// The order that was carried out last, if it is known.
    pub fn last_order(&self) -> Option<&CourseEvent> {
        self.events.iter().rev().find(|event| event.kind.is_order())
    }
}

impl CourseEventKind {
    /// True if somebody ordered it.
    pub const fn is_order(self) -> bool {
        match self {
            Self::Approved
            | Self::Promoted
            | Self::PromotedInFull
            | Self::Aborted
            | Self::Retried => true,
            Self::Adopted
            | Self::Begun
            | Self::WaveUpdated
            | Self::WaveBegun
            | Self::Failed
            | Self::GoingBack
            | Self::Completed
            | Self::Superseded => false,
        }
    }

    const fn is_progress(self) -> bool {
        matches!(self, Self::WaveUpdated | Self::WaveBegun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(second: i64, kind: CourseEventKind) -> CourseEvent {
        let at = Timestamp::from_seconds(second);
        CourseEvent { at, kind, wave: None, attribution: Attribution::default() }
    }

    /// G49: a course is bounded, and orders stay longer than the progress of waves.
    #[test]
    fn orders_outlast_the_progress_of_waves() {
        let mut course = Course::default();
        course.push(event(0, CourseEventKind::Begun));
        for second in 1..=100 {
            course.push(event(3 * second, CourseEventKind::WaveUpdated));
            course.push(event(3 * second + 1, CourseEventKind::Approved));
            course.push(event(3 * second + 2, CourseEventKind::WaveBegun));
            let orders = course.events.iter().filter(|event| event.kind.is_order()).count();
            assert!(second > 62 || orders == usize::try_from(second).unwrap());
        }
        assert_eq!((course.events.len(), course.omitted), (EVENTS_MAX, 301 - EVENTS_MAX));
        assert_eq!(course.last_order().map(|last| last.at), Some(Timestamp::from_seconds(301)));
    }

    /// G49: user and reason are on one line, and cut.
    #[test]
    fn an_attribution_is_one_short_line() {
        let long = Attribution::new("\u{1b}[1malice\n", &"because ".repeat(99));
        assert_eq!(long.user.as_deref(), Some("[1malice"));
        assert_eq!(long.reason.map(|reason| reason.chars().count()), Some(257));
        assert_eq!(Attribution::new(" ", ""), Attribution::default());
        assert_eq!(Attribution::new("alice", "a; b").to_string(), " (alice, as claimed: a; b)");
        assert_eq!(Attribution::new("alice", "").to_string(), " (alice, as claimed)");
        assert_eq!(Attribution::new("", "why").to_string(), " (why)");
    }
}
