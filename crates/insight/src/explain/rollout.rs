//! How far the rollout is, and what it is waiting for.

use everynode_core::api::{Budget, NodeName, UpdateStrategy};
use everynode_core::daemon_set::Step;
use everynode_core::plan::Write;

use super::{Finding, View};
use crate::names;

pub(super) fn waits_for(view: &View<'_>, findings: &[(&NodeName, Finding)]) -> String {
    let tally = view.tally();
    if !view.is_applied() {
        return "not applied yet".to_owned();
    }
    if !view.knows_revisions_of_pods() {
        return "how far a rollout is can't be told: pods or revisions were not read".to_owned();
    }
    let outdated = tally.current - tally.updated;
    if outdated == 0 {
        return match tally.desired - tally.available {
            0 => "nothing to roll out: every node that should has an available pod of the current revision"
                .to_owned(),
            missing => format!(
                "every pod is of the current revision; {missing} of {} nodes have none that is available",
                tally.desired
            ),
        };
    }
    let progress =
        format!("{} of {} nodes have the current revision", tally.updated, tally.desired);
    let strategy = view.daemon_set().update_strategy;
    let (option, nodes) = match (strategy, strategy.budget(tally.desired)) {
        (_, Some(Budget::Surge(nodes))) => ("maxSurge", nodes),
        (_, Some(Budget::Unavailable(nodes))) => ("maxUnavailable", nodes),
        (UpdateStrategy::OnDelete, None) => {
            return format!(
                "{progress}; with OnDelete the {outdated} other pods stay until someone deletes them"
            );
        }
        (UpdateStrategy::Malformed | UpdateStrategy::RollingUpdate { .. }, None) => {
            return format!("{progress}; updateStrategy is malformed");
        }
    };
    format!("{progress}; {}", hold_up(view, findings, option, nodes))
}

fn hold_up(
    view: &View<'_>,
    findings: &[(&NodeName, Finding)],
    name: &str,
    budget: usize,
) -> String {
    if view.plan.writes.iter().any(|write| matches!(write, Write::CreateRevision(_))) {
        return "the controller is about to store the new revision".to_owned();
    }
    let acts = |(node, _): &&(&NodeName, Finding)| {
        let is_here = |write: &Write| match write {
            Write::CreatePod(new) => new.node == **node,
            Write::DeletePod(pod) => pod.node.as_ref() == Some(*node),
            _ => false,
        };
        view.inspect(node).step != Step::None && view.plan.writes.iter().any(is_here)
    };
    let turn: Vec<&str> = findings.iter().filter(acts).map(|(node, _)| node.as_str()).collect();
    if !turn.is_empty() {
        return format!("next: {}", names::shortened(turn.iter().copied(), WIDTH));
    }
    let used = view.budget_used();
    let holders: Vec<&(&NodeName, Finding)> =
        findings.iter().filter(|(node, _)| view.inspect(node).uses_budget).collect();
    match holders.first() {
        None => "it goes on by itself".to_owned(),
        Some((node, finding)) => {
            let others = match holders.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            format!(
                "held up: {used} of {name} {budget} used up by {node} ({}){others}",
                finding.why
            )
        }
    }
}

const WIDTH: usize = 60;

/// `45s`, `3m20s`, `2h5m`: two units at most.
pub(crate) fn duration(seconds: u64) -> String {
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let units = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")];
    let first = units.iter().position(|(number, _)| *number > 0).unwrap_or(3);
    let shown = units[first..].iter().take(2).filter(|(number, _)| *number > 0);
    let text: String = shown.map(|(number, unit)| format!("{number}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units_at_most() {
        for (seconds, expected) in [
            (0, "0s"),
            (45, "45s"),
            (200, "3m20s"),
            (7500, "2h5m"),
            (86_400, "1d"),
            (90_061, "1d1h"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
