//! Injected faults (S17): which requests fail, how often, and in which way.
//!
//! This module has data and decisions only. The API server carries out the [`Fault`] that
//! [`RuleTable::decide`] returns; the simulation uses the same type without an API server.

mod bytes;
mod effect;
mod matching;
mod parse;
mod point;
mod table;

pub use crate::duration::Duration;
pub use bytes::{invalidate, object_ends};
pub use effect::{
    CommitLate, Delay, Fault, InjectedError, InvalidUtf8, LateBookmark, LoseAnswer, Restart,
    StaleRead, Stall, WatchError,
};
pub use matching::{Match, RequestInfo};
pub use parse::{Error, TEXT_BYTES_MAX, parse};
pub use point::{Point, Progress};
pub use table::{ActiveRule, RULES_MAX, Rule, RuleTable, Schedule, TooManyRules};
