//! Validates the security contexts of pods and containers.

use crate::json::Value;

use crate::format;
use crate::kind::rules::{Causes, Field, go_json};

pub(super) fn pod_security_context(spec: &Field, causes: &mut Causes) {
    let context = spec.child("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        unix_id(&context.child(name), causes);
    }
    for group in context.child("supplementalGroups").items() {
        unix_id(&group, causes);
    }
    // shareProcessNamespace is in the spec, but upstream reports it in the security context.
    let at_context = context.with_value(spec.value());
    let share = at_context.child("shareProcessNamespace");
    if share.is_true() && spec.child("hostPID").is_true() {
        causes.invalid(&share, "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    causes.optional_choice(&context.child("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    profile(&context, "seccompProfile", "seccomp", causes);
    profile(&context, "appArmorProfile", "AppArmor", causes);
    causes.optional_choice(&context.child("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    causes.optional_choice(&context.child("seLinuxChangePolicy"), &["MountOption", "Recursive"]);
}

pub(super) fn security_context(context: &Field, causes: &mut Causes) {
    for name in ["runAsUser", "runAsGroup"] {
        unix_id(&context.child(name), causes);
    }
    causes.optional_choice(&context.child("procMount"), &["Default", "Unmasked"]);
    profile(context, "seccompProfile", "seccomp", causes);
    if context.child("allowPrivilegeEscalation").value() == &Value::Bool(false) {
        no_escalation(context, causes);
    }
    profile(context, "appArmorProfile", "AppArmor", causes);
}

fn no_escalation(context: &Field, causes: &mut Causes) {
    let mut conflict =
        |detail: &str| causes.invalid_rendered(context, go_json(context.value()), detail);
    if context.child("privileged").is_true() {
        conflict("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    if context
        .child("capabilities")
        .child("add")
        .items()
        .any(|capability| capability.text() == "CAP_SYS_ADMIN")
    {
        conflict(
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
        );
    }
}

fn unix_id(id: &Field, causes: &mut Causes) {
    if id.is_set() {
        causes.invalid_each(id, format::unix_id(id.int()));
    }
}

/// A profile of seccomp or AppArmor.
fn profile(context: &Field, name: &str, what: &str, causes: &mut Causes) {
    let profile = context.child(name);
    if !profile.is_set() {
        return;
    }
    let (of_type, localhost) = (profile.child("type"), profile.child("localhostProfile"));
    match of_type.text() {
        "" => causes.required(&of_type, &format!("type is required when {name} is set")),
        "Localhost" if localhost.text().is_empty() => {
            causes.required(&localhost, &format!("must be set when {what} type is Localhost"));
        }
        _ => causes.choice(&of_type, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}
