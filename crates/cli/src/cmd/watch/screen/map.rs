//! Nodes as a map: a cell for each, by zone. Where they do not fit, a cell is several of them, and shows the worst.

use everynode_insight::overview::Zone;
use everynode_insight::situation::Situation;
use ratatui::text::{Line, Span};

use super::palette::{self, Palette};
use crate::output::Tone;

pub struct Map {
    pub lines: Vec<Line<'static>>,
    pub nodes_per_cell: usize,
}

/// Fewer cells on a line say nothing.
const CELLS_MIN: usize = 8;
/// Longer names of zones lose their beginning.
const LABEL_MAX: usize = 20;
/// Between two columns.
const GAP: usize = 2;
/// So many nodes may be one cell.
const SCALES: [usize; 13] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

/// The map in the largest scale that fits.
pub fn map(zones: &[Zone], width: usize, height: usize, palette: Palette) -> Map {
    let fitting = Grid::fitting(zones, width, height);
    match fitting {
        Some(grid) => grid.draw(zones, palette),
        // Too many zones even for a line each.
        None if zones.len() > 1 => map(&[all(zones)], width, height, palette),
        None => Map { lines: Vec::new(), nodes_per_cell: 1 },
    }
}

/// So many lines show a cell for each node, in one column.
pub fn lines_wanted(zones: &[Zone], width: usize) -> usize {
    Grid::new(zones, width, 1, 1)
        .map_or(0, |grid| zones.iter().map(|zone| grid.lines_of(zone)).sum())
}

fn all(zones: &[Zone]) -> Zone {
    let nodes = zones.iter().flat_map(|zone| zone.nodes.iter().copied()).collect();
    Zone { name: Some("all zones".to_owned()), nodes }
}

/// Columns of lines; a zone has as many lines, one after the other, as its cells need.
#[derive(Clone, Copy)]
struct Grid {
    nodes_per_cell: usize,
    columns: usize,
    label: usize,
    cells: usize,
}

impl Grid {
    /// The one with the fewest nodes to a cell, and of those the one with the fewest columns.
    fn fitting(zones: &[Zone], width: usize, height: usize) -> Option<Self> {
        let fits = |grid: &Self| {
            let lines: usize = zones.iter().map(|zone| grid.lines_of(zone)).sum();
            lines <= height * grid.columns
        };
        let grid = SCALES.iter().find_map(|&nodes_per_cell| {
            let grids = (1..).map_while(|columns| Self::new(zones, width, columns, nodes_per_cell));
            grids.into_iter().find(&fits)
        });
        grid.map(|grid| grid.trimmed(zones))
    }

    /// Columns no wider than their longest line.
    fn trimmed(self, zones: &[Zone]) -> Self {
        let cells = zones.iter().map(|zone| zone.nodes.len().div_ceil(self.nodes_per_cell));
        Self { cells: self.cells.min(cells.max().unwrap_or(1)).max(1), ..self }
    }

    /// None if there would be too few cells on a line.
    fn new(zones: &[Zone], width: usize, columns: usize, nodes_per_cell: usize) -> Option<Self> {
        let longest = zones.iter().map(|zone| label(zone).chars().count()).max().unwrap_or(0);
        let label = longest.min(LABEL_MAX);
        let cells = ((width + GAP) / columns).checked_sub(label + 1 + GAP)?;
        (cells >= CELLS_MIN).then_some(Self { nodes_per_cell, columns, label, cells })
    }

    fn lines_of(self, zone: &Zone) -> usize {
        zone.nodes.len().div_ceil(self.nodes_per_cell).div_ceil(self.cells)
    }

    fn draw(self, zones: &[Zone], palette: Palette) -> Map {
        let pieces: Vec<Vec<Span<'static>>> =
            zones.iter().flat_map(|zone| self.zone(zone, palette)).collect();
        let height = pieces.len().div_ceil(self.columns);
        let mut lines = vec![Vec::new(); height];
        for (index, piece) in pieces.into_iter().enumerate() {
            let line: &mut Vec<Span<'static>> = &mut lines[index % height];
            if !line.is_empty() {
                line.push(Span::raw(" ".repeat(GAP)));
            }
            line.extend(piece);
        }
        let lines = lines.into_iter().map(Line::from).collect();
        Map { lines, nodes_per_cell: self.nodes_per_cell }
    }

    /// The zone's lines, each as wide as the column.
    fn zone(self, zone: &Zone, palette: Palette) -> Vec<Vec<Span<'static>>> {
        let worst = |nodes: &[Situation]| nodes.iter().min().copied();
        let cells: Vec<Situation> =
            zone.nodes.chunks(self.nodes_per_cell).filter_map(worst).collect();
        let lines = cells.chunks(self.cells).enumerate();
        lines
            .map(|(index, cells)| {
                let mut spans = Vec::new();
                let label =
                    if index == 0 { ending(label(zone), self.label) } else { String::new() };
                spans.push(palette.span(Tone::Plain, format!("{label:<0$} ", self.label)));
                spans.extend(runs(cells, palette));
                spans.push(Span::raw(" ".repeat(self.cells - cells.len())));
                spans
            })
            .collect()
    }
}

/// One span for each run of cells that look the same.
fn runs(cells: &[Situation], palette: Palette) -> impl Iterator<Item = Span<'static>> {
    cells.chunk_by(|a, b| a == b).map(move |run| {
        let text = palette::sign(run[0]).repeat(run.len());
        palette.span(palette::tone(run[0]), text)
    })
}

fn label(zone: &Zone) -> &str {
    zone.name.as_deref().unwrap_or("no zone")
}

/// The end is what tells zones apart.
fn ending(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let end = text.chars().skip(length + 1 - width);
    std::iter::once('…').chain(end).collect()
}
