//! Tables in kubectl's manner: headings, columns, no lines. On a terminal that is too narrow, long cells are broken.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};

use super::Screen;

/// What a piece of text is about, for its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Heading,
    Good,
    Waiting,
    Bad,
    Faint,
}

/// Rows of cells under headings. Without rows there is nothing to show, not even headings.
pub fn table(screen: Screen, headings: &[&str], rows: &[Vec<(Tone, String)>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    match screen.width {
        Some(width) => {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    if screen.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(headings.iter().map(|heading| cell(Tone::Heading, heading)));
    for row in rows {
        table.add_row(row.iter().map(|(tone, text)| cell(*tone, text)));
    }
    let last = headings.len().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index < last { GAP } else { 0 }));
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

/// Between two columns.
const GAP: u16 = 3;

fn cell(tone: Tone, text: &str) -> Cell {
    let cell = Cell::new(text);
    match tone {
        Tone::Plain => cell,
        Tone::Heading => cell.add_attribute(Attribute::Bold),
        Tone::Good => cell.fg(Color::Green),
        Tone::Waiting => cell.fg(Color::Yellow),
        Tone::Bad => cell.fg(Color::Red),
        Tone::Faint => cell.add_attribute(Attribute::Dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn rows() -> Vec<Vec<(Tone, String)>> {
        let row = |cells: [&str; 3]| {
            let [name, ready, reason] = cells.map(str::to_owned);
            vec![(Tone::Plain, name), (Tone::Good, ready), (Tone::Bad, reason)]
        };
        vec![
            row(["fluentd", "3", ""]),
            row(["agent", "1", "CrashLoopBackOff on node-0001 and 2 other nodes"]),
        ]
    }

    const HEADINGS: &[&str] = &["NAME", "READY", "REASON"];

    #[test]
    fn lines_are_as_long_as_they_are_when_nobody_looks() {
        let text = table(Screen { color: false, width: None }, HEADINGS, &rows());
        expect![[r#"
            NAME      READY   REASON
            fluentd   3
            agent     1       CrashLoopBackOff on node-0001 and 2 other nodes
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn long_cells_are_broken_on_a_narrow_terminal() {
        let text = table(Screen { color: false, width: Some(40) }, HEADINGS, &rows());
        expect![[r#"
            NAME      READY   REASON
            fluentd   3
            agent     1       CrashLoopBackOff on
                              node-0001 and 2 other
                              nodes
        "#]]
        .assert_eq(&text);
        assert!(text.lines().all(|line| line.len() <= 40));
    }

    #[test]
    fn cells_have_their_colours() {
        let text = table(Screen { color: true, width: Some(80) }, HEADINGS, &rows());
        assert!(text.contains("\u{1b}["), "{text:?}");
        assert_eq!(table(Screen { color: true, width: None }, HEADINGS, &[]), "");
    }
}
