//! A fault rule, in the form that it has in a file and on `/debug/faults`.

use serde::{Deserialize, Deserializer, Serialize};

use super::effect::Fault;
use super::matching::Match;
use crate::duration::Duration;

/// Maximum number of rules in force.
pub const RULES_MAX: usize = 100;

/// How often, and during which time, a rule fires for the requests that it matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Schedule {
    /// The maximum number of times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Fire only for every n-th matching request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// The probability of firing, between 0 and 1; drawn from the sandbox's seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The time after which the rule becomes active, counted from when it was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Duration>,
    /// The time after which the rule is no longer active, counted from when it was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Duration>,
}

/// A rule: which requests fail, how often, and in which way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// The requests that the rule matches.
    #[serde(rename = "match", default, skip_serializing_if = "is_default")]
    pub matching: Match,
    /// How often the rule fires.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when: Schedule,
    /// The fault to inject.
    pub fault: Fault,
    /// The counters of a printed rule, which are ignored when it is read.
    #[serde(rename = "status", default, skip_serializing)]
    _status: Ignored,
}

/// Any value, which is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
