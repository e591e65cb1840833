//! The picture in docs/: the screen of an example as SVG.

use std::fmt::Write as _;

use expect_test::expect_file;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::{COLOR, drawn};
use crate::cmd::watch::example::{self, Example};
use crate::cmd::watch::view::Position;

const SIZE: (u16, u16) = (100, 34);
const CELL_WIDTH: usize = 8;
const CELL_HEIGHT: usize = 17;
const MARGIN: usize = 12;

#[test]
fn the_picture_in_the_docs_is_up_to_date() {
    let view = example::view(Example::Large);
    let buffer = drawn(&view, Position::default(), SIZE, COLOR);
    expect_file!["../../../../../../../docs/watch.svg"].assert_eq(&svg(&buffer));
}

fn svg(buffer: &Buffer) -> String {
    let (columns, rows) = (usize::from(SIZE.0), usize::from(SIZE.1));
    let width = columns * CELL_WIDTH + 2 * MARGIN;
    let height = rows * CELL_HEIGHT + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\">\n\
         <title>everynode watch</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1d23\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', \
         monospace\" font-size=\"13\">\n"
    );
    for (row, cells) in buffer.content().chunks(columns).enumerate() {
        let mut column = 0;
        for run in cells.chunk_by(|a, b| (a.fg, a.modifier) == (b.fg, b.modifier)) {
            let x = MARGIN + column * CELL_WIDTH;
            let y = MARGIN + row * CELL_HEIGHT + 13;
            column += run.len();
            let text: String = run.iter().map(Cell::symbol).collect();
            if text.trim().is_empty() {
                continue;
            }
            let length = run.len() * CELL_WIDTH;
            let weight =
                if run[0].modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            let fill = fill(&run[0]);
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" fill=\"{fill}\"{weight} \
                 xml:space=\"preserve\">{text}</text>"
            );
        }
    }
    svg + "</g>\n</svg>\n"
}

fn fill(cell: &Cell) -> &'static str {
    match cell.fg {
        Color::Green => "#5fcf80",
        Color::Yellow => "#e5c07b",
        Color::Red => "#f2777a",
        _ if cell.modifier.contains(Modifier::DIM) => "#7f848e",
        _ => "#dcdfe4",
    }
}
