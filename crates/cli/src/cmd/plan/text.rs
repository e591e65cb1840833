//! Forecasts for people.

use std::fmt::Write;

use everynode_insight::forecast::{Action, Change, DurationEstimate, Forecast, RiskKind};
use everynode_insight::names;
use serde_json::Value;

use crate::output::{self, Screen, Tone, table};

/// Room for names when nobody says how wide the terminal is.
const NAMES_WIDTH: usize = 60;
/// Of many waves the first and the last are shown.
const WAVES_MAX: usize = 12;
/// A value that is longer is cut.
const VALUE_WIDTH: usize = 60;

pub fn forecast(forecast: &Forecast, screen: Screen, wide: bool) -> String {
    let page = Page { screen, wide };
    let Forecast { namespace, name, update_strategy, .. } = forecast;
    let title = screen.paint(Tone::Heading, &format!("daemonset {namespace}/{name}"));
    let action = match forecast.action {
        Action::Create => "would be created",
        Action::Change => "would change",
        Action::Nothing => "would not change: nothing to do",
    };
    let mut text = format!("{title} {action} ({update_strategy})\n");
    for problem in &forecast.problems {
        let _ = writeln!(text, "{} {problem}", screen.paint(Tone::Bad, "!"));
    }
    text += &page.changes(&forecast.changes);
    if !forecast.is_nothing_to_do() {
        text += &page.nodes(forecast);
        text += &page.waves(forecast);
        text += &page.duration(forecast);
        text += &page.unfinished(forecast);
        text += &page.risks(forecast);
    }
    text
}

struct Page {
    screen: Screen,
    wide: bool,
}

type Row = Vec<(Tone, String)>;

impl Page {
    /// Under a heading, after an empty line.
    fn section(&self, headings: &[&str], rows: &[Row]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        format!("\n{}", table(self.screen, headings, rows))
    }

    fn which(&self, nodes: &[String]) -> String {
        let nodes = nodes.iter().map(String::as_str);
        if self.wide {
            return names::compressed(nodes).join(", ");
        }
        let width = self.screen.width.map_or(NAMES_WIDTH, |width| usize::from(width) / 2);
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
        let nodes = &forecast.nodes;
        let sides = [
            (Tone::Good, "gain a pod", &nodes.gain),
            (Tone::Bad, "lose their pod", &nodes.lose),
            (Tone::Waiting, "get a new pod for theirs", &nodes.replace),
            (Tone::Plain, "keep their pod", &nodes.keep),
        ];
        let mut rows: Vec<Row> = sides
            .into_iter()
            .filter(|(_, _, nodes)| !nodes.is_empty())
            .map(|(tone, what, nodes)| {
                vec![
                    (Tone::Plain, nodes.len().to_string()),
                    (tone, what.to_owned()),
                    (Tone::Plain, self.which(nodes)),
                ]
            })
            .collect();
        if nodes.without > 0 {
            let count = (Tone::Faint, nodes.without.to_string());
            let what = (Tone::Faint, "have none, before and after".to_owned());
            rows.push(vec![count, what, (Tone::Plain, String::new())]);
        }
        self.section(&["NODES", "WHAT", "WHICH"], &rows)
    }

    fn waves(&self, forecast: &Forecast) -> String {
        let waves = &forecast.waves;
        let is_timed = forecast.duration.is_some();
        let shown = |index: usize| {
            waves.len() <= WAVES_MAX || index < WAVES_MAX - 2 || index + 1 == waves.len()
        };
        let mut rows: Vec<Row> = Vec::new();
        for (index, wave) in waves.iter().enumerate() {
            if shown(index) {
                let starts = if is_timed {
                    format!("+{}", age(wave.starts_after_seconds))
                } else {
                    String::new()
                };
                rows.push(vec![
                    (Tone::Plain, (index + 1).to_string()),
                    (Tone::Faint, starts),
                    (Tone::Plain, wave.nodes.len().to_string()),
                    (Tone::Plain, self.which(&wave.nodes)),
                ]);
            } else if shown(index - 1) {
                let left_out = waves.len() - (WAVES_MAX - 2) - 1;
                let cells = [
                    "...".to_owned(),
                    String::new(),
                    String::new(),
                    format!("{left_out} more waves"),
                ];
                rows.push(cells.map(|cell| (Tone::Faint, cell)).to_vec());
            }
        }
        self.section(&["WAVE", "STARTS", "NODES", "WHICH"], &rows)
    }

    fn duration(&self, forecast: &Forecast) -> String {
        let works = !forecast.waves.is_empty() || !forecast.nodes.gain.is_empty();
        let Some(expected) = &forecast.duration else {
            let unknown = "\nhow long it takes can't be told: no pod of it was seen starting; see --start-up\n";
            return if works { unknown.to_owned() } else { String::new() };
        };
        if !works {
            return String::new();
        }
        let what = if forecast.unfinished.is_empty() { "done" } else { "as far as it gets" };
        format!("\n{what} after {}\n", times(expected))
    }

    fn unfinished(&self, forecast: &Forecast) -> String {
        let rows: Vec<Row> = forecast
            .unfinished
            .iter()
            .map(|group| {
                vec![
                    (Tone::Bad, group.nodes.len().to_string()),
                    (Tone::Plain, group.why.clone()),
                    (Tone::Plain, self.which(&group.nodes)),
                ]
            })
            .collect();
        self.section(&["NODES", "NEVER FINISHED, BECAUSE", "WHICH"], &rows)
    }

    fn risks(&self, forecast: &Forecast) -> String {
        let mut text = String::new();
        for risk in &forecast.risks {
            let (tone, mark) = match risk.kind {
                RiskKind::Malformed
                | RiskKind::NoNode
                | RiskKind::HostPortWithSurge
                | RiskKind::AllAtOnce
                | RiskKind::NodeNotReady
                | RiskKind::AlreadyFailing => (Tone::Bad, "!"),
                RiskKind::OnDelete
                | RiskKind::NoReadinessProbe
                | RiskKind::NoPriorityClass
                | RiskKind::TolerationMatchesNothing
                | RiskKind::SameTemplate => (Tone::Waiting, "*"),
            };
            let which = match risk.nodes.is_empty() {
                true => String::new(),
                false => format!(": {}", self.which(&risk.nodes)),
            };
            let _ = writeln!(text, "{} {}{which}", self.screen.paint(tone, mark), risk.message);
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }
}

fn times(expected: &DurationEstimate) -> String {
    let pace = &expected.pace;
    let (typical, worst) = (age(expected.typical_seconds), age(expected.worst_seconds));
    let grace = age(pace.grace_period_seconds);
    if pace.assumed {
        let start_up = age(pace.start_up_median_seconds);
        return format!(
            "{typical} if pods take {start_up} to be ready; {worst} if each also takes its grace period of {grace} to stop"
        );
    }
    let (median, slowest) =
        (start_up(pace.start_up_median_seconds), start_up(pace.start_up_worst_seconds));
    format!(
        "{typical} at the pace of {} pods, which took {median} to be ready, at most {slowest}; \
         {worst} if each takes the longest, and its grace period of {grace} to stop",
        pace.pods_seen
    )
}

/// Objects tell times in whole seconds.
fn start_up(seconds: u64) -> String {
    if seconds == 0 { "less than 1s".to_owned() } else { age(seconds) }
}

fn age(seconds: u64) -> String {
    output::age(seconds.try_into().unwrap_or(i64::MAX))
}

/// What a field was and is to be: of long values the part in which they differ.
fn values(change: &Change) -> [String; 2] {
    let texts = [&change.from, &change.to].map(|value| match value {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    });
    let [from, to] = &texts;
    let alike = from.chars().zip(to.chars()).take_while(|(a, b)| a == b).count();
    let is_long = texts.iter().any(|text| text.chars().count() > VALUE_WIDTH);
    let skipped = if is_long { alike.saturating_sub(VALUE_WIDTH / 3) } else { 0 };
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
    use everynode_insight::forecast::{NodeChanges, ObservedTimings, Risk, UnfinishedNodes, Wave};
    use expect_test::expect;

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
            update_strategy: "RollingUpdate, maxUnavailable 1".to_owned(),
            changes: vec![Change {
                field: "spec.template.spec.containers[agent].image".to_owned(),
                from: Some("agent:1".into()),
                to: Some("agent:2".into()),
            }],
            nodes: NodeChanges {
                gain: vec![node(30)],
                replace: (1..=20).map(node).collect(),
                without: 2,
                ..NodeChanges::default()
            },
            waves: (0..20).map(wave).collect(),
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
        let screen = Screen { color: false, width: None };
        expect![[r#"
            daemonset infra/agent would change (RollingUpdate, maxUnavailable 1)

            FIELD                                        FROM      TO
            spec.template.spec.containers[agent].image   agent:1   agent:2

            NODES   WHAT                          WHICH
            1       gain a pod                    node-30
            20      get a new pod for theirs      node-01..20
            2       have none, before and after

            WAVE   STARTS   NODES   WHICH
            1      +0s      1       node-01
            2      +30s     1       node-02
            3      +60s     1       node-03
            4      +90s     1       node-04
            5      +2m      1       node-05
            6      +2m30s   1       node-06
            7      +3m      1       node-07
            8      +3m30s   1       node-08
            9      +4m      1       node-09
            10     +4m30s   1       node-10
            ...                     9 more waves
            20     +9m30s   1       node-20

            as far as it gets after 10m at the pace of 20 pods, which took 30s to be ready, at most 60s; 30m if each takes the longest, and its grace period of 30s to stop

            NODES   NEVER FINISHED, BECAUSE                      WHICH
            1       the new pod does not fit: Insufficient cpu   node-20

            * no priorityClassName
        "#]].assert_eq(&forecast(&a_change(), screen, false));
    }

    #[test]
    fn a_terminal_gets_colours_and_lines_that_fit_it() {
        let screen = Screen { color: true, width: Some(60) };
        expect![[r#"
            ^[1mdaemonset infra/agent^[0m would change (RollingUpdate, maxUnavailable 1)

            ^[1mFIELD                                      ^[0m^[1mFROM      ^[0m^[1mTO     ^[0m
            spec.template.spec.containers[agent].ima   ^[38;5;1magent:1   ^[39m^[38;5;2magent:2^[39m
            ge

            ^[1mNODES   ^[0m^[1mWHAT                          ^[0m^[1mWHICH      ^[0m
            1       ^[38;5;2mgain a pod                    ^[39mnode-30
            20      ^[38;5;3mget a new pod for theirs      ^[39mnode-01..20
            ^[2m2       ^[0m^[2mhave none, before and after   ^[0m

            ^[1mWAVE   ^[0m^[1mSTARTS   ^[0m^[1mNODES   ^[0m^[1mWHICH       ^[0m
            1      ^[2m+0s      ^[0m1       node-01
            2      ^[2m+30s     ^[0m1       node-02
            3      ^[2m+60s     ^[0m1       node-03
            4      ^[2m+90s     ^[0m1       node-04
            5      ^[2m+2m      ^[0m1       node-05
            6      ^[2m+2m30s   ^[0m1       node-06
            7      ^[2m+3m      ^[0m1       node-07
            8      ^[2m+3m30s   ^[0m1       node-08
            9      ^[2m+4m      ^[0m1       node-09
            10     ^[2m+4m30s   ^[0m1       node-10
            ^[2m...    ^[0m^[2m         ^[0m^[2m        ^[0m^[2m9 more waves^[0m
            20     ^[2m+9m30s   ^[0m1       node-20

            as far as it gets after 10m at the pace of 20 pods, which took 30s to be ready, at most 60s; 30m if each takes the longest, and its grace period of 30s to stop

            ^[1mNODES   ^[0m^[1mNEVER FINISHED, BECAUSE                      ^[0m^[1mWHICH  ^[0m
            ^[38;5;1m1       ^[39mthe new pod does not fit: Insufficient cpu   node-20

            ^[33m*^[0m no priorityClassName
        "#]].assert_eq(&forecast(&a_change(), screen, false).replace('\u{1b}', "^"));
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
        let screen = Screen { color: false, width: None };
        expect![[r#"
            daemonset infra/agent would not change: nothing to do (RollingUpdate, maxUnavailable 1)
        "#]]
        .assert_eq(&forecast(&idle, screen, false));
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
