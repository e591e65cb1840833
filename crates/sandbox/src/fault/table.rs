//! The rules in force: which fires for a request, and how often each has fired.

use everynode_core::api::Timestamp;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::wire::Rule;
use super::{Duration, Fault, Refusal, Request, Restart};

/// Maximum number of rules.
pub const RULES_MAX: usize = 100;

/// How often a rule fires, of the requests that it matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Window {
    /// Maximum number of times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Of every so many matching requests the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Between 0 and 1; drawn from the sandbox's seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Time since the rule was set, from which on it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Duration>,
    /// Time since the rule was set, until which it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Duration>,
}

/// A rule in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub rule: Rule,
    set_at: Timestamp,
    /// Number of requests that it has matched while it held.
    pub matched: u64,
    pub fired: u64,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Serve,
    Fault(Fault),
}

/// All rules. They are asked in their order; the first that fires decides.
#[derive(Debug)]
pub struct Table {
    entries: Vec<Entry>,
    /// After a restart: every request is answered 403 until then.
    forbidden_until: Option<Timestamp>,
    rng: Pcg64Mcg,
}

/// There would be too many rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("faults: too many rules: {wanted}, the most is {RULES_MAX}")]
pub struct TooMany {
    wanted: usize,
}

impl Table {
    /// No rules. `seed` decides what is left to chance.
    pub fn new(seed: u64) -> Table {
        let rng = Pcg64Mcg::seed_from_u64(seed);
        Table { entries: Vec::new(), forbidden_until: None, rng }
    }

    /// Nothing can happen to any request.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.entries.is_empty() && self.forbidden_until.is_none_or(|until| until <= now)
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds rules behind those that there are; what these have counted stays.
    ///
    /// # Errors
    /// There would be too many; none is added.
    pub fn add(&mut self, rules: Vec<Rule>, now: Timestamp) -> Result<(), TooMany> {
        let wanted = self.entries.len() + rules.len();
        if wanted > RULES_MAX {
            return Err(TooMany { wanted });
        }
        let entry = |rule| Entry { rule, set_at: now, matched: 0, fired: 0 };
        self.entries.extend(rules.into_iter().map(entry));
        Ok(())
    }

    /// Removes all rules, and ends what is left of a restart.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.forbidden_until = None;
    }

    /// What happens to a request that comes now.
    pub fn decide(&mut self, request: &Request<'_>, now: Timestamp) -> Decision {
        if self.forbidden_until.is_some_and(|until| now < until) {
            return Decision::Fault(Fault::Error(Refusal::of(403)));
        }
        let rng = &mut self.rng;
        let fired = self.entries.iter_mut().find_map(|entry| entry.fire(request, now, rng));
        let Some(fault) = fired else { return Decision::Serve };
        if let Fault::Restart(Restart { down, forbidden, .. }) = fault {
            self.forbidden_until = Some(Timestamp(now.0 + down.0 + forbidden.0));
        }
        Decision::Fault(fault)
    }

    /// The rules as a document that can be read again, each with what it has counted.
    pub fn to_value(&self) -> Value {
        let rules = self.entries.iter().map(Entry::to_value).collect::<Vec<_>>();
        json!({"faults": rules})
    }
}

impl Entry {
    fn fire(&mut self, request: &Request<'_>, now: Timestamp, rng: &mut Pcg64Mcg) -> Option<Fault> {
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
        let mut rule = serde_json::to_value(&self.rule).unwrap_or_default();
        rule["status"] = json!({"matched": self.matched, "fired": self.fired});
        rule
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::parse;

    const START: Timestamp = Timestamp(1_000_000);

    fn table(text: &str) -> Table {
        let mut table = Table::new(7);
        table.add(parse(text).expect("rules"), START).expect("room");
        table
    }

    fn pods(verb: &str) -> Request<'_> {
        Request { verb, resource: "pods", ..Request::default() }
    }

    /// The codes of so many requests, one each 100 ms; 0 for one that is served.
    fn codes(table: &mut Table, verb: &str, count: i64) -> Vec<u16> {
        let code = |at: i64| match table.decide(&pods(verb), Timestamp(START.0 + at * 100)) {
            Decision::Fault(Fault::Error(refusal)) => refusal.code,
            Decision::Fault(fault) => panic!("{}", fault.name()),
            Decision::Serve => 0,
        };
        (0..count).map(code).collect()
    }

    /// S17: a rule fires so many times, at every so many requests, and between two moments.
    #[test]
    fn a_rule_fires_as_often_as_it_says() {
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

    /// S17, S24: what is left to chance comes from the seed.
    #[test]
    fn chance_comes_from_the_seed() {
        let text = "faults: [{when: {probability: 0.5}, fault: {error: {code: 500}}}]";
        let first = codes(&mut table(text), "get", 50);
        assert_eq!(codes(&mut table(text), "get", 50), first);
        assert!(first.contains(&0) && first.contains(&500));
    }

    /// S17: the first rule that fires decides; one that does not fire leaves the request to the next.
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
            table.entries().iter().map(|entry| (entry.matched, entry.fired)).collect();
        assert_eq!(counts, [(2, 1), (2, 2), (0, 0)]);
    }

    /// S17: a fault that can't happen to a request is not tried on it.
    #[test]
    fn what_cannot_happen_does_not_use_a_rule_up() {
        let mut table =
            table("faults: [{when: {times: 1}, fault: {error: {code: 504, afterCommit: true}}}]");
        assert_eq!(codes(&mut table, "list", 3), [0, 0, 0]);
        assert_eq!(codes(&mut table, "create", 2), [504, 0]);
    }

    /// S17: after a restart every request is answered 403 for a while, until the rules are cleared.
    #[test]
    fn a_restarted_server_refuses_for_a_while() {
        let text = "faults: [{match: {verbs: [create]}, when: {times: 1}, fault: {restart: {down: 3s, forbidden: 1s}}}]";
        let mut table = table(text);
        let at = |ms: i64| Timestamp(START.0 + ms);
        assert_eq!(table.decide(&pods("list"), at(0)), Decision::Serve);
        let restart =
            Restart { down: Duration(3000), forbidden: Duration(1000), after_commit: false };
        assert_eq!(table.decide(&pods("create"), at(10)), Decision::Fault(Fault::Restart(restart)));
        let forbidden = Decision::Fault(Fault::Error(Refusal::of(403)));
        assert_eq!(table.decide(&pods("list"), at(3_100)), forbidden);
        assert_eq!(table.decide(&pods("list"), at(4_009)), forbidden);
        assert_eq!(table.decide(&pods("list"), at(4_010)), Decision::Serve);
        assert!(!table.is_idle(at(4_009)));
        table.clear();
        assert!(table.is_idle(at(0)));
    }

    /// S17: what is printed of the rules can be set again; the number of rules is bounded.
    #[test]
    fn rules_are_printed_as_they_are_read() {
        let mut table = table(
            "faults: [{match: {verbs: [get]}, when: {times: 1}, fault: {error: {code: 429}}}]",
        );
        codes(&mut table, "get", 2);
        let printed = table.to_value();
        assert_eq!(printed["faults"][0]["status"], json!({"matched": 2, "fired": 1}));
        let again = parse(&printed.to_string()).expect("it can be read again");
        assert_eq!(again[0], table.entries()[0].rule);
        let many = vec![again[0].clone(); RULES_MAX];
        let refused = table.add(many, START).map_err(|error| error.to_string());
        assert_eq!(refused, Err("faults: too many rules: 101, the most is 100".to_owned()));
        assert_eq!(table.entries().len(), 1);
    }
}
