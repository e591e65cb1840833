//! The waves of a guarded rollout as a track: each with a bar of its nodes by their state (G32).

use everynode_insight::rollout_nodes::{RolloutNodes, States, WaveNodes};
use maud::{Markup, html};

use super::{class, shown};

/// The width and the height of a bar in pixels. Narrower screens scale it.
const WIDTH: usize = 400;
const HEIGHT: usize = 12;

/// All nodes, and each wave.
pub(crate) fn track(nodes: &RolloutNodes) -> Markup {
    let (before, waves, behind) = nodes.shown_waves();
    html! {
        p { "All nodes: " (shown(&nodes.all.to_string())) }
        (bar(&nodes.all))
        @if before > 0 { p { (before) " waves before" } }
        ol.track start=(before + 1) { @for wave in waves { (item(wave)) } }
        @if behind > 0 { p { "and " (behind) " more waves" } }
    }
}

fn item(wave: &WaveNodes) -> Markup {
    let WaveNodes { state, nodes, states, .. } = wave;
    html! {
        li class=(class(state)) {
            p {
                span.badge { (state) } " " strong { (shown(wave.title())) } ": "
                @match states {
                    Some(states) => { (shown(&states.to_string())) }
                    None => { (nodes) " nodes" }
                }
            }
            @if let Some(states) = states { (bar(states)) }
        }
    }
}

/// The nodes as parts of a bar, each with its number.
fn bar(States(states): &States) -> Markup {
    let total = states.total().max(1);
    let set_aside: usize = states.reasons().map(|(_, nodes)| nodes).sum();
    let parts = [
        ("done", states.done),
        ("failed", states.failed),
        ("updating", states.updating),
        ("set aside", set_aside),
        ("waiting", states.waiting),
    ];
    let ends = parts.iter().scan(0, |end, (_, nodes)| {
        *end += nodes;
        Some(*end)
    });
    let at = |nodes: usize| nodes * WIDTH / total;
    let parts = parts.iter().zip(ends).filter(|((_, nodes), _)| *nodes > 0);
    html! {
        svg.bar viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) height=(HEIGHT)
            aria-hidden="true" {
            @for ((state, nodes), end) in parts {
                rect class={ "nodes-" (state.replace(' ', "-")) } x=(at(end - nodes)) y="0"
                    width=((at(end) - at(end - nodes)).max(1)) height=(HEIGHT) {
                    title { (nodes) " " (state) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use everynode_core::daemon_set::{SetAside, StateCounts};
    use everynode_insight::guarded::StepState;

    use super::*;

    /// G32: nodes that are set aside are apart from those that wait, and failed ones from those
    /// that are updated.
    #[test]
    fn each_state_is_a_part_of_the_bar() {
        let mut zone =
            StateCounts { done: 5, failed: 1, updating: 2, waiting: 10, ..Default::default() };
        zone.set_aside[SetAside::Down as usize] = 2;
        let wave = |name: &str, state, states| WaveNodes {
            name: Some(name.to_owned()),
            state,
            nodes: 20,
            states,
        };
        let waves = vec![
            wave("canary", StepState::Done, None),
            wave("zone <a>", StepState::Current, Some(States(zone))),
        ];
        let html = track(&RolloutNodes { all: States(zone), waves, list: None }).into_string();
        for part in [
            "5 of 20 nodes done, 2 updating, 1 failed, 2 set aside: 2 down",
            "<strong>zone &lt;a&gt;</strong>",
            "<strong>canary</strong>: 20 nodes",
            r#"<rect class="nodes-failed" x="100" y="0" width="20""#,
            r#"<rect class="nodes-set-aside" x="160" y="0" width="40""#,
            r#"<rect class="nodes-waiting" x="200" y="0" width="200""#,
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
