//! Checks of a policy.

use std::time::Duration;

use everynode_core::api::CheckKind;

use super::super::rollout_policy;

/// G5: checks are read with their defaults, and steps name them.
#[test]
fn checks_are_read() {
    let policy = rollout_policy(
        "steps: [{name: a, checks: [gate, errors]}, {name: b}]\nchecks:\n- {name: errors, \
         interval: 1m, failures: 5, prometheus: {url: 'http://prometheus.monitoring:9090', \
         query: 'sum(rate(e[1m]))', max: '0.01', min: '-1'}}\n- {name: gate, http: {url: \
         'https://[2001:db8::1]:8443/ok?a=b'}}\n- {name: smoke, cronJob: smoke-test}\n",
    )
    .expect("a valid policy");
    let [first, second] = &policy.steps[..] else { panic!("two steps") };
    assert!(!first.wait.is_nothing() && second.wait.is_nothing());
    let named: Vec<&str> = policy.checks_of(&first.wait).map(|check| &*check.name).collect();
    assert_eq!(named, ["gate", "errors"]);
    let [errors, gate, smoke] = &policy.checks[..] else { panic!("three checks") };
    assert_eq!((errors.interval, errors.failures), (Duration::from_secs(60), 5));
    let CheckKind::Prometheus { max: Some(max), min: Some(min), .. } = &errors.kind else {
        panic!("{errors:?}");
    };
    assert_eq!((min.as_f64(), max.as_f64()), (-1.0, 0.01));
    assert_eq!((gate.interval, gate.failures), (Duration::from_secs(30), 3));
    assert_eq!((smoke.failures_needed(), smoke.is_job()), (1, true));
}

/// G5, G24: each value that is wrong gives an error that names the field.
#[test]
fn an_error_names_the_field() {
    for (check, expected) in [
        ("{name: a}", "checks[0]: Invalid value: {\"name\":\"a\"}: exactly one of http,"),
        ("{name: a, cronJob: b, http: {url: 'http://a'}}", "checks[0]: Invalid value"),
        ("{cronJob: b}", "checks[0].name: Required value"),
        ("{name: A, cronJob: b}", "checks[0].name: Invalid value: \"A\""),
        ("{name: a, cronJob: b}, {name: a, cronJob: c}", "checks[1].name: Duplicate value"),
        ("{name: a, interval: 999ms, cronJob: b}", "checks[0].interval: Invalid value"),
        ("{name: a, failures: 0, http: {url: 'http://a'}}", "checks[0].failures: Invalid"),
        ("{name: a, failures: 2, cronJob: b}", "checks[0].failures: Invalid value: 2: must not"),
        ("{name: a, cronJob: B}", "checks[0].cronJob: Invalid value: \"B\""),
        ("{name: a, http: {}}", "checks[0].http.url: Required value"),
        ("{name: a, http: {uri: a}}", "checks[0].http.uri: unknown field"),
        ("{name: a, http: {url: 'ftp://a'}}", "checks[0].http.url: Invalid value: \"ftp://a\""),
        ("{name: a, http: {url: 'http://u:p@a'}}", "must not contain credentials"),
        ("{name: a, http: {url: 'http://a/#b'}}", "must not have a fragment"),
        ("{name: a, http: {url: 'http://a:70000'}}", "must be a URL such as"),
        ("{name: a, http: {url: 'http://a b'}}", "must be a URL such as"),
        ("{name: a, http: {url: 'http://'}}", "must be a URL such as"),
        (
            "{name: a, prometheus: {url: 'http://a', query: q}}",
            "checks[0].prometheus: Invalid value: {\"query\":\"q\",\"url\":\"http://a\"}: at",
        ),
        (
            "{name: a, prometheus: {url: 'http://a', query: q, max: 0.1}}",
            "checks[0].prometheus.max: Invalid value: 0.1: must be a decimal number as text",
        ),
        (
            "{name: a, prometheus: {url: 'http://a', query: q, max: '1', min: '2'}}",
            "min must not be greater than max",
        ),
        (
            "{name: a, prometheus: {url: 'http://a?b=c', query: q, max: '1'}}",
            "must not have a query of its own",
        ),
        ("{name: a, prometheus: {url: 'http://a', query: '', max: '1'}}", ".query: Invalid"),
    ] {
        let error = rollout_policy(&format!("checks: [{check}]")).expect_err(check);
        assert!(error.contains(expected), "{check}: {error}");
    }
    for (step, expected) in [
        ("[b]", "steps[0].checks: Invalid value: \"b\": must be the name of one of the"),
        ("[a, a]", "steps[0].checks[1]: Duplicate value: \"a\""),
        ("[3]", "steps[0].checks[0]: Invalid value: 3: must be the name of a check"),
        ("a", "steps[0].checks: Invalid value: \"a\": must be a list"),
    ] {
        let policy =
            format!("{{steps: [{{name: s, checks: {step}}}], checks: [{{name: a, cronJob: b}}]}}");
        let error = rollout_policy(&policy).expect_err(step);
        assert!(error.contains(expected), "{step}: {error}");
    }
}
