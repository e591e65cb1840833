//! The table of docs/metrics.md is what the metrics say of themselves. `UPDATE_EXPECT=1` writes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{
    CheckKind, CheckVerdict, Course, DaemonSetKey, Position, RolloutPhase, RolloutReason,
    RolloutRecord, Timestamp,
};
use everynode_core::daemon_set::{RolloutStatus, SetAside, StateCounts, WaveStatus};
use everynode_core::plan::Transition;
use expect_test::expect_file;

use super::{
    DaemonSetFigures, Metrics, Outcome, ReasonLabels, ResourceLabels, TextFormat, WriteLabels,
};

const PAGE: &str = include_str!("../../../../docs/metrics.md");
const HEAD: &str = "| metric | kind | labels | meaning |\n|---|---|---|---|\n";

/// A metric as the exposition describes it.
#[derive(Default)]
struct Described<'a> {
    help: &'a str,
    kind: &'a str,
    /// The names of its labels; `None` without a sample.
    labels: Option<Vec<&'a str>>,
}

/// A guarded rollout of twelve nodes.
pub(super) fn state(reason: RolloutReason, phase: RolloutPhase) -> RolloutStatus {
    let since = Timestamp::from_seconds(1_700_000_000);
    let mut nodes = StateCounts { failed: 2, ..StateCounts::default() };
    nodes.set_aside[SetAside::Lost as usize] = 1;
    RolloutStatus {
        reason,
        overrides: BTreeMap::new(),
        message: "".into(),
        record: Some(Arc::new(RolloutRecord {
            phase,
            position: Position::AllNodes,
            began: since,
            since,
            approvals: Vec::new(),
            steps_hash: "".into(),
            order: None,
            reason: None,
            is_rolled_back: false,
            base: None,
            course: Course::default(),
        })),
        nodes,
        leaked_nodes: 1,
        wave: Some(WaveStatus {
            name: None,
            waves_before: 3,
            waves: 4,
            states: StateCounts { done: 4, waiting: 6, ..StateCounts::default() },
            bake_ends_at: None,
        }),
    }
}

/// All metrics, with a sample of each.
fn sampled() -> Metrics {
    let metrics = Metrics::new();
    let key = DaemonSetKey::new("kube-system", "agent");
    metrics.set_daemon_set(&key, &DaemonSetFigures::default());
    let overrides = BTreeMap::from([("big-7d9f8b6c5".into(), 3)]);
    let state = state(RolloutReason::Updating, RolloutPhase::Updating);
    metrics.set_rollout(&key, Some(&RolloutStatus { overrides, ..state }));
    metrics.count_transition(&Transition::WaveUpdated { wave: None });
    metrics.count_answer(&CheckKind::CronJob("smoke".into()), CheckVerdict::Passed);
    metrics.requests.observe("GET", "a:6443", Some(200), Duration::ZERO);
    let write = WriteLabels { verb: "create", resource: "pods", result: Outcome::success };
    metrics.writes.get_or_create(&write).inc();
    metrics.problems.get_or_create(&ReasonLabels { reason: "Undecodable" }).inc();
    metrics.watch_restarts.get_or_create(&ResourceLabels { resource: "pods" }).inc();
    metrics
}

/// The metrics of an exposition in the classic format, by name.
fn described(exposition: &str) -> BTreeMap<&str, Described<'_>> {
    let mut described = BTreeMap::<&str, Described<'_>>::new();
    for line in exposition.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                described.entry(name).or_default().help = help.trim_end_matches('.');
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                described.entry(name).or_default().kind = kind;
            }
            (Some(sample), ..) => {
                let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
                let ends = ["_bucket", "_sum", "_count"];
                let family = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
                let labels = labels.split(',').filter_map(|label| label.split_once('='));
                let labels = labels.map(|(label, _)| label).filter(|label| *label != "le");
                described.entry(family).or_default().labels.get_or_insert(labels.collect());
            }
            _ => {}
        }
    }
    described
}

#[cfg(target_os = "linux")]
#[test]
fn the_page_describes_every_metric() {
    let exposition = sampled().text(TextFormat::Classic).expect("metrics can be encoded");
    let mut rows = String::new();
    for (name, Described { help, kind, labels }) in described(&exposition) {
        let labels = labels.unwrap_or_else(|| panic!("{name} has no sample here"));
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = labels.join(", ");
        rows += &format!("| `{name}` | {kind} | {labels} | {help} |\n").replace("  ", " ");
    }
    let (before, rest) = PAGE.split_once(HEAD).expect("the page has the table");
    let (_, after) = rest.split_once("\n\n").expect("a paragraph follows the table");
    expect_file!["../../../../docs/metrics.md"]
        .assert_eq(&format!("{before}{HEAD}{rows}\n{after}"));
}
