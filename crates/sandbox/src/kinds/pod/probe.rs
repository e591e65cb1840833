//! Validates probes and lifecycle hooks.

use crate::json::Value;

use crate::format;
use crate::kind::rules::metadata::nonnegative;
use crate::kind::rules::{Causes, Field, go_quote};

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// The three probes of a container.
pub(super) fn probes(container: &Field, grace_period: &Field, causes: &mut Causes) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.child(name);
        if !probe.is_set() {
            continue;
        }
        self::probe(&probe, grace_period, causes);
        let grace = probe.child("terminationGracePeriodSeconds");
        let threshold = probe.child("successThreshold");
        if name != "readinessProbe" && threshold.int() != 1 {
            causes.invalid_rendered(&threshold, threshold.int().to_string(), "must be 1");
        } else if name == "readinessProbe" && grace.is_set() {
            causes.invalid(&grace, "must not be set for readinessProbes");
        }
    }
}

pub(super) fn lifecycle(lifecycle: &Field, grace_period: &Field, causes: &mut Causes) {
    for name in ["postStart", "preStop"] {
        let hook = lifecycle.child(name);
        if hook.is_set() {
            handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace_period, causes);
        }
    }
}

fn probe(probe: &Field, grace_period: &Field, causes: &mut Causes) {
    handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace_period, causes);
    for name in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        nonnegative(&probe.child(name), causes);
    }
    let grace = probe.child("terminationGracePeriodSeconds");
    if grace.is_set() && grace.int() <= 0 {
        causes.invalid(&grace, "must be greater than 0");
    }
}

/// Exactly one handler of the `allowed` types.
fn handler(owner: &Field, allowed: &[&str], grace_period: &Field, causes: &mut Causes) {
    let mut found = false;
    for name in HANDLERS.into_iter().filter(|name| allowed.contains(name)) {
        let action = owner.child(name);
        if !action.is_set() {
            continue;
        }
        if found {
            causes.forbidden(&action, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match name {
            "exec" => {
                if action.child("command").is_empty() {
                    causes.required(&action.child("command"), "");
                }
            }
            "httpGet" => http_get(&action, causes),
            "sleep" => sleep(&action, grace_period, causes),
            _ => port(&action.child("port"), causes),
        }
    }
    if !found {
        causes.required(owner, "must specify a handler type");
    }
}

fn http_get(action: &Field, causes: &mut Causes) {
    let path = action.child("path");
    causes.required_text(&path);
    port(&action.child("port"), causes);
    let scheme = action.child("scheme");
    if !["HTTP", "HTTPS"].contains(&scheme.text()) {
        causes.not_supported_rendered(&scheme, go_quote(scheme.text()), &["HTTP", "HTTPS"]);
    }
    let headers = action.child("httpHeaders");
    for header in headers.items() {
        let name = header.child("name");
        causes.text_format(&headers, name.text(), format::http_header_name);
    }
}

/// A port, by number or by name.
fn port(port: &Field, causes: &mut Causes) {
    match port.value() {
        Value::String(name) => causes.invalid_each(port, format::port_name(name)),
        _ => {
            for message in format::port_number(port.int()) {
                causes.invalid_rendered(port, port.int().to_string(), &message);
            }
        }
    }
}

fn sleep(action: &Field, grace_period: &Field, causes: &mut Causes) {
    let seconds = action.child("seconds").int();
    let seconds_max = grace_period.int();
    if seconds < 0 || seconds > seconds_max {
        let detail = format!(
            "must be non-negative and less than terminationGracePeriodSeconds ({seconds_max})"
        );
        causes.invalid_rendered(action, seconds.to_string(), &detail);
    }
}
