//! `everynode rollout get`: where a guarded rollout is.

mod nodes;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use everynode_core::api::{CheckVerdict, DaemonSetKey, ReasonClass};
use everynode_insight::guarded::{CheckProgress, GuardedRollout, StepProgress, StepState};
use everynode_insight::names;
use everynode_insight::rollout::announced;
use everynode_insight::rollout_nodes::RolloutNodes;
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use serde_json::Value;

use super::attribution;
use crate::args::{DaemonSetName, OutputFormat, RolloutGetArguments};
use crate::clock;
use crate::cluster::{Cluster, Resource, parsed};
use crate::output::{self, TextLayout, Tone};
use crate::snapshot_source::{self, PodScope, RequiredData};

/// The width of a list of node names.
const NAMES_WIDTH: usize = 60;

/// Executes the command.
pub(super) async fn execute(arguments: RolloutGetArguments) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    let name = &arguments.daemon_set;
    let (snapshot, key) = read(&cluster, name).await?;
    snapshot.problems.iter().for_each(output::note);
    let rollout = GuardedRollout::of_snapshot(&snapshot, &key).map(|rollout| GuardedRollout {
        nodes: RolloutNodes::of(&snapshot, &key, clock::now(), arguments.nodes),
        ..rollout
    });
    let Some(rollout) = rollout else {
        bail!(
            "no policy guards the rollouts of daemonset {}/{name}; see docs/rollouts.md",
            cluster.namespace()
        );
    };
    let text = match arguments.output.output {
        Some(OutputFormat::Document(format)) => output::document(&rollout, format)?,
        Some(OutputFormat::Name) => format!("daemonset.apps/{name}\n"),
        Some(OutputFormat::Wide) | None => {
            text(&rollout, TextLayout::stdout(arguments.output.color.color))
        }
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the snapshot that the answer is made from.
async fn read(cluster: &Cluster, name: &DaemonSetName) -> anyhow::Result<(Snapshot, DaemonSetKey)> {
    let json = cluster.daemon_set_json(name).await?;
    let raw: Value = parsed(Resource::DaemonSets, json.get())?;
    let (pods, required) = (PodScope::OfDaemonSet, RequiredData::Nothing);
    let mut snapshot = snapshot_source::from_cluster(cluster, &raw, pods, required).await?;
    snapshot.add(ObjectKind::DaemonSet, json.get().as_bytes());
    Ok((snapshot, snapshot_source::key(&raw)))
}

fn text(rollout: &GuardedRollout, layout: TextLayout) -> String {
    let GuardedRollout { namespace, name, .. } = rollout;
    let stated = match rollout.reason {
        None => "no controller has stated anything yet".to_owned(),
        Some(reason) => format!("{}: {}", reason.as_str(), rollout.message),
    };
    let mut text =
        format!("daemonset {namespace}/{name}: {}\n", layout.paint(tone(rollout), &stated));
    let _ = writeln!(text, "policy: {}", rollout.policy.as_deref().unwrap_or("none"));
    let _ = writeln!(text, "{}", rollout.revisions_text());
    let has_checks = !rollout.checks.is_empty();
    let rows = rollout.steps.iter().map(|step| {
        let nodes = if step.nodes.is_empty() { "all".to_owned() } else { step.nodes.clone() };
        let bake = match step.bake_seconds {
            0 => "-".to_owned(),
            seconds => output::age(i64::try_from(seconds).unwrap_or(i64::MAX)),
        };
        let approval = if step.approval { "yes" } else { "-" };
        let state = match (step.state, &rollout.wave) {
            (StepState::Current, Some(wave)) => (Tone::Waiting, format!("at {wave}")),
            (StepState::Current, None) => (Tone::Waiting, step.state.to_string()),
            (StepState::Done, _) => (Tone::Good, step.state.to_string()),
            (StepState::Ahead, _) => (Tone::Faint, step.state.to_string()),
        };
        let checks = match &step.checks[..] {
            [] => "-".to_owned(),
            checks => checks.join(", "),
        };
        let checks = has_checks.then_some((Tone::Plain, checks));
        let cells = [
            (Tone::Plain, step.name.clone()),
            state,
            (Tone::Plain, nodes),
            (Tone::Plain, divided(step)),
            (Tone::Plain, step.up_to.join(", ")),
            (Tone::Plain, bake),
            (Tone::Plain, approval.to_owned()),
        ];
        cells.into_iter().chain(checks).collect()
    });
    let rows: Vec<_> = rows.collect();
    let mut headings = vec!["STEP", "STATE", "NODES", "BY", "UP TO", "BAKE", "APPROVAL"];
    headings.extend(has_checks.then_some("CHECKS"));
    if !rows.is_empty() {
        let _ = write!(text, "\n{}", output::table(layout, &headings, &rows));
    }
    text += &of_pods(rollout, layout);
    if let Some(nodes) = &rollout.nodes {
        let _ = write!(text, "\n{}", nodes::text(nodes, layout));
    }
    if has_checks {
        let rows: Vec<_> = rollout.checks.iter().map(check_row).collect();
        let headings = ["CHECK", "EVERY", "ANSWER", "ASKED", "TEXT", "QUESTION"];
        let _ = write!(text, "\n{}", output::table(layout, &headings, &rows));
    }
    text += &attribution::orders(rollout, layout);
    if let Some(next) = &rollout.next {
        let _ = writeln!(text, "\n{}", layout.paint(Tone::Plain, &announced(next)));
    }
    text
}

/// The differences of pods from the template: overrides, and copies of ConfigMaps.
fn of_pods(rollout: &GuardedRollout, layout: TextLayout) -> String {
    let overrides = rollout.overrides.iter().map(|it| {
        let names = names::shortened(it.nodes.iter().map(String::as_str), NAMES_WIDTH);
        let count = it.nodes.len().to_string();
        [it.tag.clone(), count, names].map(|cell| (Tone::Plain, cell)).to_vec()
    });
    let config_maps = rollout.config_maps.iter().map(|it| {
        let copy = |of: &Option<String>| of.clone().unwrap_or_else(|| "-".to_owned());
        let tone = if it.copy == it.base { Tone::Plain } else { Tone::Waiting };
        vec![(Tone::Plain, it.name.clone()), (tone, copy(&it.copy)), (Tone::Plain, copy(&it.base))]
    });
    let tables = [
        (["OVERRIDE", "NODES", "WHICH"], overrides.collect::<Vec<_>>()),
        (["CONFIGMAP", "COPY", "COMPLETED BEFORE"], config_maps.collect()),
    ];
    let shown = tables.into_iter().filter(|(_, rows)| !rows.is_empty());
    shown.map(|(heads, rows)| format!("\n{}", output::table(layout, &heads, &rows))).collect()
}

/// The label that divides the nodes of a step.
fn divided(step: &StepProgress) -> String {
    let each = step.each.as_ref().map(|each| format!("each {each}"));
    step.by.clone().or(each).unwrap_or_else(|| "-".to_owned())
}

fn check_row(check: &CheckProgress) -> Vec<(Tone, String)> {
    let interval = output::age(i64::try_from(check.interval_seconds).unwrap_or(i64::MAX));
    let (answer, asked, text) = match &check.last {
        None => ((Tone::Faint, "-".to_owned()), "-", "-"),
        Some(last) => (answer_cell(last.answer), &*last.asked, &*last.text),
    };
    let plain = |text: &str| (Tone::Plain, text.to_owned());
    vec![
        plain(&check.name),
        plain(&interval),
        answer,
        plain(asked),
        plain(text),
        plain(&check.question),
    ]
}

/// An answer to a check in its colour.
pub(super) fn answer_cell(verdict: CheckVerdict) -> (Tone, String) {
    let tone = match verdict {
        CheckVerdict::Passed => Tone::Good,
        CheckVerdict::Failed => Tone::Bad,
        CheckVerdict::Unknown => Tone::Waiting,
    };
    (tone, verdict.as_str().to_owned())
}

fn tone(rollout: &GuardedRollout) -> Tone {
    match rollout.reason {
        Some(reason) if reason.class() == ReasonClass::Complete => Tone::Good,
        Some(reason) if reason.is_stalled() => Tone::Bad,
        Some(_) | None => Tone::Waiting,
    }
}
