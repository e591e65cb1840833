//! Explanations as text.

use std::fmt::Write;

use everynode_insight::explain::{
    AffinityCheck, Explanation, NodeExplanation, NodeGroup, PodExplanation, ReasonDetail,
};
use everynode_insight::names;
use everynode_insight::rollout::announced;
use everynode_insight::situation::Situation;

use crate::output::{self, TextLayout, Tone, table};

/// The width of a list of node names if the output is no terminal.
const NAMES_WIDTH: usize = 100;
/// The maximum number of groups shown; the most urgent ones come first.
const GROUPS_MAX: usize = 40;

/// All nodes of a DaemonSet. `wide` lists every node name.
pub(crate) fn nodes(explanation: &Explanation, layout: TextLayout, wide: bool) -> String {
    let mut text = headline(explanation, layout);
    let rollout = layout.paint(Tone::Plain, &explanation.rollout);
    let _ = writeln!(text, "{}; {rollout}", explanation.update_strategy);
    problems(&explanation.problems, layout, &mut text);
    if let Some(next) = &explanation.next {
        let _ = writeln!(text, "{}", layout.paint(Tone::Plain, &announced(next)));
    }
    text.push('\n');
    for group in explanation.groups.iter().take(GROUPS_MAX) {
        text += &block(group, layout, wide);
    }
    let more = explanation.groups.len().saturating_sub(GROUPS_MAX);
    if more > 0 {
        let _ = writeln!(text, "and {more} more groups: -o json has them all");
    }
    text
}

fn headline(explanation: &Explanation, layout: TextLayout) -> String {
    let Explanation { namespace, name, desired, .. } = explanation;
    let of = explanation.nodes.map(|nodes| format!(" of {nodes}")).unwrap_or_default();
    let title = layout.paint(Tone::Heading, &format!("daemonset {namespace}/{name}"));
    let mut text = format!("{title}: {desired}{of} nodes should run it");
    let counts = [
        (explanation.ready, "ready"),
        (explanation.available, "available"),
        (explanation.updated, "up to date"),
    ];
    for (count, what) in counts.into_iter().filter_map(|(count, what)| Some((count?, what))) {
        let tone = if count == *desired { Tone::Good } else { Tone::Waiting };
        text += &format!(", {}", layout.paint(tone, &format!("{count} {what}")));
    }
    text + "\n"
}

fn problems(problems: &[String], layout: TextLayout, text: &mut String) {
    for problem in problems {
        let problem = layout.paint(Tone::Plain, problem);
        let _ = writeln!(text, "{} {problem}", layout.paint(Tone::Bad, "!"));
    }
}

/// A line with the number of nodes, their state and the reason, then the names, the detail and the
/// next step. Commands are not broken, so that they can be copied.
fn block(group: &NodeGroup, layout: TextLayout, wide: bool) -> String {
    let state = format!("{:<STATE_WIDTH$}", group.situation);
    let state = layout.paint(tone(group.situation), &state);
    let why = layout.paint(Tone::Plain, &group.why);
    let mut text = format!("{:>COUNT_WIDTH$}  {state}  {why}\n", group.nodes.len());
    let nodes = group.nodes.iter().map(String::as_str);
    let width = layout.width.map(|width| usize::from(width).saturating_sub(INDENT));
    let which = if wide {
        names::compressed(nodes).join(", ")
    } else {
        names::shortened(nodes, width.unwrap_or(NAMES_WIDTH))
    };
    let mut line = |tone: Tone, line: &str| {
        let _ = writeln!(text, "{:INDENT$}{}", "", layout.paint(tone, line));
    };
    line(Tone::Names, &which);
    if let Some(detail) = &group.detail {
        line(Tone::Faint, detail);
    }
    if let Some(next) = &group.next {
        line(Tone::Faint, &announced(next));
    }
    text
}

const COUNT_WIDTH: usize = 5;
const STATE_WIDTH: usize = 17;
/// The column at which the reason starts.
const INDENT: usize = COUNT_WIDTH + STATE_WIDTH + 4;

const fn tone(situation: Situation) -> Tone {
    match situation {
        Situation::Failing
        | Situation::Unschedulable
        | Situation::NotCreated
        | Situation::Stuck
        | Situation::NodeNotReady
        | Situation::Missing => Tone::Bad,
        Situation::ToBeDeleted
        | Situation::NotReady
        | Situation::Terminating
        | Situation::NotYetAvailable
        | Situation::Outdated
        | Situation::Lingering => Tone::Waiting,
        Situation::UpToDate | Situation::ShouldRun => Tone::Good,
        Situation::Excluded => Tone::Faint,
    }
}

/// One node in full.
pub(crate) fn node(explanation: &NodeExplanation, layout: TextLayout) -> String {
    let NodeExplanation { namespace, name, node, .. } = explanation;
    let zone = explanation.zone.as_ref().map(|zone| format!(" (zone {zone})")).unwrap_or_default();
    let answer = match (explanation.should_run, explanation.should_continue_running) {
        (true, _) => "should run",
        (false, true) if !explanation.pods.is_empty() => "may keep, but would not get,",
        (false, _) => "should not run",
    };
    let title = layout.paint(Tone::Heading, &format!("node {node}{zone}"));
    let daemon_set = layout.paint(Tone::Plain, &format!("daemonset {namespace}/{name}"));
    let mut text = format!("{title} {answer} a pod of {daemon_set}\n");
    problems(&explanation.problems, layout, &mut text);
    for note in &explanation.node_notes {
        let note = layout.paint(Tone::Plain, note);
        let _ = writeln!(text, "{} the node is {note}", layout.paint(Tone::Waiting, "!"));
    }
    for reason in &explanation.reasons {
        text += &reason_text(reason, layout);
    }
    if explanation.pods.is_empty() && explanation.situation != Situation::ShouldRun {
        text += "\nno pod\n";
    }
    for pod in &explanation.pods {
        text += &pod_text(pod, layout);
    }
    if explanation.reasons.is_empty() || !explanation.pods.is_empty() {
        let state = layout.paint(tone(explanation.situation), &explanation.situation.to_string());
        let _ = writeln!(text, "\n{state}: {}", layout.paint(Tone::Plain, &explanation.why));
    }
    let is_told = |detail: &&String| explanation.pods.iter().all(|pod| pod.message != **detail);
    if let Some(detail) = explanation.detail.as_ref().filter(is_told) {
        let _ = writeln!(text, "  {}", layout.paint(Tone::Plain, detail));
    }
    if let Some(next) = &explanation.next {
        let _ = writeln!(text, "{}", layout.paint(Tone::Plain, &announced(next)));
    }
    let _ = writeln!(text, "rollout: {}", layout.paint(Tone::Plain, &explanation.rollout));
    text
}

fn reason_text(reason: &ReasonDetail, layout: TextLayout) -> String {
    let effect = if reason.evicts { "" } else { " (an existing pod may stay)" };
    let because = layout.paint(Tone::Bad, "because");
    let mut text = format!("\n{because} {}{effect}\n", layout.paint(Tone::Plain, &reason.reason));
    if !reason.checks.is_empty() {
        let rows: Vec<_> = reason.checks.iter().map(check_row).collect();
        text += &table(layout, &["TERM", "REQUIREMENT", "HOLDS", "THE NODE HAS"], &rows);
    }
    text
}

fn check_row(check: &AffinityCheck) -> Vec<(Tone, String)> {
    let (tone, holds) = if check.holds { (Tone::Good, "yes") } else { (Tone::Bad, "no") };
    let found = check.found.clone().unwrap_or_else(|| "no such label".to_owned());
    vec![
        (Tone::Plain, check.term.to_string()),
        (Tone::Plain, check.requirement.clone()),
        (tone, holds.to_owned()),
        (Tone::Plain, found),
    ]
}

fn pod_text(pod: &PodExplanation, layout: TextLayout) -> String {
    let tone = match (pod.failing, pod.available) {
        (true, _) => Tone::Bad,
        (false, true) => Tone::Good,
        (false, false) => Tone::Waiting,
    };
    let revision = if pod.current_revision { "current revision" } else { "older revision" };
    let of_node = pod.r#override.as_ref().map(|tag| format!(", override {tag}"));
    let of_node = of_node.unwrap_or_default();
    let age = output::age(pod.age_seconds.try_into().unwrap_or(i64::MAX));
    let mut text = format!(
        "\npod {} ({revision}{of_node}, {age} old, {} restarts): {}\n",
        layout.paint(Tone::Plain, &pod.name),
        pod.restarts,
        layout.paint(tone, &pod.state)
    );
    if !pod.message.is_empty() {
        let _ = writeln!(text, "  {}", layout.paint(Tone::Plain, &pod.message));
    }
    if let Some(seconds) = pod.available_in_seconds {
        let _ = writeln!(text, "  available in {seconds} s if it stays ready");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_core::api::{IntOrPercent, UpdateStrategy};
    use everynode_insight::rollout::Strategy;
    use expect_test::{expect, expect_file};

    fn group(
        situation: Situation,
        why: &str,
        lines: [Option<&str>; 2],
        nodes: &[&str],
    ) -> NodeGroup {
        let [detail, next] = lines.map(|line| line.map(str::to_owned));
        let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
        let why = why.to_owned();
        NodeGroup { situation, why, detail, next, nodes, remarks: Vec::new() }
    }

    fn explanation() -> Explanation {
        Explanation {
            namespace: "infra".to_owned(),
            name: "agent".to_owned(),
            nodes: Some(9),
            desired: 7,
            ready: Some(6),
            available: Some(6),
            updated: Some(7),
            update_strategy: Strategy(UpdateStrategy::RollingUpdate {
                max_unavailable: IntOrPercent::Int(1),
                max_surge: IntOrPercent::Int(0),
            }),
            rollout: "every pod is of the current revision".to_owned(),
            next: None,
            problems: vec!["something is wrong".to_owned()],
            groups: vec![
                group(
                    Situation::Failing,
                    "CrashLoopBackOff of container agent (Error, exit code 1)",
                    [
                        Some("back-off 40s"),
                        Some("kubectl -n infra logs agent-x -c agent --previous"),
                    ],
                    &["node-3"],
                ),
                group(
                    Situation::UpToDate,
                    "ready",
                    [None, None],
                    &["node-1", "node-2", "node-4", "node-5", "node-6", "node-9"],
                ),
                group(
                    Situation::Excluded,
                    "taint gpu=true:NoSchedule is not tolerated",
                    [None, None],
                    &["node-7", "node-8"],
                ),
            ],
        }
    }

    /// Line breaks of what pods and nodes report keep the indentation, and nothing that they report
    /// reaches the terminal.
    #[test]
    fn reports_are_one_visible_line_each() {
        let hostile = "BackOff\u{1b}]0;PWNED\u{7}\n\nready\u{202e}";
        let group =
            group(Situation::Failing, hostile, [Some(hostile), Some(hostile)], &[hostile, "b"]);
        let hostile = hostile.to_owned();
        let all = Explanation {
            rollout: hostile.clone(),
            problems: vec![hostile.clone()],
            groups: vec![group],
            ..explanation()
        };
        let layout = TextLayout { color: false, width: None };
        expect![[r#"
            daemonset infra/agent: 7 of 9 nodes should run it, 6 ready, 6 available, 7 up to date
            RollingUpdate, maxUnavailable 1; BackOff^[]0;PWNED^G ready<U+202E>
            ! BackOff^[]0;PWNED^G ready<U+202E>

                2  failing            BackOff^[]0;PWNED^G ready<U+202E>
                                      BackOff^[]0;PWNED^G ready<U+202E>, b
                                      BackOff^[]0;PWNED^G ready<U+202E>
                                      next: BackOff^[]0;PWNED^G ready<U+202E>
        "#]]
        .assert_eq(&nodes(&all, layout, false));
    }

    #[test]
    fn a_pipe_gets_whole_lines() {
        let layout = TextLayout { color: false, width: None };
        expect![[r#"
            daemonset infra/agent: 7 of 9 nodes should run it, 6 ready, 6 available, 7 up to date
            RollingUpdate, maxUnavailable 1; every pod is of the current revision
            ! something is wrong

                1  failing            CrashLoopBackOff of container agent (Error, exit code 1)
                                      node-3
                                      back-off 40s
                                      try: kubectl -n infra logs agent-x -c agent --previous
                6  up to date         ready
                                      node-1, node-2, node-4..6, node-9
                2  no pod here        taint gpu=true:NoSchedule is not tolerated
                                      node-7, node-8
        "#]]
        .assert_eq(&nodes(&explanation(), layout, false));
    }

    #[test]
    fn a_terminal_gets_colours_and_lines_that_fit_it() {
        let layout = TextLayout { color: true, width: Some(80) };
        let text = nodes(&explanation(), layout, false);
        expect_file!["expected/a_terminal_gets_colours_and_lines_that_fit_it.txt"]
            .assert_eq(&text.replace('\u{1b}', "^"));
    }

    #[test]
    fn the_explanation_of_a_node_lists_each_requirement() {
        let explanation = NodeExplanation {
            namespace: "infra".to_owned(),
            name: "agent".to_owned(),
            node: "node-7".to_owned(),
            zone: Some("zone-b".to_owned()),
            node_notes: vec!["cordoned, which does not keep a DaemonSet's pods away".to_owned()],
            should_run: false,
            should_continue_running: false,
            r#override: None,
            reasons: vec![ReasonDetail {
                reason: "no term of the required node affinity matches: (disk Exists)".to_owned(),
                evicts: true,
                checks: vec![AffinityCheck {
                    term: 1,
                    requirement: "disk Exists".to_owned(),
                    holds: false,
                    found: None,
                }],
            }],
            situation: Situation::ToBeDeleted,
            why: "no term of the required node affinity matches: (disk Exists)".to_owned(),
            detail: None,
            next: Some("its pod is deleted".to_owned()),
            rollout: "nothing to roll out".to_owned(),
            pods: vec![PodExplanation {
                name: "agent-x".to_owned(),
                age_seconds: 7200,
                current_revision: true,
                r#override: None,
                available: false,
                restarts: 3,
                state: "ready".to_owned(),
                failing: false,
                message: String::new(),
                available_in_seconds: Some(7),
            }],
            problems: Vec::new(),
        };
        expect![[r#"
            node node-7 (zone zone-b) should not run a pod of daemonset infra/agent
            ! the node is cordoned, which does not keep a DaemonSet's pods away

            because no term of the required node affinity matches: (disk Exists)
            TERM   REQUIREMENT   HOLDS   THE NODE HAS
            1      disk Exists   no      no such label

            pod agent-x (current revision, 120m old, 3 restarts): ready
              available in 7 s if it stays ready

            to be deleted: no term of the required node affinity matches: (disk Exists)
            next: its pod is deleted
            rollout: nothing to roll out
        "#]]
        .assert_eq(&node(&explanation, TextLayout { color: false, width: None }));
    }
}
