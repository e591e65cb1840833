//! The effects of applying a manifest.

use everynode_insight::age;
use everynode_insight::forecast::{Action, Forecast, GuardedWave, NodeChanges, Wave};
use everynode_insight::names;
use everynode_insight::overridden::OverriddenNodes;
use maud::{Markup, html};

use super::diff::changes;
use super::shown;

/// One DaemonSet.
pub(crate) fn forecast(forecast: &Forecast) -> Markup {
    let Forecast { namespace, name, update_strategy, .. } = forecast;
    let action = match forecast.action {
        Action::Create => "would be created",
        Action::Change => "would change",
        Action::Nothing => "would not change: nothing to do",
    };
    html! {
        h2 { "DaemonSet " (shown(&format!("{namespace}/{name}"))) " " (action) }
        p { (shown(&update_strategy.to_string())) }
        @for problem in &forecast.problems { p.bad { (shown(problem)) } }
        @if !forecast.changes.is_empty() { h3 { "Fields" } (changes(&forecast.changes)) }
        @if !forecast.is_nothing_to_do() { (effects(forecast)) }
    }
}

fn effects(forecast: &Forecast) -> Markup {
    html! {
        @if let Some(changes) = &forecast.nodes { h3 { "Nodes" } (nodes(changes)) }
        @if !forecast.guarded_waves.is_empty() {
            h3 { "Waves of the policy" } (guarded_waves(&forecast.guarded_waves))
        } @else if !forecast.waves.is_empty() {
            h3 { "Order" } (waves(&forecast.waves))
        }
        @if !forecast.overrides.is_empty() { h3 { "Overrides" } (overrides(&forecast.overrides)) }
        h3 { "Duration" }
        @match &forecast.duration {
            Some(duration) => {
                p {
                    (age::duration(duration.typical_seconds)) " with typical timings, "
                    (age::duration(duration.worst_seconds)) " with the worst ones"
                }
            }
            None => { p { "Unknown: no start of its pods was observed." } }
        }
        @if !forecast.unfinished.is_empty() {
            h3 { "Not finished" }
            ul.groups {
                @for group in &forecast.unfinished {
                    li.state-stuck {
                        p { strong.count { (group.nodes.len()) } " " (shown(&group.why)) }
                        p.names { (all(&group.nodes)) }
                    }
                }
            }
        }
        @if !forecast.risks.is_empty() {
            h3 { "Risks" }
            ul.notes {
                @for risk in &forecast.risks {
                    li {
                        (shown(&risk.message))
                        @if !risk.nodes.is_empty() { ": " (all(&risk.nodes)) }
                    }
                }
            }
        }
    }
}

fn nodes(changes: &NodeChanges) -> Markup {
    let sides = [
        ("get a pod", &changes.gain),
        ("lose their pod", &changes.lose),
        ("get a new pod", &changes.replace),
        ("keep their pod", &changes.keep),
    ];
    let rows = sides.into_iter().filter(|(_, nodes)| !nodes.is_empty());
    html! {
        table {
            thead {
                tr { @for heading in ["Nodes", "What", "Which"] { th scope="col" { (heading) } } }
            }
            tbody {
                @for (what, nodes) in rows {
                    tr { td.number { (nodes.len()) } th scope="row" { (what) } td { (all(nodes)) } }
                }
                @if changes.without > 0 {
                    tr {
                        td.number { (changes.without) }
                        th scope="row" { "have no pod before and after" } td {}
                    }
                }
            }
        }
    }
}

fn waves(waves: &[Wave]) -> Markup {
    html! {
        table.cards {
            thead {
                tr {
                    @for heading in ["Number", "Starts after", "Nodes", "Which"] {
                        th scope="col" { (heading) }
                    }
                }
            }
            tbody {
                @for (index, wave) in waves.iter().enumerate() {
                    tr {
                        th scope="row" data-label="Wave" { (index + 1) }
                        td data-label="Starts after" { (age::exact(wave.starts_after_seconds)) }
                        td.number data-label="Nodes" { (wave.nodes.len()) }
                        td data-label="Which" { (all(&wave.nodes)) }
                    }
                }
            }
        }
    }
}

fn overrides(overrides: &[OverriddenNodes]) -> Markup {
    html! {
        table.cards {
            thead {
                tr {
                    @for heading in ["Name", "Nodes", "Which"] { th scope="col" { (heading) } }
                }
            }
            tbody {
                @for it in overrides {
                    tr {
                        th scope="row" { (shown(&it.name)) }
                        td.number data-label="Nodes" { (it.nodes.len()) }
                        td data-label="Which" { (all(&it.nodes)) }
                    }
                }
            }
        }
    }
}

fn guarded_waves(waves: &[GuardedWave]) -> Markup {
    html! {
        table.cards {
            thead {
                tr {
                    @for heading in ["Wave", "Starts after", "Bake", "Approval", "Nodes", "Which"] {
                        th scope="col" { (heading) }
                    }
                }
            }
            tbody {
                @for wave in waves {
                    tr {
                        @let name = wave.name.as_deref().unwrap_or("all other nodes");
                        th scope="row" { (shown(name)) }
                        td data-label="Starts after" { (age::exact(wave.starts_after_seconds)) }
                        td data-label="Bake" { (age::duration(wave.bake_seconds)) }
                        td data-label="Approval" { @if wave.approval { "yes" } @else { "-" } }
                        td.number data-label="Nodes" { (wave.nodes.len()) }
                        td data-label="Which" { (all(&wave.nodes)) }
                    }
                }
            }
        }
    }
}

/// All names, in short form.
fn all(nodes: &[String]) -> Markup {
    let names = names::compressed(nodes.iter().map(String::as_str));
    html! {
        @for (index, name) in names.iter().enumerate() {
            @if index > 0 { ", " }
            (shown(name))
        }
    }
}
