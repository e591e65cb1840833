//! The health check for Argo CD under deploy/. Tests of guarded rollouts ask it about the
//! DaemonSets that they make; these need no cluster. `EVERYNODE_UPDATE=replace` writes its table of
//! reasons.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use everynode_core::api::{ReasonClass, RolloutReason};
use serde_json::{Value, json};

use crate::world::argo_cd::health;

/// The status counts of a DaemonSet: observed generation (its generation is 2), and of 3 pods the
/// updated and the available ones.
type Counts = (i64, i64, i64);

const DONE: Counts = (2, 3, 3);
const ROLLING: Counts = (2, 1, 2);

fn daemon_set(strategy: &str, (observed, updated, available): Counts, reason: &str) -> Value {
    let condition = |kind: &str| json!({"type": kind, "reason": reason, "message": "why"});
    let mut object = json!({
        "metadata": {"name": "agent", "generation": 2},
        "spec": {"updateStrategy": {"type": strategy}},
        "status": {"observedGeneration": observed, "desiredNumberScheduled": 3,
            "updatedNumberScheduled": updated, "numberAvailable": available},
    });
    if !reason.is_empty() {
        object["status"]["conditions"] = json!([condition("Other"), condition("Progressing")]);
    }
    object
}

/// G21: each state of a guarded or paused rollout has its health; without the conditions the answer
/// is that of Argo CD's own check
#[test]
fn each_state_has_its_health() -> Result<()> {
    let updating = "Waiting for daemon set agent rollout to finish: 1 out of 3 new pods have been \
                    updated";
    let unavailable =
        "Waiting for daemon set agent rollout to finish: 2 of 3 updated pods are available";
    let unobserved = "Waiting for daemon set agent rollout to finish: its latest spec has not been \
                      observed yet";
    for (strategy, counts, reason, status, message) in [
        ("RollingUpdate", DONE, "", "Healthy", ""),
        ("RollingUpdate", ROLLING, "", "Progressing", updating),
        ("RollingUpdate", (2, 3, 2), "", "Progressing", unavailable),
        ("RollingUpdate", (1, 3, 3), "", "Progressing", unobserved),
        ("OnDelete", ROLLING, "", "Healthy", "1 out of 3 new pods have been updated"),
        ("OnDelete", (1, 1, 1), "", "Progressing", unobserved),
        ("RollingUpdate", ROLLING, "Updating", "Progressing", "Updating: why"),
        ("RollingUpdate", ROLLING, "Baking", "Progressing", "Baking: why"),
        ("RollingUpdate", ROLLING, "AwaitingChecks", "Progressing", "AwaitingChecks: why"),
        ("OnDelete", ROLLING, "AwaitingApproval", "Suspended", "AwaitingApproval: why"),
        ("RollingUpdate", ROLLING, "Paused", "Suspended", "Paused: why"),
        ("RollingUpdate", ROLLING, "RollingBack", "Degraded", "RollingBack: why"),
        ("RollingUpdate", ROLLING, "Failed", "Degraded", "Failed: why"),
        ("OnDelete", ROLLING, "InvalidPolicy", "Degraded", "InvalidPolicy: why"),
        ("OnDelete", ROLLING, "InvalidRecord", "Degraded", "InvalidRecord: why"),
        ("RollingUpdate", DONE, "Complete", "Healthy", ""),
        ("RollingUpdate", (2, 3, 2), "Complete", "Progressing", unavailable),
        ("RollingUpdate", (1, 3, 3), "Failed", "Progressing", unobserved),
        ("RollingUpdate", DONE, "OfSomebodyElse", "Healthy", ""),
    ] {
        let found = health(&daemon_set(strategy, counts, reason))?;
        ensure!(
            found.status == status && found.message == message,
            "{strategy} {counts:?} {reason}: {found:?}"
        );
    }
    let new = json!({"metadata": {"name": "agent", "generation": 1}, "spec": {}});
    ensure!(health(&new)?.status == "Progressing", "a DaemonSet without a status");
    Ok(())
}

/// G21: the check knows the health of each reason, which follows from its class.
#[test]
fn each_reason_has_the_health_of_its_class() -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/argocd/health-daemonset.yaml");
    let text = std::fs::read_to_string(&path)?;
    let (before, rest) = text.split_once("    local health_of = {\n").context("no table")?;
    let (table, after) = rest.split_once("    }\n").context("the table has no end")?;
    let rows = RolloutReason::ALL.into_iter().filter_map(|reason| {
        Some(format!("      {} = \"{}\",\n", reason.as_str(), health_of(reason)?))
    });
    let expected: String = rows.collect();
    if std::env::var_os("EVERYNODE_UPDATE").is_some() {
        std::fs::write(
            path,
            format!("{before}    local health_of = {{\n{expected}    }}\n{after}"),
        )?;
    } else {
        ensure!(table == expected, "out of date: run this with EVERYNODE_UPDATE=replace");
    }
    Ok(())
}

/// `None` where Argo CD's own check answers.
fn health_of(reason: RolloutReason) -> Option<&'static str> {
    match reason.class() {
        ReasonClass::NotGuarded => (reason == RolloutReason::Paused).then_some("Suspended"),
        ReasonClass::WaitsForNodes | ReasonClass::WaitsForTime | ReasonClass::WaitsForChecks => {
            Some("Progressing")
        }
        ReasonClass::WaitsForWindow
        | ReasonClass::WaitsForApproval
        | ReasonClass::WaitsForPerson => Some("Suspended"),
        ReasonClass::Stuck
        | ReasonClass::RollsBack
        | ReasonClass::Invalid
        | ReasonClass::Failed => Some("Degraded"),
        ReasonClass::Complete => None,
    }
}
