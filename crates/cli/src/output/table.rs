//! Tables in kubectl's style: headings and columns without lines. On a narrow terminal long cells
//! are broken, but not their words.

use comfy_table::{
    Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width, presets,
};

use super::TextLayout;

/// The role of a piece of text, which determines its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Heading,
    Good,
    Waiting,
    Bad,
    Faint,
    /// A list of names, which is never cut.
    Names,
}

/// The text of one cell.
pub(crate) type Text = (Tone, String);

/// A remark on a row, in parts that can stand on lines of their own.
pub(crate) type Remark = (Tone, Vec<String>);

/// A table of rows under headings; empty if there are no rows. On a narrow terminal long cells are
/// broken between words. If even the words are too wide, each row becomes a list of headings and
/// cells.
pub(crate) fn table(layout: TextLayout, headings: &[&str], rows: &[Vec<Text>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let last = headings.len().saturating_sub(1);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if layout.color {
        table.enforce_styling();
        // `layout` has taken NO_COLOR into account, and `--color always` overrides it.
        crossterm::style::force_color_output(true);
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
    match layout.width {
        Some(width) if !has_room(width, headings, rows) => {
            let boundaries = boundaries(headings, rows);
            if boundaries.iter().map(|width| usize::from(*width)).sum::<usize>() > width.into() {
                let none = (Tone::Plain, Vec::new());
                let rows = rows.iter().map(|row| (row.clone(), none.clone()));
                return rows.map(|row| list(layout, usize::from(width), headings, &row)).collect();
            }
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            for (column, boundary) in table.column_iter_mut().zip(boundaries) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(boundary)));
            }
        }
        Some(_) | None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

/// The width of each column with which no word is broken, with the gap after it.
fn boundaries(headings: &[&str], rows: &[Vec<Text>]) -> Vec<u16> {
    let last = headings.len().saturating_sub(1);
    let column = |(index, heading): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let words = cells.map(|(tone, text)| longest_word(&shown(*tone, text)));
        let longest = words.max().unwrap_or_default();
        let longest = u16::try_from(longest.max(heading.len())).unwrap_or(u16::MAX);
        longest.saturating_add(if index < last { GAP } else { 0 })
    };
    headings.iter().enumerate().map(column).collect()
}

fn longest_word(text: &str) -> usize {
    text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or_default()
}

/// True if no line of a table is wider than this.
pub(crate) fn has_room(width: u16, headings: &[&str], rows: &[Vec<Text>]) -> bool {
    let plain = table(TextLayout { color: false, width: None }, headings, rows);
    plain.lines().all(|line| line.chars().count() <= usize::from(width))
}

/// A table with a remark for each row, which may be long. The remark is the last column if the
/// terminal is wide enough, else its parts are lines below the row. If even the rows are too wide,
/// each row becomes a list of headings and cells.
pub(crate) fn table_with_remarks(
    layout: TextLayout,
    headings: &[&str],
    heading: &str,
    rows: &[(Vec<Text>, Remark)],
) -> String {
    let unlimited = TextLayout { width: None, ..layout };
    let all: Vec<&str> = headings.iter().copied().chain([heading]).collect();
    let together = rows.iter().map(|(row, (tone, parts))| {
        row.iter().cloned().chain([(*tone, parts.join("; "))]).collect()
    });
    let together: Vec<Vec<Text>> = together.collect();
    let Some(width) = layout.width else { return table(unlimited, &all, &together) };
    if has_room(width, &all, &together) {
        return table(unlimited, &all, &together);
    }
    let bare: Vec<_> = rows.iter().map(|(row, _)| row.clone()).collect();
    if !has_room(width, headings, &bare) {
        return rows.iter().map(|row| list(layout, usize::from(width), headings, row)).collect();
    }
    let text = table(unlimited, headings, &bare);
    let mut lines = text.lines();
    let mut shown = lines.next().map(|line| format!("{line}\n")).unwrap_or_default();
    for (line, (_, remark)) in lines.zip(rows) {
        shown += &format!("{line}\n{}", below(layout, remark));
    }
    shown
}

/// A row as a list of headings and cells over several lines, with the remark below.
fn list(
    layout: TextLayout,
    width: usize,
    headings: &[&str],
    (row, remark): &(Vec<Text>, Remark),
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
            layout.paint(Tone::Heading, heading),
            layout.paint(*tone, cell)
        );
        length = column + entry;
    }
    text + "\n" + &below(layout, remark)
}

/// The lines of a remark.
fn below(layout: TextLayout, (tone, parts): &Remark) -> String {
    parts.iter().map(|part| format!("  {}\n", layout.paint(*tone, part))).collect()
}

/// The space between two columns.
const GAP: u16 = 3;

/// The text as one line without several spaces in a row, which separate cells.
fn shown(tone: Tone, text: &str) -> String {
    let line = super::one_line(tone, text);
    let words = line.split(' ').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

fn cell(tone: Tone, text: &str) -> Cell {
    let cell = Cell::new(shown(tone, text));
    match tone {
        Tone::Plain | Tone::Names => cell,
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

    fn rows_with_remarks() -> Vec<(Vec<Text>, Remark)> {
        let remark = |(tone, text): &Text| match text.is_empty() {
            true => (*tone, Vec::new()),
            false => (*tone, vec![text.clone(), "try: kubectl logs agent-x7k2p".to_owned()]),
        };
        rows().iter().map(|row| (row[..2].to_vec(), remark(&row[2]))).collect()
    }

    const HEADINGS: &[&str] = &["NAME", "READY", "REASON"];

    #[test]
    fn lines_are_not_broken_without_a_terminal() {
        let text = table(TextLayout { color: false, width: None }, HEADINGS, &rows());
        expect![[r#"
            NAME      READY   REASON
            fluentd   3
            agent     1       CrashLoopBackOff on node-0001 and 2 other nodes
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn long_cells_are_broken_on_a_narrow_terminal() {
        let text = table(TextLayout { color: false, width: Some(40) }, HEADINGS, &rows());
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

    /// Names can be copied from a terminal of any width.
    #[test]
    fn no_word_is_broken() {
        let rows: Vec<Vec<Text>> = ["sigterm-785f4mf8jhd", "agent"]
            .map(|name| {
                ["7", name, "the image of the release"]
                    .map(|cell| (Tone::Plain, cell.to_owned()))
                    .into()
            })
            .into();
        let shown = |width| {
            let layout = TextLayout { color: false, width: Some(width) };
            table(layout, &["REVISION", "NAME", "CHANGE-CAUSE"], &rows)
        };
        expect![[r#"
            REVISION   NAME                  CHANGE-CAUSE
            7          sigterm-785f4mf8jhd   the image of the
                                             release
            7          agent                 the image of the
                                             release
        "#]]
        .assert_eq(&shown(50));
        expect![[r#"
            REVISION 7
              NAME sigterm-785f4mf8jhd
              CHANGE-CAUSE the image of the release
            REVISION 7   NAME agent
              CHANGE-CAUSE the image of the release
        "#]]
        .assert_eq(&shown(30));
    }

    #[test]
    fn a_remark_that_does_not_fit_has_its_own_line() {
        let rows = rows_with_remarks();
        let shown = |width| {
            let layout = TextLayout { color: false, width };
            table_with_remarks(layout, &HEADINGS[..2], "REASON", &rows)
        };
        expect![[r#"
            NAME      READY
            fluentd   3
            agent     1
              CrashLoopBackOff on node-0001 and 2 other nodes
              try: kubectl logs agent-x7k2p
        "#]]
        .assert_eq(&shown(Some(60)));
        assert_eq!(shown(Some(110)), shown(None));
        assert!(shown(None).lines().next().is_some_and(|line| line.ends_with("REASON")));
    }

    #[test]
    fn cells_have_their_colours() {
        let text = table(TextLayout { color: true, width: Some(80) }, HEADINGS, &rows());
        assert!(text.contains("\u{1b}["), "{text:?}");
        assert_eq!(table(TextLayout { color: true, width: None }, HEADINGS, &[]), "");
    }

    #[test]
    fn rows_that_do_not_fit_are_lists() {
        let rows = rows_with_remarks();
        let shown = |width| {
            let layout = TextLayout { color: false, width: Some(width) };
            table_with_remarks(layout, &HEADINGS[..2], "REASON", &rows)
        };
        expect![[r#"
            NAME      READY
            fluentd   3
            agent     1
              CrashLoopBackOff on node-0001 and 2 other nodes
              try: kubectl logs agent-x7k2p
        "#]]
        .assert_eq(&shown(16));
        expect![[r#"
            NAME fluentd
              READY 3
            NAME agent
              READY 1
              CrashLoopBackOff on node-0001 and 2 other nodes
              try: kubectl logs agent-x7k2p
        "#]]
        .assert_eq(&shown(12));
    }
}
