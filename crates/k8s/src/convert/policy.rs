//! Rollout policies (G4, G5).

mod check;
mod fields;
mod value;
mod window;

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{
    FailureRule, GroupLimit, HOLD_LABEL, IntOrPercent, LabelOperator, LabelRequirement,
    LabelSelector, RolloutPolicy, RolloutStep,
};
use everynode_core::revisions::revision_hash;
use serde_json::Value;

pub(super) use fields::{Errors, Fields};
use value::{dns_label, duration, int_or_percent, label_key, positive};

const STEPS_MAX: usize = 20;
const SIZES_MAX: usize = 10;
const READY_WITHIN_MIN: Duration = Duration::from_secs(30);
const RESTARTS_MAX: u8 = 100;

/// Decodes the policy in the annotation of a DaemonSet: the `spec` of a RolloutPolicy without
/// `daemonSets`, as YAML.
///
/// # Errors
/// What is wrong with it, at most five fields with their values and the reasons, separated by
/// semicolons.
pub fn rollout_policy(yaml: &str) -> Result<RolloutPolicy, String> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let value: Value = serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    let mut errors = Errors::default();
    let policy = Fields::of("", &value, &mut errors).and_then(|mut fields| {
        let policy = policy(&mut fields, &mut errors);
        fields.finish(&mut errors);
        policy
    });
    errors.result(policy)
}

/// Decodes the fields that all forms of a policy have.
pub(super) fn policy(fields: &mut Fields<'_>, errors: &mut Errors) -> Option<RolloutPolicy> {
    let steps_value = fields.take("steps");
    let none = Vec::new();
    let list = steps_value.map_or(Ok(&none), |steps| steps.as_array().ok_or("must be a list"));
    let path = fields.path("steps");
    let list = errors.checked(&path, steps_value.unwrap_or(&Value::Null), list)?;
    if list.len() > STEPS_MAX {
        errors.too_many(&path, list.len(), STEPS_MAX);
    }
    let mut names = BTreeSet::new();
    let mut steps = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(step) = step(&path, value, errors) else { continue };
        if !names.insert(step.name.clone()) {
            errors.duplicate(&format!("{path}.name"), &step.name);
        }
        steps.push(step);
    }
    let checks = check::checks(fields, errors);
    check::check_names(&path, &steps, &checks, errors);
    let max_unavailable = fields.read("maxUnavailable", None, errors, positive);
    let exists = LabelRequirement { key: HOLD_LABEL.into(), operator: LabelOperator::Exists };
    Some(RolloutPolicy {
        paused: fields.bool("paused", errors),
        steps,
        steps_hash: steps_hash(list),
        max_unavailable,
        max_unavailable_per: group_limit(fields, errors),
        pods_per_minute: fields.read("podsPerMinute", None, errors, |value| {
            let number = value.as_u64().and_then(|number| i32::try_from(number).ok());
            let number = number.and_then(|number| NonZeroU32::new(number.unsigned_abs()));
            number.map(Some).ok_or("must be a number that is greater than 0")
        }),
        windows: window::windows(fields, errors),
        failure: failure(fields, errors),
        hold: fields.selector("hold", LabelSelector { requirements: vec![exists] }, errors),
        checks,
    })
}

fn group_limit(fields: &mut Fields<'_>, errors: &mut Errors) -> Option<GroupLimit> {
    let path = fields.path("maxUnavailablePer");
    let mut fields = Fields::of(&path, fields.take("maxUnavailablePer")?, errors)?;
    for key in ["label", "max"] {
        if !fields.has(key) {
            errors.required(&fields.path(key));
        }
    }
    let label = fields.read("label", None, errors, label_key);
    let max = fields.read("max", None, errors, positive);
    fields.finish(errors);
    Some(GroupLimit { label: label?, max: max? })
}

fn failure(fields: &mut Fields<'_>, errors: &mut Errors) -> Option<FailureRule> {
    let path = fields.path("failure");
    let mut fields = Fields::of(&path, fields.take("failure")?, errors)?;
    let rule = FailureRule {
        max_nodes: fields.read("maxNodes", IntOrPercent::Int(0), errors, int_or_percent),
        max_restarts: fields.read("maxRestarts", None, errors, |value| {
            let number = value.as_u64().and_then(|number| u8::try_from(number).ok());
            let number = number.filter(|number| *number <= RESTARTS_MAX);
            number.map(Some).ok_or("must be a number from 0 to 100")
        }),
        ready_within: fields.read("readyWithin", None, errors, |value| {
            let duration = value.as_str().and_then(duration);
            let duration = duration.filter(|duration| *duration >= READY_WITHIN_MIN);
            duration.map(Some).ok_or("must be a duration of at least 30s, such as 10m")
        }),
        rollback_after: fields.read("rollbackAfter", None, errors, |value| {
            let duration = value.as_str().and_then(duration);
            duration.map(Some).ok_or("must be a duration such as 0s or 10m")
        }),
    };
    fields.finish(errors);
    Some(rule)
}

/// Keys are sorted, so that only another content has another hash.
fn steps_hash(steps: &[Value]) -> Arc<str> {
    let text = serde_json::to_string(steps).expect("all keys are strings");
    revision_hash(&text, None).as_str().into()
}

fn step(path: &str, value: &Value, errors: &mut Errors) -> Option<RolloutStep> {
    let mut fields = Fields::of(path, value, errors)?;
    if !fields.has("name") {
        errors.required(&fields.path("name"));
    }
    let step = RolloutStep {
        name: fields.read("name", "".into(), errors, dns_label),
        nodes: fields.selector("nodes", LabelSelector::default(), errors),
        by: fields.read("by", None, errors, label_key),
        up_to: up_to(&mut fields, errors),
        bake: fields.read("bake", Duration::ZERO, errors, |value| {
            value.as_str().and_then(duration).ok_or("must be a duration such as 90s, 30m or 1h30m")
        }),
        checks: check::names(&mut fields, errors),
        approval: fields.bool("approval", errors),
    };
    fields.finish(errors);
    Some(step)
}

fn up_to(fields: &mut Fields<'_>, errors: &mut Errors) -> Vec<IntOrPercent> {
    let all = vec![IntOrPercent::Percent(100)];
    let path = fields.path("upTo");
    let Some(value) = fields.take("upTo") else { return all };
    let list = value.as_array().ok_or("must be a list of numbers or percentages");
    let Some(list) = errors.checked(&path, value, list) else { return all };
    if list.is_empty() || list.len() > SIZES_MAX {
        errors.invalid(&path, value, "must have 1 to 10 items");
    }
    let mut sizes: Vec<IntOrPercent> = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(size) = errors.checked(&path, value, int_or_percent(value)) else { continue };
        if sizes.iter().any(|before| !grows(*before, size)) {
            errors.invalid(&path, value, "must be greater than the items before");
        }
        sizes.push(size);
    }
    sizes
}

/// Whether the second is greater. A number and a percentage cannot be compared.
fn grows(before: IntOrPercent, size: IntOrPercent) -> bool {
    match (before, size) {
        (IntOrPercent::Int(before), IntOrPercent::Int(size))
        | (IntOrPercent::Percent(before), IntOrPercent::Percent(size)) => before < size,
        (IntOrPercent::Int(_), IntOrPercent::Percent(_))
        | (IntOrPercent::Percent(_), IntOrPercent::Int(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        };
        assert_eq!(policy.failure, Some(failure));
        let [canary, zones] = &policy.steps[..] else { panic!("two steps") };
        assert_eq!(canary.nodes.requirements.len(), 1);
        assert_eq!(canary.up_to.len(), 3);
        assert_eq!((canary.bake, canary.approval), (Duration::from_secs(90 * 60), true));
        assert_eq!(zones.by.as_deref(), Some("topology.kubernetes.io/zone"));
        assert_eq!(zones.up_to, [IntOrPercent::Percent(100)]);
        assert!(zones.nodes.is_empty() && !zones.has_wait());
        assert_eq!(&*policy.hold.requirements[0].key, HOLD_LABEL);
        let none = rollout_policy("{}").expect("a policy without steps");
        assert_eq!((none.paused, none.steps, none.max_unavailable), (false, Vec::new(), None));
    }

    /// G11: the hash changes with the content of the steps, and with nothing else.
    #[test]
    fn the_hash_is_that_of_the_steps() {
        let hash = |yaml: &str| rollout_policy(yaml).expect("a valid policy").steps_hash;
        let one = hash("steps: [{name: a, bake: 1m}]");
        assert_eq!(one, hash("{maxUnavailable: 3, steps: [{bake: 1m, name: a}]}"));
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
                "\"Is\" is not a valid label selector operator",
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
        let error = rollout_policy("{a: 1, b: 2}").expect_err("two unknown fields");
        assert_eq!(error, "a: unknown field; b: unknown field", "all errors are reported");
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
}
