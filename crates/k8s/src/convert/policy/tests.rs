//! Policies, their defaults, and what is said of wrong ones.

mod check;
mod overrides;
mod window;

use std::time::Duration;

use everynode_core::api::{FailureRule, HOLD_LABEL, IntOrPercent};
use proptest::prelude::*;

use super::*;
use crate::convert::{Interner, node};

/// G5: all fields, and their defaults.
#[test]
fn a_policy_is_read() {
    let policy = rollout_policy(
        "paused: true\nmaxUnavailable: 5%\nsteps:\n- name: canary\n  nodes: {matchLabels: \
         {pool: canary}}\n  upTo: [1, '10%', '100%']\n  bake: 1h30m\n  approval: true\n- \
         {name: zones, by: topology.kubernetes.io/zone}\nfailure: {maxNodes: 5%, \
         maxRestarts: 2, readyWithin: 10m, rollbackAfter: 0s}\n",
    )
    .expect("a valid policy");
    assert!(policy.paused);
    assert_eq!(policy.max_unavailable, Some(IntOrPercent::Percent(5)));
    let failure = FailureRule {
        max_nodes: IntOrPercent::Percent(5),
        max_restarts: Some(2),
        ready_within: Some(Duration::from_secs(600)),
        rollback_after: Some(Duration::ZERO),
        max_lost: None,
        max_removed: IntOrPercent::Int(0),
        cannot_start: true,
    };
    assert_eq!(policy.failure, Some(failure));
    let [canary, zones] = &policy.steps[..] else { panic!("two steps") };
    assert_eq!(canary.nodes.requirements.len(), 1);
    assert_eq!(canary.up_to.len(), 3);
    assert_eq!((canary.wait.bake, canary.wait.approval), (Duration::from_secs(90 * 60), true));
    assert_eq!(zones.by.as_deref(), Some("topology.kubernetes.io/zone"));
    assert_eq!(zones.up_to, [IntOrPercent::Percent(100)]);
    assert!(zones.nodes.is_empty() && zones.wait.is_nothing());
    assert_eq!(&*policy.hold.requirements[0].key, HOLD_LABEL);
    let none = rollout_policy("{}").expect("a policy without steps");
    assert_eq!((none.paused, none.steps, none.max_unavailable), (false, Vec::new(), None));
}

/// G33: by default a node leaves, or refuses pods, if it carries a taint or condition that says so;
/// a policy may name others.
#[test]
fn nodes_are_absent_by_what_they_carry() {
    let is_absent = |policy: &str, taint: &str, condition: &str| {
        let json = format!(
            r#"{{"metadata":{{"name":"n"}},"spec":{{"taints":[{{"key":"{taint}","effect":"NoSchedule"}}]}},
            "status":{{"conditions":[{{"type":"{condition}","status":"True"}}]}}}}"#
        );
        let node = node(json.as_bytes(), &mut Interner::default()).unwrap();
        rollout_policy(policy).expect("a valid policy").absent.matches(&node)
    };
    assert!(is_absent("{}", "karpenter.sh/disrupted", "Ready"));
    for condition in ["DrainInProgress", "DiskPressure", "PIDPressure"] {
        assert!(is_absent("{}", "a", condition), "{condition}");
    }
    assert!(
        !is_absent("{}", "a", "MemoryPressure"),
        "its kubelet refuses only pods without requests"
    );
    assert!(!is_absent("absent: {conditions: [Drained]}", "a", "DiskPressure"));
    assert!(is_absent("absent: {conditions: [Drained]}", "karpenter.sh/disrupted", "Drained"));
}

/// G11: the hash changes with the content of the steps, and with nothing else.
#[test]
fn the_hash_is_that_of_the_steps() {
    let hash = |yaml: &str| rollout_policy(yaml).expect("a valid policy").steps_hash;
    let one = hash("steps: [{name: a, bake: 1m}]");
    assert_eq!(one, hash("{maxUnavailable: 3, steps: [{bake: 1m, name: a}]}"));
    assert_eq!(one, hash("steps: [{name: a, bake: 60s, upTo: [100%], approval: false}]"));
    assert_ne!(one, hash("steps: [{name: a, bake: 2m}]"));
}

/// G4, G5: each field that is wrong gives an error that names the field and the value.
#[test]
fn an_error_names_the_field_and_the_value() {
    for (yaml, expected) in [
        ("", "Invalid value: null: must be an object"),
        ("- a", "must be an object"),
        ("steps: {", ""),
        ("paused: maybe", "paused: Invalid value: \"maybe\": must be true or false"),
        ("steps: 3", "steps: Invalid value: 3: must be a list"),
        ("steps: [3]", "steps[0]: Invalid value: 3: must be an object"),
        ("steps: [{}]", "steps[0].name: Required value"),
        ("steps: [{name: A}]", "steps[0].name: Invalid value: \"A\": must consist of"),
        ("steps: [{name: a}, {name: a}]", "steps[1].name: Duplicate value: \"a\""),
        ("steps: [{name: a, node: x}]", "steps[0].node: unknown field"),
        ("steps: [{name: a, nodes: x}]", "steps[0].nodes: Invalid value: \"x\""),
        ("steps: [{name: a, nodes: {labels: {}}}]", "steps[0].nodes.labels: unknown field"),
        (
            "steps: [{name: a, nodes: [{pool: canary}, []]}]",
            "steps[0].nodes: Invalid value: [{\"pool\":\"canary\"},[]]: must be an object",
        ),
        (
            "hold: {matchExpressions: [[k, Exists, []]]}",
            "hold.matchExpressions[0]: Invalid value: [\"k\",\"Exists\",[]]: must be an object",
        ),
        (
            "hold: {matchExpressions: [{key: k, operator: Exists, value: x}]}",
            "hold.matchExpressions[0].value: unknown field",
        ),
        (
            "steps: [{name: a, nodes: {matchExpressions: [{key: k, operator: Is}]}}]",
            "Expressions[0].operator: Invalid value: \"Is\": must be one of In, NotIn, Exists and",
        ),
        ("steps: [{name: a, by: 'a b'}]", "steps[0].by: Invalid value: \"a b\""),
        ("steps: [{name: a, upTo: 3}]", "steps[0].upTo: Invalid value: 3: must be a list"),
        ("steps: [{name: a, upTo: []}]", "steps[0].upTo: Invalid value: []"),
        ("steps: [{name: a, upTo: [-1]}]", "steps[0].upTo[0]: Invalid value: -1"),
        ("steps: [{name: a, upTo: ['101%']}]", "steps[0].upTo[0]: Invalid value: \"101%\""),
        ("steps: [{name: a, upTo: ['+5%']}]", "steps[0].upTo[0]: Invalid value: \"+5%\""),
        ("steps: [{name: a, upTo: [2, 2]}]", "must be greater than the items before"),
        ("steps: [{name: a, bake: 30}]", "steps[0].bake: Invalid value: 30: must be a"),
        ("steps: [{name: a, bake: -5m}]", "steps[0].bake: Invalid value: \"-5m\""),
        ("steps: [{name: a, bake: 5 days}]", "steps[0].bake: Invalid value: \"5 days\""),
        ("steps: [{name: a, approval: yes please}]", "steps[0].approval: Invalid value:"),
        ("steps: [{name: a, checks: [b]}]", "steps[0].checks: Invalid value: \"b\""),
        ("steps: [{name: a, each: 'a b'}]", "steps[0].each: Invalid value: \"a b\""),
        ("steps: [{name: a, by: z, each: z}]", "steps[0].each: Invalid value: \"z\": must not be"),
        ("maxUnavailable: 0", "maxUnavailable: Invalid value: 0: must be greater than 0"),
        (
            "maxUnavailablePer: {label: zone, max: 0}",
            "maxUnavailablePer.max: Invalid value: 0: must be greater than 0",
        ),
        ("maxUnavailablePer: {label: a b, max: 1}", "maxUnavailablePer.label: Invalid value"),
        ("maxUnavailablePer: {max: 1}", "maxUnavailablePer.label: Required value"),
        ("maxUnavailable: 1.5", "maxUnavailable: Invalid value: 1.5"),
        ("hold: [a]", "hold: Invalid value: [\"a\"]"),
        ("failure: 3", "failure: Invalid value: 3: must be an object"),
        ("failure: {maxNodes: x}", "failure.maxNodes: Invalid value: \"x\""),
        ("failure: {maxRestarts: 101}", "failure.maxRestarts: Invalid value: 101"),
        ("failure: {readyWithin: 29s}", "failure.readyWithin: Invalid value: \"29s\""),
        ("failure: {rollbackAfter: soon}", "failure.rollbackAfter: Invalid value: \"soon\""),
        ("failure: {nodes: 3}", "failure.nodes: unknown field"),
        ("daemonSets: {name: a}", "daemonSets: unknown field"),
    ] {
        let error = rollout_policy(yaml).expect_err(yaml);
        assert!(error.contains(expected), "{yaml}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let error = rollout_policy(r#"{"a\e[31m\u202E": 1}"#).expect_err("an unknown field");
    assert_eq!(error, r"a\u{1b}[31m\u{202e}: unknown field", "nothing in it is hidden");
    let error = rollout_policy("{a: 1, b: 2}").expect_err("two unknown fields");
    assert_eq!(error, "a: unknown field; b: unknown field", "all errors are reported");
}

/// G45: what is wrong with the end of a rollout is named.
#[test]
fn an_error_in_the_end_of_a_rollout_is_named() {
    for (yaml, expected) in [
        ("finally: 1h", "finally: Invalid value: \"1h\": must be an object"),
        ("finally: {bake: 1}", "finally.bake: Invalid value: 1: must be a duration"),
        ("finally: {approval: 1}", "finally.approval: Invalid value: 1"),
        ("finally: {checks: [b]}", "finally.checks[0]: Invalid value: \"b\": must be names of"),
        ("{finally: {}, steps: [{name: finally}]}", "steps[0].name: Invalid value: \"finally\""),
    ] {
        let error = rollout_policy(yaml).expect_err(yaml);
        assert!(error.contains(expected), "{yaml}: {error}");
    }
}

/// G7: aliases that multiply, and nesting without end, are errors as any other.
#[test]
fn hostile_yaml_is_an_error() {
    let level = |n: u32| {
        let aliases = vec![format!("*a{}", n - 1); 20].join(", ");
        format!("a{n}: &a{n} [{aliases}]\n")
    };
    let bomb = format!("a0: &a0 x\n{}", (1..10).map(level).collect::<String>());
    let long = format!("steps: {}", "x".repeat(100_000));
    let many = format!("steps: [{}]", "{},".repeat(100));
    let nested = "[".repeat(100_000);
    for hostile in [bomb, nested, "steps: &a [*a]".to_owned(), long, many] {
        let error = rollout_policy(&hostile).expect_err("hostile YAML");
        assert!(error.len() < 1_000, "{} bytes", error.len());
    }
}

/// A policy with most fields, whose values random ones replace.
const POLICY: &str = "{paused: false, maxUnavailable: 5%, podsPerMinute: 10, steps: [{name: a, \
    nodes: {matchLabels: {p: c}, matchExpressions: [{key: k, operator: In, values: [v]}]}, \
    by: zone, upTo: [1, 100%], bake: 1h, approval: true, checks: [c]}], finally: {bake: 1m}, \
    checks: [{name: c, interval: 30s, http: {url: 'http://a'}}], failure: {maxNodes: 5%, \
    readyWithin: 10m, maxRestarts: 2, rollbackAfter: 0s}, windows: [{days: [Mon], from: '22:00', \
    to: '06:00', timeZone: Europe/Berlin}], hold: {matchLabels: {a: b}}, overrides: [{name: big, \
    nodes: {matchLabels: {pool: big}, kubeletVersion: '1.35'}, containers: [{name: c, args: [x], \
    resources: {requests: {memory: 128Mi}}, env: [{name: N, value: v}]}], settle: 5m}]}";

proptest! {
    /// G7: any text is a policy, or an error that can be read.
    #[test]
    fn any_text_is_a_policy_or_an_error(
        text in r"[a-zA-Z0-9:{}\[\],'&*!|> \n-]{0,60}|\PC{0,40}",
        at in any::<prop::sample::Index>(),
        value in r"-?[0-9]{0,22}%?|[0-9]{1,3}[hms]{1,2}|[a-z:{}\[\]', -]{0,12}|\PC{0,8}",
    ) {
        let tokens: Vec<&str> = POLICY.split_inclusive([' ', ',', '[', '{', ']', '}']).collect();
        let at = at.index(tokens.len());
        let changed = [tokens[..at].concat(), value, tokens[at + 1..].concat()].concat();
        for text in [text, changed] {
            if let Err(error) = rollout_policy(&text) {
                prop_assert!(!error.is_empty() && error.len() < 2_000, "{text}: {error}");
            }
        }
    }
}
