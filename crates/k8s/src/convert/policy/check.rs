//! The checks of a rollout policy (G5, G24). The definitions of policies refuse the same values.

use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{CheckKind, Decimal, RolloutCheck, RolloutStep};
use serde_json::Value;

use super::fields::{Errors, Fields};
use super::value::{dns_label, duration};
use crate::convert::label::is_subdomain;

const CHECKS_MAX: usize = 16;
const INTERVAL_MIN: Duration = Duration::from_secs(1);
const INTERVAL_DEFAULT: Duration = Duration::from_secs(30);
const FAILURES_MAX: u8 = 100;
const FAILURES_DEFAULT: u8 = 3;
const URL_LENGTH_MAX: usize = 2048;
const QUERY_LENGTH_MAX: usize = 4096;
const BOUND_LENGTH_MAX: usize = 32;
/// The names of CronJobs are limited, so that those of their Jobs fit.
const CRON_JOB_LENGTH_MAX: usize = 52;

/// Decodes `checks` of a policy.
pub(super) fn checks(fields: &mut Fields<'_>, errors: &mut Errors) -> Vec<RolloutCheck> {
    let mut checks: Vec<RolloutCheck> = Vec::new();
    for (path, value) in fields.list("checks", CHECKS_MAX, errors) {
        let Some(check) = check(&path, value, errors) else { continue };
        if checks.iter().any(|other| other.name == check.name) {
            errors.duplicate(&format!("{path}.name"), &check.name);
        }
        checks.push(check);
    }
    checks
}

/// Decodes `checks` of a step.
pub(super) fn names(fields: &mut Fields<'_>, errors: &mut Errors) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for (path, value) in fields.list("checks", CHECKS_MAX, errors) {
        match value.as_str() {
            None => errors.invalid(&path, value, "must be the name of a check"),
            Some(name) if names.iter().any(|known| **known == *name) => {
                errors.duplicate(&path, name);
            }
            Some(name) => names.push(name.into()),
        }
    }
    names
}

/// Reports the names in steps of which the policy has no check.
pub(super) fn check_names(
    path: &str,
    steps: &[RolloutStep],
    checks: &[RolloutCheck],
    errors: &mut Errors,
) {
    for (index, step) in steps.iter().enumerate() {
        let is_missing = |name: &&Arc<str>| !checks.iter().any(|check| check.name == **name);
        for name in step.checks.iter().filter(is_missing) {
            let value = Value::from(&**name);
            let why = "must be the name of one of the policy's checks";
            errors.invalid(&format!("{path}[{index}].checks"), &value, why);
        }
    }
}

fn check(path: &str, value: &Value, errors: &mut Errors) -> Option<RolloutCheck> {
    let mut fields = Fields::of(path, value, errors)?;
    if !fields.has("name") {
        errors.required(&fields.path("name"));
    }
    let name = fields.read("name", "".into(), errors, dns_label);
    let interval = fields.read("interval", INTERVAL_DEFAULT, errors, |value| {
        let duration = value.as_str().and_then(duration);
        let duration = duration.filter(|duration| *duration >= INTERVAL_MIN);
        duration.ok_or("must be a duration of at least 1s, such as 30s")
    });
    let has_failures = fields.has("failures");
    let mut failures = fields.read("failures", FAILURES_DEFAULT, errors, |value| {
        let number = value.as_u64().and_then(|number| u8::try_from(number).ok());
        let number = number.filter(|number| (1..=FAILURES_MAX).contains(number));
        number.ok_or("must be a number from 1 to 100")
    });
    let of_kind =
        [http(&mut fields, errors), prometheus(&mut fields, errors), job(&mut fields, errors)];
    let mut given = of_kind.into_iter().flatten();
    let kind = match (given.next(), given.next()) {
        (Some(kind), None) => kind,
        (None, _) | (Some(_), Some(_)) => {
            let why = "exactly one of http, prometheus and cronJob is required";
            errors.invalid(path, value, why);
            return None;
        }
    };
    if matches!(kind, Some(CheckKind::CronJob { .. })) {
        if has_failures {
            let why = "must not be set for a cronJob, which gives one answer";
            errors.invalid(&fields.path("failures"), &value["failures"], why);
        }
        failures = 1;
    }
    fields.finish(errors);
    Some(RolloutCheck { name, interval, failures, kind: kind? })
}

/// Decodes `http`. The outer option says whether there is one, the inner one whether it is valid.
fn http(fields: &mut Fields<'_>, errors: &mut Errors) -> Option<Option<CheckKind>> {
    let value = fields.take("http")?;
    let path = fields.path("http");
    let Some(mut fields) = Fields::of(&path, value, errors) else { return Some(None) };
    let url = required(&mut fields, "url", errors, |value| url(value, true));
    fields.finish(errors);
    Some(url.map(|url| CheckKind::Http { url }))
}

/// Decodes `prometheus` in the same way.
fn prometheus(fields: &mut Fields<'_>, errors: &mut Errors) -> Option<Option<CheckKind>> {
    let value = fields.take("prometheus")?;
    let path = fields.path("prometheus");
    let Some(mut fields) = Fields::of(&path, value, errors) else { return Some(None) };
    let url = required(&mut fields, "url", errors, |value| url(value, false));
    let query = required(&mut fields, "query", errors, |value| {
        let query = value.as_str().filter(|query| !query.is_empty());
        let query = query.filter(|query| query.chars().count() <= QUERY_LENGTH_MAX);
        query.map(Arc::from).ok_or("must be a query of at most 4096 characters")
    });
    let has_bound = fields.has("min") | fields.has("max");
    let min = fields.read("min", None, errors, bound);
    let max = fields.read("max", None, errors, bound);
    if !has_bound {
        errors.invalid(&path, value, "at least one of min and max is required");
    }
    if let (Some(min), Some(max)) = (&min, &max)
        && min.as_f64() > max.as_f64()
    {
        errors.invalid(&path, value, "min must not be greater than max");
    }
    fields.finish(errors);
    let kind = url.zip(query);
    Some(kind.map(|(url, query)| CheckKind::Prometheus { url, query, min, max }))
}

/// Decodes `cronJob` in the same way.
fn job(fields: &mut Fields<'_>, errors: &mut Errors) -> Option<Option<CheckKind>> {
    let name = fields.has("cronJob").then_some(None)?;
    Some(fields.read("cronJob", name, errors, |value| {
        let name = value.as_str().filter(|name| name.len() <= CRON_JOB_LENGTH_MAX);
        let name = name.filter(|name| is_subdomain(name));
        let name = name.ok_or("must be the name of a CronJob, of at most 52 characters")?;
        Ok(Some(CheckKind::CronJob { name: name.into() }))
    }))
}

fn required(
    fields: &mut Fields<'_>,
    key: &'static str,
    errors: &mut Errors,
    decode: impl FnOnce(&Value) -> Result<Arc<str>, &'static str>,
) -> Option<Arc<str>> {
    if !fields.has(key) {
        errors.required(&fields.path(key));
    }
    fields.read(key, None, errors, |value| decode(value).map(Some))
}

fn bound(value: &Value) -> Result<Option<Decimal>, &'static str> {
    let text = value.as_str().filter(|text| text.len() <= BOUND_LENGTH_MAX);
    let number = text.and_then(Decimal::parse);
    number.map(Some).ok_or("must be a decimal number as text, such as \"0.01\"")
}

/// Checks a URL: http or https, a host, perhaps a port, a path, and where it is allowed a query.
fn url(value: &Value, allows_query: bool) -> Result<Arc<str>, &'static str> {
    let form = "must be a URL such as http://host:9090/path, of at most 2048 characters";
    let url = value.as_str().filter(|url| url.len() <= URL_LENGTH_MAX).ok_or(form)?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let rest = rest.ok_or("must begin with http:// or https://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    match () {
        () if authority.contains('@') => Err("must not contain credentials"),
        () if path.contains('#') => Err("must not have a fragment"),
        () if path.contains('?') && !allows_query => Err("must not have a query of its own"),
        () if !is_authority(authority) || !path.bytes().all(is_of_path) => Err(form),
        () => Ok(url.into()),
    }
}

fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((address, port)) => {
            let is_address = |byte: u8| byte.is_ascii_hexdigit() || b":.".contains(&byte);
            (!address.is_empty() && address.bytes().all(is_address), port)
        }
        None => {
            let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (is_host(host), port)
        }
    };
    let is_port = |port: &str| {
        !port.starts_with('0')
            && port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok()
    };
    host && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

fn is_host(text: &str) -> bool {
    let ends = text.bytes().next().zip(text.bytes().next_back());
    ends.is_some_and(|(first, last)| first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The characters of a path and a query by RFC 3986.
const fn is_of_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b':'
                | b'/'
                | b'?'
                | b'@'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b'%'
        )
}

#[cfg(test)]
mod tests {
    use super::super::rollout_policy;
    use super::*;

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
        assert!(first.has_wait() && second.checks.is_empty() && !second.has_wait());
        let named: Vec<&str> = policy.checks_of(first).map(|check| &*check.name).collect();
        assert_eq!(named, ["gate", "errors"]);
        let [errors, gate, smoke] = &policy.checks[..] else { panic!("three checks") };
        assert_eq!((errors.interval, errors.failures), (Duration::from_secs(60), 5));
        let CheckKind::Prometheus { max: Some(max), min: Some(min), .. } = &errors.kind else {
            panic!("{errors:?}");
        };
        assert_eq!((min.as_f64(), max.as_f64()), (-1.0, 0.01));
        assert_eq!((gate.interval, gate.failures), (INTERVAL_DEFAULT, FAILURES_DEFAULT));
        assert_eq!((smoke.failures, smoke.is_job()), (1, true));
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
            (
                "{name: a, failures: 2, cronJob: b}",
                "checks[0].failures: Invalid value: 2: must not",
            ),
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
            let policy = format!(
                "{{steps: [{{name: s, checks: {step}}}], checks: [{{name: a, cronJob: b}}]}}"
            );
            let error = rollout_policy(&policy).expect_err(step);
            assert!(error.contains(expected), "{step}: {error}");
        }
    }
}
