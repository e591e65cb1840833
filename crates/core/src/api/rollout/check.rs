//! The checks of a guarded rollout: what is asked of a wave, and what is answered (G5, G15).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::schema::{self, rule};
use crate::api::{Timestamp, is_hidden};

use super::variables::CheckSubject;

/// Maximum number of characters of an answer, which conditions, events and records state.
const ANSWER_LENGTH_MAX: usize = 256;
/// Maximum number of characters of a question in a record.
const QUESTION_LENGTH_MAX: usize = 256;

/// One of the `checks` of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "[has(self.http), has(self.prometheus), has(self.cronJob)].filter(is, is).size() \
                 == 1",
        "message": CheckKind::ONE_QUESTION,
    },
    {
        "rule": "!has(self.cronJob) || !has(self.failures)",
        "message": CheckKind::ONE_ANSWER,
        "fieldPath": ".failures",
    },
]))]
pub struct RolloutCheck {
    /// The name of the check, unique in the policy.
    #[schemars(schema_with = "schema::name")]
    pub name: Arc<str>,
    /// How often it is asked.
    #[serde(deserialize_with = "schema::read_duration")]
    #[schemars(schema_with = "schema::duration", extend(
        "default" = "30s",
        "x-at-least" = "1s",
        "x-reason" = "must be a duration of at least 1s, such as 30s",
    ))]
    pub interval: Duration,
    /// How long after the first node of a wave is updated and available it is asked for the first
    /// time.
    #[serde(deserialize_with = "schema::read_duration")]
    #[schemars(schema_with = "schema::duration", extend("default" = "0s"))]
    pub initial_delay: Duration,
    /// How many times in a row it must fail until the rollout fails; not for a `cronJob`, which
    /// gives one answer.
    #[schemars(range(min = 1, max = 100), extend("default" = 3))]
    pub failures: u8,
    /// What is asked.
    #[serde(flatten)]
    pub kind: CheckKind,
}

/// What a check asks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CheckKind {
    /// Passes with an answer of 2xx, and fails with one of 4xx.
    Http {
        /// The URL that is asked, without credentials and fragment.
        #[schemars(schema_with = "schema::url")]
        url: Arc<str>,
    },
    /// Passes while the value of a query is within its bounds, of which there is at least one.
    #[schemars(extend("x-kubernetes-validations" = [
        { "rule": "has(self.min) || has(self.max)", "message": rule::A_BOUND },
        {
            "rule": "!has(self.min) || !has(self.max) || double(self.min) <= double(self.max)",
            "message": rule::ORDERED_BOUNDS,
        },
    ]))]
    Prometheus {
        /// The server, without credentials, query and fragment.
        #[schemars(schema_with = "schema::url_without_query")]
        url: Arc<str>,
        /// The query. Its variables are `$namespace`, `$daemonset`, `$revision` and
        /// `$baseRevision` (hashes as in the label `controller-revision-hash`), `$wave`, and
        /// `$nodes` and `$pods`: regular expressions for the nodes of the wave that have a new pod,
        /// and for these pods.
        #[schemars(
            length(min = 1, max = 4096),
            extend("x-reason" = "must be a query of at most 4096 characters")
        )]
        query: Arc<str>,
        /// The smallest value that passes.
        min: Option<Decimal>,
        /// The greatest value that passes.
        max: Option<Decimal>,
    },
    /// The name of a CronJob of the DaemonSet's namespace. A Job of its template must succeed.
    CronJob(#[schemars(schema_with = "schema::cron_job")] Arc<str>),
}

/// A decimal number as a policy states it, such as `-0.05`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Decimal(Arc<str>);

/// The verdict of an answer to a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckVerdict {
    /// The new template is good, as far as the check tells.
    Passed,
    /// It is not.
    Failed,
    /// Nobody knows: the wave waits for another answer.
    Unknown,
}

/// The answer to a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckAnswer {
    /// The verdict.
    pub verdict: CheckVerdict,
    /// The answer, or why there is none, on one line and without a semicolon.
    pub text: Arc<str>,
    /// The known state of the Job of a `cronJob`.
    pub job: JobPresence,
}

/// The existence of a check's Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobPresence {
    /// Nothing is known, or the check has no Job.
    #[default]
    Unknown,
    /// It exists.
    Exists,
    /// It existed before, and is gone.
    Gone,
}

/// The last answer to a check, as the condition states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckStatement {
    /// The name of the check.
    pub name: Arc<str>,
    /// The last answer; `None` before the first.
    pub last: Option<StatedAnswer>,
}

/// An answer that the condition states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedAnswer {
    /// The verdict.
    pub verdict: CheckVerdict,
    /// When it was asked for, by the wall clock: of answers that are the same, the first one.
    pub asked: Timestamp,
    /// The text of the answer.
    pub text: Arc<str>,
}

impl Decimal {
    /// The number, if the text is one: digits, at most one point between them, and perhaps a minus
    /// sign before them.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        (is_number(whole) && is_number(fraction)).then(|| Self(text.into()))
    }

    /// The nearest number that can be compared with a measured one.
    pub fn as_f64(&self) -> f64 {
        self.0.parse().expect("it consists of digits and a point")
    }
}

impl TryFrom<String> for Decimal {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("it is no decimal number")
    }
}

schema::schema_of!(Decimal, schema::decimal);

impl CheckAnswer {
    /// An answer with this text, of which control characters, hidden ones and what is too long are
    /// left out.
    pub fn new(verdict: CheckVerdict, text: &str) -> Self {
        Self { verdict, text: plain(text, ANSWER_LENGTH_MAX), job: JobPresence::Unknown }
    }

    /// The answer, with what is known of the Job.
    #[must_use]
    pub const fn with_job(mut self, job: JobPresence) -> Self {
        self.job = job;
        self
    }
}

/// The text on one line, with at most this many characters, and without the semicolon that
/// separates the statements of a condition.
pub(super) fn plain(text: &str, length_max: usize) -> Arc<str> {
    one_line(&text.replace(';', ","), length_max)
}

/// The text on one line, with at most this many characters, all of them visible.
pub(super) fn one_line(text: &str, length_max: usize) -> Arc<str> {
    let is_left_out = |c: char| c.is_whitespace() || c.is_control() || is_hidden(c);
    let words: Vec<&str> = text.split(is_left_out).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(length_max) {
        Some((end, _)) => format!("{}…", &line[..end]).into(),
        None => line.into(),
    }
}

impl RolloutCheck {
    /// The question and its answer, for the record of a rollout that fails by it.
    pub fn failure(&self, answer: &str) -> Arc<str> {
        let question = plain(&self.kind.to_string(), QUESTION_LENGTH_MAX);
        format!("check {}: {answer} ({question})", self.name).into()
    }

    /// How many times in a row it must fail until the rollout fails.
    pub const fn failures_needed(&self) -> u8 {
        if self.is_job() { 1 } else { self.failures }
    }

    /// True if it starts a Job, which gives one answer, rather than asking again and again.
    pub const fn is_job(&self) -> bool {
        match self.kind {
            CheckKind::CronJob(_) => true,
            CheckKind::Http { .. } | CheckKind::Prometheus { .. } => false,
        }
    }
}

impl CheckVerdict {
    /// All verdicts.
    pub const ALL: [Self; 3] = [Self::Passed, Self::Failed, Self::Unknown];

    /// One word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl CheckKind {
    /// The fields of a check, of which it has one.
    pub const FIELDS: [&str; 3] = ["http", "prometheus", "cronJob"];
    /// The message of the rule that it has one.
    pub const ONE_QUESTION: &str = "exactly one of http, prometheus and cronJob is required";
    /// The message of the rule of `failures`.
    pub const ONE_ANSWER: &str = "must not be set for a cronJob, which gives one answer";

    /// True if it asks something that depends on its subject.
    pub fn has_variables(&self) -> bool {
        matches!(self, Self::Prometheus { query, .. } if query.contains('$'))
    }

    /// The same with the values of the variables in its query.
    #[must_use]
    pub fn about(&self, subject: &CheckSubject) -> Self {
        match self {
            Self::Prometheus { url, query, min, max } => Self::Prometheus {
                url: url.clone(),
                query: subject.expand(query),
                min: min.clone(),
                max: max.clone(),
            },
            Self::Http { .. } | Self::CronJob(_) => self.clone(),
        }
    }

    /// The field of the policy that holds it.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Http { .. } => "http",
            Self::Prometheus { .. } => "prometheus",
            Self::CronJob(_) => "cronJob",
        }
    }
}

impl fmt::Display for CheckKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { url } => write!(f, "GET {url}"),
            Self::Prometheus { url, query, .. } => write!(f, "{query} at {url}"),
            Self::CronJob(name) => write!(f, "a job of cronjob {name}"),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G5: a bound is a decimal number, and nothing else that computers take for a number.
    #[test]
    fn a_decimal_is_what_people_write() {
        for (text, value) in [("0", 0.0), ("-0.5", -0.5), ("10.25", 10.25), ("007", 7.0)] {
            let decimal = Decimal::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((decimal.as_f64(), decimal.to_string()), (value, text.to_owned()));
        }
        for text in ["", "-", ".5", "5.", "1e3", "+1", "NaN", "inf", "0x1", "1,5", " 1", "--1"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    /// G15: an answer of any length costs the objects that state it a few hundred characters.
    #[test]
    fn a_long_answer_is_cut() {
        let answer = CheckAnswer::new(CheckVerdict::Unknown, &"ä".repeat(1_000_000));
        assert_eq!(answer.text.chars().count(), ANSWER_LENGTH_MAX + 1);
        let url = format!("http://a/{}", "x".repeat(2_000)).into();
        let check = RolloutCheck {
            name: "gate".into(),
            interval: Duration::from_secs(30),
            initial_delay: Duration::ZERO,
            failures: 3,
            kind: CheckKind::Http { url },
        };
        assert!(check.failure(&answer.text).chars().count() < 600);
    }
}
