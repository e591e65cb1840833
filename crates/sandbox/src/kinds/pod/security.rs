//! Validates the security contexts of pods and containers.

use std::collections::HashSet;

use crate::json::Value;

use crate::format;
use crate::kind::rules::{Causes, Field, go_json, go_quote};

const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const APP_ARMOR_PROFILE_BYTES_MAX: usize = 4095;

pub(super) fn pod_security_context(spec: &Field, causes: &mut Causes) {
    let context = spec.child("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        unix_id(&context.child(name), causes);
    }
    for group in context.child("supplementalGroups").items() {
        unix_id(&group, causes);
    }
    // shareProcessNamespace is in the spec, but upstream reports it in the security context.
    let share = context.child("shareProcessNamespace");
    let share = share.with_value(spec.child("shareProcessNamespace").value());
    if share.is_true() && spec.child("hostPID").is_true() {
        causes.invalid(&share, "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    sysctls(spec, &context.child("sysctls"), causes);
    causes.optional_choice(&context.child("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    seccomp_profile(&context.child("seccompProfile"), causes);
    app_armor_profile(&context.child("appArmorProfile"), causes);
    causes.optional_choice(&context.child("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    causes.optional_choice(&context.child("seLinuxChangePolicy"), &["MountOption", "Recursive"]);
}

pub(super) fn security_context(context: &Field, host_users: bool, causes: &mut Causes) {
    for name in ["runAsUser", "runAsGroup"] {
        unix_id(&context.child(name), causes);
    }
    let proc_mount = context.child("procMount");
    causes.optional_choice(&proc_mount, &["Default", "Unmasked"]);
    if host_users && proc_mount.text() == "Unmasked" {
        causes.invalid(&proc_mount, "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp_profile(&context.child("seccompProfile"), causes);
    if context.child("allowPrivilegeEscalation").value() == &Value::Bool(false) {
        no_escalation(context, causes);
    }
    app_armor_profile(&context.child("appArmorProfile"), causes);
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

fn sysctls(spec: &Field, sysctls: &Field, causes: &mut Causes) {
    let mut seen: HashSet<String> = HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.child("name");
        let text = name.text();
        if text.is_empty() {
            causes.required(&name, "");
        } else if !format::is_sysctl(text) {
            causes.invalid(
                &name,
                "must have at most 253 characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            );
        } else if !seen.insert(text.to_owned()) {
            causes.duplicate(&name);
        }
        let dotted = text.replace('/', ".");
        if spec.child("hostNetwork").is_true() && dotted.starts_with("net.") {
            causes.invalid_text(&name, text, "may not be specified when 'hostNetwork' is true");
        }
        let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."]
            .iter()
            .any(|prefix| dotted.starts_with(prefix));
        if spec.child("hostIPC").is_true() && (ipc || dotted == "kernel.sem") {
            causes.invalid_text(&name, text, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn seccomp_profile(profile: &Field, causes: &mut Causes) {
    if !profile.is_set() {
        return;
    }
    let (profile_type, localhost) = (profile.child("type"), profile.child("localhostProfile"));
    match profile_type.text() {
        "" => causes.required(&profile_type, "type is required when seccompProfile is set"),
        text if PROFILE_TYPES.contains(&text) => {}
        _ => causes.not_supported(&profile_type, &PROFILE_TYPES),
    }
    match (profile_type.text() == "Localhost", localhost.is_set()) {
        (true, false) => causes.required(&localhost, "must be set when seccomp type is Localhost"),
        (true, true) => causes.invalid_each(&localhost, format::descending_path(localhost.text())),
        (false, true) => {
            let value = format!(
                "{{\"Type\":{},\"LocalhostProfile\":{}}}",
                go_quote(profile_type.text()),
                go_quote(localhost.text())
            );
            causes.invalid_rendered(
                &localhost,
                value,
                "can only be set when seccomp type is Localhost",
            );
        }
        (false, false) => {}
    }
}

fn app_armor_profile(profile: &Field, causes: &mut Causes) {
    if !profile.is_set() {
        return;
    }
    let (profile_type, localhost) = (profile.child("type"), profile.child("localhostProfile"));
    let missing = "must be set when AppArmor type is Localhost";
    match profile_type.text() {
        "Localhost" if !localhost.is_set() => causes.required(&localhost, missing),
        "Localhost" => {
            let text = localhost.text();
            if text.trim() != text {
                causes.invalid(&localhost, "must not be padded with whitespace");
            } else if text.is_empty() {
                causes.required(&localhost, missing);
            }
            if text.len() > APP_ARMOR_PROFILE_BYTES_MAX {
                causes.too_long(&localhost, APP_ARMOR_PROFILE_BYTES_MAX);
            }
        }
        "RuntimeDefault" | "Unconfined" if localhost.is_set() => {
            causes.invalid(&localhost, "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => causes.required(&profile_type, "type is required when appArmorProfile is set"),
        _ => causes.not_supported(&profile_type, &PROFILE_TYPES),
    }
}
