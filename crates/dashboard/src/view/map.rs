//! The map of nodes by zone: a picture with one cell for each node and few elements, since nodes in
//! a row with the same state are one line of dashes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use everynode_core::api::NodeName;
use everynode_insight::overview::NamedZone;
use everynode_insight::situation::Situation;
use maud::{Markup, html};

use super::{class, shown};

/// The width of a picture in pixels. Narrower screens scale it.
const WIDTH: usize = 1056;
/// The sizes of a cell in pixels, and the maximum number of nodes of each.
const SIZES: [(usize, usize); 3] = [(16, 300), (12, 2000), (8, usize::MAX)];

/// The zones, each with its picture, and what the cells mean. `places` is the path to which a
/// script adds zone and cell of a click.
pub(crate) fn map(zones: &[NamedZone], places: &str) -> Markup {
    let nodes: usize = zones.iter().map(|zone| zone.nodes.len()).sum();
    let size = SIZES.iter().find(|(_, max)| nodes <= *max).map_or(8, |(size, _)| *size);
    let all = counts(zones.iter().flat_map(|zone| &zone.nodes));
    html! {
        ul.legend {
            @for (situation, count) in &all {
                li class=(class(situation)) {
                    svg.sign viewBox="0 0 2 1" width="24" height="12" aria-hidden="true" {
                        path d="M0 .5h2" {}
                    }
                    span { (situation) } " " strong { (count) }
                }
            }
        }
        div.zones data-places=(places) {
            @for (index, zone) in zones.iter().enumerate() { (picture(index, zone, size)) }
        }
    }
}

fn counts<'a>(
    nodes: impl IntoIterator<Item = &'a (NodeName, Situation)>,
) -> BTreeMap<Situation, usize> {
    let mut counts = BTreeMap::new();
    for (_, situation) in nodes {
        *counts.entry(*situation).or_default() += 1;
    }
    counts
}

fn picture(index: usize, zone: &NamedZone, size: usize) -> Markup {
    let columns = (WIDTH / size).min(zone.nodes.len()).max(1);
    let rows = zone.nodes.len().div_ceil(columns).max(1);
    let counts = counts(&zone.nodes);
    let words: Vec<String> =
        counts.iter().map(|(situation, count)| format!("{count} {situation}")).collect();
    let lines = lines(zone, columns);
    let (width, height) = (columns * size, rows * size);
    html! {
        figure {
            figcaption {
                @match &zone.name {
                    Some(name) => { (shown(name)) }
                    None => { "no zone" }
                }
                ": " (zone.nodes.len()) " nodes"
            }
            svg.map role="img" aria-label=(words.join(", ")) data-zone=(index)
                data-columns=(columns) data-nodes=(zone.nodes.len())
                viewBox={ "0 0 " (columns) " " (rows) } width=(width) height=(height) {
                @for (situation, path) in &lines {
                    path class=(class(situation)) d=(path) {
                        title { (situation) ": " (counts[situation]) }
                    }
                }
            }
        }
    }
}

/// A path for each state: a line for each run of nodes, along the middle of their cells.
fn lines(zone: &NamedZone, columns: usize) -> BTreeMap<Situation, String> {
    let mut paths: BTreeMap<Situation, String> = BTreeMap::new();
    for (row, nodes) in zone.nodes.chunks(columns).enumerate() {
        let mut column = 0;
        for run in nodes.chunk_by(|a, b| a.1 == b.1) {
            let path = paths.entry(run[0].1).or_default();
            let _ = write!(path, "M{column} {row}.5h{}", run.len());
            column += run.len();
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(runs: &[(Situation, usize)]) -> NamedZone {
        let situations = runs.iter().flat_map(|(situation, count)| vec![*situation; *count]);
        let node = |(index, situation)| (NodeName::from(format!("node-{index}")), situation);
        NamedZone { name: None, nodes: situations.enumerate().map(node).collect() }
    }

    /// A line never goes on in the next row.
    #[test]
    fn nodes_with_the_same_state_are_one_line() {
        let zone = zone(&[(Situation::UpToDate, 12), (Situation::Failing, 1)]);
        let lines = lines(&zone, 10);
        assert_eq!(lines[&Situation::UpToDate], "M0 0.5h10M0 1.5h2");
        assert_eq!(lines[&Situation::Failing], "M2 1.5h1");
    }

    #[test]
    fn ten_thousand_nodes_are_a_small_picture() {
        let mixed = [(Situation::UpToDate, 7), (Situation::Outdated, 3)].repeat(1000);
        let html = map(&[zone(&mixed)], "at").into_string();
        assert!(html.contains("10000 nodes"));
        assert!(html.matches("<path").count() <= 4, "{}", html.matches("<path").count());
        assert!(html.len() < 50_000, "{} bytes", html.len());
    }
}
