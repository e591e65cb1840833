//! Forecasts as text.

use std::fmt::Write;

use everynode_insight::forecast::{Action, Change, DurationEstimate, Forecast, RiskKind};
use everynode_insight::{age::exact, names};
use serde_json::Value;

use crate::output::{self, TextLayout, Tone, table};

/// The width of a list of node names if the output is no terminal.
const NAMES_WIDTH: usize = 60;
/// The maximum number of waves shown; of more, the first ones and the last one.
const WAVES_MAX: usize = 12;
/// The maximum width of a value.
const VALUE_WIDTH: usize = 60;

/// The forecast as text. `wide` lists every node name.
pub(crate) fn forecast(forecast: &Forecast, layout: TextLayout, wide: bool) -> String {
    let formatter = Formatter { layout, wide };
    let Forecast { namespace, name, update_strategy, .. } = forecast;
    let title = layout.paint(Tone::Heading, &format!("daemonset {namespace}/{name}"));
    let action = match forecast.action {
        Action::Create => "would be created",
        Action::Change => "would change",
        Action::Nothing if forecast.is_nothing_to_do() => "would not change: nothing to do",
        Action::Nothing => "would get other overrides by its policy",
    };
    let mut text = format!("{title} {action} ({update_strategy})\n");
    for problem in &forecast.problems {
        let problem = layout.paint(Tone::Plain, problem);
        let _ = writeln!(text, "{} {problem}", layout.paint(Tone::Bad, "!"));
    }
    text += &formatter.changes(&forecast.changes);
    if !forecast.is_nothing_to_do() {
        text += &formatter.nodes(forecast);
        text += &formatter.waves(forecast);
        text += &formatter.overrides(forecast);
        text += &formatter.duration(forecast);
        text += &formatter.unfinished(forecast);
        text += &formatter.risks(forecast);
    }
    text
}

/// Formats the sections of a forecast.
struct Formatter {
    layout: TextLayout,
    wide: bool,
}

type Row = Vec<(Tone, String)>;

impl Formatter {
    /// A table after an empty line; nothing if there are no rows.
    fn section(&self, headings: &[&str], rows: &[Row]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        format!("\n{}", table(self.layout, headings, rows))
    }

    fn node_names(&self, nodes: &[String]) -> String {
        let nodes = nodes.iter().map(String::as_str);
        if self.wide {
            return names::compressed(nodes).join(", ");
        }
        let width = self.layout.width.map_or(NAMES_WIDTH, |width| usize::from(width) / 2);
        names::shortened(nodes, width)
    }

    fn changes(&self, changes: &[Change]) -> String {
        let rows: Vec<Row> = changes
            .iter()
            .map(|change| {
                let [from, to] = values(change);
                vec![(Tone::Plain, change.field.clone()), (Tone::Bad, from), (Tone::Good, to)]
            })
            .collect();
        self.section(&["FIELD", "FROM", "TO"], &rows)
    }

    fn nodes(&self, forecast: &Forecast) -> String {
        let Some(nodes) = &forecast.nodes else { return String::new() };
        let sides = [
            (Tone::Good, "get a pod", &nodes.gain),
            (Tone::Bad, "lose their pod", &nodes.lose),
            (Tone::Waiting, "get a new pod", &nodes.replace),
            (Tone::Waiting, "have their pod changed in place", &nodes.change_in_place),
            (Tone::Plain, "keep their pod", &nodes.keep),
        ];
        let mut rows: Vec<Row> = sides
            .into_iter()
            .filter(|(_, _, nodes)| !nodes.is_empty())
            .map(|(tone, what, nodes)| {
                vec![
                    (Tone::Plain, nodes.len().to_string()),
                    (tone, what.to_owned()),
                    (Tone::Names, self.node_names(nodes)),
                ]
            })
            .collect();
        if nodes.without > 0 {
            let count = (Tone::Faint, nodes.without.to_string());
            let what = (Tone::Faint, "have no pod before and after".to_owned());
            rows.push(vec![count, what, (Tone::Plain, String::new())]);
        }
        self.section(&["NODES", "WHAT", "WHICH"], &rows)
    }

    /// The waves of the policy, or without one the nodes whose pods are replaced at the same time.
    fn waves(&self, forecast: &Forecast) -> String {
        let starts = |seconds| match &forecast.duration {
            Some(_) => (Tone::Faint, format!("+{}", exact(seconds))),
            None => (Tone::Faint, String::new()),
        };
        let nodes = |nodes: &[String]| {
            [(Tone::Plain, nodes.len().to_string()), (Tone::Names, self.node_names(nodes))]
        };
        if forecast.guarded_waves.is_empty() {
            let waves = forecast.waves.iter().enumerate();
            let rows = waves.map(|(index, wave)| {
                let [count, names] = nodes(&wave.nodes);
                let number = (Tone::Plain, (index + 1).to_string());
                vec![number, starts(wave.starts_after_seconds), count, names]
            });
            return self.section(&["WAVE", "STARTS", "NODES", "WHICH"], &abbreviated(rows));
        }
        let has_checks = forecast.guarded_waves.iter().any(|wave| !wave.checks.is_empty());
        let rows = forecast.guarded_waves.iter().map(|wave| {
            let [count, names] = nodes(&wave.nodes);
            let name = wave.name.clone().unwrap_or_else(|| "all other nodes".to_owned());
            let bake = match wave.bake_seconds {
                0 => "-".to_owned(),
                seconds => age(seconds),
            };
            let approval = if wave.approval { "yes" } else { "-" };
            let checks = match &wave.checks[..] {
                [] => "-".to_owned(),
                checks => checks.join(", "),
            };
            let [name, bake, approval, checks] =
                [name, bake, approval.to_owned(), checks].map(|cell| (Tone::Plain, cell));
            let mut row = vec![name, starts(wave.starts_after_seconds), bake, approval];
            row.extend(has_checks.then_some(checks));
            row.extend([count, names]);
            row
        });
        let mut headings = vec!["WAVE", "STARTS", "BAKE", "APPROVAL"];
        headings.extend(has_checks.then_some("CHECKS"));
        headings.extend(["NODES", "WHICH"]);
        self.section(&headings, &abbreviated(rows))
    }

    fn overrides(&self, forecast: &Forecast) -> String {
        let rows = forecast.overrides.iter().map(|it| {
            let cells = [(Tone::Plain, it.name.clone()), (Tone::Plain, it.nodes.len().to_string())];
            let names = (Tone::Names, self.node_names(&it.nodes));
            cells.into_iter().chain([names]).collect()
        });
        self.section(&["OVERRIDE", "NODES", "WHICH"], &rows.collect::<Vec<Row>>())
    }

    fn duration(&self, forecast: &Forecast) -> String {
        let has_work = !forecast.waves.is_empty()
            || forecast.nodes.as_ref().is_some_and(|it| !it.gain.is_empty());
        let Some(expected) = &forecast.duration else {
            let unknown = "\nduration unknown: no start of its pods was observed; see --start-up\n";
            return if has_work { unknown.to_owned() } else { String::new() };
        };
        if !has_work {
            return String::new();
        }
        let what = if forecast.unfinished.is_empty() { "done" } else { "incomplete" };
        format!("\n{what} after {}\n", durations(expected))
    }

    fn unfinished(&self, forecast: &Forecast) -> String {
        let rows: Vec<Row> = forecast
            .unfinished
            .iter()
            .map(|group| {
                vec![
                    (Tone::Bad, group.nodes.len().to_string()),
                    (Tone::Plain, group.why.clone()),
                    (Tone::Names, self.node_names(&group.nodes)),
                ]
            })
            .collect();
        self.section(&["NODES", "NOT FINISHED BECAUSE", "WHICH"], &rows)
    }

    fn risks(&self, forecast: &Forecast) -> String {
        let mut text = String::new();
        for risk in &forecast.risks {
            let (tone, mark) = match risk.kind {
                RiskKind::Malformed
                | RiskKind::PodRefused
                | RiskKind::SharedSelector
                | RiskKind::NoNode
                | RiskKind::HostPortWithSurge
                | RiskKind::HostNetworkWithSurge
                | RiskKind::StepWithoutNodes
                | RiskKind::UnknownLabel
                | RiskKind::UnknownAnnotation
                | RiskKind::AllAtOnce
                | RiskKind::NotReadyAtOnce
                | RiskKind::KeepsOldPods
                | RiskKind::NodeNotReady
                | RiskKind::AlreadyFailing
                | RiskKind::InvalidPolicy
                | RiskKind::NotGuarded
                | RiskKind::LosesPods
                | RiskKind::RolloutFails => (Tone::Bad, "!"),
                RiskKind::Paused
                | RiskKind::Windows
                | RiskKind::Approvals
                | RiskKind::Checks
                | RiskKind::Agreement
                | RiskKind::ImagePulls
                | RiskKind::ColdChanges
                | RiskKind::NewTemplateEarly
                | RiskKind::OnDelete
                | RiskKind::NoReadinessProbe
                | RiskKind::NoPriorityClass
                | RiskKind::TolerationSeconds
                | RiskKind::TolerationMatchesNothing
                | RiskKind::LimitWithoutEffect
                | RiskKind::ConfigurationOutside
                | RiskKind::ConfigurationChanges
                | RiskKind::SameTemplate => (Tone::Waiting, "*"),
            };
            let which = if risk.nodes.is_empty() {
                String::new()
            } else {
                self.layout.paint(Tone::Names, &format!(": {}", self.node_names(&risk.nodes)))
            };
            let risk = self.layout.paint(Tone::Plain, &risk.message) + &which;
            let _ = writeln!(text, "{} {risk}", self.layout.paint(tone, mark));
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }
}

/// The rows; of more than fit, the first ones and the last one.
fn abbreviated(rows: impl ExactSizeIterator<Item = Row>) -> Vec<Row> {
    let count = rows.len();
    let mut rows: Vec<Row> = rows.collect();
    if count > WAVES_MAX {
        let mut left_out = vec![(Tone::Faint, String::new()); rows[0].len()];
        left_out[0].1 = "...".to_owned();
        if let Some((_, last)) = left_out.last_mut() {
            *last = format!("{} more waves", count - (WAVES_MAX - 1));
        }
        rows.splice(WAVES_MAX - 2..count - 1, [left_out]);
    }
    rows
}

fn durations(expected: &DurationEstimate) -> String {
    let timings = &expected.pace;
    let (typical, worst) = (age(expected.typical_seconds), age(expected.worst_seconds));
    let grace = age(timings.grace_period_seconds);
    if timings.assumed {
        let start_up = age(timings.start_up_median_seconds);
        return format!(
            "{typical} if pods take {start_up} to become ready; {worst} if each also takes its \
             grace period of {grace} to stop"
        );
    }
    let (median, slowest) =
        (start_up(timings.start_up_median_seconds), start_up(timings.start_up_worst_seconds));
    format!(
        "{typical} if pods take {median} to become ready, the median of {} pods; {worst} if each \
         takes the maximum, {slowest}, and its grace period of {grace} to stop",
        timings.pods_seen
    )
}

/// A start-up time. Objects have times in whole seconds, so that short ones are zero.
fn start_up(seconds: u64) -> String {
    if seconds == 0 { "less than 1s".to_owned() } else { age(seconds) }
}

fn age(seconds: u64) -> String {
    output::age(seconds.try_into().unwrap_or(i64::MAX))
}

/// The old and the new value of a field; of long values the part in which they differ.
fn values(change: &Change) -> [String; 2] {
    let texts = [&change.from, &change.to].map(|value| match value {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    });
    let [from, to] = &texts;
    let common = from.chars().zip(to.chars()).take_while(|(a, b)| a == b).count();
    let is_long = texts.iter().any(|text| text.chars().count() > VALUE_WIDTH);
    let skipped = if is_long { common.saturating_sub(VALUE_WIDTH / 3) } else { 0 };
    texts.map(|text| {
        let before = if skipped > 0 { "..." } else { "" };
        let rest: Vec<char> = text.chars().skip(skipped).collect();
        let after = if rest.len() > VALUE_WIDTH { "..." } else { "" };
        let shown: String = rest.into_iter().take(VALUE_WIDTH).collect();
        format!("{before}{shown}{after}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_core::api::{IntOrPercent, UpdateStrategy};
    use everynode_insight::forecast::{
        GuardedWave, NodeChanges, ObservedTimings, Risk, UnfinishedNodes, Wave,
    };
    use everynode_insight::rollout::Strategy;
    use expect_test::{expect, expect_file};

    fn node(number: usize) -> String {
        format!("node-{number:02}")
    }

    fn a_change() -> Forecast {
        let wave = |number: usize| Wave {
            starts_after_seconds: 30 * number as u64,
            nodes: vec![node(number + 1)],
        };
        Forecast {
            namespace: "infra".to_owned(),
            name: "agent".to_owned(),
            action: Action::Change,
            update_strategy: Strategy(UpdateStrategy::RollingUpdate {
                max_unavailable: IntOrPercent::Int(1),
                max_surge: IntOrPercent::Int(0),
            }),
            changes: vec![Change {
                field: "spec.template.spec.containers[agent].image".to_owned(),
                from: Some("agent:1".into()),
                to: Some("agent:2".into()),
            }],
            nodes: Some(NodeChanges {
                gain: vec![node(30)],
                replace: (1..=20).map(node).collect(),
                without: 2,
                ..NodeChanges::default()
            }),
            waves: (0..20).map(wave).collect(),
            guarded_waves: Vec::new(),
            overrides: Vec::new(),
            changes_overrides: false,
            duration: Some(DurationEstimate {
                typical_seconds: 600,
                worst_seconds: 1800,
                pace: ObservedTimings {
                    pods_seen: 20,
                    assumed: false,
                    start_up_median_seconds: 30,
                    start_up_worst_seconds: 60,
                    grace_period_seconds: 30,
                },
            }),
            unfinished: vec![UnfinishedNodes {
                why: "the new pod does not fit: Insufficient cpu".to_owned(),
                nodes: vec![node(20)],
            }],
            risks: vec![Risk {
                kind: RiskKind::NoPriorityClass,
                message: "no priorityClassName".to_owned(),
                nodes: Vec::new(),
            }],
            problems: Vec::new(),
        }
    }

    #[test]
    fn a_pipe_gets_whole_lines() {
        let layout = TextLayout { color: false, width: None };
        expect_file!["expected/a_pipe_gets_whole_lines.txt"].assert_eq(&forecast(
            &a_change(),
            layout,
            false,
        ));
    }

    #[test]
    fn a_terminal_gets_colours_and_lines_that_fit_it() {
        let layout = TextLayout { color: true, width: Some(60) };
        expect_file!["expected/a_terminal_gets_colours_and_lines_that_fit_it.txt"]
            .assert_eq(&forecast(&a_change(), layout, false).replace('\u{1b}', "^"));
    }

    /// G22: with a policy, its waves take the place of the nodes that are replaced at a time
    #[test]
    fn the_waves_of_a_policy_name_their_bake_time_and_approval() {
        let wave = |name: Option<&str>, starts, bake_seconds, nodes: Vec<String>| GuardedWave {
            name: name.map(str::to_owned),
            starts_after_seconds: starts,
            nodes,
            bake_seconds,
            approval: name == Some("canary"),
            checks: Vec::new(),
        };
        let guarded = Forecast {
            overrides: Vec::new(),
            changes_overrides: false,
            guarded_waves: vec![
                wave(Some("canary"), 0, 1800, vec![node(1)]),
                wave(Some("zones/a:10%"), 1830, 300, (2..=4).map(node).collect()),
                wave(None, 2300, 0, (5..=20).map(node).collect()),
            ],
            ..a_change()
        };
        let text = forecast(&guarded, TextLayout { color: false, width: None }, false);
        let table: Vec<&str> =
            text.lines().skip_while(|line| !line.starts_with("WAVE")).take(4).collect();
        expect![[r#"
            WAVE              STARTS    BAKE   APPROVAL   NODES   WHICH
            canary            +0s       30m    yes        1       node-01
            zones/a:10%       +30m30s   5m     -          3       node-02..04
            all other nodes   +38m20s   -      -          16      node-05..20"#]]
        .assert_eq(&table.join("\n"));
    }

    #[test]
    fn nothing_to_do_is_one_line() {
        let idle = Forecast {
            action: Action::Nothing,
            changes: Vec::new(),
            waves: Vec::new(),
            unfinished: Vec::new(),
            risks: Vec::new(),
            ..a_change()
        };
        let layout = TextLayout { color: false, width: None };
        expect![[r#"
            daemonset infra/agent would not change: nothing to do (RollingUpdate, maxUnavailable 1)
        "#]]
        .assert_eq(&forecast(&idle, layout, false));
    }

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let path = "registry.example.com/some/very/long/path/to/an/image";
        let between = |from: &str, to: &str| {
            values(&Change { field: String::new(), from: Some(from.into()), to: Some(to.into()) })
        };
        assert_eq!(between("agent:1", "agent:2"), ["agent:1", "agent:2"]);
        let digest = "0123456789".repeat(7);
        let [from, to] = between(
            &format!("{path}/agent:1.2@sha256:{digest}"),
            &format!("{path}/agent:1.3@sha256:{digest}"),
        );
        let rest = "@sha256:0123456789012345678901234567890...";
        assert_eq!(from, format!("...to/an/image/agent:1.2{rest}"));
        assert_eq!(to, format!("...to/an/image/agent:1.3{rest}"));
    }
}
