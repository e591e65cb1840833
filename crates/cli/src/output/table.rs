//! Tables in kubectl's manner: headings, columns, no lines. On a terminal that is too narrow, long cells are broken.

use comfy_table::{
    Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width, presets,
};

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
    let last = headings.len().saturating_sub(1);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if screen.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(headings.iter().map(|heading| cell(Tone::Heading, heading)));
    for row in rows {
        table.add_row(row.iter().map(|(tone, text)| cell(*tone, text)));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index < last { GAP } else { 0 }));
    }
    match screen.width {
        Some(width) if !has_room(width, headings, rows) => narrow(&mut table, width, headings),
        Some(_) | None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

/// Breaks cells, but no heading.
fn narrow(table: &mut Table, width: u16, headings: &[&str]) {
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    let last = headings.len().saturating_sub(1);
    for ((index, column), heading) in table.column_iter_mut().enumerate().zip(headings) {
        let length = u16::try_from(heading.len()).unwrap_or(u16::MAX);
        let boundary = length.saturating_add(if index < last { GAP } else { 0 });
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(boundary)));
    }
}

fn has_room(width: u16, headings: &[&str], rows: &[Vec<Text>]) -> bool {
    let plain = table(Screen { color: false, width: None }, headings, rows);
    plain.lines().all(|line| line.chars().count() <= usize::from(width))
}

/// A table with a remark to each row, which may be long: in a last column where that has room, else on a line of its own
/// below the row. Where not even the rows have room, each is a list of what it has.
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
    let Some(width) = screen.width else { return table(unlimited, &all, &together) };
    if has_room(width, &all, &together) {
        return table(unlimited, &all, &together);
    }
    let bare: Vec<_> = rows.iter().map(|(row, _)| row.clone()).collect();
    if !has_room(width, headings, &bare) {
        return rows.iter().map(|row| list(screen, usize::from(width), headings, row)).collect();
    }
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

/// A row as its headings and cells, in as many lines as they take, and its remark below.
fn list(
    screen: Screen,
    width: usize,
    headings: &[&str],
    (row, remark): &(Vec<Text>, Text),
) -> String {
    let mut text = String::new();
    let mut length = 0;
    for (heading, (tone, cell)) in headings.iter().zip(row) {
        let entry = heading.chars().count() + 1 + cell.chars().count();
        let gap = usize::from(GAP);
        let (before, column) = match length {
            0 => ("", 0),
            _ if length + gap + entry > width => ("\n  ", 2),
            _ => ("   ", length + gap),
        };
        text += &format!(
            "{before}{} {}",
            screen.paint(Tone::Heading, heading),
            screen.paint(*tone, cell)
        );
        length = column + entry;
    }
    let (tone, remark) = remark;
    if !remark.is_empty() {
        text += &format!("\n  {}", screen.paint(*tone, remark));
    }
    text + "\n"
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

    /// A phone at three in the morning.
    #[test]
    fn rows_that_have_no_room_are_lists() {
        let rows: Vec<_> = rows()
            .into_iter()
            .map(|mut row| {
                let remark = row.pop().expect("it has three");
                (row, remark)
            })
            .collect();
        let shown = |width| {
            let screen = Screen { color: false, width: Some(width) };
            table_with_remarks(screen, &HEADINGS[..2], "REASON", &rows)
        };
        expect![[r#"
            NAME      READY
            fluentd   3
            agent     1
              CrashLoopBackOff on node-0001 and 2 other nodes
        "#]]
        .assert_eq(&shown(16));
        expect![[r#"
            NAME fluentd
              READY 3
            NAME agent
              READY 1
              CrashLoopBackOff on node-0001 and 2 other nodes
        "#]]
        .assert_eq(&shown(12));
    }
}
