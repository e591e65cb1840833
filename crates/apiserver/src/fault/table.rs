//! The rules, in the form that they have in a file and on `/debug/faults`: which one fires for a
//! request, and how often each has fired.

use everynode_core::api::Timestamp;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::effect::{Fault, InjectedError, Restart};
use super::matching::{Match, RequestInfo};
use crate::duration::Duration;
use crate::json::{Value, json};

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
    _status: IgnoredAny,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A rule in force.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveRule {
    /// The rule as it was set.
    pub rule: Rule,
    set_at: Timestamp,
    /// The number of requests that it has matched while it was active.
    pub matched: u64,
    /// The number of requests into which it has injected its fault.
    pub fired: u64,
}

/// All rules, in the order in which they are tried. The first rule that fires decides.
#[derive(Debug)]
pub struct RuleTable {
    entries: Vec<ActiveRule>,
    /// The time until which every request gets 403, after a restart.
    forbidden_until: Option<Timestamp>,
    rng: Pcg64Mcg,
}

/// More than [`RULES_MAX`] rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("faults: too many rules: {count}, the maximum is {RULES_MAX}")]
pub struct TooManyRules {
    count: usize,
}

impl RuleTable {
    /// A table without rules. Probabilities are drawn from `seed` (S24).
    pub fn new(seed: u64) -> Self {
        let rng = Pcg64Mcg::seed_from_u64(seed);
        Self { entries: Vec::new(), forbidden_until: None, rng }
    }

    /// True if no request can fail: there are no rules, and no restart is in progress.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.entries.is_empty() && self.forbidden_until.is_none_or(|until| until <= now)
    }

    /// Appends rules. The counters of the others stay.
    ///
    /// # Errors
    /// There would be too many rules; none is added.
    pub fn add(&mut self, rules: Vec<Rule>, now: Timestamp) -> Result<(), TooManyRules> {
        let count = self.entries.len() + rules.len();
        if count > RULES_MAX {
            return Err(TooManyRules { count });
        }
        let entry = |rule| ActiveRule { rule, set_at: now, matched: 0, fired: 0 };
        self.entries.extend(rules.into_iter().map(entry));
        Ok(())
    }

    /// Removes all rules, and ends a restart that is in progress.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.forbidden_until = None;
    }

    /// The fault to inject into a request that arrives now; `None` to serve it as usual.
    pub fn decide(&mut self, request: &RequestInfo<'_>, now: Timestamp) -> Option<Fault> {
        if self.forbidden_until.is_some_and(|until| now < until) {
            return Some(Fault::Error(InjectedError::of(403)));
        }
        let rng = &mut self.rng;
        let fired = self.entries.iter_mut().find_map(|entry| entry.fire(request, now, rng));
        if let Some(Fault::Restart(Restart { down, forbidden, .. })) = fired {
            self.forbidden_until = Some(Timestamp(now.0 + down.0 + forbidden.0));
        }
        fired
    }

    /// The rules as a document that [`parse`](super::parse()) can read, with their counters.
    pub fn to_value(&self) -> Value {
        let rules = self.entries.iter().map(ActiveRule::to_value).collect::<Vec<_>>();
        json!({"faults": rules})
    }
}

impl ActiveRule {
    fn fire(
        &mut self,
        request: &RequestInfo<'_>,
        now: Timestamp,
        rng: &mut Pcg64Mcg,
    ) -> Option<Fault> {
        let Rule { matching, when, fault, .. } = &self.rule;
        let age = now.0 - self.set_at.0;
        let holds = when.from.is_none_or(|from| age >= from.0)
            && when.until.is_none_or(|until| age < until.0);
        if !holds
            || !fault.can_happen_to(request.verb, request.is_watchlist)
            || !matching.matches(request)
        {
            return None;
        }
        self.matched += 1;
        let fires = when.times.is_none_or(|times| self.fired < times)
            && when.every.is_none_or(|every| self.matched.is_multiple_of(every))
            && when.probability.is_none_or(|chance| rng.random_bool(chance));
        if !fires {
            return None;
        }
        self.fired += 1;
        Some(fault.clone())
    }

    fn to_value(&self) -> Value {
        let mut rule = Value::from(serde_json::to_value(&self.rule).unwrap_or_default());
        rule["status"] = json!({"matched": self.matched, "fired": self.fired});
        rule
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::Duration;
    use crate::fault::parse;

    const START: Timestamp = Timestamp(1_000_000);

    fn table(text: &str) -> RuleTable {
        let mut table = RuleTable::new(7);
        table.add(parse(text).expect("rules"), START).expect("room");
        table
    }

    fn pods(verb: &str) -> RequestInfo<'_> {
        RequestInfo { verb, resource: "pods", ..RequestInfo::default() }
    }

    /// The response codes of a number of requests, one every 100 ms; 0 for a request that is
    /// served.
    fn codes(table: &mut RuleTable, verb: &str, count: i64) -> Vec<u16> {
        let code = |at: i64| match table.decide(&pods(verb), Timestamp(START.0 + at * 100)) {
            Some(Fault::Error(error)) => error.code,
            Some(fault) => panic!("{}", fault.name()),
            None => 0,
        };
        (0..count).map(code).collect()
    }

    /// S17: a rule fires a number of times, for every n-th request, and during a period.
    #[test]
    fn a_rule_fires_according_to_its_schedule() {
        let of = |when: &str| {
            table(&format!("faults: [{{when: {when}, fault: {{error: {{code: 500}}}}}}]"))
        };
        assert_eq!(codes(&mut of("{times: 2}"), "get", 4), [500, 500, 0, 0]);
        assert_eq!(codes(&mut of("{every: 2}"), "get", 5), [0, 500, 0, 500, 0]);
        assert_eq!(codes(&mut of("{every: 2, times: 1}"), "get", 5), [0, 500, 0, 0, 0]);
        assert_eq!(codes(&mut of("{from: 200ms, until: 400ms}"), "get", 6), [0, 0, 500, 500, 0, 0]);
        assert_eq!(codes(&mut of("{probability: 0}"), "get", 5), [0; 5]);
        assert_eq!(codes(&mut of("{probability: 1}"), "get", 5), [500; 5]);
        assert_eq!(codes(&mut of("{}"), "get", 3), [500; 3]);
    }

    /// S17, S24: probabilities are drawn from the seed.
    #[test]
    fn probabilities_are_drawn_from_the_seed() {
        let text = "faults: [{when: {probability: 0.5}, fault: {error: {code: 500}}}]";
        let first = codes(&mut table(text), "get", 50);
        assert_eq!(codes(&mut table(text), "get", 50), first);
        assert!(first.contains(&0) && first.contains(&500));
    }

    /// S17: the first rule that fires decides; a rule that does not fire leaves the request to the
    /// next.
    #[test]
    fn the_first_rule_that_fires_decides() {
        let mut table = table(
            "faults:
- {match: {verbs: [get]}, when: {times: 1}, fault: {error: {code: 429}}}
- {match: {resources: [pods]}, fault: {error: {code: 503}}}
- {fault: {error: {code: 500}}}",
        );
        assert_eq!(codes(&mut table, "get", 2), [429, 503]);
        assert_eq!(codes(&mut table, "list", 1), [503]);
        let counts: Vec<_> =
            table.entries.iter().map(|entry| (entry.matched, entry.fired)).collect();
        assert_eq!(counts, [(2, 1), (2, 2), (0, 0)]);
    }

    /// S17: a fault that can't be applied to a request does not count for it.
    #[test]
    fn inapplicable_faults_do_not_count() {
        let mut table =
            table("faults: [{when: {times: 1}, fault: {error: {code: 504, afterCommit: true}}}]");
        assert_eq!(codes(&mut table, "list", 3), [0, 0, 0]);
        assert_eq!(codes(&mut table, "create", 2), [504, 0]);
    }

    /// S17: after a restart every request gets 403 for a time, or until the rules are cleared.
    #[test]
    fn a_restarted_server_refuses_for_a_while() {
        let text = "faults: [{match: {verbs: [create]}, when: {times: 1}, fault: {restart: {down: \
            3s, forbidden: 1s}}}]";
        let mut table = table(text);
        let at = |ms: i64| Timestamp(START.0 + ms);
        assert_eq!(table.decide(&pods("list"), at(0)), None);
        let restart =
            Restart { down: Duration(3000), forbidden: Duration(1000), after_commit: false };
        assert_eq!(table.decide(&pods("create"), at(10)), Some(Fault::Restart(restart)));
        let forbidden = Some(Fault::Error(InjectedError::of(403)));
        assert_eq!(table.decide(&pods("list"), at(3_100)), forbidden);
        assert_eq!(table.decide(&pods("list"), at(4_009)), forbidden);
        assert_eq!(table.decide(&pods("list"), at(4_010)), None);
        assert!(!table.is_idle(at(4_009)));
        table.clear();
        assert!(table.is_idle(at(0)));
    }

    /// S17: printed rules can be set again, and the number of rules is limited.
    #[test]
    fn rules_are_printed_as_they_are_read() {
        let mut table = table(
            "faults: [{match: {verbs: [get]}, when: {times: 1}, fault: {error: {code: 429}}}]",
        );
        codes(&mut table, "get", 2);
        let printed = table.to_value();
        assert_eq!(printed["faults"][0]["status"], json!({"matched": 2, "fired": 1}));
        let again = parse(&printed.to_string()).expect("it can be read again");
        assert_eq!(again[0], table.entries[0].rule);
        let many = vec![again[0].clone(); RULES_MAX];
        let refused = table.add(many, START).map_err(|error| error.to_string());
        assert_eq!(refused, Err("faults: too many rules: 101, the maximum is 100".to_owned()));
        assert_eq!(table.entries.len(), 1);
    }
}
