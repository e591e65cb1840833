//! The nodes of a guarded rollout as text: those of each wave by their state, and one by one (G32).

use everynode_insight::guarded::StepState;
use everynode_insight::rollout_nodes::{RolloutNode, RolloutNodes, States, WaveNodes};

use crate::output::{self, TextLayout, Tone};

type Cell = (Tone, String);

/// All nodes in one line, a table of the waves, and one of the nodes if they are listed.
pub(super) fn text(nodes: &RolloutNodes, layout: TextLayout) -> String {
    let (before, waves, behind) = nodes.shown_waves();
    let mut text = format!("nodes: {}\n\n", nodes.all);
    let rows: Vec<_> = waves.iter().map(wave_row).collect();
    let headings = ["WAVE", "STATE", "NODES", "DONE", "UPDATING", "FAILED", "WAITING", "SET ASIDE"];
    text += &output::table(layout, &headings, &rows);
    if before + behind > 0 {
        text += &format!("{before} waves before these and {behind} behind are in -o json\n");
    }
    if let Some(list) = &nodes.list {
        let rows: Vec<_> = list.iter().map(node_row).collect();
        text += "\n";
        text += &output::table(layout, &["NODE", "STATE", "WHY", "WAVE"], &rows);
    }
    text
}

fn wave_row(wave: &WaveNodes) -> Vec<Cell> {
    let tone = match wave.state {
        StepState::Done => Tone::Good,
        StepState::Current => Tone::Waiting,
        StepState::Ahead => Tone::Faint,
    };
    let mut row = vec![
        (Tone::Plain, wave.title().to_owned()),
        (tone, wave.state.to_string()),
        (Tone::Plain, wave.nodes.to_string()),
    ];
    row.extend(match &wave.states {
        None => vec![(Tone::Faint, "-".to_owned()); 5],
        Some(states) => state_cells(states),
    });
    row
}

fn state_cells(States(states): &States) -> Vec<Cell> {
    let number = |nodes: usize, tone: Tone| match nodes {
        0 => (Tone::Faint, "-".to_owned()),
        nodes => (tone, nodes.to_string()),
    };
    let reasons = states.reasons().map(|(why, nodes)| format!("{nodes} {}", why.as_str()));
    let reasons = reasons.collect::<Vec<_>>().join(", ");
    vec![
        number(states.done, Tone::Good),
        number(states.updating, Tone::Waiting),
        number(states.failed, Tone::Bad),
        number(states.waiting + states.asked + states.pulling, Tone::Plain),
        if reasons.is_empty() { number(0, Tone::Faint) } else { (Tone::Waiting, reasons) },
    ]
}

fn node_row(node: &RolloutNode) -> Vec<Cell> {
    let RolloutNode { node, state, set_aside, cause, wave } = node;
    let why: Vec<&str> = set_aside.iter().copied().chain(cause.as_deref()).collect();
    let why = if why.is_empty() { "-".to_owned() } else { why.join(": ") };
    let wave = wave.as_deref().unwrap_or("all other nodes");
    vec![
        (Tone::Plain, node.clone()),
        (Tone::Plain, state.as_str().to_owned()),
        (Tone::Plain, why),
        (Tone::Plain, wave.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use everynode_core::daemon_set::{NodeState, SetAside, StateCounts};
    use expect_test::expect;

    use super::*;

    const PLAIN: TextLayout = TextLayout { color: false, width: None };

    fn wave(name: &str, state: StepState, nodes: usize, states: Option<StateCounts>) -> WaveNodes {
        WaveNodes { name: Some(name.to_owned()), state, nodes, states: states.map(States) }
    }

    /// G32: each wave has its nodes by their state, and each node that is set aside its reason.
    #[test]
    fn waves_and_nodes_have_their_states() {
        let canary = StateCounts { done: 2, ..StateCounts::default() };
        let mut zone = StateCounts { done: 12, updating: 2, failed: 1, waiting: 22, ..canary };
        zone.set_aside[SetAside::Down as usize] = 2;
        zone.set_aside[SetAside::Leaving as usize] = 1;
        let node = |node: &str, state, set_aside, cause: Option<&str>, wave: Option<&str>| {
            let (cause, wave) = (cause.map(str::to_owned), wave.map(str::to_owned));
            RolloutNode { node: node.to_owned(), state, set_aside, cause, wave }
        };
        let crash = Some("CrashLoopBackOff of container agent");
        let nodes = RolloutNodes {
            all: States(zone),
            waves: vec![
                wave("canary", StepState::Done, 2, None),
                wave("zone a", StepState::Current, 40, Some(zone)),
                WaveNodes { name: None, ..wave("", StepState::Ahead, 3, Some(canary)) },
            ],
            list: Some(vec![
                node("node-1", NodeState::Done, None, None, Some("canary")),
                node("node-2", NodeState::Failed, None, crash, Some("zone a")),
                node("node-3", NodeState::SetAside(SetAside::Down), Some("down"), None, None),
            ]),
        };
        expect![[r#"
            nodes: 12 of 40 nodes done, 2 updating, 1 failed, 3 set aside: 2 down, 1 leaving

            WAVE              STATE     NODES   DONE   UPDATING   FAILED   WAITING   SET ASIDE
            canary            done      2       -      -          -        -         -
            zone a            current   40      12     2          1        22        2 down, 1 leaving
            all other nodes   ahead     3       2      -          -        -         -

            NODE     STATE      WHY                                   WAVE
            node-1   done       -                                     canary
            node-2   failed     CrashLoopBackOff of container agent   zone a
            node-3   setAside   down                                  all other nodes
        "#]].assert_eq(&text(&nodes, PLAIN));
    }

    /// G50: a rollout has at most 1,000 waves; those around the current one are shown.
    #[test]
    fn of_many_waves_some_are_shown() {
        let state = |number: usize| match number.cmp(&500) {
            std::cmp::Ordering::Less => StepState::Done,
            std::cmp::Ordering::Equal => StepState::Current,
            std::cmp::Ordering::Greater => StepState::Ahead,
        };
        let waves = (0..1000).map(|number| wave(&number.to_string(), state(number), 1, None));
        let nodes = RolloutNodes { all: States::default(), waves: waves.collect(), list: None };
        let text = text(&nodes, PLAIN);
        assert!(text.contains("\n490 ") && text.contains("\n529 "), "{text}");
        assert!(text.ends_with("490 waves before these and 470 behind are in -o json\n"), "{text}");
    }
}
