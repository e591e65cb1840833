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

/// What stands in a place of a table.
pub type Text = (Tone, String);

/// Rows of cells under headings. Without rows there is nothing to show, not even headings.
pub fn table(screen: Screen, headings: &[&str], rows: &[Vec<Text>]) -> String {
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

/// A table with a remark to each row, which may be long: in a last column where that has room, else on a line of its own
/// below the row.
pub fn table_with_remarks(
    screen: Screen,
    headings: &[&str],
    heading: &str,
    rows: &[(Vec<Text>, Text)],
) -> String {
    let unlimited = Screen { width: None, ..screen };
    let all: Vec<&str> = headings.iter().copied().chain([heading]).collect();
    let together =
        rows.iter().map(|(row, remark)| [row.as_slice(), std::slice::from_ref(remark)].concat());
    let together: Vec<_> = together.collect();
    let plain = table(Screen { color: false, width: None }, &all, &together);
    let length = plain.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    if screen.width.is_none_or(|width| length <= usize::from(width)) {
        return table(unlimited, &all, &together);
    }
    let bare: Vec<_> = rows.iter().map(|(row, _)| row.clone()).collect();
    let text = table(unlimited, headings, &bare);
    let mut lines = text.lines();
    let mut shown = lines.next().map(|line| format!("{line}\n")).unwrap_or_default();
    for (line, (_, (tone, remark))) in lines.zip(rows) {
        shown += &format!("{line}\n");
        if !remark.is_empty() {
            shown += &format!("  {}\n", screen.paint(*tone, remark));
        }
    }
    shown
}

/// Between two columns.
const GAP: u16 = 3;

fn cell(tone: Tone, text: &str) -> Cell {
    let cell = Cell::new(text);
    match tone {
        Tone::Plain => cell,
        Tone::Heading => cell.add_attribute(Attribute::Bold),
        Tone::Good => cell.fg(Color::DarkGreen),
        Tone::Waiting => cell.fg(Color::DarkYellow),
        Tone::Bad => cell.fg(Color::DarkRed),
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
    fn a_remark_has_a_line_of_its_own_where_it_has_no_room() {
        let rows: Vec<_> =
            rows().into_iter().map(|row| (row[..2].to_vec(), row[2].clone())).collect();
        let shown = |width| {
            let screen = Screen { color: false, width };
            table_with_remarks(screen, &HEADINGS[..2], "REASON", &rows)
        };
        expect![[r#"
            NAME      READY
            fluentd   3
            agent     1
              CrashLoopBackOff on node-0001 and 2 other nodes
        "#]]
        .assert_eq(&shown(Some(60)));
        assert_eq!(shown(Some(100)), shown(None));
        assert!(shown(None).lines().next().is_some_and(|line| line.ends_with("REASON")));
    }

    #[test]
    fn cells_have_their_colours() {
        let text = table(Screen { color: true, width: Some(80) }, HEADINGS, &rows());
        assert!(text.contains("\u{1b}["), "{text:?}");
        assert_eq!(table(Screen { color: true, width: None }, HEADINGS, &[]), "");
    }
}
