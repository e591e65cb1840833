//! The map of nodes by zone: one cell for each node. If the nodes don't fit, a cell stands for
//! several nodes and shows the worst.

use everynode_insight::overview::Zone;
use everynode_insight::situation::Situation;
use ratatui::text::{Line, Span};

use super::palette::{self, Palette};
use crate::output::Tone;

/// A drawn map.
pub(crate) struct Map {
    pub lines: Vec<Line<'static>>,
    pub nodes_per_cell: usize,
}

/// The minimum number of cells in a line.
const CELLS_MIN: usize = 8;
/// The maximum width of a zone's name. Longer names lose their beginning.
const LABEL_MAX: usize = 20;
/// The space between two columns.
const GAP: usize = 2;
/// The possible numbers of nodes per cell.
const SCALES: [usize; 13] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

/// The map with the fewest nodes per cell that fits.
pub(crate) fn map(zones: &[Zone], width: usize, height: usize, palette: Palette) -> Map {
    let fitting = Grid::fitting(zones, width, height);
    match fitting {
        Some(grid) => grid.draw(zones, palette),
        // There are more zones than lines.
        None if zones.len() > 1 => map(&[all(zones)], width, height, palette),
        None => Map { lines: Vec::new(), nodes_per_cell: 1 },
    }
}

/// The number of lines of a map with one cell for each node in one column.
pub(crate) fn lines_wanted(zones: &[Zone], width: usize) -> usize {
    Grid::new(zones, width, 1, 1)
        .map_or(0, |grid| zones.iter().map(|zone| grid.lines_of(zone)).sum())
}

fn all(zones: &[Zone]) -> Zone {
    let nodes = zones.iter().flat_map(|zone| zone.nodes.iter().copied()).collect();
    Zone { name: Some("all zones".to_owned()), nodes }
}

/// The layout of a map: columns of lines. A zone has consecutive lines, as many as its cells need.
#[derive(Clone, Copy)]
struct Grid {
    nodes_per_cell: usize,
    columns: usize,
    label: usize,
    cells: usize,
}

impl Grid {
    /// The layout with the fewest nodes per cell that fits, and of those the one with the fewest
    /// columns.
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

    /// Reduces the width of the columns to the longest line.
    fn trimmed(self, zones: &[Zone]) -> Self {
        let cells = zones.iter().map(|zone| zone.nodes.len().div_ceil(self.nodes_per_cell));
        Self { cells: self.cells.min(cells.max().unwrap_or(1)).max(1), ..self }
    }

    /// `None` if a line would have too few cells.
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

    /// The lines of a zone, padded to the width of the column.
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

/// One span for each run of equal cells.
fn runs(cells: &[Situation], palette: Palette) -> impl Iterator<Item = Span<'static>> {
    cells.chunk_by(|a, b| a == b).map(move |run| {
        let text = palette::sign(run[0]).repeat(run.len());
        palette.span(palette::tone(run[0]), text)
    })
}

fn label(zone: &Zone) -> &str {
    zone.name.as_deref().unwrap_or("no zone")
}

/// The end of the text, since the names of zones usually differ there.
fn ending(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let end = text.chars().skip(length + 1 - width);
    std::iter::once('…').chain(end).collect()
}
